//! Bytes of backups in memory. They are generated once and given to each store, so that no measured
//! time includes their generation.

use std::ops::Range;

use ingest::{StreamPiece, StreamSource};
use simulate::{BackupHead, Extent, SimulateError};

use crate::error::LabError;
use crate::generate::{Compression, Parts, Slice, Workload};

/// The next piece of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Data(usize),
    Zeros(u64),
}

/// A backup.
#[derive(Debug, Default)]
pub(in crate::reproduce) struct Content {
    /// Its series: the part of its name before the week, or before its number.
    pub(in crate::reproduce) series: String,
    /// Whether the backup is full or incremental, if that is known.
    pub(in crate::reproduce) extent: Option<Extent>,
    /// All bytes but zeros.
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Content {
    /// A backup of these bytes.
    pub(in crate::reproduce) fn of(series: &str, bytes: Vec<u8>) -> Self {
        Self {
            series: series.to_owned(),
            extent: None,
            pieces: vec![Piece::Data(bytes.len())],
            bytes,
        }
    }

    /// Bytes without zeros. All figures leave zeros out, as the paper does.
    pub(in crate::reproduce) fn data_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(in crate::reproduce) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn begin(&mut self, head: &BackupHead) {
        series_of(&head.name).clone_into(&mut self.series);
        self.extent = Some(head.extent);
        self.bytes.clear();
        self.pieces.clear();
    }

    fn add(&mut self, slice: Slice, seed: u64) {
        let len = slice.len();
        if slice.is_zeros() {
            match self.pieces.last_mut() {
                Some(Piece::Zeros(zeros)) => *zeros += u64::from(len),
                _ => self.pieces.push(Piece::Zeros(len.into())),
            }
            return;
        }
        slice.write(seed, Compression::None, &mut self.bytes);
        match self.pieces.last_mut() {
            Some(Piece::Data(data)) => *data += len as usize,
            _ => self.pieces.push(Piece::Data(len as usize)),
        }
    }

    /// The backup as a source.
    pub(in crate::reproduce) fn source(&self) -> ContentSource<'_> {
        ContentSource {
            content: self,
            piece: 0,
            at: 0,
            data: 0..0,
        }
    }
}

fn series_of(name: &str) -> &str {
    let parted = name.split_once("-week-").or_else(|| name.rsplit_once('-'));
    parted.map_or(name, |(series, _)| series)
}

/// A backup as a stream.
#[derive(Debug)]
pub(in crate::reproduce) struct ContentSource<'a> {
    content: &'a Content,
    piece: usize,
    at: usize,
    /// The remaining range of the current data.
    data: Range<usize>,
}

impl StreamSource for ContentSource<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        if self.data.is_empty() {
            let Some(piece) = self.content.pieces.get(self.piece) else {
                return Ok(StreamPiece::End);
            };
            self.piece += 1;
            match piece {
                Piece::Zeros(zeros) => return Ok(StreamPiece::Zeros(*zeros)),
                Piece::Data(len) => {
                    self.data = self.at..self.at + len;
                    self.at += len;
                }
            }
        }
        let len = self.data.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.content.bytes[self.data.start..self.data.start + len]);
        self.data.start += len;
        Ok(StreamPiece::Data(len))
    }
}

/// Generates each backup of a workload, the oldest first, and passes it to `take`.
///
/// # Errors
/// Errors of the workload, and of `take`.
pub(in crate::reproduce) fn each(
    workload: &dyn Workload,
    mut take: impl FnMut(&Content) -> Result<(), LabError>,
) -> Result<(), LabError> {
    workload.generate(&mut Collect {
        seed: workload.seed(),
        content: Content::default(),
        take: &mut take,
    })?;
    Ok(())
}

struct Collect<'a> {
    seed: u64,
    content: Content,
    take: &'a mut dyn FnMut(&Content) -> Result<(), LabError>,
}

impl Parts for Collect<'_> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.content.begin(head);
        Ok(())
    }

    fn chunks(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        self.chunk(slices)
    }

    fn chunk(&mut self, slices: &[Slice]) -> Result<(), SimulateError> {
        for slice in slices {
            self.content.add(*slice, self.seed);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        (self.take)(&self.content)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Images, TwoYear};

    #[test]
    fn a_content_is_read_as_declared_with_every_buffer() {
        const IMAGE: u64 = 40 << 20;
        let images = Images {
            weeks: 2,
            ..Images::sg(1).unwrap().scaled(IMAGE)
        };
        let mut told = 0;
        each(&images, |content| {
            assert_eq!(content.series, "sg1");
            for room in [1000, 1 << 20] {
                let (mut source, mut buffer, mut all) = (content.source(), vec![0; room], Vec::new());
                loop {
                    match source.next(&mut buffer).unwrap() {
                        StreamPiece::Data(len) => all.extend_from_slice(&buffer[..len]),
                        StreamPiece::Zeros(len) => all.resize(all.len() + usize::try_from(len).unwrap(), 0),
                        StreamPiece::Copy { .. } => unreachable!("nothing is copied"),
                        StreamPiece::End => break,
                    }
                }
                assert_eq!(all.len() as u64, IMAGE);
                let data = usize::try_from(content.data_bytes()).unwrap();
                assert!(all[..data] == content.bytes()[..] && all[data..].iter().all(|byte| *byte == 0));
            }
            told += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(told, 2);
    }

    #[test]
    fn numbered_backups_are_of_one_series_and_declare_their_extents() {
        let load = TwoYear {
            snapshot_bytes: 1_000_000,
            weeks: 2,
            ..TwoYear::default()
        };
        let mut extents = Vec::new();
        each(&load, |content| {
            assert_eq!(content.series, "2year");
            extents.push(content.extent == Some(Extent::Full));
            Ok(())
        })
        .unwrap();
        let week = [true, false, false, false, false];
        assert_eq!(extents, [week, week].concat());
    }
}

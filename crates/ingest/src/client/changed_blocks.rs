//! A disk image with known changes: a hypervisor's dirty bitmap, or a file system's list of
//! extents. Only changed blocks are read. The rest is copied from the backup to which the list
//! refers (B3).

use std::io::{self, Read, Seek, SeekFrom};

use types::ByteRange;

use crate::client::stream_source::{StreamPiece, StreamSource};

/// An image's changed blocks, and the stream that has all other blocks.
#[derive(Debug)]
pub struct ChangedBlocks<R> {
    image: R,
    len: u64,
    /// The ranges to read, in order: disjoint, not empty, multiples of a chunk except at the
    /// image's end.
    changed: Vec<ByteRange>,
    /// The first of them that does not end before `at`.
    next: usize,
    at: u64,
    /// The position of the image's reader.
    reader_at: Option<u64>,
}

impl<R: Read + Seek + Send> ChangedBlocks<R> {
    /// An image of `len` bytes. `changed` may be in any order and overlap; it is rounded outward to
    /// multiples of `chunk_bytes`. Bytes beyond the parent's `parent_len` are read, too.
    ///
    /// Every byte outside of `changed` must equal the parent's byte there. This is not checked.
    pub fn new(image: R, len: u64, parent_len: u64, changed: &[ByteRange], chunk_bytes: u32) -> Self {
        let chunk = u64::from(chunk_bytes).max(1);
        let tail = parent_len - parent_len % chunk;
        let grown = (tail < len && parent_len != len).then(|| ByteRange {
            offset: tail,
            len: len - tail,
        });
        let mut rounded: Vec<(u64, u64)> = changed
            .iter()
            .chain(&grown)
            .filter(|range| range.len > 0 && range.offset < len)
            .map(|range| {
                let end = range.offset.saturating_add(range.len).min(len);
                let end = end
                    .checked_next_multiple_of(chunk)
                    .map_or(len, |end| end.min(len));
                (range.offset - range.offset % chunk, end)
            })
            .collect();
        rounded.sort_unstable();
        let mut joined: Vec<ByteRange> = Vec::new();
        for (begin, end) in rounded {
            match joined.last_mut() {
                Some(last) if last.end() >= begin => last.len = last.len.max(end - last.offset),
                _ => joined.push(ByteRange {
                    offset: begin,
                    len: end - begin,
                }),
            }
        }
        Self {
            image,
            len,
            changed: joined,
            next: 0,
            at: 0,
            reader_at: None,
        }
    }

    /// Bytes of the image that are read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.changed.iter().map(|range| range.len).sum()
    }
}

impl<R: Read + Seek + Send> StreamSource for ChangedBlocks<R> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        while self
            .changed
            .get(self.next)
            .is_some_and(|range| range.end() <= self.at)
        {
            self.next += 1;
        }
        let changed = self.changed.get(self.next);
        let end = match changed {
            Some(range) if range.offset <= self.at => range.end(),
            _ => {
                let end = changed.map_or(self.len, |range| range.offset);
                let range = ByteRange {
                    offset: self.at,
                    len: end - self.at,
                };
                self.at = end;
                return Ok(match range.len {
                    0 => StreamPiece::End,
                    _ => StreamPiece::Copy { parent: 0, range },
                });
            }
        };
        if self.reader_at != Some(self.at) {
            self.image.seek(SeekFrom::Start(self.at))?;
        }
        let room = usize::try_from(end - self.at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let len = loop {
            match self.image.read(&mut buffer[..room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if len == 0 {
            let what = format!("the image ends at {}, not at {}", self.at, self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        self.at += len as u64;
        self.reader_at = Some(self.at);
        Ok(StreamPiece::Data(len))
    }

    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        if position > self.len {
            let what = format!("the image has {} bytes, fewer than were stored", self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        (self.at, self.next) = (position, 0);
        Ok(true)
    }

    fn goes_back(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = ByteRange> {
        (0..5000_u64, 0..900_u64).prop_map(|(offset, len)| ByteRange { offset, len })
    }

    proptest! {
        /// The pieces make up the image, and each copied range keeps the grid of chunks.
        #[test]
        fn pieces_add_up_to_the_image(
            parent in prop::collection::vec(any::<u8>(), 0..4000),
            len in 0..4000_usize,
            changed in prop::collection::vec(range(), 0..8),
            chunk in 1..300_u32,
            room in 1..1000_usize,
        ) {
            let mut image = parent.clone();
            image.resize(len, 7);
            for range in &changed {
                for at in range.offset..range.end().min(len as u64) {
                    image[usize::try_from(at).unwrap()] ^= 0x55;
                }
            }
            let parent_len = parent.len() as u64;
            let mut source =
                ChangedBlocks::new(Cursor::new(&image), len as u64, parent_len, &changed, chunk);
            let (mut made, mut buffer, mut read) = (Vec::new(), vec![0; room], 0);
            loop {
                match source.next(&mut buffer).unwrap() {
                    StreamPiece::Data(len) => {
                        made.extend_from_slice(&buffer[..len]);
                        read += len as u64;
                    }
                    StreamPiece::Copy { parent: from, range } => {
                        prop_assert_eq!(from, 0);
                        prop_assert_eq!(range.offset, made.len() as u64);
                        prop_assert_eq!(range.offset % u64::from(chunk), 0);
                        let is_end = range.end() == len as u64;
                        prop_assert!(range.end() % u64::from(chunk) == 0 || is_end);
                        let end = usize::try_from(range.end()).unwrap();
                        made.extend_from_slice(&parent[made.len()..end]);
                    }
                    StreamPiece::Zeros(_) => unreachable!("none are made"),
                    StreamPiece::End => break,
                }
            }
            prop_assert_eq!(&made, &image);
            prop_assert_eq!(read, source.bytes_read());
        }
    }

    #[test]
    fn an_image_that_is_shorter_than_said_is_an_error() {
        let changed = [ByteRange { offset: 90, len: 20 }];
        let mut source = ChangedBlocks::new(Cursor::new(vec![1; 100]), 110, 110, &changed, 10);
        let mut buffer = [0; 64];
        assert!(matches!(
            source.next(&mut buffer).unwrap(),
            StreamPiece::Copy { .. }
        ));
        assert_eq!(source.next(&mut buffer).unwrap(), StreamPiece::Data(10));
        assert_eq!(
            source.next(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}

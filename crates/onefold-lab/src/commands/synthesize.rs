//! `onefold-lab synthesize`: a virtual full backup of a file, from a list of its pieces (B3).

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cli_support::output::bytes;
use cli_support::{Code, Output, progress};
use client::{RemoteRepository, Target};
use onefold::repository::Repository;
use onefold::{
    BackupOptions, ByteRange, Monitor, ParentStream, SessionId, StreamOptions, StreamPiece, StreamRole,
    StreamSource, SystemClock, SystemEntropy, operations,
};
use serde::Serialize;

use crate::args::Synthesize;

#[derive(Serialize)]
struct Synthesized {
    message_type: &'static str,
    bytes: u64,
    bytes_read: u64,
    bytes_new: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

pub(super) fn run(args: &Synthesize, output: Output) -> Result<Code> {
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let target = Target::Tunnel {
        tunnel: args.repo.parse()?,
        ssh: "ssh".into(),
    };
    let entropy: Arc<dyn onefold::Entropy> = Arc::new(SystemEntropy);
    let repository = client::open(target, &clock, &entropy)?.into_repository()?;
    let stream = StreamOptions::default()
        .fixed_chunk_bytes(args.image_kib.map(|kib| kib << 10))
        .parents(vec![ParentStream::new(
            parent(&repository, args)?,
            StreamRole::Whole,
        )]);
    let mut source = Pieces::open(args)?;
    let options = BackupOptions::default().host(args.host.as_bytes());
    let monitor = Monitor::new(cli_support::watch()?);
    let status = || super::status(&monitor_done(&monitor));
    let report = progress::beside(output, "synthesize", &status, || {
        operations::back_up_stream(&repository, &options, &args.name, &stream, &mut source, &monitor)
    })?;
    let (totals, traffic) = (&report.totals, repository.traffic());
    output.line(format!(
        "{} = {} read + {} copied; {} sent",
        bytes(totals.bytes_logical),
        bytes(totals.bytes_read),
        bytes(totals.bytes_logical.saturating_sub(totals.bytes_read)),
        bytes(traffic.sent()),
    ))?;
    output.object(&Synthesized {
        message_type: "lab_synthesized",
        bytes: totals.bytes_logical,
        bytes_read: totals.bytes_read,
        bytes_new: totals.bytes_new,
        bytes_sent: traffic.sent(),
        bytes_received: traffic.received(),
    })?;
    Ok(Code::Success)
}

fn monitor_done(monitor: &Monitor) -> std::sync::atomic::AtomicU64 {
    monitor.counters.bytes_logical.get().into()
}

/// The last backup of the series.
fn parent(repository: &RemoteRepository, args: &Synthesize) -> Result<SessionId> {
    let list = repository.snapshots()?;
    let is_of_series = |name: &onefold::SeriesName| {
        name.host == args.host.as_bytes() && name.paths == [args.name.as_os_str().as_bytes()]
    };
    let mut backups = list.snapshots.iter().rev();
    let last = backups.find(|snapshot| is_of_series(&snapshot.backup.series));
    let last = last.with_context(|| {
        format!(
            "{} has no backup of {} from the host {} to copy from",
            args.repo,
            args.name.display(),
            args.host
        )
    })?;
    Ok(last.id)
}

/// A piece of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Copy(ByteRange),
    Data(u64),
}

/// The file as pieces.
struct Pieces {
    file: File,
    /// The pieces that are left, the next one last.
    left: Vec<Piece>,
    /// The position of the next piece in the file.
    at: u64,
}

impl Pieces {
    fn open(args: &Synthesize) -> Result<Self> {
        let name = || args.pieces.display().to_string();
        let text = fs::read_to_string(&args.pieces).with_context(name)?;
        let mut left = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let piece = piece(line).with_context(|| format!("{}, line {number}: `{line}`", name()))?;
            left.push(piece);
        }
        let len = len_of(&left).with_context(|| format!("{}: the pieces are too long", name()))?;
        left.reverse();
        let file = File::open(&args.file).with_context(|| args.file.display().to_string())?;
        let has = file.metadata()?.len();
        if has != len {
            bail!(
                "{} has {has} bytes, and the pieces have {len}",
                args.file.display()
            );
        }
        Ok(Self { file, left, at: 0 })
    }
}

/// The length of all pieces; `None` if one ends, or all of them end, beyond 2^64 bytes.
fn len_of(pieces: &[Piece]) -> Option<u64> {
    pieces.iter().try_fold(0_u64, |sum, piece| {
        let len = match piece {
            Piece::Copy(range) => range.offset.checked_add(range.len).map(|_| range.len)?,
            Piece::Data(len) => *len,
        };
        sum.checked_add(len)
    })
}

/// A line of the list.
fn piece(line: &str) -> Result<Piece> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(match words[..] {
        ["copy", offset, len] => Piece::Copy(ByteRange {
            offset: offset.parse()?,
            len: len.parse()?,
        }),
        ["data", len] => Piece::Data(len.parse()?),
        _ => bail!("neither `copy OFFSET LENGTH` nor `data LENGTH`"),
    })
}

impl StreamSource for Pieces {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        loop {
            match self.left.pop() {
                None => return Ok(StreamPiece::End),
                Some(Piece::Copy(range)) => {
                    self.at += range.len;
                    return Ok(StreamPiece::Copy { parent: 0, range });
                }
                Some(Piece::Data(0)) => {}
                Some(Piece::Data(len)) => {
                    let some = usize::try_from(len).map_or(buffer.len(), |len| len.min(buffer.len()));
                    self.file.seek(SeekFrom::Start(self.at))?;
                    self.file.read_exact(&mut buffer[..some])?;
                    self.at += some as u64;
                    self.left.push(Piece::Data(len - some as u64));
                    return Ok(StreamPiece::Data(some));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pieces_is_read() {
        let copy = ByteRange { offset: 5, len: 9 };
        assert_eq!(piece("copy 5 9").unwrap(), Piece::Copy(copy));
        assert_eq!(piece(" data 7").unwrap(), Piece::Data(7));
        for wrong in ["", "copy 5", "data -1", "move 1 2"] {
            assert!(piece(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pieces_beyond_all_offsets_are_refused() {
        let of = |lines: &[&str]| {
            let pieces: Vec<Piece> = lines.iter().map(|line| piece(line).unwrap()).collect();
            len_of(&pieces)
        };
        let most = u64::MAX;
        assert_eq!(of(&["copy 5 9", "data 7"]), Some(16));
        assert_eq!(of(&[&format!("data {most}"), "data 1"]), None);
        assert_eq!(of(&[&format!("copy {most} 1")]), None);
    }
}

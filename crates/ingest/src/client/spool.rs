//! Keeps what a stream has given until it is durable, so that the stream can go on after its store
//! was lost (B6).
//!
//! A pipe cannot be read twice. What it gave since the last durable position stays in memory. When
//! another session continues the stream, the source gives these bytes again.

use std::collections::VecDeque;
use std::io;

use types::ByteRange;

use crate::client::stream_source::{Keeps, StreamPiece, StreamSource};

/// The spool keeps so many bytes before the durable position: the next session compares them.
const COMPARED_BYTES: u64 = super::resume::COMPARED_BYTES;
/// Pieces are gathered into blocks of this length.
const BLOCK_BYTES: usize = 1 << 20;

/// A source that can go back to any position that is not durable.
pub struct SpooledSource<'a> {
    source: &'a mut dyn StreamSource,
    kept: VecDeque<Kept>,
    /// The position of the first kept byte, ...
    begin: u64,
    /// ... the one behind the last, ...
    end: u64,
    /// ... and the one of the next byte to give.
    at: u64,
    /// Where that is: in this block, so many bytes after its beginning.
    cursor: (usize, u64),
    /// Memory of the kept bytes, at most `bytes_max` and one block.
    bytes: usize,
    bytes_max: usize,
    is_over: bool,
    /// Why the source gives nothing more. What follows its failure would look like its end.
    failed: Option<(io::ErrorKind, String)>,
}

/// A range of the stream.
#[derive(Debug)]
enum Kept {
    Bytes(Vec<u8>),
    Zeros(u64),
    Copy { parent: usize, range: ByteRange },
}

impl Kept {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
            Self::Copy { range, .. } => range.len,
        }
    }
}

impl<'a> SpooledSource<'a> {
    /// Keeps at most about so many bytes of this source.
    pub fn new(source: &'a mut dyn StreamSource, bytes_max: usize) -> Self {
        Self {
            source,
            kept: VecDeque::new(),
            begin: 0,
            end: 0,
            at: 0,
            cursor: (0, 0),
            bytes: 0,
            bytes_max,
            is_over: false,
            failed: None,
        }
    }

    /// Gives kept bytes.
    fn again(&mut self, buffer: &mut [u8]) -> StreamPiece {
        let (block, offset) = self.cursor;
        let kept = &self.kept[block];
        let left = kept.len() - offset;
        let (piece, len) = match kept {
            Kept::Bytes(bytes) => {
                let from = &bytes[usize::try_from(offset).unwrap_or(usize::MAX)..];
                let len = from.len().min(buffer.len());
                buffer[..len].copy_from_slice(&from[..len]);
                (StreamPiece::Data(len), len as u64)
            }
            Kept::Zeros(_) => (StreamPiece::Zeros(left), left),
            Kept::Copy { parent, range } => {
                let range = ByteRange {
                    offset: range.offset + offset,
                    len: left,
                };
                let parent = *parent;
                (StreamPiece::Copy { parent, range }, left)
            }
        };
        self.at += len;
        self.cursor = if len == left {
            (block + 1, 0)
        } else {
            (block, offset + len)
        };
        piece
    }

    /// Keeps what the source has given.
    fn keep(&mut self, piece: StreamPiece, buffer: &[u8]) {
        let len = match piece {
            StreamPiece::Data(len) => {
                self.bytes += len;
                match self.kept.back_mut() {
                    Some(Kept::Bytes(bytes)) if bytes.len() + len <= BLOCK_BYTES => {
                        bytes.extend_from_slice(&buffer[..len]);
                    }
                    _ => {
                        let mut bytes = Vec::with_capacity(BLOCK_BYTES.max(len));
                        bytes.extend_from_slice(&buffer[..len]);
                        self.kept.push_back(Kept::Bytes(bytes));
                    }
                }
                len as u64
            }
            StreamPiece::Zeros(len) => {
                self.kept.push_back(Kept::Zeros(len));
                len
            }
            StreamPiece::Copy { parent, range } => {
                self.kept.push_back(Kept::Copy { parent, range });
                range.len
            }
            StreamPiece::End => {
                self.is_over = true;
                0
            }
        };
        self.end += len;
        self.at = self.end;
        self.cursor = (self.kept.len(), 0);
    }

    /// Drops whole blocks before a position, if they were given.
    fn drop_before(&mut self, position: u64) {
        while self.cursor.0 > 0
            && let Some(first) = self.kept.front()
            && self.begin + first.len() <= position
        {
            if let Kept::Bytes(bytes) = first {
                self.bytes -= bytes.len();
            }
            self.begin += first.len();
            self.kept.pop_front();
            self.cursor.0 -= 1;
        }
    }
}

impl StreamSource for SpooledSource<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if self.at < self.end {
            return Ok(self.again(buffer));
        }
        if self.is_over {
            return Ok(StreamPiece::End);
        }
        if let Some((kind, why)) = &self.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        let piece = match self.source.next(buffer) {
            Ok(piece) => piece,
            Err(error) => {
                self.failed = Some((error.kind(), error.to_string()));
                return Err(error);
            }
        };
        self.keep(piece, buffer);
        Ok(piece)
    }

    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        if position < self.begin {
            return Err(io::Error::other(format!(
                "its bytes from {position} to {} were stored, but the store lost them, and the source gives them \
                 only once; run the backup again",
                self.begin
            )));
        }
        if position > self.end {
            // Nothing was given: another process stored the bytes before this position.
            if self.end > 0 {
                let end = self.end;
                return Err(io::Error::other(format!(
                    "the store has {position} bytes of it, and it has given {end} so far; run the backup again"
                )));
            }
            if !self.source.skip_to(position)? {
                return Ok(false);
            }
            (self.begin, self.end, self.at) = (position, position, position);
            return Ok(true);
        }
        let (mut block, mut before) = (0, self.begin);
        while let Some(kept) = self.kept.get(block)
            && before + kept.len() <= position
        {
            before += kept.len();
            block += 1;
        }
        self.at = position;
        self.cursor = (block, position - before);
        Ok(true)
    }

    fn goes_back(&self) -> bool {
        true
    }

    fn release(&mut self, position: u64) -> Keeps {
        self.drop_before(position.saturating_sub(COMPARED_BYTES));
        if self.bytes < self.bytes_max / 2 {
            Keeps::Few
        } else if self.bytes < self.bytes_max || self.at < self.end {
            Keeps::Many
        } else {
            Keeps::Full
        }
    }
}

impl std::fmt::Debug for SpooledSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpooledSource")
            .field("begin", &self.begin)
            .field("end", &self.end)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A pipe: 100 kB pieces of a pattern, with zeros and copies among them.
    struct Pipe {
        at: u64,
        len: u64,
    }

    fn byte(position: u64) -> u8 {
        u8::try_from(position % 251).unwrap()
    }

    /// What kind of piece begins at this position.
    fn kind(position: u64) -> u64 {
        position / 100_000 % 4
    }

    impl StreamSource for Pipe {
        fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
            let left = (self.len - self.at).min(100_000 - self.at % 100_000);
            let at = self.at;
            if left == 0 {
                return Ok(StreamPiece::End);
            }
            Ok(match kind(at) {
                1 => {
                    self.at += left;
                    StreamPiece::Zeros(left)
                }
                2 => {
                    self.at += left;
                    let range = ByteRange {
                        offset: at,
                        len: left,
                    };
                    StreamPiece::Copy { parent: 0, range }
                }
                _ => {
                    let len = usize::try_from(left).unwrap().min(buffer.len());
                    for (offset, out) in buffer[..len].iter_mut().enumerate() {
                        *out = byte(at + offset as u64);
                    }
                    self.at += len as u64;
                    StreamPiece::Data(len)
                }
            })
        }
    }

    /// Checks a piece at its position. Returns its length.
    fn checked(piece: StreamPiece, at: u64, buffer: &[u8]) -> u64 {
        match piece {
            StreamPiece::Data(len) => {
                let is_right = |(offset, found): (usize, &u8)| *found == byte(at + offset as u64);
                assert!(buffer[..len].iter().enumerate().all(is_right), "at {at}");
                assert!(kind(at) != 1 && kind(at) != 2);
                len as u64
            }
            StreamPiece::Zeros(len) => {
                assert_eq!(kind(at), 1, "at {at}");
                len
            }
            StreamPiece::Copy { range, .. } => {
                assert_eq!((kind(at), range.offset), (2, at));
                range.len
            }
            StreamPiece::End => 0,
        }
    }

    proptest! {
        /// However often the stream goes back to a durable position, it gives the same bytes.
        #[test]
        fn what_is_not_durable_can_be_read_again(
            steps in prop::collection::vec((1..30_u32, 0..100_u64, any::<bool>()), 1..20),
            room in 1_000..200_000_usize,
        ) {
            let mut pipe = Pipe { at: 0, len: 9_000_000 };
            let mut spooled = SpooledSource::new(&mut pipe, 4_000_000);
            let mut buffer = vec![0; room];
            let (mut at, mut durable) = (0, 0);
            for (pieces, share, goes_back) in steps {
                for _ in 0..pieces {
                    let piece = spooled.next(&mut buffer).unwrap();
                    at += checked(piece, at, &buffer);
                }
                durable = durable.max(at * share / 100);
                spooled.release(durable);
                prop_assert!(spooled.begin + COMPARED_BYTES + 2 * BLOCK_BYTES as u64 > durable);
                if goes_back {
                    let from = durable.saturating_sub(COMPARED_BYTES);
                    prop_assert!(spooled.skip_to(from).unwrap());
                    at = from;
                }
            }
            loop {
                let piece = spooled.next(&mut buffer).unwrap();
                if piece == StreamPiece::End {
                    break;
                }
                at += checked(piece, at, &buffer);
            }
            prop_assert_eq!(at, 9_000_000);
            prop_assert_eq!(spooled.next(&mut buffer).unwrap(), StreamPiece::End);
        }
    }

    #[test]
    fn a_full_spool_waits_for_a_later_position() {
        let mut pipe = Pipe {
            at: 0,
            len: 20_000_000,
        };
        let mut spooled = SpooledSource::new(&mut pipe, 4_000_000);
        let mut buffer = vec![0; 100_000];
        while spooled.release(0) != Keeps::Full {
            spooled.next(&mut buffer).unwrap();
        }
        let end = spooled.end;
        // Giving bytes again needs no room.
        assert!(spooled.skip_to(0).unwrap());
        assert_eq!(spooled.release(0), Keeps::Many);
        assert!(spooled.skip_to(end).unwrap());
        assert_eq!(spooled.release(0), Keeps::Full);
        assert_eq!(spooled.release(end), Keeps::Few);
        assert!(spooled.skip_to(0).is_err(), "those bytes are gone");
        assert!(spooled.skip_to(end + 1).is_err(), "nobody has those bytes");
        assert!(spooled.skip_to(end).unwrap());
    }

    /// What a failed source says next, such as the end of a command's output, is not believed.
    #[test]
    fn a_source_that_failed_gives_nothing_more() {
        struct Failing(usize);

        impl StreamSource for Failing {
            fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
                self.0 += 1;
                match self.0 {
                    1 => {
                        buffer[..3].copy_from_slice(b"abc");
                        Ok(StreamPiece::Data(3))
                    }
                    2 => Err(io::Error::other("the command failed")),
                    _ => Ok(StreamPiece::End),
                }
            }
        }

        let mut source = Failing(0);
        let mut spooled = SpooledSource::new(&mut source, 1 << 20);
        let mut buffer = [0; 8];
        assert_eq!(spooled.next(&mut buffer).unwrap(), StreamPiece::Data(3));
        for _ in 0..2 {
            assert_eq!(
                spooled.next(&mut buffer).unwrap_err().to_string(),
                "the command failed"
            );
            assert!(spooled.skip_to(0).unwrap());
            assert_eq!(spooled.next(&mut buffer).unwrap(), StreamPiece::Data(3));
        }
    }
}

//! Chunk traces: backups as lists of fingerprints and lengths, replayed without their bytes.
//!
//! A trace file is read and written as a stream: magic, then records, each with a tag. Numbers are
//! little-endian.
//!
//! - `B`: a backup begins: a byte (1 for a full one), the length of the name in two bytes, the
//!   name.
//! - `C`: up to 4,096 chunks: their number in four bytes; 32 bytes of fingerprint and four of
//!   length for each. A run of zeros has 32 zeros for a fingerprint.
//! - `E`: the backup ends: the number of its chunks and of its bytes, eight bytes each.
//! - `Z`: the trace ends: the number of its backups, in eight bytes.
//!
//! The reader compares the numbers at an end with what came before. So it detects a trace that was
//! truncated or mixed up.

mod destor;

use std::io::{BufRead, Read, Write};

use simulate::{BackupHead, Chunk, Extent, SimulateError, Sink, Source};
use types::Fingerprint;

pub use destor::{DestorReader, DestorWriter};

const MAGIC: &[u8; 8] = b"onetrc01";
const CHUNKS_MAX: usize = 4096;
const CHUNK_BYTES: usize = Fingerprint::BYTES + 4;

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter<W> {
    what: String,
    out: W,
    backups: u64,
    chunks: u64,
    bytes: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace; `what` names it in errors.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn new(what: impl Into<String>, out: W) -> Result<Self, SimulateError> {
        let mut writer = Self {
            what: what.into(),
            out,
            backups: 0,
            chunks: 0,
            bytes: 0,
        };
        writer.put(MAGIC)?;
        Ok(writer)
    }

    /// Ends the trace, and returns the writer.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn finish(mut self) -> Result<W, SimulateError> {
        self.put(b"Z")?;
        self.put(&self.backups.to_le_bytes())?;
        self.out.flush().map_err(|source| self.failed(source))?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), SimulateError> {
        self.out.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> SimulateError {
        SimulateError::Io {
            what: self.what.clone(),
            source,
        }
    }
}

impl<W: Write> Sink for TraceWriter<W> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        let len = u16::try_from(head.name.len()).map_err(|_| {
            SimulateError::Settings(format!("{}: the name of a backup is too long", self.what))
        })?;
        self.put(b"B")?;
        self.put(&[u8::from(head.extent == Extent::Full)])?;
        self.put(&len.to_le_bytes())?;
        self.put(head.name.as_bytes())
    }

    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        for some in chunks.chunks(CHUNKS_MAX) {
            self.put(b"C")?;
            let count = u32::try_from(some.len()).expect("at most some thousands");
            self.put(&count.to_le_bytes())?;
            for chunk in some {
                let fingerprint = chunk.fingerprint.unwrap_or(NO_FINGERPRINT);
                self.put(fingerprint.as_bytes())?;
                self.put(&chunk.len.to_le_bytes())?;
                self.bytes += u64::from(chunk.len);
            }
            self.chunks += some.len() as u64;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        self.put(b"E")?;
        self.put(&self.chunks.to_le_bytes())?;
        self.put(&self.bytes.to_le_bytes())?;
        (self.chunks, self.bytes) = (0, 0);
        self.backups += 1;
        Ok(())
    }
}

/// The fingerprint of a run of zeros. No chunk has it.
const NO_FINGERPRINT: Fingerprint = Fingerprint::from_bytes([0; Fingerprint::BYTES]);

/// Reads a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    what: String,
    input: R,
    at: u64,
}

impl<R: BufRead> TraceReader<R> {
    /// Reads the beginning of a trace; `what` names it in errors.
    ///
    /// # Errors
    /// `Trace` if the input is no trace; errors of the operating system.
    pub fn new(what: impl Into<String>, input: R) -> Result<Self, SimulateError> {
        let mut reader = Self {
            what: what.into(),
            input,
            at: 0,
        };
        if reader.array()? == *MAGIC {
            Ok(reader)
        } else {
            reader.at = 0;
            Err(reader.wrong("this is no chunk trace"))
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SimulateError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SimulateError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.wrong("the trace ends too early"))
            }
            Err(source) => Err(SimulateError::Io {
                what: self.what.clone(),
                source,
            }),
        }
    }

    fn wrong(&self, why: &'static str) -> SimulateError {
        SimulateError::Trace {
            what: self.what.clone(),
            at: self.at,
            why,
        }
    }

    fn head(&mut self) -> Result<BackupHead, SimulateError> {
        let extent = match self.array::<1>()? {
            [0] => Extent::Incremental,
            [1] => Extent::Full,
            _ => return Err(self.wrong("a backup is neither full nor incremental")),
        };
        let mut name = vec![0; usize::from(u16::from_le_bytes(self.array()?))];
        self.fill(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| self.wrong("a backup's name is not UTF-8"))?;
        Ok(BackupHead { name, extent })
    }

    fn some(&mut self, raw: &mut Vec<u8>, chunks: &mut Vec<Chunk>) -> Result<(), SimulateError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        if count == 0 || count > CHUNKS_MAX {
            return Err(self.wrong("a group of chunks is empty or too large"));
        }
        raw.resize(count * CHUNK_BYTES, 0);
        self.fill(raw)?;
        chunks.clear();
        for row in raw.as_chunks::<CHUNK_BYTES>().0 {
            let (fingerprint, len) = row.split_at(Fingerprint::BYTES);
            let fingerprint = Fingerprint::from_bytes(fingerprint.try_into().expect("32 bytes"));
            let len = u32::from_le_bytes(len.try_into().expect("four bytes"));
            if len == 0 {
                return Err(self.wrong("a chunk has no bytes"));
            }
            chunks.push(Chunk {
                fingerprint: (fingerprint != NO_FINGERPRINT).then_some(fingerprint),
                len,
            });
        }
        Ok(())
    }
}

impl<R: BufRead> Source for TraceReader<R> {
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        let (mut backups, mut open) = (0_u64, None);
        let (mut raw, mut chunks) = (Vec::new(), Vec::new());
        loop {
            let [tag] = self.array()?;
            match (tag, &mut open) {
                (b'B', None) => {
                    sink.begin(&self.head()?)?;
                    open = Some((0_u64, 0_u64));
                }
                (b'C', Some((count, bytes))) => {
                    self.some(&mut raw, &mut chunks)?;
                    *count += chunks.len() as u64;
                    *bytes += chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
                    sink.chunks(&chunks)?;
                }
                (b'E', Some(counted)) => {
                    let told = (
                        u64::from_le_bytes(self.array()?),
                        u64::from_le_bytes(self.array()?),
                    );
                    if told != *counted {
                        return Err(
                            self.wrong("the chunks of a backup do not match the counts in its end record")
                        );
                    }
                    sink.end()?;
                    (open, backups) = (None, backups + 1);
                }
                (b'Z', None) => {
                    if u64::from_le_bytes(self.array()?) != backups {
                        return Err(self.wrong("the number of backups does not match the end record"));
                    }
                    let rest = self.input.by_ref().bytes().next();
                    return match rest {
                        None => Ok(()),
                        Some(_) => Err(self.wrong("the trace has bytes after its end")),
                    };
                }
                _ => return Err(self.wrong("a record is in the wrong place")),
            }
        }
    }
}

/// Opens a trace of either kind, recognised by its beginning. `what` names it in errors, and names
/// a backup that has no name of its own.
///
/// # Errors
/// `Trace` if the input is no trace; errors of the operating system.
pub fn open_trace<'a, R: BufRead + 'a>(
    what: impl Into<String>,
    mut input: R,
) -> Result<Box<dyn Source + 'a>, SimulateError> {
    let what = what.into();
    let begins = input.fill_buf().map_err(|source| SimulateError::Io {
        what: what.clone(),
        source,
    })?;
    if begins.starts_with(b"file start ") || begins.starts_with(b"stream end") {
        Ok(Box::new(DestorReader::new(what, input)))
    } else {
        Ok(Box::new(TraceReader::new(what, input)?))
    }
}

#[cfg(test)]
mod tests;

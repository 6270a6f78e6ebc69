//! Traces of destor [Fu et al., FAST 2015]: text, with one file for each backup. With them, destor
//! and Onefold run over the same data.
//!
//! Each file begins with `file start N`, and its name of N bytes on the next line. Each chunk is a
//! line with its fingerprint as 40 hexadecimal digits, and its length. `file end` ends the file.
//! The trace ends with `stream end`, without a newline. Fingerprints of destor have 20 bytes. The
//! writer drops the last twelve bytes of ours, and the reader appends twelve zeros. Boundaries of
//! files have no meaning here: the writer writes a backup as one file. A run of zeros has 40 zeros.

use std::io::{BufRead, Write};

use simulate::SimulateError;
use types::Fingerprint;

use super::{BackupHead, Chunk, Extent, NO_FINGERPRINT, Sink, Source};

const PRINT_BYTES: usize = 20;
const GROUP: usize = 512;
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
/// The longest line, names excepted. Names are not kept.
const LINE_BYTES_MAX: u64 = 128;
const NAME_BYTES_MAX: u64 = 1 << 20;

/// Writes each backup as a trace of its own.
pub struct DestorWriter<F, W> {
    open: F,
    out: Option<(String, W)>,
    line: String,
}

impl<F, W> std::fmt::Debug for DestorWriter<F, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DestorWriter")
    }
}

impl<F, W> DestorWriter<F, W>
where
    F: FnMut(&BackupHead) -> Result<W, SimulateError>,
    W: Write,
{
    /// `open` returns the writer of a backup.
    pub fn new(open: F) -> Self {
        Self {
            open,
            out: None,
            line: String::new(),
        }
    }

    fn put(&mut self, text: &str) -> Result<(), SimulateError> {
        match &mut self.out {
            None => Err(SimulateError::Settings("a chunk belongs to no backup".to_owned())),
            Some((what, out)) => out
                .write_all(text.as_bytes())
                .map_err(|source| SimulateError::Io {
                    what: what.clone(),
                    source,
                }),
        }
    }
}

impl<F, W> Sink for DestorWriter<F, W>
where
    F: FnMut(&BackupHead) -> Result<W, SimulateError>,
    W: Write,
{
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.out = Some((head.name.clone(), (self.open)(head)?));
        self.put(&format!("file start {}\n{}\n", head.name.len(), head.name))
    }

    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        let mut line = std::mem::take(&mut self.line);
        for chunk in chunks {
            line.clear();
            let fingerprint = chunk.fingerprint.unwrap_or(NO_FINGERPRINT);
            for byte in &fingerprint.as_bytes()[..PRINT_BYTES] {
                line.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
            }
            line.push(' ');
            line.push_str(&chunk.len.to_string());
            line.push('\n');
            self.put(&line)?;
        }
        self.line = line;
        Ok(())
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        self.put("file end\nstream end")?;
        let Some((what, mut out)) = self.out.take() else {
            return Ok(());
        };
        out.flush().map_err(|source| SimulateError::Io { what, source })
    }
}

/// Reads one backup.
#[derive(Debug)]
pub struct DestorReader<R> {
    what: String,
    input: R,
    line: Vec<u8>,
    at: u64,
}

impl<R: BufRead> DestorReader<R> {
    /// `what` names the trace in errors, and the backup.
    pub fn new(what: impl Into<String>, input: R) -> Self {
        Self {
            what: what.into(),
            input,
            line: Vec::new(),
            at: 0,
        }
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<(), SimulateError> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut self.input, LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| SimulateError::Io {
            what: self.what.clone(),
            source,
        })?;
        if read == 0 {
            return Err(self.wrong("the trace ends too early"));
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line != b"stream end" {
            return Err(self.wrong("a line is too long, or the trace ends too early"));
        }
        self.at += read as u64;
        Ok(())
    }

    fn skip_name(&mut self) -> Result<(), SimulateError> {
        let number = self.line.strip_prefix(b"file start ").and_then(decimal);
        let Some(len) = number.filter(|len| *len <= NAME_BYTES_MAX) else {
            return Err(self.wrong("a line `file start` is missing here"));
        };
        let mut name = Vec::new();
        let mut limited = std::io::Read::take(&mut self.input, len + 1);
        let read = std::io::Read::read_to_end(&mut limited, &mut name);
        let read = read.map_err(|source| SimulateError::Io {
            what: self.what.clone(),
            source,
        })?;
        if read as u64 <= len || name.last() != Some(&b'\n') {
            return Err(self.wrong("the name of a file does not have its declared length"));
        }
        self.at += read as u64;
        Ok(())
    }

    fn chunk(&self) -> Result<Chunk, SimulateError> {
        let parsed = self
            .line
            .split_at_checked(2 * PRINT_BYTES)
            .and_then(|(digits, rest)| {
                let mut bytes = [0; Fingerprint::BYTES];
                for (byte, digits) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
                    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
                    *byte = u8::try_from(high? << 4 | low?).ok()?;
                }
                let len = decimal(rest.strip_prefix(b" ")?)?;
                let len = u32::try_from(len).ok().filter(|len| *len > 0)?;
                let fingerprint = Fingerprint::from_bytes(bytes);
                Some(Chunk {
                    fingerprint: (fingerprint != NO_FINGERPRINT).then_some(fingerprint),
                    len,
                })
            });
        parsed
            .ok_or_else(|| self.wrong("this line is no chunk, which has 40 hexadecimal digits and a length"))
    }

    fn wrong(&self, why: &'static str) -> SimulateError {
        SimulateError::Trace {
            what: self.what.clone(),
            at: self.at,
            why,
        }
    }
}

impl<R: BufRead> Source for DestorReader<R> {
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        sink.begin(&BackupHead {
            name: self.what.clone(),
            extent: Extent::Full,
        })?;
        let mut group = Vec::with_capacity(GROUP);
        loop {
            self.line()?;
            if self.line == b"stream end" {
                self.line.clear();
                let rest = std::io::Read::take(&mut self.input, 1).read_until(b'\n', &mut self.line);
                match rest {
                    Ok(0) => break,
                    Ok(_) => return Err(self.wrong("the trace has bytes after its end")),
                    Err(source) => {
                        return Err(SimulateError::Io {
                            what: self.what.clone(),
                            source,
                        });
                    }
                }
            }
            self.skip_name()?;
            loop {
                self.line()?;
                if self.line == b"file end" {
                    break;
                }
                group.push(self.chunk()?);
                if group.len() == GROUP {
                    sink.chunks(&group)?;
                    group.clear();
                }
            }
        }
        if !group.is_empty() {
            sink.chunks(&group)?;
        }
        sink.end()
    }
}

/// Parses digits alone: no sign, no spaces.
fn decimal(digits: &[u8]) -> Option<u64> {
    let are_digits = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| are_digits)?
        .parse()
        .ok()
}

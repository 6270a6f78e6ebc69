//! Length-prefixed records of a stream, which is read on demand.

use std::io::{ErrorKind, Read};

use format::listing::RECORD_BYTES_MAX;

use crate::TreeError;

const READ_BYTES: usize = 64 << 10;

/// Reads records. It buffers at most one record and the bytes read with it (INV-7), whatever
/// lengths the stream claims: the buffer grows with the bytes received, never with an announced
/// length (INV-8).
#[derive(Debug)]
pub(super) struct Records<R> {
    source: R,
    stream: &'static str,
    buffer: Vec<u8>,
    /// How many bytes of the buffer were returned.
    used: usize,
    /// Offset of the next record in the stream.
    offset: u64,
    ended: bool,
}

impl<R: Read> Records<R> {
    pub(super) fn new(source: R, stream: &'static str, offset: u64) -> Self {
        Self {
            source,
            stream,
            buffer: Vec::new(),
            used: 0,
            offset,
            ended: false,
        }
    }

    /// Offset of the next record.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The fault of the record that was returned last, or of the next one. No record follows it.
    pub(super) fn damaged(&mut self, offset: u64, why: impl ToString) -> TreeError {
        self.ended = true;
        TreeError::Damaged {
            stream: self.stream,
            offset,
            why: why.to_string(),
        }
    }

    /// The next record. `None`: at the end, and after a fault.
    pub(super) fn next<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> format::Result<Option<(T, usize)>>,
    ) -> Result<Option<T>, TreeError> {
        while !self.ended {
            match decode(&self.buffer[self.used..]) {
                Ok(Some((value, len))) => {
                    self.used += len;
                    self.offset += len as u64;
                    return Ok(Some(value));
                }
                Err(why) => return Err(self.damaged(self.offset, why)),
                Ok(None) => {}
            }
            if self.buffer.len() - self.used > RECORD_BYTES_MAX + READ_BYTES {
                return Err(self.damaged(self.offset, "a record has no end"));
            }
            if !self.read_on()? {
                self.ended = true;
                if self.used < self.buffer.len() {
                    return Err(self.damaged(self.offset, "the last record is cut off"));
                }
            }
        }
        Ok(None)
    }

    /// Reads more bytes. `false`: the stream has ended.
    fn read_on(&mut self) -> Result<bool, TreeError> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[filled..]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(n) => Ok(n > 0),
            Err(source) => {
                self.ended = true;
                Err(TreeError::Stream {
                    stream: self.stream,
                    offset: self.offset,
                    source,
                })
            }
        }
    }
}

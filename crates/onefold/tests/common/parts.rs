//! A stream in parts, between which a test does something.

use std::io;

use onefold::{StreamPiece, StreamSource};

/// Zeros that a source gives one by one: so many steps make the pipeline process what it has.
const ZEROS: usize = 4200;

/// Gives parts of a stream. Between two of them it runs an action of the test.
pub struct Parts<'a> {
    parts: Vec<&'a [u8]>,
    zeros: usize,
    between: Box<dyn FnMut(usize) + Send + 'a>,
    done: usize,
}

impl<'a> Parts<'a> {
    pub fn new(parts: &[&'a [u8]], between: impl FnMut(usize) + Send + 'a) -> Self {
        Self {
            parts: parts.iter().rev().copied().collect(),
            zeros: 0,
            between: Box::new(between),
            done: 0,
        }
    }

    /// The bytes of a stream of these parts.
    pub fn whole(parts: &[&[u8]]) -> Vec<u8> {
        parts.join(&vec![0; ZEROS][..])
    }
}

impl StreamSource for Parts<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if self.zeros > 0 {
            self.zeros -= 1;
            if self.zeros == 0 {
                self.done += 1;
                (self.between)(self.done);
            }
            return Ok(StreamPiece::Zeros(1));
        }
        let Some(part) = self.parts.last_mut() else {
            return Ok(StreamPiece::End);
        };
        let len = part.len().min(buffer.len());
        let (now, rest) = part.split_at(len);
        buffer[..len].copy_from_slice(now);
        *part = rest;
        if rest.is_empty() {
            self.parts.pop();
            self.zeros = if self.parts.is_empty() { 0 } else { ZEROS };
        }
        Ok(StreamPiece::Data(len))
    }
}

//! The content of a group of files, on its way from the read buffer to the `SourceInput`.

use crate::buffer::Buffer;
use crate::client::piece::CopyRange;
use crate::client::read_ahead::Group;
use crate::client::source_input::{Ops, SourceInput};
use crate::error::Halt;
use crate::parent::CONTENT;

/// Passes on a group's content in the buffer into which it was read. If that buffer would be mostly
/// empty, or if other content comes between, it copies the content into the input's buffer.
pub(crate) struct Content {
    buffer: Option<Buffer>,
    /// How many bytes of the buffer were passed on.
    used: usize,
    whole: Option<Ops>,
}

impl Content {
    pub(crate) fn of(group: &mut Group) -> Self {
        // Buffers are held until the look-up of their last chunk, so half-empty ones would cost
        // memory.
        let is_worth_it = group
            .buffer
            .as_mut()
            .is_some_and(|buffer| buffer.filled().len() >= buffer.spare_mut().len());
        let whole = (is_worth_it && !group.is_interrupted()).then(Ops::default);
        Self {
            buffer: group.buffer.take(),
            used: 0,
            whole,
        }
    }

    /// For content that goes through the input's own buffer.
    pub(crate) const fn of_nobody() -> Self {
        Self {
            buffer: None,
            used: 0,
            whole: None,
        }
    }

    pub(crate) fn data(&mut self, input: &mut SourceInput<'_>, len: usize) -> Result<(), Halt> {
        input.counters().bytes_logical.add(len as u64);
        if let Some(ops) = &mut self.whole {
            ops.bytes(len);
        } else if let Some(buffer) = &self.buffer {
            input.bytes(CONTENT, &buffer.filled()[self.used..self.used + len])?;
            input.counters().bytes_read.add(len as u64);
            self.used += len;
        }
        Ok(())
    }

    pub(crate) fn zeros(&mut self, input: &mut SourceInput<'_>, len: u64) -> Result<(), Halt> {
        input.counters().bytes_logical.add(len);
        match &mut self.whole {
            Some(ops) => ops.zeros(len),
            None => input.zeros(CONTENT, len)?,
        }
        Ok(())
    }

    pub(crate) fn copy(&mut self, input: &mut SourceInput<'_>, range: CopyRange) -> Result<(), Halt> {
        input.counters().bytes_logical.add(range.len);
        match &mut self.whole {
            Some(ops) => ops.copy(range),
            None => input.copy(CONTENT, range)?,
        }
        Ok(())
    }

    pub(crate) fn cut(&mut self, input: &mut SourceInput<'_>) -> Result<(), Halt> {
        match &mut self.whole {
            Some(ops) => ops.cut(),
            None => input.cut(CONTENT)?,
        }
        Ok(())
    }

    pub(crate) fn finish(self, input: &mut SourceInput<'_>) -> Result<(), Halt> {
        match (self.buffer, self.whole) {
            (Some(buffer), Some(ops)) => input.whole(CONTENT, buffer, ops),
            _ => Ok(()),
        }
    }
}

//! Blocks of the device, with what a power cut may leave of each.

use super::sets::Set;

/// One block of the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    /// What a reader finds.
    pub volatile: u8,
    /// What is there after a power cut, if no later write is.
    pub durable: u8,
    /// Contents written since: a power cut leaves any one of them, or `durable`.
    pub pending: Set,
    /// Who wrote them.
    pub writer: u8,
}

impl Block {
    /// A block with this content, durable.
    #[must_use]
    pub const fn new(content: u8) -> Self {
        Self {
            volatile: content,
            durable: content,
            pending: Set::NONE,
            writer: 0,
        }
    }

    /// Writes `content`.
    pub fn write(&mut self, content: u8, writer: usize) {
        self.volatile = content;
        self.pending.add(content);
        self.writer = u8::try_from(writer).expect("a few volumes");
    }

    /// Makes durable what was written.
    pub const fn flush(&mut self) {
        *self = Self::new(self.volatile);
    }
}

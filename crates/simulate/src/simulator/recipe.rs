//! The parts of a backup's stream.

use super::containers::At;

/// A part of a backup's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Zeros {
        len: u64,
    },
    /// Successive chunks of one container.
    Run {
        first: At,
        count: u32,
    },
    /// The number of a segment's node.
    Node(u32),
}

/// A backup's parts, in order.
#[derive(Debug, Default)]
pub(super) struct Recipe {
    pub(super) parts: Vec<Part>,
    /// Zeros not counted.
    pub(super) chunks: u64,
    /// Zeros not counted.
    pub(super) bytes: u64,
}

impl Recipe {
    /// Adds zeros. Successive zeros form one run.
    pub(super) fn push_zeros(&mut self, more: u64) {
        if let Some(Part::Zeros { len }) = self.parts.last_mut() {
            *len += more;
        } else {
            self.parts.push(Part::Zeros { len: more });
        }
    }

    pub(super) fn push_chunk(&mut self, at: At, len: u32) {
        self.chunks += 1;
        self.bytes += u64::from(len);
        match self.parts.last_mut() {
            Some(Part::Run { first, count })
                if first.container == at.container && first.slot + *count == at.slot =>
            {
                *count += 1;
            }
            _ => self.parts.push(Part::Run { first: at, count: 1 }),
        }
    }
}

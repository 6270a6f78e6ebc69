//! Why a request has no answer.

use format::FormatError;
use format::wire::{Reader, Writer};

use crate::codec::{Result, TEXT_BYTES_MAX, Wire};

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// What the client can do about it.
    pub kind: RefusalKind,
    /// The reason, for people.
    pub why: String,
}

/// What a client can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The operation failed.
    Failed,
    /// Stored data cannot be read. Other data may be readable.
    Unreadable,
    /// The token is unknown, expired or revoked, or lacks the right.
    NotAllowed,
    /// There is no such backup, namespace, path or object.
    NotFound,
    /// The message breaks a rule of the protocol.
    Malformed,
    /// The server is too busy, or is ending. The same request may succeed later.
    Busy,
    /// Data of the earlier backup has rotted: begin again, and read all of the source.
    Previous,
    /// The name of a new object is taken.
    AlreadyExists,
    /// The object ends before the range that was asked for.
    PastEnd,
    /// The server's disk is full.
    NoSpace,
}

const KINDS: [RefusalKind; 10] = [
    RefusalKind::Failed,
    RefusalKind::Unreadable,
    RefusalKind::NotAllowed,
    RefusalKind::NotFound,
    RefusalKind::Malformed,
    RefusalKind::Busy,
    RefusalKind::Previous,
    RefusalKind::AlreadyExists,
    RefusalKind::PastEnd,
    RefusalKind::NoSpace,
];

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: RefusalKind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
        }
    }
}

impl From<FormatError> for Refusal {
    fn from(error: FormatError) -> Self {
        Self::new(RefusalKind::Malformed, error.to_string())
    }
}

impl Wire for Refusal {
    fn write(&self, w: &mut Writer<'_>) {
        let number = KINDS.iter().position(|kind| *kind == self.kind);
        w.u8(number.and_then(|number| u8::try_from(number).ok()).unwrap_or(0));
        let mut end = self.why.len().min(TEXT_BYTES_MAX);
        while !self.why.is_char_boundary(end) {
            end -= 1;
        }
        w.text(&self.why[..end]);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        // A kind of a later version is a failure.
        let kind = KINDS.get(usize::from(r.u8()?)).copied();
        Ok(Self {
            kind: kind.unwrap_or(RefusalKind::Failed),
            why: r.text(TEXT_BYTES_MAX)?,
        })
    }
}

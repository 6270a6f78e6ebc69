//! The file that is being filled while a tree's content arrives.

use tree::{FileWriter, TreeError};

/// A small file with all its bytes.
pub(crate) struct SmallFile {
    pub(crate) writer: FileWriter,
    pub(crate) parts: Vec<Part>,
}

/// A part of a small file.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl SmallFile {
    pub(crate) fn finish(self) -> Result<(), TreeError> {
        let mut offset = 0;
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => {
                    self.writer.write_at(offset, bytes)?;
                    offset += bytes.len() as u64;
                }
                Part::Zeros(len) => {
                    self.writer.skip_zeros(offset, *len)?;
                    offset += len;
                }
            }
        }
        self.writer.finish()
    }
}

/// The file that the next bytes of content belong to.
pub(crate) enum Current {
    None,
    Small {
        file: SmallFile,
        left: u64,
    },
    Large {
        writer: FileWriter,
        offset: u64,
        left: u64,
    },
    /// Its bytes are not wanted: it is kept as it is, or failed.
    Unwanted {
        left: u64,
    },
}

impl Current {
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Small { left, .. } | Self::Large { left, .. } | Self::Unwanted { left } => *left,
        }
    }
}

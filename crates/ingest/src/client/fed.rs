//! Streams whose bytes the caller pushes: those of a backup that is copied from another store.
//!
//! One thread. The caller feeds one stream after another, or interleaves them. A caller that
//! returns without ending every stream makes no backup.

use std::sync::Arc;

use recipe::TreeRoot;
use types::ByteRange;

use crate::client::piece::CopyRange;
use crate::client::source_input::SourceInput;
use crate::dedup::StreamIndex;
use crate::error::{Halt, IngestError};

/// Takes the bytes of streams.
pub struct StreamFeed<'a, 'b> {
    pub(crate) input: &'a mut SourceInput<'b>,
}

impl std::fmt::Debug for StreamFeed<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamFeed").finish_non_exhaustive()
    }
}

impl StreamFeed<'_, '_> {
    /// The next bytes of a stream, which were read from the source.
    ///
    /// # Errors
    /// If the backup must stop. [`IngestError::StoreEnded`]: another stage has the reason.
    pub fn bytes(&mut self, stream: StreamIndex, mut bytes: &[u8]) -> Result<(), IngestError> {
        let len = bytes.len() as u64;
        while !bytes.is_empty() {
            let spare = self.input.spare(stream).map_err(reason)?;
            let part = spare.len().min(bytes.len());
            spare[..part].copy_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.input.advance(stream, part);
        }
        self.input.counters().bytes_logical.add(len);
        Ok(())
    }

    /// The next `len` bytes of a stream are zeros.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub fn zeros(&mut self, stream: StreamIndex, len: u64) -> Result<(), IngestError> {
        self.input.counters().bytes_logical.add(len);
        self.input.zeros(stream, len).map_err(reason)
    }

    /// A chunk ends here, whatever follows.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub fn cut(&mut self, stream: StreamIndex) -> Result<(), IngestError> {
        self.input.cut(stream).map_err(reason)
    }

    /// The next bytes of a stream are a range of an earlier backup, which is a parent of this one
    /// (B3). The range must be sound ([`crate::BackupSession::unsound`]).
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub fn copy(
        &mut self,
        stream: StreamIndex,
        root: &Arc<TreeRoot>,
        range: ByteRange,
    ) -> Result<(), IngestError> {
        self.input.counters().bytes_logical.add(range.len);
        let copied = CopyRange {
            root: Arc::clone(root),
            offset: range.offset,
            len: range.len,
        };
        self.input.copy(stream, copied).map_err(reason)
    }

    /// The stream is complete.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub fn end(&mut self, stream: StreamIndex) -> Result<(), IngestError> {
        self.input.end(stream).map_err(reason)
    }
}

fn reason(halt: Halt) -> IngestError {
    match halt {
        Halt::Failed(error) => error,
        Halt::Closed => IngestError::StoreEnded,
    }
}

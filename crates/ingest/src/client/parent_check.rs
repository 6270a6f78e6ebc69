//! Checks whether the backup may refer to a range of the parent's content.
//!
//! The store returns the unsound parts of one window of the stream. The client asks for files, in
//! stream order.

use recipe::{Piece, Place, RangeWalker, TreeRoot};
use types::ByteRange;

use crate::backup_session::BackupSession;
use crate::error::IngestError;

/// The length of a window.
const WINDOW_BYTES: u64 = 256 << 20;

/// Checks one stream.
pub(crate) struct ParentCheck<'a> {
    session: &'a dyn BackupSession,
    root: TreeRoot,
    /// The last window.
    window: ByteRange,
    /// Its unsound parts, in order.
    unsound: Vec<ByteRange>,
}

impl<'a> ParentCheck<'a> {
    pub(crate) fn new(session: &'a dyn BackupSession, root: TreeRoot) -> Self {
        Self {
            session,
            root,
            window: ByteRange { offset: 0, len: 0 },
            unsound: Vec::new(),
        }
    }

    /// Whether nothing in the range is known to be bad. If the store does not answer, the range is
    /// not sound.
    pub(crate) fn is_sound(&mut self, range: ByteRange) -> bool {
        self.ask(range).unwrap_or(false)
    }

    /// Like [`Self::is_sound`], but a failure is an error.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) fn ask(&mut self, range: ByteRange) -> Result<bool, IngestError> {
        let mut at = range.offset;
        while at < range.end() {
            let is_within = self.window.offset <= at && at < self.window.end();
            if !is_within && !self.load(at)? {
                return Ok(false);
            }
            let end = range.end().min(self.window.end());
            let within = self.unsound.partition_point(|bad| bad.end() <= at);
            if self.unsound.get(within).is_some_and(|bad| bad.offset < end) {
                return Ok(false);
            }
            at = end;
        }
        Ok(!self.session.terms().is_suspect || self.has_edges(range))
    }

    /// Loads the window with this byte. `false`: the stream has no such byte.
    fn load(&mut self, at: u64) -> Result<bool, IngestError> {
        let offset = at - at % WINDOW_BYTES;
        let len = WINDOW_BYTES.min(self.root.len.saturating_sub(offset));
        let window = ByteRange { offset, len };
        if at >= window.end() {
            return Ok(false);
        }
        self.unsound = self.session.unsound(&self.root, window)?;
        self.window = window;
        Ok(true)
    }

    /// Whether the chunks that the ends of the range cut can be read.
    fn has_edges(&self, range: ByteRange) -> bool {
        let reader = self.session.reader();
        let Ok(mut walker) = RangeWalker::new(reader, &self.root, range.offset, range.len) else {
            return false;
        };
        loop {
            match walker.next(false) {
                Ok(None) => return true,
                Ok(Some(Piece::PartOfChunk { child, .. })) => {
                    if let Place::At(location) = child.place
                        && reader.chunk(location).is_err()
                    {
                        return false;
                    }
                }
                Ok(Some(_)) => {}
                Err(_) => return false,
            }
        }
    }
}

//! What an archive's format must offer.

use std::io;

use format::listing::ListingEntry;

/// Writes the entries of an archive, one after another.
pub(super) trait ArchiveWriter {
    /// Begins a file of `len` bytes, which follow.
    fn begin_file(&mut self, name: &[u8], entry: &ListingEntry, len: u64) -> io::Result<()>;

    /// The next bytes of the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Ends the file, which has all its bytes.
    fn end_file(&mut self) -> io::Result<()>;

    /// Writes an entry that is neither a file nor a further name. `false`: the format has no such
    /// entries.
    fn other(&mut self, name: &[u8], entry: &ListingEntry) -> io::Result<bool>;

    /// Writes a further name of the entry that was written under `target`. `false`: the format has
    /// no such entries.
    fn link(&mut self, name: &[u8], entry: &ListingEntry, target: &[u8]) -> io::Result<bool>;

    /// What the format cannot keep of an entry, if anything.
    fn shortfall(&self, name: &[u8], entry: &ListingEntry) -> Option<&'static str>;

    /// Ends the archive.
    fn finish(&mut self) -> io::Result<()>;
}

//! Files that the program creates outside of stores. They may contain a user's data, so only their
//! owner can read them, whatever the umask is. The owner can open them to others later.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a new file for writing.
pub fn create_new(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Creates a folder, and those above it, unless they exist.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

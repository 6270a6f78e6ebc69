//! Where the workspace is.

use std::path::{Path, PathBuf};

/// The workspace's folder: the one from which cargo runs this program. Several working trees may
/// share a target folder, and so this program.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).into());
    here.join("..")
}

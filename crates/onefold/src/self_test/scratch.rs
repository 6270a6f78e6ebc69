//! A fresh folder for a test, which is removed at its end.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use env::Entropy;

/// A folder that this value alone made, for its owner alone. Dropping it removes the folder with
/// all that is in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    is_removed: bool,
}

impl Scratch {
    /// A name that no other test has: `onefold-self-test-` and 16 digits.
    #[must_use]
    pub fn fresh_name(entropy: &dyn Entropy) -> String {
        let mut id = [0; 8];
        entropy.fill(&mut id);
        format!("onefold-self-test-{:016x}", u64::from_le_bytes(id))
    }

    /// Makes a folder of a fresh name below an existing one. Its path is absolute, without links.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(below: &Path, entropy: &dyn Entropy) -> std::io::Result<Self> {
        let path = below.canonicalize()?.join(Self::fresh_name(entropy));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let is_removed = false;
        Ok(Self { path, is_removed })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// If something in it cannot be removed.
    pub fn remove(mut self) -> std::io::Result<()> {
        self.is_removed = true;
        fs::remove_dir_all(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_removed {
            // Another error is told already. The name says what the folder is.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

//! Watches what recovery does to sealed journals.
//!
//! The database has numbered journals. It appends to the last one; the others are sealed, and
//! complete. Recovery cuts a journal off behind its last intact record. If that cuts content off a
//! sealed journal, acknowledged batches are lost while newer ones survive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes read at once when looking for the end of the content.
const WINDOW_BYTES: usize = 1 << 16;

/// The sealed journals of a database that is not open yet.
#[derive(Debug)]
pub(super) struct SealedJournals {
    journals: Vec<Journal>,
}

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    // Kept open, so that its length can be read even if the database has deleted it meanwhile.
    file: File,
    content_bytes: u64,
}

impl SealedJournals {
    /// Notes how far each sealed journal has content.
    pub(super) fn note(folder: &Path) -> io::Result<Self> {
        let mut numbered = Vec::new();
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jnl")
                && let Some(number) = path
                    .file_stem()
                    .and_then(|stem| stem.to_str()?.parse::<u64>().ok())
            {
                numbered.push((number, path));
            }
        }
        numbered.sort();
        numbered.pop();
        let mut journals = Vec::new();
        for (_, path) in numbered {
            let file = File::open(&path)?;
            let content_bytes = content_bytes(&file)?;
            journals.push(Journal {
                path,
                file,
                content_bytes,
            });
        }
        Ok(Self { journals })
    }

    /// The first journal that lost content since.
    pub(super) fn first_cut(&self) -> io::Result<Option<&Path>> {
        for journal in &self.journals {
            if journal.file.metadata()?.len() < journal.content_bytes {
                return Ok(Some(&journal.path));
            }
        }
        Ok(None)
    }
}

/// The length without the zeros at the end, which the database allocates beforehand. A record ends
/// with a byte that is not zero.
fn content_bytes(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut window = vec![0; WINDOW_BYTES];
    while end > 0 {
        let start = end.saturating_sub(WINDOW_BYTES as u64);
        let len = usize::try_from(end - start).unwrap_or(WINDOW_BYTES);
        file.read_exact_at(&mut window[..len], start)?;
        if let Some(last) = window[..len].iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

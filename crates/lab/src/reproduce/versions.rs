//! Versions of real data in a folder. Each version is a file, such as a tar, or a folder.

use std::fs;
use std::path::{Path, PathBuf};

use simulate::{SimulateError, walk};

use super::stores::content::Content;
use crate::error::LabError;

/// The versions in a folder, oldest first: in the order of their names.
///
/// # Errors
/// `Io`; `Settings` if there is none.
pub(super) fn paths(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        entries.collect()
    };
    let mut paths = read().map_err(|source| SimulateError::Io {
        what: folder.display().to_string(),
        source,
    })?;
    if paths.is_empty() {
        return Err(LabError::settings(format!(
            "{}: the folder has no versions; put a tar or a folder for each version there",
            folder.display()
        )));
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Bytes of a version. The function reads all of it.
///
/// # Errors
/// `Io`.
pub(super) fn bytes(path: &Path) -> Result<u64, LabError> {
    let mut bytes = 0;
    walk(path, None, &mut |some, _| {
        bytes += some.len() as u64;
        Ok(())
    })?;
    Ok(bytes)
}

/// A version as one stream: a file as it is; of a folder, all regular files below it, one after
/// another in the order of their paths.
///
/// # Errors
/// `Io`.
pub(super) fn content(series: &str, path: &Path) -> Result<Content, LabError> {
    let mut bytes = Vec::new();
    walk(path, None, &mut |some, _| {
        bytes.extend_from_slice(some);
        Ok(())
    })?;
    Ok(Content::of(series, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_files_and_folders_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(
            paths(folder.path())
                .unwrap_err()
                .to_string()
                .contains("has no versions")
        );
        assert!(matches!(
            paths(&at("gone")),
            Err(LabError::Simulate(SimulateError::Io { .. }))
        ));
        fs::create_dir_all(at("2/b")).unwrap();
        for (name, text) in [("10.tar", "ten"), ("2/c", "last"), ("2/b/x", "first, ")] {
            fs::write(at(name), text).unwrap();
        }
        let all = paths(folder.path()).unwrap();
        assert_eq!(all, [at("10.tar"), at("2")]);
        let contents: Vec<Vec<u8>> = all
            .iter()
            .map(|path| content("tree", path).unwrap().bytes().to_vec())
            .collect();
        assert_eq!(contents, [&b"ten"[..], b"first, last"]);
        assert_eq!(bytes(&all[1]).unwrap(), 11);
    }
}

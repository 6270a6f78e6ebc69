//! Expands a pattern of paths: finds the entries that match it.
//!
//! It resolves the pattern component by component. For a component with a wildcard it lists the
//! folder, and matches each name as `--exclude` does. It looks up a name without one. `**` is any
//! number of folders, and follows no links. At the end of a pattern `**` is all entries of the
//! folder. A missing entry is no match. Any other error is a fault beside the matches, because
//! entries behind it may match. Nothing here is shared, so any thread may call it.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use onefold::{ExcludeBuilder, Excludes, TreeError};

/// What a pattern has found.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// The entries that match, ordered by their bytes.
    pub(super) found: Vec<PathBuf>,
    /// Folders that could not be listed and names that could not be looked up, in the same order.
    pub(super) faults: Vec<(PathBuf, io::Error)>,
}

/// A component of a pattern.
enum Part {
    /// A name as it is, or `.` or `..`.
    Name(String),
    /// A name with a wildcard.
    Wildcard(Box<Excludes>),
    /// Any number of folders.
    Folders,
}

/// Whether a pattern, or a component of one, has a wildcard.
pub(super) fn has_wildcard(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[".contains(byte))
}

/// Finds the entries that match a pattern. A relative one begins at the current folder, and finds
/// relative paths. One with a `/` at the end finds folders, and links to them.
///
/// # Errors
/// The pattern cannot be parsed; the error says why.
pub(super) fn expand(pattern: &str) -> Result<Expansion, String> {
    let parts = parts(pattern)?;
    let needs_folder = pattern.ends_with('/');
    let begin = if pattern.starts_with('/') { "/" } else { "" };
    let mut expansion = Expansion::default();
    // Paths that match the first parts of the pattern, and how many parts that are.
    let mut pending = vec![(PathBuf::from(begin), 0)];
    // Two `**` come to a folder in several ways.
    let mut seen = HashSet::new();
    while let Some((path, matched)) = pending.pop() {
        if !seen.insert((path.clone(), matched)) {
            continue;
        }
        let next = matched + 1;
        match parts.get(matched) {
            None => {
                if !needs_folder || expansion.is_folder(&path, path.metadata().map(|m| m.file_type())) {
                    expansion.found.push(path);
                }
            }
            Some(Part::Name(name)) => {
                let path = path.join(name);
                if expansion.checked(&path, path.symlink_metadata()).is_some() {
                    pending.push((path, next));
                }
            }
            Some(Part::Wildcard(matcher)) => {
                for entry in expansion.list(&path) {
                    let name = entry.file_name();
                    if matcher.excludes(&[b"/", name.as_bytes()].concat()) {
                        pending.push((path.join(name), next));
                    }
                }
            }
            Some(Part::Folders) => {
                for entry in expansion.list(&path) {
                    let below = path.join(entry.file_name());
                    if expansion.is_folder(&below, entry.file_type()) {
                        pending.push((below, matched));
                    }
                }
                pending.push((path, next));
            }
        }
    }
    expansion.found.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    expansion.found.dedup();
    expansion
        .faults
        .sort_by(|(a, _), (b, _)| a.as_os_str().cmp(b.as_os_str()));
    expansion.faults.dedup_by(|(a, _), (b, _)| a == b);
    Ok(expansion)
}

impl Expansion {
    /// What a call found at a path. It notes an error as a fault, unless the entry is missing or is
    /// no folder: then nothing matches there.
    fn checked<T>(&mut self, path: &Path, result: io::Result<T>) -> Option<T> {
        use io::ErrorKind::{NotADirectory, NotFound};

        match result {
            Ok(found) => Some(found),
            Err(error) => {
                if !matches!(error.kind(), NotFound | NotADirectory) {
                    self.faults.push((path.to_owned(), error));
                }
                None
            }
        }
    }

    fn is_folder(&mut self, path: &Path, kind: io::Result<fs::FileType>) -> bool {
        self.checked(path, kind).is_some_and(|kind| kind.is_dir())
    }

    /// Lists a folder, as far as that works.
    fn list(&mut self, folder: &Path) -> Vec<fs::DirEntry> {
        let is_current = folder.as_os_str().is_empty();
        let folder = if is_current { Path::new(".") } else { folder };
        let Some(listed) = self.checked(folder, folder.read_dir()) else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        for entry in listed {
            entries.extend(self.checked(folder, entry));
        }
        entries
    }
}

/// The components of a pattern.
fn parts(pattern: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for text in pattern.split('/').filter(|text| !text.is_empty()) {
        parts.push(match text {
            "**" if matches!(parts.last(), Some(Part::Folders)) => continue,
            "**" => Part::Folders,
            text if has_wildcard(text.as_bytes()) => Part::Wildcard(matcher(text)?),
            text => Part::Name(text.to_owned()),
        });
    }
    if let Some(last @ Part::Folders) = parts.last_mut() {
        *last = Part::Wildcard(matcher("*")?);
    }
    Ok(parts)
}

/// The patterns of `--exclude` for a component: they match `/` and a name. A backslash in a list is
/// a plain character, so it is doubled. In a class the second one changes nothing.
fn matcher(name: &str) -> Result<Box<Excludes>, String> {
    let mut builder = ExcludeBuilder::new();
    let pattern = format!("/{}", name.replace('\\', r"\\"));
    let built = builder.add(&pattern, false).and_then(|()| builder.build());
    built.map(Box::new).map_err(|error| match error {
        TreeError::Pattern { why, .. } => why,
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::*;

    /// What a pattern below a folder finds there.
    fn found(top: &Path, pattern: &str) -> Vec<Vec<u8>> {
        let top = top.to_str().unwrap();
        let expansion = expand(&format!("{top}/{pattern}")).unwrap();
        assert!(expansion.faults.is_empty(), "{:?}", expansion.faults);
        let below = |path: &PathBuf| path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
        expansion.found.iter().map(below).collect()
    }

    #[test]
    fn patterns_find_entries() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for folder in ["a/b/c", "a/d/docs", "e/docs", "ü"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in ["a/b/x", "a/b/c/x", "a/.x", "f", "{g}", r"b\*", r"b\y", "b]"] {
            fs::write(top.join(file), "").unwrap();
        }
        fs::write(top.join(OsStr::from_bytes(b"a/caf\xe9.txt")), "").unwrap();
        symlink("a", top.join("link")).unwrap();
        symlink("none", top.join("dead")).unwrap();
        let cases: [(&str, &[&[u8]]); 24] = [
            ("**/dead", &[b"dead"]),
            ("a/*", &[b"a/.x", b"a/b", b"a/caf\xe9.txt", b"a/d"]),
            ("a/*.txt", &[b"a/caf\xe9.txt"]),
            ("a/caf?.txt", &[b"a/caf\xe9.txt"]),
            ("*/docs", &[b"e/docs"]),
            ("*/*/docs", &[b"a/d/docs", b"link/d/docs"]),
            ("a/.*", &[b"a/.x"]),
            ("a/**", &[b"a/.x", b"a/b", b"a/caf\xe9.txt", b"a/d"]),
            ("a/**/**/", &[b"a/b", b"a/d"]),
            ("**/x", &[b"a/b/c/x", b"a/b/x"]),
            ("a/**/b/**/x", &[b"a/b/c/x", b"a/b/x"]),
            ("**/**/c", &[b"a/b/c"]),
            ("a/**/*/**/x", &[b"a/b/c/x", b"a/b/x"]),
            ("link/**/x", &[b"link/b/c/x", b"link/b/x"]),
            ("[el]*/", &[b"e", b"link"]),
            ("[dl]*", &[b"dead", b"link"]),
            ("?/b/../d", &[b"a/b/../d"]),
            ("f*/x", &[]),
            ("d*/x", &[]),
            ("?", &["a".as_bytes(), b"e", b"f", "ü".as_bytes()]),
            ("[!a-f]", &["ü".as_bytes()]),
            ("{?}", &[b"{g}"]),
            (r"b\?", &[br"b\*", br"b\y"]),
            (r"b[]\]*", &[br"b\*", br"b\y", b"b]"]),
        ];
        for (pattern, want) in cases {
            assert_eq!(found(top, pattern), want, "{pattern}");
        }
        assert!(expand("a/[b").is_err() && expand("a/[b/c]").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("a/docs")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let faults = |pattern: &str| {
            let expansion = expand(&format!("{}/{pattern}", top.display())).unwrap();
            let names = expansion.faults.into_iter().map(|(path, error)| {
                assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
                path.strip_prefix(top).unwrap().display().to_string()
            });
            (expansion.found.len(), names.collect::<Vec<_>>())
        };
        assert_eq!(faults("*/docs"), (1, vec!["loop/docs".to_owned()]));
        assert_eq!(faults("*/d*"), (1, vec!["loop".to_owned()]));
        assert_eq!(faults("*/**/d*"), (1, vec!["loop".to_owned()]));
        assert_eq!(faults("*/"), (1, vec!["loop".to_owned()]));
        // `**` does not follow it, and so misses nothing.
        assert_eq!(faults("**/docs"), (1, vec![]));
    }
}

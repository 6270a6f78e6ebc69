//! Paths as users type them.
//!
//! Onefold resolves a typed path as the kernel does, so that a backup contains what `ls` of the
//! same path shows. The path itself stays as typed, as far as possible: `.` and doubled slashes are
//! removed, and `..` removes the component before it. Two cases need the file system. A `..` after
//! a symbolic link leads to the folder above the link's target. A `/` or `/.` after a link follows
//! it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::order;

/// The path that a typed path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedPath {
    /// Absolute and clean.
    pub path: Vec<u8>,
    /// Whether to follow a symbolic link of that name: the typed path ended with `/` or `/.`.
    pub follows: bool,
}

impl TypedPath {
    /// Resolves a typed path. A relative one begins at `current`, which is absolute. A path that
    /// does not exist is resolved by its text alone.
    #[must_use]
    pub fn new(current: &Path, typed: &Path) -> Self {
        let bytes = typed.as_os_str().as_bytes();
        let mut path = if bytes.starts_with(b"/") {
            PathBuf::from("/")
        } else {
            PathBuf::from(OsStr::from_bytes(&order::absolute(
                b"/",
                current.as_os_str().as_bytes(),
            )))
        };
        for part in order::components(bytes) {
            match part {
                b"." => {}
                b".." => {
                    if path.is_symlink()
                        && let Ok(target) = path.canonicalize()
                    {
                        path = target;
                    }
                    path.pop();
                }
                name => path.push(OsStr::from_bytes(name)),
            }
        }
        Self {
            path: path.into_os_string().into_encoded_bytes(),
            follows: bytes.ends_with(b"/") || bytes.ends_with(b"/."),
        }
    }

    /// The path for system calls.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_without_links_are_resolved_by_their_text() {
        for (typed, path, follows) in [
            ("x", "/w/d/x", false),
            ("../x/", "/w/x", true),
            ("/y//./z/..", "/y", false),
            ("../../..", "/", false),
            (".", "/w/d", false),
            ("x/.", "/w/d/x", true),
            ("/", "/", true),
        ] {
            let found = TypedPath::new(Path::new("/w/d"), Path::new(typed));
            assert_eq!(
                (&found.path[..], found.follows),
                (path.as_bytes(), follows),
                "{typed}"
            );
        }
    }

    #[test]
    fn dots_behind_a_link_are_resolved_as_by_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("far/away")).unwrap();
        fs::create_dir(top.join("near")).unwrap();
        symlink("../far/away", top.join("near/link")).unwrap();
        symlink("nowhere", top.join("near/dangling")).unwrap();
        for (typed, want) in [
            ("link/../x", "far/x"),
            ("link", "near/link"),
            ("link/x", "near/link/x"),
            ("link/x/../y", "near/link/y"),
            ("dangling/../x", "near/x"),
        ] {
            let found = TypedPath::new(&top.join("near"), Path::new(typed));
            assert_eq!(found.as_path(), top.join(want), "{typed}");
        }
    }
}

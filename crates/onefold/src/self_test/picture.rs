//! What a folder holds: names, kinds, content, metadata.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crypto::{DomainKey, Fingerprinter};
use types::Fingerprint;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    /// The first path of the same file.
    twin: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Folder,
    File {
        len: u64,
        /// Of each MiB.
        prints: Vec<Fingerprint>,
    },
    Link(PathBuf),
    Other,
}

/// All entries of a folder, itself included, by their paths from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture(BTreeMap<Vec<u8>, Seen>);

impl Picture {
    /// Looks at everything, and reads all files.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        let mut all = BTreeMap::new();
        let mut twins: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
        let mut open = vec![root.to_owned()];
        while let Some(path) = open.pop() {
            let fail =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            let metadata = fs::symlink_metadata(&path).map_err(fail)?;
            let kind = kind_of(&path, &metadata, &mut open).map_err(fail)?;
            let name = path.strip_prefix(root).unwrap_or(&path).as_os_str();
            all.insert(name.as_bytes().to_vec(), (metadata, kind));
        }
        // In the order of names, whatever order the system lists them in.
        let seen = |(name, (metadata, kind)): (Vec<u8>, (Metadata, Kind))| {
            let id = (metadata.dev(), metadata.ino());
            let twin = match twins.get(&id) {
                Some(first) => Some(first.clone()),
                None => {
                    twins.insert(id, name.clone());
                    None
                }
            };
            let seen = Seen {
                kind,
                mode: metadata.mode(),
                owner: (metadata.uid(), metadata.gid()),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                twin,
            };
            (name, seen)
        };
        Ok(Self(all.into_iter().map(seen).collect()))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The lengths of all files together, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let len = |seen: &Seen| match &seen.kind {
            Kind::File { len, .. } => *len,
            _ => 0,
        };
        self.0.values().map(len).sum()
    }

    /// The first difference, in words: `self` is how it must be.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for (name, seen) in &self.0 {
            let Some(found) = found.0.get(name) else {
                return Some(format!("{:?} is missing", shown(name)));
            };
            let what = if seen.kind != found.kind {
                match (&seen.kind, &found.kind) {
                    (Kind::File { len, prints }, Kind::File { len: l, prints: p }) if len == l => {
                        let at = prints.iter().zip(p).position(|(one, other)| one != other);
                        format!("has other bytes in MiB {}", at.unwrap_or_default())
                    }
                    (Kind::File { len, .. }, Kind::File { len: found, .. }) => {
                        format!("has {found} bytes in place of {len}")
                    }
                    _ => "is of another kind, or leads elsewhere".to_owned(),
                }
            } else if seen.mode != found.mode {
                format!("has the mode {:o} in place of {:o}", found.mode, seen.mode)
            } else if seen.owner != found.owner {
                "has another owner".to_owned()
            } else if seen.modified != found.modified {
                format!(
                    "was modified at {:?} in place of {:?}",
                    found.modified, seen.modified
                )
            } else if seen.twin != found.twin {
                "is one file with other names".to_owned()
            } else {
                continue;
            };
            return Some(format!("{:?} {what}", shown(name)));
        }
        let more = found.0.keys().find(|name| !self.0.contains_key(*name))?;
        Some(format!("{:?} should not be there", shown(more)))
    }
}

fn kind_of(path: &Path, metadata: &Metadata, open: &mut Vec<PathBuf>) -> io::Result<Kind> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return Ok(Kind::Link(fs::read_link(path)?));
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            open.push(entry?.path());
        }
        return Ok(Kind::Folder);
    }
    if !kind.is_file() {
        return Ok(Kind::Other);
    }
    let printer = Fingerprinter::new(&DomainKey::from_bytes([2; 32]));
    let (mut file, mut prints, mut len) = (File::open(path)?, Vec::new(), 0);
    let mut block = Vec::new();
    loop {
        block.clear();
        file.by_ref().take(1 << 20).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(Kind::File { len, prints });
        }
        len += block.len() as u64;
        prints.push(printer.chunk(&block));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::plant;
    use super::*;

    /// A planted tree, and what differs from it after `change`.
    fn after(change: impl Fn(&Path)) -> Option<String> {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        plant::plant(one.path()).unwrap();
        plant::plant(other.path()).unwrap();
        change(other.path());
        let mut pictures = [one, other].map(|root| Picture::of(root.path()).unwrap());
        // Times of creation differ, and are not those of a restore.
        let times: Vec<_> = pictures[0].0.values().map(|seen| seen.modified).collect();
        for (seen, time) in pictures[1].0.values_mut().zip(times) {
            if seen.modified.0 > 1_700_000_000 && seen.modified.0 < 3_000_000_000 {
                seen.modified = time;
            }
        }
        pictures[0].difference(&pictures[1])
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        assert_eq!(after(|_| {}), None);
        let overwritten = after(|root| {
            let mut bytes = fs::read(root.join("large")).unwrap();
            bytes[(2 << 20) + 5] ^= 1;
            fs::write(root.join("large"), bytes).unwrap();
        });
        assert_eq!(overwritten.unwrap(), "\"large\" has other bytes in MiB 2");
        let chmod = |root: &Path| {
            fs::set_permissions(root.join("large"), fs::Permissions::from_mode(0o600)).unwrap();
        };
        assert!(after(chmod).unwrap().contains("mode"));
        let touch = |root: &Path| {
            let time = std::time::UNIX_EPOCH;
            File::open(root.join("text")).unwrap().set_modified(time).unwrap();
        };
        assert!(after(touch).unwrap().contains("modified"));
        let split = |root: &Path| {
            fs::remove_file(root.join("text")).unwrap();
            fs::copy(root.join("a/b/c/twin of text"), root.join("text")).unwrap();
        };
        assert!(after(split).is_some());
        assert!(
            after(|root| fs::remove_file(root.join("same")).unwrap())
                .unwrap()
                .contains("missing")
        );
        assert!(
            after(|root| fs::write(root.join("zz"), "").unwrap())
                .unwrap()
                .contains("should not")
        );
        let longer = after(|root| fs::write(root.join("a/b/größe"), "names").unwrap());
        assert!(longer.unwrap().contains("5 bytes in place of 4"));
        let elsewhere = |root: &Path| {
            fs::remove_file(root.join("a/link")).unwrap();
            std::os::unix::fs::symlink("x", root.join("a/link")).unwrap();
        };
        assert!(after(elsewhere).unwrap().contains("leads elsewhere"));
    }
}

//! Parsers for typed words: names, lists of tags, folders of stores. They refuse doubtful words, so
//! that a blank or a forgotten prefix does not silently make another name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, PathBufValueParser, TypedValueParser};
use onefold::ObjectStoreLocation;
use onefold::walk::Marker;
use transport::{Address, Tunnel};

/// A list of tags, separated by commas. Blanks around a tag are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagList(pub(crate) Vec<String>);

impl TagList {
    /// All tags of several lists.
    pub(crate) fn all(lists: &[Self]) -> Vec<String> {
        lists.iter().flat_map(|list| &list.0).cloned().collect()
    }
}

/// Parses a list of tags. A list with an empty part may have lost a word before it came here, and a
/// filter without that word would choose more. So it is an error. A list that is empty as a whole
/// has no tags.
pub(crate) fn tag_list(list: &str) -> Result<TagList, String> {
    if list.trim().is_empty() {
        return Ok(TagList::default());
    }
    let tags: Vec<String> = list.split(',').map(|tag| tag.trim().to_owned()).collect();
    if tags.iter().any(String::is_empty) {
        return Err(
            "a tag in this list is empty: leave the comma out, or name the tag that is missing".to_owned(),
        );
    }
    Ok(TagList(tags))
}

/// Parses the name of a host or of a stream. Blanks around it are not part of it.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name is needed, and this one is empty".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Parses a path that chooses backups. It refuses a path with a blank at an end: such folders
/// exist, but the blank is usually a slip.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let text = path.to_string_lossy();
        if text.trim() == text {
            return Ok(path);
        }
        Err(
            "a path that begins or ends with a blank would choose nothing, as a rule: if it is called so, write `./` before \
             it or `/` behind it",
        )
    })
}

/// Parses a file that marks folders to leave out: `NAME` or `NAME:HEADER`.
pub(crate) fn marker() -> impl TypedValueParser<Value = Marker> {
    OsStringValueParser::new().try_map(|word| {
        let bytes = word.as_bytes();
        let (name, header) = match bytes.iter().position(|byte| *byte == b':') {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (bytes, &[][..]),
        };
        if name.is_empty() || name.contains(&b'/') || name == b"." || name == b".." {
            return Err("this is the name of a file in each folder to leave out, and has no `/`");
        }
        Ok(Marker {
            name: name.to_vec(),
            header: header.to_vec(),
        })
    })
}

/// The name of a file, without a folder.
pub(crate) fn file_name() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|word| {
        let bytes = word.as_bytes();
        if bytes.is_empty() || bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
            return Err("this is the name of a file in each folder, such as `.gitignore`, and has no `/`");
        }
        Ok(word)
    })
}

/// A backup, and optionally one path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackupPath {
    /// Its id, or `latest`.
    pub(crate) id: String,
    /// The part after the colon.
    pub(crate) path: Option<PathBuf>,
}

/// Parses `ID` or `ID:PATH`. No id has a colon; a path may have any bytes.
pub(crate) fn backup_path() -> impl TypedValueParser<Value = BackupPath> {
    OsStringValueParser::new().try_map(|word| split_backup(&word))
}

fn split_backup(word: &OsStr) -> Result<BackupPath, &'static str> {
    let bytes = word.as_bytes();
    let (id, path) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    };
    if path.is_some_and(<[u8]>::is_empty) {
        return Err("a path is needed after the colon, as in `latest:/etc`");
    }
    let id = str::from_utf8(id).map_err(|_| "this is no id of a backup")?;
    Ok(BackupPath {
        id: id.to_owned(),
        path: path.map(|path| PathBuf::from(OsStr::from_bytes(path))),
    })
}

/// Prefixes that other programs use for places on other machines.
const ELSEWHERE: [&str; 20] = [
    "sftp", "ssh", "scp", "rsync", "ftp", "ftps", "http", "https", "webdav", "webdavs", "b2", "gs", "azure",
    "swift", "rest", "rclone", "opendal", "smb", "nfs", "file",
];

/// Parses a folder of a store, or a place in an object store. It refuses the name of another place
/// on another machine, which would become a local folder of that name.
pub(crate) fn own_store() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match elsewhere(&path) {
        Some(prefix) if !is_in_object_store(&path) => Err(told_elsewhere(&path, &prefix)),
        _ => Ok(path),
    })
}

/// Parses a place that a self-test writes to.
pub(crate) fn tested_place() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match elsewhere(&path) {
        Some(_) if is_on_server(&path) => Err(
            "a self-test writes to a folder or an object store itself: run it on the server, with the place that the server \
             stores in"
                .to_owned(),
        ),
        Some(prefix) if !is_in_object_store(&path) => Err(told_elsewhere(&path, &prefix)),
        _ => Ok(path),
    })
}

/// Parses the place of a store: also a namespace of a server.
pub(crate) fn store_place() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match elsewhere(&path) {
        Some(prefix) if !is_on_server(&path) && !is_in_object_store(&path) => {
            Err(told_elsewhere(&path, &prefix))
        }
        _ => Ok(path),
    })
}

/// Whether the text is meant as a place in an object store. Whether it is a good one is found
/// later: clap would repeat a wrong one, which may have a secret in it.
pub(super) fn is_in_object_store(path: &Path) -> bool {
    path.to_str().is_some_and(ObjectStoreLocation::is_meant)
}

/// Whether the text is meant as a namespace of a server.
pub(crate) fn is_on_server(path: &Path) -> bool {
    let text = path.to_str();
    text.is_some_and(|text| Address::is_meant(text) || Tunnel::is_meant(text))
}

/// The text before a colon in the first part of a path, as in `sftp:user@host:/backup` or
/// `host:/backup`.
fn elsewhere(path: &Path) -> Option<String> {
    let text = path.to_string_lossy();
    let first = text.split('/').next().unwrap_or_default();
    first.split_once(':').map(|(prefix, _)| prefix.to_owned())
}

fn told_elsewhere(path: &Path, prefix: &str) -> String {
    let known = ELSEWHERE.contains(&prefix.to_ascii_lowercase().as_str());
    let what = if known {
        format!("`{prefix}:` is no place that a store can be in")
    } else {
        "this looks like a place on another machine".to_owned()
    };
    format!(
        "{what}: a store is a local folder, or one that is mounted, by NFS or sshfs for example, or in an object store, \
         s3:https://HOST/BUCKET/PREFIX, or on a server, onefold://HOST:PORT/NAMESPACE or ssh://HOST/FOLDER/NAMESPACE; \
         a folder that is called so is `./{}`",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_tags_are_no_part_of_them() {
        let tags = |list| tag_list(list).map(|list| list.0);
        assert_eq!(
            tags("weekly, monthly"),
            Ok(vec!["weekly".into(), "monthly".into()])
        );
        assert_eq!(tags(" a b "), Ok(vec!["a b".into()]));
        assert_eq!(tags(""), Ok(Vec::new()));
        assert_eq!(tags("  "), Ok(Vec::new()));
        for list in [",", "a,", ", a", "a,,b", "a, ,b"] {
            assert!(tags(list).is_err(), "{list:?}");
        }
    }

    #[test]
    fn a_colon_ends_the_id_of_a_backup() {
        let split = |word| split_backup(OsStr::from_bytes(word)).ok();
        let of = |id: &str, path: Option<&[u8]>| {
            Some(BackupPath {
                id: id.to_owned(),
                path: path.map(|path| PathBuf::from(OsStr::from_bytes(path))),
            })
        };
        assert_eq!(split(b"17"), of("17", None));
        assert_eq!(split(b"latest:/a:b/\xff"), of("latest", Some(b"/a:b/\xff")));
        assert_eq!(split(b"3:x"), of("3", Some(b"x")));
        assert_eq!(split(b"3:"), None);
        assert_eq!(split(b"\xff:x"), None);
    }

    #[test]
    fn places_on_other_machines_are_distinguished_from_folders() {
        for place in [
            "sftp:me@nas:/backup",
            "s3:bucket",
            "me@nas:/b",
            "nas:b",
            "https://x/y",
            "file:///x",
            "C:\\x",
        ] {
            assert!(elsewhere(Path::new(place)).is_some(), "{place}");
        }
        for folder in ["/a:b", "./sftp:x", "a/b:c", "../x:y", "plain", ""] {
            assert_eq!(elsewhere(Path::new(folder)), None, "{folder}");
        }
    }
}

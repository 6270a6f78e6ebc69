//! Listing order: paths compare by their components, bytewise. A folder comes before its content.
//!
//! So a folder's whole content follows it directly: `/a`, `/a/b`, `/a/c`, `/a.d`. Bytewise order of
//! whole paths would put `/a.d` between `/a` and `/a/b`. Comparing bytes with `/` below every other
//! byte is the same order, because NUL is in no path. All pure functions.

use std::cmp::Ordering;

/// Compares two clean absolute paths in listing order.
#[must_use]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.iter().zip(b).position(|(x, y)| x != y);
    match common {
        None => a.len().cmp(&b.len()),
        Some(at) => rank(a[at]).cmp(&rank(b[at])),
    }
}

fn rank(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

/// Whether `path` is `folder` or below it.
#[must_use]
pub fn is_within(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

/// The components of an absolute path; none for `/`.
pub fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty())
}

/// The last component of an absolute path; empty for `/`.
#[must_use]
pub fn name(path: &[u8]) -> &[u8] {
    components(path).next_back().unwrap_or_default()
}

/// Whether a path is absolute and every component is a name: not empty, not `.` or `..`, without
/// NUL.
#[must_use]
pub fn is_clean(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/") else {
        return false;
    };
    rest.is_empty()
        || rest
            .split(|b| *b == b'/')
            .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0))
}

/// The path of `name` in `folder`.
#[must_use]
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    [folder, b"/", name].concat()
}

/// Makes a path absolute and clean, by its text alone: removes `.` and doubled slashes, and each
/// `..` with the component before it. It does not follow links.
#[must_use]
pub fn absolute(current: &[u8], path: &[u8]) -> Vec<u8> {
    let from = if path.starts_with(b"/") { &b""[..] } else { current };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(from).chain(components(path)) {
        match part {
            b"." => {}
            b".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    [&b"/"[..], &parts.join(&b'/')].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop::sample::select(b"\x01-.0a\xff".to_vec());
        let name = prop::collection::vec(byte, 1..3);
        prop::collection::vec(name, 0..4).prop_map(|parts| [&b"/"[..], &parts.join(&b'/')].concat())
    }

    proptest! {
        #[test]
        fn order_is_that_of_components(a in path(), b in path()) {
            let model = components(&a).cmp(components(&b));
            prop_assert_eq!(compare(&a, &b), model);
        }
    }

    #[test]
    fn a_folders_content_follows_it() {
        let mut paths: Vec<&[u8]> = vec![b"/a.d", b"/a/c", b"/", b"/a", b"/a-", b"/a/b/x", b"/a/b"];
        paths.sort_by(|a, b| compare(a, b));
        let want: Vec<&[u8]> = vec![b"/", b"/a", b"/a/b", b"/a/b/x", b"/a/c", b"/a-", b"/a.d"];
        assert_eq!(paths, want);
    }

    #[test]
    fn text_alone_makes_a_path_absolute() {
        for (given, want) in [
            ("x", "/w/d/x"),
            ("../x/", "/w/x"),
            ("/y//./z/..", "/y"),
            ("../../..", "/"),
            (".", "/w/d"),
        ] {
            assert_eq!(absolute(b"/w/d", given.as_bytes()), want.as_bytes());
        }
    }

    #[test]
    fn unclean_paths_are_noticed() {
        for bad in ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a\0b", "/.."] {
            assert!(!is_clean(bad.as_bytes()), "{bad:?}");
        }
        assert!(is_clean(b"/") && is_clean(b"/..a/b.."));
        assert!(is_within(b"/a/b", b"/a") && is_within(b"/a", b"/a") && is_within(b"/a", b"/"));
        assert!(!is_within(b"/ab", b"/a"));
    }
}

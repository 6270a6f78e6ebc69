//! Rules for the paths of entries and fences.

use crate::manifest::PATH_BYTES_MAX;
use crate::payload::rule;

/// A path must be absolute, without a trailing slash, and without components that could lead
/// elsewhere. Only the root is `/`.
pub(super) fn path_rules(path: &[u8]) -> Result<(), &'static str> {
    rule(path.len() <= PATH_BYTES_MAX, "a path is too long")?;
    rule(!path.contains(&0), "a path contains a zero byte")?;
    let Some(parts) = path.strip_prefix(b"/") else {
        return Err("a path is not absolute");
    };
    // Most paths have no component that is empty or begins with a dot. A quick test of all pairs of
    // bytes shows this.
    let pairs = path.iter().zip(parts);
    let is_dubious = pairs.fold(false, |is, (&a, &b)| {
        is | ((a == b'/') & ((b == b'/') | (b == b'.')))
    });
    let plain = |part: &[u8]| !part.is_empty() && part != b"." && part != b"..";
    let fits =
        parts.is_empty() || (!is_dubious && !parts.ends_with(b"/")) || parts.split(|&b| b == b'/').all(plain);
    rule(fits, "a path has an empty part, or one that is '.' or '..'")
}

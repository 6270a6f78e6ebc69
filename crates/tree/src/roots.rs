//! The paths at which a backup begins, as a tree of names. So overlapping roots are walked once,
//! and their parent folders are recorded before them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{TypedPath, order};

/// The roots of a walk: absolute, clean, and merged.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    pub(crate) top: RootNode,
}

/// One component of the path to a root.
#[derive(Debug, Clone, Default)]
pub(crate) struct RootNode {
    pub(crate) is_root: bool,
    /// Whether to follow a root that is a symbolic link, and record it as the folder it leads to.
    pub(crate) follows: bool,
    /// In byte order, which is listing order within a folder.
    pub(crate) children: BTreeMap<Vec<u8>, RootNode>,
}

impl Roots {
    /// Takes paths as typed on a command line. A relative one begins at `current`, which is
    /// absolute. A root that is a symbolic link is stored as a link, unless the user typed a `/` at
    /// its end ([`TypedPath`]).
    pub fn new<P: AsRef<Path>>(current: &Path, paths: impl IntoIterator<Item = P>) -> Self {
        let mut roots = Self::default();
        for path in paths {
            let typed = TypedPath::new(current, path.as_ref());
            let mut node = &mut roots.top;
            for part in order::components(&typed.path) {
                node = node.children.entry(part.to_vec()).or_default();
            }
            node.is_root = true;
            node.follows |= typed.follows;
        }
        roots
    }

    /// The roots in listing order, including a root below another one.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut pending = vec![(b"/".to_vec(), &self.top)];
        while let Some((path, node)) = pending.pop() {
            for (name, child) in node.children.iter().rev() {
                pending.push((order::join(&path, name), child));
            }
            if node.is_root {
                found.push(path);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_absolute_and_in_order() {
        let roots = Roots::new(Path::new("/home/u"), ["b", "a/../a", "/etc", ".", "/etc/"]);
        let want: Vec<&[u8]> = vec![b"/etc", b"/home/u", b"/home/u/a", b"/home/u/b"];
        assert_eq!(roots.paths(), want);
    }
}

//! Patterns that may not do what the user meant. The backup is made anyway, and warns of them.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Excludes;
use super::pattern::Pattern;
use crate::{Roots, order};

/// A pattern, and why it may not do what the user meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternDoubt {
    /// The pattern as it was typed.
    pub pattern: String,
    /// Why it is doubtful.
    pub why: Doubt,
}

/// Why a pattern may not do what the user meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// No path of the backup can match the pattern.
    OutsideOfRoots,
    /// The pattern names a given path, or a folder above one.
    NamesRoot,
    /// Its path crosses a symbolic link, which the backup does not follow.
    BehindLink(String),
    /// It includes again an entry in a folder that is left out, and the walk does not enter that
    /// folder.
    BelowExcluded(String),
    /// It has quotes around it, which count as characters of the name.
    Quoted,
    /// It has a backslash before a letter.
    NeedlessEscape(char),
    /// An entry has these very brackets in its name, and was not left out.
    BracketsAreClass,
}

impl fmt::Display for PatternDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pattern {:?} ", self.pattern)?;
        match &self.why {
            Doubt::OutsideOfRoots => f.write_str("matches nothing: it is outside of all that is backed up"),
            Doubt::NamesRoot => f.write_str(
                "matches nothing: a path that is given to `backup`, and the folders above it, are never left out",
            ),
            Doubt::BehindLink(link) => write!(
                f,
                "matches nothing: {link} is a symbolic link, which is not followed; name the folder that it leads to"
            ),
            Doubt::BelowExcluded(folder) => write!(
                f,
                "takes nothing back: {folder} is left out, and nothing in it is looked at; leave out what is in it \
                 instead, such as {folder}/*"
            ),
            Doubt::Quoted => f.write_str("has quotes around it, which are taken as parts of names"),
            Doubt::NeedlessEscape(c) => write!(
                f,
                "has a backslash before `{c}`, which means `{c}` alone: folders are separated by `/`, and a \
                 backslash in a name is `\\\\`"
            ),
            Doubt::BracketsAreClass => f.write_str(
                "did not leave out the entry of that very name: `[...]` is any one of the characters between the \
                 brackets; write `\\[` for a bracket",
            ),
        }
    }
}

impl Excludes {
    /// Patterns that have no effect in a backup of these roots, or an unexpected one. It looks for
    /// links in the file system.
    #[must_use]
    pub fn doubts(&self, roots: &Roots) -> Vec<PatternDoubt> {
        let roots = roots.paths();
        let doubts = self.patterns.iter().filter_map(|pattern| {
            Some(PatternDoubt {
                pattern: pattern.typed.clone(),
                why: self.doubt(pattern, &roots)?,
            })
        });
        doubts.collect()
    }

    fn doubt(&self, pattern: &Pattern, roots: &[Vec<u8>]) -> Option<Doubt> {
        let text = pattern.typed.trim_start_matches('!');
        let is_quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
        if is_quoted('"') || is_quoted('\'') {
            return Some(Doubt::Quoted);
        }
        if let Some(letter) = pattern.needless_escape() {
            return Some(Doubt::NeedlessEscape(letter));
        }
        if !pattern.is_absolute {
            return None;
        }
        let names = pattern.names();
        let path = [&b"/"[..], &names.join(&b'/')].concat();
        if pattern.is_literal() && roots.iter().any(|root| order::is_within(root, &path)) {
            return Some(Doubt::NamesRoot);
        }
        let reaches = |root: &&Vec<u8>| order::is_within(&path, root) || order::is_within(root, &path);
        let Some(root) = roots.iter().find(reaches) else {
            return Some(Doubt::OutsideOfRoots);
        };
        self.doubt_of_way(pattern, &names, root)
    }

    /// Checks the path from the root to the entry that an absolute pattern names.
    fn doubt_of_way(&self, pattern: &Pattern, names: &[Vec<u8>], root: &[u8]) -> Option<Doubt> {
        let last = names.len() - usize::from(pattern.is_literal());
        let mut folder = b"/".to_vec();
        for name in &names[..last] {
            folder = order::join(&folder, name);
            if !order::is_within(&folder, root) || folder == root {
                continue;
            }
            let shown = || String::from_utf8_lossy(&folder).into_owned();
            if Path::new(std::ffi::OsStr::from_bytes(&folder)).is_symlink() {
                return Some(Doubt::BehindLink(shown()));
            }
            if pattern.takes_back && self.excludes(&folder) {
                return Some(Doubt::BelowExcluded(shown()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ExcludeBuilder;

    fn doubt(patterns: &[&str], current: &Path, roots: &[&str]) -> Vec<Doubt> {
        let mut builder = ExcludeBuilder::at(current);
        for pattern in patterns {
            builder.add(pattern, false).unwrap();
        }
        let roots = Roots::new(current, roots);
        let doubts = builder.build().unwrap().doubts(&roots);
        doubts.into_iter().map(|doubt| doubt.why).collect()
    }

    #[test]
    fn patterns_without_effect_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("src/real/sub")).unwrap();
        symlink("real", top.join("src/link")).unwrap();
        let shown = |name: &str| top.join(name).display().to_string();
        for (patterns, want) in [
            (vec!["cache", "./src/cache", "./src/*/x", "/*/x", "**/y"], None),
            (vec!["/elsewhere/x"], Some(Doubt::OutsideOfRoots)),
            (vec!["./srx/*"], Some(Doubt::OutsideOfRoots)),
            (vec!["./src"], Some(Doubt::NamesRoot)),
            (vec!["/"], Some(Doubt::NamesRoot)),
            (vec!["./src/link/sub"], Some(Doubt::BehindLink(shown("src/link")))),
            (vec!["./src/link"], None),
            (
                vec!["real", "!./src/real/sub"],
                Some(Doubt::BelowExcluded(shown("src/real"))),
            ),
            (vec!["./src/*", "!./src/real"], None),
            (vec!["'cache'"], Some(Doubt::Quoted)),
            (vec![r"C:\Users"], Some(Doubt::NeedlessEscape('U'))),
        ] {
            let found = doubt(&patterns, &top, &["src"]);
            assert_eq!(found, Vec::from_iter(want), "{patterns:?}");
        }
    }
}

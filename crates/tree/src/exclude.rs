//! Exclude patterns, with the meaning that hands know from restic.
//!
//! A pattern with a leading `/` is matched against whole paths; any other may begin at any component.
//! `*` and `?` do not cross a `/`, `**` does; `[...]` is a class, `\` takes the next character as it is.
//! A pattern that matches a folder leaves out what is in it, because the walk does not enter it. A
//! pattern with a leading `!` takes back what an earlier one excluded; the last match decides.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::TreeError;

/// Compiled patterns. Cheap to share; the default excludes nothing.
#[derive(Debug, Clone, Default)]
pub struct Excludes {
    set: GlobSet,
    /// Whether the pattern of that number takes back.
    takes_back: Vec<bool>,
}

/// Collects patterns in order.
#[derive(Debug)]
pub struct ExcludeBuilder {
    set: GlobSetBuilder,
    takes_back: Vec<bool>,
}

impl Default for ExcludeBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ExcludeBuilder {
    /// No patterns yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            set: GlobSetBuilder::new(),
            takes_back: Vec::new(),
        }
    }

    /// Adds a pattern; `any_case` lets letters match whatever their case. An empty one is passed over.
    ///
    /// # Errors
    /// [`TreeError::Pattern`].
    pub fn add(&mut self, pattern: &str, any_case: bool) -> Result<(), TreeError> {
        let (takes_back, glob) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let glob = glob.trim_end_matches('/');
        if glob.is_empty() {
            return Ok(());
        }
        let fault = |e: globset::Error| TreeError::Pattern {
            pattern: pattern.into(),
            why: e.kind().to_string(),
        };
        let compiled = GlobBuilder::new(&anchored(glob))
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(any_case)
            .build()
            .map_err(fault)?;
        self.set.add(compiled);
        self.takes_back.push(takes_back);
        Ok(())
    }

    /// Compiles the patterns.
    ///
    /// # Errors
    /// [`TreeError::Pattern`] when together they are too many or too large.
    pub fn build(self) -> Result<Excludes, TreeError> {
        let set = self.set.build().map_err(|e| TreeError::Pattern {
            pattern: e.glob().unwrap_or("all patterns together").into(),
            why: e.kind().to_string(),
        })?;
        Ok(Excludes {
            set,
            takes_back: self.takes_back,
        })
    }
}

/// Begins a pattern at any component unless it is absolute, and takes braces as they are.
fn anchored(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len() + 3);
    if !pattern.starts_with('/') {
        glob.push_str("**/");
    }
    let (mut escaped, mut in_class) = (false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => {}
            '[' => in_class = true,
            ']' => in_class = false,
            '{' | '}' if !in_class => glob.push('\\'),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        glob.push(c);
    }
    glob
}

impl Excludes {
    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.takes_back.is_empty()
    }

    /// Whether a clean absolute path is left out by a pattern that matches it itself. Those of its
    /// parents are not asked.
    #[must_use]
    pub fn excludes(&self, path: &[u8]) -> bool {
        if self.takes_back.is_empty() {
            return false;
        }
        let candidate = Candidate::new(Path::new(OsStr::from_bytes(path)));
        let last = self.set.matches_candidate(&candidate).into_iter().max();
        last.is_some_and(|number| !self.takes_back[number])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(patterns: &[&str], path: &[u8]) -> bool {
        let mut builder = ExcludeBuilder::new();
        for p in patterns {
            builder.add(p, false).unwrap();
        }
        builder.build().unwrap().excludes(path)
    }

    #[test]
    fn patterns_mean_what_hands_expect() {
        for (pattern, path, want) in [
            ("foo", "/a/foo", true),
            ("foo", "/foo", true),
            ("foo", "/a/foo/b", false),
            ("foo", "/a/xfoo", false),
            ("foo/bar", "/x/foo/bar", true),
            ("/foo", "/a/foo", false),
            ("/foo/", "/foo", true),
            ("*.o", "/x/y/z.o", true),
            ("/x/*.o", "/x/y/z.o", false),
            ("/x/**/*.o", "/x/y/w/z.o", true),
            ("/x/**/*.o", "/x/z.o", true),
            ("a?c", "/abc", true),
            ("a?c", "/a/c", false),
            ("[ab]c", "/bc", true),
            (r"\*x", "/*x", true),
            (r"\*x", "/yx", false),
            ("{a,b}", "/a", false),
            ("{a,b}", "/{a,b}", true),
            ("[{]x", "/{x", true),
            ("Foo", "/foo", false),
        ] {
            assert_eq!(excludes(&[pattern], path.as_bytes()), want, "{pattern} {path}");
        }
        assert!(excludes(&["*"], b"/\xff\xfe"));
    }

    #[test]
    fn the_last_match_decides() {
        assert!(!excludes(&["*.o", "!keep.o"], b"/keep.o"));
        assert!(excludes(&["!keep.o", "*.o"], b"/keep.o"));
        assert!(excludes(&["*.o", "!keep.o"], b"/other.o"));
    }

    #[test]
    fn case_is_folded_on_request_and_faults_are_told() {
        let mut builder = ExcludeBuilder::new();
        builder.add("Foo", true).unwrap();
        assert!(matches!(builder.add("[a", false), Err(TreeError::Pattern { .. })));
        assert!(builder.build().unwrap().excludes(b"/fOO"));
    }
}

//! Exclude patterns, with the same meaning as in restic.
//!
//! A pattern with a leading `/` must match a whole path. So must one with a leading `./` or `../`,
//! from the current folder on. Any other may begin at any component. `*` and `?` do not cross a
//! `/`, `**` does; `[...]` is a class, and `\` makes the next character a plain one. Patterns are
//! cleaned first ([`pattern`]). A pattern that matches a folder also leaves out its content,
//! because the walk does not enter it. A pattern with a leading `!` includes again what an earlier
//! one excluded. The last match decides.

mod doubts;
mod pattern;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::TreeError;
use pattern::Pattern;

pub use doubts::{Doubt, PatternDoubt};

/// Compiled patterns. Cheap to share; the default excludes nothing. Clones share the record of
/// matches.
#[derive(Debug, Clone, Default)]
pub struct Excludes {
    set: GlobSet,
    patterns: Arc<[Pattern]>,
    /// The matches of each pattern, by number.
    met: Arc<[PatternMatches]>,
    /// The patterns with a class, compiled with its brackets as plain characters.
    literal: GlobSet,
    /// The number of each of those patterns.
    literal_of: Arc<[usize]>,
}

/// The matches of a pattern so far.
#[derive(Debug, Default)]
struct PatternMatches {
    /// The pattern has matched a path.
    any: AtomicBool,
    /// The pattern met a path that it does not match, but would with brackets as plain characters.
    literal: AtomicBool,
}

/// Collects patterns in order.
#[derive(Debug, Default)]
pub struct ExcludeBuilder {
    patterns: Vec<(Pattern, Glob, Option<Glob>)>,
    current: Option<PathBuf>,
}

impl ExcludeBuilder {
    /// No patterns yet. Refuses one with a leading `./` or `../`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No patterns yet. One with a leading `./` or `../` begins at this folder, which is absolute.
    #[must_use]
    pub fn at(current: &Path) -> Self {
        Self {
            current: Some(current.to_owned()),
            ..Self::default()
        }
    }

    /// Adds a pattern. With `any_case` the case of letters does not matter.
    ///
    /// # Errors
    /// [`TreeError::Pattern`] if the pattern cannot be parsed, or can never match.
    pub fn add(&mut self, typed: &str, any_case: bool) -> Result<(), TreeError> {
        let fault = |why: String| TreeError::Pattern {
            pattern: typed.into(),
            why,
        };
        let mut pattern = Pattern::new(typed, self.current.as_deref()).map_err(fault)?;
        pattern.any_case = any_case;
        let compile = |glob: &str| {
            let mut builder = GlobBuilder::new(glob);
            builder.literal_separator(true).backslash_escape(true);
            let compiled = builder.case_insensitive(any_case).build();
            compiled.map_err(|error| fault(error.kind().to_string()))
        };
        let glob = compile(&pattern.glob())?;
        let literal = pattern.with_literal_brackets();
        let literal = literal.map(|glob| compile(&glob)).transpose()?;
        self.patterns.push((pattern, glob, literal));
        Ok(())
    }

    /// Compiles the patterns.
    ///
    /// # Errors
    /// [`TreeError::Pattern`] if together they are too many or too large.
    pub fn build(self) -> Result<Excludes, TreeError> {
        let (mut set, mut literal_set) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let (mut patterns, mut literal_of) = (Vec::new(), Vec::new());
        for (number, (pattern, glob, literal)) in self.patterns.into_iter().enumerate() {
            set.add(glob);
            if let Some(literal) = literal {
                literal_set.add(literal);
                literal_of.push(number);
            }
            patterns.push(pattern);
        }
        let compile = |set: GlobSetBuilder| {
            set.build().map_err(|e| TreeError::Pattern {
                pattern: e.glob().unwrap_or("all patterns together").into(),
                why: e.kind().to_string(),
            })
        };
        Ok(Excludes {
            set: compile(set)?,
            met: patterns.iter().map(|_| PatternMatches::default()).collect(),
            patterns: patterns.into(),
            literal: compile(literal_set)?,
            literal_of: literal_of.into(),
        })
    }
}

impl Excludes {
    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a pattern that matches a clean absolute path leaves it out. It does not check the
    /// path's parents.
    #[must_use]
    pub fn excludes(&self, path: &[u8]) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let candidate = Candidate::new(Path::new(OsStr::from_bytes(path)));
        let matches = self.set.matches_candidate(&candidate);
        for &number in &matches {
            self.met[number].any.store(true, Ordering::Relaxed);
        }
        if !self.literal_of.is_empty() {
            let literal = self.literal.matches_candidate(&candidate).into_iter();
            for number in literal.map(|at| self.literal_of[at]) {
                if !matches.contains(&number) {
                    self.met[number].literal.store(true, Ordering::Relaxed);
                }
            }
        }
        let last = matches.into_iter().max();
        last.is_some_and(|number| !self.patterns[number].takes_back)
    }

    /// Paths such that every match is one of them or below one. `None`: a match may be anywhere.
    #[must_use]
    pub fn roots(&self) -> Option<Vec<Vec<u8>>> {
        let patterns = self.patterns.iter().filter(|pattern| !pattern.takes_back);
        let root = |pattern: &Pattern| {
            let is_placed = pattern.is_absolute && !pattern.any_case;
            is_placed.then(|| [&b"/"[..], &pattern.names().join(&b'/')].concat())
        };
        patterns.map(root).collect()
    }

    /// Patterns with `[...]` for which an entry had these very brackets in its name. Call this
    /// after a walk.
    #[must_use]
    pub fn doubts_met(&self) -> Vec<PatternDoubt> {
        let met = self.patterns.iter().zip(&*self.met);
        let literal = met.filter(|(_, met)| met.literal.load(Ordering::Relaxed));
        let doubts = literal.map(|(pattern, _)| PatternDoubt {
            pattern: pattern.typed.clone(),
            why: Doubt::BracketsAreClass,
        });
        doubts.collect()
    }

    /// The patterns that have matched nothing, as the user typed them. Call this after a walk.
    #[must_use]
    pub fn unmet(&self) -> Vec<&str> {
        let met = self.patterns.iter().zip(&*self.met);
        let unmet = met.filter(|(_, met)| !met.any.load(Ordering::Relaxed));
        unmet.map(|(pattern, _)| pattern.typed.as_str()).collect()
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
    fn patterns_match_as_users_expect() {
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
    fn matches_of_patterns_are_reported_after_the_walk() {
        let mut builder = ExcludeBuilder::new();
        for pattern in ["some[dir]", "*.[oa]", "never", "file"] {
            builder.add(pattern, false).unwrap();
        }
        let excludes = builder.build().unwrap();
        for path in ["/x/some[dir]", "/x/y.o", "/file"] {
            assert_eq!(excludes.clone().excludes(path.as_bytes()), path != "/x/some[dir]");
        }
        let doubts = excludes.doubts_met();
        assert_eq!(doubts.len(), 1);
        assert_eq!(
            (&doubts[0].pattern[..], &doubts[0].why),
            ("some[dir]", &Doubt::BracketsAreClass)
        );
        assert_eq!(excludes.unmet(), ["some[dir]", "never"]);
    }

    #[test]
    fn matches_are_below_the_text_before_the_first_wildcard() {
        let roots = |patterns: &[(&str, bool)]| {
            let mut builder = ExcludeBuilder::new();
            for (pattern, any_case) in patterns {
                builder.add(pattern, *any_case).unwrap();
            }
            builder.build().unwrap().roots()
        };
        let want = vec![b"/a/b".to_vec(), b"/c".to_vec(), b"/".to_vec()];
        assert_eq!(
            roots(&[("/a/b/x*", false), ("!d", false), ("/c", false), ("/**/e", false)]),
            Some(want)
        );
        assert_eq!(roots(&[("/a", false), ("b*", false)]), None);
        assert_eq!(roots(&[("/a", true)]), None);
        assert_eq!(roots(&[]), Some(Vec::new()));
    }

    #[test]
    fn the_last_match_decides() {
        assert!(!excludes(&["*.o", "!keep.o"], b"/keep.o"));
        assert!(excludes(&["!keep.o", "*.o"], b"/keep.o"));
        assert!(excludes(&["*.o", "!keep.o"], b"/other.o"));
    }

    #[test]
    fn case_is_folded_on_request_and_faults_are_reported() {
        let mut builder = ExcludeBuilder::new();
        builder.add("Foo", true).unwrap();
        assert!(matches!(builder.add("[a", false), Err(TreeError::Pattern { .. })));
        assert!(builder.build().unwrap().excludes(b"/fOO"));
    }
}

//! Exclude patterns, with the same meaning as in restic.
//!
//! A pattern with a leading `/` must match a whole path. So must one with a leading `./` or `../`,
//! from the current folder on. Any other may begin at any component. `*` and `?` do not cross a
//! `/`, `**` does; `[...]` is a class, and `\` makes the next character a plain one. `?`, classes
//! and the case of letters concern characters, or bytes in a path that is not UTF-8. Patterns are
//! cleaned first ([`pattern`]). A pattern that matches a folder also leaves out its content,
//! because the walk does not enter it. A pattern with a leading `!` includes again what an earlier
//! one excluded. The last match decides.

mod characters;
mod doubts;
mod matcher;
mod pattern;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::TreeError;
use matcher::{Matcher, ParsedGlob};
use pattern::Pattern;

pub use doubts::{Doubt, PatternDoubt};

/// Compiled patterns. Cheap to share; the default excludes nothing. Clones share the record of
/// matches.
#[derive(Debug, Clone, Default)]
pub struct Excludes {
    matcher: Matcher,
    patterns: Arc<[Pattern]>,
    /// The matches of each pattern, by number.
    met: Arc<[PatternMatches]>,
    /// The patterns with a class, compiled with its brackets as plain characters.
    literal: Matcher,
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
    patterns: Vec<(Pattern, ParsedGlob, Option<ParsedGlob>)>,
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
        let parse = |glob: &str| ParsedGlob::new(glob, any_case).map_err(fault);
        let glob = parse(&pattern.glob())?;
        let literal = pattern.with_literal_brackets();
        let literal = literal.map(|glob| parse(&glob)).transpose()?;
        self.patterns.push((pattern, glob, literal));
        Ok(())
    }

    /// Compiles the patterns.
    ///
    /// # Errors
    /// [`TreeError::Pattern`] if together they are too many or too large.
    pub fn build(self) -> Result<Excludes, TreeError> {
        let (mut globs, mut patterns) = (Vec::new(), Vec::new());
        let (mut literal, mut literal_of) = (Vec::new(), Vec::new());
        for (number, (pattern, glob, with_literal_brackets)) in self.patterns.into_iter().enumerate() {
            globs.push(glob);
            if let Some(glob) = with_literal_brackets {
                literal.push(glob);
                literal_of.push(number);
            }
            patterns.push(pattern);
        }
        Ok(Excludes {
            matcher: Matcher::new(globs)?,
            met: patterns.iter().map(|_| PatternMatches::default()).collect(),
            patterns: patterns.into(),
            literal: Matcher::new(literal)?,
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
        let matches = self.matcher.matches(path);
        for &number in &matches {
            self.met[number].any.store(true, Ordering::Relaxed);
        }
        if !self.literal_of.is_empty() {
            let literal = self.literal.matches(path).into_iter();
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
    fn patterns_concern_characters() {
        for (pattern, name, want) in [
            ("[ÄÖ]*", "Ärger", true),
            ("[ÄÖ]*", "Übung.txt", false),
            ("[ÄÖ]*", "été", false),
            ("[!ÄÖ]*", "Übung.txt", true),
            ("[!ÄÖ]*", "Ärger", false),
            ("[^a]", "ü", true),
            ("M?ller", "Müller", true),
            ("M??ller", "Müller", false),
            ("?", "日", true),
            ("[а-я]*", "мир", true),
            ("[а-я]*", "Мир", false),
            ("[а-я]*", "qир", false),
            ("/?/**/[é]", "日", false),
        ] {
            let path = format!("/x/{name}");
            assert_eq!(excludes(&[pattern], path.as_bytes()), want, "{pattern} {name}");
        }
        assert!(excludes(&["/?/**/[é]"], "/日/é".as_bytes()));
        assert!(excludes(&["/?/**/[é]"], "/日/x/y/é".as_bytes()));
        // The last match decides, whichever set finds it.
        assert!(!excludes(&["M?ller", "!Müller"], "/Müller".as_bytes()));
        assert!(!excludes(&["Müller", "!M?ller"], "/Müller".as_bytes()));
        assert!(excludes(&["!M?ller", "Müller"], "/Müller".as_bytes()));
    }

    #[test]
    fn case_is_folded_in_every_alphabet() {
        let mut builder = ExcludeBuilder::new();
        for pattern in ["übung*", "[а-я]ир", "ΣΊΣΥΦΟΣ"] {
            builder.add(pattern, true).unwrap();
        }
        builder.add("straße", false).unwrap();
        let patterns = builder.build().unwrap();
        for (name, want) in [
            ("Übung.txt", true),
            ("ÜBUNG", true),
            ("МИР", true),
            ("σίσυφος", true),
            ("Straße", false),
        ] {
            assert_eq!(patterns.excludes(format!("/{name}").as_bytes()), want, "{name}");
        }
    }

    #[test]
    fn paths_that_are_not_utf_8_are_matched_by_bytes() {
        let latin = b"/M\xfcller";
        assert!(excludes(&["M?ller"], latin) && excludes(&["M[!x]ller"], latin));
        assert!(!excludes(&["M[ü]ller"], b"/M\xfc\xfcller"));
        // Bytes match the whole of such a path.
        let below = [&b"/\xff/M"[..], "ü".as_bytes(), b"ller"].concat();
        assert!(!excludes(&["M?ller"], &below) && excludes(&["M??ller"], &below));
        assert!(excludes(&["?"], b"/\xff") && excludes(&["*"], b"/\xff\xfe"));
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

        let mut builder = ExcludeBuilder::new();
        builder.add("[ab]?", false).unwrap();
        let excludes = builder.build().unwrap();
        assert!(!excludes.excludes("/[ab]ü".as_bytes()));
        assert_eq!(excludes.doubts_met().len(), 1);
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

//! Compiled globs, which tell which of them match a path.
//!
//! They match the characters of a path in valid UTF-8, and the bytes of any other. `globset` is
//! fast, and matches bytes. A second set has the globs for which characters make a difference, and
//! its answer replaces the one of `globset`. Values only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use regex::{RegexSet, RegexSetBuilder};

use super::characters::Translation;
use crate::TreeError;

/// Limit of all expressions together, and of the cache of their automaton. `globset` has 10 MiB for
/// each: 7000 globs such as `name7?x[!a]*` fit, and 10,000 do not. The expressions of 10,000 fit
/// here, though a character takes more than a byte.
const EXPRESSIONS_BYTES_MAX: usize = 64 << 20;

/// A glob that has been parsed.
#[derive(Debug)]
pub(super) struct ParsedGlob {
    glob: Glob,
    /// Its expression over characters, if that may give another answer.
    expression: Option<String>,
}

impl ParsedGlob {
    /// Parses a clean glob. The error says why it is none.
    pub(super) fn new(glob: &str, any_case: bool) -> Result<Self, String> {
        let mut builder = GlobBuilder::new(glob);
        builder.literal_separator(true).backslash_escape(true);
        let parsed = builder.case_insensitive(any_case).build();
        let translation = Translation::new(glob, any_case);
        let needed = translation.filter(|translation| translation.differs);
        Ok(Self {
            glob: parsed.map_err(|error| error.kind().to_string())?,
            expression: needed.map(|translation| translation.expression),
        })
    }
}

/// Globs, each with a number: its position.
#[derive(Debug, Clone, Default)]
pub(super) struct Matcher {
    globs: GlobSet,
    expressions: RegexSet,
    /// The number of the glob of each expression, ascending.
    numbers: Arc<[usize]>,
}

impl Matcher {
    /// Compiles globs.
    ///
    /// # Errors
    /// [`TreeError::Pattern`] if together they are too many or too large.
    pub(super) fn new(parsed: impl IntoIterator<Item = ParsedGlob>) -> Result<Self, TreeError> {
        let fault = |glob: Option<&str>, why: String| TreeError::Pattern {
            pattern: glob.unwrap_or("all patterns together").into(),
            why,
        };
        let mut globs = GlobSetBuilder::new();
        let (mut expressions, mut numbers) = (Vec::new(), Vec::new());
        for (number, parsed) in parsed.into_iter().enumerate() {
            globs.add(parsed.glob);
            if let Some(expression) = parsed.expression {
                expressions.push(expression);
                numbers.push(number);
            }
        }
        let expressions = RegexSetBuilder::new(expressions)
            .size_limit(EXPRESSIONS_BYTES_MAX)
            .dfa_size_limit(EXPRESSIONS_BYTES_MAX)
            .build();
        Ok(Self {
            globs: globs.build().map_err(|e| fault(e.glob(), e.kind().to_string()))?,
            expressions: expressions.map_err(|e| fault(None, e.to_string()))?,
            numbers: numbers.into(),
        })
    }

    /// The numbers of the globs that match a path, in no order.
    pub(super) fn matches(&self, path: &[u8]) -> Vec<usize> {
        let candidate = Candidate::new(Path::new(OsStr::from_bytes(path)));
        let mut matches = self.globs.matches_candidate(&candidate);
        if !self.numbers.is_empty()
            && let Ok(text) = str::from_utf8(path)
        {
            matches.retain(|number| self.numbers.binary_search(number).is_err());
            let expressions = self.expressions.matches(text);
            matches.extend(expressions.iter().map(|at| self.numbers[at]));
        }
        matches
    }
}

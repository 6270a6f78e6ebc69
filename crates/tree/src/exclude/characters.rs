//! Translates clean globs into regular expressions over characters. Values only.
//!
//! `globset` matches bytes. So its `?` is one byte of a letter such as `ü`, and its `[äö]` is a
//! class of four bytes. It knows the case of letters in ASCII alone. The expressions match
//! characters. On paths in ASCII both agree, but for two letters: in any case, `ſ` in a pattern
//! matches `s`, and the kelvin sign matches `k`.

use std::str::Chars;

/// The names that a class may have in it, such as `[[:digit:]]`. Each stands for characters in
/// ASCII.
const NAMED: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
    "xdigit",
];

/// A glob as a regular expression that must match a whole path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) expression: String,
    /// Whether bytes may give another answer than characters.
    pub(super) differs: bool,
}

impl Translation {
    /// Translates a glob that `globset` has accepted. `None`: it has `{...}` that are no plain
    /// characters. A pattern gets them only behind a class with `\]` in it.
    pub(super) fn new(glob: &str, any_case: bool) -> Option<Self> {
        let mut expression = String::from(if any_case { "(?si)^" } else { "(?s)^" });
        let mut differs = any_case && !glob.is_ascii();
        let (mut chars, mut begins_name) = (glob.chars(), true);
        while let Some(c) = chars.next() {
            let is_first = std::mem::replace(&mut begins_name, c == '/');
            match c {
                '*' => match chars.as_str() {
                    "*" if is_first => {
                        expression.push_str(".*");
                        chars = "".chars();
                    }
                    rest if is_first && rest.starts_with("*/") => {
                        expression.push_str("(?:.*/)?");
                        chars = rest[2..].chars();
                        begins_name = true;
                    }
                    _ => expression.push_str("[^/]*"),
                },
                '?' => {
                    expression.push_str("[^/]");
                    differs = true;
                }
                '[' => {
                    let class = Class::read(&mut chars)?;
                    class.write(&mut expression);
                    differs |= class.differs();
                }
                '{' | '}' => return None,
                '\\' => push(&mut expression, chars.next()?),
                c => push(&mut expression, c),
            }
        }
        expression.push('$');
        Some(Self { expression, differs })
    }
}

/// A class of characters.
struct Class<'a> {
    is_negated: bool,
    items: Vec<Item<'a>>,
}

enum Item<'a> {
    Range(char, char),
    Named(&'a str),
}

impl<'a> Class<'a> {
    /// Reads a class behind its `[`, as `globset` does: a `]` or `-` at the beginning and a `-` at
    /// the end are plain characters, and so is a backslash. `None`: it has no end, or a range that
    /// begins with a named class.
    fn read(chars: &mut Chars<'a>) -> Option<Self> {
        let is_negated = chars.as_str().starts_with(['!', '^']);
        if is_negated {
            chars.next();
        }
        let (mut items, mut in_range) = (Vec::new(), false);
        loop {
            let (c, is_first) = (chars.next()?, items.is_empty());
            match c {
                ']' if !is_first => break,
                _ if in_range => {
                    // A second `-` behind a range gives the same range another end.
                    let Some(Item::Range(_, end)) = items.last_mut() else {
                        return None;
                    };
                    *end = c;
                    in_range = false;
                }
                '-' if !is_first => in_range = true,
                _ => match (c, name(chars.as_str())) {
                    ('[', Some((name, rest))) => {
                        items.push(Item::Named(name));
                        *chars = rest.chars();
                    }
                    _ => items.push(Item::Range(c, c)),
                },
            }
        }
        if in_range {
            items.push(Item::Range('-', '-'));
        }
        Some(Self { is_negated, items })
    }

    fn write(&self, expression: &mut String) {
        expression.push_str(if self.is_negated { "[^/" } else { "[" });
        for item in &self.items {
            match *item {
                Item::Range(first, last) => {
                    push(expression, first);
                    expression.push('-');
                    push(expression, last);
                }
                Item::Named(name) => expression.extend(["[:", name, ":]"]),
            }
        }
        expression.push_str(if self.is_negated { "]" } else { "&&[^/]]" });
    }

    fn differs(&self) -> bool {
        let is_ascii = |item: &Item| !matches!(item, Item::Range(_, last) if !last.is_ascii());
        self.is_negated || !self.items.iter().all(is_ascii)
    }
}

/// The name in `:name:]`, and the text behind it.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix(':')?.split_once(":]")?;
    NAMED.contains(&name).then_some((name, rest))
}

/// Adds a plain character.
fn push(expression: &mut String, c: char) {
    expression.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use globset::GlobBuilder;
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;
    use crate::exclude::pattern::Pattern;

    /// Whether `globset` and our expression match a path. `None`: there is no such pattern, or no
    /// expression for it.
    fn both(typed: &str, any_case: bool, path: &str) -> Option<(bool, bool)> {
        let glob = Pattern::new(typed, None).ok()?.glob();
        let compiled = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(any_case)
            .build()
            .ok()?;
        let ours = Regex::new(&Translation::new(&glob, any_case)?.expression).unwrap();
        let theirs = compiled
            .compile_matcher()
            .is_match(OsStr::from_bytes(path.as_bytes()));
        Some((theirs, ours.is_match(path)))
    }

    #[test]
    fn expressions_agree_with_globs_on_ascii() {
        let paths = "/ /a /b /a/b /a/x/b /a/x/y/b /ab /- /] /[x] /A /a.b /a\nb /\\ /^ /: /5 /z /{a,b} /& /~";
        let patterns = [
            r"a a? ? /* /** ** a/** a/**/b /**/b a/**/**/b **/**/b a**b **b *** /a/***/b a?b a.b /",
            r"[ab] [!a] [^a] []] [!]] [-a] [a-] [a-c] [a-c-z] [!-a] [^^] [+-0] [/] [a/]? [&&a] [~~] [:a]",
            r"[[:digit:]] [![:alpha:]-] [[:no:]] [\] \[x\] \*\* a\? {a,b} [{]a,b} a[.]b",
        ];
        let patterns = patterns.into_iter().flat_map(|line| line.split(' '));
        for pattern in patterns {
            for path in paths.split(' ') {
                for any_case in [false, true] {
                    let (theirs, ours) = both(pattern, any_case, path).expect(pattern);
                    assert_eq!(theirs, ours, "{pattern} {path:?} {any_case}");
                }
            }
        }
        // Neither has braces that are plain.
        assert_eq!(Translation::new("/[\\]{a}]", false), None);
    }

    #[test]
    fn what_has_no_characters_is_left_to_bytes() {
        let differs = |glob, any_case| Translation::new(glob, any_case).unwrap().differs;
        for glob in ["/ä*", "/[ab]*.o", "**/a", r"/\?"] {
            assert!(!differs(glob, false), "{glob}");
        }
        for glob in ["/a?", "/[!a]", "/[^a]", "/[ä]", "/[a-я]"] {
            assert!(differs(glob, false), "{glob}");
        }
        assert!(differs("/ä", true) && !differs("/a*", true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn expressions_agree_with_globs_on_any_ascii(
            typed in r"[ab/?*.:{\\!^\[\]\-]{1,10}",
            path in r"(/[abAB.:{\n\\!^\[\]\-]{1,4}){1,3}",
            any_case: bool,
        ) {
            prop_assume!(!Path::new(&path).components().any(|part| part.as_os_str() == ".."));
            if let Some((theirs, ours)) = both(&typed, any_case, &path) {
                prop_assert_eq!(theirs, ours);
            }
        }
    }
}

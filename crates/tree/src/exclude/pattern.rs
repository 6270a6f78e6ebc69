//! Makes a clean glob from one typed exclude pattern. Values only.
//!
//! A pattern is matched against clean absolute paths. So cleaning removes parts that a clean path
//! cannot have: `.` and doubled slashes, `..` with the component before it, slashes at the end. A
//! pattern that begins with `./` or `../` begins at the current folder, as a path does. A pattern
//! that can never match is an error.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::order;

/// A clean pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The pattern as the user typed it.
    pub(super) typed: String,
    /// Whether it includes again what an earlier one excluded.
    pub(super) takes_back: bool,
    /// Whether it begins at the root of the file system; otherwise it begins at any folder.
    pub(super) is_absolute: bool,
    /// Whether the case of letters does not matter.
    pub(super) any_case: bool,
    /// Its components, each still a glob.
    pub(super) parts: Vec<String>,
}

impl Pattern {
    /// Cleans a pattern. One that begins with `./` or `../` begins at `current`.
    pub(super) fn new(typed: &str, current: Option<&Path>) -> Result<Self, String> {
        let (takes_back, text) = match typed.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, typed),
        };
        if text.is_empty() {
            return Err("it is empty, and so matches nothing".to_owned());
        }
        if text.contains('\0') {
            return Err("no name has a NUL byte".to_owned());
        }
        let mut is_absolute = text.starts_with('/');
        let raw = split(text);
        let mut parts: Vec<String> = Vec::new();
        // How many folders above the current one the pattern begins.
        let mut above = 0;
        for part in &raw {
            match part.as_str() {
                "" | "." => {}
                ".." => match parts.pop() {
                    Some(any) if any.contains("**") => {
                        return Err("`..` behind `**` may be any folder, and so matches nothing".to_owned());
                    }
                    Some(_) => {}
                    None => above += 1,
                },
                name => parts.push(name.to_owned()),
            }
        }
        let is_from_here = !is_absolute && (raw[0] == "." || above > 0 || parts.is_empty());
        if is_from_here {
            let current =
                current.ok_or("there is no current folder that `./` or `../` could be taken from")?;
            let mut whole = names_of(current)?;
            whole.truncate(whole.len().saturating_sub(above));
            whole.append(&mut parts);
            parts = whole;
            is_absolute = true;
        }
        Ok(Self {
            typed: typed.to_owned(),
            takes_back,
            is_absolute,
            any_case: false,
            parts,
        })
    }

    /// The glob for the matcher. It begins at any component unless it is absolute, and has braces
    /// as plain characters.
    pub(super) fn glob(&self) -> String {
        self.joined(escape_braces)
    }

    /// The glob with brackets as plain characters; `None` if the pattern has no class.
    pub(super) fn with_literal_brackets(&self) -> Option<String> {
        let has_class = |part: &String| unescaped(part).any(|(_, c)| c == '[');
        self.parts
            .iter()
            .any(has_class)
            .then(|| self.joined(|part| escape(part, "[]{}")))
    }

    fn joined(&self, escaped: impl Fn(&str) -> String) -> String {
        let front = if self.is_absolute { "/" } else { "**/" };
        let parts: Vec<String> = self.parts.iter().map(|part| escaped(part)).collect();
        format!("{front}{}", parts.join("/"))
    }

    /// The names at the beginning of an absolute pattern, before the first component with a
    /// wildcard.
    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        for part in self.parts.iter().take_while(|_| self.is_absolute) {
            if unescaped(part).any(|(_, c)| "*?[".contains(c)) {
                break;
            }
            let mut name = String::with_capacity(part.len());
            let mut chars = part.chars();
            while let Some(c) = chars.next() {
                name.extend(if c == '\\' { chars.next() } else { Some(c) });
            }
            names.push(name.into_bytes());
        }
        names
    }

    /// Whether the pattern has no wildcard.
    pub(super) fn is_literal(&self) -> bool {
        self.is_absolute && self.names().len() == self.parts.len()
    }

    /// The first letter or digit with a backslash before it, which changes nothing.
    pub(super) fn needless_escape(&self) -> Option<char> {
        let text = self.parts.join("/");
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c == '\\'
                && let Some(next) = chars.next()
                && next.is_alphanumeric()
            {
                return Some(next);
            }
        }
        None
    }
}

/// Splits a pattern into components, at slashes outside of brackets. A slash after a backslash
/// splits too.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut chars, mut in_class) = (text.chars().peekable(), false);
    while let Some(c) = chars.next() {
        let part = parts.last_mut().expect("there is always one");
        match c {
            '\\' if chars.peek() == Some(&'/') => {}
            '\\' => {
                part.push(c);
                part.extend(chars.next());
            }
            '/' if !in_class => parts.push(String::new()),
            _ => {
                in_class = c == '[' || in_class && c != ']';
                part.push(c);
            }
        }
    }
    parts
}

/// The names in the path of a folder, each as a pattern that matches only it.
fn names_of(folder: &Path) -> Result<Vec<String>, String> {
    let names = order::components(folder.as_os_str().as_bytes()).map(|name| {
        let text = std::str::from_utf8(name).map_err(|_| {
            format!(
                "the name of the current folder is not UTF-8: {}",
                folder.display()
            )
        })?;
        Ok(escape(&text.replace('\\', "\\\\"), "*?[]{}"))
    });
    names.collect()
}

/// The characters that follow no backslash, and their positions.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut is_escaped = false;
    text.char_indices().filter(move |(_, c)| {
        let is_free = !is_escaped;
        is_escaped = is_free && *c == '\\';
        is_free && *c != '\\'
    })
}

/// Puts a backslash before these characters, unless there is one.
fn escape(text: &str, special: &str) -> String {
    let places: Vec<usize> = unescaped(text)
        .filter(|(_, c)| special.contains(*c))
        .map(|(at, _)| at)
        .collect();
    insert_backslashes(text, &places)
}

/// Escapes braces outside of brackets.
fn escape_braces(text: &str) -> String {
    let mut in_class = false;
    let places: Vec<usize> = unescaped(text)
        .filter(|(_, c)| {
            in_class = *c == '[' || in_class && *c != ']';
            !in_class && matches!(c, '{' | '}')
        })
        .map(|(at, _)| at)
        .collect();
    insert_backslashes(text, &places)
}

fn insert_backslashes(text: &str, places: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + places.len());
    let mut from = 0;
    for &at in places {
        out.push_str(&text[from..at]);
        out.push('\\');
        from = at;
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(typed: &str) -> Result<String, String> {
        Pattern::new(typed, Some(Path::new("/w/d[1]"))).map(|pattern| pattern.glob())
    }

    #[test]
    fn components_that_no_path_has_are_removed_from_patterns() {
        for (typed, want) in [
            ("foo", "**/foo"),
            ("foo//bar/", "**/foo/bar"),
            ("foo/./bar/.", "**/foo/bar"),
            ("src/../src/cache", "**/src/cache"),
            ("/a//b/../c/", "/a/c"),
            ("/../a", "/a"),
            ("./src/cache", r"/w/d\[1\]/src/cache"),
            ("../x", "/w/x"),
            ("a/../../x", "/w/x"),
            ("../../../x", "/x"),
            (".", r"/w/d\[1\]"),
            ("!./x/", r"/w/d\[1\]/x"),
            (".hidden", "**/.hidden"),
            ("*/../x", "**/x"),
            (r"a\/b", "**/a/b"),
            ("[a/]x", "**/[a/]x"),
            ("/", "/"),
        ] {
            assert_eq!(glob(typed).as_deref(), Ok(want), "{typed}");
        }
        for never in ["", "!", "a\0b", "**/../x"] {
            assert!(glob(never).is_err(), "{never:?}");
        }
        assert!(Pattern::new("./x", None).is_err() && Pattern::new("x", None).is_ok());
    }

    #[test]
    fn names_before_the_first_wildcard_are_returned() {
        let names = |typed| Pattern::new(typed, None).unwrap().names();
        let want: [&[u8]; 2] = [b"a", b"b*"];
        assert_eq!(names(r"/a/b\*/c*/d"), want);
        assert!(names("a/b").is_empty());
        assert!(Pattern::new("/a/b", None).unwrap().is_literal());
        assert!(!Pattern::new("/a/b?", None).unwrap().is_literal());
    }

    #[test]
    fn brackets_may_be_letters() {
        let literal = |typed| Pattern::new(typed, None).unwrap().with_literal_brackets();
        assert_eq!(literal("some[dir]").as_deref(), Some(r"**/some\[dir\]"));
        assert_eq!(literal(r"some\[dir\]"), None);
        assert_eq!(
            Pattern::new(r"C:\Users", None).unwrap().needless_escape(),
            Some('U')
        );
        assert_eq!(Pattern::new(r"\*\[a", None).unwrap().needless_escape(), None);
    }
}

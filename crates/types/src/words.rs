//! Names in lists for people.

use std::fmt::Write as _;

/// A name as a shell reads it: quoted if a blank, a quote or another character would change it. So
/// two names in a row differ from one name with a blank.
#[must_use]
pub fn shell_word(name: &[u8]) -> String {
    let is_plain = |one: char| one.is_alphanumeric() || "_./@%+=:,-".contains(one);
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Ok(text) => format!("'{}'", text.replace('\'', r"'\''")),
        Err(_) => dollar_quoted(name),
    }
}

/// Several names as a shell reads them.
pub fn shell_words<'a>(names: impl IntoIterator<Item = &'a Vec<u8>>) -> String {
    let words: Vec<String> = names.into_iter().map(|name| shell_word(name)).collect();
    words.join(" ")
}

fn dollar_quoted(name: &[u8]) -> String {
    let mut out = String::from("$'");
    for chunk in name.utf8_chunks() {
        for one in chunk.valid().chars() {
            if matches!(one, '\'' | '\\') {
                out.push('\\');
            }
            out.push(one);
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            write!(out, "\\x{byte:02x}").ok();
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_a_shell() {
        let word = |name: &str| shell_word(name.as_bytes());
        assert_eq!(word("/home/ü/a-b_c.d"), "/home/ü/a-b_c.d");
        assert_eq!(word("/my documents"), "'/my documents'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
        for name in ["$HOME", "a;b", "a*", "~", "a\nb", "#x", "(", "\\"] {
            assert_eq!(word(name), format!("'{name}'"));
        }
        assert_eq!(shell_word(b"a\xff'b\\"), r"$'a\xff\'b\\'");
        let both = [b"a b".to_vec(), b"c".to_vec()];
        assert_eq!(shell_words(&both), "'a b' c");
    }
}

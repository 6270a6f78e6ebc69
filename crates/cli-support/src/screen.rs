//! Escapes for text from other people that is printed on a terminal: names of files, hosts, tags,
//! and messages that contain them. A terminal obeys control characters, and some other characters
//! move or hide the text beside them. So a terminal gets them as escapes. Pipes and files get every
//! byte unchanged, and JSON has escapes of its own.
//!
//! [`crate::output`] passes every printed line through this module.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal acts on the character, or the character changes the order or look of the text
/// around it.
fn is_active(one: char) -> bool {
    one.is_control()
        || matches!(
            one,
            // Marks, embeddings, overrides and isolates of direction; line separators; characters
            // without width; annotations between lines; tags.
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn push_escaped(out: &mut String, one: char) {
    match one {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\u{ff}' => drop(write!(out, "\\x{:02x}", u32::from(one))),
        _ => drop(write!(out, "\\u{{{:x}}}", u32::from(one))),
    }
}

/// Escapes one line of text for a terminal.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, push_escaped)
}

/// The text, with each active character written by `push`.
fn escaped(text: &str, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for one in text.chars() {
        if is_active(one) {
            push(&mut out, one);
        } else {
            out.push(one);
        }
    }
    Cow::Owned(out)
}

/// Escapes text of several lines for a terminal.
pub(crate) fn shown_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(shown).collect();
    lines.join("\n")
}

/// Escapes bytes for a terminal, also those that are not UTF-8.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&shown(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            write!(out, "\\x{byte:02x}").ok();
        }
    }
    out
}

/// Escapes a line of JSON for a terminal without changing its meaning. No character is active that
/// JSON must leave unescaped.
pub(crate) fn shown_json(line: &str) -> Cow<'_, str> {
    escaped(line, |out, one| {
        for unit in one.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").ok();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_terminal_control_characters_are_escaped() {
        assert_eq!(
            shown("a\x1b[31mb\nc\td\u{9b}e\u{7f}"),
            "a\\x1b[31mb\\nc\\td\\x9be\\x7f"
        );
        assert_eq!(shown("gpj.\u{202e}exe\u{2066}"), "gpj.\\u{202e}exe\\u{2066}");
        let plain = "Grüße, 世界, שלום, \u{1f469}\u{200d}\u{1f52c}, back\\slash";
        assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain));
        assert_eq!(shown_bytes(b"a\xff\x1bb"), "a\\xff\\x1bb");
        assert_eq!(shown_lines("a\x1b\nb"), "a\\x1b\nb");
    }

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let text = "a\u{202e}b\u{9b}c\u{e0041}\x1b\n\u{7f}";
        let line = serde_json::to_string(text).unwrap_or_default();
        let shown = shown_json(&line);
        assert!(!shown.contains(is_active), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).ok().as_deref(), Some(text));
    }
}

//! The width of text: Markdown and comments have at most 100 columns.
//!
//! Exempt are the targets of links, which cannot be wrapped, and in Markdown and Rust tables and
//! code blocks too.

/// Columns of a line of text.
const COLUMNS_MAX: usize = 100;

/// Adds a fault for each line of a Markdown page that is too wide.
pub(crate) fn check_page(name: &str, text: &str, faults: &mut Vec<String>) {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line, line));
    report(name, lines, faults);
}

/// Adds a fault for each comment of a Rust file that is too wide. The formatter checks code.
pub(crate) fn check_comments(name: &str, text: &str, faults: &mut Vec<String>) {
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some((index + 1, line, comment.trim_start_matches(['/', '!'])))
    });
    report(name, lines, faults);
}

/// Adds a fault for each line of a script or of TOML that is a comment and too wide. Its indented
/// lines are lists of options, and no code.
pub(crate) fn check_script(name: &str, text: &str, faults: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            judge(name, index + 1, line, faults);
        }
    }
}

/// Goes through lines as (number, whole line, its text without a comment's mark).
fn report<'a>(name: &str, lines: impl Iterator<Item = (usize, &'a str, &'a str)>, faults: &mut Vec<String>) {
    let mut is_code = false;
    for (number, line, text) in lines {
        let is_fence = text.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_exempt = is_code || is_fence || text.starts_with("    ") || text.trim_start().starts_with('|');
        if !is_exempt {
            judge(name, number, line, faults);
        }
    }
}

/// Adds a fault if the line is too wide.
fn judge(name: &str, number: usize, line: &str, faults: &mut Vec<String>) {
    let columns = columns(line);
    if columns > COLUMNS_MAX {
        faults.push(format!(
            "{name}:{number}: {columns} columns, at most {COLUMNS_MAX}"
        ));
    }
}

/// Columns of a line without the targets of its links: `[text](target)`, `[name]: target`,
/// addresses.
fn columns(line: &str) -> usize {
    let mut columns = 0;
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let (before, target) = rest.split_at(at + 2);
        columns += before.chars().count();
        rest = &target[target.find(')').unwrap_or(target.len())..];
    }
    let words = rest.split_inclusive(' ').filter(|word| !word.starts_with("http"));
    let is_definition = line.trim_start_matches(['/', '!', ' ']).starts_with('[') && line.contains("]: ");
    if is_definition {
        0
    } else {
        columns + words.map(|word| word.chars().count()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::{check_comments, check_page, check_script};

    fn faults_of(check: fn(&str, &str, &mut Vec<String>), text: &str) -> usize {
        let mut faults = Vec::new();
        check("xtask/page", text, &mut faults);
        faults.len()
    }

    #[test]
    fn prose_is_held_to_the_width_and_tables_code_and_links_are_not() {
        let wide = "word ".repeat(21);
        let word = "x".repeat(101);
        for (text, expected) in [
            (wide.clone(), 1),
            (format!("- {wide}"), 1),
            (format!("| {wide} |"), 0),
            (format!("    {wide}"), 0),
            (format!("```\n{wide}\n```\n{wide}"), 1),
            (format!("see [the page]({word}) for more"), 0),
            (format!("[page]: {word}"), 0),
            (format!("see https://example.org/{word}"), 0),
        ] {
            assert_eq!(faults_of(check_page, &text), expected, "{text}");
        }
        assert_eq!(
            faults_of(check_comments, &format!("    /// {wide}\nlet code = \"{wide}\";")),
            1
        );
    }

    #[test]
    fn comments_of_scripts_are_held_to_the_width_and_commands_are_not() {
        let wide = "word ".repeat(21);
        for (text, expected) in [
            (format!("#!/bin/sh\n# {wide}"), 1),
            (format!("  # {wide}"), 1),
            (format!("#              {wide}"), 1),
            (format!("echo {wide} # {wide}"), 0),
            (format!("# see https://example.org/{}", "x".repeat(101)), 0),
        ] {
            assert_eq!(faults_of(check_script, &text), expected, "{text}");
        }
    }
}

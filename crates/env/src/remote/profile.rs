//! The files of AWS's tools: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The settings of one profile.
pub(super) type Profile = BTreeMap<String, String>;

/// Adds the settings that a file has for a section. Those that are there stay. Returns whether the
/// file has the section; a file that does not exist has none.
pub(super) fn add(profile: &mut Profile, file: &Path, section: &str) -> io::Result<bool> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read?,
    };
    Ok(add_text(profile, &text, section))
}

fn add_text(profile: &mut Profile, text: &str, section: &str) -> bool {
    let (mut is_within, mut is_found) = (false, false);
    for line in text.lines() {
        // An indented line belongs to a setting of several lines, such as `s3 =`.
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            let words: Vec<&str> = name.0.split_whitespace().collect();
            is_within = words.join(" ") == section;
            is_found |= is_within;
        } else if is_within
            && !is_nested
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let key = key.trim().to_ascii_lowercase();
            profile.entry(key).or_insert_with(|| value.trim().to_owned());
        }
    }
    is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# keys
[default]
aws_access_key_id = one
aws_secret_access_key=a=b
; a comment = x
[profile  web]
Region = eu-west-1
s3 =
    region = nested
[other]
region = us-east-1
";

    #[test]
    fn a_section_has_its_own_lines_alone() {
        let mut profile = Profile::new();
        assert!(add_text(&mut profile, FILE, "default"));
        assert_eq!(profile["aws_access_key_id"], "one");
        assert_eq!(profile["aws_secret_access_key"], "a=b");
        assert_eq!(profile.len(), 2);
        assert!(!add_text(&mut profile, FILE, "web"));
        assert!(add_text(&mut profile, FILE, "profile web"));
        assert_eq!(profile["region"], "eu-west-1");
        assert!(add_text(&mut profile, FILE, "other"));
        assert_eq!(profile["region"], "eu-west-1", "what is there stays");
    }

    #[test]
    fn a_file_that_does_not_exist_has_no_section() {
        let folder = tempfile::tempdir().unwrap();
        let mut profile = Profile::new();
        assert!(!add(&mut profile, &folder.path().join("none"), "default").unwrap());
        add(&mut profile, folder.path(), "default").unwrap_err();
    }
}

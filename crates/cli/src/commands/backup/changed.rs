//! Lists of changed blocks (B3), as the tools of hypervisors print them.
//!
//! | printed by | line |
//! |---|---|
//! | `nbdinfo --map=qemu:dirty-bitmap:NAME` | offset, length, type, `dirty` or `clean` |
//! | `rbd diff --from-snap` | offset, length, `data` or `zero`, behind a heading |
//! | either with JSON | a list of objects with `offset` and `length` |
//!
//! A block that is `clean` is unchanged. Every other listed one is read.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use onefold::ByteRange;
use serde::Deserialize;

/// A range of a list in JSON.
#[derive(Deserialize)]
struct Row {
    offset: u64,
    length: u64,
    #[serde(default)]
    description: String,
}

/// What `nbdinfo` and `rbd` call a block that no one wrote to.
const CLEAN: &str = "clean";

/// Reads the list in a file, or from standard input if the file is `-`.
pub(super) fn read(file: &Path) -> Result<Vec<ByteRange>> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("the list of changed blocks on standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    }
    let changed = parse(&text);
    let shown = file.display();
    let changed = changed.with_context(|| format!("the list of changed blocks in {shown}"))?;
    if text.trim().is_empty() {
        bail!(
            "the list of changed blocks in {shown} is empty, as of a command that failed; a line `0 0` says that \
             nothing has changed"
        );
    }
    Ok(changed)
}

fn parse(text: &str) -> Result<Vec<ByteRange>> {
    if text.trim_start().starts_with('[') {
        let rows: Vec<Row> = serde_json::from_str(text)?;
        let changed = rows.into_iter().filter(|row| row.description != CLEAN);
        return Ok(changed.map(|row| range(row.offset, row.length)).collect());
    }
    let mut changed = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let (Some(offset), length) = (words.next(), words.next()) else {
            continue;
        };
        let is_heading = number == 0 && offset.eq_ignore_ascii_case("offset");
        if is_heading || offset.starts_with('#') {
            continue;
        }
        let (Some(offset), Some(length)) = (bytes(offset), length.and_then(bytes)) else {
            bail!("line {} is no offset and length in bytes: {line:?}", number + 1);
        };
        if words.last() != Some(CLEAN) {
            changed.push(range(offset, length));
        }
    }
    Ok(changed)
}

fn range(offset: u64, len: u64) -> ByteRange {
    ByteRange { offset, len }
}

fn bytes(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_nbdinfo_and_rbd_are_read() {
        let expected = [range(65_536, 131_072), range(1 << 30, 4096)];
        for text in [
            "         0       65536    0  clean\n     65536      131072    1  dirty\n1073741824 4096 1 dirty\n",
            "Offset      Length  Type\n65536       131072  data\n1073741824  4096    zero\n",
            "# from my own tool\n0x10000 0x20000\n\n0x40000000 0x1000\n",
            r#"[{"offset": 0, "length": 65536, "type": 0, "description": "clean"},
                {"offset": 65536, "length": 131072, "type": 1, "description": "dirty"},
                {"offset": 1073741824, "length": 4096, "exists": "false"}]"#,
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("").unwrap(), []);
        for text in [
            "0\n",
            "a b\n",
            "1 2\noffset length\n",
            "-1 5\n",
            "[{\"offset\": 1}]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

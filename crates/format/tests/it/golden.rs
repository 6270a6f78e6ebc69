//! The golden vectors: the bytes of a format version stay the same for ever, for writing and
//! reading.
//!
//! `ONEFOLD_BLESS=1 cargo test -p onefold-format` writes them. A change to a vector of a released
//! version breaks the format, and needs a new version instead.

use std::fs;
use std::path::{Path, PathBuf};

use crate::samples;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden")
}

fn to_hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<String>());
    lines.map(|line| line + "\n").collect()
}

#[test]
fn no_byte_of_a_golden_vector_moves() {
    let bless = std::env::var_os("ONEFOLD_BLESS").is_some_and(|v| v == "1");
    for (name, bytes) in samples::all() {
        let path = folder().join(format!("{name}.hex"));
        let hex = to_hex(&bytes);
        if bless {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, &hex).unwrap();
        }
        let golden =
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}; bless it if it is new"));
        let differs = golden.lines().zip(hex.lines()).position(|(a, b)| a != b);
        assert!(
            golden == hex,
            "{name}: line {:?} moved (of 32 bytes each)",
            differs.map(|line| line + 1)
        );
    }
}

#[test]
fn every_golden_file_has_a_sample() {
    let known: Vec<String> = samples::all()
        .iter()
        .map(|(name, _)| format!("{name}.hex"))
        .collect();
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&file), "{file} is compared with nothing");
    }
}

//! What is measured on: bytes that look random and are the same in every run, and text.

use std::path::Path;
use std::{fs, io};

/// Bytes that no coder shrinks.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut out: Vec<u8> = words(seed)
        .take(len.div_ceil(8))
        .flat_map(u64::to_le_bytes)
        .collect();
    out.truncate(len);
    out
}

/// Numbers that look random.
pub fn words(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The file, or the sources and documents of this repository one after the other.
pub fn text(file: Option<&str>) -> io::Result<Vec<u8>> {
    if let Some(file) = file {
        return fs::read(file);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = Vec::new();
    for folder in ["crates", "docs", "model", "xtask"] {
        collect(&root.join(folder), &mut text)?;
    }
    Ok(text)
}

fn collect(folder: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    let mut paths: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, text)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md")
        {
            text.extend(fs::read(path)?);
        }
    }
    Ok(())
}

/// Lengths of chunks as the chunker gives them at its defaults, which add up to at least `total`.
pub fn chunk_lens(average: u32, total: usize) -> Vec<usize> {
    let (mut lens, mut sum) = (Vec::new(), 0);
    for word in words(77) {
        if sum >= total {
            break;
        }
        let share = (word >> 11) as f64 / (1u64 << 53) as f64;
        let half = f64::from(average) / 2.0;
        let len = (half - half * (1.0 - share).ln()).min(8.0 * f64::from(average)) as usize;
        lens.push(len);
        sum += len;
    }
    lens
}

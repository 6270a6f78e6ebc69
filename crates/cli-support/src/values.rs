//! Values of options that both command lines take.

use onefold::{Cap, Capping};

/// A cap with the given number of remembered windows, or with the default one for this cap.
#[must_use]
pub fn capping_of(cap: Cap, remembered_windows: Option<u32>) -> Capping {
    let usual = Capping::of(cap);
    Capping {
        remembered_windows: remembered_windows.unwrap_or(usual.remembered_windows),
        ..usual
    }
}

/// Parses a cap: `none`, a number, `adaptive:NUMBER` or `least:BYTES`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_cap(text: &str) -> Result<Cap, String> {
    let number = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!(
            "`{text}` is no number of containers, which is at least 1"
        )),
        Ok(number) => Ok(number),
    };
    match text.split_once(':') {
        Some(("adaptive", average)) => Ok(Cap::Adaptive(number(average)?)),
        Some(("least", least)) => Ok(Cap::Least(byte_count(least)?)),
        Some((kind, _)) => Err(format!("`{kind}` is no kind of cap: `adaptive` and `least` are")),
        None if text == "none" => Ok(Cap::None),
        None => Ok(Cap::Fixed(number(text)?)),
    }
}

/// Bytes, with K, M or G for multiples of 1024.
///
/// # Errors
/// What is wrong with the text.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = byte_count(text)?;
    if bytes < MEMORY_BYTES_MIN {
        return Err("at least 1M is needed".to_owned());
    }
    Ok(bytes)
}

/// A number of bytes, at least 1.
///
/// # Errors
/// What is wrong with the text.
pub fn byte_count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a number of bytes, or one with K, M or G at its end".to_owned())?;
    let bytes = number.checked_mul(1 << shift);
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "at least 1, and less than 2^64 bytes".to_owned())
}

/// The least memory. It must not be below the length of a chunk.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

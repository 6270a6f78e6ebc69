//! The present boot of the system.
//!
//! Pages that a killed process wrote survive until the system ends. So a program that finds its
//! last boot's id has lost nothing that it wrote.

use std::io;

/// The system makes a new one at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The id of the system's present boot. Containers of one system have the same one.
///
/// # Errors
/// If the system does not tell it.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string(BOOT_ID)
        .map_err(|error| io::Error::new(error.kind(), format!("{BOOT_ID}: {error}")))?;
    parse(&text).ok_or_else(|| io::Error::other(format!("{BOOT_ID}: {text:?} is no id")))
}

/// Reads 32 digits, with hyphens between them.
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u8>> = text
        .trim_end()
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() == 32)?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_and_stays() {
        assert_eq!(
            parse("01234567-89ab-cdef-0011-2233445566ff\n"),
            Some([
                1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xff
            ])
        );
        for text in [
            "",
            "01",
            "0123456789abcdef00112233445566f",
            "g1234567-89ab-cdef-0011-2233445566ff",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let id = boot_id().unwrap();
        assert!(id != [0; 16] && id == boot_id().unwrap());
    }
}

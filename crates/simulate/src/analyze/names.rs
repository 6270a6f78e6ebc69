//! Settings as the command line takes them (`backup --cap`, `restore --memory`), so that a user can
//! paste them.

use ingest::Cap;

/// The cap as `backup --cap` takes it.
#[must_use]
pub fn cap_name(cap: Cap) -> String {
    match cap {
        Cap::None => "none".to_owned(),
        Cap::Fixed(containers) => containers.to_string(),
        Cap::Adaptive(containers) => format!("adaptive:{containers}"),
        Cap::Least(bytes) => format!("least:{}", bytes_name(bytes)),
    }
}

/// The memory as `restore --memory` takes it: in the largest of G, M and K that divides it, else in
/// bytes.
#[must_use]
pub fn bytes_name(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let whole = units
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(
        || bytes.to_string(),
        |(unit, shift)| format!("{}{unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_that_says_all_of_them() {
        let named = [
            1,
            1000,
            56 << 10,
            1536 << 10,
            96 << 20,
            1 << 30,
            2560 << 20,
            (1 << 20) + 1,
        ]
        .map(bytes_name);
        assert_eq!(
            named,
            ["1", "1000", "56K", "1536K", "96M", "1G", "2560M", "1048577"]
        );
    }
}

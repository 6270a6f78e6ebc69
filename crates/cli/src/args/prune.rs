//! Arguments of `prune`.

use clap::Args;
use onefold::{PruneLimits as Limits, PruneUnused};

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) limits: PruneLimits,
    /// Show what would be reclaimed, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Look at every container, not only at those that may have lost something since the last prune
    #[arg(long)]
    pub(crate) all: bool,
    /// Remove the data of backups whose manifests are missing although nobody forgot them
    #[arg(long)]
    pub(crate) allow_missing_manifests: bool,
}

/// How much is copied to free the rest.
#[derive(Debug, Args)]
#[command(next_help_heading = "Space")]
pub(crate) struct PruneLimits {
    /// How much of the store may stay unused: a share such as `5%`, the default, a size such as
    /// `500M`, or `unlimited`. To free more, prune must copy more
    #[arg(long, value_name = "LIMIT", value_parser = unused)]
    max_unused: Option<PruneUnused>,
    /// Copy at most this much, such as `10G`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_repack: Option<u64>,
}

impl PruneLimits {
    pub(crate) fn limits(&self) -> Limits {
        let default = Limits::default();
        default
            .unused_max(self.max_unused.unwrap_or(default.unused_max))
            .repack_bytes_max(self.max_repack.unwrap_or(default.repack_bytes_max))
    }

    /// Whether any limit is given.
    pub(crate) fn are_given(&self) -> bool {
        self.max_unused.is_some() || self.max_repack.is_some()
    }
}

fn unused(text: &str) -> Result<PruneUnused, String> {
    if text == "unlimited" {
        return Ok(PruneUnused::Unlimited);
    }
    match text.strip_suffix('%') {
        None => size(text).map(PruneUnused::Bytes),
        Some(share) => match share.parse::<f64>() {
            Ok(share) if (0.0..=100.0).contains(&share) => Ok(PruneUnused::Share(share / 100.0)),
            _ => Err("a share is 0% to 100%".to_owned()),
        },
    }
}

/// Parses a size in bytes, or in KiB, MiB, GiB or TiB: `16G` and `16GiB` are the same.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a number, or one followed by K, M, G or T, as in 16G or 16GiB".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let letter = unit
        .strip_suffix("iB")
        .filter(|letter| "kKmMgGtT".contains(*letter) && !letter.is_empty());
    let shift = match letter.unwrap_or(unit) {
        "" | "b" | "B" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("7", 7),
            ("7B", 7),
            ("4k", 4096),
            ("3M", 3 << 20),
            ("3MiB", 3 << 20),
            ("16GiB", 16 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "G",
            "iB",
            "3iB",
            "3BiB",
            "3GB",
            "3Gib",
            "1.5G",
            "-1",
            "99999999T",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}

//! The share of reused containers that a backup reads.

use onefold::VerifyKnown;

/// The default share.
const VERIFIED_SHARE: f64 = 0.01;
/// The default limit in bytes.
const VERIFIED_BYTES_MAX: u64 = 1 << 30;

/// What a backup reads: the typed share, or the default one.
pub(super) fn known(share: Option<f64>) -> VerifyKnown {
    match share {
        Some(share) => VerifyKnown {
            share,
            bytes_max: u64::MAX,
        },
        None => VerifyKnown {
            share: VERIFIED_SHARE,
            bytes_max: VERIFIED_BYTES_MAX,
        },
    }
}

/// Parses a share in percent; `none` is 0.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    if text == "none" {
        return Ok(0.0);
    }
    let percent: Option<f64> = text.strip_suffix('%').and_then(|number| number.parse().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("`{text}` is no share: it is `none`, or a number up to 100 with `%`"))
}

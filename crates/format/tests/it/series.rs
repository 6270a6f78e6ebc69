//! Settings of a series that break a rule are refused.

use format::series::{Layout, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SeriesSettings};

use crate::samples;

#[test]
fn settings_stay_within_their_limits() {
    let good = samples::series_settings();
    let with = |live_window, segment_bytes| SeriesSettings {
        live_window,
        segment_bytes,
        ..good.clone()
    };
    for good in [
        with(1, SEGMENT_BYTES_MIN),
        with(u16::MAX, SEGMENT_BYTES_MAX),
        SeriesSettings::unset(None),
    ] {
        good.check().unwrap();
    }
    for (why, bad) in [
        ("none is live", with(0, 4 << 20)),
        ("too short", with(1, SEGMENT_BYTES_MIN / 2)),
        ("too long", with(1, SEGMENT_BYTES_MAX * 2)),
        ("no power of two", with(1, 3 << 20)),
    ] {
        assert!(bad.check().is_err(), "{why}");
    }
    let mut name = good.name.clone().unwrap();
    name.paths.reverse();
    let named = SeriesSettings {
        name: Some(name),
        ..good
    };
    assert!(named.check().is_err(), "paths of a name are sorted");
}

#[test]
fn an_unknown_layout_is_refused() {
    let mut bytes = SeriesSettings::unset(None).to_bytes();
    // Version, no name, layout.
    assert_eq!(bytes[2], 0);
    bytes[2] = 4;
    // It has as many bytes as an archival window takes, so that nothing else is wrong.
    bytes.splice(3..3, [1, 0]);
    assert!(SeriesSettings::decode(&bytes).is_err());
    bytes[2] = 3;
    assert!(SeriesSettings::decode(&bytes).is_ok());
}

#[test]
fn an_archival_window_follows_the_layout_and_is_of_one_backup_at_least() {
    let (without, with) = (samples::series_settings(), samples::windowed_settings());
    let at = without
        .to_bytes()
        .iter()
        .zip(with.to_bytes())
        .position(|(a, b)| *a != b);
    let mut bytes = with.to_bytes();
    let at = at.unwrap();
    assert_eq!(
        (bytes[at], &bytes[at + 1..at + 3]),
        (3, &1027u16.to_le_bytes()[..])
    );
    assert_eq!(SeriesSettings::decode(&bytes), Ok(with.clone()));
    bytes[at + 1..at + 3].fill(0);
    assert!(SeriesSettings::decode(&bytes).is_err(), "none stays");
    assert_eq!(
        (without.retention_window(), with.retention_window()),
        (None, Some(1540))
    );
    let inline = SeriesSettings {
        layout: Layout::Inline,
        ..with
    };
    assert_eq!(inline.retention_window(), None, "it is kept for layout hybrid");
    assert_eq!(SeriesSettings::decode(&inline.to_bytes()), Ok(inline));
}

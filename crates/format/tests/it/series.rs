//! Settings of a series that break a rule are refused.

use format::series::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SeriesSettings};

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
    // version, no name, layout
    assert_eq!(bytes[2], 0);
    bytes[2] = 2;
    assert!(SeriesSettings::decode(&bytes).is_err());
}

//! Distinguishes stores that lost their times from stores with a wrong clock.

use std::num::NonZeroU32;

use format::manifest::SeriesName;
use proptest::prelude::*;
use types::{SeriesId, SessionId, UnixNanos};

use super::*;

pub(super) const MINUTE: i64 = 60_000_000_000;
pub(super) const DAY: i64 = 24 * 60 * MINUTE;
pub(super) const SOME_DAY: i64 = 20_000 * DAY;
const NOW: UnixNanos = UnixNanos::new(i64::MIN);

/// A series with these commit times and own times, as candidates of a listing.
pub(super) fn series(times: &[(i64, i64)]) -> Vec<Candidate> {
    let one = |(number, (committed, own)): (u64, &(i64, i64))| Candidate {
        session: SessionId::new(number).unwrap(),
        series: SeriesId::from_bytes([1; 16]),
        name: SeriesName {
            host: b"host".to_vec(),
            paths: vec![b"/etc".to_vec()],
        },
        committed_at: UnixNanos::new(*committed),
        own_at: UnixNanos::new(*own),
        is_squeezed: false,
        is_ahead: false,
        tags: Vec::new(),
        hold_until: None,
        newer_unreadable: false,
        may_be_forgotten: false,
    };
    let mut series: Vec<_> = (1..).zip(times).map(one).collect();
    reconcile(&mut series);
    series
}

pub(super) fn daily(count: u32) -> Policy {
    Policy {
        rules: vec![Rule::Newest {
            period: Period::Day,
            limit: Limit::Count(NonZeroU32::new(count).unwrap()),
        }],
        may_remove_all: false,
    }
}

pub(super) fn decide_as(
    times: &[(i64, i64)],
    policy: &Policy,
    by: Times,
) -> Result<Vec<u64>, RetentionError> {
    let groups = decide_by(series(times), policy, GroupBy::SERIES, NOW, by)?;
    let kept = groups[0].decisions.iter().filter(|one| one.is_kept());
    let mut kept: Vec<_> = kept.map(|one| one.backup.session.get()).collect();
    kept.sort_unstable();
    Ok(kept)
}

#[track_caller]
pub(super) fn assert_told(times: &[(i64, i64)], policy: &Policy) -> String {
    match decide_as(times, policy, Times::Agreeing) {
        Err(error @ RetentionError::Contradiction { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Ten daily backups, copied in some order within seconds.
fn copied() -> Vec<(i64, i64)> {
    let copied_at = [5, 1, 9, 2, 2, 8, 0, 3, 7, 6];
    let times = (0..).zip(copied_at);
    times
        .map(|(day, second)| (SOME_DAY + 30 * DAY + second * 1_000_000_000, SOME_DAY + day * DAY))
        .collect()
}

#[test]
fn a_store_copied_without_its_times_is_reported_with_a_way_to_continue() {
    let error = assert_told(&copied(), &daily(7));
    for words in [
        "host host, paths /etc",
        "10 backups were committed",
        "2024-11-03 00:00 UTC",
        "from 2024-10-04 00:00 to 2024-10-13 00:00 UTC",
        "--times backup",
        "--times commit",
        "cp -a",
    ] {
        assert!(error.contains(words), "no {words:?} in: {error}");
    }
    let by = |times| decide_as(&copied(), &daily(7), times).unwrap();
    assert_eq!(by(Times::Backup), [4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(by(Times::Commit), [1, 10]);
}

#[test]
fn a_forget_that_loses_nothing_is_not_stopped() {
    let last = Policy {
        rules: vec![Rule::Newest {
            period: Period::Each,
            limit: Limit::Count(NonZeroU32::new(3).unwrap()),
        }],
        may_remove_all: false,
    };
    assert_eq!(decide_as(&copied(), &last, Times::Agreeing).unwrap(), [8, 9, 10]);
    // After as many more days as the rule keeps, both clocks give the same result.
    let mut times = copied();
    times.extend((0..7).map(|day| (SOME_DAY + (31 + day) * DAY, SOME_DAY + (31 + day) * DAY)));
    let kept = decide_as(&times, &daily(7), Times::Agreeing).unwrap();
    assert_eq!(kept, [11, 12, 13, 14, 15, 16, 17]);
    times.truncate(13);
    assert_told(&times, &daily(7));
}

#[test]
fn a_stopped_storage_clock_is_reported() {
    let times: Vec<_> = (0..5).map(|day| (day * MINUTE, SOME_DAY + day * DAY)).collect();
    assert_told(&times, &daily(3));
}

#[test]
fn three_backups_are_enough_and_two_are_not() {
    let times: Vec<_> = (0..3).map(|day| (SOME_DAY, SOME_DAY + day * DAY)).collect();
    assert_told(&times, &daily(7));
    assert_eq!(decide_as(&times[1..], &daily(1), Times::Agreeing).unwrap(), [2]);
    // Rules distinguish nothing within the shortest period.
    let close: Vec<_> = (0..5)
        .map(|minute| (SOME_DAY, SOME_DAY + minute * 14 * MINUTE))
        .collect();
    assert_eq!(decide_as(&close, &daily(1), Times::Agreeing).unwrap(), [5]);
}

/// Backups that are minutes to days apart, by a right clock.
pub(super) fn histories() -> impl Strategy<Value = Vec<i64>> {
    let steps = prop::collection::vec(prop_oneof![1..90 * MINUTE, MINUTE..3 * DAY], 1..30);
    steps.prop_map(|steps| {
        let mut time = SOME_DAY;
        let each = steps.into_iter().map(|step| {
            time += step;
            time
        });
        each.collect()
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let period = prop::sample::select(vec![Period::Each, Period::Hour, Period::Day, Period::Week]);
    (period, 1_u32..9).prop_map(|(period, count)| Policy {
        rules: vec![Rule::Newest {
            period,
            limit: Limit::Count(NonZeroU32::new(count).unwrap()),
        }],
        may_remove_all: false,
    })
}

/// Times of commits and own times of a machine without a battery: at each boot its clock shows
/// 1970, until it is set a minute later.
pub(super) fn without_battery(right: &[i64]) -> Vec<(i64, i64)> {
    let both = right
        .iter()
        .flat_map(|time| [(*time, MINUTE), (time + MINUTE, time + MINUTE)]);
    both.collect()
}

/// Whether two backups fit between each two of these times.
pub(super) fn are_apart(right: &[i64]) -> bool {
    right.windows(2).all(|two| two[1] - two[0] > 2 * MINUTE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A source's clock may be ahead or behind, and too slow or too fast.
    #[test]
    fn a_source_with_a_wrong_clock_blocks_no_forget(
        right in histories(),
        ahead in -20_000 * DAY..20_000 * DAY,
        percent in 10_i64..300,
        policy in policies(),
    ) {
        let own = |time: i64| SOME_DAY + ahead + (time - SOME_DAY) / 100 * percent;
        let times: Vec<_> = right.iter().map(|time| (*time, own(*time))).collect();
        prop_assert!(decide_as(&times, &policy, Times::Agreeing).is_ok());
    }

    /// The source's clock may be wrong now and then, and set again; so may the storage's.
    #[test]
    fn a_clock_that_is_wrong_now_and_then_stops_nobody(
        right in histories(),
        wrong in prop::collection::vec((0_usize..8, -20_000 * DAY..20_000 * DAY, any::<bool>()), 0..4),
        policy in policies(),
    ) {
        let mut times: Vec<_> = right.iter().map(|time| (*time, *time)).collect();
        let mut at = 0;
        for (step, by, is_of_source) in wrong {
            // Some right times lie between two wrong ones.
            at += step + 3;
            if let Some(time) = times.get_mut(at) {
                let clock = if is_of_source { &mut time.1 } else { &mut time.0 };
                *clock += by;
            }
        }
        prop_assert!(decide_as(&times, &policy, Times::Agreeing).is_ok());
    }

    #[test]
    fn a_source_without_a_battery_stops_nobody(right in histories(), policy in policies()) {
        prop_assume!(are_apart(&right));
        let times = without_battery(&right);
        prop_assert!(decide_as(&times, &policy, Times::Agreeing).is_ok());
    }

    /// A copy without times either loses no backup, or causes the error.
    #[test]
    fn a_copy_without_times_loses_nothing_unsaid(
        right in histories(),
        seconds in prop::collection::vec(0_i64..60, 30),
        policy in policies(),
    ) {
        prop_assume!(right.windows(2).all(|two| two[1] - two[0] > 5 * MINUTE));
        let times: Vec<_> = right.iter().zip(seconds).map(|(own, second)| {
            (SOME_DAY + 200 * DAY + second * 1_000_000_000, *own)
        }).collect();
        let by_own = decide_as(&times, &policy, Times::Backup).unwrap();
        match decide_as(&times, &policy, Times::Agreeing) {
            Err(RetentionError::Contradiction { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
            Ok(kept) => {
                let is_told_apart = times.len() > 2 && times[times.len() - 1].1 - times[0].1 >= 60 * MINUTE;
                let lost = by_own.iter().any(|one| !kept.contains(one));
                prop_assert!(!is_told_apart || !lost, "{:?} {:?}", kept, by_own);
            }
        }
    }
}

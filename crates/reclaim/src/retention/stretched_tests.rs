//! A storage's clock that was far ahead when the newest backup was committed.

use proptest::prelude::*;

use super::squeezed_tests::{
    DAY, SOME_DAY, are_apart, assert_told, daily, decide_as, histories, series, without_battery,
};
use super::*;

fn within(days: i64) -> Policy {
    Policy {
        rules: vec![Rule::Within {
            period: Period::Each,
            span: format!("{days}d").parse().unwrap(),
        }],
        may_remove_all: false,
    }
}

/// Daily backups; at the last ones the storage's clock was ahead by this.
fn history(count: i64, last: i64, ahead: i64) -> Vec<(i64, i64)> {
    let one = |day| {
        let own = SOME_DAY + day * DAY;
        let ahead = if day >= count - last { ahead } else { 0 };
        (own + ahead, own)
    };
    (0..count).map(one).collect()
}

#[test]
fn a_storage_clock_that_is_years_ahead_costs_no_history() {
    for last in 1..4 {
        let times = history(20, last, 400 * DAY);
        let error = assert_told(&times, &within(7));
        assert!(error.contains("--times backup"), "{error}");
        let by = |which| decide_as(&times, &within(7), which).unwrap();
        assert_eq!(by(Times::Backup), (13..=20).collect::<Vec<_>>());
        let ahead = 21 - u64::try_from(last).unwrap();
        assert_eq!(by(Times::Commit), (ahead..=20).collect::<Vec<_>>());
    }
    // All that the rule keeps is newer than the jump, by both clocks.
    let kept = decide_as(&history(40, 12, 400 * DAY), &within(7), Times::Agreeing).unwrap();
    assert_eq!(kept, (33..=40).collect::<Vec<_>>());
    // Rules that count backups lose nothing.
    let kept = decide_as(&history(20, 1, 400 * DAY), &daily(7), Times::Agreeing);
    assert_eq!(kept.unwrap(), (14..=20).collect::<Vec<_>>());
}

/// One series of a host had the wrong clock, and the rule is for the host.
#[test]
fn another_series_of_the_group_is_not_lost_either() {
    let mut both = series(&history(10, 1, 400 * DAY));
    let mut other = series(&history(10, 0, 0));
    for one in &mut other {
        one.session = SessionId::new(one.session.get() + 100).unwrap();
        one.series = types::SeriesId::from_bytes([2; 16]);
    }
    both.extend(other);
    let decide = |times| {
        let by_host = GroupBy {
            paths: false,
            ..GroupBy::SERIES
        };
        decide_by(both.clone(), &within(7), by_host, UnixNanos::new(i64::MIN), times)
    };
    let Err(RetentionError::Contradiction { lost, .. }) = decide(Times::Agreeing) else {
        panic!("it is told")
    };
    assert_eq!(
        lost, 14,
        "seven of each; the newest stays, and two are old by both clocks"
    );
    assert!(decide(Times::Commit).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A source's clock may be ahead or behind, too fast, or up to three times too slow.
    #[test]
    fn a_source_with_a_wrong_clock_stops_no_rule(
        right in histories(),
        ahead in -20_000 * DAY..20_000 * DAY,
        percent in 34_i64..300,
        days in 1_i64..9,
    ) {
        let own = |time: i64| SOME_DAY + ahead + (time - SOME_DAY) / 100 * percent;
        let times: Vec<_> = right.iter().map(|time| (*time, own(*time))).collect();
        prop_assert!(decide_as(&times, &within(days), Times::Agreeing).is_ok());
    }

    /// The storage's clock is ahead from some backup on: nothing that the rule should keep goes.
    #[test]
    fn a_storage_clock_that_goes_ahead_loses_nothing_unsaid(
        right in histories(),
        from in 0_usize..30,
        ahead in 100 * DAY..20_000 * DAY,
        days in 1_i64..9,
    ) {
        let jumped = |(at, time): (usize, &i64)| (if at >= from { *time + ahead } else { *time }, *time);
        let times: Vec<_> = right.iter().enumerate().map(jumped).collect();
        let by_own = decide_as(&times, &within(days), Times::Backup).unwrap();
        match decide_as(&times, &within(days), Times::Agreeing) {
            Err(RetentionError::Contradiction { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
            Ok(kept) => prop_assert!(by_own.iter().all(|one| kept.contains(one)), "{:?} {:?}", kept, by_own),
        }
    }

    #[test]
    fn a_source_without_a_battery_stops_no_rule(right in histories(), days in 1_i64..9) {
        prop_assume!(are_apart(&right));
        let times = without_battery(&right);
        prop_assert!(decide_as(&times, &within(days), Times::Agreeing).is_ok());
    }
}

//! Compares retention with a plain model, and tests cases that users ask about.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use format::manifest::SeriesName;
use jiff::Timestamp;
use proptest::prelude::*;
use types::{SeriesId, SessionId, UnixNanos};

use super::times::straightened;
use super::*;

const HOUR: i64 = 3_600_000_000_000;

fn at(text: &str) -> UnixNanos {
    let time: Timestamp = text.parse().unwrap();
    UnixNanos::new(i64::try_from(time.as_nanosecond()).unwrap())
}

fn backup(session: u64, time: UnixNanos) -> Candidate {
    Candidate {
        session: SessionId::new(session).unwrap(),
        series: SeriesId::from_bytes([1; 16]),
        name: SeriesName {
            host: b"host".to_vec(),
            paths: vec![b"/etc".to_vec()],
        },
        committed_at: time,
        own_at: time,
        is_squeezed: false,
        is_ahead: false,
        tags: Vec::new(),
        hold_until: None,
        newer_unreadable: false,
        may_be_forgotten: false,
    }
}

fn backups(times: &[&str]) -> Vec<Candidate> {
    (1..)
        .zip(times)
        .map(|(session, time)| backup(session, at(time)))
        .collect()
}

fn newest(period: Period, count: u32) -> Rule {
    let limit = NonZeroU32::new(count).map_or(Limit::None, Limit::Count);
    Rule::Newest { period, limit }
}

fn within(period: Period, span: &str) -> Rule {
    Rule::Within {
        period,
        span: span.parse().unwrap(),
    }
}

fn policy(rules: &[Rule]) -> Policy {
    Policy {
        rules: rules.to_vec(),
        may_remove_all: false,
    }
}

const NOW: UnixNanos = UnixNanos::new(i64::MIN);

/// The reasons of each backup of a single group, by session.
fn decided(backups: Vec<Candidate>, policy: &Policy, now: UnixNanos) -> BTreeMap<u64, Vec<String>> {
    let groups = decide(backups, policy, GroupBy::SERIES, now).unwrap();
    assert_eq!(groups.len(), 1);
    let words = |decision: &Decision| decision.reasons.iter().map(ToString::to_string).collect();
    let all = groups[0].decisions.iter();
    all.map(|decision| (decision.backup.session.get(), words(decision)))
        .collect()
}

fn kept(backups: Vec<Candidate>, rules: &[Rule]) -> Vec<u64> {
    let decided = decided(backups, &policy(rules), NOW);
    let kept = decided.into_iter().filter(|(_, reasons)| !reasons.is_empty());
    kept.map(|(session, _)| session).collect()
}

#[test]
fn the_newest_of_each_period_is_kept_and_says_why() {
    let all = backups(&[
        "2026-01-01T10:00:00Z",
        "2026-01-02T10:00:00Z",
        "2026-01-02T23:59:59Z",
        "2026-01-03T00:00:00Z",
        "2026-01-03T12:00:00Z",
    ]);
    let rules = [newest(Period::Each, 1), newest(Period::Day, 2)];
    let reasons = decided(all, &policy(&rules), NOW);
    assert_eq!(reasons[&5], ["last 1", "daily 1"]);
    assert_eq!(reasons[&3], ["daily 2"]);
    for gone in [1, 2, 4] {
        assert!(reasons[&gone].is_empty(), "{reasons:?}");
    }
}

#[test]
fn a_rule_that_wants_more_than_there_is_keeps_the_oldest_too() {
    let all = || {
        backups(&[
            "2026-01-01T08:00:00Z",
            "2026-01-01T09:00:00Z",
            "2026-01-02T09:00:00Z",
        ])
    };
    assert_eq!(kept(all(), &[newest(Period::Day, 2)]), [2, 3]);
    assert_eq!(kept(all(), &[newest(Period::Day, 3)]), [1, 2, 3]);
    let reasons = decided(all(), &policy(&[newest(Period::Day, 0)]), NOW);
    assert_eq!(reasons[&1], ["daily 3 (the oldest)"]);
}

#[test]
fn within_counts_from_the_newest_backup_and_not_from_now() {
    let all = || {
        backups(&[
            "2020-02-28T12:00:00Z",
            "2020-02-29T12:00:00Z",
            "2020-02-29T13:00:00Z",
            "2020-03-31T11:00:00Z",
            "2020-03-31T12:00:00Z",
        ])
    };
    assert_eq!(kept(all(), &[within(Period::Each, "1m")]), [2, 3, 4, 5]);
    assert_eq!(kept(all(), &[within(Period::Day, "1m")]), [3, 5]);
    assert_eq!(kept(all(), &[within(Period::Year, "1y")]), [1, 5]);
    assert_eq!(kept(all(), &[within(Period::Each, "1h")]), [4, 5]);
    // The one that is exactly as old stays; one that is a second older does not.
    let apart = || backups(&["2020-01-01T11:00:00Z", "2020-01-01T12:00:01Z"]);
    assert_eq!(kept(apart(), &[within(Period::Each, "1h")]), [2]);
    // Spans longer than time itself reach all of it.
    assert_eq!(kept(all(), &[within(Period::Each, "4000000000y")]).len(), 5);
    let reasons = decided(all(), &policy(&[within(Period::Month, "1y1d")]), NOW);
    assert_eq!(reasons[&5], ["monthly within 1y1d"]);
    // The oldest is not the newest of its month, and is kept anyway.
    assert_eq!(reasons[&1], ["monthly within 1y1d (the oldest)"]);
    assert_eq!(reasons[&3], ["monthly within 1y1d"]);
    let reasons = decided(all(), &policy(&[within(Period::Each, "1y1d")]), NOW);
    assert_eq!(reasons[&1], ["within 1y1d"]);
}

#[test]
fn tags_keep_when_all_of_them_are_borne() {
    let mut all = backups(&[
        "2026-01-01T08:00:00Z",
        "2026-01-02T08:00:00Z",
        "2026-01-03T08:00:00Z",
    ]);
    all[0].tags = vec!["a".into(), "b".into()];
    all[1].tags = vec!["a".into()];
    let tagged = |tags: &[&str]| Rule::Tagged(tags.iter().map(ToString::to_string).collect());
    assert_eq!(kept(all.clone(), &[tagged(&["a"])]), [1, 2]);
    assert_eq!(kept(all.clone(), &[tagged(&["b", "a"])]), [1]);
    assert_eq!(kept(all.clone(), &[tagged(&["b"]), tagged(&[])]), [1, 3]);
    let reasons = decided(all, &policy(&[tagged(&["a", "b"])]), NOW);
    assert_eq!(reasons[&1], ["tag a,b"]);
}

#[test]
fn a_backup_in_doubt_takes_no_other_backups_place() {
    let mut all = backups(&[
        "2026-01-01T08:00:00Z",
        "2026-01-02T08:00:00Z",
        "2026-01-03T08:00:00Z",
    ]);
    let none = policy(&[Rule::Tagged(vec!["no such tag".into()])]);
    for is_above in [true, false] {
        let doubt = &mut all[2];
        (doubt.newer_unreadable, doubt.may_be_forgotten) = (is_above, !is_above);
        assert_eq!(kept(all.clone(), &[newest(Period::Each, 1)]), [2, 3]);
        let emptied = decide(all.clone(), &none, GroupBy::SERIES, NOW);
        assert!(
            matches!(emptied, Err(RetentionError::KeepsNothing { .. })),
            "{emptied:?}"
        );
    }
    // With a readable revision above, it is forgotten when the rules allow it, and no other backup
    // is forgotten instead.
    (all[1].may_be_forgotten, all[2].may_be_forgotten) = (true, false);
    assert_eq!(kept(all.clone(), &[newest(Period::Each, 1)]), [3]);
    assert_eq!(kept(all.clone(), &[newest(Period::Each, 2)]), [1, 2, 3]);
}

#[test]
fn held_and_doubtful_backups_stay_until_the_hold_has_passed() {
    let mut all = backups(&[
        "2026-01-01T08:00:00Z",
        "2026-01-02T08:00:00Z",
        "2026-01-03T08:00:00Z",
    ]);
    all[0].hold_until = Some(at("2026-06-01T00:00:00Z"));
    all[1].newer_unreadable = true;
    let rules = policy(&[newest(Period::Each, 1)]);
    let reasons = decided(all.clone(), &rules, at("2026-05-31T23:59:59Z"));
    assert_eq!(reasons[&1], ["held until 2026-06-01 00:00 UTC"]);
    assert_eq!(reasons[&2], ["its newest revision cannot be read"]);
    let reasons = decided(all.clone(), &rules, at("2026-06-01T00:00:00Z"));
    assert!(reasons[&1].is_empty() && !reasons[&2].is_empty());
    // Even a policy that may remove all does not remove these.
    let all_goes = Policy {
        may_remove_all: true,
        ..Policy::default()
    };
    let reasons = decided(all, &all_goes, NOW);
    assert!(!reasons[&1].is_empty() && !reasons[&2].is_empty() && reasons[&3].is_empty());
}

#[test]
fn nothing_is_forgotten_without_a_rule_and_no_group_is_forgotten_whole() {
    let mut all = backups(&["2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z"]);
    let none = decide(all.clone(), &Policy::default(), GroupBy::SERIES, NOW);
    assert_eq!(none, Err(RetentionError::NoRule));
    all[1].name.host = b"other".to_vec();
    all[1].tags = vec!["x".into()];
    let mut rules = policy(&[Rule::Tagged(vec!["x".into()])]);
    let error = decide(all.clone(), &rules, GroupBy::SERIES, NOW).unwrap_err();
    let words = error.to_string();
    assert!(
        words.contains("do not keep the one backup of host host, paths /etc")
            && words.contains("--unsafe-allow-remove-all"),
        "{words}"
    );
    // In one group with a backup that stays, it may be forgotten.
    let together = GroupBy {
        host: false,
        ..GroupBy::SERIES
    };
    assert_eq!(decide(all.clone(), &rules, together, NOW).unwrap().len(), 1);
    rules.may_remove_all = true;
    assert_eq!(decide(all, &rules, GroupBy::SERIES, NOW).unwrap().len(), 2);
}

#[test]
fn one_wrong_time_moves_one_backup_alone() {
    let times = |hours: &[i64]| -> Vec<_> { hours.iter().map(|h| UnixNanos::new(h * HOUR)).collect() };
    let straight = |hours: &[i64]| straightened(&times(hours));
    assert_eq!(straight(&[]), []);
    assert_eq!(straight(&[1, 2, 0, 3, 4]), times(&[1, 2, 2, 3, 4]), "back");
    assert_eq!(straight(&[1, 2, 90, 3, 4]), times(&[1, 2, 2, 3, 4]), "forth");
    assert_eq!(straight(&[90, 1, 2]), times(&[1, 1, 2]), "the first");
    assert_eq!(straight(&[1, 2, 0]), times(&[1, 2, 2]), "the last");
    assert_eq!(straight(&[5, 5, 5]), times(&[5, 5, 5]));
}

#[test]
fn a_clock_that_jumped_back_makes_no_older_backup_newer() {
    let mut list = backups(&[
        "2026-01-01T08:00:00Z",
        "2026-01-02T08:00:00Z",
        "1970-01-01T00:00:00Z",
    ]);
    let straight = straightened(&list.iter().map(|one| one.committed_at).collect::<Vec<_>>());
    for (candidate, time) in list.iter_mut().zip(straight) {
        candidate.committed_at = time;
    }
    assert_eq!(kept(list, &[newest(Period::Each, 1)]), [3]);
}

#[test]
fn spans_are_read_and_shown() {
    for text in ["2y5m7d3h", "1h", "14d", "1y1h"] {
        assert_eq!(text.parse::<TimeSpan>().unwrap().to_string(), text);
    }
    assert_eq!("3h2y".parse::<TimeSpan>().unwrap().to_string(), "2y3h");
    for text in [
        "",
        "0d",
        "5",
        "d",
        "-1d",
        "1w",
        "1d1d",
        "1dd",
        "99999999999h",
        "1é",
        "1d ",
    ] {
        assert!(text.parse::<TimeSpan>().is_err(), "{text}");
    }
    let span: TimeSpan = "1m".parse().unwrap();
    assert_eq!(
        span.before(at("2026-03-31T10:00:00Z")),
        at("2026-02-28T10:00:00Z")
    );
    assert_eq!(span.after(at("2026-01-31T10:00:00Z")), at("2026-02-28T10:00:00Z"));
    let ages: TimeSpan = "4000000000y".parse().unwrap();
    assert_eq!(ages.after(at("2026-01-31T10:00:00Z")).get(), i64::MAX);
}

/// The period as people would name it.
fn name(period: Period, backup: &Candidate) -> String {
    let time = Timestamp::from_nanosecond(i128::from(backup.committed_at.get())).unwrap();
    let format = match period {
        Period::Each => return format!("{:020}", backup.session.get()),
        Period::Hour => "%Y-%m-%d %H",
        Period::Day => "%Y-%m-%d",
        Period::Week => "%G-%V",
        Period::Month => "%Y-%m",
        Period::Year => "%Y",
    };
    time.to_zoned(jiff::tz::TimeZone::UTC)
        .strftime(format)
        .to_string()
}

/// The backups that a rule keeps, from old to new. The model goes by periods, where the code goes
/// by backups.
fn model(rule: &Rule, backups: &[Candidate]) -> BTreeSet<u64> {
    let newest_of = |period: Period, among: &[&Candidate]| {
        let named = among.iter().map(|one| (name(period, one), one.session.get()));
        named.collect::<BTreeMap<_, _>>()
    };
    let oldest = backups[0].session.get();
    match rule {
        Rule::Newest { period, limit } => {
            let newest = newest_of(*period, &backups.iter().collect::<Vec<_>>());
            let limit = match limit {
                Limit::None => usize::MAX,
                Limit::Count(count) => count.get() as usize,
            };
            let mut kept: BTreeSet<_> = newest.values().rev().take(limit).copied().collect();
            if newest.len() < limit {
                kept.insert(oldest);
            }
            kept
        }
        Rule::Within { period, span } => {
            let last = backups.last().unwrap().committed_at;
            let recent: Vec<_> = backups
                .iter()
                .filter(|one| one.committed_at >= span.before(last))
                .collect();
            let mut kept: BTreeSet<_> = newest_of(*period, &recent).into_values().collect();
            kept.extend(
                recent
                    .iter()
                    .map(|one| one.session.get())
                    .filter(|one| *one == oldest),
            );
            kept
        }
        Rule::Tagged(tags) => {
            let bearers = backups.iter().filter(|one| {
                if tags.is_empty() {
                    one.tags.is_empty()
                } else {
                    tags.iter().all(|tag| one.tags.contains(tag))
                }
            });
            bearers.map(|one| one.session.get()).collect()
        }
    }
}

fn periods() -> impl Strategy<Value = Period> {
    prop::sample::select(vec![
        Period::Each,
        Period::Hour,
        Period::Day,
        Period::Week,
        Period::Month,
        Period::Year,
    ])
}

fn rules() -> impl Strategy<Value = Rule> {
    let span = prop::sample::select(vec!["1h", "20h", "3d", "9d12h", "1m", "2m3d", "1y", "9y"]);
    let tags = prop::sample::subsequence(vec!["a".to_owned(), "b".to_owned()], 0..=2);
    prop_oneof![
        (periods(), 0_u32..6).prop_map(|(period, count)| newest(period, count)),
        (periods(), span).prop_map(|(period, span)| within(period, span)),
        tags.prop_map(Rule::Tagged),
    ]
}

/// Backups with steps of minutes to months between them, about the turn of a year with 53 weeks.
fn histories() -> impl Strategy<Value = Vec<Candidate>> {
    let step = prop_oneof![0_i64..120, 0_i64..3000, 0_i64..60_000];
    let tags = prop::sample::subsequence(vec!["a".to_owned(), "b".to_owned()], 0..=2);
    let one = (step, tags, any::<bool>());
    prop::collection::vec(one, 1..40).prop_map(|steps| {
        let mut time = at("2020-11-20T22:30:00Z").get();
        let mut backups = Vec::new();
        for (session, (minutes, tags, is_held)) in (1..).zip(steps) {
            time += minutes * 60 * 1_000_000_000;
            let mut one = backup(session, UnixNanos::new(time));
            one.tags = tags;
            one.hold_until = (is_held && session % 7 == 0).then_some(UnixNanos::new(i64::MAX));
            backups.push(one);
        }
        backups
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn policies_keep_the_same_backups_as_a_plain_model(
        backups in histories(),
        rules in prop::collection::vec(rules(), 1..4),
    ) {
        let mut expected: BTreeSet<u64> = rules.iter().flat_map(|rule| model(rule, &backups)).collect();
        let held = backups.iter().filter(|one| one.hold_until.is_some());
        expected.extend(held.map(|one| one.session.get()));
        let policy = policy(&rules);
        match decide(backups.clone(), &policy, GroupBy::SERIES, NOW) {
            Err(RetentionError::KeepsNothing { backups: all, .. }) => {
                prop_assert!(expected.is_empty());
                prop_assert_eq!(all, backups.len());
            }
            Err(error) => prop_assert!(false, "{}", error),
            Ok(groups) => {
                let kept: BTreeSet<_> = groups[0].decisions.iter()
                    .filter(|decision| decision.is_kept())
                    .map(|decision| decision.backup.session.get())
                    .collect();
                prop_assert_eq!(kept, expected);
                prop_assert_eq!(groups[0].decisions.len(), backups.len());
            }
        }
    }

    #[test]
    fn straightened_times_never_fall_and_believe_all_they_can(
        hours in prop::collection::vec(0_i64..30, 0..12),
    ) {
        let told: Vec<_> = hours.iter().map(|hour| UnixNanos::new(hour * HOUR)).collect();
        let straight = straightened(&told);
        prop_assert_eq!(straight.len(), told.len());
        prop_assert!(straight.is_sorted());
        // The longest part that does not fall, by trying all.
        let longest = (0_u32..1 << told.len())
            .map(|chosen| (0..told.len()).filter(|at| chosen >> at & 1 == 1).collect::<Vec<_>>())
            .filter(|part| part.is_sorted_by_key(|at| told[*at]))
            .map(|part| part.len())
            .max()
            .unwrap_or(0);
        let believed = straight.iter().zip(&told).filter(|(a, b)| a == b).count();
        prop_assert!(believed >= longest);
    }
}

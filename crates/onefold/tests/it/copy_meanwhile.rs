//! Copies beside other runs, forgets and damage of what was copied before.

use std::time::Duration;

use onefold::operations::copy;
use onefold::{CopyStep, Monitor};
use types::ObjectName;

use crate::common::pruning::forget;
use crate::common::{How, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};
use crate::copy::{Pair, copy_all, request, try_copy};

/// Only the earlier backup needs what is lost, and has a copy already.
#[test]
fn damage_of_an_earlier_backup_keeps_no_later_one_from_being_copied() {
    for (pair, is_one_domain) in Pair::both(1600) {
        let from = pair.source.open();
        let bytes = noise(1601, 400 << 10);
        let first = back_up_bytes(&from, "/stream", &bytes, &How::plain()).unwrap();
        let changed = [noise(1602, 200 << 10), bytes[200 << 10..].to_vec()].concat();
        back_up_bytes(&from, "/stream", &changed, &How::plain()).unwrap();
        let to = pair.destination.open();
        let only_first = request().ids(vec![first.id.to_string()]);
        try_copy(&from, &to, &only_first).unwrap();
        // The first container has only what the second backup replaced.
        let of_first = format!("data/{:013}/", first.id.get());
        let mut names = pair.source.names("data");
        names.retain(|name| name.starts_with(&of_first));
        pair.source.take_away(&ObjectName::new(names[0].clone()).unwrap());
        let from = pair.source.beside(1605).open();
        let report = copy_all(&from, &to);
        assert_eq!(report.copied.len(), 1, "one domain: {is_one_domain}");
        let copy = snapshot(&to, report.copied[0].made.id);
        assert_restores_bytes(&to, &copy, "/stream", &changed, "copied");
    }
}

/// A run that began before another one made the copies.
#[test]
fn what_another_run_copies_meanwhile_is_copied_once() {
    for (pair, _) in Pair::both(1620) {
        let from = pair.source.open();
        for seed in 0..3 {
            back_up_bytes(&from, "/stream", &noise(1620 + seed, 60 << 10), &How::plain()).unwrap();
        }
        let to = pair.destination.open();
        let mut has_run = false;
        let report = copy(&from, &to, &request(), &Monitor::default(), &mut |step| {
            if let CopyStep::Begins(_) = step
                && !std::mem::replace(&mut has_run, true)
            {
                let other = pair.destination.beside(1625).open();
                let theirs = copy_all(&pair.source.beside(1626).open(), &other);
                assert_eq!(theirs.copied.len(), 3);
                pair.destination.clock.advance(Duration::from_secs(60));
            }
        });
        let report = report.unwrap();
        assert_eq!((report.copied.len(), report.skipped.len()), (0, 3), "{report:?}");
        assert_eq!(to.snapshots().unwrap().snapshots.len(), 3);
        assert_sound(&to, "two runs");
    }
}

#[test]
fn a_backup_that_is_forgotten_meanwhile_is_passed_over() {
    for (pair, _) in Pair::both(1640) {
        let from = pair.source.open();
        let backups: Vec<_> = (0..3)
            .map(|seed| {
                back_up_bytes(&from, "/stream", &noise(1640 + seed, 60 << 10), &How::plain())
                    .unwrap()
                    .id
            })
            .collect();
        let to = pair.destination.open();
        let report = copy(&from, &to, &request(), &Monitor::default(), &mut |step| {
            if let CopyStep::Begins(snapshot) = step
                && snapshot.id == backups[0]
            {
                forget(&pair.source.beside(1645).open(), backups[1]);
            }
        });
        let report = report.unwrap();
        let copied: Vec<_> = report.copied.iter().map(|one| one.from.id).collect();
        assert_eq!(copied, [backups[0], backups[2]]);
        assert_eq!(report.forgotten, [backups[1]]);
    }
}

/// A stream of two chunks, of which the first has a length that a fixed one could have, and that
/// the destination does not take.
#[test]
fn small_chunks_are_not_taken_for_fixed_ones() {
    let pair = Pair::across_domains(1660);
    let from = pair.source.open();
    let streams: Vec<Vec<u8>> = (0..200).map(|seed| noise(1700 + seed, 3000)).collect();
    for (number, bytes) in streams.iter().enumerate() {
        back_up_bytes(&from, &format!("/{number}"), bytes, &How::plain()).unwrap();
    }
    let to = pair.destination.open();
    assert_eq!(copy_all(&from, &to).copied.len(), streams.len());
}

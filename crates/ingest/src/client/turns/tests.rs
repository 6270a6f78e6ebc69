use std::sync::mpsc;
use std::thread;

use env::{ManualClock, SystemClock};

use super::*;

/// Longer than any test.
const NEVER: Duration = Duration::from_mins(5);

fn wait_until(turns: &Turns, waiting: usize) {
    while turns.state().waiting.len() != waiting {
        SystemClock.sleep(Duration::from_millis(1));
    }
}

fn clock() -> ManualClock {
    ManualClock::default()
}

#[test]
fn backups_that_wait_get_their_turns_in_order() {
    let turns = Turns::of(2, NEVER);
    let clock = clock();
    let [mut first, mut second] = [(); 2].map(|()| turns.of_backup(&clock));
    first.take();
    second.take();
    let (began, order) = mpsc::channel();
    thread::scope(|scope| {
        for (waiting, name) in (1..).zip(["third", "fourth", "fifth"]) {
            let (turns, clock, began) = (&turns, &clock, began.clone());
            scope.spawn(move || {
                let mut other = turns.of_backup(clock);
                other.take();
                began.send(name).unwrap();
            });
            wait_until(turns, waiting);
        }
        assert!(order.try_recv().is_err(), "two turns are taken");
        drop(first);
        let three: Vec<_> = order.iter().take(3).collect();
        assert_eq!(three, ["third", "fourth", "fifth"]);
    });
    assert_eq!(turns.state().holders.len(), 1);
}

#[test]
fn a_turn_ends_with_its_bytes() {
    let turns = Turns::of(1, NEVER);
    let clock = clock();
    let mut one = turns.of_backup(&clock);
    one.take();
    assert_eq!(one.send(TURN_BYTES - 1, || "sent"), "sent");
    one.take();
    assert_eq!(turns.state().holders.len(), 1, "it is the same turn");
    one.send(1, || ());
    assert!(turns.state().holders.is_empty());
}

#[test]
fn a_backup_that_sends_nothing_loses_its_turn_and_one_that_sends_does_not() {
    let turns = Turns::of(1, Duration::from_millis(50));
    let clock = clock();
    let mut one = turns.of_backup(&clock);
    one.take();
    let (began, beginning) = mpsc::channel();
    thread::scope(|scope| {
        let (turns, clock) = (&turns, &clock);
        scope.spawn(move || {
            let mut other = turns.of_backup(clock);
            other.take();
            began.send(other.held).unwrap();
            // It stalls, too.
            beginning_of(turns);
        });
        wait_until(turns, 1);
        for _ in 0..20 {
            one.send(1, || ());
            SystemClock.sleep(Duration::from_millis(5));
            assert!(beginning.try_recv().is_err(), "it sends all the time");
        }
        let other = beginning.recv().unwrap();
        assert!(one.held.is_some() && one.held != other);
        // It has lost it, and takes a new one.
        one.send(1, || ());
        assert_eq!(one.held, None);
        one.take();
        assert!(one.held.is_some());
    });
    drop(one);
    assert!(turns.state().holders.is_empty());
}

/// Waits until somebody else has taken the turn.
fn beginning_of(turns: &Turns) {
    wait_until(turns, 1);
    wait_until(turns, 0);
}

#[test]
fn a_slow_source_takes_no_turns_until_it_has_been_fast_for_some_time() {
    let turns = Turns::of(1, NEVER);
    let clock = clock();
    let mut one = turns.of_backup(&clock);
    let read = |one: &mut BackupTurns<'_>, nanos: u64, bytes: usize| {
        one.take();
        clock.advance(Duration::from_nanos(nanos));
        one.send(bytes, || clock.advance(Duration::from_secs(1)));
        one.held.is_some()
    };
    assert!(
        read(&mut one, 2_000, 1_000),
        "waits for the next stage do not count"
    );
    assert!(!read(&mut one, 2_001, 1_000));
    assert!(!read(&mut one, 2_000, TURN_BYTES - 1));
    assert!(!read(&mut one, 2, 1), "the last one without");
    assert!(read(&mut one, 2_000, 1_000));
}

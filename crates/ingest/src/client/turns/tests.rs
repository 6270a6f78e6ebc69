use std::sync::mpsc;
use std::thread;

use env::{ManualClock, SystemClock};

use super::*;

const MIB: usize = 1 << 20;

fn bytes(bytes: usize) -> Part {
    Part {
        bytes,
        is_in_new_memory: false,
    }
}

fn in_new_memory(bytes: usize) -> Part {
    Part {
        bytes,
        is_in_new_memory: true,
    }
}

/// Waits until something is so. `false`: that takes too long.
fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let began = SystemClock.monotonic();
    while !is_so() && SystemClock.monotonic() - began < Duration::from_mins(1) {
        SystemClock.sleep(Duration::from_millis(1));
    }
    is_so()
}

/// Waits until so many backups wait for a turn.
fn wait_for(turns: &Turns, waiting: usize) {
    let is_so = || turns.state().waiting.len() == waiting;
    assert!(wait_until(is_so), "{:?}", turns.state());
}

/// A backup with its turn.
fn with_turn<'a>(turns: &'a Turns, clock: &'a ManualClock) -> BackupTurns<'a> {
    let mut backup = turns.of_backup(clock);
    backup.take(|| true);
    backup
}

fn holders(turns: &Turns) -> Vec<u64> {
    turns.state().holders.iter().map(|holder| holder.number).collect()
}

#[test]
fn backups_that_wait_get_their_turns_in_order() {
    let turns = Turns::of(2);
    let clock = ManualClock::default();
    let [first, _second] = [(); 2].map(|()| with_turn(&turns, &clock));
    let (began, order) = mpsc::channel();
    thread::scope(|scope| {
        for (waiting, name) in (1..).zip(["third", "fourth", "fifth"]) {
            let (turns, clock, began) = (&turns, &clock, began.clone());
            scope.spawn(move || {
                let _other = with_turn(turns, clock);
                began.send(name).unwrap();
            });
            wait_for(turns, waiting);
        }
        assert!(order.try_recv().is_err(), "two turns are taken");
        drop(first);
        let three: Vec<_> = order.iter().take(3).collect();
        assert_eq!(three, ["third", "fourth", "fifth"]);
    });
    assert_eq!(holders(&turns), [1]);
}

#[test]
fn a_turn_ends_with_its_bytes() {
    let turns = Turns::of(1);
    let clock = ManualClock::default();
    let mut one = with_turn(&turns, &clock);
    assert_eq!(one.send(bytes(TURN_BYTES - 1), || "sent"), "sent");
    one.take(|| true);
    assert_eq!(holders(&turns), [0], "it is the same turn");
    one.send(bytes(1), || ());
    assert!(holders(&turns).is_empty());
}

/// One of two backups goes on all the time, and the other one stalls.
#[test]
fn a_backup_that_sends_nothing_loses_its_turn_to_the_next_one() {
    let turns = Turns::of(2);
    let clock = ManualClock::default();
    let [mut busy, mut still] = [(); 2].map(|()| with_turn(&turns, &clock));
    let step = Duration::from_micros(100);
    thread::scope(|scope| {
        let (turns, clock) = (&turns, &clock);
        let waits = scope.spawn(move || with_turn(turns, clock).held);
        wait_for(turns, 1);
        let mut passed = Duration::ZERO;
        while passed + step < STALL {
            passed += step;
            busy.send(bytes(MIB / 32), || clock.advance(step));
        }
        assert!(!waits.is_finished(), "nobody has stalled for long enough");
        busy.send(bytes(MIB / 32), || clock.advance(step));
        let is_over = wait_until(|| waits.is_finished());
        // So that the other one ends in any case.
        drop(busy);
        assert!(is_over, "{:?}", turns.state());
        assert_eq!(waits.join().unwrap(), Some(2));
    });
    // It learns of it when it sends.
    assert_eq!(still.held, Some(1));
    still.send(bytes(1), || ());
    assert_eq!(still.held, None);
    drop(still);
    assert!(holders(&turns).is_empty());
}

#[test]
fn a_backup_that_is_to_stop_waits_no_longer() {
    let turns = Turns::of(1);
    let clock = ManualClock::default();
    let (first, mut other) = (with_turn(&turns, &clock), turns.of_backup(&clock));
    other.take(|| false);
    assert_eq!((other.held, turns.state().waiting.len()), (None, 0));
    drop(first);
    other.take(|| true);
    assert!(other.held.is_some());
}

#[test]
fn a_slow_backup_takes_no_turns_for_some_time() {
    let turns = Turns::of(1);
    let clock = ManualClock::default();
    let nanos = |count: usize| Duration::from_nanos(u64::try_from(count).unwrap());
    for (reading, sending, is_slow) in [
        (JUDGED_BYTES, 0, false),
        (JUDGED_BYTES + 1, JUDGED_BYTES, true),
        (JUDGED_BYTES + 1, JUDGED_BYTES + 1, false),
        (JUDGED_BYTES, 7 * JUDGED_BYTES, false),
        (0, 8 * JUDGED_BYTES + 1, true),
    ] {
        let mut one = with_turn(&turns, &clock);
        clock.advance(nanos(100 * JUDGED_BYTES));
        one.send(in_new_memory(JUDGED_BYTES), || ());
        assert!(one.held.is_some(), "new memory is slow, not the source");
        // Steps without bytes are judged with the bytes that follow.
        clock.advance(nanos(reading));
        one.send(bytes(0), || clock.advance(nanos(sending)));
        assert!(one.held.is_some());
        one.send(bytes(JUDGED_BYTES), || ());
        assert_eq!(one.held.is_none(), is_slow, "{reading} {sending}");
        if is_slow {
            clock.advance(nanos(100 * SLOW_BYTES));
            one.send(bytes(SLOW_BYTES - 1), || ());
            one.take(|| true);
            assert!(one.held.is_none());
            one.send(bytes(1), || ());
        }
        one.take(|| true);
        one.send(bytes(JUDGED_BYTES), || ());
        assert!(one.held.is_some(), "what it did without a turn is not judged");
    }
}

/// Takes a turn that another backup has for so long.
fn take_behind_another(backup: &mut BackupTurns<'_>, clock: &ManualClock, time: Duration) {
    let turns = backup.turns;
    let other = with_turn(turns, clock);
    thread::scope(|scope| {
        let waits = scope.spawn(|| backup.take(|| true));
        wait_for(turns, 1);
        clock.advance(time);
        drop(other);
        waits.join().unwrap();
    });
}

/// A backup whose source is so slow that it loses each turn before it has sent what is judged.
#[test]
fn a_backup_that_loses_each_turn_is_judged_all_the_same() {
    let turns = Turns::of(1);
    let clock = ManualClock::default();
    let mut slow = turns.of_backup(&clock);
    for part in 0..4 {
        take_behind_another(&mut slow, &clock, STALL);
        assert!(slow.held.is_some(), "part {part}");
        clock.advance(STALL * 2);
        turns.state().holders.clear();
        slow.send(bytes(MIB), || ());
        assert!(slow.held.is_none(), "part {part}");
    }
    assert_eq!(slow.slow, SLOW_BYTES, "4 MiB at 25 MB/s");
}

/// What passes while a backup waits for its turn is not its source's time.
#[test]
fn waiting_for_a_turn_makes_no_backup_slow() {
    let turns = Turns::of(1);
    let clock = ManualClock::default();
    let mut backup = turns.of_backup(&clock);
    for _ in 0..8 {
        take_behind_another(&mut backup, &clock, STALL / 2);
        backup.send(bytes(MIB), || ());
        turns.state().holders.clear();
        backup.send(bytes(0), || ());
        assert_eq!((backup.held, backup.slow), (None, 0));
    }
}

//! The interface between a backup's client and its store: the suite of `ingest::conformance` over a
//! store in this process, and over one at the other end of a pipe. Both make the same decisions. A
//! pipe that is cut at any message loses nothing that was committed.

mod brief;
mod local;
mod pipe;
mod reading;
mod remote;
mod serve;

use ingest::conformance::{CASES, Case, Host, Outcome};

use crate::common::{Process, assert_sound, is_long};
use local::{LocalHost, Referring};
use remote::RemoteHost;

const KINDS: [Referring; 3] = [Referring::Chunks, Referring::Capped, Referring::Segments];

fn made(host: &dyn Host, (name, case): Case) -> Vec<ingest::conformance::Made> {
    let outcome: Outcome = case(host);
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_store_elsewhere_decides_as_one_here() {
    for referring in KINDS {
        for case in CASES {
            let here = LocalHost::new(&Process::new(700), referring);
            let local = made(&here, *case);
            assert_sound(&here.store, case.0);
            // Every segment with its chunks, some of them, and none.
            for streak in [u32::MAX, 1, 0] {
                let mut elsewhere = RemoteHost::new(&Process::new(700), referring, None);
                elsewhere.streak = streak;
                let remote = made(&elsewhere, *case);
                assert_eq!(local, remote, "{}, {referring:?}, {streak}", case.0);
                assert!(elsewhere.messages() >= 4, "{}: it talked over the pipe", case.0);
                assert_sound(&elsewhere.here.store, case.0);
            }
        }
    }
}

/// Cuts after each message in turn, of either end. Then the interrupted backup is made again.
#[test]
fn a_pipe_cut_at_any_message_loses_nothing() {
    for (number, referring) in KINDS.into_iter().enumerate() {
        for case in CASES {
            cut_everywhere(*case, referring, number);
        }
    }
}

fn cut_everywhere(case: Case, referring: Referring, number: usize) {
    let whole = RemoteHost::new(&Process::new(701), referring, None);
    let expected = made(&whole, case);
    let messages = whole.messages();
    // Eight places of each case, and other ones for each kind. The long mode tries all.
    let step = if is_long() { 1 } else { messages.div_ceil(8).max(1) };
    let mut failed = 0;
    for after in (number % step..messages).step_by(step) {
        let when = format!("{} cut after {after} of {messages} messages", case.0);
        let machine = Process::new(701);
        let cut = RemoteHost::new(&machine, referring, Some(after));
        let outcome = (case.1)(&cut);
        failed += usize::from(outcome.is_err());
        let visible = cut.backups();
        assert!(visible.len() <= expected.len() + 1, "{when}: {visible:?}");
        drop(cut);
        // Another process continues: visible backups are whole, and the rest is made.
        let next = LocalHost::on(&machine.beside(702), referring);
        assert_sound(&next.store, &when);
        assert_eq!(next.backups(), visible, "{when}");
        if visible.is_empty() {
            let again = made(&next, case);
            let streams = |made: &[ingest::conformance::Made]| -> Vec<_> {
                made.iter().map(|each| each.streams.clone()).collect()
            };
            assert_eq!(streams(&again), streams(&expected), "{when}");
            assert_sound(&next.store, &when);
        }
    }
    assert!(failed > 0, "{}: no cut was felt", case.0);
}

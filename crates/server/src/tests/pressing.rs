//! Who presses: an owner that its own line or rate slows does not, and holds back nobody.
//!
//! Time passes where a test says so: while bytes come and leave, and where the rate waits.

use std::io::{self, Read, Write};

use transport::Closer;

use super::*;
use crate::peer::{Message, Peer};
use crate::shares::{Answer, Shares};
use crate::state::State;

const MIB: usize = 1 << 20;

/// Messages of this many bytes, which are all there. Each block of their bodies takes some time.
struct Line {
    clock: ManualClock,
    body: usize,
    block_takes: Duration,
    /// Bytes of the present message that have come.
    come: usize,
}

impl Line {
    /// A line that has so many bytes a second. `None`: any number.
    fn input(clock: &ManualClock, body: usize, bytes_a_second: Option<u64>) -> Self {
        let nanos = bytes_a_second.map_or(0, |rate| (64 << 10) * 1_000_000_000 / rate);
        Self {
            clock: clock.clone(),
            body,
            block_takes: Duration::from_nanos(nanos),
            come: 0,
        }
    }
}

impl Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = u32::try_from(self.body + 5).unwrap().to_le_bytes();
        let head = [&len[..], &[request::SUBMIT, 0, 0, 0, 0]].concat();
        let read = if self.come < head.len() {
            let read = into.len().min(head.len() - self.come);
            into[..read].copy_from_slice(&head[self.come..][..read]);
            read
        } else {
            let left = head.len() + self.body - self.come;
            self.clock.advance(self.block_takes);
            into.len().min(left).min(64 << 10)
        };
        self.come = (self.come + read) % (head.len() + self.body);
        Ok(read)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = bytes.len().min(64 << 10);
        if bytes.len() > 1000 {
            self.clock.advance(self.block_takes);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client, and what it shares.
struct Guest {
    peer: Peer,
    shares: Shares,
}

/// A server whose time a test moves.
struct Timed {
    _folder: TempDir,
    server: Server,
    clock: ManualClock,
}

impl Timed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::default().reserve_bytes(0);
        let (mut home, _) = Home::init(folder.path(), &Credential::None, &options).unwrap();
        let clock = ManualClock::default();
        clock.advance(Duration::from_secs(100));
        home.env.clock = Arc::new(clock.clone());
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        Self {
            _folder: folder,
            server,
            clock,
        }
    }

    fn state(&self) -> &State {
        self.server.state()
    }

    fn guest(&self, owner: &str, rate: Option<u64>, [input, output]: [Line; 2]) -> Guest {
        let deadline: crate::Deadline = Arc::new(|_| ());
        let channel = Channel {
            input: Box::new(input),
            output: Box::new(output),
            closer: Closer::new(|| ()),
        };
        let mut shares = Shares::new(owner.to_owned(), self.state().rates.of(owner));
        shares.rate_bytes = rate;
        Guest {
            peer: Peer::new(channel, &deadline),
            shares,
        }
    }

    /// A client whose messages and answers have this length, on lines of so many bytes a second.
    fn on_lines(&self, owner: &str, body: usize, rates: [Option<u64>; 2]) -> Guest {
        let line = |rate| Line::input(&self.clock, body, rate);
        self.guest(owner, None, rates.map(line))
    }

    /// Takes a message, and perhaps answers it.
    fn serve(&self, guest: &mut Guest, answer_bytes: usize) {
        let next = guest.peer.incoming.next(self.state(), &guest.shares);
        let Message { head, processing, .. } = next.unwrap().unwrap();
        if answer_bytes > 0 {
            let shared = (self.state(), &guest.shares);
            Answer::to(head.number, processing, &guest.peer.writer, shared)
                .end(&vec![0; answer_bytes])
                .unwrap();
        }
    }

    /// Whether the owner presses while its next message is processed.
    fn presses(&self, guest: &mut Guest) -> bool {
        // What it pressed before has passed.
        self.clock.advance(Duration::from_secs(2));
        let next = guest.peer.incoming.next(self.state(), &guest.shares);
        let _message = next.unwrap().unwrap();
        self.state().balance.presses(&guest.shares.owner)
    }

    /// A client without limits beside this one takes no time, and waits for nobody.
    fn leaves_room(&self, other: &mut Guest, answer_bytes: usize) {
        let mut fast = self.on_lines("fast", MIB, [None, None]);
        let held = self.clock.monotonic();
        self.serve(&mut fast, 0);
        assert!(self.presses(&mut fast), "the server is what slows it");
        for _ in 0..8 {
            self.serve(other, answer_bytes);
            assert!(!self.state().balance.presses(&other.shares.owner));
            let before = self.clock.monotonic();
            for _ in 0..4 {
                // If the other one pressed, this one would wait for ever.
                self.serve(&mut fast, 0);
            }
            assert_eq!(self.clock.monotonic(), before);
        }
        assert!(self.clock.monotonic() > held);
    }
}

#[test]
fn an_owner_without_a_slow_line_or_rate_presses() {
    let timed = Timed::new();
    for bytes in [100, MIB] {
        let mut guest = timed.on_lines("guest", bytes, [None, None]);
        timed.serve(&mut guest, MIB);
        assert!(timed.presses(&mut guest), "{bytes}");
    }
    let mut throttled = timed.guest(
        "throttled",
        Some(1 << 40),
        [100, 100].map(|body| Line::input(&timed.clock, body, None)),
    );
    timed.serve(&mut throttled, 100);
    assert!(timed.presses(&mut throttled), "its rate does not slow it");
}

#[test]
fn an_owner_on_a_slow_line_does_not_press() {
    let timed = Timed::new();
    let mut slow = timed.on_lines("slow", MIB, [Some(10_000_000), None]);
    timed.serve(&mut slow, 0);
    assert!(!timed.presses(&mut slow));
    timed.leaves_room(&mut slow, 0);
}

/// A restore asks ahead: its requests are there, and its answers leave slowly.
#[test]
fn an_owner_that_reads_over_a_slow_line_does_not_press() {
    let timed = Timed::new();
    let mut slow = timed.on_lines("slow", 100, [None, Some(10_000_000)]);
    timed.serve(&mut slow, MIB);
    assert!(!timed.presses(&mut slow));
    timed.leaves_room(&mut slow, MIB);
    // Its line becomes faster.
    let mut fast = timed.on_lines("slow", 100, [None, None]);
    timed.serve(&mut fast, MIB);
    assert!(timed.presses(&mut fast));
}

#[test]
fn an_owner_that_its_rate_slows_does_not_press() {
    let timed = Timed::new();
    let line = |body| [body, body].map(|body| Line::input(&timed.clock, body, None));
    let mut throttled = timed.guest("throttled", Some(1_000_000), line(MIB));
    // More than may come at once.
    timed.serve(&mut throttled, 0);
    timed.serve(&mut throttled, 0);
    timed.leaves_room(&mut throttled, 0);
    let mut reader = timed.guest("reader", Some(1_000_000), line(100));
    timed.serve(&mut reader, MIB);
    timed.leaves_room(&mut reader, MIB);
}

/// While an answer is on its way, its owner is not waited for.
#[test]
fn an_answer_that_leaves_is_processed() {
    let timed = Timed::new();
    let mut guest = timed.on_lines("guest", 100, [None, None]);
    let next = guest.peer.incoming.next(timed.state(), &guest.shares);
    let Message { processing, .. } = next.unwrap().unwrap();
    let shared = (timed.state(), &guest.shares);
    let mut answer = Answer::to(1, processing, &guest.peer.writer, shared);
    timed.clock.advance(Duration::from_millis(30));
    assert!(timed.state().balance.presses("guest"));
    answer.part(&[0; 100]).unwrap();
    timed.clock.advance(Duration::from_millis(30));
    assert!(!timed.state().balance.presses("guest"));
}

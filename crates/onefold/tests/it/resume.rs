//! An interrupted stream continues where it was: no stored byte is read or stored again, and the
//! backup equals the one of an uninterrupted run (B6).

use std::io;
use std::path::Path;
use std::time::Duration;

use env::{Clock, SystemClock};
use onefold::repository::{Beginning, Resume, SeriesName};
use onefold::{
    BackupReport, Error, InitOptions, Layout, Monitor, SessionId, Store, StreamOptions, StreamPiece,
    StreamSource,
};

use types::ObjectName;

use crate::common::positions::has_position;
use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::{
    How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot, tiny, wait_until,
};

const NAME: &str = "/stream";

/// How the tests back up: a position after every 128 KiB stored.
fn how() -> How {
    let mut how = How::plain();
    how.ingest.is_resumable = true;
    how.ingest.checkpoint_bytes = 32 << 10;
    how
}

/// Bytes that can be read from any position. It fails after some of them, once a checkpoint shows
/// that half of these are stored. The pipeline takes bytes in MiB.
struct Source<'a> {
    bytes: &'a [u8],
    at: usize,
    fails_at: Option<usize>,
    process: &'a Process,
    began_at: usize,
}

impl<'a> Source<'a> {
    fn new(process: &'a Process, bytes: &'a [u8], fails_at: Option<usize>) -> Self {
        Self {
            bytes,
            at: 0,
            fails_at,
            process,
            began_at: 0,
        }
    }
}

impl StreamSource for Source<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        let end = self.fails_at.unwrap_or(self.bytes.len());
        if self.at >= end && self.fails_at.is_some() {
            wait_until("a position", || has_position(self.process, self.at as u64 / 2));
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = (end - self.at).min(buffer.len()).min(8000);
        // Slow enough for the stages to keep up: a fast source has few checkpoints.
        if self.fails_at.is_some() {
            SystemClock.sleep(Duration::from_millis(1));
        }
        buffer[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(if len == 0 {
            StreamPiece::End
        } else {
            StreamPiece::Data(len)
        })
    }

    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        self.at = usize::try_from(position).unwrap();
        self.began_at = self.at;
        Ok(true)
    }
}

fn back_up(store: &Store, stream: &StreamOptions, source: &mut Source<'_>) -> Result<BackupReport, Error> {
    store.backup_stream(
        &how().options(),
        Path::new(NAME),
        stream,
        source,
        &Monitor::default(),
    )
}

fn resuming(fixed: Option<u32>) -> StreamOptions {
    StreamOptions::default().fixed_chunk_bytes(fixed).resumes(true)
}

fn init(machine: &Process, is_hybrid: bool) -> Store {
    let mut options: InitOptions = tiny();
    if is_hybrid {
        options.series.layout = Some(Layout::Hybrid);
        options.series.segment_bytes = Some(64 << 10);
    }
    machine.try_init(&options).unwrap();
    machine.open()
}

/// Another process dies in the middle of the stream.
fn interrupted(machine: &Process, seed: u64, bytes: &[u8], stream: &StreamOptions, fails_at: usize) {
    let dying = machine.beside(seed);
    let mut source = Source::new(&dying, bytes, Some(fails_at));
    back_up(&dying.open(), stream, &mut source).unwrap_err();
    dying.storage.kill();
}

#[test]
fn an_interrupted_stream_continues_at_its_position() {
    for (seed, fixed, is_hybrid) in [(800, None, false), (810, Some(4096), false), (820, None, true)] {
        let bytes = [noise(seed, 1_300_000), vec![0; 150_000], noise(seed + 1, 700_000)].concat();
        // With the same seed, the stores have the same keys.
        let reference = Process::new(seed + 3);
        let whole = back_up(
            &init(&reference, is_hybrid),
            &resuming(fixed).resumes(false),
            &mut Source::new(&reference, &bytes, None),
        )
        .unwrap();
        assert_eq!(whole.resumed_at, None);

        let machine = Process::new(seed + 3);
        init(&machine, is_hybrid);
        interrupted(&machine, seed + 4, &bytes, &resuming(fixed), 1_700_000);
        let store = machine.open();
        let mut source = Source::new(&machine, &bytes, None);
        let made = back_up(&store, &resuming(fixed), &mut source).unwrap();
        let position = made.resumed_at.expect("it goes on");
        assert!(position >= 200_000, "only at {position}");
        let compared = position - source.began_at as u64;
        assert!(
            compared > 0 && compared <= 1 << 20,
            "{compared} bytes are compared"
        );
        assert_eq!(
            made.totals.bytes_read,
            bytes.len() as u64 - position,
            "the rest alone is read"
        );
        assert_eq!(made.totals.bytes_logical, bytes.len() as u64);
        let seen = snapshot(&store, made.id);
        assert_restores_bytes(&store, &seen, NAME, &bytes, "resumed");
        assert_sound(&store, "resumed");
        let root = |store: &Store, id| {
            let stream = &snapshot(store, id).backup.streams[0];
            (stream.fingerprint, stream.level, stream.len)
        };
        let expected = root(&reference.open(), whole.id);
        assert_eq!(
            root(&store, made.id),
            expected,
            "the tree is that of an uninterrupted run"
        );

        // The dead session's data stays as long as the backup.
        let other = back_up_bytes(&store, "/other", &noise(seed + 5, 200_000), &How::plain()).unwrap();
        forget(&store, other.id);
        prune(&store, &everything_at_once(), "beside a resumed backup");
        assert_restores_bytes(&machine.open(), &seen, NAME, &bytes, "after a prune");
        assert_sound(&machine.open(), "after a prune");
    }
}

#[test]
fn a_resumed_stream_may_be_interrupted_again() {
    let bytes = noise(830, 5_200_000);
    let machine = Process::new(831);
    init(&machine, false);
    interrupted(&machine, 832, &bytes, &resuming(None), 2_300_000);
    interrupted(&machine, 833, &bytes, &resuming(None), 4_600_000);
    let store = machine.open();
    let made = back_up(&store, &resuming(None), &mut Source::new(&machine, &bytes, None)).unwrap();
    assert!(
        made.resumed_at.is_some_and(|position| position > 2_300_000),
        "{:?}",
        made.resumed_at
    );
    assert_restores_bytes(&store, &snapshot(&store, made.id), NAME, &bytes, "twice");
    assert_sound(&store, "twice");
}

/// Without the option, the stream begins at the start, and stores no stored byte again. With
/// another chunk length it also begins at the start.
#[test]
fn a_stream_restarts_if_it_cannot_be_continued() {
    let bytes = noise(840, 1_500_000);
    for (seed, first, then) in [
        (841, resuming(None), StreamOptions::default()),
        // Other chunks.
        (845, resuming(None), resuming(Some(4096))),
    ] {
        let machine = Process::new(seed);
        init(&machine, false);
        interrupted(&machine, seed + 1, &bytes, &first, 1_200_000);
        let store = machine.open();
        let made = back_up(&store, &then, &mut Source::new(&machine, &bytes, None)).unwrap();
        assert_eq!(made.resumed_at, None);
        assert_eq!(made.totals.bytes_read, bytes.len() as u64);
        assert_restores_bytes(&store, &snapshot(&store, made.id), NAME, &bytes, "anew");
        assert_sound(&store, "anew");
    }
}

/// The interrupted backup had found chunks of a backup that is forgotten and pruned before it is
/// resumed. They still exist, whether the new one continues or begins at the start.
#[test]
fn chunks_of_an_interrupted_stream_are_kept_while_it_may_be_resumed() {
    let old = noise(850, 900_000);
    let bytes = [old.clone(), noise(851, 2_000_000)].concat();
    let machine = Process::new(852);
    let store = init(&machine, false);
    let first = back_up_bytes(&store, "/old", &old, &How::plain()).unwrap();
    interrupted(&machine, 853, &bytes, &resuming(None), 2_300_000);
    forget(&store, first.id);
    prune(&store, &everything_at_once(), "beside an interrupted backup");
    let store = machine.open();
    let made = back_up(&store, &resuming(None), &mut Source::new(&machine, &bytes, None)).unwrap();
    assert_restores_bytes(
        &store,
        &snapshot(&store, made.id),
        NAME,
        &bytes,
        "after the prune",
    );
    assert_sound(&store, "after the prune");
    prune(&store, &everything_at_once(), "after the backup");
    assert_restores_bytes(
        &machine.open(),
        &snapshot(&store, made.id),
        NAME,
        &bytes,
        "at last",
    );
    assert_sound(&machine.open(), "at last");
}

/// An attempt that fails before it reaches that position loses no stored data. A source with other
/// bytes makes no backup.
#[test]
fn a_failed_attempt_to_resume_costs_nothing() {
    let bytes = noise(860, 2_600_000);
    let machine = Process::new(861);
    init(&machine, false);
    interrupted(&machine, 862, &bytes, &resuming(None), 2_300_000);
    let mut other = bytes.clone();
    other[1_000_000..].fill(7);
    for (seed, tried, why) in [
        (863, &other[..], "are others than those"),
        (864, &bytes[..300_000], "had stored"),
    ] {
        let dying = machine.beside(seed);
        let mut source = onefold::ReaderSource(tried);
        let options = how().options();
        let store = dying.open();
        let error = store
            .backup_stream(
                &options,
                Path::new(NAME),
                &resuming(None),
                &mut source,
                &Monitor::default(),
            )
            .unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        drop(store);
        dying.storage.kill();
    }
    let store = machine.open();
    let made = back_up(&store, &resuming(None), &mut Source::new(&machine, &bytes, None)).unwrap();
    assert!(
        made.resumed_at.is_some_and(|position| position > 1_000_000),
        "{:?}",
        made.resumed_at
    );
    assert_restores_bytes(&store, &snapshot(&store, made.id), NAME, &bytes, "at last");
    assert_sound(&store, "at last");
}

/// Bytes that rotted meanwhile are read again from the source.
#[test]
fn a_damaged_position_is_not_resumed() {
    let bytes = noise(870, 2_600_000);
    let machine = Process::new(871);
    init(&machine, false);
    interrupted(&machine, 872, &bytes, &resuming(None), 2_300_000);
    let victim = ObjectName::new(machine.names("data")[3].clone()).unwrap();
    env::Storage::delete(&machine.storage, &victim).unwrap();
    let store = machine.open();
    let made = back_up(&store, &resuming(None), &mut Source::new(&machine, &bytes, None)).unwrap();
    assert_eq!(made.resumed_at, None);
    assert_restores_bytes(&store, &snapshot(&store, made.id), NAME, &bytes, "anew");
}

/// A backup that continues its own attempts does not continue another one: the source may have
/// changed since.
#[test]
fn an_attempt_continues_only_its_own_operation() {
    let bytes = noise(860, 2_600_000);
    let machine = Process::new(861);
    init(&machine, false);
    interrupted(&machine, 862, &bytes, &resuming(None), 2_300_000);
    let store = machine.open();
    let options = how().options();
    let position = |resumes: Resume| {
        let name = SeriesName {
            host: options.host.clone(),
            paths: vec![NAME.as_bytes().to_vec()],
        };
        let how = Beginning::new(&options, name, ingest::single_stream(None));
        let hosted = store.host(&how.resumes(resumes));
        let hosted = hosted.unwrap();
        hosted
            .session()
            .terms()
            .resumed
            .first()
            .map_or(0, |stream| stream.len)
    };
    assert_eq!(position(Resume::Own(Vec::new())), 0);
    assert_eq!(position(Resume::Nothing), 0);
    // The sessions that took its data over, without a position of their own, keep it reachable.
    let all = (1..=20).filter_map(|number| SessionId::new(number).ok());
    assert!(position(Resume::Own(all.collect())) > 200_000);
    assert!(position(Resume::Any) > 200_000);
}

/// The containers of a session that was resumed are swept each time. If one with nodes cannot be
/// read, its slots without a mark are listed once, and stay on the list: another epoch changes
/// nothing.
#[test]
fn a_damaged_container_of_a_resumed_session_is_listed_once() {
    let bytes = noise(870, 2_200_000);
    let machine = Process::new(871);
    let store = init(&machine, false);
    let before = machine.names("sessions");
    interrupted(&machine, 872, &bytes, &resuming(None), 1_700_000);
    let made = back_up(&store, &resuming(None), &mut Source::new(&machine, &bytes, None)).unwrap();
    assert!(made.resumed_at.is_some());
    let old = machine.names("sessions").into_iter().find_map(|name| {
        let session = name.strip_prefix("sessions/")?.split('/').next()?.to_owned();
        let is_own = session == made.id.get().to_string();
        (!before.contains(&name) && !is_own).then_some(session)
    });
    let old = old.expect("the session of the interrupted backup");
    prune(&store, &everything_at_once(), "before");
    let damaged: Vec<ObjectName> = ["recipe", "mirror"]
        .iter()
        .flat_map(|kind| machine.names(&format!("{kind}/{old}")))
        .map(|name| ObjectName::new(name).unwrap())
        .collect();
    assert!(!damaged.is_empty(), "it has put nodes");
    for name in &damaged {
        assert!(machine.storage.damage(name, |bytes| bytes.truncate(20)), "{name}");
    }
    let store = machine.open();
    let prune = || {
        let (report, _) = store.prune(&everything_at_once(), &Monitor::default()).unwrap();
        report.epochs
    };
    assert_eq!((prune(), prune(), prune()), (1, 0, 0));
    assert_eq!(machine.names("removed").len(), 1);
}

//! Restores through the reader of a session: the store may be at the other end of a pipe.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use ingest::conformance::Host;
use recipe::{StoreReader, TreeRoot};
use restore::{AssembleOptions, Output, RestoreCounters, RestoreError};
use types::{ByteRange, SessionId};

use super::local::{LocalHost, Referring};
use super::remote::RemoteHost;
use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::{How, Process, back_up_bytes, noise};

struct Bytes(Vec<u8>);

impl Output for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        self.0.resize(self.0.len() + len, 0);
        Ok(())
    }

    fn shown(&self) -> String {
        "memory".to_owned()
    }
}

/// Restores a range of a stream, with little memory.
fn restored(reader: &dyn StoreReader, root: &TreeRoot, range: ByteRange) -> Result<Vec<u8>, RestoreError> {
    let mut options = AssembleOptions::for_cores(2);
    options.budget_bytes = 64 << 10;
    let (counters, cancel) = (RestoreCounters::default(), AtomicBool::new(false));
    let mut bytes = Bytes(Vec::new());
    restore::restore_stream(
        reader, root, range, "stream", &mut bytes, options, &counters, &cancel,
    )?;
    assert_eq!(counters.bytes.load(Ordering::Relaxed), range.len);
    Ok(bytes.0)
}

/// A store with a backup of these bytes. Some of its containers are compacted.
fn stored(seed: u64, bytes: &[u8]) -> (Process, SessionId) {
    let machine = Process::new(seed);
    let host = LocalHost::new(&machine, Referring::Chunks);
    let whole = [bytes, &noise(seed + 1, 200_000)].concat();
    let first = back_up_bytes(&host.store, "/more", &whole, &How::plain()).unwrap();
    let made = back_up_bytes(&host.store, "/stream", bytes, &How::plain()).unwrap();
    forget(&host.store, first.id);
    prune(&host.store, &everything_at_once(), "some of it goes");
    (machine, made.id)
}

fn parts(len: usize) -> [ByteRange; 4] {
    let len = len as u64;
    [(0, len), (0, 1), (len / 3, len / 2), (len - 7, 7)].map(|(offset, len)| ByteRange { offset, len })
}

/// Bytes that the store cannot read are lost, and only these.
#[test]
fn damage_elsewhere_loses_only_its_bytes() {
    let bytes = noise(730, 200_000);
    let (machine, id) = stored(732, &bytes);
    let victim = types::ObjectName::new(machine.names("data")[2].clone()).unwrap();
    assert!(machine.storage.damage(&victim, |bytes| bytes[200] ^= 1));
    let elsewhere = RemoteHost::on(&machine.beside(733), Referring::Chunks, None);
    let begun = elsewhere.begin(ingest::single_stream(None), &[id]).unwrap();
    let root = begun.parents()[0][0];
    let reader = begun.session().reader();
    let (mut lost, mut read) = (0, 0);
    for offset in (0..root.len).step_by(4 << 10) {
        let len = root.len.min(offset + (4 << 10)) - offset;
        match restored(reader, &root, ByteRange { offset, len }) {
            Ok(restored) => {
                let at = usize::try_from(offset).unwrap();
                assert!(restored == bytes[at..at + restored.len()], "at {offset}");
                read += len;
            }
            Err(RestoreError::Lost { .. }) => lost += len,
            Err(error) => panic!("at {offset}: {error}"),
        }
    }
    assert!(lost > 0 && lost < 40_000, "{lost} lost, {read} read");
}

#[test]
fn a_restore_reads_a_store_elsewhere() {
    let bytes = [noise(710, 150_000), vec![0; 70_000], noise(711, 90_000)].concat();
    let (machine, id) = stored(712, &bytes);
    let elsewhere = RemoteHost::on(&machine.beside(713), Referring::Chunks, None);
    let begun = elsewhere.begin(ingest::single_stream(None), &[id]).unwrap();
    let root = begun.parents()[0][0];
    for range in parts(bytes.len()) {
        let restored = restored(begun.session().reader(), &root, range).unwrap();
        let at = usize::try_from(range.offset).unwrap();
        assert!(restored == bytes[at..at + restored.len()], "{range:?}");
    }
}

/// It fails at once, and says that the store cannot be read: no byte counts as lost.
#[test]
fn a_restore_ends_when_its_pipe_is_cut() {
    let bytes = noise(720, 120_000);
    let (machine, id) = stored(722, &bytes);
    let whole = parts(bytes.len())[0];
    let read = |process: u64, cut: Option<usize>| {
        let elsewhere = RemoteHost::on(&machine.beside(process), Referring::Chunks, cut);
        let begun = elsewhere.begin(ingest::single_stream(None), &[id]).unwrap();
        let root = begun.parents()[0][0];
        let restored = restored(begun.session().reader(), &root, whole);
        drop(begun);
        (restored, elsewhere.messages())
    };
    let (restored, messages) = read(723, None);
    assert!(restored.unwrap() == bytes);
    assert!(messages > 20, "{messages} messages");
    let mut failed = 0;
    for after in (0..messages).step_by((messages / 12).max(1)) {
        match read(724 + after as u64, Some(after)).0 {
            Ok(restored) => assert!(restored == bytes, "cut after {after} of {messages}"),
            Err(RestoreError::NoMore(_) | RestoreError::Recipe(recipe::RecipeError::Other(_))) => failed += 1,
            Err(error) => panic!("cut after {after} of {messages}: {error}"),
        }
    }
    assert!(failed > 6, "{failed} cuts were felt");
}

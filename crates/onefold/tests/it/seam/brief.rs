//! Known data over a pipe: the store asks for no chunks that it can read itself.
//!
//! A container of these stores holds less than a reference needs in a whole window. So the store
//! decides on nearly every segment when it has seen the segments behind.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use env::{Clock, SystemClock};
use format::manifest::BackupTotals;
use ingest::conformance::Host;
use ingest::{Client, ClientPools, Counters, ReaderSource, StreamSpec};
use types::{ObjectName, SessionId};

use super::local::{LocalHost, Referring};
use super::remote::RemoteHost;
use crate::common::{Process, noise};

/// Some 256 segments, two for each container, and 4096 chunks.
const BYTES: usize = 4 << 20;

/// Backs the bytes up. Returns the backup and the counts.
fn backed_up(host: &dyn Host, bytes: &[u8]) -> (SessionId, BackupTotals) {
    let begun = host.begin(ingest::single_stream(None), &[]).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let counters = Counters::default();
    let client = Client {
        session: begun.session(),
        pools: &ClientPools::new(&clock),
        options: &host.options(),
        counters: &counters,
        cancel: &AtomicBool::new(false),
        clock: &clock,
    };
    let spec = StreamSpec {
        name: "a stream",
        fixed_chunk_bytes: None,
        parents: &[],
    };
    ingest::backup_stream(client, spec, &mut ReaderSource(bytes)).unwrap();
    let made = begun.session().commit(host.about(counters.of_client())).unwrap();
    let totals = BackupTotals {
        bytes_stored: 0,
        ..made.totals
    };
    (made.session, totals)
}

/// A machine whose store has these bytes, and another process of it with this number.
fn stored(bytes: &[u8], process: u64) -> Process {
    let machine = Process::new(740);
    backed_up(&LocalHost::new(&machine, Referring::Capped), bytes);
    machine.beside(process)
}

/// Backs the bytes up here and elsewhere, on stores that have the known ones. In this time one of
/// their containers cannot be read. Returns the bytes of messages.
fn messages_of(known: &[u8], bytes: &[u8], unread: Option<usize>) -> u64 {
    let beside_damage = |machine: &Process, host: &dyn Host| {
        let name = unread.map(|number| ObjectName::new(machine.names("data")[number].clone()).unwrap());
        name.iter().for_each(|name| machine.take_away(name));
        let (session, totals) = backed_up(host, bytes);
        name.iter().for_each(|name| machine.give_back(name));
        assert!(host.read(session, 0) == bytes);
        (session, totals)
    };
    let machine = stored(known, 741);
    let here = beside_damage(&machine, &LocalHost::on(&machine, Referring::Capped));
    let machine = stored(known, 741);
    let mut elsewhere = RemoteHost::on(&machine, Referring::Capped, None);
    elsewhere.streak = 0;
    assert_eq!(beside_damage(&machine, &elsewhere), here, "both decide the same");
    elsewhere.bytes()
}

#[test]
fn known_segments_on_which_the_store_decides_later_cost_no_lists_of_chunks() {
    let bytes = noise(742, BYTES);
    let known = messages_of(&bytes, &bytes, None);
    let segments = (BYTES >> 14) as u64;
    assert!(
        known < 100 * segments,
        "{known} bytes for about {segments} segments"
    );
    // The segments of a container that cannot be read cost their lists, and those behind do not.
    let unread = messages_of(&bytes, &bytes, Some(30));
    assert!(known < unread && unread < 2 * known, "{known} and {unread} bytes");
}

/// The window is decided chunk by chunk, and many chunks are stored again: they come from the
/// client.
#[test]
fn chunks_of_known_segments_that_are_stored_again_come_from_the_client() {
    let bytes = noise(743, BYTES);
    let mut changed = bytes.clone();
    changed[BYTES / 2..][..100_000].copy_from_slice(&noise(744, 100_000));
    let sent = messages_of(&bytes, &changed, None);
    assert!(sent > 100_000, "the new bytes are among them: {sent}");
}

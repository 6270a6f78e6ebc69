//! Capping and sampled look-ups on whole stores. At every cap and every sampling rate, stored data
//! restores; the cap holds; and deduplication does not depend on the number of threads.

use std::collections::BTreeSet;

use crate::common::{
    How, Process, assert_restores_bytes, assert_sound, back_up_bytes, is_long, noise, snapshot,
};
use container::Containers;
use crypto::Credential;
use format::names;
use object::config;
use onefold::{Cap, Capping, Eviction, LookupMemory, OpenOptions, SessionId, Store};
use recipe::{ChunkRefs, NodeCache, Place, TreeRoot};
use types::{ContainerKind, Fingerprint, ObjectName};

/// Five segments of 16 chunks of 1 KiB.
const WINDOW_BYTES: u64 = 80 << 10;

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Versions of a stream: each has small scattered changes, some inserted bytes, and stretches that
/// repeat others, near and far.
fn generations(seed: u64, count: u64, len: usize) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for stretch in 0.. {
        if bytes.len() >= len {
            break;
        }
        bytes.extend(noise(seed << 32 | stretch, 30 << 10));
        let back = usize::try_from(mixed(seed ^ stretch)).unwrap_or(0) % bytes.len();
        let again = bytes[back..(back + (10 << 10)).min(bytes.len())].to_vec();
        bytes.extend(again);
    }
    let mut versions = vec![bytes.clone()];
    for version in 1..count {
        for change in 0..(len as u64 >> 15) {
            let at = usize::try_from(mixed(seed << 40 | version << 20 | change)).unwrap_or(0) % bytes.len();
            let new = noise(version << 32 | change, 600);
            bytes.splice(at..(at + 500).min(bytes.len()), new);
        }
        let again = bytes[..20_000].to_vec();
        bytes.extend(again);
        versions.push(bytes.clone());
    }
    versions
}

fn how(cap: Cap, remembered_windows: u32) -> How {
    let mut how = How::plain();
    how.ingest.capping = Some(Capping {
        cap,
        remembered_windows,
        window_bytes: WINDOW_BYTES,
    });
    how
}

fn open_at(process: &Process, index_memory: Option<usize>) -> Store {
    let options = OpenOptions::default().index_memory_bytes_max(index_memory);
    Store::open(&process.env, &onefold::Credential::None, &options).unwrap()
}

/// For each stretch of a window's length: how many containers of earlier backups it refers to.
fn old_containers(process: &Process, store: &Store, id: SessionId) -> Vec<usize> {
    let opened = config::open(&process.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(process.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let nodes = NodeCache::new(containers, 8 << 20);
    let backup = snapshot(store, id).backup;
    let root = TreeRoot::from(&backup.streams[0]);
    let mut stretches: Vec<BTreeSet<_>> = Vec::new();
    for reference in ChunkRefs::whole(&nodes, &root) {
        let reference = reference.unwrap();
        let stretch = usize::try_from(reference.offset / WINDOW_BYTES).unwrap();
        stretches.resize(stretches.len().max(stretch + 1), BTreeSet::new());
        if let Place::At(location) = reference.place
            && location.container.session != id
        {
            stretches[stretch].insert(location.container);
        }
    }
    stretches.iter().map(BTreeSet::len).collect()
}

/// The largest number for a stretch, and how many bytes all backups put.
fn most_and_stored(cap: Cap, remembered: u32, index_memory: Option<usize>) -> (usize, u64) {
    let machine = Process::new(81);
    machine.init();
    let versions = generations(81, 8, 400 << 10);
    let how = how(cap, remembered);
    let when = format!("{cap:?}, {remembered} windows remembered, {index_memory:?} bytes of index");
    let mut made = Vec::new();
    for bytes in &versions {
        let store = open_at(&machine, index_memory);
        made.push(back_up_bytes(&store, "/stream", bytes, &how).unwrap());
    }
    let store = machine.open();
    for (report, bytes) in made.iter().zip(&versions) {
        assert_restores_bytes(&store, &snapshot(&store, report.id), "/stream", bytes, &when);
    }
    assert_sound(&store, &when);
    let capped: u64 = made.iter().map(|report| report.chunks_capped).sum();
    assert_eq!(
        capped > 0,
        matches!(cap, Cap::Fixed(1..=3) | Cap::Least(_)),
        "{when}: {capped} chunks capped"
    );
    let most = old_containers(&machine, &store, made.last().unwrap().id);
    (
        most.into_iter().max().unwrap(),
        made.iter().map(|report| report.totals.bytes_stored).sum(),
    )
}

/// A window has room for four containers that each hold a quarter of it. A stretch overlaps two
/// windows, and an unchanged one keeps the references of two earlier backups.
#[test]
fn containers_with_too_little_of_a_window_are_not_referred_to() {
    let (most_uncapped, stored_uncapped) = most_and_stored(Cap::None, 0, None);
    let mut last = stored_uncapped;
    for least in [WINDOW_BYTES / 16, WINDOW_BYTES / 4] {
        let (most, stored) = most_and_stored(Cap::Least(least), 0, None);
        assert!(stored > last, "{least}: {stored} bytes, {last} with less");
        last = stored;
        if least == WINDOW_BYTES / 4 {
            assert!(
                most <= 16 && most < most_uncapped,
                "{most} containers of {most_uncapped}"
            );
        }
    }
}

#[test]
fn backups_at_every_sampling_rate_and_cap_restore() {
    let (most_uncapped, stored_uncapped) = most_and_stored(Cap::None, 0, None);
    assert!(
        most_uncapped > 8,
        "{most_uncapped}: the streams are not fragmented enough to tell"
    );
    for index_memory in [None, Some(16 << 20), Some(128 << 10), Some(1)] {
        let mut last = u64::MAX;
        for cap in [1, 3, 100] {
            let (most, stored) = most_and_stored(Cap::Fixed(cap), 0, index_memory);
            // A stretch overlaps two windows.
            assert!(most <= 2 * cap as usize, "cap {cap}: {most} containers");
            assert!(stored <= last, "cap {cap}: a looser cap stores no more");
            last = stored;
        }
        if index_memory != Some(1) && index_memory != Some(128 << 10) {
            assert!(
                last < stored_uncapped + stored_uncapped / 50,
                "a loose cap costs nothing"
            );
        }
    }
}

#[test]
fn adaptive_caps_and_remembered_containers_deduplicate_more() {
    let (_, fixed) = most_and_stored(Cap::Fixed(2), 0, None);
    let (most, remembered) = most_and_stored(Cap::Fixed(2), 4, None);
    assert!(remembered < fixed, "{remembered} {fixed}");
    assert!(most <= 2 * 2 * 5, "{most}: those of five windows");
}

/// The decisions of backups of these versions: counters, and the data containers' chunks in order,
/// whatever the containers' names.
fn decisions(how: &How, versions: &[Vec<u8>], options: &OpenOptions) -> (Vec<String>, Vec<Vec<Fingerprint>>) {
    let machine = Process::new(83);
    machine.init();
    let store = Store::open(&machine.env, &onefold::Credential::None, options).unwrap();
    let told = versions.iter().map(|bytes| {
        let made = back_up_bytes(&store, "/stream", bytes, how).unwrap();
        let (totals, root) = (made.totals, &snapshot(&store, made.id).backup.streams[0]);
        format!(
            "{:?} {} {} {} {} {} {:?}",
            root.fingerprint,
            totals.chunks_new,
            totals.bytes_new,
            totals.segments_known,
            made.chunks_capped,
            made.bytes_capped,
            made.lookups
        )
    });
    let told = told.collect();
    let opened = config::open(&machine.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let ids = machine.names(ContainerKind::Data.folder());
    let ids = ids
        .iter()
        .map(|name| names::parse_container(&ObjectName::new(name).unwrap()).unwrap().0);
    let mut chunks: Vec<Vec<Fingerprint>> = ids
        .map(|id| {
            let view = containers.catalog(id).unwrap();
            view.entries().iter().map(|entry| entry.fingerprint).collect()
        })
        .collect();
    chunks.sort_unstable();
    (told, chunks)
}

/// It also holds with so little memory that the session's own chunks leave the cache and come back,
/// that its hooks are put early, and that the index is sampled.
#[test]
fn decisions_are_the_same_with_any_number_of_threads() {
    let versions = generations(83, 3, 500 << 10);
    let little = LookupMemory {
        catalog_bytes: 6 << 10,
        node_bytes: 2 << 10,
        own_bytes: 12 << 10,
        own_segments_max: 4,
        eviction: Eviction::ContainerLru,
    };
    for (cap, memory) in [
        (Cap::None, LookupMemory::default()),
        (Cap::None, little),
        (Cap::Fixed(3), little),
        (Cap::Least(WINDOW_BYTES / 8), little),
        (
            Cap::Adaptive(4),
            LookupMemory {
                eviction: Eviction::Immediate,
                ..little
            },
        ),
    ] {
        let mut how = how(cap, 0);
        how.ingest.lookup = memory;
        let mut options = OpenOptions::default().index_memory_bytes_max(Some(1 << 20));
        if memory != LookupMemory::default() {
            options.index_pending_bytes_max = 40 * 16;
            options.index_memory_bytes_max = Some(4 << 10);
        }
        let one = decisions(&how, &versions, &options);
        for (workers, writers) in [(2, 1), (4, 3), (8, 2)] {
            (how.ingest.workers, how.ingest.writers) = (workers, writers);
            for _ in 0..if is_long() { 20 } else { 1 } {
                let other = decisions(&how, &versions, &options);
                assert_eq!(other.0, one.0, "{cap:?}, {memory:?}, {workers} workers");
                assert!(
                    other.1 == one.1,
                    "{cap:?}, {memory:?}, {workers} workers: other chunks"
                );
            }
        }
    }
}

/// A scattered stretch stays scattered while nothing changes, even if it was stored without a cap.
/// After one change in it, it is stored again.
#[test]
fn a_scattered_stretch_stays_scattered_until_its_window_changes() {
    let machine = Process::new(86);
    machine.init();
    let versions = generations(86, 8, 400 << 10);
    for bytes in &versions {
        back_up_bytes(&machine.open(), "/stream", bytes, &how(Cap::None, 0)).unwrap();
    }
    let capped = how(Cap::Least(WINDOW_BYTES / 4), 0);
    let last = versions.last().unwrap();
    let unchanged = back_up_bytes(&machine.open(), "/stream", last, &capped).unwrap();
    assert_eq!((unchanged.totals.chunks_new, unchanged.chunks_capped), (0, 0));
    let mut changed = last.clone();
    let halves = changed.chunks_mut(usize::try_from(WINDOW_BYTES).unwrap() / 2);
    for (n, half) in halves.enumerate() {
        let len = half.len().min(6000);
        half[..len].copy_from_slice(&noise(900 + n as u64, len));
    }
    let made = back_up_bytes(&machine.open(), "/stream", &changed, &capped).unwrap();
    assert!(made.chunks_capped > 0);
    assert_restores_bytes(
        &machine.open(),
        &snapshot(&machine.open(), made.id),
        "/stream",
        &changed,
        "a change",
    );
}

/// A repeated stretch far back in the same backup is found, whatever left the cache meanwhile.
#[test]
fn chunks_of_the_session_that_left_the_cache_are_found_again() {
    let machine = Process::new(85);
    machine.init();
    let mut how = How::plain();
    how.ingest.lookup.own_bytes = 12 << 10;
    how.ingest.lookup.own_segments_max = 1;
    let mut bytes = noise(85, 1 << 20);
    let again = bytes.clone();
    bytes.extend_from_slice(b"shifted");
    bytes.extend(again);
    let store = machine.open();
    let made = back_up_bytes(&store, "/stream", &bytes, &how).unwrap();
    // Hooks are sampled by then, so chunks before the first hook of each batch are not found.
    assert!(made.totals.bytes_new < (1 << 20) + (1 << 19), "{:?}", made.totals);
    assert_restores_bytes(&store, &snapshot(&store, made.id), "/stream", &bytes, "its own");
    assert_sound(&store, "its own");
}

/// New bytes of a backup of `again`, after a backup of `old`.
fn new_bytes(old: &[u8], again: &[u8], how: &How) -> u64 {
    let machine = Process::new(87);
    machine.init();
    back_up_bytes(&machine.open(), "/old", old, &How::plain()).unwrap();
    let store = machine.open();
    let made = back_up_bytes(&store, "/again", again, how).unwrap();
    assert_restores_bytes(&store, &snapshot(&store, made.id), "/again", again, "again");
    made.totals.bytes_new
}

/// Containers that an earlier window referred to are free, and are found whether or not their
/// catalogs left the cache meanwhile.
#[test]
fn free_containers_are_found_after_their_catalogs_left_the_cache() {
    let old = noise(87, 400 << 10);
    let mut again = old.clone();
    for n in 0..40 {
        again.extend(noise(8700 + n, 3000));
        let at = usize::try_from(mixed(n)).unwrap_or(0) % (380 << 10);
        again.extend_from_slice(&old[at..at + (19 << 10)]);
    }
    let stored = |cap, catalog_bytes| {
        let mut how = how(Cap::Fixed(cap), 1000);
        how.ingest.lookup.catalog_bytes = catalog_bytes;
        new_bytes(&old, &again, &how)
    };
    for (cap, share) in [(1, 2), (2, 3)] {
        for catalog_bytes in [1 << 20, 4 << 10] {
            let stored = stored(cap, catalog_bytes);
            assert!(
                stored < again.len() as u64 / share,
                "cap {cap}: {stored} of {}",
                again.len()
            );
        }
    }
}

/// Chunks that exceed only a segment's share of the cap are used at the window's end, if the cap
/// has room then.
#[test]
fn chunks_beyond_a_segments_share_wait_for_the_windows_end() {
    let old = noise(89, 800 << 10);
    let mut again = Vec::new();
    for n in 0..20 {
        for piece in [n, 39 - n] {
            again.extend_from_slice(&old[piece * (20 << 10)..][..14 << 10]);
        }
        again.extend(noise(8900 + n as u64, 70 << 10));
    }
    let uncapped = new_bytes(&old, &again, &how(Cap::None, 0));
    assert_eq!(new_bytes(&old, &again, &how(Cap::Fixed(4), 0)), uncapped);
}

/// The backup refers to a segment that is known whole if the window has room, whether or not the
/// segment's chunks can be found.
#[test]
fn known_segments_are_taken_while_the_window_has_room() {
    let versions = generations(91, 4, 400 << 10);
    let machine = Process::new(91);
    machine.init();
    // Few chunks have a hook.
    let options = OpenOptions::default().index_bytes_max(1 << 10);
    let open = || Store::open(&machine.env, &onefold::Credential::None, &options).unwrap();
    for bytes in &versions {
        back_up_bytes(&open(), "/stream", bytes, &How::plain()).unwrap();
    }
    let made = back_up_bytes(&open(), "/other", &versions[3], &how(Cap::Fixed(9), 0)).unwrap();
    assert_eq!(
        (made.totals.segments_known, made.totals.bytes_new),
        (made.totals.segments, 0)
    );
}

//! Layout `hybrid` on whole stores. A segment is known whole, or stored side by side. Stored data
//! restores, also beside series of layout `inline`, and after a change of layout. Look-ups are one
//! for each segment.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::common::pruning::{everything, forget, prune};
use crate::common::{
    How, Process, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up, back_up_bytes,
    back_up_stream, noise, snapshot, wait_until,
};
use container::Containers;
use crypto::Credential;
use format::manifest::StreamRole;
use format::names;
use format::node::NodeEntry;
use object::config;
use onefold::{
    BackupReport, Cap, Capping, Layout, Monitor, ReaderSource, SessionId, SettingsChange, Store, StreamPiece,
    StreamSource,
};
use proptest::prelude::*;
use recipe::{Child, NodeCache, NodeSource, Place, TreeRoot, child_nodes};
use types::{ContainerId, ContainerKind, Fingerprint, Slot};

const SEGMENT_BYTES: u32 = 64 << 10;
const HYBRID: SettingsChange = SettingsChange::NONE
    .layout(Some(Layout::Hybrid))
    .segment_bytes(Some(SEGMENT_BYTES));
const INLINE: SettingsChange = HYBRID.layout(Some(Layout::Inline)).segment_bytes(None);

fn hybrid_store(machine: &Process) -> Store {
    let store = machine.init();
    store.set_default_series_settings(&HYBRID).unwrap();
    store
}

/// The segments of a stream of a backup, in order, and their nodes.
fn segments(
    process: &Process,
    store: &Store,
    id: SessionId,
    role: StreamRole,
) -> Vec<(Child, Vec<NodeEntry>)> {
    let opened = config::open(&process.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(process.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let nodes = NodeCache::new(containers, 8 << 20);
    let backup = snapshot(store, id).backup;
    let stream = backup.streams.iter().find(|stream| stream.role == role).unwrap();
    let mut found = Vec::new();
    let mut open = vec![TreeRoot::from(stream)];
    while let Some(root) = open.pop() {
        if root.level.get() > 1 {
            open.extend(child_nodes(&nodes, &root).unwrap().into_iter().rev());
            continue;
        }
        let node = nodes.node(root.location).unwrap();
        let child = Child {
            fingerprint: root.fingerprint,
            logical_len: root.len,
            level: root.level,
            place: Place::At(root.location),
            containers_max: node.containers_max,
        };
        found.push((child, node.entries.clone()));
    }
    found
}

/// The data containers of a backup, in the order in which they were written.
fn data_containers(store: &Store, id: SessionId) -> Vec<ContainerId> {
    let spans = snapshot(store, id).backup.containers;
    let all = spans.iter().flat_map(|span| span.ids(id));
    let mut data: Vec<ContainerId> = all.filter(|id| id.kind == ContainerKind::Data).collect();
    data.sort_unstable();
    data
}

/// Whether a segment's chunks are side by side in containers of this backup: in consecutive slots
/// of one, and from the first slot of the next one on.
fn lies_side_by_side(entries: &[NodeEntry], containers: &[ContainerId]) -> bool {
    let mut last: Option<(ContainerId, u32)> = None;
    for entry in entries {
        let NodeEntry::Run {
            container,
            first,
            count,
            ..
        } = *entry
        else {
            continue;
        };
        let place = |id: ContainerId| containers.iter().position(|other| *other == id);
        let Some(here) = place(container) else {
            return false;
        };
        let goes_on = last.is_none_or(|(before, end)| {
            (before == container && end == first.get())
                || (first.get() == 0 && place(before).is_some_and(|place| place + 1 == here))
        });
        if !goes_on {
            return false;
        }
        last = Some((container, first.get() + count));
    }
    true
}

fn bytes_in(entries: &[NodeEntry]) -> u64 {
    let stored = entries
        .iter()
        .filter(|entry| matches!(entry, NodeEntry::Run { .. }));
    stored.map(NodeEntry::logical_len).sum()
}

/// Compares a backup of one stream with a plain model: each segment was in an earlier backup, or is
/// side by side in this one, once. Returns the bytes of the latter.
fn assert_by_segments(
    process: &Process,
    store: &Store,
    id: SessionId,
    role: StreamRole,
    known: &mut BTreeMap<Fingerprint, Child>,
) -> u64 {
    let containers = data_containers(store, id);
    let mut new = 0;
    for (segment, entries) in segments(process, store, id, role) {
        let location = segment.location().unwrap();
        if let Some(before) = known.get(&segment.fingerprint) {
            assert_eq!(
                before.location(),
                Some(location),
                "a known segment is stored again"
            );
            continue;
        }
        assert_eq!(location.container.session, id, "referred to what no backup has");
        assert!(
            lies_side_by_side(&entries, &containers),
            "{entries:?} in {containers:?}"
        );
        new += bytes_in(&entries);
        known.insert(segment.fingerprint, segment);
    }
    new
}

fn assert_few_look_ups(report: &BackupReport) {
    let (asked, segments) = (report.lookups.lookups, report.totals.segments);
    assert!(asked <= segments, "{asked} look-ups for {segments} segments");
}

/// A change of a stream.
#[derive(Debug, Clone)]
enum Edit {
    Insert(u64, usize),
    Remove(usize),
    Zeros(usize),
    /// A copy of another part of it.
    Again(u16, usize),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>, at: u16) {
        let place = |at: u16| usize::from(at) * bytes.len() / 65536;
        let at = place(at);
        match *self {
            Self::Insert(seed, len) => drop(bytes.splice(at..at, noise(seed, len))),
            Self::Remove(len) => drop(bytes.drain(at..(at + len).min(bytes.len()))),
            Self::Zeros(len) => drop(bytes.splice(at..at, vec![0; len])),
            Self::Again(from, len) => {
                let from = place(from);
                let again = bytes[from..(from + len).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, again));
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<u64>(), 1..2000_usize).prop_map(|(seed, len)| Edit::Insert(seed, len)),
        (1..3000_usize).prop_map(Edit::Remove),
        (1..200_000_usize).prop_map(Edit::Zeros),
        (any::<u16>(), 1..300_000_usize).prop_map(|(from, len)| Edit::Again(from, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if crate::common::is_long() { 200 } else { 12 }, ..ProptestConfig::default() })]

    #[test]
    fn a_segment_is_known_whole_or_stored_contiguously(
        seed in 0..1000_u64,
        len in 0..600_000_usize,
        versions in prop::collection::vec(prop::collection::vec((edit(), any::<u16>()), 0..4), 1..4),
    ) {
        let machine = Process::new(500 + seed);
        let store = hybrid_store(&machine);
        let mut bytes = noise(seed, len);
        let mut known = BTreeMap::new();
        let mut made = Vec::new();
        for edits in versions {
            let report = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
            let new = assert_by_segments(&machine, &store, report.id, StreamRole::Whole, &mut known);
            prop_assert_eq!(report.totals.bytes_new, new);
            prop_assert_eq!(report.settings.layout, Layout::Hybrid);
            assert_few_look_ups(&report);
            made.push((report.id, bytes.clone()));
            edits.iter().for_each(|(edit, at)| edit.apply(&mut bytes, *at));
        }
        for (id, bytes) in &made {
            assert_restores_bytes(&store, &snapshot(&store, *id), "/stream", bytes, "hybrid");
        }
        assert_sound(&store, "hybrid");
    }
}

/// The backup refers to unchanged segments without reading them. Of a changed segment it stores all
/// chunks, including those that it copied by reference from the previous backup.
#[test]
fn a_small_change_of_a_large_tree_stores_a_few_whole_segments() {
    let machine = Process::new(520);
    let store = hybrid_store(&machine);
    let tree = Tree::plant(520, 2 << 20);
    let mut known = BTreeMap::new();
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    assert_by_segments(&machine, &store, first.id, StreamRole::Content, &mut known);
    std::fs::write(tree.root().join("b/small-3"), noise(521, 3000)).unwrap();
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!((second.parent, second.totals.files_changed), (Some(first.id), 1));
    let new = assert_by_segments(&machine, &store, second.id, StreamRole::Content, &mut known);
    // Some chunks of the segments at both ends of the file did not change.
    assert!(new > 10_000 && new <= 4 * u64::from(SEGMENT_BYTES), "{new} bytes");
    assert!(second.totals.chunks_new > 10, "{:?}", second.totals);
    assert!(second.totals.bytes_read < 10_000, "{:?}", second.totals);
    assert_few_look_ups(&second);
    let picture = tree.picture();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &picture,
        "changed",
    );
    tree.change(1);
    let third = back_up(&store, &tree, &How::plain()).unwrap();
    assert_by_segments(&machine, &store, third.id, StreamRole::Content, &mut known);
    let picture = tree.picture();
    assert_restores(
        &store,
        &snapshot(&store, third.id),
        &tree.root(),
        &picture,
        "again",
    );
    assert_sound(&store, "a changed tree");
}

/// A backup has to store a chunk of the backup before again, and finds it rotten. The program makes
/// the backup once more, and that one reads the file. It lists the damage, and the next backup
/// reads the file.
#[test]
fn a_backup_finds_rotten_chunks_that_it_would_store_again() {
    let machine = Process::new(530);
    let store = hybrid_store(&machine);
    let tree = Tree::plant(530, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    let content = segments(&machine, &store, first.id, StreamRole::Content);
    let of_content = content
        .iter()
        .flat_map(|(_, entries)| entries)
        .filter_map(|entry| match entry {
            NodeEntry::Run { container, .. } => Some(*container),
            _ => None,
        });
    for id in of_content.collect::<BTreeSet<_>>() {
        let name = names::container(id, types::Generation::FIRST);
        // In every region, and not after them.
        let rot = |bytes: &mut Vec<u8>| {
            (100..bytes.len() - 4000)
                .step_by(4000)
                .for_each(|at| bytes[at] ^= 1)
        };
        assert!(machine.storage.damage(&name, rot));
    }
    std::fs::write(tree.root().join("b/small-3"), noise(531, 3000)).unwrap();
    let store = machine.open();
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!(second.parent, Some(first.id));
    let is_met = !second.healed.is_empty() || !machine.names("damaged").is_empty();
    assert!(is_met, "nothing was met that had rotted");
}

#[test]
fn a_repeated_segment_is_stored_once() {
    let machine = Process::new(540);
    let store = hybrid_store(&machine);
    let part = noise(540, 500 << 10);
    let bytes = [&part[..], &part[..], &part[..]].concat();
    let report = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
    let new = assert_by_segments(
        &machine,
        &store,
        report.id,
        StreamRole::Whole,
        &mut BTreeMap::new(),
    );
    assert_eq!(report.totals.bytes_new, new);
    let (part, most) = (
        part.len() as u64,
        part.len() as u64 + 8 * u64::from(SEGMENT_BYTES),
    );
    assert!((part..most).contains(&new), "{new} bytes");
    assert!(report.totals.segments_known > 0, "{:?}", report.totals);
    assert_restores_bytes(
        &store,
        &snapshot(&store, report.id),
        "/stream",
        &bytes,
        "repeated",
    );
}

/// Blocks of zeros are not stored. Segments have the set length, whatever the length of blocks
/// (R8).
#[test]
fn a_disk_image_with_empty_blocks() {
    let machine = Process::new(550);
    let store = hybrid_store(&machine);
    let block = 4 << 10;
    let mut image = vec![0; 2 << 20];
    for n in (0..256).filter(|n| n % 7 != 0 && n / 40 != 2) {
        image[n * block..(n + 1) * block].copy_from_slice(&noise(550 + n as u64, block));
    }
    let back_up_image = |image: &[u8]| {
        let mut source = ReaderSource(image);
        let (options, blocks) = (How::plain().options(), onefold::StreamOptions::fixed(4 << 10));
        store
            .backup_stream(
                &options,
                Path::new("/image"),
                &blocks,
                &mut source,
                &Monitor::default(),
            )
            .unwrap()
    };
    let mut known = BTreeMap::new();
    let first = back_up_image(&image);
    let new = assert_by_segments(&machine, &store, first.id, StreamRole::Whole, &mut known);
    let of_data = image
        .chunks(block)
        .filter(|block| block.iter().any(|byte| *byte != 0));
    assert_eq!(new, (of_data.count() * block) as u64);
    let averages = first.totals.bytes_logical / first.totals.segments;
    assert!(
        (SEGMENT_BYTES.into()..16 * u64::from(SEGMENT_BYTES)).contains(&averages),
        "{averages}"
    );
    image[50 * block..51 * block].fill(9);
    let second = back_up_image(&image);
    let new = assert_by_segments(&machine, &store, second.id, StreamRole::Whole, &mut known);
    assert!(new >= block as u64 && new < 8 * u64::from(SEGMENT_BYTES), "{new}");
    assert_few_look_ups(&second);
    assert_restores_bytes(&store, &snapshot(&store, second.id), "/image", &image, "an image");
    assert_sound(&store, "an image");
}

/// Counts of look-ups (RevDedup's table III): one for each segment, compared with one for each
/// chunk.
#[test]
fn a_segment_costs_a_look_up_and_a_chunk_none() {
    let bytes = noise(560, 3 << 20);
    let asked = |layout| {
        let machine = Process::new(560);
        let store = machine.init();
        if layout == Layout::Hybrid {
            store.set_default_series_settings(&HYBRID).unwrap();
        }
        let report = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        assert_eq!(report.totals.chunks_new, report.totals.chunks);
        (report.lookups.lookups, report.lookups.index_reads)
    };
    let (hybrid, inline) = (asked(Layout::Hybrid), asked(Layout::Inline));
    assert!(inline.0 > 40 * hybrid.0, "{inline:?} against {hybrid:?}");
    assert!(inline.1 > 40 * hybrid.1, "{inline:?} against {hybrid:?}");
}

/// Gives its bytes, and fails once there is a checkpoint.
struct Breaking<'a> {
    bytes: &'a [u8],
    zeros: usize,
    process: &'a Process,
}

impl StreamSource for Breaking<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if !self.bytes.is_empty() {
            let len = self.bytes.len().min(buffer.len());
            let (now, rest) = self.bytes.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.bytes = rest;
            return Ok(StreamPiece::Data(len));
        }
        // So many steps make the pipeline process what it has.
        if self.zeros > 0 {
            self.zeros -= 1;
            return Ok(StreamPiece::Zeros(1));
        }
        wait_until("a checkpoint", || {
            let objects = self.process.names("sessions");
            objects.iter().any(|name| name.contains("checkpoint"))
        });
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Chunks that were put before a backup failed are not put again, although none of its nodes
/// exists. Their segments are found where they are, also across the ends of containers.
#[test]
fn an_interrupted_backup_continues_at_its_position() {
    let machine = Process::new(570);
    let store = hybrid_store(&machine);
    let (begin, end) = (noise(570, 800 << 10), noise(571, 90 << 10));
    let bytes = [&begin[..], &vec![0; 4200], &end].concat();
    let how = How::plain();
    let mut source = Breaking {
        bytes: &begin,
        zeros: 4200,
        process: &machine,
    };
    back_up_stream(&store, "/stream", &mut source, &how).unwrap_err();
    let report = back_up_bytes(&store, "/stream", &bytes, &how).unwrap();
    assert_eq!(report.adopted.len(), 1);
    // The last containers, and the segments of which these had a part.
    let again = report.totals.bytes_new - end.len() as u64;
    assert!(again < 300 << 10, "{again} bytes again: {:?}", report.totals);
    let adopted = report.adopted[0];
    let mut whole = 0;
    for (_, entries) in segments(&machine, &store, report.id, StreamRole::Whole) {
        let mut sessions = BTreeSet::new();
        let mut next: Option<(ContainerId, Slot)> = None;
        for entry in &entries {
            if let NodeEntry::Run {
                container,
                first,
                count,
                ..
            } = *entry
            {
                sessions.insert(container.session);
                let is_next = next.is_none_or(|next| next == (container, first) || first.get() == 0);
                assert!(is_next, "scattered: {entries:?}");
                next = first.checked_add(count).map(|slot| (container, slot));
            }
        }
        assert!(sessions.len() <= 1, "of two sessions: {entries:?}");
        whole += usize::from(sessions.contains(&adopted));
    }
    assert!(whole >= 6, "{whole} segments taken over");
    assert_restores_bytes(&store, &snapshot(&store, report.id), "/stream", &bytes, "went on");
    assert_sound(&store, "went on");
}

/// Series of both layouts in one store: each may refer to the other's data, and keeps what it
/// needs.
#[test]
fn series_of_both_layouts_share_a_store() {
    let machine = Process::new(580);
    let store = machine.init();
    let name = |path: &str| onefold::SeriesName {
        host: b"host".to_vec(),
        paths: vec![path.as_bytes().to_vec()],
    };
    store.set_series_settings(&name("/hybrid"), &HYBRID).unwrap();
    let base = noise(580, 600 << 10);
    let mut kept = Vec::new();
    let mut made = Vec::new();
    for step in 0..4_u64 {
        let mut bytes = base.clone();
        for change in 0..3 + step {
            let at = usize::try_from(change * 99_991 % 600_000).unwrap();
            bytes.splice(at..at + 50, noise(step << 8 | change, 500));
        }
        for (series, layout) in [("/inline", Layout::Inline), ("/hybrid", Layout::Hybrid)] {
            let report = back_up_bytes(&store, series, &bytes, &How::plain()).unwrap();
            assert_eq!(report.settings.layout, layout);
            made.push((report.id, series, bytes.clone()));
        }
        // Hybrid has stored the bytes in its own order, and inline finds each chunk there.
        let inline = back_up_bytes(&store, "/other", &bytes, &How::plain()).unwrap();
        assert_eq!(inline.totals.chunks_new, 0, "{:?}", inline.totals);
        made.push((inline.id, "/other", bytes));
    }
    for (n, backup) in made.into_iter().enumerate() {
        if n % 3 == 1 {
            forget(&store, backup.0)
        } else {
            kept.push(backup)
        }
    }
    machine
        .clock
        .advance(std::time::Duration::from_secs(60 * 60 * 24 * 40));
    prune(&store, &everything(), "after some were forgotten");
    let store = machine.open();
    for (id, series, bytes) in &kept {
        assert_restores_bytes(&store, &snapshot(&store, *id), series, bytes, "both layouts");
    }
    assert_sound(&store, "both layouts");
    let (settings, _) = store.series_settings(&name("/hybrid")).unwrap();
    assert_eq!(settings.layout, Layout::Hybrid, "pruning keeps what is set");
}

/// A series that becomes hybrid, with other segments, and inline again. Unchanged files of its tree
/// are copied by reference.
#[test]
fn a_series_may_change_its_layout() {
    let machine = Process::new(590);
    let store = machine.init();
    let tree = Tree::plant(590, 800 << 10);
    let mut made = Vec::new();
    let mut back_up_now = |how: &How| {
        let report = back_up(&store, &tree, how).unwrap();
        made.push((report.id, tree.picture()));
        report
    };
    let other = HYBRID.segment_bytes(Some(2 * SEGMENT_BYTES));
    back_up_now(&How::plain());
    for (step, change) in [HYBRID, other, INLINE, HYBRID].iter().enumerate() {
        store.set_default_series_settings(change).unwrap();
        tree.change(step as u64 * 3 + 1);
        let report = back_up_now(&How::plain());
        assert_eq!(Some(report.settings.layout), change.layout);
    }
    for (id, picture) in &made {
        assert_restores(
            &store,
            &snapshot(&store, *id),
            &tree.root(),
            picture,
            "changed layouts",
        );
    }
    assert_sound(&store, "changed layouts");
}

#[test]
fn a_cap_without_effect_is_refused() {
    let machine = Process::new(595);
    let store = hybrid_store(&machine);
    let mut how = How::plain();
    how.ingest.capping = Some(Capping::of(Cap::Fixed(3)));
    let error = back_up_bytes(&store, "/stream", b"bytes", &how)
        .unwrap_err()
        .to_string();
    assert!(error.contains("hybrid") && error.contains("--cap"), "{error}");
    assert!(machine.names("sessions").is_empty(), "nothing was begun");
    // For hybrid, both a missing cap and the cap `none` are allowed.
    back_up_bytes(&store, "/stream", b"bytes", &How::capped()).unwrap();
    back_up_bytes(&store, "/stream", b"bytes", &How::plain()).unwrap();
}

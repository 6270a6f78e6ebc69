//! Arbitrary values of every type that follow its rules.

use std::num::NonZeroU16;

use format::config::{Config, FORMAT_VERSION, Features, KeyDerivation, KeySlot, Settings};
use format::container::{
    Catalog, CatalogCopy, CatalogCopyEntry, CatalogEntry, Codec, ContainerFooter, ContainerHeader,
    HEADER_BYTES, RegionRow,
};
use format::listing::{
    Branch, Content, EntryKind, EntryState, FENCE_LEVEL_MAX, Fence, FencePage, ListingEntry,
};
use format::manifest::{
    Backup, BackupTotals, ContainerSpan, Manifest, Origin, SeriesName, StreamRole, StreamRoot,
};
use format::node::{Node, NodeEntry};
use format::reclaim::{
    Condemned, ContainerRun, ContainerSlots, CoveredManifest, Damaged, GroupId, LeftSlots, Marks, Removed,
};
use format::series::{ArchivalWindow, Layout, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SeriesSettings};
use format::session::{Checkpoint, Claim, Heartbeat, Lease, OpenStream, SpineNode};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Epoch, FileTime, Fingerprint, Generation, Level, Revision,
    SequenceNumber, SeriesId, SessionId, Slot, SlotRange, StoreId, UnixNanos,
};

/// Numbers of every magnitude, the largest included.
pub(crate) fn number(max: u64) -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(move |(n, shift)| (n >> shift).min(max))
}

pub(crate) fn number32(max: u32) -> impl Strategy<Value = u32> {
    number(max.into()).prop_map(|n| n as u32)
}

pub(crate) fn session() -> impl Strategy<Value = SessionId> {
    number(SessionId::MAX.get()).prop_map(|n| SessionId::new(n).unwrap())
}

fn sequence() -> impl Strategy<Value = SequenceNumber> {
    number32(SequenceNumber::MAX.get()).prop_map(|n| SequenceNumber::new(n).unwrap())
}

fn kind() -> impl Strategy<Value = ContainerKind> {
    prop::sample::select(ContainerKind::ALL.to_vec())
}

pub(crate) fn container_id() -> impl Strategy<Value = ContainerId> {
    (session(), kind(), sequence()).prop_map(|(session, kind, sequence)| ContainerId {
        session,
        kind,
        sequence,
    })
}

fn container_of(kinds: &'static [ContainerKind]) -> impl Strategy<Value = ContainerId> {
    (container_id(), prop::sample::select(kinds)).prop_map(|(id, kind)| ContainerId { kind, ..id })
}

pub(crate) fn generation() -> impl Strategy<Value = Generation> {
    number32(Generation::MAX.get()).prop_map(|n| Generation::new(n).unwrap())
}

pub(crate) fn revision() -> impl Strategy<Value = Revision> {
    number32(Revision::MAX.get()).prop_map(|n| Revision::new(n).unwrap())
}

pub(crate) fn epoch() -> impl Strategy<Value = Epoch> {
    number(Epoch::MAX.get()).prop_map(|n| Epoch::new(n).unwrap())
}

pub(crate) fn series() -> impl Strategy<Value = SeriesId> {
    any::<[u8; 16]>().prop_map(SeriesId::from_bytes)
}

fn store() -> impl Strategy<Value = StoreId> {
    any::<[u8; 16]>().prop_map(StoreId::from_bytes)
}

fn slot() -> impl Strategy<Value = Slot> {
    number32(Slot::MAX.get()).prop_map(|n| Slot::new(n).unwrap())
}

fn slot_range() -> impl Strategy<Value = SlotRange> {
    (slot(), number32(Slot::MAX.get()))
        .prop_map(|(first, n)| SlotRange::new(first, (n + 1).min(Slot::MAX.get() + 1 - first.get())).unwrap())
}

fn level(min: u8) -> impl Strategy<Value = Level> {
    (min..=Level::MAX.get()).prop_map(|n| Level::new(n).unwrap())
}

pub(crate) fn fingerprint() -> impl Strategy<Value = Fingerprint> {
    any::<[u8; 32]>().prop_map(Fingerprint::from_bytes)
}

fn nanos() -> impl Strategy<Value = UnixNanos> {
    any::<i64>().prop_map(UnixNanos::new)
}

fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

pub(crate) fn header() -> impl Strategy<Value = ContainerHeader> {
    (store(), container_id(), generation(), any::<[u8; 32]>()).prop_map(|(store, id, generation, salt)| {
        ContainerHeader {
            store,
            id,
            generation,
            salt,
        }
    })
}

/// Rows, and the footer that fits them and a catalog of the given stored length.
pub(crate) fn trailer() -> impl Strategy<Value = (Vec<RegionRow>, ContainerFooter)> {
    let row = (17..2000u32, 1..50u32, any::<bool>(), any::<u128>());
    (vec(row, 0..12), 17..300u32, any::<u128>()).prop_map(|(parts, catalog_stored_len, catalog_digest)| {
        let (mut offset, mut first_entry) = (HEADER_BYTES as u64, 0);
        let mut rows = Vec::new();
        for (stored_len, entry_count, raw, digest) in parts {
            let codec = if raw { Codec::Raw } else { Codec::Zstd };
            rows.push(RegionRow {
                offset,
                stored_len,
                first_entry,
                entry_count,
                codec,
                digest,
            });
            offset += u64::from(stored_len);
            first_entry += entry_count;
        }
        let footer = ContainerFooter {
            region_count: rows.len() as u32,
            entry_count: first_entry,
            catalog_offset: offset,
            catalog_stored_len,
            catalog_digest,
            rows_offset: offset + u64::from(catalog_stored_len),
            is_trimmed: false,
        };
        (rows, footer)
    })
}

/// Distinct slots in runs and jumps.
fn distinct_slots() -> impl Strategy<Value = Vec<Slot>> {
    vec((slot(), 1..20u32), 0..12).prop_map(|runs| {
        let mut seen = std::collections::HashSet::new();
        let all = runs
            .iter()
            .flat_map(|&(first, count)| (0..count).filter_map(move |n| first.checked_add(n)));
        all.filter(|slot| seen.insert(*slot)).collect()
    })
}

pub(crate) fn catalog() -> impl Strategy<Value = Catalog> {
    let columns = vec((fingerprint(), 1..=17u32 << 20, level(0), any::<u64>()), 300);
    (distinct_slots(), columns, any::<bool>()).prop_map(|(slots, columns, has_nodes)| {
        let entry =
            |(slot, (fingerprint, len, level, logical_len)): (Slot, (Fingerprint, u32, Level, u64))| {
                let level = if has_nodes { level } else { Level::new(0).unwrap() };
                let logical_len = if level.get() == 0 { len.into() } else { logical_len };
                CatalogEntry {
                    slot,
                    fingerprint,
                    len,
                    level,
                    logical_len,
                }
            };
        let entries = slots.into_iter().zip(columns).map(entry).collect();
        Catalog { entries }
    })
}

pub(crate) fn catalog_copy() -> impl Strategy<Value = CatalogCopy> {
    let container = container_of(&[ContainerKind::Data, ContainerKind::Archive, ContainerKind::Small]);
    let columns = vec((any::<[u8; 16]>(), 1..=17u32 << 20), 300);
    (container, generation(), distinct_slots(), columns).prop_map(
        |(container, generation, slots, columns)| {
            let entry = |(slot, (fingerprint_prefix, len))| CatalogCopyEntry {
                slot,
                fingerprint_prefix,
                len,
            };
            CatalogCopy {
                container,
                generation,
                entries: slots.into_iter().zip(columns).map(entry).collect(),
            }
        },
    )
}

fn run(kinds: &'static [ContainerKind]) -> impl Strategy<Value = NodeEntry> {
    // Few containers and small slots, so that adjacent runs of one container are frequent.
    let container = (container_of(kinds), 0..3u64).prop_map(|(id, few)| {
        if few > 0 {
            ContainerId {
                session: SessionId::new(few).unwrap(),
                ..id
            }
        } else {
            id
        }
    });
    let slots = prop_oneof![(0..8u32, 1..8u32), (0..=Slot::MAX.get() - 2000, 1..2000u32)];
    (container, slots, number(1 << 40)).prop_map(|(container, (first, count), more)| NodeEntry::Run {
        container,
        first: Slot::new(first).unwrap(),
        count,
        logical_len: u64::from(count) + more,
    })
}

fn forward() -> impl Strategy<Value = NodeEntry> {
    (
        series(),
        session(),
        any::<u16>(),
        number(1 << 50),
        number(1 << 40),
    )
        .prop_map(|(series, backup, stream, offset, more)| NodeEntry::Forward {
            series,
            backup,
            stream,
            offset,
            len: more + 1,
        })
}

pub(crate) fn node() -> impl Strategy<Value = Node> {
    let chunks = run(&[ContainerKind::Data, ContainerKind::Archive, ContainerKind::Small]);
    let nodes = run(&[ContainerKind::Recipe, ContainerKind::Small]);
    let zeros = number(1 << 40).prop_map(|more| NodeEntry::Zeros { len: more + 1 });
    let segment =
        vec(prop_oneof![6 => chunks, 2 => zeros, 1 => forward()], 0..20).prop_map(|entries| (1, entries));
    let upper = (2..=8u8, vec(prop_oneof![8 => nodes, 1 => forward()], 1..20));
    (prop_oneof![segment, upper], any::<u32>()).prop_map(|((level, raw), containers_max)| {
        let mut entries: Vec<NodeEntry> = Vec::new();
        for entry in raw {
            if !entries.last().is_some_and(|last| is_continued_by(last, &entry)) {
                entries.push(entry);
            }
        }
        let logical_len = entries.iter().map(NodeEntry::logical_len).sum();
        Node {
            level: Level::new(level).unwrap(),
            logical_len,
            containers_max,
            entries,
        }
    })
}

fn is_continued_by(a: &NodeEntry, b: &NodeEntry) -> bool {
    match (a, b) {
        (NodeEntry::Zeros { .. }, NodeEntry::Zeros { .. }) => true,
        (
            NodeEntry::Run {
                container: a,
                first,
                count,
                ..
            },
            NodeEntry::Run {
                container: b,
                first: next,
                ..
            },
        ) => a == b && first.get() + count == next.get(),
        (
            NodeEntry::Forward {
                series,
                backup,
                stream,
                offset,
                len,
            },
            NodeEntry::Forward {
                series: s,
                backup: b,
                stream: st,
                offset: o,
                ..
            },
        ) => series == s && backup == b && stream == st && offset + len == *o,
        _ => false,
    }
}

fn key_slot() -> impl Strategy<Value = KeySlot> {
    let argon =
        (any::<[u8; 32]>(), 1..=64u32, 1..=64u32, 0..1_000_000u32).prop_map(|(salt, lanes, passes, more)| {
            KeyDerivation::Argon2id {
                salt,
                memory_kib: 8 * lanes + more,
                passes,
                lanes,
            }
        });
    let none = any::<[u8; 32]>().prop_map(|salt| KeyDerivation::None { salt });
    (
        any::<[u8; 8]>(),
        prop_oneof![argon, none],
        vec(any::<u8>(), 80),
        ".{0,20}",
    )
        .prop_map(|(id, kdf, wrapped, label)| KeySlot {
            id,
            kdf,
            wrapped,
            label,
        })
}

pub(crate) fn config() -> impl Strategy<Value = Config> {
    let slots = vec(key_slot(), 1..5).prop_filter("ids are distinct", |slots| {
        slots
            .iter()
            .map(|s| s.id)
            .collect::<std::collections::HashSet<_>>()
            .len()
            == slots.len()
    });
    (
        any::<u64>(),
        store(),
        slots,
        vec(any::<u8>(), 17..100),
        any::<[u8; 32]>(),
    )
        .prop_map(
            |(required_to_write, store, key_slots, sealed_settings, settings_salt)| {
                let features = Features {
                    required_to_read: 0,
                    required_to_write,
                };
                Config {
                    version: FORMAT_VERSION,
                    features,
                    store,
                    key_slots,
                    sealed_settings,
                    settings_salt,
                }
            },
        )
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let chunk = (4..=20u32).prop_flat_map(|log| (1..=1u32 << log, Just(1u32 << log), 1u32 << log..=16 << 20));
    (chunk, 1..=15u32, 1..=1u32 << 20, 1..=1u32 << 30).prop_map(
        |((min, avg, max), log, region, container)| Settings {
            chunk_avg_bytes: avg,
            chunk_min_bytes: min,
            chunk_max_bytes: max,
            node_avg_children: 1 << log,
            region_bytes: region,
            container_bytes: container,
        },
    )
}

pub(crate) fn series_name() -> impl Strategy<Value = SeriesName> {
    let paths = btree_set(blob(), 0..4).prop_map(|set| set.into_iter().collect());
    (blob(), paths).prop_map(|(host, paths)| SeriesName { host, paths })
}

fn span() -> impl Strategy<Value = ContainerSpan> {
    (kind(), sequence(), number32(1 << 24)).prop_map(|(kind, first, more)| ContainerSpan {
        kind,
        first,
        count: (more + 1).min(SequenceNumber::MAX.get() + 1 - first.get()),
    })
}

fn adopted() -> impl Strategy<Value = Vec<(SessionId, Option<u32>)>> {
    vec((session(), option::of(any::<u32>())), 0..4)
}

fn root() -> impl Strategy<Value = StreamRoot> {
    let container = container_of(&[ContainerKind::Recipe, ContainerKind::Small]);
    let role = prop::sample::select(StreamRole::ALL.to_vec());
    (role, container, slot(), level(1), fingerprint(), number(u64::MAX)).prop_map(
        |(role, container, slot, level, fingerprint, len)| {
            let location = ChunkLocation { container, slot };
            StreamRoot {
                role,
                location,
                level,
                fingerprint,
                len,
            }
        },
    )
}

fn totals() -> impl Strategy<Value = BackupTotals> {
    vec(number(u64::MAX), 15).prop_map(|n| BackupTotals {
        files: n[0],
        folders: n[1],
        others: n[2],
        files_new: n[3],
        files_changed: n[4],
        files_unchanged: n[5],
        files_failed: n[6],
        bytes_logical: n[7],
        bytes_read: n[8],
        bytes_new: n[9],
        bytes_stored: n[10],
        chunks: n[11],
        chunks_new: n[12],
        segments: n[13],
        segments_known: n[14],
    })
}

fn origin() -> impl Strategy<Value = Option<Origin>> {
    let store = any::<[u8; 16]>().prop_map(StoreId::from_bytes);
    option::of((store, session()).prop_map(|(store, backup)| Origin { store, backup }))
}

fn backup() -> impl Strategy<Value = Backup> {
    let who = (series_name(), nanos(), number(u64::MAX), blob(), ".{0,20}");
    let tags = btree_set(".{0,10}", 0..4).prop_map(|set| set.into_iter().collect());
    let what = (tags, option::of(nanos()), vec(root(), 0..4), vec(span(), 0..5));
    let parents = vec((session(), revision()), 0..3);
    let links = (
        adopted(),
        parents,
        (origin(), option::of(session()), option::of(number(u64::MAX))),
        totals(),
    );
    (who, what, links).prop_map(
        |(
            (series, source_time, elapsed_nanos, user, program),
            (tags, hold_until, streams, containers),
            (adopted, parents, (origin, next, rewritten), totals),
        )| Backup {
            series,
            source_time,
            elapsed_nanos,
            user,
            program,
            tags,
            hold_until,
            streams,
            containers,
            adopted,
            parents,
            origin,
            next,
            rewritten: rewritten.filter(|_| next.is_none()),
            totals,
        },
    )
}

pub(crate) fn manifest() -> impl Strategy<Value = Manifest> {
    prop_oneof![
        4 => backup().prop_map(Manifest::Commit),
        2 => backup().prop_map(Manifest::Revised),
        1 => session().prop_map(|by| Manifest::Expired { by }),
        1 => (session(), option::of(any::<u32>())).prop_map(|(by, checkpoint)| Manifest::Adopted { by, checkpoint }),
        1 => Just(Manifest::Forgotten),
    ]
}

pub(crate) fn claim() -> impl Strategy<Value = Claim> {
    (series(), series_name(), any::<u32>(), any::<bool>()).prop_map(|(series, name, process, has_lock)| {
        Claim {
            series,
            name,
            process,
            has_lock,
        }
    })
}

pub(crate) fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    (number(u64::MAX), option::of(epoch()), option::of(any::<u32>())).prop_map(
        |(counter, answered, checkpoint)| Heartbeat {
            counter,
            answered,
            checkpoint,
        },
    )
}

fn open_stream() -> impl Strategy<Value = OpenStream> {
    let node = (
        level(1),
        fingerprint(),
        1..1_u64 << 40,
        container_id(),
        slot(),
        any::<u32>(),
    );
    let node = node.prop_map(
        |(level, fingerprint, len, container, slot, containers_max)| SpineNode {
            level,
            fingerprint,
            len,
            location: ChunkLocation { container, slot },
            containers_max,
        },
    );
    vec(node, 0..5).prop_map(|mut spine| {
        spine.sort_by_key(|node| node.level);
        OpenStream {
            fixed_chunk_bytes: if spine.len() % 2 == 0 { 0 } else { 4096 },
            len: spine.iter().map(|node| node.len).sum(),
            spine,
        }
    })
}

pub(crate) fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let references = vec((container_id(), slot_range()), 0..10);
    let parents = vec((series(), session(), revision()), 0..3);
    (
        any::<u32>(),
        option::of(epoch()),
        vec(span(), 0..5),
        references,
        parents,
        adopted(),
        vec(open_stream(), 0..3),
    )
        .prop_map(
            |(number, answered, containers, references, parents, adopted, streams)| Checkpoint {
                number,
                answered,
                containers,
                references,
                parents,
                adopted,
                streams,
            },
        )
}

pub(crate) fn series_settings() -> impl Strategy<Value = SeriesSettings> {
    let layout = prop::sample::select(Layout::ALL.to_vec());
    let segment = SEGMENT_BYTES_MIN.ilog2()..=SEGMENT_BYTES_MAX.ilog2();
    let live_window = 1..=u16::MAX;
    let archival_window = prop_oneof![
        Just(ArchivalWindow::All),
        any::<NonZeroU16>().prop_map(ArchivalWindow::Newest),
    ];
    (
        option::of(series_name()),
        layout,
        (live_window, archival_window),
        segment,
        any::<bool>(),
        any::<u16>(),
    )
        .prop_map(
            |(
                name,
                layout,
                (live_window, archival_window),
                segment,
                optimize_after_backup,
                repair_percent,
            )| SeriesSettings {
                name,
                layout,
                live_window,
                archival_window,
                segment_bytes: 1 << segment,
                optimize_after_backup,
                repair_percent,
            },
        )
}

pub(crate) fn lease() -> impl Strategy<Value = Lease> {
    (session(), any::<bool>()).prop_map(|(holder, released)| Lease { holder, released })
}

fn ranges() -> impl Strategy<Value = Option<Vec<SlotRange>>> {
    option::of(vec((1..5000u32, 1..5000u32), 1..20).prop_map(|parts| {
        let mut end = 0;
        let range = |(gap, count)| {
            // The first one may begin at 0.
            let first = if end == 0 { gap - 1 } else { end + gap };
            let range = SlotRange::new(Slot::new(first).unwrap(), count).unwrap();
            end = range.end();
            range
        };
        parts.into_iter().map(range).collect()
    }))
}

fn slot_lists() -> impl Strategy<Value = Vec<ContainerSlots>> {
    btree_map(container_id(), ranges(), 0..8).prop_map(|map| {
        map.into_iter()
            .map(|(container, slots)| ContainerSlots { container, slots })
            .collect()
    })
}

fn group() -> impl Strategy<Value = GroupId> {
    (series(), session()).prop_map(|(series, first)| GroupId { series, first })
}

fn mark_revisions() -> impl Strategy<Value = Vec<(GroupId, Revision)>> {
    vec((group(), revision()), 0..4)
}

pub(crate) fn condemned() -> impl Strategy<Value = Condemned> {
    (epoch(), mark_revisions(), slot_lists()).prop_map(|(epoch, marks, slots)| Condemned {
        epoch,
        marks,
        slots,
    })
}

pub(crate) fn removed() -> impl Strategy<Value = Removed> {
    let gone = vec(container_id(), 0..8).prop_map(ContainerRun::collect);
    let left = |(slots, dead_bytes, live_bytes)| LeftSlots {
        slots,
        dead_bytes,
        live_bytes,
    };
    let lefts = (slot_lists(), any::<u64>(), any::<u64>()).prop_map(move |(lists, dead, live)| {
        lists.into_iter().map(|slots| left((slots, dead, live))).collect()
    });
    let lists = (slot_lists(), lefts);
    (epoch(), mark_revisions(), lists, gone, any::<u64>()).prop_map(
        |(epoch, marks, (slots, left), gone, stored_bytes)| Removed {
            epoch,
            slots,
            marks,
            left,
            gone,
            stored_bytes,
        },
    )
}

pub(crate) fn marks() -> impl Strategy<Value = Marks> {
    let standing = (any::<bool>(), any::<bool>(), option::of(session()), any::<bool>());
    let covered = (session(), revision(), any::<u128>(), standing).prop_map(
        |(session, revision, digest, (forgotten, kept, next, rewritten))| CoveredManifest {
            session,
            revision,
            digest,
            forgotten,
            kept: forgotten && kept,
            next: next.filter(|_| !forgotten || kept),
            rewritten: rewritten && next.is_none() && (!forgotten || kept),
        },
    );
    (group(), option::of(epoch()), vec(covered, 0..5), slot_lists()).prop_map(
        |(group, epoch, covers, live)| Marks {
            group,
            epoch,
            covers,
            live: live.into_iter().collect(),
        },
    )
}

pub(crate) fn damaged() -> impl Strategy<Value = Damaged> {
    (container_id(), ranges()).prop_map(|(container, slots)| Damaged {
        slots: ContainerSlots { container, slots },
    })
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let part = vec(1..=255u8, 1..12).prop_map(|mut part| {
        part.retain(|&b| b != b'/');
        if part.is_empty() || part == b"." || part == b".." {
            b"x".to_vec()
        } else {
            part
        }
    });
    vec(part, 0..5).prop_map(|parts| [b"/".as_slice(), &parts.join(&b'/')].concat())
}

fn entry_kind() -> impl Strategy<Value = EntryKind> {
    let holes = vec((1..1u64 << 40, 1..1u64 << 40), 0..6);
    let file = (holes, number(1 << 50)).prop_map(|(parts, more)| {
        let mut end = 0;
        let hole = |(gap, len)| {
            let offset = if end == 0 { gap - 1 } else { end + gap };
            end = offset + len;
            (offset, len)
        };
        let holes = parts.into_iter().map(hole).collect();
        EntryKind::File {
            len: end + more,
            holes,
        }
    });
    let target = vec(1..=255u8, 0..30);
    prop_oneof![
        file,
        path().prop_map(|target| EntryKind::HardLink { target }),
        Just(EntryKind::Folder),
        target.prop_map(|target| EntryKind::Symlink { target }),
        any::<u64>().prop_map(|device| EntryKind::CharDevice { device }),
        any::<u64>().prop_map(|device| EntryKind::BlockDevice { device }),
        Just(EntryKind::Fifo),
        Just(EntryKind::Socket),
    ]
}

pub(crate) fn entry() -> impl Strategy<Value = ListingEntry> {
    let owner = (0..=0o7777u32, any::<u32>(), any::<u32>(), blob(), blob());
    let xattrs = btree_map(vec(1..=255u8, 1..20), blob(), 0..4).prop_map(|map| map.into_iter().collect());
    let times = (file_time(), file_time(), number(u64::MAX), number(u64::MAX));
    let (flags, state) = (any::<u32>(), (0..4u8, number(u64::MAX), any::<bool>()));
    (path(), entry_kind(), owner, times, (xattrs, flags, state)).prop_map(
        |(
            path,
            kind,
            (mode, uid, gid, user, group),
            (mtime, ctime, device, inode),
            (xattrs, flags, state),
        )| {
            ListingEntry {
                state: entry_state(&kind, state),
                path,
                kind,
                mode,
                uid,
                gid,
                user,
                group,
                mtime,
                ctime,
                device,
                inode,
                xattrs,
                flags,
            }
        },
    )
}

fn file_time() -> impl Strategy<Value = FileTime> {
    (any::<i64>(), 0..64u32, 0..1_000_000_000u32)
        .prop_map(|(seconds, shift, nanos)| FileTime::new(seconds >> shift, nanos))
}

/// A possible state of such an entry.
fn entry_state(kind: &EntryKind, (content, n, lacks_attributes): (u8, u64, bool)) -> EntryState {
    let is_file = matches!(kind, EntryKind::File { .. });
    let is_of_file = is_file || matches!(kind, EntryKind::HardLink { .. });
    let content = match content {
        1 if is_of_file => Content::Changed,
        2 => Content::Older {
            lead: if is_file { n } else { 0 },
        },
        3 if is_of_file => Content::Partial { of: n },
        3 if *kind == EntryKind::Folder => Content::Partial { of: 0 },
        _ => Content::Whole,
    };
    EntryState {
        content,
        lacks_attributes,
    }
}

pub(crate) fn fence_page() -> impl Strategy<Value = FencePage> {
    let lens = (number(u64::MAX - 1), number(u64::MAX));
    let below = (number(1 << 30), number(1 << 40));
    let fence = (path(), lens, below);
    (0..=FENCE_LEVEL_MAX, prop::collection::vec(fence, 1..6)).prop_map(|(level, fences)| FencePage {
        level,
        fences: fences
            .into_iter()
            .map(|(path, (listing, content_len), (page, others))| Fence {
                path,
                listing_len: listing + 1,
                content_len,
                below: (level > 0).then_some(Branch {
                    page_len: page + 1,
                    tree_len: page + 1 + others,
                }),
            })
            .collect(),
    })
}

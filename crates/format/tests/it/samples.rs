//! One fixed value of every kind, for the golden vectors and as seeds for mutation.

use std::num::NonZeroU16;

use format::config::{Config, FORMAT_VERSION, Features, KeyDerivation, KeySlot, Settings};
use format::container::{
    BODY_BYTES, Body, Catalog, CatalogCopy, CatalogCopyEntry, CatalogEntry, Codec, ContainerFooter,
    ContainerHeader, ContainerTail, HEADER_BYTES, RegionRow, TailParse, encode_trailer,
};
use format::frame::{FrameHeader, ObjectKind, append_digest};
use format::listing::{Branch, Content, EntryKind, EntryState, Fence, FencePage, ListingEntry};
use format::manifest::{
    Backup, BackupTotals, ContainerSpan, Manifest, Origin, SeriesName, StreamRole, StreamRoot,
};
use format::node::{Node, NodeEntry};
use format::reclaim::{
    Condemned, ContainerRun, ContainerSlots, CoveredManifest, Damaged, GroupId, LeftSlots, Marks, Removed,
};
use format::series::{ArchivalWindow, Layout, SeriesSettings};
use format::session::{Checkpoint, Claim, Heartbeat, Lease, OpenStream, READ_SERIES, SpineNode};
use format::wire::digest;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Epoch, FileTime, Fingerprint, Generation, Level, Revision,
    SequenceNumber, SeriesId, SessionId, Slot, SlotRange, StoreId, UnixNanos,
};

/// Bytes that depend on place and seed.
pub(crate) fn bytes<const N: usize>(seed: u8) -> [u8; N] {
    std::array::from_fn(|i| seed.wrapping_add((i % 251) as u8))
}

pub(crate) fn session(n: u64) -> SessionId {
    SessionId::new(n).unwrap()
}

pub(crate) fn id(kind: ContainerKind, session_number: u64, sequence: u32) -> ContainerId {
    ContainerId {
        session: session(session_number),
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

pub(crate) fn slot(n: u32) -> Slot {
    Slot::new(n).unwrap()
}

fn slots(first: u32, count: u32) -> SlotRange {
    SlotRange::new(slot(first), count).unwrap()
}

fn level(n: u8) -> Level {
    Level::new(n).unwrap()
}

fn revision(n: u32) -> Revision {
    Revision::new(n).unwrap()
}

fn epoch(n: u64) -> Epoch {
    Epoch::new(n).unwrap()
}

fn chunk(slot_number: u32, len: u32) -> CatalogEntry {
    let fingerprint = Fingerprint::from_bytes(bytes(len as u8));
    CatalogEntry {
        slot: slot(slot_number),
        fingerprint,
        len,
        level: level(0),
        logical_len: len.into(),
    }
}

pub(crate) fn catalog_of_chunks() -> Catalog {
    let entries = vec![
        chunk(0, 8192),
        chunk(1, 4096),
        chunk(2, 65536),
        chunk(7, 300),
        chunk(5, 1),
    ];
    Catalog { entries }
}

pub(crate) fn catalog_of_nodes() -> Catalog {
    let node = |n, node_level, len, logical_len| CatalogEntry {
        level: level(node_level),
        logical_len,
        ..chunk(n, len)
    };
    let entries = vec![
        chunk(0, 500),
        node(1, 1, 21, 4 << 20),
        node(2, 2, 40, 2 << 30),
        node(9, 1, 5, 0),
    ];
    Catalog { entries }
}

pub(crate) fn catalog_copy() -> CatalogCopy {
    let entry = |e: &CatalogEntry| CatalogCopyEntry {
        slot: e.slot,
        fingerprint_prefix: e.fingerprint.prefix16(),
        len: e.len,
    };
    CatalogCopy {
        container: id(ContainerKind::Data, 42, 1),
        generation: Generation::new(2).unwrap(),
        entries: catalog_of_chunks().entries.iter().map(entry).collect(),
    }
}

pub(crate) fn header() -> ContainerHeader {
    ContainerHeader {
        store: StoreId::from_bytes(bytes(0x50)),
        id: id(ContainerKind::Data, 42, 1),
        generation: Generation::new(2).unwrap(),
        salt: bytes(0xa0),
    }
}

/// A whole small container: two regions, and a catalog of made-up ciphertext.
pub(crate) fn container() -> Vec<u8> {
    let header = header();
    let regions: [(&[u8], u32, Codec); 2] = [
        (&bytes::<60>(1), 3, Codec::Zstd),
        (&bytes::<17>(2), 1, Codec::Raw),
    ];
    let catalog = bytes::<90>(3);
    let mut out = header.encode().to_vec();
    let mut rows = Vec::new();
    let mut first_entry = 0;
    for (stored, entry_count, codec) in regions {
        let (offset, stored_len) = (out.len() as u64, stored.len() as u32);
        rows.push(RegionRow {
            offset,
            stored_len,
            first_entry,
            entry_count,
            codec,
            digest: digest(stored),
        });
        out.extend_from_slice(stored);
        first_entry += entry_count;
    }
    let catalog_offset = out.len() as u64;
    out.extend_from_slice(&catalog);
    let footer = ContainerFooter {
        region_count: rows.len() as u32,
        entry_count: first_entry,
        catalog_offset,
        catalog_stored_len: catalog.len() as u32,
        catalog_digest: digest(&catalog),
        rows_offset: out.len() as u64,
        is_trimmed: false,
    };
    let rows = encode_trailer(None, &rows);
    out.extend_from_slice(&rows);
    out.extend_from_slice(&footer.encode(&header, &rows));
    assert!(out.len() > HEADER_BYTES);
    out
}

/// The next generation of [`container`], with the second region given back.
pub(crate) fn trimmed_container() -> Vec<u8> {
    let whole = container();
    let parsed = ContainerTail::parse(&whole, whole.len() as u64).unwrap();
    let TailParse::Whole(tail) = parsed else {
        panic!("all bytes are there")
    };
    let header = ContainerHeader {
        generation: tail.header.generation.next(),
        salt: bytes(0xb0),
        ..tail.header
    };
    let body = Body {
        generation: tail.header.generation,
        len: whole.len() as u64,
        salt: tail.header.salt,
    };
    let mut rows = tail.rows;
    rows[1].entry_count = 0;
    let catalog = bytes::<80>(4);
    let mut out = header.encode().to_vec();
    out.extend_from_slice(&catalog);
    let trailer = encode_trailer(Some(&body), &rows);
    let footer = ContainerFooter {
        region_count: 2,
        entry_count: 3,
        catalog_offset: HEADER_BYTES as u64,
        catalog_stored_len: catalog.len() as u32,
        catalog_digest: digest(&catalog),
        rows_offset: (HEADER_BYTES + catalog.len() + BODY_BYTES) as u64,
        is_trimmed: true,
    };
    out.extend_from_slice(&trailer);
    out.extend_from_slice(&footer.encode(&header, &trailer));
    out
}

pub(crate) fn segment() -> Node {
    let container = id(ContainerKind::Data, 42, 1);
    let entries = vec![
        NodeEntry::Run {
            container,
            first: slot(0),
            count: 512,
            logical_len: 4 << 20,
        },
        NodeEntry::Run {
            container,
            first: slot(600),
            count: 1,
            logical_len: 8192,
        },
        NodeEntry::Zeros { len: 1 << 30 },
        NodeEntry::Run {
            container: id(ContainerKind::Archive, 7, 9),
            first: slot(3),
            count: 2,
            logical_len: 9000,
        },
        NodeEntry::Forward {
            series: SeriesId::from_bytes(bytes(0x30)),
            backup: session(43),
            stream: 2,
            offset: 1 << 33,
            len: 77,
        },
    ];
    let logical_len = entries.iter().map(NodeEntry::logical_len).sum();
    Node {
        level: level(1),
        logical_len,
        containers_max: 2,
        entries,
    }
}

pub(crate) fn upper_node() -> Node {
    let container = id(ContainerKind::Recipe, 42, 2);
    let entries = vec![NodeEntry::Run {
        container,
        first: slot(4),
        count: 300,
        logical_len: 1 << 31,
    }];
    Node {
        level: level(2),
        logical_len: 1 << 31,
        containers_max: 130,
        entries,
    }
}

pub(crate) fn empty_stream() -> Node {
    Node {
        level: level(1),
        logical_len: 0,
        containers_max: 0,
        entries: Vec::new(),
    }
}

pub(crate) fn config() -> Config {
    Config {
        version: FORMAT_VERSION,
        features: Features {
            required_to_read: 0,
            required_to_write: 1 << 40,
        },
        store: StoreId::from_bytes(bytes(0x50)),
        key_slots: vec![
            KeySlot {
                id: bytes(0x10),
                kdf: KeyDerivation::Argon2id {
                    salt: bytes(0x20),
                    memory_kib: 65536,
                    passes: 3,
                    lanes: 4,
                },
                wrapped: bytes::<80>(0x60).to_vec(),
                label: "ann@laptop".to_owned(),
            },
            KeySlot {
                id: bytes(0x11),
                kdf: KeyDerivation::None { salt: bytes(0x21) },
                wrapped: bytes::<80>(0x61).to_vec(),
                label: String::new(),
            },
        ],
        sealed_settings: bytes::<41>(0x70).to_vec(),
        settings_salt: bytes(0x80),
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        chunk_avg_bytes: 8192,
        chunk_min_bytes: 4096,
        chunk_max_bytes: 65536,
        node_avg_children: 512,
        region_bytes: 128 << 10,
        container_bytes: 16 << 20,
    }
}

fn series_name() -> SeriesName {
    SeriesName {
        host: b"laptop".to_vec(),
        paths: vec![b"/etc".to_vec(), b"/home/\xff".to_vec()],
    }
}

pub(crate) fn backup() -> Backup {
    Backup {
        series: series_name(),
        source_time: UnixNanos::new(-1),
        elapsed_nanos: 12_345_678_901,
        user: b"ann".to_vec(),
        program: "0.1.0".to_owned(),
        tags: vec!["daily".to_owned(), "home".to_owned()],
        hold_until: Some(UnixNanos::new(1_800_000_000_000_000_000)),
        streams: StreamRole::ALL
            .into_iter()
            .map(|role| StreamRoot {
                role,
                location: ChunkLocation {
                    container: id(ContainerKind::Recipe, 42, 2),
                    slot: slot(role.number().into()),
                },
                level: level(2),
                fingerprint: Fingerprint::from_bytes(bytes(role.number())),
                len: 1 << (20 + role.number()),
            })
            .collect(),
        containers: vec![
            ContainerSpan {
                kind: ContainerKind::Data,
                first: SequenceNumber::new(0).unwrap(),
                count: 2,
            },
            ContainerSpan {
                kind: ContainerKind::Recipe,
                first: SequenceNumber::new(2).unwrap(),
                count: 1,
            },
        ],
        adopted: vec![(session(40), Some(3)), (session(41), None)],
        parents: vec![(session(39), revision(1))],
        origin: Some(Origin {
            store: StoreId::from_bytes(bytes(0x50)),
            backup: session(38),
        }),
        next: None,
        rewritten: None,
        totals: BackupTotals {
            files: 1,
            folders: 2,
            others: 3,
            files_new: 4,
            files_changed: 5,
            files_unchanged: 6,
            files_failed: 7,
            bytes_logical: 8,
            bytes_read: 9,
            bytes_new: 10,
            bytes_stored: 11,
            chunks: 12,
            chunks_new: 13,
            segments: 14,
            segments_known: 300,
        },
    }
}

pub(crate) fn claim() -> Claim {
    Claim {
        series: SeriesId::from_bytes(bytes(0x30)),
        name: series_name(),
        process: 4711,
        has_lock: true,
    }
}

pub(crate) fn read_claim() -> Claim {
    let name = SeriesName {
        host: Vec::new(),
        paths: Vec::new(),
    };
    Claim {
        series: READ_SERIES,
        name,
        process: 1,
        has_lock: false,
    }
}

pub(crate) fn heartbeat() -> Heartbeat {
    Heartbeat {
        counter: 200,
        answered: Some(epoch(5)),
        checkpoint: Some(0),
    }
}

pub(crate) fn checkpoint() -> Checkpoint {
    Checkpoint {
        number: 2,
        answered: Some(epoch(5)),
        containers: backup().containers,
        references: vec![
            (id(ContainerKind::Data, 41, 0), slots(10, 4)),
            (id(ContainerKind::Recipe, 3, 1), slots(0, 1)),
        ],
        parents: vec![(SeriesId::from_bytes(bytes(0x30)), session(39), revision(1))],
        adopted: vec![(session(40), Some(3))],
        streams: vec![
            OpenStream {
                fixed_chunk_bytes: 65_536,
                len: 5_000_000,
                spine: vec![spine_node(1, 1_000_000, 0), spine_node(2, 4_000_000, 7)],
            },
            OpenStream::default(),
        ],
    }
}

fn spine_node(n: u8, len: u64, at: u32) -> SpineNode {
    SpineNode {
        level: level(n),
        fingerprint: Fingerprint::from_bytes(bytes(n)),
        len,
        location: ChunkLocation {
            container: id(ContainerKind::Recipe, 41, 2),
            slot: slot(at),
        },
        containers_max: 3,
    }
}

pub(crate) fn series_settings() -> SeriesSettings {
    SeriesSettings {
        name: Some(backup().series),
        layout: Layout::Hybrid,
        live_window: 513,
        archival_window: ArchivalWindow::All,
        segment_bytes: 8 << 20,
        optimize_after_backup: true,
        repair_percent: 150,
    }
}

pub(crate) fn windowed_settings() -> SeriesSettings {
    SeriesSettings {
        archival_window: ArchivalWindow::Newest(NonZeroU16::new(1027).unwrap()),
        ..series_settings()
    }
}

pub(crate) fn lease() -> Lease {
    Lease {
        holder: session(42),
        released: true,
    }
}

fn slot_lists() -> Vec<ContainerSlots> {
    vec![
        ContainerSlots {
            container: id(ContainerKind::Data, 1, 0),
            slots: None,
        },
        ContainerSlots {
            container: id(ContainerKind::Data, 1, 1),
            slots: Some(vec![slots(0, 5), slots(6, 1)]),
        },
        ContainerSlots {
            container: id(ContainerKind::Recipe, 9, 2),
            slots: Some(vec![slots(1_048_575, 1)]),
        },
    ]
}

fn group() -> GroupId {
    GroupId {
        series: SeriesId::from_bytes(bytes(0x30)),
        first: session(32),
    }
}

pub(crate) fn condemned() -> Condemned {
    Condemned {
        epoch: epoch(6),
        marks: vec![(group(), revision(4))],
        slots: slot_lists(),
    }
}

pub(crate) fn removed() -> Removed {
    Removed {
        epoch: epoch(6),
        slots: slot_lists(),
        marks: vec![(group(), revision(5))],
        left: slot_lists()
            .into_iter()
            .map(|slots| LeftSlots {
                slots,
                dead_bytes: 5000,
                live_bytes: 1 << 20,
            })
            .collect(),
        gone: vec![
            ContainerRun {
                first: id(ContainerKind::Data, 1, 7),
                count: 3,
            },
            ContainerRun {
                first: id(ContainerKind::Recipe, 1, 10),
                count: 1,
            },
        ],
        stored_bytes: 1 << 40,
    }
}

pub(crate) fn marks() -> Marks {
    let covers = vec![CoveredManifest {
        session: session(39),
        revision: revision(1),
        digest: u128::MAX - 1,
        forgotten: true,
        kept: false,
        next: None,
        rewritten: false,
    }];
    Marks {
        group: group(),
        epoch: Some(epoch(6)),
        covers,
        live: slot_lists().into_iter().collect(),
    }
}

/// Marks of an archival backup, and of a forgotten one that it refers forward to.
pub(crate) fn archival_marks() -> Marks {
    let covered = |session, forgotten, next| CoveredManifest {
        session,
        revision: revision(1),
        digest: 7,
        forgotten,
        kept: forgotten,
        next,
        rewritten: next.is_none(),
    };
    Marks {
        covers: vec![
            covered(session(39), false, Some(session(44))),
            covered(session(44), true, Some(session(45))),
            covered(session(45), true, None),
        ],
        ..marks()
    }
}

/// A revision by an archival rewrite.
pub(crate) fn archival() -> Manifest {
    Manifest::Revised(Backup {
        next: Some(session(44)),
        ..backup()
    })
}

/// A revision by layout repair.
pub(crate) fn repaired() -> Manifest {
    Manifest::Revised(Backup {
        rewritten: Some(70_000),
        ..backup()
    })
}

/// A commit that will become revisions of several backups.
pub(crate) fn repair() -> Manifest {
    Manifest::Commit(Backup {
        rewritten: Some(70_000),
        ..backup()
    })
}

/// A commit that will become one revision.
pub(crate) fn rewrite() -> Manifest {
    Manifest::Commit(Backup {
        next: Some(session(44)),
        ..backup()
    })
}

pub(crate) fn damaged() -> Damaged {
    Damaged {
        slots: slot_lists().remove(1),
    }
}

pub(crate) fn entries() -> Vec<ListingEntry> {
    let entry = |path: &str, kind| ListingEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o644,
        uid: 1000,
        gid: 100,
        user: b"ann".to_vec(),
        group: b"users".to_vec(),
        mtime: FileTime::new(1_700_000_000, 123_456_789),
        ctime: FileTime::new(-1, 999_999_995),
        device: 0x801,
        inode: 12_345_678,
        xattrs: Vec::new(),
        flags: 0,
        state: EntryState::WHOLE,
    };
    let content = |content| EntryState {
        content,
        lacks_attributes: false,
    };
    let file = EntryKind::File {
        len: 1 << 20,
        holes: vec![(0, 4096), (8192, 12288)],
    };
    let plain = EntryKind::File {
        len: 100,
        holes: Vec::new(),
    };
    let xattrs = vec![
        (b"security.selinux".to_vec(), b"x\0".to_vec()),
        (b"user.a".to_vec(), Vec::new()),
    ];
    vec![
        entry("/", EntryKind::Folder),
        ListingEntry {
            xattrs,
            mode: 0o6755,
            ..entry("/a", file)
        },
        entry(
            "/b",
            EntryKind::HardLink {
                target: b"/a".to_vec(),
            },
        ),
        entry(
            "/c",
            EntryKind::Symlink {
                target: b"../elsewhere".to_vec(),
            },
        ),
        entry("/d/null", EntryKind::CharDevice { device: 0x103 }),
        entry("/d/sda", EntryKind::BlockDevice { device: 0x800 }),
        entry("/d/pipe", EntryKind::Fifo),
        entry("/d/sock", EntryKind::Socket),
        ListingEntry {
            mtime: FileTime::new(-11_676_096_000, 0),
            ctime: FileTime::new(13_569_465_600, 7),
            flags: 0x80_0050,
            state: content(Content::Changed),
            ..entry("/e/changed", plain.clone())
        },
        ListingEntry {
            state: content(Content::Older { lead: 300 }),
            ..entry("/e/older", plain.clone())
        },
        ListingEntry {
            state: EntryState {
                lacks_attributes: true,
                ..content(Content::Partial { of: 70_000 })
            },
            ..entry("/e/partial", plain)
        },
        ListingEntry {
            state: content(Content::Partial { of: 0 }),
            ..entry("/f", EntryKind::Folder)
        },
    ]
}

/// Two pages for parts of the listing, the page above them, and the trailer.
pub(crate) fn fences() -> Vec<u8> {
    let fence = |path: &[u8], n: u64, below| Fence {
        path: path.to_vec(),
        listing_len: 60_000 + n,
        content_len: n << 30,
        below,
    };
    let page = |level, fences| FencePage { level, fences }.to_bytes();
    let first = page(0, vec![fence(b"/", 0, None), fence(b"/home/\xfe/x", 1, None)]);
    let second = page(0, vec![fence(b"/usr", 3, None)]);
    let below = |page: &[u8]| {
        let len = page.len() as u64;
        Some(Branch {
            page_len: len,
            tree_len: len,
        })
    };
    let above = vec![
        fence(b"/", 60_001, below(&first)),
        fence(b"/usr", 3, below(&second)),
    ];
    let root = page(1, above);
    let trailer = u32::try_from(root.len()).unwrap().to_le_bytes();
    [first, second, root, trailer.to_vec()].concat()
}

pub(crate) fn frame() -> Vec<u8> {
    let mut out = FrameHeader {
        kind: ObjectKind::Checkpoint,
        salt: bytes(0xb0),
    }
    .encode()
    .to_vec();
    out.extend_from_slice(&bytes::<40>(0xc0));
    append_digest(&mut out);
    out
}

/// Every sample by the name of its golden vector.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let records = |parts: Vec<Vec<u8>>| parts.concat();
    let mut all = vec![
        ("config", config().to_bytes()),
        ("settings", settings().to_bytes()),
        ("frame", frame()),
        ("container", container()),
        ("container-trimmed", trimmed_container()),
        ("container-header", header().encode().to_vec()),
        ("catalog-chunks", catalog_of_chunks().to_bytes()),
        ("catalog-nodes", catalog_of_nodes().to_bytes()),
        ("catalog-copy", catalog_copy().to_bytes()),
        ("node-segment", segment().to_bytes()),
        ("node-upper", upper_node().to_bytes()),
        ("node-empty", empty_stream().to_bytes()),
        ("manifest-commit", Manifest::Commit(backup()).to_bytes()),
        (
            "manifest-expired",
            Manifest::Expired { by: session(50) }.to_bytes(),
        ),
        (
            "manifest-adopted",
            Manifest::Adopted {
                by: session(50),
                checkpoint: Some(1),
            }
            .to_bytes(),
        ),
        ("manifest-forgotten", Manifest::Forgotten.to_bytes()),
        (
            "manifest-revised",
            Manifest::Revised(Backup {
                hold_until: None,
                ..backup()
            })
            .to_bytes(),
        ),
        ("manifest-archival", archival().to_bytes()),
        ("manifest-repaired", repaired().to_bytes()),
        ("manifest-repair", repair().to_bytes()),
        ("manifest-rewrite", rewrite().to_bytes()),
        ("claim", claim().to_bytes()),
        ("claim-read", read_claim().to_bytes()),
        ("heartbeat", heartbeat().to_bytes()),
        ("checkpoint", checkpoint().to_bytes()),
        ("lease", lease().to_bytes()),
        ("series", series_settings().to_bytes()),
        ("series-archival", windowed_settings().to_bytes()),
        ("series-default", SeriesSettings::unset(None).to_bytes()),
        ("condemned", condemned().to_bytes()),
        ("removed", removed().to_bytes()),
        ("marks", marks().to_bytes()),
        ("marks-archival", archival_marks().to_bytes()),
        ("damaged", damaged().to_bytes()),
        (
            "listing",
            records(entries().iter().map(ListingEntry::to_bytes).collect()),
        ),
        ("fences", fences()),
        ("names", names().into_bytes()),
    ];
    all.extend(crate::pool::samples::all());
    all
}

/// A name of every kind, one on each line.
pub(crate) fn names() -> String {
    use format::names::*;
    let series = SeriesId::from_bytes(bytes(0xf0));
    let last = ContainerId {
        session: SessionId::MAX,
        kind: ContainerKind::Small,
        sequence: SequenceNumber::MAX,
    };
    let mut all = vec![
        config(revision(0), ConfigCopy::First),
        config(revision(12), ConfigCopy::Second),
        mirror(id(ContainerKind::Recipe, 42, 7), Generation::FIRST).unwrap(),
        mirror(last, Generation::MAX).unwrap(),
        manifest(series, session(42), revision(0)),
        claim(session(42)),
        heartbeat(session(42), u64::MAX),
        checkpoint(session(42), 10),
        committed(session(42)),
        session_lock(session(42)),
        marks(
            GroupId {
                series,
                first: session(32),
            },
            revision(3),
        ),
        condemned(epoch(6)),
        removed(Epoch::MAX),
        damaged(id(ContainerKind::Data, 42, 7), 0),
        lease(LeaseRole::Reclaim, revision(1)),
        lease(LeaseRole::Index, Revision::MAX),
        reserve(),
        index_run(IndexRunName {
            first: session(1),
            last: session(42),
            number: 0,
        }),
        index_image(3),
        index_unread(0),
    ];
    all.extend(ContainerKind::ALL.map(|kind| container(id(kind, 42, 7), Generation::new(10).unwrap())));
    all.push(body(id(ContainerKind::Data, 42, 7), Generation::new(10).unwrap()));
    all.extend([settings(Some(series), revision(2)), settings(None, Revision::MAX)]);
    all.iter().map(|name| format!("{name}\n")).collect()
}

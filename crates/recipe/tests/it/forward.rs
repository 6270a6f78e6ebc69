//! Archival recipes with forward references to later backups, compared with the original recipes.

use std::collections::HashMap;

use format::node::{Node, NodeEntry};
use proptest::prelude::*;
use proptest::sample::Index;
use recipe::{Child, ChunkRefs, NodeSink, NodeSource, RecipeError, StreamName, TreeRoot};
use types::{ChunkLocation, Fingerprint, SeriesId, SessionId};

use crate::model::{Stream, make, nodes_below, read, streams};
use crate::store::Store;

fn name(backup: usize) -> StreamName {
    StreamName {
        series: SeriesId::from_bytes([1; 16]),
        backup: SessionId::new(backup as u64 + 1).unwrap(),
        stream: 0,
    }
}

fn forward(to: StreamName, offset: u64, len: u64) -> NodeEntry {
    NodeEntry::Forward {
        series: to.series,
        backup: to.backup,
        stream: to.stream,
        offset,
        len,
    }
}

/// The same tree, with forward references to everything that the later stream has.
fn archive(store: &Store, stream: &Stream, later: (StreamName, &Stream)) -> TreeRoot {
    let mut places = HashMap::new();
    let mut at = 0;
    for (len, chunk) in &later.1.children {
        if let Some(chunk) = chunk {
            places.entry(chunk.fingerprint).or_insert(at);
        }
        at += len;
    }
    let mut children = stream.children.iter();
    rewritten(store, &stream.root, &mut children, &|print| {
        Some((later.0, *places.get(print)?))
    })
}

type Children<'a> = std::slice::Iter<'a, (u64, Option<Child>)>;

fn rewritten(
    store: &Store,
    old: &TreeRoot,
    children: &mut Children<'_>,
    later: &dyn Fn(&Fingerprint) -> Option<(StreamName, u64)>,
) -> TreeRoot {
    let node = store.node(old.location).unwrap();
    let mut new = Node {
        entries: Vec::new(),
        ..(*node).clone()
    };
    if node.level.get() == 1 {
        let mut left = node.logical_len;
        while left > 0 {
            let (len, chunk) = children.next().unwrap();
            left -= len;
            push(&mut new.entries, *len, chunk.as_ref(), later);
        }
    } else {
        for below in nodes_below(store, &node) {
            let root = rewritten(store, &below, children, later);
            push_run(&mut new.entries, root.location, root.len);
        }
    }
    let location = store.forgetful_sink().store(&old.fingerprint, &new).unwrap();
    TreeRoot { location, ..*old }
}

fn push(
    entries: &mut Vec<NodeEntry>,
    length: u64,
    chunk: Option<&Child>,
    later: &dyn Fn(&Fingerprint) -> Option<(StreamName, u64)>,
) {
    let Some(chunk) = chunk else {
        entries.push(NodeEntry::Zeros { len: length });
        return;
    };
    let Some((to, place)) = later(&chunk.fingerprint) else {
        push_run(entries, chunk.location().unwrap(), length);
        return;
    };
    match entries.last_mut() {
        Some(NodeEntry::Forward { offset, len, .. }) if *offset + *len == place => *len += length,
        _ => entries.push(forward(to, place, length)),
    }
}

fn push_run(entries: &mut Vec<NodeEntry>, at: ChunkLocation, length: u64) {
    match entries.last_mut() {
        Some(NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        }) if *container == at.container && first.checked_add(*count) == Some(at.slot) => {
            *count += 1;
            *logical_len += length;
        }
        _ => entries.push(NodeEntry::Run {
            container: at.container,
            first: at.slot,
            count: 1,
            logical_len: length,
        }),
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn archival_backups_keep_their_bytes(
        ops in streams(),
        ranges in prop::collection::vec(any::<(Index, Index)>(), 3),
    ) {
        let store = Store::new(16);
        let mut made: Vec<Stream> = Vec::new();
        for ops in &ops {
            let stream = make(&store, &made, ops);
            made.push(stream);
        }
        for (n, stream) in made.iter().enumerate() {
            store.set_stream(name(n), stream.root);
        }
        // Each backup but the newest becomes archival, the oldest first. Chains grow with each
        // step.
        for step in 1..made.len() {
            let root = archive(&store, &made[step - 1], (name(step), &made[step]));
            store.set_stream(name(step - 1), root);
            for (n, stream) in made[..=step].iter().enumerate() {
                let root = store.stream(stream.root.location, name(n)).unwrap();
                prop_assert_eq!(root.fingerprint, stream.root.fingerprint);
                prop_assert_eq!(&read(&store, &root, 0, root.len), &stream.bytes);
                for (a, b) in &ranges {
                    let (a, b) = (a.index(stream.bytes.len() + 1), b.index(stream.bytes.len() + 1));
                    let (begin, end) = (a.min(b), a.max(b));
                    let found = read(&store, &root, begin as u64, (end - begin) as u64);
                    prop_assert_eq!(&found, &stream.bytes[begin..end]);
                }
            }
        }
    }
}

/// An archival stream of one segment. A later stream has all of it, behind three chunks of its own.
struct Bed {
    store: Store,
    root: TreeRoot,
    segment: ChunkLocation,
    /// The segment's offset in the later stream.
    at: u64,
    /// The number of its first chunk.
    first: u64,
}

fn noise(seed: u8) -> Vec<u8> {
    let hashed = (0..4000u32).map(|n| n.wrapping_mul(2_654_435_761));
    hashed.map(|word| word.to_le_bytes()[3] ^ seed).collect()
}

fn bed() -> Bed {
    let store = Store::new(16);
    let (own, shared) = (store.chunk(&noise(9)), store.chunk(&noise(7)));
    let later = [&own[..], &[(300, None)], &shared].concat();
    let mut sink = store.sink();
    // So many children fit into one node.
    let root = store.build(&shared, 256, &mut sink);
    let later = store.build(&later, 256, &mut sink);
    store.set_stream(name(1), later);
    let at = own.iter().map(|(len, _)| len).sum::<u64>() + 300;
    let bed = Bed {
        segment: root.location,
        first: shared[0].0,
        store,
        root,
        at,
    };
    bed.set(&[forward(name(1), at, root.len)]);
    assert_eq!(bed.refs().unwrap(), shared.len());
    bed
}

impl Bed {
    fn set(&self, entries: &[NodeEntry]) {
        self.store
            .tamper_node(self.segment, |node| node.entries = entries.to_vec());
    }

    fn refs(&self) -> Result<usize, RecipeError> {
        let refs: Result<Vec<_>, _> = ChunkRefs::whole(&self.store, &self.root).collect();
        Ok(refs?.len())
    }

    fn error(&self, entries: &[NodeEntry]) -> RecipeError {
        self.set(entries);
        self.refs().unwrap_err()
    }
}

#[test]
fn a_missing_later_backup_is_named() {
    let bed = bed();
    let error = bed.error(&[forward(name(5), bed.at, bed.root.len)]);
    let is_named = matches!(error, RecipeError::NoLaterBackup { node, name: of } if node == bed.segment && of == name(5));
    assert!(is_named, "{error}");
    assert_eq!(
        error.to_string().split(" refers").nth(1),
        Some(" forward to stream 0 of backup 6, which is not there")
    );
}

#[test]
fn different_bytes_behind_a_forward_reference_are_errors() {
    let bed = bed();
    let len = bed.root.len;
    let why = |error: RecipeError| match error {
        RecipeError::BrokenForward { why, .. } => why,
        other => panic!("{other}"),
    };
    for (offset, words) in [
        (bed.at - 10, "zeros where"),
        (bed.at + 1, "shorter than"),
        (u64::MAX, "shorter than"),
        (bed.at - 310, "cut elsewhere"),
    ] {
        let found = why(bed.error(&[forward(name(1), offset, len)]));
        // Ten zeros are only a part of the run of three hundred.
        let is_told = found.contains(words) || offset == bed.at - 10 && found.contains("cut elsewhere");
        assert!(is_told, "{offset}: {found}");
    }
    // With the zeros in front of it, the range is longer than the node.
    let error = bed.error(&[forward(name(1), bed.at - 300, len + 300)]);
    assert!(why(error).contains("zeros where"));
    let error = bed.error(&[forward(name(1), bed.at, bed.first)]);
    assert!(matches!(error, RecipeError::WrongLength { .. }), "{error}");
    // Other chunks with the same total length.
    let error = bed.error(&[
        forward(name(1), bed.at + bed.first, len - bed.first),
        forward(name(1), bed.at, bed.first),
    ]);
    assert!(matches!(error, RecipeError::WrongFingerprint { .. }), "{error}");
}

#[test]
fn following_ends() {
    let bed = bed();
    let len = bed.root.len;
    // A cycle: to the stream itself, by way of a later backup.
    bed.set(&[forward(name(1), 0, len)]);
    bed.store.set_stream(name(1), bed.root);
    let error = bed.refs().unwrap_err();
    assert!(
        matches!(error, RecipeError::BrokenForward { why, .. } if why.contains("no later backup")),
        "{error}"
    );
    // A long chain does not need a deeper stack.
    let series = 20_000;
    for n in 1..series {
        let node = Node {
            entries: vec![forward(name(n + 1), 0, len)],
            ..(*bed.store.node(bed.segment).unwrap()).clone()
        };
        let location = bed
            .store
            .forgetful_sink()
            .store(&bed.root.fingerprint, &node)
            .unwrap();
        bed.store.set_stream(name(n), TreeRoot { location, ..bed.root });
    }
    let last = bed
        .store
        .build(&bed.store.chunk(&noise(7)), 256, &mut bed.store.forgetful_sink());
    assert_eq!(last.fingerprint, bed.root.fingerprint);
    bed.store.set_stream(name(series), last);
    assert!(bed.refs().unwrap() > 1);
}

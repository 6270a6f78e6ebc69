//! Streams made of copies, insertions and zeros, against plain bytes and a plain list of children.

use proptest::prelude::*;
use proptest::sample::Index;
use recipe::{Child, ChunkRefs, NodeSource, Piece, Place, RangeWalker, TreeRoot};

use crate::splice::Splice;
use crate::store::{Sink, Store, push_all};

const AVG: u32 = 4;

/// A part of the next stream.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A range of an earlier stream, between two of its offsets, or between two ends of its
    /// children: there zeros meet, and nodes are whole.
    Copy {
        stream: Index,
        ends: (Index, Index),
        whole_children: bool,
    },
    /// New bytes that look random.
    Bytes {
        seed: u64,
        len: usize,
    },
    /// New bytes that begin and end in zeros.
    Padded {
        seed: u64,
        before: usize,
        after: usize,
    },
    Zeros {
        len: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<Index>(), any::<(Index, Index)>(), any::<bool>())
            .prop_map(|(stream, ends, whole_children)| Op::Copy { stream, ends, whole_children }),
        2 => (any::<u64>(), 1..6000usize).prop_map(|(seed, len)| Op::Bytes { seed, len }),
        1 => (any::<u64>(), 0..700usize, 0..700usize)
            .prop_map(|(seed, before, after)| Op::Padded { seed, before, after }),
        1 => (1..2000u64).prop_map(|len| Op::Zeros { len }),
    ]
}

pub(crate) fn streams() -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(op(), 0..9), 1..7)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// One stream, three ways.
pub(crate) struct Stream {
    pub(crate) bytes: Vec<u8>,
    /// All children, with zeros joined.
    pub(crate) children: Vec<(u64, Option<Child>)>,
    pub(crate) root: TreeRoot,
}

impl Stream {
    fn offset(&self, index: &Index, whole_children: bool) -> u64 {
        if !whole_children {
            return index.index(self.bytes.len() + 1) as u64;
        }
        self.children[..index.index(self.children.len() + 1)]
            .iter()
            .map(|(len, _)| len)
            .sum()
    }
}

fn push_plain(children: &mut Vec<(u64, Option<Child>)>, more: &[(u64, Option<Child>)]) {
    for (len, chunk) in more {
        match (children.last_mut(), chunk) {
            (Some((zeros, None)), None) => *zeros += len,
            _ => children.push((*len, *chunk)),
        }
    }
}

/// The definition of a copied range: whole chunks, cut zeros, and re-chunked edges.
fn copy_plain(store: &Store, from: &Stream, begin: u64, end: u64) -> Vec<(u64, Option<Child>)> {
    let (mut offset, mut out) = (0, Vec::new());
    for (len, chunk) in &from.children {
        let (a, b) = (begin.max(offset), end.min(offset + len));
        if a < b {
            match chunk {
                Some(_) if b - a < *len => out.extend(store.chunk(slice(&from.bytes, a, b))),
                chunk => out.push((b - a, *chunk)),
            }
        }
        offset += len;
    }
    out
}

fn slice(bytes: &[u8], begin: u64, end: u64) -> &[u8] {
    &bytes[usize::try_from(begin).unwrap()..usize::try_from(end).unwrap()]
}

pub(crate) fn make(store: &Store, earlier: &[Stream], ops: &[Op]) -> Stream {
    let mut sink = store.sink();
    let mut builder = store.builder(AVG);
    let (mut bytes, mut children) = (Vec::new(), Vec::new());
    for (number, op) in ops.iter().enumerate() {
        let is_last = number + 1 == ops.len();
        let (new, more) = match op {
            Op::Copy {
                stream,
                ends,
                whole_children,
            } if !earlier.is_empty() => {
                let from = stream.get(earlier);
                let (a, b) = (
                    from.offset(&ends.0, *whole_children),
                    from.offset(&ends.1, *whole_children),
                );
                let (begin, end) = (a.min(b), a.max(b));
                let splice = Splice::new(store, &from.root, begin, end - begin).unwrap();
                let mut splice = splice.ends_stream(is_last);
                while let Some(part) = splice.advance(&mut builder, &mut sink).unwrap() {
                    let whole = store.read_chunk(part.child.location().unwrap());
                    let edge = store.chunk(slice(&whole, part.skip, part.skip + part.len));
                    push_all(&mut builder, &edge, &mut sink);
                }
                (
                    slice(&from.bytes, begin, end).to_vec(),
                    copy_plain(store, from, begin, end),
                )
            }
            Op::Copy { .. } => continue,
            Op::Bytes { seed, len } => pushed(store, &mut builder, noise(*seed, *len), &mut sink),
            Op::Padded { seed, before, after } => {
                let parts = [vec![0; *before], noise(*seed, 300), vec![0; *after]];
                pushed(store, &mut builder, parts.concat(), &mut sink)
            }
            Op::Zeros { len } => {
                builder.push_zeros(*len).unwrap();
                (vec![0; usize::try_from(*len).unwrap()], vec![(*len, None)])
            }
        };
        bytes.extend(new);
        push_plain(&mut children, &more);
    }
    Stream {
        bytes,
        children,
        root: builder.finish(&mut sink).unwrap(),
    }
}

type Pushed = (Vec<u8>, Vec<(u64, Option<Child>)>);

fn pushed(store: &Store, builder: &mut recipe::TreeBuilder, bytes: Vec<u8>, sink: &mut Sink<'_>) -> Pushed {
    let chunks = store.chunk(&bytes);
    push_all(builder, &chunks, sink);
    (bytes, chunks)
}

pub(crate) fn read(store: &Store, root: &TreeRoot, begin: u64, len: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for reference in ChunkRefs::new(store, root, begin, len).unwrap() {
        let reference = reference.unwrap();
        assert_eq!(reference.offset, begin + out.len() as u64);
        match reference.place {
            Place::Zeros => out.resize(out.len() + usize::try_from(reference.len).unwrap(), 0),
            Place::At(location) => {
                let chunk = store.read_chunk(location);
                assert_eq!(chunk.len() as u64, reference.chunk_len);
                assert_eq!(store.fingerprinter().chunk(&chunk), reference.fingerprint);
                out.extend_from_slice(slice(&chunk, reference.skip, reference.skip + reference.len));
            }
        }
    }
    out
}

/// Asserts that nodes are equal all the way down: levels, lengths, bounds, and every reference to a
/// chunk.
fn assert_same(a: (&Store, TreeRoot), b: (&Store, TreeRoot)) {
    let key = |root: &TreeRoot| (root.level, root.fingerprint, root.len);
    assert_eq!(key(&a.1), key(&b.1));
    let (x, y) = (a.0.node(a.1.location).unwrap(), b.0.node(b.1.location).unwrap());
    assert_eq!(
        (x.level, x.logical_len, x.containers_max),
        (y.level, y.logical_len, y.containers_max)
    );
    if x.level.get() == 1 {
        assert_eq!(x.entries, y.entries);
        return;
    }
    let (below_x, below_y) = (nodes_below(a.0, &x), nodes_below(b.0, &y));
    assert_eq!(below_x.len(), below_y.len());
    for (below_x, below_y) in below_x.into_iter().zip(below_y) {
        assert_same((a.0, below_x), (b.0, below_y));
    }
}

pub(crate) fn nodes_below(store: &Store, node: &format::node::Node) -> Vec<TreeRoot> {
    let mut out = Vec::new();
    for entry in &node.entries {
        let format::node::NodeEntry::Run {
            container,
            first,
            count,
            ..
        } = *entry
        else {
            panic!("only runs above level 1")
        };
        let catalog = store.catalog(container).unwrap();
        for n in 0..count {
            let slot = first.checked_add(n).unwrap();
            let entry = catalog.entry(slot).unwrap();
            out.push(TreeRoot {
                location: types::ChunkLocation { container, slot },
                level: entry.level,
                fingerprint: entry.fingerprint,
                len: entry.logical_len,
            });
        }
    }
    out
}

/// 2048 cases, because zeros and edges rarely meet. `PROPTEST_CASES` scales the number, from 256.
fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.saturating_mul(8),
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn spliced_trees_are_those_built_from_scratch(
        streams in streams(),
        ranges in prop::collection::vec(any::<(Index, Index)>(), 3),
        flags in prop::collection::vec(any::<bool>(), 1..9),
    ) {
        let store = Store::new(16);
        let mut made: Vec<Stream> = Vec::new();
        for ops in &streams {
            let stream = make(&store, &made, ops);
            prop_assert_eq!(stream.root.len, stream.bytes.len() as u64);
            prop_assert_eq!(&read(&store, &stream.root, 0, stream.root.len), &stream.bytes);

            let scratch = Store::new(16);
            let root = scratch.build(&stream.children, AVG, &mut scratch.forgetful_sink());
            assert_same((&store, stream.root), (&scratch, root));

            for ends in &ranges {
                let ends = (ends.0.index(stream.bytes.len() + 1), ends.1.index(stream.bytes.len() + 1));
                let (begin, end) = (ends.0.min(ends.1) as u64, ends.0.max(ends.1) as u64);
                let expected = slice(&stream.bytes, begin, end);
                prop_assert_eq!(&read(&store, &stream.root, begin, end - begin), expected);
                prop_assert_eq!(&read_pieces(&store, &stream.root, begin, end, &flags), expected);
                prop_assert_eq!(&read_segments(&store, &stream.root, begin, end), expected);
            }
            made.push(stream);
        }
    }
}

/// The last node of a stream may have one child. Such a node is no stream's root, so a copy of the
/// bytes below it alone has another tree.
#[test]
fn a_copied_end_of_a_stream_has_no_root_of_one_child() {
    let store = Store::new(16);
    let mut single = 0;
    for seed in 0..400 {
        let whole = [Op::Bytes { seed, len: 2000 }];
        let whole = make(&store, &[], &whole);
        for first in 0..whole.children.len() {
            let stream = copy_from(&store, &whole, first);
            let scratch = Store::new(16);
            let root = scratch.build(&stream.children, AVG, &mut scratch.forgetful_sink());
            assert_same((&store, stream.root), (&scratch, root));
        }
        let root = store.node(whole.root.location).unwrap();
        let last = (root.level.get() > 2).then(|| nodes_below(&store, &root).pop().unwrap());
        single += u32::from(
            last.is_some_and(|last| nodes_below(&store, &store.node(last.location).unwrap()).len() == 1),
        );
    }
    assert!(single > 3, "{single} streams end in a node of one child");
}

/// A stream that is the end of another one, from this child on.
fn copy_from(store: &Store, from: &Stream, first: usize) -> Stream {
    let begin = from.children[..first].iter().map(|(len, _)| len).sum();
    let end = from.bytes.len() as u64;
    let (mut builder, mut sink) = (store.builder(AVG), store.sink());
    let splice = Splice::new(store, &from.root, begin, end - begin).unwrap();
    let edge = splice.ends_stream(true).advance(&mut builder, &mut sink).unwrap();
    assert_eq!(edge, None, "the copy begins with a whole child");
    Stream {
        bytes: slice(&from.bytes, begin, end).to_vec(),
        children: from.children[first..].to_vec(),
        root: builder.finish(&mut sink).unwrap(),
    }
}

/// Reads segment by segment.
fn read_segments(store: &Store, root: &TreeRoot, begin: u64, end: u64) -> Vec<u8> {
    let mut walker = RangeWalker::new(store, root, begin, end - begin).unwrap();
    let mut out = Vec::new();
    while let Some((segment, from)) = walker.next_segment().unwrap() {
        assert_eq!(segment.level.get(), 1);
        let at = begin + out.len() as u64;
        assert_eq!(walker.offset(), end.min(from + segment.len));
        out.extend(read(store, &segment, at - from, walker.offset() - at));
    }
    assert!(walker.is_done());
    out
}

/// Reads pieces, with whole nodes wherever the flags ask for them.
fn read_pieces(store: &Store, root: &TreeRoot, begin: u64, end: u64, flags: &[bool]) -> Vec<u8> {
    let mut walker = RangeWalker::new(store, root, begin, end - begin).unwrap();
    let (mut out, mut flags) = (Vec::new(), flags.iter().cycle());
    while let Some(piece) = walker.next(*flags.next().unwrap()).unwrap() {
        let before = out.len() as u64;
        match piece {
            Piece::Node(node) => {
                let root = TreeRoot {
                    location: node.location().unwrap(),
                    level: node.level,
                    fingerprint: node.fingerprint,
                    len: node.logical_len,
                };
                out.extend(read(store, &root, 0, root.len));
            }
            Piece::Chunk(chunk) => out.extend(store.read_chunk(chunk.location().unwrap())),
            Piece::Zeros { len } => out.resize(out.len() + usize::try_from(len).unwrap(), 0),
            Piece::PartOfChunk { child, skip, len } => {
                let whole = store.read_chunk(child.location().unwrap());
                out.extend_from_slice(slice(&whole, skip, skip + len));
            }
        }
        assert_eq!(out.len() as u64 - before, piece.len());
        assert_eq!(walker.offset(), begin + out.len() as u64);
    }
    assert!(walker.is_done());
    out
}

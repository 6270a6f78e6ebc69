//! Nodes that walks and splices read and store: their number depends on levels, not on lengths (DD
//! Boost III, B3).

use recipe::{Child, Piece, RangeWalker, TreeRoot};
use types::{ContainerKind, Level};

use crate::splice::Splice;
use crate::store::{Store, level, printer};

const AVG: u32 = 16;
const CHUNK_LEN: u64 = 1000;
const CHUNKS: u64 = 40_000;

fn big() -> (Store, TreeRoot) {
    let store = Store::new(1000);
    let children: Vec<_> = (0..CHUNKS)
        .map(|n| {
            let fingerprint = printer().chunk(&n.to_le_bytes());
            let place = store.put_entry(ContainerKind::Data, fingerprint, level(0), CHUNK_LEN);
            (CHUNK_LEN, Some(Child::chunk(fingerprint, CHUNK_LEN, place)))
        })
        .collect();
    let root = store.build(&children, AVG, &mut store.sink());
    assert!(root.level >= level(4), "deep enough to tell");
    store.node_reads.set(0);
    store.nodes_stored.set(0);
    (store, root)
}

#[test]
fn the_first_piece_costs_a_node_a_level() {
    let (store, root) = big();
    for offset in [0, 1, 999, 123_456, 20_000_000, root.len - 1] {
        for up_to in [0, 1] {
            store.node_reads.set(0);
            let mut walker = RangeWalker::new(&store, &root, offset, root.len - offset).unwrap();
            walker.next_up_to(level(up_to)).unwrap().unwrap();
            let reads = store.node_reads.get();
            // Deciding whether a node may be reused costs the path to the range's end, once.
            let most = u64::from(root.level.get()) * (1 + u64::from(up_to));
            assert!(reads <= most, "{reads} reads at {offset}");
        }
    }
}

#[test]
fn reading_all_references_reads_each_node_once() {
    let (store, root) = big();
    assert_eq!(recipe::ChunkRefs::whole(&store, &root).count() as u64, CHUNKS);
    let (store_reads, nodes) = (store.node_reads.get(), nodes_of(CHUNKS));
    assert!(store_reads <= nodes, "{store_reads} reads, at most {nodes} nodes");
}

#[test]
fn a_copy_of_a_whole_stream_stores_nothing() {
    let (store, root) = big();
    let (copy, taken) = splice(&store, &root, &[(0, root.len)]);
    assert_eq!(copy, root);
    assert_eq!(store.nodes_stored.get(), 0);
    assert!(
        taken >= root.len - u64::from(2 * AVG) * CHUNK_LEN,
        "{taken} bytes in whole nodes"
    );
    let edge = edge_nodes_max(root.level);
    assert!(store.node_reads.get() <= edge, "{} reads", store.node_reads.get());
}

/// The client of a server would have to ask for the catalog of the chunks of an opened segment.
#[test]
fn no_segment_of_a_range_with_which_both_streams_end_is_opened() {
    let (store, root) = big();
    let segment = |mut walker: RangeWalker<'_, Store>| walker.next_segment().unwrap().unwrap();
    let (_, last) = segment(RangeWalker::new(&store, &root, root.len - 1, 1).unwrap());
    for (offset, ends, whole) in [(0, true, true), (last, true, true), (last, false, false)] {
        let walker = RangeWalker::new(&store, &root, offset, root.len - offset).unwrap();
        let mut walker = walker.ends_stream(ends);
        let mut are_nodes = true;
        while let Some(piece) = walker.next(true).unwrap() {
            are_nodes &= matches!(piece, Piece::Node(_));
        }
        assert_eq!(are_nodes, whole, "from {offset}");
    }
    // A shorter range ends before its stream does.
    let walker = RangeWalker::new(&store, &root, last, root.len - last - 1).unwrap();
    let piece = walker.ends_stream(true).next(true).unwrap();
    assert!(matches!(piece, Some(Piece::Chunk(_))));
}

#[test]
fn a_cut_stores_its_edges_alone() {
    let (store, root) = big();
    let cut = CHUNKS / 2 * CHUNK_LEN;
    let (shorter, taken) = splice(
        &store,
        &root,
        &[(0, cut), (cut + CHUNK_LEN, root.len - cut - CHUNK_LEN)],
    );
    assert_eq!(shorter.len, root.len - CHUNK_LEN);
    let levels = u64::from(root.level.get());
    let stored = store.nodes_stored.get();
    assert!(stored <= 4 * levels, "{stored} nodes stored over {levels} levels");
    assert!(
        taken >= root.len / 100 * 97,
        "{taken} of {} bytes in whole nodes",
        root.len
    );
    let reads = store.node_reads.get();
    assert!(reads <= 3 * edge_nodes_max(root.level), "{reads} nodes read");
}

fn splice(store: &Store, root: &TreeRoot, ranges: &[(u64, u64)]) -> (TreeRoot, u64) {
    let (mut builder, mut taken) = (store.builder(AVG), 0);
    for &(offset, len) in ranges {
        let mut splice = Splice::new(store, root, offset, len).unwrap();
        assert_eq!(splice.advance(&mut builder, &mut store.sink()).unwrap(), None);
        taken += splice.node_bytes();
    }
    (builder.finish(&mut store.sink()).unwrap(), taken)
}

/// The most nodes on both sides of one path from the root to a chunk, at every level; and a few on
/// the path.
fn edge_nodes_max(root: Level) -> u64 {
    u64::from(root.get()) * (u64::from(2 * AVG) + 4)
}

/// The most nodes over so many chunks: every node has at least half of the average number of
/// children, except the last one of a level.
fn nodes_of(chunks: u64) -> u64 {
    let mut sum = 0;
    let mut here = chunks;
    while here > 1 {
        here = here.div_ceil(u64::from(AVG / 2));
        sum += here;
    }
    sum
}

//! Chooses which leaves and which pairs of nodes are hashed side by side.
//!
//! BLAKE3's tree puts the largest power of two of leaves to the left. Pairing neighbours level by
//! level gives the same tree; an odd last node moves up unchanged. So all trees of a batch grow
//! together.

use super::LaneWidth;
use super::node::{Cv, Leaf, Pair};
use crate::seal::KEY_BYTES;

/// Bytes of a leaf.
pub(super) const LEAF_BYTES: usize = 1024;
/// The places of an input's nodes at the present level.
struct Tree {
    first: u32,
    nodes: u32,
}

/// Whether there are enough leaves to fill lanes better than the library does.
pub(super) fn is_worth_it(width: LaneWidth, inputs: &[&[u8]]) -> bool {
    let mut leaves = 0;
    inputs.len() > 1
        && inputs.iter().any(|input| {
            leaves += input.len().div_ceil(LEAF_BYTES).max(1);
            leaves >= width.count()
        })
}

/// As [`super::keyed_hashes`].
///
/// # Panics
/// If the inputs have 4 TiB or more.
pub(super) fn hash(width: LaneWidth, key: &[u8; KEY_BYTES], inputs: &[&[u8]], mut out: impl FnMut([u8; 32])) {
    let (words, _) = key.as_chunks::<4>();
    let key: Cv = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
    let (mut trees, leaves) = plant(inputs);
    let mut cvs = vec![[0; 8]; leaves.len()];
    let mut side_by_side = [[0; 8]; 16];
    for group in leaves.chunks(width.count()) {
        width.leaves(&key, group, &mut side_by_side);
        for (leaf, cv) in group.iter().zip(&side_by_side) {
            cvs[leaf.to as usize] = *cv;
        }
    }
    let mut pairs = Vec::new();
    loop {
        pairs.clear();
        for tree in &mut trees {
            let (nodes, parents) = (tree.nodes, tree.nodes / 2);
            pairs.extend((0..parents).map(|n| Pair {
                from: tree.first + 2 * n,
                to: tree.first + n,
                is_root: nodes == 2,
            }));
        }
        if pairs.is_empty() {
            break;
        }
        // A parent replaces children that an earlier pair, or the same group, has already read.
        for group in pairs.chunks(width.count()) {
            width.pairs(&key, group, &mut cvs);
        }
        for tree in &mut trees {
            if tree.nodes > 1 && tree.nodes % 2 == 1 {
                cvs[(tree.first + tree.nodes / 2) as usize] = cvs[(tree.first + tree.nodes - 1) as usize];
            }
            tree.nodes = tree.nodes.div_ceil(2);
        }
    }
    for tree in &trees {
        let mut bytes = [0; 32];
        for (to, word) in bytes
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(cvs[tree.first as usize])
        {
            *to = word.to_le_bytes();
        }
        out(bytes);
    }
}

/// The trees with all their leaves. Leaves with the most blocks come first.
fn plant<'a>(inputs: &[&'a [u8]]) -> (Vec<Tree>, Vec<Leaf<'a>>) {
    let mut trees = Vec::with_capacity(inputs.len());
    let total = inputs
        .iter()
        .map(|input| input.len().div_ceil(LEAF_BYTES).max(1))
        .sum();
    let mut leaves = Vec::with_capacity(total);
    let mut partial = Vec::with_capacity(inputs.len());
    let mut first = 0;
    for input in inputs {
        let nodes = u32::try_from(input.len().div_ceil(LEAF_BYTES).max(1)).expect("less than 4 TiB");
        let leaf = |bytes, number| Leaf {
            bytes,
            number,
            is_root: nodes == 1,
            to: first + number,
        };
        let (full, rest) = input.as_chunks::<LEAF_BYTES>();
        leaves.extend(full.iter().zip(0..).map(|(bytes, n)| leaf(bytes.as_slice(), n)));
        if !rest.is_empty() || full.is_empty() {
            partial.push(leaf(rest, nodes - 1));
        }
        trees.push(Tree { first, nodes });
        first += nodes;
    }
    partial.sort_unstable_by_key(|leaf| std::cmp::Reverse(leaf.blocks()));
    leaves.append(&mut partial);
    (trees, leaves)
}

//! Where two streams differ, by the identity of their nodes.
//!
//! Equal content gives equal nodes at every level, so a node that both trees have is skipped
//! unopened. The cost is the nodes above what differs, not the length of the streams.
//!
//! Invariant: outside of the gaps, both streams have the same bytes in the same order. A gap may be
//! larger than the difference: it begins and ends where chunks do. Nodes that occur several times
//! in a tree are not matched, except at the ends of what is compared.
//!
//! Memory: at most [`NODES_MAX`] children at once. Where more differ, the rest is one gap. One
//! thread. The iterator ends after the first error.

use std::collections::HashMap;
use std::iter::FusedIterator;

use types::{ByteRange, Fingerprint, Level};

use crate::child::{CHUNK_LEVEL, Child, Place};
use crate::error::RecipeError;
use crate::open::open_node;
use crate::source::NodeSource;
use crate::tree_root::TreeRoot;

/// The most children of opened nodes in memory, of both streams.
const NODES_MAX: usize = 1 << 18;

/// A range of one stream that takes the place of a range of another one. One of them may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// In the first stream.
    pub before: ByteRange,
    /// In the second stream.
    pub after: ByteRange,
}

impl Gap {
    /// Whether the other gap begins where this one ends, in both streams.
    fn touches(&self, next: &Self) -> bool {
        self.before.end() == next.before.offset && self.after.end() == next.after.offset
    }

    fn joined(self, next: Self) -> Self {
        let join = |a: ByteRange, b: ByteRange| ByteRange {
            offset: a.offset,
            len: a.len + b.len,
        };
        Self {
            before: join(self.before, next.before),
            after: join(self.after, next.after),
        }
    }
}

/// Children of one level, one after another.
#[derive(Debug, Clone, Default)]
struct Side {
    begin: u64,
    children: Vec<Child>,
}

impl Side {
    fn range(&self) -> ByteRange {
        ByteRange {
            offset: self.begin,
            len: self.children.iter().map(|child| child.logical_len).sum(),
        }
    }

    fn level(&self) -> Option<Level> {
        self.children.first().map(|child| child.level)
    }
}

/// Finds the gaps between two streams, in order. Only the nodes above the next gap are opened.
#[derive(Debug)]
pub struct Gaps<'a, S: ?Sized> {
    source: &'a S,
    /// Parts without a match between them, the next one last.
    parts: Vec<(Side, Side)>,
    /// Children in `parts`.
    held: usize,
    failed: bool,
}

impl<'a, S: NodeSource + ?Sized> Gaps<'a, S> {
    /// The gaps between the streams below these roots. Reads nothing yet.
    #[must_use]
    pub fn new(source: &'a S, before: &TreeRoot, after: &TreeRoot) -> Self {
        let side = |root: &TreeRoot| Side {
            begin: 0,
            children: Some(root_child(root))
                .filter(|_| root.len > 0)
                .into_iter()
                .collect(),
        };
        let (before, after) = (side(before), side(after));
        let mut gaps = Self {
            source,
            parts: Vec::new(),
            held: 0,
            failed: false,
        };
        gaps.push_unequal(before, after);
        gaps
    }

    /// Pushes the parts between matching children.
    fn push_unequal(&mut self, before: Side, after: Side) {
        let mut parts = match before.level() == after.level() {
            true => unequal(&before, &after),
            false => vec![(before, after)],
        };
        parts.retain(|(before, after)| !(before.children.is_empty() && after.children.is_empty()));
        for (before, after) in parts.into_iter().rev() {
            self.held += before.children.len() + after.children.len();
            self.parts.push((before, after));
        }
    }

    /// The next gap, or `None` at the end. Neighbours may touch.
    fn next_part(&mut self) -> Result<Option<Gap>, RecipeError> {
        while let Some((before, after)) = self.parts.pop() {
            self.held -= before.children.len() + after.children.len();
            let (Some(a), Some(b)) = (before.level(), after.level()) else {
                return Ok(Some(gap(&before, &after)));
            };
            if a.max(b) == CHUNK_LEVEL {
                return Ok(Some(gap(&before, &after)));
            }
            // The lower side waits until the other one has come down to its level.
            let opened = (self.open(&before, a >= b)?, self.open(&after, b >= a)?);
            match opened {
                (Some(before), Some(after)) => self.push_unequal(before, after),
                _ => return Ok(Some(gap(&before, &after))),
            }
        }
        Ok(None)
    }

    /// The children below all of these, if they are to be opened; `None` if they are too many.
    fn open(&self, side: &Side, is_due: bool) -> Result<Option<Side>, RecipeError> {
        if !is_due {
            return Ok(Some(side.clone()));
        }
        let mut below = Side {
            begin: side.begin,
            children: Vec::new(),
        };
        for root in side.children.iter().filter_map(Child::as_root) {
            below.children.extend(open_node(self.source, &root)?);
            if self.held + below.children.len() > NODES_MAX / 2 {
                return Ok(None);
            }
        }
        Ok(Some(below))
    }

    fn next_gap(&mut self) -> Result<Option<Gap>, RecipeError> {
        let Some(mut found) = self.next_part()? else {
            return Ok(None);
        };
        // What follows may touch it: only a match in between ends a gap.
        while let Some((before, after)) = self.parts.last() {
            if !found.touches(&gap(before, after)) {
                break;
            }
            match self.next_part()? {
                Some(next) if found.touches(&next) => found = found.joined(next),
                Some(next) => {
                    self.push_back(next);
                    break;
                }
                None => break,
            }
        }
        Ok(Some(found))
    }

    /// Keeps a gap for the next call. Its children are not needed any more, but for their lengths.
    fn push_back(&mut self, gap: Gap) {
        let side = |range: ByteRange| Side {
            begin: range.offset,
            children: Some(Child::zeros(Fingerprint::from_bytes([0; 32]), range.len))
                .filter(|_| range.len > 0)
                .into_iter()
                .collect(),
        };
        let (before, after) = (side(gap.before), side(gap.after));
        self.held += before.children.len() + after.children.len();
        self.parts.push((before, after));
    }
}

impl<S: NodeSource + ?Sized> Iterator for Gaps<'_, S> {
    type Item = Result<Gap, RecipeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_gap();
        self.failed = next.is_err();
        next.transpose()
    }
}

impl<S: NodeSource + ?Sized> FusedIterator for Gaps<'_, S> {}

fn gap(before: &Side, after: &Side) -> Gap {
    Gap {
        before: before.range(),
        after: after.range(),
    }
}

fn root_child(root: &TreeRoot) -> Child {
    Child {
        fingerprint: root.fingerprint,
        logical_len: root.len,
        level: root.level,
        place: Place::At(root.location),
        containers_max: 0,
    }
}

/// The parts of two lists of one level between the children that match.
fn unequal(before: &Side, after: &Side) -> Vec<(Side, Side)> {
    let (a, b) = (&before.children[..], &after.children[..]);
    let same = |(a, b): &(&Child, &Child)| a.fingerprint == b.fingerprint && a.logical_len == b.logical_len;
    let front = a.iter().zip(b).take_while(same).count();
    let back = a[front..].iter().rev().zip(b[front..].iter().rev());
    let back = back.take_while(same).count();
    let middle = (&a[front..a.len() - back], &b[front..b.len() - back]);
    let mut ends: Vec<_> = matches(middle.0, middle.1);
    ends.iter_mut()
        .for_each(|(a, b)| (*a, *b) = (*a + front, *b + front));
    ends.push((a.len() - back, b.len() - back));

    let len = |children: &[Child]| children.iter().map(|child| child.logical_len).sum::<u64>();
    let (mut at, mut offset) = (
        (front, front),
        (before.begin + len(&a[..front]), after.begin + len(&b[..front])),
    );
    let mut parts = Vec::with_capacity(ends.len());
    for (next_a, next_b) in ends {
        let part = (&a[at.0..next_a], &b[at.1..next_b]);
        parts.push((
            Side {
                begin: offset.0,
                children: part.0.to_vec(),
            },
            Side {
                begin: offset.1,
                children: part.1.to_vec(),
            },
        ));
        // The matching child has the same length in both.
        let matched = a.get(next_a).map_or(0, |child| child.logical_len);
        offset = (offset.0 + len(part.0) + matched, offset.1 + len(part.1) + matched);
        at = (next_a + 1, next_b + 1);
    }
    parts
}

/// Positions of equal children, ascending in both lists: the longest such sequence of those that
/// are in each list once.
fn matches(a: &[Child], b: &[Child]) -> Vec<(usize, usize)> {
    let places = |children: &[Child]| {
        let mut places: HashMap<(Fingerprint, u64), Option<usize>> = HashMap::new();
        for (at, child) in children.iter().enumerate() {
            let place = places.entry((child.fingerprint, child.logical_len));
            place.and_modify(|place| *place = None).or_insert(Some(at));
        }
        places
    };
    let (in_a, in_b) = (places(a), places(b));
    let unique = |(at, child): (usize, &Child)| {
        let key = (child.fingerprint, child.logical_len);
        in_a.get(&key)?.as_ref()?;
        in_b.get(&key).copied().flatten().map(|other| (at, other))
    };
    let pairs: Vec<(usize, usize)> = a.iter().enumerate().filter_map(unique).collect();
    longest_ascending(&pairs)
}

/// The longest sequence of pairs whose second numbers ascend. The first ones do.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Of each length the sequence with the lowest end, and of each pair the one before it.
    let (mut ends, mut previous): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (number, (_, second)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < *second);
        previous.push(len.checked_sub(1).map(|len| ends[len]));
        match ends.get_mut(len) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut found = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(number) = next {
        found.push(pairs[number]);
        next = previous[number];
    }
    found.reverse();
    found
}

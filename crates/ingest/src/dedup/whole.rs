//! Segments that need not be written: known from an earlier backup, or written by this one.
//!
//! Invariant: it remembers a limited number of the session's own segments. Their order decides
//! which ones. One thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use container::ContainerError;
use format::node::{Node, NodeEntry};
use recipe::{KnownNode, RecipeError};
use types::{ChunkLocation, ContainerId, Fingerprint};

use super::Holdings;
use super::cap::{Accounts, Holder};
use super::placed::{PlacedAt, PlacedChild, PlacedSegment, SegmentBody};
use super::segment::Segment;
use crate::error::IngestError;

/// The segments that this session wrote last, by content.
#[derive(Debug)]
pub(super) struct OwnSegments {
    max: usize,
    pub(super) held: HashMap<Fingerprint, OwnSegment>,
    order: VecDeque<Fingerprint>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OwnSegment {
    pub(super) number: u64,
    pub(super) containers: usize,
    len: u64,
}

/// A segment that need not be written.
pub(super) enum Whole {
    Own(OwnSegment),
    Known(KnownNode, Arc<Node>),
}

impl Whole {
    /// Whether the segment has so many bytes.
    pub(super) fn has_len(&self, len: u64) -> bool {
        match self {
            Self::Own(own) => own.len == len,
            Self::Known(_, node) => {
                let lens = node.entries.iter().map(|entry| match entry {
                    NodeEntry::Zeros { len, .. } => *len,
                    NodeEntry::Run { logical_len, .. } => *logical_len,
                    NodeEntry::Forward { .. } => 0,
                });
                lens.sum::<u64>() == len
            }
        }
    }

    /// How many containers the window would be charged for it.
    pub(super) fn charge(&self, accounts: &Accounts) -> usize {
        match self {
            _ if !accounts.is_capped() => 0,
            Self::Own(own) => own.containers,
            Self::Known(_, node) => {
                let containers = containers_of(node).into_iter().map(Holder::Container);
                containers.filter(|holder| !accounts.is_free(*holder)).count()
            }
        }
    }

    /// Whether each container that the window would be charged for holds at least `least` bytes of
    /// the segment, which has `len` bytes. For the session's own segments only the average is
    /// known.
    pub(super) fn is_worth(&self, accounts: &Accounts, len: u64, least: u64) -> bool {
        if least == 0 {
            return true;
        }
        match self {
            Self::Own(own) => least.saturating_mul(own.containers as u64) <= len,
            Self::Known(_, node) => {
                let mut held: HashMap<ContainerId, u64> = HashMap::new();
                for entry in &node.entries {
                    if let NodeEntry::Run {
                        container,
                        logical_len,
                        ..
                    } = *entry
                        && !accounts.is_free(Holder::Container(container))
                    {
                        *held.entry(container).or_default() += logical_len;
                    }
                }
                held.values().all(|bytes| *bytes >= least)
            }
        }
    }
}

impl OwnSegments {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            held: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds a segment of so many bytes that refers to so many containers. Returns its number.
    pub(super) fn add(&mut self, (fingerprint, len): (Fingerprint, u64), containers: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.order.push_back(fingerprint);
        let own = OwnSegment {
            number,
            containers,
            len,
        };
        self.held.insert(fingerprint, own);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
            && self
                .held
                .get(&oldest)
                .is_some_and(|held| held.number + (self.max as u64) < self.next)
        {
            self.held.remove(&oldest);
        }
        number
    }
}

/// The containers that a segment's node refers to.
pub(super) fn containers_of(node: &Arc<Node>) -> Vec<ContainerId> {
    let runs = node.entries.iter().filter_map(|entry| match entry {
        NodeEntry::Run { container, .. } => Some(*container),
        _ => None,
    });
    distinct(runs.collect())
}

/// The containers, each once.
pub(super) fn distinct(mut containers: Vec<ContainerId>) -> Vec<ContainerId> {
    containers.sort_unstable();
    containers.dedup();
    containers
}

pub(super) fn placed<B>(segment: &Segment<B>, body: SegmentBody) -> PlacedSegment {
    PlacedSegment {
        fingerprint: segment.fingerprint,
        len: segment.len,
        body,
    }
}

/// How many containers a segment refers to. New chunks count as one.
pub(super) fn containers_in(children: &[PlacedChild]) -> usize {
    let stored = children.iter().filter_map(|child| match child.place {
        PlacedAt::Stored(location) => Some(location.container),
        _ => None,
    });
    let is_new = children
        .iter()
        .any(|child| matches!(child.place, PlacedAt::New(_)));
    distinct(stored.collect()).len() + usize::from(is_new)
}

/// The error of a backup that would refer to what reclamation removes. The client makes the backup
/// again.
pub(super) fn removed(at: ChunkLocation) -> IngestError {
    let container = at.container;
    IngestError::Previous(RecipeError::Container(ContainerError::Missing { container }))
}

/// Fails if reclamation has removed one of these copied segments since it was offered, or may.
pub(super) fn ensure_kept<'a>(
    holdings: &impl Holdings,
    copied: impl Iterator<Item = &'a PlacedSegment>,
) -> Result<(), IngestError> {
    for segment in copied {
        if let SegmentBody::Known(known) = segment.body
            && !holdings.keeps_segment(known.location)
        {
            return Err(removed(known.location));
        }
    }
    Ok(())
}

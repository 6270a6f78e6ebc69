//! Checkpoints: objects that name what a session has stored durably and refers to.
//!
//! A checkpoint serves two readers. Reclamation keeps the slots that it names. A later session
//! continues from it.
//!
//! To answer an epoch, a session does this: swap the view; wait for look-ups that began before
//! ([`Session::begin_checkpoint`]); let the caller collect its references; barrier, so that the
//! named containers are durable; put the checkpoint; barrier; put a heartbeat that names epoch and
//! checkpoint. So a reference that the session had when a slot was condemned is in the checkpoint,
//! and the slot is kept.
//!
//! A container that one checkpoint names is in all later ones. References may be dropped. No
//! checkpoint is deleted while the session has no ending: an adopter may be about to name an old
//! one, and reclamation keeps the slots that any of them names.

use std::ops::Range;
use std::sync::MutexGuard;

use format::manifest::ContainerSpan;
use format::names;
use format::session::{Checkpoint, OpenStream};
use types::{ContainerId, ContainerKind, Epoch, SequenceNumber, SlotRange};

use crate::error::{Result, SessionError};
use crate::objects::Put;
use crate::session::{Inner, Record, Session, TARGET, locked};

/// How many numbers to skip if their objects exist after writes that seemed to fail.
const NUMBERS_MAX: usize = 64;

/// The content of the next checkpoint, as the caller has collected it: everything that it refers to
/// and that no manifest names yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// Sealed containers that this session has put, and whose nodes refer to no open container.
    /// Containers of earlier drafts need not be repeated.
    pub containers: Vec<ContainerSpan>,
    /// References of nodes in memory and in open containers to sealed containers of any session.
    pub references: Vec<(ContainerId, SlotRange)>,
    /// The position of each stream, for a session that continues from here. Empty if none may.
    /// Their nodes are in `references`, and in containers that a draft has named.
    pub streams: Vec<OpenStream>,
}

/// The right to write the next checkpoint: every look-up by an older view has ended. References
/// collected between taking it and writing honour the epoch that the checkpoint will answer.
pub struct CheckpointTurn<'a> {
    inner: &'a Inner,
    answers: Option<Epoch>,
    _turn: MutexGuard<'a, ()>,
}

impl Session {
    /// Waits until look-ups by older views than the present one have ended. The calling thread must
    /// hold no guard. Collect the draft after this returns, not before.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`].
    pub fn begin_checkpoint(&self) -> Result<CheckpointTurn<'_>> {
        self.inner.ensure_running()?;
        let turn = locked(&self.inner.turn);
        let view = self.inner.gate.drained();
        self.inner.ensure_running()?;
        Ok(CheckpointTurn {
            inner: &self.inner,
            answers: view.newest_epoch(),
            _turn: turn,
        })
    }

    /// Whether [`Session::begin_checkpoint`] would have to wait for look-ups.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.inner.gate.is_drained()
    }
}

impl CheckpointTurn<'_> {
    /// The epoch that the checkpoint will answer.
    #[must_use]
    pub fn answers(&self) -> Option<Epoch> {
        self.answers
    }

    /// Writes the checkpoint. If it answers an epoch, a heartbeat states this at once. The
    /// containers of the draft must have been put through the same storage handle. Durable on
    /// return. Returns the checkpoint's number.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`]; `Format` if the draft cannot be stored; of the storage
    /// (call again: a new number is used).
    pub fn write(self, draft: Draft) -> Result<u32> {
        let inner = self.inner;
        let mut record = locked(&inner.record);
        let answered = self.answers.max(record.answered);
        let number = inner.write_checkpoint(&mut record, answered, draft)?;
        // The record stays locked, so that no parent is chosen between the checkpoint and its
        // answer.
        if let Some(epoch) = answered {
            inner.answer(epoch, number)?;
        }
        Ok(number)
    }
}

impl Inner {
    /// Writes the content of the record, with this draft.
    pub(crate) fn write_checkpoint(
        &self,
        record: &mut Record,
        answered: Option<Epoch>,
        draft: Draft,
    ) -> Result<u32> {
        self.ensure_running()?;
        let mut checkpoint = Checkpoint {
            number: record.next_number,
            answered,
            containers: union(&record.containers, &draft.containers),
            references: draft.references,
            parents: record.parents.clone(),
            adopted: record.adopted.clone(),
            streams: draft.streams,
        };
        self.objects.barrier()?;
        let mut tries = 0;
        loop {
            checkpoint.number = record.next_number;
            record.next_number += 1;
            if self
                .objects
                .put(&names::checkpoint(self.id, checkpoint.number), &checkpoint)?
                == Put::Created
            {
                break;
            }
            tries += 1;
            if tries == NUMBERS_MAX {
                return Err(SessionError::Contended {
                    name: names::session_folder(self.id),
                });
            }
        }
        self.objects.barrier()?;
        if answered > record.answered {
            record.answers += 1;
        }
        record.answered = answered;
        let answered = answered.map(tracing::field::display);
        tracing::debug!(target: TARGET, session = %self.id, number = checkpoint.number, answered, "checkpoint");
        record.containers = checkpoint.containers;
        record.references = checkpoint.references;
        record.streams = checkpoint.streams;
        Ok(checkpoint.number)
    }
}

/// Whether every container of `part` is one of `whole`. It compares spans, because there may be
/// millions of containers.
pub(crate) fn covers(whole: &[ContainerSpan], part: &[ContainerSpan]) -> bool {
    let (whole, part) = (joined(whole), joined(part));
    part.iter().all(|(kind, range)| {
        whole
            .iter()
            .any(|(of, within)| of == kind && within.start <= range.start && range.end <= within.end)
    })
}

/// The containers of both. Spans that cannot be stored stay as they are, and writing refuses them.
fn union(before: &[ContainerSpan], added: &[ContainerSpan]) -> Vec<ContainerSpan> {
    let all = [before, added].concat();
    let spans: Option<Vec<_>> = joined(&all)
        .into_iter()
        .map(|(kind, range)| {
            let first = SequenceNumber::new(u32::try_from(range.start).ok()?).ok()?;
            let count = u32::try_from(range.end - range.start).ok()?;
            Some(ContainerSpan { kind, first, count })
        })
        .collect();
    if all.iter().any(|span| span.count == 0) {
        all
    } else {
        spans.unwrap_or(all)
    }
}

/// The spans by kind as disjoint ranges of sequence numbers that do not touch.
fn joined(spans: &[ContainerSpan]) -> Vec<(ContainerKind, Range<u64>)> {
    let mut ranges: Vec<_> = spans
        .iter()
        .map(|span| {
            (
                span.kind,
                u64::from(span.first.get())..u64::from(span.first.get()) + u64::from(span.count),
            )
        })
        .collect();
    ranges.sort_unstable_by_key(|(kind, range)| (*kind, range.start));
    let mut out: Vec<(ContainerKind, Range<u64>)> = Vec::with_capacity(ranges.len());
    for (kind, range) in ranges {
        match out.last_mut() {
            Some((of, last)) if *of == kind && range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push((kind, range)),
        }
    }
    out
}

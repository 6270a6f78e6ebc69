//! A run: its parts in order, and the sessions that it covers.

use std::sync::Arc;
use std::time::Duration;

use types::{ContainerId, SessionId};

use crate::kind::HookKind;
use crate::part::{Damaged, Part};
use crate::part_header::Section;
use crate::rates::Load;
use crate::sampling::SamplingRates;
use crate::writer::RunId;

/// The most runs that a look-up may have to read. Beyond it they are merged.
pub const RUNS_MAX: usize = 8;

/// The most time between two parts of a run that is being written. One part takes seconds to fill
/// and put. If it takes longer, only time is lost.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The parts of a run that could be opened.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) parts: Vec<Arc<Part>>,
    /// Whether no part is missing at the beginning, at the end, or in between.
    is_whole: bool,
    /// Whether another process may be writing the next part now.
    is_under_way: bool,
}

impl Run {
    /// A run of these parts, in the order of their numbers.
    pub(crate) fn new(id: RunId, parts: Vec<Arc<Part>>) -> Self {
        let numbers_fit = parts
            .iter()
            .zip(0u32..)
            .all(|(part, n)| RunId::of(part.meta().name).1 == n);
        let ends = parts.last().is_some_and(|part| part.meta().is_last);
        Self {
            id,
            is_whole: numbers_fit && ends,
            is_under_way: false,
            parts,
        }
    }

    /// Uses the storage's times: `idle` is the time from the run's newest part to the newest
    /// object. A run with an end is complete. A run without one is being written if this time is
    /// short; otherwise it was given up, or a crash cut it short.
    pub(crate) fn put_within(mut self, idle: Duration) -> Self {
        let ends = self.parts.last().is_some_and(|part| part.meta().is_last);
        self.is_under_way = !ends && idle < IDLE_MAX;
        self
    }

    /// Whether the run may be merged and deleted. If it is still being written, its writer would be
    /// left with parts that make no run, and its sessions would be read again.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_under_way
    }

    /// The sessions whose hooks are all here; none if a part is missing or damaged.
    pub(crate) fn covered(&self) -> &[(SessionId, u64)] {
        let is_sound = self.is_whole && !self.parts.iter().any(|part| part.is_damaged());
        match self.parts.first() {
            Some(part) if is_sound => &part.meta().covered,
            _ => &[],
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes()).sum()
    }

    /// The rates at which it was written.
    pub(crate) fn rates(&self) -> SamplingRates {
        let first = self.parts.first();
        first.map_or_else(SamplingRates::default, |part| part.meta().rates)
    }

    /// Its size.
    pub(crate) fn load(&self) -> Load {
        let mut load = Load {
            bytes: 0,
            rates: self.rates(),
            ..Load::default()
        };
        for kind in HookKind::ALL {
            let sections = self.parts.iter().map(|part| part.section(kind).0);
            let at = kind.number();
            load.bytes += sections.clone().map(Section::net_bytes).sum::<u64>();
            load.hooks[at] = sections.clone().map(|section| u64::from(section.entries)).sum();
            load.containers[at] = sections
                .map(|section| u64::from(section.containers))
                .max()
                .unwrap_or(0);
        }
        load
    }

    /// Appends candidates. Returns a part that is found damaged now, once.
    pub(crate) fn find(&self, kind: HookKind, key: u64, out: &mut Vec<ContainerId>) -> Option<&Part> {
        let after = self
            .parts
            .partition_point(|part| first_of(part) <= Some((kind, key)));
        let part = &**self.parts.get(after.checked_sub(1)?)?;
        if part.is_damaged() {
            return None;
        }
        let before = out.len();
        match part.find(kind, key, out) {
            Ok(()) => None,
            Err(Damaged) => {
                out.truncate(before);
                part.set_damaged().then_some(part)
            }
        }
    }
}

/// The first hook of a part. An empty part has none, and sorts before all others.
fn first_of(part: &Part) -> Option<(HookKind, u64)> {
    let first = |kind: HookKind| Some((kind, *part.meta().sections[kind.number()].tops.first()?));
    first(HookKind::Data).or_else(|| first(HookKind::Node))
}

//! A run: its parts in order, and which sessions it answers for.

use std::collections::VecDeque;
use std::sync::Arc;

use types::{ContainerId, SessionId};

use crate::hook::{Hook, HookKind};
use crate::part::{Damaged, Part, Scanner};
use crate::writer::RunId;

/// All parts of a run that could be opened.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) parts: Vec<Arc<Part>>,
    /// Whether no part is missing at either end or between.
    is_whole: bool,
}

impl Run {
    /// Of parts in the order of their numbers.
    pub(crate) fn new(id: RunId, parts: Vec<Arc<Part>>) -> Self {
        let numbers_fit = parts
            .iter()
            .zip(0u32..)
            .all(|(part, n)| RunId::of(part.meta().name).1 == n);
        let ends = parts.last().is_some_and(|part| part.meta().is_last);
        Self {
            id,
            is_whole: numbers_fit && ends,
            parts,
        }
    }

    /// The sessions whose hooks are all here: none when a part is missing or damaged.
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

    pub(crate) fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries()).sum()
    }

    /// Appends candidates; a part found damaged now is returned, once.
    pub(crate) fn find(&self, kind: HookKind, bits: u64, out: &mut Vec<ContainerId>) -> Option<&Part> {
        let after = self
            .parts
            .partition_point(|part| first_of(part) <= Some((kind, bits)));
        let part = &**self.parts.get(after.checked_sub(1)?)?;
        if part.is_damaged() {
            return None;
        }
        let before = out.len();
        match part.find(kind, bits, out) {
            Ok(()) => None,
            Err(Damaged) => {
                out.truncate(before);
                part.set_damaged().then_some(part)
            }
        }
    }
}

/// The first hook of a part; an empty part has none and is before all.
fn first_of(part: &Part) -> Option<(HookKind, u64)> {
    let first = |kind: HookKind| Some((kind, *part.meta().sections[kind.number()].tops.first()?));
    first(HookKind::Data).or_else(|| first(HookKind::Node))
}

/// Hooks in order, from a run or from memory.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Run {
        ahead: VecDeque<&'a Part>,
        scanner: Option<(Scanner<'a>, &'a Part)>,
    },
    Sorted(std::slice::Iter<'a, Hook>),
}

impl<'a> Source<'a> {
    pub(crate) fn run(run: &'a Run) -> Self {
        Self::Run {
            ahead: run.parts.iter().map(|part| &**part).collect(),
            scanner: None,
        }
    }

    /// The next hook; the part that is damaged, where one is.
    pub(crate) fn next(&mut self) -> Result<Option<Hook>, &'a Part> {
        let (ahead, scanner) = match self {
            Self::Sorted(hooks) => return Ok(hooks.next().copied()),
            Self::Run { ahead, scanner } => (ahead, scanner),
        };
        loop {
            if let Some((scanner, part)) = scanner
                && let Some(hook) = scanner.next().map_err(|Damaged| *part)?
            {
                return Ok(Some(hook));
            }
            let Some(part) = ahead.pop_front() else {
                return Ok(None);
            };
            *scanner = Some((Scanner::new(part).map_err(|Damaged| part)?, part));
        }
    }
}

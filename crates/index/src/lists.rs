//! The candidates of several look-ups that were made together.
//!
//! Invariant: there are as many lists as look-ups, in their order. Each equals the answer of a
//! single look-up.

use types::{ContainerId, SessionId};

use crate::candidates::chosen_of;

/// The results of [`HookIndex::candidates_together`](crate::HookIndex::candidates_together): a list
/// of containers for each look-up. It keeps its memory for reuse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateLists {
    all: Vec<ContainerId>,
    /// The end of each list.
    ends: Vec<usize>,
    /// The list of the current look-up; empty in between.
    one: Vec<ContainerId>,
}

impl CandidateLists {
    /// Removes all lists.
    pub fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    /// Adds the list of the next look-up. `look_up` fills it.
    pub fn push(&mut self, look_up: impl FnOnce(&mut Vec<ContainerId>)) {
        self.one.clear();
        look_up(&mut self.one);
        self.all.append(&mut self.one);
        self.ends.push(self.all.len());
    }

    /// The number of lists, equal to the number of look-ups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing was looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The answer of the look-up with this number.
    ///
    /// # Panics
    /// If there were fewer.
    #[must_use]
    pub fn of(&self, number: usize) -> &[ContainerId] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[begin..self.ends[number]]
    }

    /// Makes the lists of `count` look-ups. `found` has the containers that each look-up found, in
    /// their order. From these, each answer is [chosen](chosen_of).
    pub(crate) fn fill(&mut self, count: usize, apart: Option<SessionId>, found: Vec<(usize, ContainerId)>) {
        self.clear();
        let mut found = found.into_iter().peekable();
        for number in 0..count {
            self.push(|list| {
                while let Some((_, id)) = found.next_if(|(of, _)| *of == number) {
                    list.push(id);
                }
                if !list.is_empty() {
                    chosen_of(list, apart);
                }
            });
        }
    }
}

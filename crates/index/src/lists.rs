//! The candidates of several look-ups that were made together.
//!
//! Invariant: there are as many lists as look-ups, in their order, each as one look-up alone
//! would have it.

use types::{ContainerId, SessionId};

use crate::candidates::chosen_of;

/// The results of [`HookIndex::candidates_together`](crate::HookIndex::candidates_together): a list
/// of containers for each look-up. Keeps its memory for the next time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateLists {
    all: Vec<ContainerId>,
    /// Where each list ends.
    ends: Vec<usize>,
    /// Of the look-up being made; empty between.
    one: Vec<ContainerId>,
}

impl CandidateLists {
    /// Forgets all lists.
    pub fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    /// Adds the list of the next look-up, which `look_up` fills.
    pub fn push(&mut self, look_up: impl FnOnce(&mut Vec<ContainerId>)) {
        self.one.clear();
        look_up(&mut self.one);
        self.all.append(&mut self.one);
        self.ends.push(self.all.len());
    }

    /// Lists, as many as look-ups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing was looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What the look-up of a number found.
    ///
    /// # Panics
    /// There were fewer.
    #[must_use]
    pub fn of(&self, number: usize) -> &[ContainerId] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[begin..self.ends[number]]
    }

    /// Has the lists of so many look-ups: of what each found, in their order, an answer is
    /// [chosen](chosen_of).
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

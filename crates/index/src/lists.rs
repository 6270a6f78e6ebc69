//! The candidates of several look-ups that were made together.

use types::{ContainerId, SessionId};

use crate::hook::chosen_of;

/// What [`HookIndex::candidates_together`](crate::HookIndex::candidates_together) found: a list of containers for each look-up.
/// Keeps its memory for the next time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateLists {
    all: Vec<ContainerId>,
    /// Where each list ends.
    ends: Vec<usize>,
}

impl CandidateLists {
    /// Forgets all lists.
    pub fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    /// Adds the list of the next look-up.
    pub fn push(&mut self, list: &[ContainerId]) {
        self.all.extend_from_slice(list);
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

    /// Has the lists of so many look-ups: `found`, in their order, and what `more` adds, as answers are
    /// [chosen](chosen_of).
    pub(crate) fn fill(
        &mut self,
        count: usize,
        apart: Option<SessionId>,
        found: Vec<(usize, ContainerId)>,
        mut more: impl FnMut(usize, &mut Vec<ContainerId>),
    ) {
        self.clear();
        let mut found = found.into_iter().peekable();
        let mut list = Vec::new();
        for number in 0..count {
            list.clear();
            while let Some((_, id)) = found.next_if(|(of, _)| *of == number) {
                list.push(id);
            }
            more(number, &mut list);
            if !list.is_empty() {
                chosen_of(&mut list, apart);
            }
            self.push(&list);
        }
    }
}

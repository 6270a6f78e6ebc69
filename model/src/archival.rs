//! Archival revisions: a backup that refers forward to a later one, and what is kept for it.
//!
//! A forward names a backup and no slot: it is read through what that backup's manifest says now.
//! What is kept for it is decided by manifests alone: each names the backup that its nodes refer
//! forward to, its *next*.

use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::slots::{Counts, Numbers, Slots};
use crate::state::{Phase, SESSIONS, State};

/// What a session does that makes no backup of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Reads a backup, through all that it refers forward to.
    Read {
        /// The backup.
        of: usize,
    },
    /// Rewrites a backup: what a later one has too becomes a forward, the rest is copied or stays.
    Optimize {
        /// The backup.
        of: usize,
        /// The later one.
        next: usize,
        /// Slots of the backup that stay as they are.
        keeps: Slots,
    },
    /// Rewrites a backup that refers forward, as one that is held or whose next is forgotten:
    /// forwards become what they led to.
    MakeDirect {
        /// The backup.
        of: usize,
    },
}

impl Task {
    /// The backup that it is about.
    #[must_use]
    pub const fn of(self) -> usize {
        match self {
            Self::Read { of } | Self::Optimize { of, .. } | Self::MakeDirect { of } => of,
        }
    }
}

/// What a node refers forward to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Forward {
    /// The backup.
    pub to: u8,
    /// Which of its contents.
    pub contents: Numbers,
}

/// A process has listed manifests, and is about to publish what a session has rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Intent {
    /// The session.
    pub session: u8,
    /// The number that the revision is to have.
    pub number: u8,
}

/// What one listing of manifests shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    /// Committed backups.
    pub commits: Numbers,
    /// Those of them with a tombstone.
    pub forgotten: Numbers,
    /// Their highest revisions below it.
    pub revisions: Counts,
}

impl List {
    /// What a listing shows now.
    #[must_use]
    pub fn now(state: &State) -> Self {
        let mut commits = Numbers::NONE;
        for backup in state.commits() {
            commits.add(backup);
        }
        Self {
            commits,
            forgotten: state.tombs.both(commits),
            revisions: state.readable_revisions(),
        }
    }
}

impl Scenario {
    /// Whether any backup may refer forward.
    #[must_use]
    pub fn is_archival(&self) -> bool {
        self.contents.iter().any(|contents| !contents.is_empty())
    }

    /// What is in the data slots of `slots`.
    #[must_use]
    pub fn contents(&self, slots: Slots) -> Numbers {
        slots
            .only_data()
            .numbers()
            .fold(Numbers::NONE, |all, n| all.with(self.contents[n]))
    }

    /// What one revision of a backup refers forward to.
    #[must_use]
    pub fn forward(&self, state: &State, backup: usize, number: u8) -> Option<Forward> {
        let root = self.revision_root(state, backup, number);
        root.node_numbers().find_map(|n| state.forwards[n])
    }

    /// All that a backup is made of, whatever revision says so.
    #[must_use]
    pub fn all_contents(&self, state: &State, backup: usize) -> Numbers {
        let own = self.contents(self.revision_root(state, backup, 0));
        own.with(
            self.forward(state, backup, 0)
                .map_or(Numbers::NONE, |f| f.contents),
        )
    }

    /// The next that a manifest names. Backups of sessions that look up name none, whatever nodes
    /// they reach.
    #[must_use]
    pub fn next(&self, state: &State, backup: usize, number: u8) -> Option<usize> {
        let names = number > 0 || backup < self.backups.len() || self.tasks[backup].is_some();
        let forward = self.forward(state, backup, number).filter(|_| names)?;
        Some(usize::from(forward.to))
    }

    /// What of `wanted` is not found from `backup` on, each backup read at the revision that `at`
    /// names.
    pub fn missing(
        &self,
        state: &State,
        at: impl Fn(usize) -> Option<u8>,
        backup: usize,
        wanted: Numbers,
    ) -> Numbers {
        let (mut wanted, mut backup) = (wanted, backup);
        for _ in 0..SESSIONS {
            let Some(number) = at(backup) else { break };
            let found = self.revision_root(state, backup, number) & state.live;
            wanted = wanted.without(self.contents(found));
            let forward = found.node_numbers().find_map(|n| state.forwards[n]);
            let Some(forward) = forward.filter(|f| wanted.without(f.contents).is_empty()) else {
                break;
            };
            backup = usize::from(forward.to);
        }
        wanted
    }

    /// What of a backup is not found now.
    #[must_use]
    pub fn missing_now(&self, state: &State, backup: usize) -> Numbers {
        let commits = List::now(state).commits;
        let at = |b: usize| commits.has(b).then(|| state.revisions.get(b));
        self.missing(state, at, backup, self.all_contents(state, backup))
    }
}

/// Forgotten backups that count as not forgotten, by one listing.
pub(crate) fn kept(scenario: &Scenario, rules: Rules, state: &State, list: &List) -> Numbers {
    let mut kept = Numbers::NONE;
    if !rules.has(Rule::KeepNext) {
        return kept;
    }
    for backup in list.commits.without(list.forgotten).each() {
        for next in behind(scenario, state, list, backup) {
            kept.add(next);
            if !rules.has(Rule::KeepNextOfKept) {
                break;
            }
        }
    }
    kept
}

/// The forgotten backups that come one after another behind `backup`.
fn behind(scenario: &Scenario, state: &State, list: &List, backup: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut last = backup;
    while let Some(next) = scenario.next(state, last, list.revisions.get(last))
        && list.commits.both(list.forgotten).has(next)
        && !found.contains(&next)
    {
        found.push(next);
        last = next;
    }
    found
}

/// What a manifest that no marks cover keeps besides its own: its next, where that is forgotten,
/// and so on.
pub(crate) fn behind_live(
    scenario: &Scenario,
    rules: Rules,
    state: &State,
    list: &List,
    backup: usize,
) -> Slots {
    if !rules.has(Rule::UncoveredNext) {
        return Slots::NONE;
    }
    let behind = behind(scenario, state, list, backup);
    behind.into_iter().fold(Slots::NONE, |live, next| {
        live | scenario.revision_root(state, next, list.revisions.get(next))
    })
}

/// Backups that session `i` may come to refer forward to, as its newest checkpoint says.
pub(crate) fn nexts(scenario: &Scenario, rules: Rules, state: &State, i: usize) -> Numbers {
    let mut nexts = Numbers::NONE;
    if let Some(Task::Optimize { of, .. } | Task::MakeDirect { of }) = scenario.tasks[i]
        && let Some(checkpoint) = state.checkpoints[i]
        && rules.has(Rule::DeclaredNextKept)
    {
        let pins = checkpoint.content.pins.each();
        for (backup, _) in pins.filter(|(backup, _)| *backup != of) {
            nexts.add(backup);
        }
    }
    nexts
}

/// What is live because a session that runs may come to refer forward to `nexts`.
pub(crate) fn nexts_live(scenario: &Scenario, state: &State, nexts: Numbers) -> Slots {
    let list = List::now(state);
    let there = nexts.both(list.commits).each();
    let with_behind = there.flat_map(|b| [b].into_iter().chain(behind(scenario, state, &list, b)));
    with_behind.fold(Slots::NONE, |live, b| {
        live | scenario.revision_root(state, b, list.revisions.get(b))
    })
}

/// Whether housekeeping may drop the manifests of a forgotten backup, by who refers forward to it
/// or has declared it.
pub(crate) fn may_drop(scenario: &Scenario, rules: Rules, state: &State, backup: usize) -> bool {
    let list = List::now(state);
    let refers = |b: usize| scenario.next(state, b, list.revisions.get(b)) == Some(backup);
    let pins = |s: usize| state.checkpoints[s].is_some_and(|c| c.content.pins.get(backup) > 0);
    let is_next = if rules.has(Rule::DroppedFromFirstOn) {
        list.commits.each().any(refers)
    } else {
        kept(scenario, rules, state, &list).has(backup)
    };
    let is_next = is_next && rules.has(Rule::NextManifestStays);
    let is_pinned = rules.has(Rule::PinnedManifestStays) && scenario.running.each().any(pins);
    !is_next && !is_pinned
}

/// Whether a session that runs does not find what it reads: through the revisions that it has
/// chosen, or, of backups that it has not chosen yet, through those that count now. Who has
/// rewritten reads no more.
#[must_use]
pub fn reads_what_is_gone(scenario: &Scenario, state: &State, i: usize) -> bool {
    let me = &state.sessions[i];
    let Some(task) = scenario.tasks[i] else {
        return false;
    };
    if me.phase != Phase::Open || !me.declared || !me.wrote.is_empty() {
        return false;
    }
    let list = List::now(state);
    let at = |b: usize| {
        let current = list.commits.has(b).then(|| state.revisions.get(b));
        me.pins.get(b).checked_sub(1).or(current)
    };
    let of = task.of();
    let missing = scenario.missing(state, at, of, scenario.all_contents(state, of));
    !missing.is_empty()
}

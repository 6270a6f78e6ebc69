//! What one exploration is given: the store at the start, the processes, and what may happen.

use crate::archival::{Forward, Task};
use crate::properties::Witness;
use crate::rules::{Rule, Rules};
use crate::slots::{Counts, NODES, Numbers, Slots};
use crate::state::{Budget, Ending, Marks, RECLAIMERS, SESSIONS, State};

/// Bounds of one exploration. Old backups take the lowest session numbers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name by which it is run.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What each node slot reaches at the start (nodes not yet written: nothing).
    pub refs: [Slots; NODES],
    /// Backups committed before the start: root, and the nodes in their containers.
    pub backups: Vec<Backup>,
    /// Which session writes a slot: bit per slot, per session.
    pub owns: [Slots; SESSIONS],
    /// Slots that share a container; a slot in no set is a container of its own.
    pub containers: Vec<Slots>,
    /// Sessions that run, by number.
    pub running: Numbers,
    /// Reclaimer processes.
    pub reclaimers: usize,
    /// Epochs that may come into being.
    pub epochs: u8,
    /// Claims to the lease that may be made; 0 leaves the lease out.
    pub claims: u8,
    /// An ended session that does not know it may still win an adoption and write.
    pub zombies: bool,
    /// Slots that a session may look up.
    pub look_up: [Slots; SESSIONS],
    /// Look-ups take two steps, so that an epoch can come between them.
    pub slow_look_ups: bool,
    /// Backups that a session may choose as its parent.
    pub parents: [Numbers; SESSIONS],
    /// Sessions that a session may adopt.
    pub adopts: [Numbers; SESSIONS],
    /// A session may give up what it refers to.
    pub releases: bool,
    /// What a session does that makes no backup of its own.
    pub tasks: [Option<Task>; SESSIONS],
    /// What is in each data slot, by number; named only where backups refer forward.
    pub contents: [Numbers; NODES],
    /// What nodes refer forward to at the start.
    pub forwards: [Option<Forward>; NODES],
    /// Processes that publish what sessions have rewritten.
    pub revisers: usize,
    /// A reclaimer that has been alone since it listed manifests decides by that listing.
    pub hands_on: bool,
    /// The storage may not give a backup's highest revision.
    pub unread: bool,
    /// Backups that may be forgotten.
    pub forget: Numbers,
    /// Backups that may get a revision that reaches what the one before reaches.
    pub tags: Numbers,
    /// The root of a backup's next manifest revision, where an archival rewrite may happen.
    pub rewrite: [Option<Slots>; SESSIONS],
    /// Manifests are listed for marks in two steps, session 0 first.
    pub slow_marks: bool,
    /// Manifests are listed for the decision in two steps, the later sessions' first.
    pub slow_decisions: bool,
    /// The session that rewrites; where there is none, a rewrite copies into containers of its own
    /// at once.
    pub rewriter: Option<usize>,
    /// Slots removed by compaction: their container stays, so no name goes on record.
    pub compacted: Slots,
    /// Slots that sessions' caches show at the start.
    pub cached: Slots,
    /// Forgotten manifests may be dropped.
    pub drop_manifests: bool,
    /// Finished epochs may be dropped.
    pub drop_epochs: bool,
    /// Endings of sessions that may still wake may be dropped, as far as the rules allow.
    pub drop_endings: bool,
    /// Marks may be extended outside an epoch.
    pub extend_marks: bool,
    /// The index may be rebuilt at any time.
    pub rebuild: bool,
    /// Dead slots that a reclaimer may leave in place.
    pub stay: Slots,
    /// A backup's root is all that its session holds, without a node of its own.
    pub plain_roots: bool,
    /// A new node reaches all data that its session holds, not any part of it.
    pub full_nodes: bool,
    /// Whether an epoch begun while no session runs must condemn all that nothing reaches. Off
    /// where a shorter leak would hide the loss that the scenario is about.
    pub judges_leaks: bool,
    /// Faults that may happen.
    pub budget: Budget,
    /// Properties of the kind "sometimes" that must be witnessed, so that the scenario is not
    /// vacuous.
    pub witnesses: Vec<Witness>,
}

/// A backup that exists at the start.
#[derive(Clone, Copy, Debug)]
pub struct Backup {
    /// Slots and nodes that it reaches.
    pub root: Slots,
    /// Nodes in the containers that its manifest names.
    pub named: Slots,
    /// Whether the marks cover it.
    pub covered: bool,
    /// Whether it has a tombstone.
    pub forgotten: bool,
}

impl Backup {
    /// Committed and covered by the marks at the start.
    #[must_use]
    pub const fn covered(root: Slots, named: Slots) -> Self {
        Self {
            root,
            named,
            covered: true,
            forgotten: false,
        }
    }
}

impl Scenario {
    /// Two sessions, one reclaimer, one epoch, nothing else: a base to vary.
    #[must_use]
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            refs: [Slots::NONE; NODES],
            backups: Vec::new(),
            owns: [Slots::NONE; SESSIONS],
            containers: Vec::new(),
            running: Numbers::NONE,
            reclaimers: 1,
            epochs: 1,
            claims: 0,
            zombies: false,
            look_up: [Slots::NONE; SESSIONS],
            slow_look_ups: false,
            parents: [Numbers::NONE; SESSIONS],
            adopts: [Numbers::NONE; SESSIONS],
            releases: false,
            tasks: [None; SESSIONS],
            contents: [Numbers::NONE; NODES],
            forwards: [None; NODES],
            revisers: 0,
            hands_on: false,
            unread: false,
            forget: Numbers::NONE,
            tags: Numbers::NONE,
            rewrite: [None; SESSIONS],
            slow_marks: false,
            slow_decisions: false,
            rewriter: None,
            compacted: Slots::NONE,
            cached: Slots::NONE,
            drop_manifests: false,
            drop_epochs: false,
            drop_endings: false,
            extend_marks: false,
            rebuild: false,
            stay: Slots::NONE,
            plain_roots: false,
            full_nodes: false,
            judges_leaks: true,
            budget: Budget::default(),
            witnesses: Vec::new(),
        }
    }

    /// The state at the start.
    #[must_use]
    pub fn start(&self) -> State {
        assert!(
            self.reclaimers <= RECLAIMERS,
            "more reclaimers than the state has room for"
        );
        let mut state = State {
            refs: self.refs,
            forwards: self.forwards,
            budget: self.budget,
            ..State::default()
        };
        let mut marks = Marks::default();
        for (n, backup) in self.backups.iter().enumerate() {
            state.live |= self.owns[n];
            state.endings[n] = Ending::Commit {
                root: state.closure(backup.root),
                named: backup.named,
            };
            state.settled.add(n);
            state.history.ended.add(n);
            if backup.forgotten {
                state.tombs.add(n);
                state.tombs_durable.add(n);
            }
            if backup.covered {
                marks.covered.add(n);
                if backup.forgotten {
                    marks.forgotten.add(n);
                } else {
                    marks.reached |= state.closure(backup.root);
                }
            }
        }
        for i in self.running.each() {
            state.sessions[i].cache = self.cached;
        }
        state.durable = state.live;
        state.marks = marks;
        if self.rebuild || !self.look_up.iter().all(|slots| slots.only_nodes().is_empty()) {
            state.hooks = marks.reached.only_nodes();
        }
        state
    }

    /// Whether anything can be lost: without power cuts every byte is durable at once.
    #[must_use]
    pub const fn loses(&self) -> bool {
        self.budget.power_cuts > 0
    }

    /// The containers that hold any of `slots`, as slots.
    #[must_use]
    pub fn whole_containers(&self, slots: Slots) -> Slots {
        self.containers
            .iter()
            .filter(|c| c.meets(slots))
            .fold(slots, |all, c| all | *c)
    }

    /// The root of the current revision of a committed backup's manifest.
    #[must_use]
    pub fn root(&self, state: &State, backup: usize) -> Slots {
        self.revision_root(state, backup, state.revisions.get(backup))
    }

    /// The root of one revision of a committed backup's manifest.
    #[must_use]
    pub fn revision_root(&self, state: &State, backup: usize, number: u8) -> Slots {
        match (state.endings[backup], usize::from(number).checked_sub(1)) {
            (Ending::Commit { .. }, Some(above)) => state.closure(state.revised[backup][above]),
            (Ending::Commit { root, .. }, None) => root,
            _ => Slots::NONE,
        }
    }

    /// What the revisions reach that parents name.
    #[must_use]
    pub fn pinned(&self, state: &State, pins: Counts) -> Slots {
        pins.each().fold(Slots::NONE, |all, (backup, number)| {
            all | self.revision_root(state, backup, number - 1)
        })
    }

    /// What a reclaimer marks of them: with `ParentRevisionMarked` off the newest revisions.
    #[must_use]
    pub fn marked_pins(&self, rules: Rules, state: &State, pins: Counts) -> Slots {
        let there = pins.each().filter(|&(backup, _)| !state.dropped.has(backup));
        there.fold(Slots::NONE, |all, (backup, number)| {
            let number = if rules.has(Rule::ParentRevisionMarked) {
                number - 1
            } else {
                state.revisions.get(backup)
            };
            all | self.revision_root(state, backup, number)
        })
    }
}

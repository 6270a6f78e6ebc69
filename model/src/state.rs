//! What the store holds and what each process knows: one state of the model.
//!
//! Everything is a byte or a few, so that some hundred million states can be told apart in a few
//! GiB.

use crate::archival::{Forward, Intent};
use crate::slots::{Counts, NODES, Numbers, Slots};

/// Sessions in the model, old backups included. A session's place is its number.
pub const SESSIONS: usize = 6;
/// Epochs in the model, numbered from 1.
pub const EPOCHS: usize = 3;
/// Reclaimers in the model.
pub const RECLAIMERS: usize = 2;

/// Revisions of a manifest above `.0`.
pub const REVISIONS: usize = 2;
/// Processes that publish revisions.
pub const REVISERS: usize = 2;

/// What a checkpoint says: references, the containers of nodes that it names, the parents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Content {
    /// Slots that the session refers to.
    pub refs: Slots,
    /// Nodes in the recipe containers that it names.
    pub named: Slots,
    /// Parents declared: for each backup the number of its revision, and one.
    pub pins: Counts,
}

/// A session's newest checkpoint, with what the earlier ones said, and the epochs that it answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Checkpoint {
    /// What it says.
    pub content: Content,
    /// References of this and all earlier checkpoints of the session.
    pub ever: Slots,
    /// Epochs that it answers, from 0.
    pub answered: Numbers,
}

/// `backups/<series>/<session>.0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(
    missing_docs,
    reason = "the fields mean what they mean in `Content` and `Action`"
)]
pub enum Ending {
    /// The session runs, or sleeps, or is dead.
    #[default]
    None,
    /// A backup.
    Commit { root: Slots, named: Slots },
    /// It did not answer.
    Expired,
    /// Another goes on from its checkpoint k.
    Adopted { by: u8, checkpoint: Content },
}

/// `condemned/<epoch>`, with the marks that it was computed from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Condemned {
    /// Slots that no mark reached.
    pub dead: Slots,
    /// The marks.
    pub marks: Marks,
}

/// Marks as far as reclamation needs them: what is reached, and which manifests were read for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Marks {
    /// The last epoch whose marks these are; an epoch is finished when its marks are in place.
    pub epoch: u8,
    /// Slots reached.
    pub reached: Slots,
    /// Committed manifests covered.
    pub covered: Numbers,
    /// The revisions covered.
    pub revisions: Counts,
    /// Those of them that were covered as forgotten.
    pub forgotten: Numbers,
    /// Those of them that were forgotten, and marked for one that refers forward to them.
    pub kept: Numbers,
    /// Slots to sweep that a first mark outside an epoch has found.
    pub owed: Slots,
    /// Backups whose group's marks were lost.
    pub missing: Numbers,
}

/// The two objects of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Epoch {
    /// `condemned/<epoch>`.
    pub condemned: Option<Condemned>,
    /// `removed/<epoch>`.
    pub removed: Option<Slots>,
}

/// How far a session process has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// Has not created itself.
    #[default]
    Unborn,
    /// Has listed epochs and not yet created itself: reached only with `CreateThenList` off.
    ListedEarly,
    /// Has created itself and not yet listed epochs.
    Created,
    /// Works.
    Open,
    /// Has ended, or died.
    Done,
}

/// A session process's own memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Process {
    /// How far it has come.
    pub phase: Phase,
    /// Epochs seen, from 0.
    pub seen: Numbers,
    /// Slots treated as absent since epochs were last listed.
    pub absent: Slots,
    /// Slots that it refers to.
    pub held: Slots,
    /// Slots that it has put.
    pub wrote: Slots,
    /// What a look-up under way is about to return.
    pub pending: Slots,
    /// The parents chosen: for each backup the number of its revision, and one.
    pub pins: Counts,
    /// Whether a checkpoint has declared them.
    pub declared: bool,
    /// An adoption under way: the old session's number and its checkpoint k.
    pub adopting: Option<(u8, Content)>,
    /// Slots that its cached catalogs show.
    pub cache: Slots,
    /// The newest epoch it knew when it loaded them.
    pub cache_epoch: u8,
    /// Nodes in the recipe containers that adopted checkpoints name.
    pub adopted_named: Slots,
}

/// How far a reclaimer has come with its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Stage {
    /// Has no epoch in hand.
    #[default]
    Idle,
    /// Has listed epochs.
    Listed,
    /// Has read the manifests of session 0, and none of the others yet.
    HalfRead,
    /// Has computed what is dead.
    Marked,
    /// `condemned/<epoch>` exists.
    Announced,
    /// Has listed sessions, and waits for them.
    Waiting,
    /// Has read their checkpoints.
    Read,
    /// Has listed the first part of the manifests.
    HalfListed,
    /// Has listed manifests and decided.
    Decided,
    /// `removed/<epoch>` exists.
    Published,
    /// The list's nodes are gone.
    FirstGone,
    /// All of the list is gone.
    AllGone,
}

/// A reclaimer process's own memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Reclaimer {
    /// How far it has come.
    pub stage: Stage,
    /// Its claim to the lease, 0 if none.
    pub claim: u8,
    /// The epoch in hand.
    pub epoch: u8,
    /// What that epoch condemns.
    pub condemned: Condemned,
    /// Sessions to wait for.
    pub wait: Numbers,
    /// What has proved live so far.
    pub live: Slots,
    /// Backups that the sessions waited for may come to refer forward to.
    pub nexts: Numbers,
    /// Sessions that the first part of the listing showed as ended.
    pub ended: Numbers,
    /// The final list.
    pub list: Slots,
    /// Slots on the list that stay in place all the same: only with `StaysNotListed` off.
    pub skip: Slots,
    /// No session has run since it listed manifests, up to when it listed sessions: it does not
    /// list manifests again.
    pub alone: bool,
    /// No session ran when it read marks, and yet it found less than all that nothing reaches.
    pub leaks: bool,
}

/// One state. `live` is what a reader finds, `durable` what a power cut leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    /// Slots that a reader finds.
    pub live: Slots,
    /// Slots that a power cut leaves.
    pub durable: Slots,
    /// What each node reaches.
    pub refs: [Slots; NODES],
    /// First revisions of manifests, by session.
    pub endings: [Ending; SESSIONS],
    /// Endings that a power cut cannot take back.
    pub settled: Numbers,
    /// Backups forgotten.
    pub tombs: Numbers,
    /// Tombstones that a power cut leaves.
    pub tombs_durable: Numbers,
    /// Backups whose highest revision the storage does not give.
    pub unread: Numbers,
    /// The highest revision of each backup.
    pub revisions: Counts,
    /// Those that a power cut leaves.
    pub revisions_durable: Counts,
    /// Roots of revisions above `.0`.
    pub revised: [[Slots; REVISIONS]; SESSIONS],
    /// What each node refers forward to.
    pub forwards: [Option<Forward>; NODES],
    /// Of a session that rewrites: the number of the revision that it read, and one, as its
    /// manifest says.
    pub made_from: Counts,
    /// Processes that have listed manifests and are about to publish a revision.
    pub revisers: [Option<Intent>; REVISERS],
    /// Forgotten backups whose manifests are gone.
    pub dropped: Numbers,
    /// Session numbers claimed.
    pub created: Numbers,
    /// Newest checkpoints, by session.
    pub checkpoints: [Option<Checkpoint>; SESSIONS],
    /// Objects of epochs, from epoch 1.
    pub epochs: [Epoch; EPOCHS],
    /// The newest marks.
    pub marks: Marks,
    /// The highest claim to the lease.
    pub lease: u8,
    /// Names on record as removed for ever.
    pub recorded: Slots,
    /// Nodes that the index leads to: kept only where look-ups trust the index.
    pub hooks: Slots,
    /// Session processes.
    pub sessions: [Process; SESSIONS],
    /// Reclaimer processes.
    pub reclaimers: [Reclaimer; RECLAIMERS],
    /// Faults still to come.
    pub budget: Budget,
    /// What happened.
    pub history: History,
}

/// Faults that the environment may still cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// Puts repeated late.
    pub late_writes: u8,
    /// Power cuts.
    pub power_cuts: u8,
    /// Reclaimers that die and are replaced.
    pub restarts: u8,
    /// Losses of a group's marks.
    pub marks_losses: u8,
}

/// What happened, for properties that speak of the past.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct History {
    /// Slots that were on a final list.
    pub listed: Slots,
    /// Slots put late.
    pub late: Slots,
    /// Sessions that have had an ending.
    pub ended: Numbers,
    /// One of them got another.
    pub ended_twice: bool,
    /// An epoch condemned too little.
    pub leaked: bool,
    /// A slot was taken that had been condemned and had stayed.
    pub left_alone: bool,
}

impl Reclaimer {
    /// Forgets the epoch, and keeps the claim.
    #[must_use]
    pub fn idle(self) -> Self {
        Self {
            claim: self.claim,
            ..Self::default()
        }
    }
}

impl State {
    /// `set` and everything its nodes reach.
    #[must_use]
    pub fn closure(&self, set: Slots) -> Slots {
        set.node_numbers().fold(set, |reached, n| reached | self.refs[n])
    }

    /// The nodes of `set` that refer forward.
    #[must_use]
    pub fn forwarding(&self, set: Slots) -> Slots {
        let numbers = set.node_numbers().filter(|&n| self.forwards[n].is_some());
        numbers.fold(Slots::NONE, |all, n| {
            all | Slots::node(u8::try_from(n).expect("a few nodes"))
        })
    }

    /// The highest revision of each backup that the storage gives, or that the newest marks cover,
    /// which is not read.
    #[must_use]
    pub fn readable_revisions(&self) -> Counts {
        let mut readable = self.revisions;
        for (backup, number) in self.revisions.each() {
            if self.unread.has(backup) && self.marks.revisions.get(backup) < number {
                readable.set(backup, number - 1);
            }
        }
        readable
    }

    /// A session runs: no reclaimer is alone that has not yet listed sessions.
    pub fn somebody_runs(&mut self) {
        for reclaimer in &mut self.reclaimers {
            reclaimer.alone &= reclaimer.stage >= Stage::Waiting;
        }
    }

    /// Whether `backup` may get another revision.
    #[must_use]
    pub fn has_room(&self, backup: usize) -> bool {
        usize::from(self.revisions.get(backup)) < REVISIONS
    }

    /// Publishes the next revision of `backup`.
    pub fn revise(&mut self, backup: usize, root: Slots) {
        let number = self.revisions.get(backup);
        self.revised[backup][usize::from(number)] = root;
        self.revisions.set(backup, number + 1);
    }

    /// The highest epoch that exists, 0 if none.
    #[must_use]
    pub fn highest(&self) -> u8 {
        let mut highest = 0;
        for (number, epoch) in (1_u8..).zip(&self.epochs) {
            if epoch.condemned.is_some() || epoch.removed.is_some() {
                highest = number;
            }
        }
        highest
    }

    /// Whether `session` has an ending that a reader sees.
    #[must_use]
    pub fn has_ended(&self, session: usize) -> bool {
        self.dropped.has(session) || self.endings[session] != Ending::None
    }

    /// Committed manifests that a reader sees, forgotten or not.
    pub fn commits(&self) -> impl Iterator<Item = usize> {
        (0..SESSIONS).filter(|&s| !self.dropped.has(s) && matches!(self.endings[s], Ending::Commit { .. }))
    }

    /// Containers of nodes that a committed manifest names.
    #[must_use]
    pub fn named(&self, session: usize) -> Slots {
        match self.endings[session] {
            Ending::Commit { named, .. } => named,
            _ => Slots::NONE,
        }
    }

    /// The end of the chain of adoptions that begins with the adopter `by`.
    #[must_use]
    pub fn last_adopter(&self, by: usize) -> usize {
        let mut last = by;
        for _ in 0..SESSIONS {
            match self.endings[last] {
                Ending::Adopted { by, .. } => last = usize::from(by),
                _ => break,
            }
        }
        last
    }
}

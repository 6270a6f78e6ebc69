//! The rules of the protocol that can be switched off, one by one.
//!
//! With all of them on, the model is the design. A rule that can be switched off without a
//! violation in any scenario is either redundant or not expressed; `docs/protocol-model.md` says
//! which.

/// One clause of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Rule {
    /// Who finds a higher claim to the lease gives its own up, before it removes anything.
    LeaseGivenUp,
    /// The highest claim to the lease is never deleted.
    HighestClaimKept,
    /// Where a group's marks are missing, every container is swept, not the group's own alone.
    MissingSweepsAll,
    /// Sweep list: containers of expired sessions.
    SweepExpired,
    /// Sweep list: containers of the sessions that a swept session adopted.
    SweepAdopted,
    /// Containers of an adopted session are swept in every epoch once its last adopter has ended,
    /// for as long as it could wake and put another.
    SweepLatePuts,
    /// Sweep list: whatever an earlier epoch condemned and did not remove.
    SweepLeftovers,
    /// Slots found unreached at a backup's first mark stay on the sweep list until an epoch
    /// condemns them.
    FirstMarkOwed,
    /// "Covered" means by the marks that `condemned/<epoch>` names, whoever finishes the epoch.
    CoveredByNamedMarks,
    /// Marks that drop bits replace the previous ones only once `removed/<epoch>` exists.
    MarksAfterRemoved,
    /// ... and are exactly those that the epoch was computed from.
    MarksExactlyThose,
    /// The reclaimer creates `condemned/<epoch>`, then lists sessions.
    CondemnThenList,
    /// A session creates itself, then lists epochs.
    CreateThenList,
    /// The highest epoch is never dropped.
    HighestEpochKept,
    /// `condemned/<epoch>` created below the highest is void; its creator lists after creating.
    LowerCondemnedVoid,
    /// The same for `removed/<epoch>`: its creator lists after creating, before it removes
    /// anything.
    LowerRemovedVoid,
    /// A session drains look-ups begun before it saw an epoch, then answers.
    Drain,
    /// A session treats condemned slots as absent from the moment it sees the epoch.
    CondemnedAbsent,
    /// Parents are chosen from manifests listed after the session has listed epochs.
    ParentsListedAfter,
    /// Parents are declared before anything of theirs is used.
    ParentsDeclared,
    /// An answer declares every parent chosen so far; a parent chosen and not declared does not
    /// outlive it.
    AnswerDeclaresChosen,
    /// The declared revision of a parent is what is marked.
    ParentRevisionMarked,
    /// Checkpoints are read, and then manifests are listed again.
    CheckpointsThenManifests,
    /// Commits not covered are marked even if forgotten since.
    UncoveredEvenForgotten,
    /// ... with every node in the recipe containers that they wrote.
    UncoveredAllNodes,
    /// ... or that a session that they adopted wrote.
    UncoveredAdoptedNodes,
    /// The checkpoint named by every adoption whose adopter has not ended is marked.
    AdoptionMarked,
    /// Whether an adoption still counts is decided by its last adopter, through a chain of
    /// adoptions.
    LastAdopter,
    /// Dead slots that stay in place are not on the removed list.
    StaysNotListed,
    /// A dead node that stays keeps all that it reaches.
    StayKeepsReach,
    /// Nodes are removed before data.
    NodesFirst,
    /// ... and their removal is durable before any data slot is removed.
    NodesGoneDurably,
    /// Names of removed containers stay on record for ever.
    NamesOnRecord,
    /// A look-up returns a node only from a container named by a committed manifest.
    LookupOnlyCommitted,
    /// Hooks to nodes are published after the manifest.
    HooksAfterManifest,
    /// An index rebuild hooks only nodes that marks reach.
    RebuildOnlyMarked,
    /// `barrier` covers what its caller has read, and not only what it has put.
    BarrierCoversRead,
    /// An adopter takes checkpoint k, which its adoption names, and nothing later.
    AdoptReadsOnlyK,
    /// An adopter adopts lower session numbers only.
    AdoptLowerOnly,
    /// Of a forgotten backup the lower revisions go first, the tombstone last.
    TombstoneLast,
    /// A forgotten manifest is dropped only when the marks of the newest epoch cover its tombstone.
    DropOnlyCovered,
    /// Which commits there are and which adopters have ended is read off one listing.
    OneListing,
    /// A reclaimer reads every checkpoint of a session, and not the newest alone.
    AllCheckpointsRead,
    /// A revision with another root is first committed as the rewriting session's own manifest.
    RewriteCommittedFirst,
    /// Marks cover revisions: a backup with a newer revision is not covered.
    RevisionsCovered,
    /// Caches older than the oldest kept epoch are dropped.
    CachesDropped,
    /// An "expired" or "adopted" ending is not dropped while its session could wake.
    EndingKept,
    /// A forgotten backup is marked while one that is not forgotten refers forward to it.
    KeepNext,
    /// ... and so is the next of a forgotten backup that is kept.
    KeepNextOfKept,
    /// Whether a forgotten backup is kept is decided for each epoch anew: marks cover a tombstone
    /// as dead or as kept.
    KeptAnew,
    /// A commit or a revision that no marks cover is live with the forgotten backups that it refers
    /// forward to.
    UncoveredNext,
    /// A reader declares every backup that the one it reads refers forward to.
    ReaderPinsChain,
    /// ... all of them from one listing.
    ChainFromOneList,
    /// A session that rewrites declares the backup that it rewrites.
    RewriterPinsRewritten,
    /// ... and those that the new root, or the old one, refers forward to.
    RewriterPinsNext,
    /// What a session that rewrites has declared, besides the backup that it rewrites, is live in
    /// its last revision too, with the forgotten backups behind it.
    DeclaredNextKept,
    /// Manifests of a forgotten backup that is kept are not dropped.
    NextManifestStays,
    /// ... nor while any other, forgotten or not, refers forward to it.
    DroppedFromFirstOn,
    /// ... nor those of one that a running session has declared.
    PinnedManifestStays,
    /// What a session has rewritten is published above the roots that it read, and above no others.
    RootsAsRead,
    /// Its own manifest is forgotten by nobody before the backup has another root or a tombstone.
    RewriterForgottenLast,
    /// Its own manifest is durable before the backup's revision is put.
    RewriterSettled,
    /// The backup's revision is durable before the session's own tombstone is put.
    RevisionSettled,
    /// A look-up returns no node that refers forward.
    LookUpNoForwards,
    /// Nor is one taken from a parent.
    SpliceNoForwards,
    /// Who publishes runs a session meanwhile, so that no reclaimer is alone.
    PublishedInSession,
    /// A revision that the storage does not give stops a reclaimer: no lower one stands in for it.
    UnreadStops,
    /// ... and nobody makes a revision above it from a lower one.
    UnreadNotRevised,
}

impl Rule {
    /// Every rule, in the order of the design's text.
    pub const ALL: &'static [Self] = &[
        Self::LeaseGivenUp,
        Self::HighestClaimKept,
        Self::MissingSweepsAll,
        Self::SweepExpired,
        Self::SweepAdopted,
        Self::SweepLatePuts,
        Self::SweepLeftovers,
        Self::FirstMarkOwed,
        Self::CoveredByNamedMarks,
        Self::MarksAfterRemoved,
        Self::MarksExactlyThose,
        Self::CondemnThenList,
        Self::CreateThenList,
        Self::HighestEpochKept,
        Self::LowerCondemnedVoid,
        Self::LowerRemovedVoid,
        Self::Drain,
        Self::CondemnedAbsent,
        Self::ParentsListedAfter,
        Self::ParentsDeclared,
        Self::AnswerDeclaresChosen,
        Self::ParentRevisionMarked,
        Self::CheckpointsThenManifests,
        Self::UncoveredEvenForgotten,
        Self::UncoveredAllNodes,
        Self::UncoveredAdoptedNodes,
        Self::AdoptionMarked,
        Self::LastAdopter,
        Self::StaysNotListed,
        Self::StayKeepsReach,
        Self::NodesFirst,
        Self::NodesGoneDurably,
        Self::NamesOnRecord,
        Self::LookupOnlyCommitted,
        Self::HooksAfterManifest,
        Self::RebuildOnlyMarked,
        Self::BarrierCoversRead,
        Self::AdoptReadsOnlyK,
        Self::AdoptLowerOnly,
        Self::TombstoneLast,
        Self::DropOnlyCovered,
        Self::OneListing,
        Self::AllCheckpointsRead,
        Self::RewriteCommittedFirst,
        Self::RevisionsCovered,
        Self::CachesDropped,
        Self::EndingKept,
        Self::KeepNext,
        Self::KeepNextOfKept,
        Self::KeptAnew,
        Self::UncoveredNext,
        Self::ReaderPinsChain,
        Self::ChainFromOneList,
        Self::RewriterPinsRewritten,
        Self::RewriterPinsNext,
        Self::DeclaredNextKept,
        Self::NextManifestStays,
        Self::DroppedFromFirstOn,
        Self::PinnedManifestStays,
        Self::RootsAsRead,
        Self::RewriterForgottenLast,
        Self::RewriterSettled,
        Self::RevisionSettled,
        Self::LookUpNoForwards,
        Self::SpliceNoForwards,
        Self::PublishedInSession,
        Self::UnreadStops,
        Self::UnreadNotRevised,
    ];
}

/// Which rules hold in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules(u128);

impl Rules {
    /// The design.
    #[must_use]
    pub const fn all() -> Self {
        Self(u128::MAX)
    }

    /// The same rules less one.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u32))
    }

    /// Whether `rule` is on.
    #[must_use]
    pub const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }
}

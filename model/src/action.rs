//! The steps of the model. Each is one operation on the store, or a few that nothing can come
//! between with a different result.

use crate::slots::{Numbers, Slots};

/// One step; `session` and `by` are numbers of processes. Of two reclaimers the numbers mean
/// nothing: they are ordered by what they know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are named alike in every step")]
#[rustfmt::skip]
pub enum Action {
    /// A session claims its number.
    CreateSession { session: usize },
    /// A session lists epochs and treats as absent what they name.
    ListEpochs { session: usize },
    /// A heartbeat with a checkpoint: it answers every epoch seen, and may declare the parent
    /// chosen.
    Checkpoint { session: usize, declares: bool },
    /// A session gives up a reference that it does not use.
    Release { session: usize, slot: Slots },
    /// A session that rewrites puts what it copies, and the new root, which may refer forward.
    WriteRevision { session: usize, refs: Slots, to: Option<usize> },
    /// Somebody lists manifests, and finds what a session has rewritten and not published.
    ListForRevision { session: usize },
    /// That is published as a backup's next revision.
    PutRevision { session: usize, backup: usize },
    /// Somebody was quicker: the number is taken, or the backup is forgotten.
    LoseRevision { session: usize },
    /// The manifest of a session that rewrote gets its tombstone.
    ForgetRewriter { session: usize },
    /// A look-up has found a slot and not yet returned it.
    BeginLookUp { session: usize, slot: Slots },
    /// The look-up returns; the session refers to the slot.
    FinishLookUp { session: usize },
    /// Both at once.
    LookUp { session: usize, slot: Slots },
    /// A session puts a data container.
    WriteData { session: usize, slot: Slots },
    /// A session puts a recipe container.
    WriteNode { session: usize, slot: Slots, refs: Slots },
    /// A session lists manifests and chooses a parent among those not forgotten.
    ChooseParent { session: usize, backup: usize },
    /// A session takes over what its declared parent reaches.
    SpliceParent { session: usize },
    /// An adopter reads the number and the content of the old session's newest checkpoint, k.
    ReadForAdoption { session: usize, old: usize },
    /// It creates the old session's ending, "adopted by me, at checkpoint k", and takes what k
    /// names.
    WinAdoption { session: usize, old: usize },
    /// The old session had its ending already.
    LoseAdoption { session: usize, old: usize },
    /// A barrier, then the manifest.
    Commit { session: usize, root: Slots },
    /// The barrier after the manifest, and the hooks to nodes.
    SettleManifest { session: usize },

    /// A reclaimer claims the lease.
    Claim { by: usize },
    /// It finds a higher claim than its own.
    GiveUp { by: usize },
    /// The highest claim is deleted: only with `HighestClaimKept` off.
    DropClaim,
    /// A reclaimer lists epochs and finds none open.
    Begin { by: usize },
    /// It finds one open and goes on with it.
    TakeOver { by: usize, epoch: u8 },
    /// It lists the first of the manifests.
    ReadFirstManifest { by: usize },
    /// It lists manifests, marks, and computes what is dead.
    ReadMarks { by: usize },
    /// It announces what it condemns.
    PutCondemned { by: usize, epoch: u8 },
    /// Another has created that epoch first.
    LoseEpoch { by: usize, epoch: u8 },
    /// Its object is below the highest epoch.
    FindVoid { by: usize, epoch: u8 },
    /// It lists sessions: these it waits for.
    ListSessions { by: usize },
    /// It ends a session that did not answer, or that died after it had.
    Expire { by: usize, session: usize },
    /// All have answered or ended; it reads their checkpoints.
    ReadCheckpoints { by: usize },
    /// It lists the first part of the manifests again.
    ListFirstManifests { by: usize },
    /// It lists manifests again, and decides which dead slots stay in place.
    Decide { by: usize, stay: Slots },
    /// It publishes the final list, or finds another's.
    PutRemoved { by: usize, epoch: u8 },
    /// It removes the list's nodes.
    RemoveFirst { by: usize },
    /// A barrier; it removes the list's data.
    RemoveRest { by: usize },
    /// It publishes the marks that the epoch was computed from: the epoch is finished.
    ReplaceMarks { by: usize },
    /// New backups are added to the marks outside an epoch.
    ExtendMarks,
    /// A finished epoch's objects are dropped.
    DropEpoch { epoch: u8 },

    /// A tombstone.
    Forget { backup: usize },
    /// A next revision with the same root: tags, or a hold.
    Tag { backup: usize },
    /// A next revision with another root.
    Rewrite { backup: usize },
    /// A forgotten manifest is dropped, its tombstone last.
    DropManifest { backup: usize },
    /// The tombstone is dropped first: only with `TombstoneLast` off.
    DropTombstone { backup: usize },
    /// An ending is dropped while its session could wake: only with `EndingKept` off.
    DropEnding { session: usize },
    /// The index is lost and rebuilt.
    RebuildIndex,
    /// The marks of a backup's group are lost.
    LoseMarks { backup: usize },
    /// The storage does not give a backup's highest revision, and may give it again.
    LoseSight { backup: usize },
    /// A put is repeated after its object was removed.
    LateWrite { session: usize, slot: Slots },
    /// Every process dies; `kept` of the slots in doubt are there afterwards.
    PowerCut { kept: Slots, endings_lost: Numbers, tombs_lost: Numbers, revisions_lost: Numbers },
    /// A reclaimer dies and another takes its place, knowing nothing.
    Restart { by: usize },
}

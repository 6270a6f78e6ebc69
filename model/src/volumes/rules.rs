//! The rules of volumes that can be switched off, one by one.

/// One clause of the protocol of volumes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Rule {
    /// 1: in-place writes to a frozen block end before the finder reads it.
    Drained,
    /// 2: data is flushed before it is registered.
    DataFlushed,
    /// 3: an intent is durable before the index is asked to increment.
    IntentDurable,
    /// 3: ... and before it is asked to decrement.
    DecIntentDurable,
    /// 4: the map is asked again before it refers to the registered block.
    AskedAgain,
    /// 5: an increment that the map no longer wants is given back.
    GivenBack,
    /// 6: a dropped block is reused only after a full flush that began later.
    ReuseAfterFlush,
    /// 7: ... and after the reads that found it have ended.
    ReadersBeforeReuse,
    /// 7: the collector gives a reference back only after the reads that found it have ended.
    ReadersBeforeDecrement,
    /// 8: a frozen block that a write replaces stays with the finder.
    OrphanStays,
    /// 9: the index applies a batch exactly once.
    ExactlyOnce,
    /// 10: the finder freezes an entry before it reads the block.
    FreezeFirst,
    /// 11: the record that drops a reference is durable before the decrement.
    DropDurable,
    /// 12: after a power cut a `Map` without mark counts only with the right checksum.
    MapChecksum,
    /// 13: ... and after a kill always.
    KillTrusted,
    /// 14: a flush counts only when its mark is durable. With lazy marks: all but the
    /// acknowledgement waits for it.
    MarkDurable,
    /// 15: a mark covers what was logged before the flush began.
    MarkNamesStart,
    /// 16: an intent without a result freezes its entry when the log is replayed.
    IntentFreezes,
    /// 17: what recovery decided about checksums is durable before it serves.
    VerdictDurable,
    /// 18: records behind a gap never count, whatever is later written into the gap.
    GapFenced,
    /// 19: `Found` is judged by the replayed map.
    FoundReevaluated,
    /// 20: a checkpoint waits until no batch is open, or logs its intent again.
    CheckpointWaits,
    /// 21: a checkpoint has only what a durable mark covers.
    CheckpointMarked,
    /// 22: in byte mode the finder compares the two blocks before the map refers to the other.
    BytesCompared,
    /// 23: ... after the increment, which keeps the other block as it is.
    ComparedAfter,
    /// 24: ... and gives the increment back if they differ.
    DifferentGivenBack,
    /// 25: an index that may have lost a batch applies none before all volumes have compared.
    ConfirmedFirst,
    /// 26: a row that is behind its volume's log stops all batches until the maps are counted.
    RowCompared,
    /// 27: a recount takes open batches as not applied, and they are sent again.
    RecountAsksAgain,
    /// 28: ... and gives blocks that nothing refers to and no volume owns to a volume.
    RecountSweeps,
    /// 29: ... and counts maps alone: what was to be given back is given back by that.
    RecountMapsOnly,
    /// 30: only a block that the map got since the newest snapshot is written in place.
    BornNowInPlace,
    /// 31: a dropped block that the newest snapshot has is kept in a dead list.
    SnapshotKeeps,
    /// 32: ... with the bit whether the index counts it.
    DeadCounted,
    /// 33: the removal of a snapshot frees what was born after the one before, and nothing else.
    EarlierSnapshotsKeep,
    /// 34: ... and hands its own dead list on to the next.
    DeadListsMerged,
    /// 35: a snapshot waits until in-place writes have ended.
    SnapshotDrains,
    /// 36: a block is in the pool only when the record that gives it is marked.
    GiveDurable,
    /// 37: a block from the pool is used only when the record that takes it is marked.
    TakeDurable,
    /// 38: the generation is bumped at a takeover: nothing inherited is written in place.
    TakeoverBumps,
    /// 39: inherited blocks are reused only when the former process cannot write any more.
    InheritedWait,
    /// 40: ... and registered only then.
    InheritedNotRegistered,
    /// 41: ... also after another crash.
    InheritedRemembered,
    /// 42: a takeover flushes the device before it checks checksums.
    TakeoverFlushes,
    /// 43: the index refuses batches of the former process.
    ClientFenced,
    /// 44: with lazy marks a block is written in place only if a durable mark covers its `Map`.
    InPlaceMarked,
    /// 45: a full pool takes a block out of the index only if nothing else refers to it.
    UnsharedAlone,
    /// 46: ... and its intent is durable before the index is asked.
    UnIntentDurable,
    /// 47: a snapshot waits while such a batch is open.
    SnapshotAfterUnshare,
    /// 48: the intent that a checkpoint logs again is durable before the root.
    CarriedDurable,
    /// 49: a replay passes over an intent that it has met.
    IntentMetOnce,
    /// 50: a log that turns round overwrites only what a durable checkpoint made unneeded.
    TurnSettled,
    /// 51: records of the lap before do not count.
    LapsTold,
}

impl Rule {
    /// Every rule, in the order of the page.
    pub const ALL: &'static [Self] = &[
        Self::Drained,
        Self::DataFlushed,
        Self::IntentDurable,
        Self::DecIntentDurable,
        Self::AskedAgain,
        Self::GivenBack,
        Self::ReuseAfterFlush,
        Self::ReadersBeforeReuse,
        Self::ReadersBeforeDecrement,
        Self::OrphanStays,
        Self::ExactlyOnce,
        Self::FreezeFirst,
        Self::DropDurable,
        Self::MapChecksum,
        Self::KillTrusted,
        Self::MarkDurable,
        Self::MarkNamesStart,
        Self::IntentFreezes,
        Self::VerdictDurable,
        Self::GapFenced,
        Self::FoundReevaluated,
        Self::CheckpointWaits,
        Self::CheckpointMarked,
        Self::BytesCompared,
        Self::ComparedAfter,
        Self::DifferentGivenBack,
        Self::ConfirmedFirst,
        Self::RowCompared,
        Self::RecountAsksAgain,
        Self::RecountSweeps,
        Self::RecountMapsOnly,
        Self::BornNowInPlace,
        Self::SnapshotKeeps,
        Self::DeadCounted,
        Self::EarlierSnapshotsKeep,
        Self::DeadListsMerged,
        Self::SnapshotDrains,
        Self::GiveDurable,
        Self::TakeDurable,
        Self::TakeoverBumps,
        Self::InheritedWait,
        Self::InheritedNotRegistered,
        Self::InheritedRemembered,
        Self::TakeoverFlushes,
        Self::ClientFenced,
        Self::InPlaceMarked,
        Self::UnsharedAlone,
        Self::UnIntentDurable,
        Self::SnapshotAfterUnshare,
        Self::CarriedDurable,
        Self::IntentMetOnce,
        Self::TurnSettled,
        Self::LapsTold,
    ];
}

/// Which rules hold in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules(u64);

impl Rules {
    /// The design.
    #[must_use]
    pub const fn all() -> Self {
        Self(u64::MAX)
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

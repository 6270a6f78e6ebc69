//! Which scenario shows what a rule of volumes is for.

use super::properties::Violation;
use super::rules::Rule;

/// One rule, switched off in one scenario.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Switched off.
    pub rule: Rule,
    /// What must be found.
    pub finds: Violation,
}

const fn case(rule: Rule, scenario: &'static str, finds: Violation) -> Case {
    Case {
        scenario,
        rule,
        finds,
    }
}

/// Every rule has at least one case.
pub const CASES: &[Case] = {
    use Rule as R;
    use Violation as V;
    &[
        case(R::Drained, "aliasing", V::SharedWrittenInPlace),
        case(R::DataFlushed, "power-cuts", V::RegisteredChanged),
        case(R::IntentDurable, "power-cuts", V::RefsTooMany),
        case(R::DecIntentDurable, "power-cuts", V::RefsTooFew),
        case(R::AskedAgain, "aliasing", V::Leak),
        case(R::GivenBack, "aliasing", V::RefsTooMany),
        case(R::ReuseAfterFlush, "power-cuts", V::FlushedLost),
        case(R::ReuseAfterFlush, "trims", V::FlushedLost),
        case(R::ReadersBeforeReuse, "reads", V::WrongRead),
        case(R::ReadersBeforeDecrement, "reads", V::WrongRead),
        case(R::ReadersBeforeReuse, "snapshot-reads", V::WrongRead),
        case(R::OrphanStays, "aliasing", V::RefsTooFew),
        case(R::ExactlyOnce, "aliasing", V::Damage),
        case(R::ExactlyOnce, "kills", V::RefsTooMany),
        case(R::ExactlyOnce, "late-batches", V::Leak),
        case(R::FreezeFirst, "aliasing", V::SharedWrittenInPlace),
        case(R::DropDurable, "power-cuts", V::RefsTooFew),
        case(R::DropDurable, "trims", V::RefsTooFew),
        case(R::MapChecksum, "power-cuts", V::FlushedLost),
        case(R::KillTrusted, "kills", V::AcknowledgedLost),
        case(R::MarkDurable, "power-cuts", V::FlushedLost),
        case(R::MarkDurable, "torn-blocks", V::FlushedLost),
        case(R::MarkNamesStart, "slow-flushes", V::FlushedLost),
        case(R::IntentFreezes, "kills", V::TwoUses),
        case(R::VerdictDurable, "two-crashes", V::AcknowledgedLost),
        case(R::GapFenced, "two-crashes", V::FlushedLost),
        case(R::FoundReevaluated, "power-cuts", V::TwoUses),
        case(R::CheckpointWaits, "power-cuts", V::RefsTooMany),
        case(R::CheckpointMarked, "power-cuts", V::FlushedLost),
        case(R::BytesCompared, "comparison", V::WriteLost),
        case(R::ComparedAfter, "comparison", V::WriteLost),
        case(R::DifferentGivenBack, "comparison", V::RefsTooMany),
        case(R::ConfirmedFirst, "forgetful-index", V::WriteLost),
        case(R::RowCompared, "forgetful-index", V::WriteLost),
        case(R::RecountAsksAgain, "forgetful-index", V::RefsTooFew),
        case(R::RecountSweeps, "forgetful-index", V::Leak),
        case(R::RecountMapsOnly, "forgetful-index", V::RefsTooFew),
        case(R::BornNowInPlace, "snapshots-cut", V::SnapshotChanged),
        case(R::SnapshotKeeps, "snapshots", V::SnapshotChanged),
        case(R::DeadCounted, "snapshots", V::RefsTooMany),
        case(R::EarlierSnapshotsKeep, "snapshots", V::SnapshotChanged),
        case(R::DeadListsMerged, "snapshots", V::Leak),
        case(R::SnapshotDrains, "snapshots-cut", V::SnapshotChanged),
        case(R::GiveDurable, "hand-over", V::TwoUses),
        case(R::TakeDurable, "hand-over", V::Leak),
        case(R::TakeoverBumps, "takeover", V::WriteLost),
        case(R::InheritedWait, "takeover", V::WriteLost),
        case(R::InheritedNotRegistered, "takeover", V::WriteLost),
        case(R::InheritedRemembered, "takeover-cut", V::WriteLost),
        case(R::TakeoverFlushes, "takeover-cut", V::FlushedLost),
        case(R::ClientFenced, "takeover", V::RefsTooMany),
        case(R::UnsharedAlone, "full-pool", V::RefsTooFew),
        case(R::UnIntentDurable, "full-pool-cut", V::RefsTooFew),
        case(R::SnapshotAfterUnshare, "full-pool-cut", V::RefsTooFew),
        case(R::CheckpointWaits, "carried-batches", V::RefsTooMany),
        case(R::CarriedDurable, "carried-batches", V::RefsTooMany),
        case(R::IntentMetOnce, "carried-batches", V::RefsTooMany),
        case(R::TurnSettled, "turned-logs", V::AcknowledgedLost),
        case(R::LapsTold, "turned-logs", V::AcknowledgedLost),
        case(R::InPlaceMarked, "lazy-marks", V::FlushedLost),
        case(R::MarkDurable, "lazy-marks-sharing", V::FlushedLost),
    ]
};

//! Which scenario shows what a rule is for: the table of `docs/protocol-model.md`, as values.

use crate::properties::Violation;
use crate::rules::Rule;

/// One rule, switched off in one scenario.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Switched off.
    pub rule: Rule,
    /// Other rules, off on both sides, that would do the work of this one.
    pub without: &'static [Rule],
    /// What must be found; `None` where the rule proved redundant in this setting.
    pub finds: Option<Violation>,
}

const fn case(rule: Rule, scenario: &'static str, finds: Violation) -> Case {
    Case {
        scenario,
        rule,
        without: &[],
        finds: Some(finds),
    }
}

const fn beside(rule: Rule, without: &'static [Rule], scenario: &'static str, finds: Violation) -> Case {
    Case {
        scenario,
        rule,
        without,
        finds: Some(finds),
    }
}

const fn redundant(rule: Rule, scenario: &'static str) -> Case {
    Case {
        scenario,
        rule,
        without: &[],
        finds: None,
    }
}

/// Rules whose work another rule does in full, so that no case finds a violation.
///
/// A stale `condemned/<epoch>` does harm only through the `removed/<epoch>` that follows from it,
/// and its creator finds that one void. The rule saves a useless wait, and stays as a second line.
///
/// That a rewriting session's manifest, and then the revision, are durable before what follows:
/// what they reach is durable before they are put, and a reclaimer makes durable what it has read
/// before it acts on it.
pub const IMPLIED: &[Rule] = &[
    Rule::LowerCondemnedVoid,
    Rule::RewriterSettled,
    Rule::RevisionSettled,
];

/// Every rule but the implied ones has at least one case that finds a violation.
pub const CASES: &[Case] = {
    use Rule as R;
    use Violation as V;
    &[
        beside(R::LeaseGivenUp, &[R::LowerRemovedVoid], "leases", V::Inv3Session),
        redundant(R::LeaseGivenUp, "leases"),
        beside(
            R::HighestClaimKept,
            &[R::LowerRemovedVoid],
            "leases",
            V::Inv3Session,
        ),
        redundant(R::HighestClaimKept, "leases"),
        case(R::MissingSweepsAll, "missing-marks", V::Inv9LookUp),
        case(R::SweepExpired, "late-puts", V::NotReclaimed),
        beside(R::SweepAdopted, &[R::SweepLatePuts], "adoption", V::NotReclaimed),
        beside(
            R::SweepAdopted,
            &[R::SweepLatePuts],
            "adopted-containers",
            V::Inv9LookUp,
        ),
        case(R::SweepLatePuts, "late-puts", V::NotReclaimed),
        case(R::SweepLeftovers, "leftovers", V::Inv9LookUp),
        case(R::FirstMarkOwed, "first-marks", V::NotReclaimed),
        case(R::CoveredByNamedMarks, "marks", V::Inv3Manifest),
        case(R::MarksAfterRemoved, "exact-marks", V::Inv9LookUp),
        case(R::MarksExactlyThose, "exact-marks", V::Inv9LookUp),
        case(R::CondemnThenList, "look-ups", V::Inv3Session),
        case(R::CreateThenList, "look-ups", V::Inv3Session),
        case(R::HighestEpochKept, "epoch-numbers", V::Inv3Session),
        redundant(R::LowerCondemnedVoid, "stale-reclaimer"),
        case(R::LowerRemovedVoid, "stale-reclaimer", V::Inv3Session),
        case(R::Drain, "look-ups", V::Inv3Session),
        case(R::CondemnedAbsent, "look-ups", V::Inv3Session),
        case(R::ParentsListedAfter, "parents", V::Inv3Session),
        case(R::ParentsDeclared, "parents", V::Inv3Session),
        case(R::AnswerDeclaresChosen, "parents", V::Inv3Session),
        case(R::ParentRevisionMarked, "parents", V::Inv3Session),
        case(R::CheckpointsThenManifests, "look-ups", V::Inv3Manifest),
        case(R::UncoveredEvenForgotten, "uncovered", V::Inv9LookUp),
        case(R::UncoveredAllNodes, "uncovered", V::Inv9LookUp),
        case(R::UncoveredAdoptedNodes, "adoption", V::Inv9LookUp),
        case(R::AdoptionMarked, "adoption", V::Inv3Adoption),
        case(R::LastAdopter, "adoption-chain", V::Inv3Adoption),
        case(R::StaysNotListed, "leftovers", V::Inv9Standing),
        case(R::StayKeepsReach, "leftovers", V::Inv9LookUp),
        case(R::NodesFirst, "leftovers", V::Inv9Standing),
        case(R::NodesGoneDurably, "power-cut-reclaim", V::Inv9Standing),
        case(R::NamesOnRecord, "late-writer", V::Inv9LookUp),
        redundant(R::LookupOnlyCommitted, "hooks"),
        beside(
            R::LookupOnlyCommitted,
            &[R::HooksAfterManifest],
            "hooks",
            V::Inv9LookUp,
        ),
        beside(
            R::LookupOnlyCommitted,
            &[R::RebuildOnlyMarked],
            "hooks",
            V::Inv9LookUp,
        ),
        redundant(R::HooksAfterManifest, "hooks"),
        beside(
            R::HooksAfterManifest,
            &[R::LookupOnlyCommitted],
            "hooks",
            V::Inv9LookUp,
        ),
        redundant(R::RebuildOnlyMarked, "hooks"),
        beside(
            R::RebuildOnlyMarked,
            &[R::LookupOnlyCommitted],
            "hooks",
            V::Inv9LookUp,
        ),
        case(R::BarrierCoversRead, "power-cut", V::Inv1VisibleNotDurable),
        case(R::BarrierCoversRead, "power-cut-nodes", V::Inv3Session),
        case(R::BarrierCoversRead, "power-cut-reclaim", V::Inv3Manifest),
        case(R::AdoptReadsOnlyK, "adoption", V::Inv3Session),
        case(R::AdoptLowerOnly, "mutual-adoption", V::AdoptionCircle),
        case(R::TombstoneLast, "dropped-manifests", V::Inv3Manifest),
        case(R::DropOnlyCovered, "dropped-manifests", V::Inv3Session),
        case(R::OneListing, "slow-listing", V::Inv3Manifest),
        case(R::AllCheckpointsRead, "releases", V::Inv3Adoption),
        case(R::RewriteCommittedFirst, "rewriting", V::Inv3Manifest),
        case(R::RevisionsCovered, "rewriting", V::Inv3Manifest),
        case(R::CachesDropped, "old-caches", V::Inv3Session),
        case(R::EndingKept, "dropped-endings", V::SecondEnding),
        case(R::KeepNext, "forgotten-middle", V::Inv3Forward),
        case(R::KeepNext, "optimizing", V::Inv3Forward),
        case(R::KeepNextOfKept, "forgotten-chain", V::Inv3Forward),
        case(R::KeptAnew, "optimizing", V::NotReclaimed),
        case(R::KeptAnew, "archival-look-ups", V::Inv3Forward),
        case(R::UncoveredNext, "optimizing", V::Inv3Forward),
        case(R::UncoveredEvenForgotten, "archival-chain", V::Inv3Forward),
        case(R::ReaderPinsChain, "archival-chain", V::Inv3Session),
        case(R::ReaderPinsChain, "forgotten-middle", V::Inv3Session),
        case(R::ParentRevisionMarked, "archival-chain", V::Inv3Session),
        case(R::ChainFromOneList, "archival-chain", V::Inv3Session),
        case(R::RewriterPinsRewritten, "optimizing", V::Inv3Session),
        case(R::RewriterPinsNext, "optimizing", V::Inv3Forward),
        case(R::RewriterPinsNext, "forgotten-middle", V::Inv3Session),
        case(R::DeclaredNextKept, "neighbours", V::Inv3Forward),
        case(R::NextManifestStays, "archival-housekeeping", V::Inv3Forward),
        case(R::DroppedFromFirstOn, "neighbours-dropped", V::Inv3Forward),
        case(R::PinnedManifestStays, "archival-housekeeping", V::Inv3Forward),
        case(R::RootsAsRead, "two-optimizers", V::Inv3Manifest),
        case(R::RewriterForgottenLast, "optimizing", V::Inv3Manifest),
        redundant(R::RewriterSettled, "archival-power"),
        redundant(R::RewriterSettled, "archival-power-fresh"),
        redundant(R::RewriterSettled, "archival-power-middle"),
        redundant(R::RevisionSettled, "archival-power"),
        redundant(R::RevisionSettled, "archival-power-fresh"),
        redundant(R::RevisionSettled, "archival-power-middle"),
        case(R::BarrierCoversRead, "archival-power-fresh", V::Inv3Forward),
        case(R::LookUpNoForwards, "archival-look-ups", V::Inv3Forward),
        case(R::SpliceNoForwards, "archival-parents", V::Inv3Forward),
        case(R::PublishedInSession, "archival-alone", V::Inv3Manifest),
        case(R::RevisionsCovered, "archival-marks", V::Inv3Manifest),
        case(R::UnreadStops, "archival-unread", V::Inv3Manifest),
        case(R::UnreadNotRevised, "archival-unread", V::Inv3Manifest),
    ]
};

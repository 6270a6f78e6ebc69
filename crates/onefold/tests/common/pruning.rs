//! What tests of reclamation share: prunes, forgets, and whether every byte that is stored is
//! explained.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use container::Containers;
use crypto::Credential;
use env::Storage;
use format::names;
use object::config;
use onefold::{
    Error, ForgetRequest, ForgetWhat, Monitor, PruneLimits, PruneOptions, PruneReport, PruneUnused,
    SessionId, SessionPolicy, Store,
};
use types::{ContainerId, ContainerKind, Slot, SlotRange};

use super::Process;
use super::explained::assert_small_objects_explained;
use super::reclaimer::{Reclaimer, Slots};

const KINDS: [ContainerKind; 5] = [
    ContainerKind::Data,
    ContainerKind::Recipe,
    ContainerKind::Archive,
    ContainerKind::Catalog,
    ContainerKind::Small,
];

/// Options that let so much stay dead.
pub fn leaving(unused_max: PruneUnused) -> PruneOptions {
    PruneOptions::default().limits(PruneLimits::default().unused_max(unused_max))
}

/// Nothing may stay dead.
pub fn everything() -> PruneOptions {
    leaving(PruneUnused::Bytes(0))
}

/// The same, and what is kept for a while goes at once.
pub fn everything_at_once() -> PruneOptions {
    everything().keep_endings_for(Duration::ZERO)
}

/// The same among processes that are dead or answer at once, for tests that wait for the dead
/// often.
pub fn impatient(options: PruneOptions) -> PruneOptions {
    let policy = SessionPolicy {
        unmoved_for: Duration::from_secs(60),
        ..SessionPolicy::default()
    };
    options
        .policy(Some(policy))
        .answer_within(Duration::from_secs(120))
}

/// What a prune may do to containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Removes,
    Compacts,
    Trims,
}

impl Stage {
    pub const ALL: [Self; 3] = [Self::Removes, Self::Compacts, Self::Trims];

    /// How many containers that was done to.
    pub fn count(self, report: &PruneReport) -> u64 {
        match self {
            Self::Removes => report.containers_removed,
            Self::Compacts => report.containers_compacted,
            Self::Trims => report.containers_trimmed,
        }
    }
}

/// A test of these stages is one of nothing where they do not take place.
pub fn assert_stages(report: &PruneReport, stages: &[Stage], when: &str) {
    for stage in stages {
        assert!(stage.count(report) > 0, "{when}: none of {stage:?}: {report:?}");
    }
}

pub fn try_prune(store: &Store, options: &PruneOptions) -> Result<PruneReport, Error> {
    let done = store.prune(options, &Monitor::default());
    done.map(|(report, _)| report)
}

/// Prunes, whatever is to be said of it.
pub fn prune_after_crash(store: &Store, options: &PruneOptions, when: &str) -> PruneReport {
    let done = store.prune(options, &Monitor::default());
    done.unwrap_or_else(|error| panic!("{when}: prune: {error}")).0
}

/// Prunes a store on which nothing is damaged.
pub fn prune(store: &Store, options: &PruneOptions, when: &str) -> PruneReport {
    let (report, warnings) = store
        .prune(options, &Monitor::default())
        .unwrap_or_else(|error| panic!("{when}: prune: {error}"));
    assert!(
        warnings.is_empty() && report.damaged.is_empty(),
        "{when}: {warnings:?} {report:?}"
    );
    report
}

pub fn try_forget(store: &Store, id: SessionId) -> Result<(), Error> {
    let request = ForgetRequest::new(ForgetWhat::Named(vec![id.to_string()]))
        .is_dry_run(false)
        .force_unreadable(false);
    store.forget(&request, &Monitor::default()).map(drop)
}

pub fn forget(store: &Store, id: SessionId) {
    try_forget(store, id).unwrap();
}

/// Bytes of all containers, copies included.
pub fn stored(machine: &Process) -> u64 {
    let folders = KINDS.iter().map(|kind| kind.folder()).chain(["mirror"]);
    let objects = folders.flat_map(|folder| machine.storage.list(folder).unwrap());
    objects.map(|object| object.len).sum()
}

/// After a prune that left nothing: every slot stored is one that a kept backup reaches, or in a
/// container of a session that has no ending; every container has one generation and the copies of
/// its kind; no epoch is open; and all small objects are there for a reason that
/// [`assert_small_objects_explained`] names.
pub fn assert_nothing_unexplained(process: &Process, when: &str) {
    assert_explained(process, true, when);
}

/// The same where one that cannot trim may have finished what one that can had begun: what should
/// have been given back may still be there, until its container is copied.
pub fn assert_nothing_unexplained_but_holes(process: &Process, when: &str) {
    assert_explained(process, false, when);
}

fn assert_explained(process: &Process, all_given_back: bool, when: &str) {
    let reclaimer = Reclaimer::new(process.clone());
    let mut reached = Slots::new();
    let manifests = reclaimer.manifests.list().unwrap();
    for entry in manifests.backups() {
        reached.extend(reclaimer.reached_by(entry.backup().unwrap()));
    }
    // What archival backups refer forward to is kept for them, forgotten or not.
    for link in reclaimer
        .manifests
        .chains(&manifests, manifests.backups())
        .unwrap()
    {
        reached.extend(reclaimer.reached_by(&link.backup));
    }
    let opened = config::open(&process.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(process.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let mut by_container: BTreeMap<ContainerId, BTreeSet<Slot>> = BTreeMap::new();
    for location in &reached {
        let slots = by_container.entry(location.container).or_default();
        slots.insert(location.slot);
    }
    let sessions: BTreeSet<SessionId> = by_container.keys().map(|id| id.session).collect();
    let running: BTreeSet<SessionId> = reclaimer.table().running.iter().map(|info| info.id).collect();
    let mut mirrors: BTreeSet<String> = process.names("mirror").into_iter().collect();
    let (mut seen, mut bodies, mut trimmed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for kind in KINDS {
        for meta in process.storage.list(kind.folder()).unwrap() {
            if let Some(body) = names::parse_body(&meta.name) {
                bodies.insert(body);
                continue;
            }
            let (id, generation) = names::parse_container(&meta.name).unwrap();
            assert!(seen.insert(id), "{when}: {id} has several generations");
            if let Some(mirror) = names::mirror(id, generation) {
                // Who was killed between the two copies may come to its end yet.
                let has_both = mirrors.remove(mirror.as_str()) || running.contains(&id.session);
                assert!(has_both, "{when}: {id} has no second copy");
            }
            if running.contains(&id.session) {
                by_container.remove(&id);
                continue;
            }
            if kind == ContainerKind::Catalog {
                assert!(
                    sessions.contains(&id.session),
                    "{when}: {id} is of what is no more"
                );
                continue;
            }
            let view = containers.generation(id, generation).unwrap();
            if let Some(body) = view.body() {
                trimmed.insert((id, body));
                let bytes = process.storage.get(&names::body(id, body)).unwrap();
                for range in view.given_back().into_iter().filter(|_| all_given_back) {
                    let given_back = &bytes[usize::try_from(range.offset).unwrap()..]
                        [..usize::try_from(range.len).unwrap()];
                    assert!(
                        given_back.iter().all(|byte| *byte == 0),
                        "{when}: {id} has {range:?} still"
                    );
                }
            }
            let slots: BTreeSet<Slot> = view.entries().iter().map(|entry| entry.slot).collect();
            let expected = by_container.remove(&id).unwrap_or_default();
            assert!(
                slots == expected,
                "{when}: {id} has {:?}, of which {:?} are reached",
                ranges(&slots),
                ranges(&expected)
            );
        }
    }
    assert_eq!(bodies, trimmed, "{when}: bodies, and trimmed generations");
    // Nor is what a power cut has left of the two taken from one that no epoch has had to wait for
    // yet.
    mirrors.retain(|name| {
        let mirror = names::parse_mirror(&types::ObjectName::new(name.as_str()).unwrap()).unwrap();
        !running.contains(&mirror.session)
    });
    assert!(mirrors.is_empty(), "{when}: copies of nothing: {mirrors:?}");
    assert!(by_container.is_empty(), "{when}: missing: {by_container:?}");
    let condemned = process.names("condemned");
    assert!(condemned.is_empty(), "{when}: an epoch is open: {condemned:?}");
    assert_small_objects_explained(process, &reclaimer, &containers, when);
}

fn ranges(slots: &BTreeSet<Slot>) -> Vec<SlotRange> {
    let mut out: Vec<SlotRange> = Vec::new();
    for slot in slots {
        match out.last_mut() {
            Some(last) if last.end() == slot.get() => {
                *last = SlotRange::new(last.first(), last.count() + 1).unwrap();
            }
            _ => out.push(SlotRange::one(*slot)),
        }
    }
    out
}

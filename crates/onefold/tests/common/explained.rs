//! Checks that the other objects of a store explain each of its small objects.

use std::collections::{BTreeMap, BTreeSet};

use container::{ContainerError, Containers};
use env::Storage;
use format::frame::ObjectKind;
use format::manifest::Manifest;
use format::names::{self, LeaseRole, SessionObject};
use format::reclaim::{GroupId, Marks, Removed};
use format::session::{Claim, Lease, READ_SERIES};
use object::Sealer;
use session::{ManifestList, SessionTable};
use types::{Epoch, ObjectName, Revision, SeriesId, SessionId};

use super::Process;
use super::reclaimer::Reclaimer;

/// Sessions that ended longer ago than this number of sessions are tidied only now and then
/// (`Session::gc_sessions`).
const TIDIED: u64 = 64;
/// For each lease: the claim released last, the held one, and those of one earlier holder that ran
/// no barrier.
const LEASE_CLAIMS_MAX: usize = 4;

/// After a prune that has completed, each object has a reason:
///
/// | object | reason |
/// |---|---|
/// | `backups/*/<n>.<r>` | a backup that is kept, with all its revisions; a tombstone, or the ending of a session that died, which are kept for 30 days; the ending of a reader, which the second tidying after it deletes. An unreadable one has a readable revision beside it |
/// | `sessions/<n>/claim` | the session has an ending, and its number must not be given out again; or it has none, and a later session may adopt it. A reader that ended itself before the last prune has none |
/// | `sessions/<n>/committed` | the session has a manifest: a backup, or its tombstone |
/// | `sessions/<n>/heartbeat.<c>` | the session has no ending, or ended after the last prune began |
/// | `sessions/<n>/checkpoint.<k>` | the same; or the session's ending is an adoption that names it |
/// | `groups/<group>.<r>` | the revision that counts; each backup that it covers has a manifest, or had a tombstone that was deleted since; if it covers none, the newest removed list names the group, which would otherwise be missing |
/// | `removed/<e>` | the newest; an older one if one of its slots still exists, or if a session without an ending may remember catalogs from before it |
/// | `condemned/<e>` | never: no epoch is open |
/// | `damaged/<container>.<n>` | the container exists |
/// | `lease/<role>.<m>` | the highest claim, and the few that no barrier has covered since |
/// | `config`, `reserve`, `index`, `series` | always |
///
/// No other object may exist.
pub fn assert_small_objects_explained(
    process: &Process,
    reclaimer: &Reclaimer,
    containers: &Containers,
    when: &str,
) {
    let sealer = reclaimer.sealer();
    let store = Seen {
        process,
        sealer,
        containers,
        manifests: reclaimer.manifests.list().unwrap(),
        table: reclaimer.table(),
        removed: process
            .names("removed")
            .iter()
            .filter_map(|name| names::parse_removed(&named(name)))
            .collect(),
    };
    let parts = [
        store.foreign(),
        store.manifests(),
        store.sessions(),
        store.marks(),
        store.lists(),
        store.damaged(),
        store.leases(),
    ];
    let unexplained = parts.concat();
    assert!(unexplained.is_empty(), "{when}: nobody needs {unexplained:#?}");
}

fn named(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// The objects in a session's folder.
#[derive(Default)]
struct Folder {
    claimed: bool,
    committed: bool,
    heartbeats: Vec<ObjectName>,
    checkpoints: Vec<(u32, ObjectName)>,
}

/// A store at one moment.
struct Seen<'a> {
    process: &'a Process,
    sealer: &'a Sealer,
    containers: &'a Containers,
    manifests: ManifestList,
    table: SessionTable,
    removed: BTreeSet<Epoch>,
}

impl Seen<'_> {
    /// Objects that no part of the format knows.
    fn foreign(&self) -> Vec<String> {
        let listed = self.process.storage.list("").unwrap();
        let foreign = listed.iter().filter(|meta| !is_ours(&meta.name));
        foreign
            .map(|meta| format!("{}: no name of ours", meta.name))
            .collect()
    }

    /// The session that pruned last. It has tidied the sessions that had ended before it began.
    fn last_prune(&self) -> Option<SessionId> {
        let (number, _) = self.claims(LeaseRole::Reclaim).pop_last()?;
        let name = names::lease(LeaseRole::Reclaim, number);
        let lease = self.sealer.read(&name, ObjectKind::Lease, Lease::decode);
        lease.ok().map(|lease| lease.holder)
    }

    fn claims(&self, role: LeaseRole) -> BTreeMap<Revision, ObjectName> {
        let listed = self.process.names("lease").into_iter().map(|name| named(&name));
        let parsed = listed.filter_map(|name| Some((names::parse_lease(&name)?, name)));
        parsed
            .filter(|((of, _), _)| *of == role)
            .map(|((_, number), name)| (number, name))
            .collect()
    }

    fn leases(&self) -> Vec<String> {
        let many = LeaseRole::ALL
            .map(|role| self.claims(role))
            .into_iter()
            .filter(|claims| claims.len() > LEASE_CLAIMS_MAX);
        many.map(|claims| format!("{:?}: claims that are superseded", claims.values()))
            .collect()
    }

    fn ending(&self, series: SeriesId, id: SessionId) -> Option<Manifest> {
        let name = names::manifest(series, id, Revision::FIRST);
        self.sealer
            .read(&name, ObjectKind::Manifest, Manifest::decode)
            .ok()
    }

    /// Series in which each session has manifests.
    fn series(&self) -> BTreeMap<SessionId, BTreeSet<SeriesId>> {
        let mut all: BTreeMap<SessionId, BTreeSet<SeriesId>> = BTreeMap::new();
        for name in self.process.names("backups") {
            let (series, id, _) = names::parse_manifest(&named(&name)).unwrap();
            all.entry(id).or_default().insert(series);
        }
        all
    }

    fn manifests(&self) -> Vec<String> {
        let in_doubt = self.manifests.damaged.iter().filter(|object| {
            let (_, id, _) = names::parse_manifest(&object.name).unwrap();
            !self.manifests.has(id)
        });
        in_doubt
            .map(|object| format!("{}: {}", object.name, object.why))
            .collect()
    }

    fn sessions(&self) -> Vec<String> {
        let mut folders: BTreeMap<SessionId, Folder> = BTreeMap::new();
        for name in self
            .process
            .names("sessions")
            .into_iter()
            .map(|name| named(&name))
        {
            let (id, object) = names::parse_session_object(&name).unwrap();
            let folder = folders.entry(id).or_default();
            match object {
                SessionObject::Claim => folder.claimed = true,
                SessionObject::Heartbeat(_) => folder.heartbeats.push(name),
                SessionObject::Checkpoint(number) => folder.checkpoints.push((number, name)),
                SessionObject::Committed => folder.committed = true,
                SessionObject::Lock => panic!("{name}: a lock is no object"),
            }
        }
        let (series, last_prune) = (self.series(), self.last_prune());
        let none = BTreeSet::new();
        let mut out = Vec::new();
        for (id, folder) in folders {
            let series = series.get(&id).unwrap_or(&none);
            out.extend(self.of_session(id, &folder, series, last_prune));
        }
        out
    }

    fn of_session(
        &self,
        id: SessionId,
        folder: &Folder,
        series: &BTreeSet<SeriesId>,
        last_prune: Option<SessionId>,
    ) -> Vec<String> {
        let (claim, mut out) = (names::claim(id), Vec::new());
        let read = self.sealer.read(&claim, ObjectKind::Claim, Claim::decode);
        let of = match &read {
            Ok(claim) => series.get(&claim.series).copied(),
            // A torn claim; its number stays taken.
            Err(_) if folder.claimed => series.first().copied(),
            // It is deleted with the manifest, or belongs to no session.
            Err(_) => match series.first() {
                Some(series) => Some(*series),
                None => {
                    return vec![format!(
                        "what is in {}: there is no claim",
                        names::session_folder(id)
                    )];
                }
            },
        };
        if folder.committed && series.is_empty() {
            out.push(format!("{}: there is no manifest", names::committed(id)));
        }
        let Some(of) = of else { return out };
        if last_prune.is_none_or(|prune| id >= prune || prune.get() - id.get() >= TIDIED) {
            return out;
        }
        let ending = self.ending(of, id);
        if of == READ_SERIES && folder.claimed && ending == Some(Manifest::Expired { by: id }) {
            out.push(format!("{claim}: a reader that ended"));
        }
        let kept = match ending {
            Some(Manifest::Adopted { checkpoint, .. }) => checkpoint,
            // Its content is not known.
            None => return out,
            _ => None,
        };
        let let_go = folder
            .checkpoints
            .iter()
            .filter(|(number, _)| Some(*number) != kept);
        let names = folder.heartbeats.iter().chain(let_go.map(|(_, name)| name));
        out.extend(names.map(|name| format!("{name}: the session has ended")));
        out
    }

    fn marks(&self) -> Vec<String> {
        let newest = self.removed.last().map(|epoch| {
            let name = names::removed(*epoch);
            self.sealer
                .read(&name, ObjectKind::Removed, Removed::decode)
                .unwrap()
        });
        let named_ones: BTreeMap<GroupId, Revision> =
            newest.map_or_else(BTreeMap::new, |newest| newest.marks.into_iter().collect());
        let mut groups: BTreeMap<GroupId, Vec<Revision>> = BTreeMap::new();
        for name in self.process.names("groups") {
            let (group, revision) = names::parse_marks(&named(&name)).unwrap();
            groups.entry(group).or_default().push(revision);
        }
        let mut out = Vec::new();
        for (group, mut revisions) in groups {
            revisions.sort_unstable();
            let base = named_ones.get(&group).copied();
            let above = revisions
                .iter()
                .rev()
                .copied()
                .filter(|revision| base <= Some(*revision));
            let mut read = above.filter_map(|revision| {
                let name = names::marks(group, revision);
                let read = self.sealer.read(&name, ObjectKind::Marks, Marks::decode);
                Some((revision, read.ok()?))
            });
            let counts = read.find(|(revision, marks)| marks.epoch.is_none() || base == Some(*revision));
            for revision in revisions {
                let name = names::marks(group, revision);
                match &counts {
                    Some((counts, marks)) if *counts == revision => {
                        let is_gone = |id: &SessionId| !self.manifests.has(*id);
                        let covered = marks.covers.iter().filter(|covered| !covered.forgotten);
                        let lost: Vec<_> = covered.map(|covered| covered.session).filter(is_gone).collect();
                        if !lost.is_empty() {
                            out.push(format!("{name}: of {lost:?}, which have no manifest"));
                        }
                        if marks.covers.is_empty() && base.is_none() {
                            out.push(format!("{name}: of no backup"));
                        }
                    }
                    _ => out.push(format!("{name}: does not count")),
                }
            }
        }
        out
    }

    fn lists(&self) -> Vec<String> {
        if !self.table.running.is_empty() || !self.table.damaged.is_empty() {
            return Vec::new();
        }
        let mut out = Vec::new();
        for epoch in self.removed.iter().rev().skip(1) {
            let name = names::removed(*epoch);
            let Ok(list) = self.sealer.read(&name, ObjectKind::Removed, Removed::decode) else {
                continue;
            };
            let stands = list.slots.iter().any(|slots| {
                let mut listed = slots.slots.iter().flatten().flat_map(|range| range.iter());
                match self.containers.catalog(slots.container) {
                    Ok(view) => listed.any(|slot| view.entry(slot).is_some()),
                    Err(_) => false,
                }
            });
            if !stands {
                out.push(format!("{name}: nothing on it stands"));
            }
        }
        out
    }

    fn damaged(&self) -> Vec<String> {
        let listed = self.process.names("damaged");
        let gone = listed.iter().filter(|name| {
            let (id, _) = names::parse_damaged(&named(name)).unwrap();
            matches!(self.containers.catalog(id), Err(ContainerError::Missing { .. }))
        });
        gone.map(|name| format!("{name}: its container is gone"))
            .collect()
    }
}

/// Whether the format defines this name.
fn is_ours(name: &ObjectName) -> bool {
    *name == names::reserve()
        || names::parse_config(name).is_some()
        || names::parse_container(name).is_some()
        || names::parse_body(name).is_some()
        || names::parse_mirror(name).is_some()
        || names::parse_manifest(name).is_some()
        || names::parse_session_object(name).is_some()
        || names::parse_marks(name).is_some()
        || names::parse_condemned(name).is_some()
        || names::parse_removed(name).is_some()
        || names::parse_damaged(name).is_some()
        || names::parse_lease(name).is_some()
        || names::parse_settings(name).is_some()
        || names::parse_index_run(name).is_some()
        || names::parse_index_image(name).is_some()
        || names::parse_index_unread(name).is_some()
}

//! Checks the small objects: opens each, whether or not a backup needs it.
//!
//! An object that is deleted during the check is no finding: its owner deleted it. A restore needs
//! only the manifest of its backup. Another unreadable object may be torn by a crash. Its loss
//! affects resuming, deduplication or reclamation, and it is reported as a leftover. So is an open
//! epoch of reclamation.

use std::collections::{BTreeMap, BTreeSet};

use format::FormatError;
use format::frame::ObjectKind;
use format::manifest::Manifest;
use format::names::{self, SessionObject};
use format::reclaim::{Condemned, Damaged, Marks, Removed};
use format::series::SeriesSettings;
use format::session::{Checkpoint, Claim, Heartbeat, Lease, READ_SERIES};
use object::ObjectError;
use session::ManifestList;
use types::{ContainerKind, ObjectName, Revision, SeriesId, SessionId};

use super::lost;

use super::{CheckReport, Damage, refuses};
use crate::covered::Covered;
use crate::error::Result;
use crate::store::Store;

/// The folders of sealed objects; the config is opened with the store.
const FOLDERS: [&str; 8] = [
    names::BACKUPS_FOLDER,
    names::SESSIONS_FOLDER,
    names::CONDEMNED_FOLDER,
    names::REMOVED_FOLDER,
    names::DAMAGED_FOLDER,
    names::LEASE_FOLDER,
    names::GROUPS_FOLDER,
    names::SERIES_FOLDER,
];

type Decode = fn(&[u8]) -> std::result::Result<(), FormatError>;

/// Opens every small object except the manifests of `list`. Returns forgotten backups that `list`
/// does not show as forgotten.
pub(super) fn check(
    store: &Store,
    list: &ManifestList,
    report: &mut CheckReport,
) -> Result<BTreeSet<SessionId>> {
    let stored = list.entries.iter().map(|entry| &entry.stored);
    let mut read: BTreeSet<ObjectName> = stored
        .map(|stored| names::manifest(stored.series, stored.session, stored.revision))
        .collect();
    read.extend(list.damaged.iter().map(|damaged| damaged.name.clone()));
    let mut traces = Traces::default();
    let mut covered = Covered::default();
    for folder in FOLDERS {
        for object in store.env.storage.list(folder)? {
            let Some((kind, decode)) = contents(&object.name) else {
                continue;
            };
            traces.note(&object.name);
            // An epoch is open as long as its condemned list exists.
            if kind == ObjectKind::Condemned {
                report.leave(&object.name, Damage::EpochOpen);
            }
            if read.contains(&object.name) {
                continue;
            }
            let read = if kind == ObjectKind::Marks {
                let marks = store.sealer.read(&object.name, kind, Marks::decode);
                marks.map(|marks| covered.add(&marks))
            } else {
                store.sealer.read(&object.name, kind, decode)
            };
            match read {
                Ok(()) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) if stops(&error) => return Err(error.into()),
                Err(error) if kind == ObjectKind::Manifest && !is_of_reader(&object.name) => {
                    let why = error.to_string();
                    report.find_if(
                        counts(list, &object.name),
                        &object.name,
                        Damage::ManifestDamaged { why },
                        false,
                    );
                }
                Err(error) => {
                    let why = error.to_string();
                    report.leave(&object.name, Damage::ObjectUnread { why });
                }
            }
        }
    }
    traces.find_lost_manifests(store, report)?;
    lost::find_lost_revisions(&covered, store, list, report)
}

/// Whether it can only be the ending of a read session, for which no barrier waits.
fn is_of_reader(name: &ObjectName) -> bool {
    names::parse_manifest(name).is_some_and(|(series, _, _)| series == READ_SERIES)
}

/// The kind and the decoder of the object with this name.
fn contents(name: &ObjectName) -> Option<(ObjectKind, Decode)> {
    if names::parse_manifest(name).is_some() {
        return Some((ObjectKind::Manifest, |bytes| Manifest::decode(bytes).map(drop)));
    }
    if let Some((_, object)) = names::parse_session_object(name) {
        return match object {
            SessionObject::Claim => Some((ObjectKind::Claim, |bytes| Claim::decode(bytes).map(drop))),
            SessionObject::Heartbeat(_) => {
                Some((ObjectKind::Heartbeat, |bytes| Heartbeat::decode(bytes).map(drop)))
            }
            SessionObject::Checkpoint(_) => Some((ObjectKind::Checkpoint, |bytes| {
                Checkpoint::decode(bytes).map(drop)
            })),
            SessionObject::Committed => Some((ObjectKind::Claim, |bytes| Claim::decode(bytes).map(drop))),
            SessionObject::Lock => None,
        };
    }
    let list: (bool, ObjectKind, Decode) = match name.parts().next()? {
        names::CONDEMNED_FOLDER => (
            names::parse_condemned(name).is_some(),
            ObjectKind::Condemned,
            |bytes| Condemned::decode(bytes).map(drop),
        ),
        names::REMOVED_FOLDER => (
            names::parse_removed(name).is_some(),
            ObjectKind::Removed,
            |bytes| Removed::decode(bytes).map(drop),
        ),
        names::DAMAGED_FOLDER => (
            names::parse_damaged(name).is_some(),
            ObjectKind::Damaged,
            |bytes| Damaged::decode(bytes).map(drop),
        ),
        names::LEASE_FOLDER => (names::parse_lease(name).is_some(), ObjectKind::Lease, |bytes| {
            Lease::decode(bytes).map(drop)
        }),
        names::GROUPS_FOLDER => (names::parse_marks(name).is_some(), ObjectKind::Marks, |bytes| {
            Marks::decode(bytes).map(drop)
        }),
        names::SERIES_FOLDER => (
            names::parse_settings(name).is_some(),
            ObjectKind::Series,
            |bytes| SeriesSettings::decode(bytes).map(drop),
        ),
        _ => return None,
    };
    let (is_ours, kind, decode) = list;
    is_ours.then_some((kind, decode))
}

/// Whether the storage refuses or is gone. An unreadable object is a finding, and a missing one may
/// be.
fn stops(error: &ObjectError) -> bool {
    matches!(error, ObjectError::Storage(error) if refuses(error))
}

/// The objects that sessions left, by name.
#[derive(Default)]
struct Traces {
    claimed: BTreeSet<SessionId>,
    committed: BTreeSet<SessionId>,
    alive: BTreeSet<SessionId>,
    ended: BTreeSet<SessionId>,
}

impl Traces {
    fn note(&mut self, name: &ObjectName) {
        if let Some((_, session, _)) = names::parse_manifest(name) {
            self.ended.insert(session);
        }
        match names::parse_session_object(name) {
            Some((session, SessionObject::Claim)) => _ = self.claimed.insert(session),
            Some((session, SessionObject::Committed)) => _ = self.committed.insert(session),
            Some((session, _)) => _ = self.alive.insert(session),
            None => {}
        }
    }

    /// A session deletes its heartbeats only after its ending, and puts the first one before any
    /// container. So containers without either had a manifest, unless a power cut undid an object.
    fn find_lost_manifests(&self, store: &Store, report: &mut CheckReport) -> Result<()> {
        let has_fallen_silent =
            |session: &&SessionId| !self.alive.contains(session) || self.committed.contains(session);
        let candidates = self.claimed.union(&self.committed);
        let candidates = candidates.filter(has_fallen_silent);
        let candidates = candidates.filter(|session| !self.ended.contains(session));
        let mut silent = lost::find_lost_backups(store, candidates.copied(), report)?;
        if !silent.is_empty() {
            // Some may have committed after manifests were listed.
            let now = store.manifests.list()?;
            silent.retain(|session| !now.has(*session));
        }
        if silent.is_empty() {
            return Ok(());
        }
        let mut containers: BTreeMap<SessionId, u64> = BTreeMap::new();
        for kind in ContainerKind::ALL {
            for object in store.env.storage.list(kind.folder())? {
                if let Some((id, _)) = names::parse_container(&object.name) {
                    *containers.entry(id.session).or_default() += 1;
                }
            }
        }
        let runs = store.env.storage.list(names::INDEX_FOLDER)?;
        let own_runs: BTreeSet<SessionId> = runs
            .iter()
            .filter_map(|object| names::parse_index_run(&object.name))
            .filter(|run| run.first == run.last)
            .map(|run| run.first)
            .collect();
        for session in silent {
            let Some(count) = containers.get(&session) else {
                continue;
            };
            let series = match store
                .sealer
                .read(&names::claim(session), ObjectKind::Claim, Claim::decode)
            {
                Ok(claim) => claim.series,
                Err(error) if stops(&error) => return Err(error.into()),
                // It is a finding already, or was deleted meanwhile.
                Err(_) => continue,
            };
            if series != READ_SERIES {
                lost_manifest(report, series, session, *count, own_runs.contains(&session));
            }
        }
        Ok(())
    }
}

/// A session publishes its hooks only after its manifest. So if its hooks exist, there was a
/// manifest.
fn lost_manifest(
    report: &mut CheckReport,
    series: SeriesId,
    session: SessionId,
    containers: u64,
    had_manifest: bool,
) {
    let manifest = names::manifest(series, session, Revision::FIRST);
    if had_manifest {
        report.find(manifest, Damage::ManifestMissing { backup: session }, false);
        report.damaged_backups.insert(session);
    } else {
        report.leave(manifest, Damage::SessionWithoutEnd { session, containers });
    }
}

/// Whether a manifest that cannot be read may be the one that counts of its backup. A revision
/// below the readable one does not.
fn counts(list: &ManifestList, name: &ObjectName) -> bool {
    let Some((_, session, revision)) = names::parse_manifest(name) else {
        return true;
    };
    let entry = list.get(session);
    entry.is_none_or(|entry| !entry.is_forgotten() && revision > entry.stored.revision)
}

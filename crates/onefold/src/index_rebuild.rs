//! Making the index anew: it is a hint, and can be thrown away at any time (INV-4).

use std::collections::{BTreeMap, BTreeSet};

use format::names;
use index::{SessionContainers, Warning};
use object::Sealer;
use session::{EndedBy, ManifestList, SessionError, SessionTable};
use types::{ContainerId, ContainerKind, SessionId};

use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::store::Store;

/// Kinds that have catalogs to hook.
const KINDS: [ContainerKind; 3] = [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Small];

/// What a rebuild did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RebuildReport {
    /// Catalogs read.
    pub containers: u64,
    /// Hooks in the new index.
    pub hooks: u64,
    /// Runs of the new index.
    pub runs: u64,
    /// Containers whose catalog cannot be read, and why.
    pub unreadable: Vec<(String, String)>,
}

impl Store {
    /// Makes the index anew from the catalogs of all containers that sessions have left which ended: of forgotten
    /// backups too, for others may use them.
    ///
    /// # Errors
    /// Of the storage; the old index then stays in use.
    pub fn rebuild_index(&self, monitor: &Monitor) -> Result<RebuildReport> {
        self.ensure_writable()?;
        let list = self.manifests.list()?;
        let sessions = self.to_index(&list)?;
        let containers = sessions.iter().map(|session| session.containers.len() as u64);
        monitor.begin_part(WorkUnit::Containers, containers.sum());
        let index = self.index()?;
        drop(index.take_warnings());
        let containers = index.rebuild(&self.containers, &sessions)?;
        monitor.add_done(containers);
        let warnings = index.take_warnings();
        let unreadable = warnings.iter().filter_map(Warning::of_container);
        let unreadable = unreadable
            .map(|(container, why)| (container.to_string(), why))
            .collect();
        let stats = index.stats();
        Ok(RebuildReport {
            containers,
            hooks: stats.entries,
            runs: stats.runs,
            unreadable,
        })
    }

    /// What is stored, by session: of backups, forgotten ones, adopted sessions, and those whose manifests were dropped.
    /// Not of sessions that run, whose containers are not all there, nor of expired ones, which are swept.
    fn to_index(&self, list: &ManifestList) -> Result<Vec<SessionContainers>> {
        let folders = self.env.storage.list_folders(names::SESSIONS_FOLDER)?;
        let claimed: BTreeSet<SessionId> = folders
            .iter()
            .filter_map(|folder| names::parse_session(folder))
            .collect();
        let is_wanted = |session: &SessionId| match list.get(*session) {
            Some(entry) => !matches!(entry.ended_by(), Some(EndedBy::Expired { .. })),
            None => !claimed.contains(session),
        };
        let mut sessions: BTreeMap<SessionId, BTreeSet<ContainerId>> = BTreeMap::new();
        for kind in KINDS {
            for meta in self.env.storage.list(kind.folder())? {
                if let Some((id, _)) = names::parse_container(&meta.name) {
                    sessions.entry(id.session).or_default().insert(id);
                }
            }
        }
        let wanted = sessions.into_iter().filter(|(session, _)| is_wanted(session));
        let of = |(session, containers): (SessionId, BTreeSet<ContainerId>)| SessionContainers {
            session,
            containers: containers.into_iter().collect(),
        };
        Ok(wanted.map(of).collect())
    }
}

/// The committed sessions that `wanted` chooses, and their containers: their own, and those of the
/// dead sessions that they adopted.
pub(crate) fn committed(
    sealer: &Sealer,
    list: &ManifestList,
    wanted: impl Fn(SessionId) -> bool,
) -> Result<Vec<SessionContainers>> {
    let mut sessions = Vec::new();
    for entry in list.backups().filter(|entry| wanted(entry.session())) {
        let (session, Some(backup)) = (entry.session(), entry.backup()) else {
            continue;
        };
        let mut containers: Vec<_> = backup
            .containers
            .iter()
            .flat_map(|span| span.ids(session))
            .collect();
        for (dead, checkpoint) in &backup.adopted {
            let Some(number) = checkpoint else { continue };
            match SessionTable::adopted_checkpoint(sealer, *dead, *number) {
                Ok(Some(checkpoint)) => {
                    containers.extend(checkpoint.containers.iter().flat_map(|span| span.ids(*dead)));
                }
                // Without it a backup stores their chunks again when it meets them.
                Ok(None) | Err(SessionError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sessions.push(SessionContainers { session, containers });
    }
    Ok(sessions)
}

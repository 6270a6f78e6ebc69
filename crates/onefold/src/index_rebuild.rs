//! Makes a new index. The index is a hint, and can be deleted at any time (INV-4).

use std::collections::{BTreeMap, BTreeSet};

use format::names;
use index::{Index, SessionContainers, Warning};
use object::Sealer;
use session::{EndedBy, ManifestList, SessionError, SessionTable};
use types::{ContainerId, ContainerKind, SessionId};

use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::store::Store;

/// Kinds of containers whose catalogs have hooks.
const KINDS: [ContainerKind; 3] = [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Small];

/// The result of a rebuild.
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
    /// The index as of now.
    pub(crate) fn index(&self) -> Result<Index> {
        self.index_since(self.env.storage.moment())
    }

    /// Makes a new index from the catalogs of all containers of ended sessions. These include
    /// forgotten backups, because other backups may use their containers.
    ///
    /// # Errors
    /// Of the storage. The old index then stays in use.
    pub fn rebuild_index(&self, monitor: &Monitor) -> Result<RebuildReport> {
        self.ensure_writable()?;
        let _past = self.past_cache();
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

    /// The containers for the index, by session: of backups, including forgotten ones, of adopted
    /// sessions, and of sessions whose manifests were deleted. Running sessions are left out,
    /// because they have not put all containers yet. Expired ones are left out, because they are
    /// swept.
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
                // Without it, a backup stores these chunks again when it needs them.
                Ok(None) | Err(SessionError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sessions.push(SessionContainers { session, containers });
    }
    Ok(sessions)
}

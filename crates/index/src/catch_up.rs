//! Adds hooks from catalogs: of sessions that no run covers, or of the whole store.
//!
//! If a catalog cannot be read now, the index remembers it ([`crate::unindexed`]), and its session
//! still counts as covered. Later calls seldom try that catalog again.

use std::collections::BTreeMap;

use container::{ContainerError, Containers};
use env::StorageError;
use format::names;
use types::{ContainerId, ContainerKind, SessionId};

use crate::error::{IndexError, Warning};
use crate::index::Index;
use crate::session::{HookWriter, SessionContainers, span_of};
use crate::unindexed::Unread;

/// The state before catching up.
struct Before {
    unread: Unread,
    /// Whether to warn about everything, not only about new problems.
    tells_all: bool,
}

impl Index {
    /// Adds the hooks of those committed sessions that no run covers, from their containers'
    /// catalogs, as one run. Also adds catalogs that could not be read the last time and can be
    /// read now. Returns how many containers were read. After a crash between a commit and its
    /// hooks, this costs only a little time.
    ///
    /// # Errors
    /// Errors of the storage. A catalog that is damaged, missing, or on a bad sector gives one
    /// [`Warning`].
    pub fn catch_up(
        &self,
        containers: &Containers,
        committed: &[SessionContainers],
    ) -> Result<u64, IndexError> {
        let uncovered = self.uncovered(committed.iter().map(|session| session.session));
        let missing = committed
            .iter()
            .filter(|session| uncovered.contains(&session.session));
        let missing: Vec<&SessionContainers> = missing.collect();
        let before = Before {
            unread: self.unread()?,
            tells_all: false,
        };
        let now = self.newest(&missing);
        let mut due = before.unread.due(now);
        due.retain(|id| !missing.iter().any(|session| session.containers.contains(id)));
        self.add_from_catalogs(containers, (&missing, &due), &before, |writer| writer)
    }

    /// Builds the whole index again from the catalogs of all committed sessions. Then deletes the
    /// old index, except runs that another process is writing now.
    ///
    /// # Errors
    /// As [`Self::catch_up`]; every unreadable catalog is a warning.
    pub fn rebuild(
        &self,
        containers: &Containers,
        committed: &[SessionContainers],
    ) -> Result<u64, IndexError> {
        let old = self.settled_runs();
        let committed: Vec<&SessionContainers> = committed.iter().collect();
        let before = Before {
            unread: self.unread()?,
            tells_all: true,
        };
        let read = self.add_from_catalogs(containers, (&committed, &[]), &before, HookWriter::rebuilding)?;
        self.drop_runs(&old)?;
        Ok(read)
    }

    /// The highest session known here. Session numbers serve as time.
    fn newest(&self, sessions: &[&SessionContainers]) -> SessionId {
        let covered = self.runs().iter().map(|run| run.id.last).max();
        let newest = sessions.iter().map(|session| session.session).max();
        let first = SessionId::new(0).expect("0 is a session");
        covered.max(newest).unwrap_or(first)
    }

    fn add_from_catalogs(
        &self,
        containers: &Containers,
        (sessions, due): (&[&SessionContainers], &[ContainerId]),
        before: &Before,
        begin: impl FnOnce(HookWriter) -> HookWriter,
    ) -> Result<u64, IndexError> {
        let all: Vec<SessionId> = sessions.iter().map(|session| session.session).collect();
        let spanned: Vec<_> = all
            .iter()
            .copied()
            .chain(due.iter().map(|id| id.session))
            .collect();
        let Some(span) = span_of(&spanned) else {
            return Ok(0);
        };
        let now = self.newest(sessions);
        let mut adding = Adding {
            index: self,
            containers,
            before,
            writer: begin(HookWriter::at_once(self, span)),
            asked: BTreeMap::new(),
        };
        let mut covered = Vec::with_capacity(all.len());
        let mut read = 0;
        for session in sessions {
            let mut is_remembered = true;
            for id in &session.containers {
                if matches!(id.kind, ContainerKind::Archive | ContainerKind::Catalog) {
                    continue;
                }
                is_remembered &= adding.add(*id)?;
                read += 1;
            }
            covered.extend(is_remembered.then_some(session.session));
        }
        for id in due {
            adding.add(*id)?;
            read += 1;
        }
        let Adding {
            writer, mut asked, ..
        } = adding;
        if before.tells_all {
            for id in before.unread.containers() {
                asked.entry(id).or_insert(true);
            }
        }
        // The order matters: if a run covers a catalog that is not remembered, only a rebuild would
        // find it.
        let (gone, failed): (BTreeMap<_, _>, _) = asked.into_iter().partition(|(_, is_over)| *is_over);
        self.note_unread(now, &failed)?;
        if !covered.is_empty() || !writer.is_empty() {
            writer.publish(&covered)?;
            // Memory takes only runs that cover a session by themselves.
            if covered.is_empty() && self.held().is_some() {
                self.reload()?;
            }
        }
        self.note_unread(now, &gone)?;
        Ok(read)
    }
}

/// Hooks that are being added from catalogs.
struct Adding<'a> {
    index: &'a Index,
    containers: &'a Containers,
    before: &'a Before,
    writer: HookWriter,
    /// Catalogs that could not be read before or cannot be read now, and whether that is settled.
    asked: BTreeMap<ContainerId, bool>,
}

impl Adding<'_> {
    /// Adds a container's hooks. Returns whether the container is settled: hooked, hopeless, or
    /// remembered.
    fn add(&mut self, id: ContainerId) -> Result<bool, IndexError> {
        let was_unread = self.before.unread.has(id);
        let warning = match self.containers.catalog(id) {
            Ok(view) => {
                self.writer.add(&view)?;
                None
            }
            Err(error) if stops(self.containers, id, &error) => return Err(error.into()),
            Err(error) => Some(warning_of(id, &error)),
        };
        let is_unread = matches!(warning, Some(Warning::UnreadCatalog { .. }));
        let new = self.asked.values().filter(|is_over| !**is_over).count();
        let fits = was_unread || self.before.unread.has_room(new + 1);
        if was_unread || (is_unread && fits) {
            self.asked.insert(id, !is_unread);
        }
        // A container that was reclaimed meanwhile needs no warning.
        let is_told = was_unread && (is_unread || matches!(warning, Some(Warning::MissingContainer { .. })));
        if let Some(warning) = warning.filter(|_| self.before.tells_all || !is_told) {
            self.index.warn(warning);
        }
        Ok(!is_unread || fits)
    }
}

fn warning_of(container: ContainerId, error: &ContainerError) -> Warning {
    match error {
        ContainerError::Missing { .. } | ContainerError::Storage(StorageError::NotFound { .. }) => {
            Warning::MissingContainer { container }
        }
        ContainerError::Storage(StorageError::Io { .. }) => Warning::UnreadCatalog {
            container,
            why: error.to_string(),
        },
        _ => Warning::BadCatalog {
            container,
            why: error.to_string(),
        },
    }
}

/// Whether reading a container's catalog failed because of the storage as a whole, so that the next
/// catalog would fail too. A bad sector is damage of its container, as long as the storage answers.
/// This function asks the storage.
pub(crate) fn stops(containers: &Containers, id: ContainerId, error: &ContainerError) -> bool {
    match error {
        ContainerError::Storage(StorageError::NotFound { .. }) => false,
        ContainerError::Storage(StorageError::Io { .. }) => {
            let folder = names::container_folder(id.kind, id.session);
            containers.env().storage.list(&folder).is_err()
        }
        ContainerError::Storage(_) => true,
        _ => false,
    }
}

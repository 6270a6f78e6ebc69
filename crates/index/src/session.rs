//! Adds hooks: of a running session, of a committed one, and of rewritten containers.
//!
//! Hooks gather in memory up to the budget. Then they are written as a run that covers nothing yet
//! (an external sort). Publishing merges such runs into one that names the sessions it covers. A
//! run that covers a session has all its hooks, so later processes do not read its catalogs again.

use std::sync::{Arc, RwLock};

use container::CatalogView;
use types::{ContainerId, SessionId};

use crate::error::IndexError;
use crate::hook::{Hook, hooks_of};
use crate::index::{Index, read, write};
use crate::kind::HookKind;
use crate::memory::{ENTRY_BYTES_IN_MEMORY, MemoryHooks};
use crate::merge::{Wanted, Written, names_of};
use crate::run::RUNS_MAX;
use crate::run::Run;
use crate::sampling::SamplingRates;
use crate::scan::Source;
use crate::session_ranges;
use crate::summary::{bits_of_key, key_of};

/// When look-ups may see hooks to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Once published: the session has not committed.
    WhenPublished,
    /// At once: the sessions have committed.
    AtOnce,
}

/// Adds the hooks of one or more sessions. One thread at a time may use it. If it is dropped
/// unpublished, its sessions stay uncovered, and a later merge removes its early runs.
#[derive(Debug)]
pub struct HookWriter {
    index: Index,
    span: (SessionId, SessionId),
    nodes_seen: Nodes,
    /// The rates in force when this began, or lower ones.
    rates: SamplingRates,
    /// Whether all other runs will be deleted: then their rates do not count.
    is_rebuild: bool,
    chunks: Arc<RwLock<MemoryHooks>>,
    nodes: Vec<Hook>,
    early: Vec<Arc<Run>>,
}

/// A committed session and its containers, as in its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionContainers {
    /// The session.
    pub session: SessionId,
    /// Its containers, of all kinds.
    pub containers: Vec<ContainerId>,
}

impl Index {
    /// A writer for a running session. Its chunks are found as soon as their catalogs are added.
    /// Its nodes are found once the caller calls [`HookWriter::publish`], which must come after the
    /// manifest (INV-9).
    #[must_use]
    pub fn session(&self, session: SessionId) -> HookWriter {
        HookWriter::new(self, (session, session), Nodes::WhenPublished)
    }

    /// Publishes the hooks of one committed session at once.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn add_session(
        &self,
        session: SessionId,
        hooks: impl IntoIterator<Item = Hook>,
    ) -> Result<(), IndexError> {
        let mut writer = HookWriter::new(self, (session, session), Nodes::AtOnce);
        for hook in hooks {
            writer.add_hook(hook)?;
        }
        writer.publish(&[session])
    }

    /// A writer for rewritten containers. The caller publishes it as a run that covers the session
    /// of the process that rewrote them, `by`. If a container lost its anchor, another fingerprint
    /// is its anchor now, and at the rates in force none of its older hooks may be left. Nodes in
    /// these containers belong to committed sessions as before (INV-9). [`Self::rebuild`] finds
    /// unpublished hooks again.
    #[must_use]
    pub fn rewritten(&self, by: SessionId) -> HookWriter {
        HookWriter::at_once(self, (by, by))
    }

    pub(crate) fn drop_runs(&self, old: &[Arc<Run>]) -> Result<(), IndexError> {
        self.storage().barrier()?;
        self.replace(None, &old.iter().map(|run| run.id).collect::<Vec<_>>());
        let mut objects: Vec<_> = old.iter().flat_map(|run| names_of(run)).collect();
        objects.append(&mut self.bad());
        self.delete(&objects)?;
        if let Some(held) = self.held() {
            held.clear();
            self.reload()?;
        }
        Ok(())
    }
}

pub(crate) fn span_of(sessions: &[SessionId]) -> Option<(SessionId, SessionId)> {
    Some((*sessions.iter().min()?, *sessions.iter().max()?))
}

impl HookWriter {
    fn new(index: &Index, span: (SessionId, SessionId), nodes_seen: Nodes) -> Self {
        let chunks = index.add_pending();
        Self {
            index: index.clone(),
            span,
            nodes_seen,
            rates: index.rates(),
            is_rebuild: false,
            chunks,
            nodes: Vec::new(),
            early: Vec::new(),
        }
    }

    /// A writer for committed sessions.
    pub(crate) fn at_once(index: &Index, span: (SessionId, SessionId)) -> Self {
        Self::new(index, span, Nodes::AtOnce)
    }

    /// All existing runs will be deleted in favour of this writer's run.
    pub(crate) fn rebuilding(mut self) -> Self {
        (self.rates, self.is_rebuild) = (SamplingRates::default(), true);
        self
    }

    /// Adds a sealed container's hooks.
    ///
    /// # Errors
    /// Errors of the storage, if the memory budget is used up and hooks are written early.
    pub fn add(&mut self, view: &CatalogView) -> Result<(), IndexError> {
        hooks_of(view).try_for_each(|hook| self.add_hook(hook))
    }

    /// Adds one hook.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_hook(&mut self, hook: Hook) -> Result<(), IndexError> {
        if !hook.standing.stays_at(self.rates.of(hook.kind)) {
            return Ok(());
        }
        match hook.kind {
            HookKind::Data => write(&self.chunks).insert(&hook),
            HookKind::Node => self.nodes.push(hook),
        }
        let nodes = match self.nodes_seen {
            Nodes::AtOnce => self.nodes.len(),
            Nodes::WhenPublished => 0,
        };
        let bytes = (read(&self.chunks).len() + nodes) * ENTRY_BYTES_IN_MEMORY;
        if bytes > self.index.options().pending_bytes_max {
            self.write_early()?;
        }
        Ok(())
    }

    /// Writes the hooks in memory as a run that covers nothing. Nodes of a session that has not
    /// committed stay in memory, because a run would show them. They are one in some 500 hooks.
    fn write_early(&mut self) -> Result<(), IndexError> {
        let mut hooks = read(&self.chunks).hooks(HookKind::Data);
        if self.nodes_seen == Nodes::AtOnce {
            hooks.append(&mut self.nodes);
        }
        let run = self.write(hooks, &[], false)?;
        self.index.replace(Some(Arc::clone(&run)), &[]);
        write(&self.chunks).clear();
        self.early.push(run);
        let rates = if self.is_rebuild {
            self.index.rates_of(&self.early)
        } else {
            self.index.rates()
        };
        let rates = self.rates.min(rates);
        if self.early.len() > RUNS_MAX || rates != self.rates {
            self.rates = rates;
            let run = self.write(Vec::new(), &[], true)?;
            self.replace_early(&run)?;
            self.early.push(run);
        }
        Ok(())
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.nodes.is_empty() && read(&self.chunks).len() == 0
    }

    /// Writes the hooks as one run, optionally with everything that was written early.
    fn write(
        &mut self,
        mut hooks: Vec<Hook>,
        covered: &[(SessionId, u64)],
        with_early: bool,
    ) -> Result<Arc<Run>, IndexError> {
        // Runs keep no further bits. Hooks are merged in this order.
        for hook in &mut hooks {
            hook.bits = bits_of_key(key_of(hook.bits));
        }
        hooks.sort_unstable_by_key(Hook::order);
        loop {
            let early: &[Arc<Run>] = if with_early { &self.early } else { &[] };
            let sources = || {
                let runs = early.iter().map(|run| Source::run(run));
                runs.chain([Source::Sorted { hooks: &hooks }]).collect()
            };
            let wanted = Wanted {
                span: self.span,
                covered,
                rates: self.rates,
                keep: &|_| true,
            };
            let damaged = match self.index.write_run(&wanted, sources)? {
                Written::Run(id, names) => return self.index.open_run(id, &names),
                Written::Damaged(part) => part,
            };
            // The part is new and already bad: the disk is failing. Those hooks are dropped.
            damaged.set_damaged();
            self.index.note_damaged(damaged);
            let id = crate::writer::RunId::of(damaged.meta().name).0;
            self.index.replace(None, &[id]);
            self.early.retain(|run| run.id != id);
        }
    }

    fn replace_early(&mut self, run: &Arc<Run>) -> Result<(), IndexError> {
        let old = std::mem::take(&mut self.early);
        self.index.replace(
            Some(Arc::clone(run)),
            &old.iter().map(|run| run.id).collect::<Vec<_>>(),
        );
        self.index
            .delete(&old.iter().flat_map(|run| names_of(run)).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Publishes all added hooks as the run that covers `sessions`: the writer's own session, and
    /// those that it adopted. Their manifests must be committed and durable (INV-9).
    ///
    /// # Errors
    /// Errors of the storage. The sessions then stay uncovered, and the next process that opens the
    /// store adds their hooks.
    pub fn publish(mut self, sessions: &[SessionId]) -> Result<(), IndexError> {
        let mut hooks = read(&self.chunks).hooks(HookKind::Data);
        hooks.append(&mut self.nodes);
        let covered = session_ranges::join(sessions.iter().map(|session| (*session, 1)));
        let run = self.write(hooks, &covered, true)?;
        self.replace_early(&run)
    }
}

impl Drop for HookWriter {
    fn drop(&mut self) {
        self.index.drop_pending(&self.chunks);
    }
}

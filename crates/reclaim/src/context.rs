//! The store, as reclamation uses it.

use std::collections::BTreeSet;

use container::Containers;
use format::names;
use index::Index;
use object::Sealer;
use recipe::NodeSource;
use session::{Manifests, SessionPolicy, SessionTable};
use types::SessionId;

use crate::compact::Packing;
use crate::error::{ReclaimError, Result};
use crate::progress::Progress;

/// The parts of a store that reclamation uses.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "doors to a store")]
pub struct Context<'a> {
    /// The store's small objects.
    pub sealer: &'a Sealer,
    /// The store's manifests.
    pub manifests: &'a Manifests,
    /// The store's containers.
    pub containers: &'a Containers,
    /// Reads nodes of recipes, within the caller's budget.
    pub nodes: &'a dyn NodeSource,
    /// How survivors are packed.
    pub packing: Packing,
    /// The index that gets the hooks of rewritten containers again.
    pub index: Option<&'a Index>,
    /// The times that sessions go by.
    pub policy: SessionPolicy,
    /// The process id that the session shows, for messages only.
    pub process: u32,
    /// Watches and stops it.
    pub progress: &'a dyn Progress,
}

impl Context<'_> {
    /// The store, with other times for sessions, if any are given.
    pub(crate) fn with_policy(self, policy: Option<SessionPolicy>) -> Self {
        Self {
            policy: policy.unwrap_or(self.policy),
            ..self
        }
    }

    /// Sessions that have no ending, or may have none.
    pub(crate) fn running(&self, table: &SessionTable) -> Result<BTreeSet<SessionId>> {
        let unsure = self.unsure(table)?;
        let unsure = unsure.iter().map(|(id, _)| *id);
        Ok(table.running.iter().map(|info| info.id).chain(unsure).collect())
    }

    /// Sessions that may run and cannot answer: they have written objects, and their claim cannot
    /// be read. A session without objects never used its number, because its crash tore the claim.
    fn unsure(&self, table: &SessionTable) -> Result<Vec<(SessionId, String)>> {
        let mut unsure = Vec::new();
        for object in &table.damaged {
            let Some((id, names::SessionObject::Claim)) = names::parse_session_object(&object.name) else {
                continue;
            };
            let folder = self
                .sealer
                .list(&names::session_folder(id), names::parse_session_object)?;
            let has_spoken = folder
                .iter()
                .any(|((_, what), _)| matches!(what, names::SessionObject::Heartbeat(_)));
            if has_spoken {
                unsure.push((id, object.why.clone()));
            }
        }
        Ok(unsure)
    }

    /// Fails if a running session cannot be asked for an answer.
    pub(crate) fn ensure_all_can_answer(&self, table: &SessionTable) -> Result<()> {
        match self.unsure(table)?.first() {
            None => Ok(()),
            Some((id, why)) => Err(ReclaimError::Damaged {
                what: format!(
                    "{why}; session {id} may run and cannot be asked: when its process is gone for sure, end it with \
                     `onefold forget {id} --force-unreadable`"
                ),
            }),
        }
    }
}

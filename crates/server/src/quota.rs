//! The bytes that a namespace may add to the store.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::Refusal;

use crate::peer::{User, failed, not_allowed};

/// What is left of a namespace's quota while a backup runs.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: Option<u64>,
    used: AtomicU64,
}

impl Quota {
    /// The quota of the user's namespace. Refuses if nothing of it is left.
    pub(crate) fn of(user: &User) -> Result<Self, Refusal> {
        let Some(limit) = user.limits.quota_bytes else {
            return Ok(Self {
                limit: None,
                used: AtomicU64::new(0),
            });
        };
        let list = user.store.snapshots().map_err(failed)?;
        let own = list.snapshots.iter().map(|snapshot| &snapshot.backup);
        let own = own.filter(|backup| user.namespace.has(backup));
        let quota = Self {
            limit: Some(limit),
            used: AtomicU64::new(own.map(|backup| backup.totals.bytes_stored).sum()),
        };
        quota.take(0)?;
        Ok(quota)
    }

    /// Takes bytes from it.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Refusal> {
        let used = self
            .used
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        let Some(limit) = self.limit.filter(|limit| used >= *limit) else {
            return Ok(());
        };
        Err(not_allowed(format!(
            "the namespace's quota of {limit} bytes is used up; forget backups, or ask the server's operator to raise it"
        )))
    }
}

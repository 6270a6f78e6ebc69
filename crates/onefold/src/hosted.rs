//! Backups whose client is not this library: one at the other end of a connection, or a test.

use std::fmt;
use std::sync::Arc;

use format::manifest::SeriesName;
use ingest::{BackupSession, Counters, Stream};
use recipe::TreeRoot;
use session::ManifestEntry;
use types::SessionId;

use crate::backup_options::BackupOptions;
use crate::backup_run::{Beginning, BegunBackup, ParentChoice};
use crate::error::Result;
use crate::store::Store;
use crate::warning::Warning;

/// A backup that is under way in this store. Dropped before its commit, it leaves what it has
/// stored for the next backup of the series.
pub struct HostedBackup {
    begun: BegunBackup,
}

impl Store {
    /// Begins a backup of a series, and leaves its client's half to the caller. It may copy from
    /// the backups in `upon`; with `resumes` it goes on with an interrupted one, if it can
    /// ([`ingest::Terms`] says where). The client is trusted: what it says of chunks and segments
    /// is what later backups find.
    ///
    /// # Errors
    /// When no backup can be begun; where one of `upon` is not there any more, or is not one to
    /// copy from.
    pub fn host_backup(
        &self,
        options: &BackupOptions,
        name: SeriesName,
        streams: Vec<Stream>,
        upon: &[SessionId],
        resumes: bool,
    ) -> Result<HostedBackup> {
        let how = Beginning {
            options,
            name,
            streams,
            is_suspect: false,
            insists: false,
            parents: ParentChoice::Named(upon),
            resumes,
        };
        let begun = self.begin_backup(how, &Arc::new(Counters::default()))?;
        Ok(HostedBackup { begun })
    }
}

impl HostedBackup {
    /// The session, for its client.
    #[must_use]
    pub fn session(&self) -> &dyn BackupSession {
        &self.begun.local
    }

    /// The streams of each backup that can be copied from, in the order in which they were named.
    #[must_use]
    pub fn parents(&self) -> Vec<Vec<TreeRoot>> {
        let backups = self.begun.parents.iter().filter_map(ManifestEntry::backup);
        backups
            .map(|backup| backup.streams.iter().map(TreeRoot::from).collect())
            .collect()
    }

    /// What could not be done as the backup began, and did not keep it from beginning.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.begun.warnings
    }
}

impl fmt::Debug for HostedBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedBackup").finish_non_exhaustive()
    }
}

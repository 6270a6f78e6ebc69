//! Backing up: begins a session, takes over what a dead one stored, runs the pipeline, commits.

use std::path::Path;

use format::manifest::{SeriesName, StreamRole};
use ingest::{Client, Faults, ParentTree, StreamSource};
use tree::Trust;

use crate::backup_options::{BackupOptions, TreeOptions};
use crate::backup_report::BackupReport;
use crate::backup_run::{Beginning, BegunBackup};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::store::Store;
use crate::streams::role;

impl Store {
    /// Backs up a tree. Faults of single entries go to `faults`; the rest of the backup stands.
    /// Where something of the previous backup turns out to have rotted, the backup is made a second
    /// time, and what lay there is read again; faults are then told again, too.
    ///
    /// # Errors
    /// When no backup was made. What was stored is taken over by the next backup of the series.
    pub fn backup_tree(
        &self,
        options: &BackupOptions,
        tree: &TreeOptions,
        monitor: &Monitor,
        faults: &mut Faults<'_>,
    ) -> Result<BackupReport> {
        match self.backup_tree_upon(options, tree, monitor, faults, false) {
            Err(Error::Ingest(error)) if error.is_of_previous() => {
                monitor.counters.clear();
                self.backup_tree_upon(options, tree, monitor, faults, true)
            }
            made => made,
        }
    }

    fn backup_tree_upon(
        &self,
        options: &BackupOptions,
        tree: &TreeOptions,
        monitor: &Monitor,
        faults: &mut Faults<'_>,
        is_suspect: bool,
    ) -> Result<BackupReport> {
        let walk = tree.walk(false);
        let name = SeriesName {
            host: options.host.clone(),
            paths: walk.roots.paths(),
        };
        let how = Beginning {
            options,
            name,
            streams: ingest::tree_streams(),
            is_suspect,
            insists: !is_suspect,
        };
        let begun = self.begin_backup(how, &monitor.counters, |backup| {
            role(backup, StreamRole::Listing).is_some()
        })?;
        let parent = begun.parent.as_ref().and_then(|entry| {
            let backup = entry.backup()?;
            let trust = Trust {
                previous_start: backup.source_time,
                ignore_ctime: tree.ignore_ctime,
                ignore_inode: tree.ignore_inode,
            };
            let (content, listing) = (
                role(backup, StreamRole::Content)?,
                role(backup, StreamRole::Listing)?,
            );
            Some(ParentTree {
                content,
                listing,
                trust,
                reads_all: tree.force,
            })
        });
        let client = self.client(&begun, options, monitor);
        let sent = ingest::backup_tree(client, walk, parent.as_ref(), faults)?;
        self.commit_backup(begun, options, sent, monitor)
    }

    /// Backs up one stream under a name: content-defined chunks, or fixed ones for a disk image.
    ///
    /// # Errors
    /// When no backup was made; half a stream makes none.
    pub fn backup_stream(
        &self,
        options: &BackupOptions,
        name: &Path,
        fixed_chunk_bytes: Option<u32>,
        source: &mut dyn StreamSource,
        monitor: &Monitor,
    ) -> Result<BackupReport> {
        use std::os::unix::ffi::OsStrExt;
        let series = SeriesName {
            host: options.host.clone(),
            paths: vec![name.as_os_str().as_bytes().to_vec()],
        };
        let shown = name.display().to_string();
        let how = Beginning {
            options,
            name: series,
            streams: ingest::single_stream(),
            is_suspect: false,
            insists: false,
        };
        let begun = self.begin_backup(how, &monitor.counters, |_| false)?;
        let client = self.client(&begun, options, monitor);
        let sent = ingest::backup_stream(client, &shown, fixed_chunk_bytes, source)?;
        self.commit_backup(begun, options, sent, monitor)
    }

    fn client<'a>(
        &'a self,
        begun: &'a BegunBackup,
        options: &'a BackupOptions,
        monitor: &'a Monitor,
    ) -> Client<'a> {
        Client {
            session: &begun.local,
            options: &options.ingest,
            counters: &monitor.counters,
            cancel: monitor.cancel(),
            clock: &self.env.clock,
        }
    }
}

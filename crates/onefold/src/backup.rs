//! Backing up: begins a session, takes over the data of a dead one, runs the pipeline, commits.

use std::path::Path;

use format::manifest::{SeriesName, StreamRole};
use ingest::{Client, Faults, ParentTree, StreamSource, StreamSpec};
use recipe::TreeRoot;
use session::ManifestEntry;
use tree::Trust;
use types::SessionId;

use crate::backup_options::{BackupOptions, ParentStream, StreamOptions, TreeOptions};
use crate::backup_report::BackupReport;
use crate::backup_run::{Beginning, BegunBackup, ParentChoice};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::store::Store;
use crate::streams::role;

impl Store {
    /// Backs up a tree. Reports faults of single entries to `faults`, and backs up the rest. If
    /// data of the previous backup turns out to have rotted, it makes the backup a second time, and
    /// reads the affected files again. It then reports faults again, too.
    ///
    /// # Errors
    /// If no backup was made. The next backup of the series takes over the stored data.
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
            parents: ParentChoice::Latest(&|backup| role(backup, StreamRole::Listing).is_some()),
            resumes: false,
        };
        let begun = self.begin_backup(how, &monitor.counters)?;
        let parent = begun.parents.first().and_then(|entry| {
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

    /// Backs up one stream under a name.
    ///
    /// # Errors
    /// If no backup was made. A part of a stream makes none.
    pub fn backup_stream(
        &self,
        options: &BackupOptions,
        name: &Path,
        stream: &StreamOptions,
        source: &mut dyn StreamSource,
        monitor: &Monitor,
    ) -> Result<BackupReport> {
        use std::os::unix::ffi::OsStrExt;
        let series = SeriesName {
            host: options.host.clone(),
            paths: vec![name.as_os_str().as_bytes().to_vec()],
        };
        let shown = name.display().to_string();
        let mut named: Vec<SessionId> = stream.parents.iter().map(|parent| parent.backup).collect();
        named.sort_unstable();
        named.dedup();
        let how = Beginning {
            options,
            name: series,
            streams: ingest::single_stream(stream.fixed_chunk_bytes),
            is_suspect: false,
            insists: false,
            parents: ParentChoice::Named(&named),
            resumes: stream.resumes,
        };
        let begun = self.begin_backup(how, &monitor.counters)?;
        let root = |wanted: &ParentStream| {
            let of = |entry: &&ManifestEntry| entry.session() == wanted.backup;
            let backup = begun.parents.iter().find(of).and_then(ManifestEntry::backup);
            backup
                .and_then(|backup| role(backup, wanted.role))
                .ok_or_else(|| {
                    Error::Setting(format!(
                        "backup {} has no stream {:?} to copy from",
                        wanted.backup, wanted.role
                    ))
                })
        };
        let parents: Vec<TreeRoot> = stream.parents.iter().map(root).collect::<Result<_>>()?;
        let client = self.client(&begun, options, monitor);
        let spec = StreamSpec {
            name: &shown,
            fixed_chunk_bytes: stream.fixed_chunk_bytes,
            parents: &parents,
        };
        let sent = ingest::backup_stream(client, spec, source)?;
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
            pools: &self.client_pools,
            options: &options.ingest,
            counters: &monitor.counters,
            cancel: monitor.cancel(),
            clock: &self.env.clock,
        }
    }
}

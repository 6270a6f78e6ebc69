//! Backing up: the client's half. It begins a backup in a repository, sends the streams, commits.

use std::path::Path;
use std::sync::Arc;

use env::Clock;
use format::config::Settings;
use format::manifest::{SeriesName, StreamRole};
use format::series::SeriesSettings;
use ingest::{Client, ClientPools, Faults, ParentTree, Sent, SpooledSource, StreamSource, StreamSpec};
use recipe::{StoreReader, TreeRoot};
use restore::RestoreError;
use session::Filter;
use tree::Trust;
use types::SessionId;

use crate::backup_options::{BackupOptions, ParentStream, StreamOptions, TreeOptions};
use crate::backup_report::BackupReport;
use crate::backup_run::BegunBackup;
use crate::calls::{Call, Report};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::reading::PinnedBackups;
use crate::repository::{
    Attempt, Beginning, ParentChoice, Pinned, Repository, Resume, RunningBackup, retried,
};
use crate::scope::Scope;
use crate::series::SettingsOf;
use crate::settings::SettingsChange;
use crate::snapshots::{Snapshot, SnapshotList};
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
        back_up_tree(self, options, tree, monitor, faults)
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
        back_up_stream(self, options, name, stream, source, monitor)
    }
}

/// [`Store::backup_tree`] into any repository.
///
/// # Errors
/// As [`Store::backup_tree`]; of the connection.
pub fn back_up_tree(
    to: &dyn Repository,
    options: &BackupOptions,
    tree: &TreeOptions,
    monitor: &Monitor,
    faults: &mut Faults<'_>,
) -> Result<BackupReport> {
    let mut is_suspect = false;
    // What was stored before a connection broke is taken over.
    retried(to, monitor, |_| {
        match back_up_tree_upon(to, options, tree, monitor, faults, is_suspect) {
            Err(Error::Ingest(error)) if error.is_of_previous() && !is_suspect => is_suspect = true,
            made => return made,
        }
        monitor.counters.clear();
        back_up_tree_upon(to, options, tree, monitor, faults, true)
    })
}

fn back_up_tree_upon(
    to: &dyn Repository,
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
    let how = Beginning::new(options, name, ingest::tree_streams())
        .is_suspect(is_suspect)
        .insists(!is_suspect)
        .parents(ParentChoice::LatestTree);
    let begun = to.begin(&how, monitor)?;
    let parent = begun.parents().first().and_then(|parent| {
        let backup = &parent.backup;
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
    let client = client(to, &*begun, options, monitor);
    let sent = ingest::backup_tree(client, walk, parent.as_ref(), faults)?;
    begun.commit(options, sent, monitor)
}

/// [`Store::backup_stream`] into any repository. If it loses the connection to the repository, it
/// goes on after the last durable byte (B6).
///
/// # Errors
/// As [`Store::backup_stream`]; of the connection.
pub fn back_up_stream(
    to: &dyn Repository,
    options: &BackupOptions,
    name: &Path,
    stream: &StreamOptions,
    source: &mut dyn StreamSource,
    monitor: &Monitor,
) -> Result<BackupReport> {
    let mut spooled;
    let source: &mut dyn StreamSource = match to.spool_bytes() {
        Some(bytes) if !source.goes_back() => {
            spooled = SpooledSource::new(source, bytes);
            &mut spooled
        }
        _ => source,
    };
    retried(to, monitor, |attempt| {
        back_up_stream_once(to, options, (name, stream), attempt, &mut *source, monitor)
    })
}

fn back_up_stream_once(
    to: &dyn Repository,
    options: &BackupOptions,
    (name, stream): (&Path, &StreamOptions),
    attempt: &Attempt,
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
    let streams = ingest::single_stream(stream.fixed_chunk_bytes);
    let resumes = match (stream.resumes, attempt.is_first()) {
        (true, _) => Resume::Any,
        (false, true) => Resume::Nothing,
        (false, false) => Resume::Own(Vec::new()),
    };
    let how = Beginning::new(options, series, streams)
        .parents(ParentChoice::Named(&named))
        .resumes(resumes);
    let begun = to.begin(&how, monitor)?;
    let resumed = begun.session().terms().resumed.first();
    attempt.goes_on_at(resumed.map_or(0, |stream| stream.len));
    let root = |wanted: &ParentStream| {
        let parent = begun.parents().iter().find(|parent| parent.id == wanted.backup);
        parent
            .and_then(|parent| role(&parent.backup, wanted.role))
            .ok_or_else(|| {
                Error::Setting(format!(
                    "backup {} has no stream {:?} to copy from",
                    wanted.backup, wanted.role
                ))
            })
    };
    let parents: Vec<TreeRoot> = stream.parents.iter().map(root).collect::<Result<_>>()?;
    let client = client(to, &*begun, options, monitor);
    let spec = StreamSpec {
        name: &shown,
        fixed_chunk_bytes: stream.fixed_chunk_bytes,
        parents: &parents,
    };
    let sent = ingest::backup_stream(client, spec, source)?;
    begun.commit(options, sent, monitor)
}

fn client<'a>(
    to: &'a dyn Repository,
    begun: &'a dyn RunningBackup,
    options: &'a BackupOptions,
    monitor: &'a Monitor,
) -> Client<'a> {
    Client {
        session: begun.session(),
        pools: to.client_pools(),
        options: &options.ingest,
        counters: &monitor.counters,
        cancel: monitor.cancel(),
        clock: to.clock(),
    }
}

/// A running backup in a store that this process has open.
struct LocalBackup<'a> {
    store: &'a Store,
    begun: BegunBackup,
    parents: Vec<Snapshot>,
}

impl RunningBackup for LocalBackup<'_> {
    fn session(&self) -> &dyn ingest::BackupSession {
        &self.begun.local
    }

    fn parents(&self) -> &[Snapshot] {
        &self.parents
    }

    fn commit(
        self: Box<Self>,
        options: &BackupOptions,
        sent: Sent,
        monitor: &Monitor,
    ) -> Result<BackupReport> {
        self.store.commit_backup(self.begun, options, sent, monitor)
    }
}

impl Repository for Store {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.env.clock
    }

    fn snapshots(&self) -> Result<SnapshotList> {
        Self::snapshots(self)
    }

    fn find(&self, text: &str, filter: &Filter) -> Result<Snapshot> {
        Self::find(self, text, filter)
    }

    fn pin_all(&self, snapshots: &[Snapshot], _: &Monitor) -> Result<Box<dyn Pinned + '_>> {
        Ok(Box::new(PinnedBackups::of(self, snapshots)?))
    }

    fn client_pools(&self) -> &ClientPools {
        &self.client_pools
    }

    fn call(&self, call: &Call, monitor: &Monitor) -> Result<Report> {
        call.run(self, &Scope::default(), monitor)
    }

    fn own_settings(&self, name: &SeriesName) -> Result<Option<SeriesSettings>> {
        let (settings, source) = self.series_settings(name)?;
        Ok((source == SettingsOf::Series).then_some(settings))
    }

    fn set_own_settings(&self, name: &SeriesName, change: &SettingsChange) -> Result<()> {
        self.set_series_settings(name, change).map(drop)
    }

    fn begin(&self, how: &Beginning<'_>, monitor: &Monitor) -> Result<Box<dyn RunningBackup + '_>> {
        let begun = self.begin_backup(how, &monitor.counters)?;
        let parents = begun.parents.iter().filter_map(Snapshot::of).collect();
        Ok(Box::new(LocalBackup {
            store: self,
            begun,
            parents,
        }))
    }
}

impl Pinned for PinnedBackups<'_> {
    fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    fn reader(&self) -> Result<&dyn StoreReader> {
        Ok(self.nodes()?)
    }

    fn settings(&self) -> Option<Settings> {
        Some(self.reading.settings())
    }

    fn explain(&self, error: Error) -> Error {
        self.reading.explain(error)
    }

    fn forgotten(&self) -> Option<SessionId> {
        self.reading.forgotten()
    }

    fn note_missing(&self, error: &RestoreError) {
        self.reading.note_missing(error);
    }

    fn end(self: Box<Self>, monitor: &Monitor) {
        self.reading.end(monitor);
    }
}

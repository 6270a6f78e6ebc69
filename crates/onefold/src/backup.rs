//! Backing up: begins a session, takes over what a dead one stored, runs the pipeline, commits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::manifest::{Backup, BackupTotals, ContainerSpan, SeriesName, StreamRole};
use format::names::LeaseRole;
use format::series::{Layout, SeriesSettings};
use index::{Index, ResolverStats, Warning};
use ingest::{
    Backed, Cap, Door, Faults, Granularity, Ingest, IngestOptions, ParentTree, QueueStats, StageStats,
    StreamSource, VerifiedKnown,
};
use recipe::TreeRoot;
use session::{Begin, ManifestEntry, ManifestList, NamedContainers, Session, SessionError};
use tree::{Excludes, FolderId, Marker, Roots, Trust, WalkOptions};
use types::{ContainerId, ContainerKind, SessionId};

use crate::error::{Error, Result};
use crate::heal::Healed;
use crate::index_rebuild::committed;
use crate::monitor::Monitor;
use crate::series::AllSettings;
use crate::store::Store;
use crate::streams::role;

/// What every backup needs to know.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// The host's name.
    pub host: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// Tags.
    pub tags: Vec<String>,
    /// How the pipeline is run.
    pub ingest: IngestOptions,
}

/// What of a tree to back up.
#[derive(Debug)]
pub struct TreeOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// Where relative paths begin; absolute.
    pub current_folder: PathBuf,
    /// What to leave out.
    pub excludes: Excludes,
    /// Leave out folders with a `CACHEDIR.TAG`.
    pub exclude_caches: bool,
    /// Stay on the paths' file systems.
    pub one_file_system: bool,
    /// A folder to leave out wholly: the store itself.
    pub leave_out: Option<PathBuf>,
    /// Read all files, also those that look unchanged.
    pub force: bool,
    /// Do not compare ctimes.
    pub ignore_ctime: bool,
    /// Do not compare inode numbers.
    pub ignore_inode: bool,
}

impl TreeOptions {
    /// The walk that these options ask for; with `count_only`, one that only counts.
    #[must_use]
    pub fn walk(&self, count_only: bool) -> WalkOptions {
        WalkOptions {
            roots: Roots::new(&self.current_folder, &self.paths),
            excludes: self.excludes.clone(),
            markers: self
                .exclude_caches
                .then(Marker::cache_folder)
                .into_iter()
                .collect(),
            one_file_system: self.one_file_system,
            leave_out: self
                .leave_out
                .as_deref()
                .and_then(FolderId::of)
                .into_iter()
                .collect(),
            count_only,
            ..WalkOptions::default()
        }
    }
}

/// A backup that was made.
#[derive(Debug, Clone)]
pub struct BackupReport {
    /// Its id.
    pub id: SessionId,
    /// The backup that unchanged files were taken from.
    pub parent: Option<SessionId>,
    /// Sessions that had died, and what they had stored by their last checkpoint was taken over.
    pub adopted: Vec<SessionId>,
    /// What was counted.
    pub totals: BackupTotals,
    /// Files that could not be read, and stay as the backup before has them.
    pub files_kept: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
    /// What the queues saw.
    pub queues: Vec<Arc<QueueStats>>,
    /// What was set for the series as the backup began.
    pub settings: SeriesSettings,
    /// What look-ups cost: of layout `hybrid` one a segment, and none a chunk.
    pub lookups: ResolverStats,
    /// Chunks that were found and stored again, for the cap's sake.
    pub chunks_capped: u64,
    /// Their bytes.
    pub bytes_capped: u64,
    /// What the stages did with their time.
    pub stages: Vec<Arc<StageStats>>,
    /// The sample of reused containers; the backup stored again what was bad there.
    pub verified: VerifiedKnown,
    /// Damaged containers of earlier backups that this backup healed.
    pub healed: Vec<Healed>,
    /// What was found wrong beside the backup, which is safe: a damaged manifest of the series, something of the index,
    /// housekeeping that the next backup tries again.
    pub warnings: Vec<String>,
}

impl Store {
    /// Backs up a tree. Faults of single entries go to `faults`; the rest of the backup stands. Where something of
    /// the previous backup turns out to have rotted, the backup is made a second time, and what lay there is read
    /// again; faults are then told again, too.
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
        let mut run = Run::begin(self, options, name, |backup| {
            role(backup, StreamRole::Listing).is_some()
        })?;
        let parent = run.parent.as_ref().and_then(|entry| {
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
                is_suspect,
            })
        });
        run.door = run.door.insisting(!is_suspect);
        run.finish(monitor, |ingest| {
            ingest::backup_tree(ingest, walk, parent.as_ref(), faults)
        })
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
        let run = Run::begin(self, options, series, |_| false)?;
        run.finish(monitor, |ingest| {
            ingest::backup_stream(ingest, &shown, fixed_chunk_bytes, source)
        })
    }
}

/// A backup under way.
struct Run<'a> {
    store: &'a Store,
    options: &'a BackupOptions,
    name: SeriesName,
    settings: SeriesSettings,
    session: Session,
    _pulse: session::HeartbeatTask,
    index: Index,
    door: Door,
    parent: Option<ManifestEntry>,
    began: std::time::Duration,
    source_time: types::UnixNanos,
    warnings: Vec<String>,
}

impl<'a> Run<'a> {
    fn begin(
        store: &'a Store,
        options: &'a BackupOptions,
        name: SeriesName,
        fits: impl Fn(&Backup) -> bool,
    ) -> Result<Self> {
        store.ensure_writable()?;
        // Before the session reads the lists of damage.
        let met = store.record_met()?;
        let began = store.env.clock.monotonic();
        let source_time = store.env.clock.wall();
        let series = store.sealer.key().series_id(&name.to_bytes());
        let set = AllSettings::read(store, |other| other == series)?;
        let (settings, _) = set.of(Some(series), Some(&name));
        check_cap(&settings, options)?;
        let begin = Begin {
            series,
            name: name.clone(),
            process: store.options.process,
            policy: store.options.policy,
        };
        let session = Session::begin(&store.sealer, begin)?;
        // Catalogs that this process read before: what was removed from their containers since may be on no list that
        // is kept, for lists are kept for sessions that run (docs/protocol-model.md, `ListEpochs`).
        store.containers.clear_catalogs();
        let pulse = session.start_pulse()?;
        // The first heartbeat is durable before any container is put: who left containers and no trace
        // besides had a manifest.
        store.sealer.barrier()?;
        let (mut containers, mut warnings) = (Vec::new(), set.damaged);
        warnings.extend(met);
        for dead in session.find_adoptable()? {
            match session.adopt(&dead) {
                Ok(adopted) => containers.extend(adopted.containers),
                // Another was quicker, or it came back to life: what it stored is not ours to use.
                Err(SessionError::NotAdoptable { .. }) => {}
                Err(error @ SessionError::Damaged(_)) => warnings.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        // What the choice was made from serves for all else: it is younger than the epochs that were listed.
        let mut list = ManifestList::default();
        let latest = |listed: &ManifestList| {
            list.clone_from(listed);
            let of_series = listed.backups().rev().filter(|entry| entry.series() == series);
            // What cannot be read of one may say that it is forgotten, and its nodes may be going.
            let sure = of_series.filter(|entry| !entry.is_in_doubt());
            // Nodes that refer forward stand in for themselves alone.
            let fits = |backup: &Backup| backup.next.is_none() && fits(backup);
            let mut fitting = sure.filter(|entry| entry.backup().is_some_and(fits));
            fitting.next().map(ManifestEntry::session).into_iter().collect()
        };
        let parent = session.choose_parents(latest)?.into_iter().next();
        let previous = list.backups().rev().find(|entry| entry.series() == series);
        let after = previous.map(ManifestEntry::session);
        if let Some(lost) = session.manifests().lost_after(&list, series, after)? {
            warnings.push(format!(
                "{lost}; this may be the latest backup before this one, which was built upon an older one, or upon none"
            ));
        }
        let stored = list.backups().filter_map(ManifestEntry::backup);
        let stored = stored.map(|backup| backup.totals.bytes_stored).sum();
        warnings.extend(
            reclaim::reserve::grow(&store.env, stored, store.settings().container_bytes)
                .err()
                .map(|error| error.to_string()),
        );
        let mut named = NamedContainers::load(session.manifests(), &list)?;
        let index = Index::open(Arc::clone(&store.env.storage), store.id(), store.index_options())?;
        let uncovered = index.uncovered(list.backups().map(ManifestEntry::session));
        let missing = committed(&store.sealer, &list, |session| uncovered.contains(&session))?;
        index.catch_up(&store.containers, &missing)?;
        warnings.extend(
            merge_if_wanted(&session, &index)
                .err()
                .map(|error| error.to_string()),
        );
        warnings.extend(session.gc_sessions().err().map(|error| error.to_string()));
        if !store.config.damage.is_empty() {
            let mended = object::config::repair(&store.env, &store.config);
            warnings.extend(mended.err().map(|error| error.to_string()));
        }
        for (session, span) in &containers {
            named.add(*session, [*span]);
        }
        let previous = previous
            .filter(|entry| !entry.is_in_doubt())
            .and_then(ManifestEntry::backup)
            .map_or(&[][..], |backup| &backup.streams);
        let mut door = Door::new(session.clone(), store.nodes(), &index, named)
            .with_previous(previous.iter().map(TreeRoot::from).collect())
            .verifying(options.ingest.verify_known);
        for (session, span) in containers {
            for id in span.ids(session).filter(|id| id.kind == ContainerKind::Data) {
                // What cannot be read is stored again.
                if let Ok(catalog) = store.containers.catalog(id) {
                    door.add_adopted(&catalog)?;
                }
            }
        }
        Ok(Self {
            store,
            options,
            name,
            settings,
            session,
            _pulse: pulse,
            index,
            door,
            parent,
            began,
            source_time,
            warnings,
        })
    }

    fn finish(
        self,
        monitor: &Monitor,
        store_streams: impl FnOnce(Ingest<'_>) -> std::result::Result<Backed, ingest::IngestError>,
    ) -> Result<BackupReport> {
        let settings = self.store.settings();
        let ingest = Ingest {
            door: &self.door,
            settings: &settings,
            unit: unit(&self.settings),
            options: &self.options.ingest,
            counters: &monitor.counters,
            cancel: monitor.cancel(),
        };
        let backed = store_streams(ingest)?;
        let elapsed = self.store.env.clock.monotonic().saturating_sub(self.began);
        let elapsed_nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let mut tags = self.options.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        let totals = monitor.counters.totals();
        let fresh: Vec<ContainerSpan> = backed.containers.clone();
        let committed = self.session.commit(Backup {
            series: self.name,
            source_time: self.source_time,
            elapsed_nanos,
            user: self.options.user.clone(),
            program: concat!("onefold ", env!("CARGO_PKG_VERSION")).to_owned(),
            tags,
            hold_until: None,
            streams: backed.streams,
            containers: backed.containers,
            adopted: Vec::new(),
            parents: Vec::new(),
            next: None,
            rewritten: None,
            totals,
        })?;
        let taken_over = self.session.adopted();
        let went_on_from = taken_over.iter().filter(|(_, checkpoint)| checkpoint.is_some());
        let adopted = went_on_from.map(|(session, _)| *session).collect();
        let mut warnings = self.warnings;
        warnings.extend(committed.warnings.iter().map(ToString::to_string));
        let mut covered = vec![committed.session];
        covered.extend(taken_over.iter().map(|(session, _)| *session));
        // The backup is safe from here on: what fails now costs the next one some time.
        let verified = self.door.verified();
        let published = self.door.into_hooks().publish(&covered);
        let kept = published.and_then(|()| self.index.checkpoint());
        warnings.extend(kept.err().map(|error| error.to_string()));
        let fresh: Vec<ContainerId> = fresh
            .iter()
            .flat_map(|span| span.ids(committed.session))
            .collect();
        let healed = self
            .store
            .mend(&verified, &self.index, &fresh, monitor, &mut warnings);
        // What prune took is missing from the manifests' point of view alone; `check` knows what should be there.
        let met = self.index.take_warnings().into_iter();
        let told = met.filter(|warning| !matches!(warning, Warning::MissingContainer { .. }));
        warnings.extend(told.map(|warning| warning.to_string()));
        Ok(BackupReport {
            id: committed.session,
            parent: self.parent.as_ref().map(ManifestEntry::session),
            adopted,
            totals,
            files_kept: monitor.counters.files_kept.get(),
            elapsed_nanos,
            settings: self.settings,
            queues: backed.queues,
            lookups: backed.lookups,
            verified,
            healed,
            chunks_capped: monitor.counters.chunks_capped.get(),
            bytes_capped: monitor.counters.bytes_capped.get(),
            stages: backed.stages,
            warnings,
        })
    }
}

/// What a backup of a series with these settings refers to.
fn unit(settings: &SeriesSettings) -> Granularity {
    match settings.layout {
        Layout::Inline => Granularity::Chunk,
        Layout::Hybrid => Granularity::Segment {
            avg_bytes: settings.segment_bytes,
        },
    }
}

/// A cap chooses among chunks that are stored in several places: where segments are referred to, it would say nothing.
fn check_cap(settings: &SeriesSettings, options: &BackupOptions) -> Result<()> {
    let cap = options.ingest.capping.map(|capping| capping.cap);
    if settings.layout == Layout::Hybrid && cap.is_some_and(|cap| cap != Cap::None) {
        return Err(Error::Setting(
            "the series' layout is hybrid, which refers to whole segments: there is nothing to cap; leave --cap out"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Merges the index' runs where they have become many or too large, unless somebody else is at it.
fn merge_if_wanted(session: &Session, index: &Index) -> Result<()> {
    if !index.wants_merge() {
        return Ok(());
    }
    let lease = match session.acquire_lease(LeaseRole::Index) {
        Ok(lease) => lease,
        Err(SessionError::LeaseTaken { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    index.merge(&|| lease.is_held().unwrap_or(false), &|_| true)?;
    session.sealer().barrier()?;
    lease.drop_lower()?;
    lease.release()?;
    Ok(())
}

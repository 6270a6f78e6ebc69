//! A backup from its claim to its commit.
//!
//! To begin, it claims a number, takes over data of dead sessions of the series, chooses the
//! parent, does the store's maintenance, and starts the store's half of the pipeline. The commit
//! makes the backup durable. A failure after that is a warning, and costs the next backup some
//! time.

use std::sync::Arc;
use std::time::Duration;

use env::{ListingOf, Moment};
use format::manifest::{Backup, ContainerSpan, SeriesName, StreamRole, ensure_tags_within_limits};
use format::names::{self, LeaseRole};
use format::series::{Layout, SeriesSettings};
use format::session::{OpenStream, SpineNode};
use index::Index;
use ingest::{
    BackupSession, Cap, Committed, Counters, Granularity, IngestError, LocalSession, Sent, StoreSession,
    VerifyKnown,
};
use recipe::{Child, TreeBuilder, TreeRoot};
use session::{
    Begin, HeartbeatTask, Listing, ManifestEntry, ManifestList, NamedContainers, Session, SessionError,
};
use types::{ContainerId, ContainerKind, SeriesId, SessionId, UnixNanos};

use crate::backup_options::BackupOptions;
use crate::backup_report::BackupReport;
use crate::error::{Error, Result};
use crate::first_listings;
use crate::heal::Healed;
use crate::index_rebuild::committed;
use crate::monitor::Monitor;
use crate::repository::{Beginning, ParentChoice};
use crate::series::AllSettings;
use crate::store::Store;
use crate::streams::role;
use crate::tidying::Tidying;
use crate::warning::Warning;

/// A running backup.
pub(crate) struct BegunBackup {
    pub(crate) local: LocalSession,
    /// A moment after its session had begun.
    since: Moment,
    pub(crate) parents: Vec<ManifestEntry>,
    /// Dropped when the backup ends. The session then puts no more heartbeats.
    _heartbeat: HeartbeatTask,
    name: SeriesName,
    settings: SeriesSettings,
    pub(crate) index: Index,
    began: Duration,
    source_time: UnixNanos,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) tidying: Tidying,
}

/// The data that a session took over.
#[derive(Default)]
struct Adopted {
    /// The containers, by the sessions that put them.
    containers: Vec<(SessionId, ContainerSpan)>,
    /// The positions of the interrupted backups, the newest first.
    positions: Vec<(SessionId, Vec<OpenStream>)>,
}

impl Store {
    /// Begins a backup.
    pub(crate) fn begin_backup(&self, how: &Beginning<'_>, counters: &Arc<Counters>) -> Result<BegunBackup> {
        self.ensure_writable()?;
        how.name
            .check()
            .map_err(|error| Error::Setting(format!("this backup cannot be named so: {error}")))?;
        ensure_tags_within_limits(&how.options.tags).map_err(|error| Error::Setting(error.to_string()))?;
        // List known damage before the session reads the lists of damage.
        let met = self.record_met()?;
        let began = self.env.clock.monotonic();
        let source_time = self.env.clock.wall();
        let series = self.sealer.key().series_id(&how.name.to_bytes());
        let made = self.first_listings.take(&self.env);
        let since = made.unwrap_or_else(|| self.look_ahead(&first_listings::LISTINGS));
        let set = AllSettings::read_since(self, since, |other| other == series)?;
        let (settings, _) = set.of(Some(series), Some(&how.name));
        check_cap(&settings, how.options)?;
        let (session, heartbeat, listing) = self.claim(series, &how.name, since)?;
        // For what is chosen after the session has begun.
        let since = self.look_ahead(&[
            ListingOf::Objects(names::BACKUPS_FOLDER),
            ListingOf::Objects(names::INDEX_FOLDER),
            ListingOf::Objects(names::DAMAGED_FOLDER),
        ]);
        let mut warnings = set.damaged;
        warnings.extend(met);
        let Adopted {
            containers: adopted,
            positions,
        } = adopt(&session, &listing, &mut warnings)?;
        let reads_content = self.options.reads_content;
        let choice = match how.parents {
            ParentChoice::LatestTree if !reads_content => ParentChoice::Named(&[]),
            choice => choice,
        };
        let (list, parents) = choose_parents(&session, since, series, choice)?;
        let previous = list.backups().rev().find(|entry| entry.series() == series);
        let after = previous.map(ManifestEntry::session);
        if let Some(lost) = session.manifests().lost_after(&list, series, after)? {
            warnings.push(Warning::ManifestLost {
                lost: lost.to_string(),
            });
        }
        let mut named = NamedContainers::load(session.manifests(), &list)?;
        let index = self.index_since(since)?;
        let tidying = self.maintain(&session, (&list, listing), &index, &mut warnings)?;
        for (session, span) in &adopted {
            named.add(*session, [*span]);
        }
        let previous = previous.filter(|entry| !entry.is_in_doubt());
        let mut seen = StoreSession::new(session, self.nodes(), &index, named)
            .verifying(if reads_content {
                how.options.ingest.verify_known
            } else {
                VerifyKnown::NONE
            })
            .suspecting(how.is_suspect)
            .insisting(how.insists);
        if let Some((id, backup)) = previous.and_then(|entry| Some((entry.session(), entry.backup()?))) {
            seen = seen.with_previous(id, backup.streams.iter().map(TreeRoot::from).collect());
        }
        let is_whole = self.add_adopted(&adopted, &mut seen)?;
        let interrupted = positions
            .iter()
            .find(|(session, _)| how.resumes.includes(*session));
        let interrupted = interrupted.map_or(&[][..], |(_, streams)| streams);
        let trees = is_whole.then(|| self.resumed_trees(how, interrupted, &seen));
        let seen = match trees.flatten() {
            Some(trees) => seen.resuming(trees),
            None => seen,
        };
        let options = &how.options.ingest;
        let granularity = granularity(&settings);
        let seen = Arc::new(seen);
        let local = LocalSession::start(
            seen,
            self.settings(),
            granularity,
            how.streams.clone(),
            &self.store_pools,
            options,
            counters,
        )?;
        Ok(BegunBackup {
            local,
            since,
            parents,
            _heartbeat: heartbeat,
            name: how.name.clone(),
            settings,
            index,
            began,
            source_time,
            warnings,
            tidying,
        })
    }

    /// Adds the chunks of containers that the session took over. Returns whether all can be read.
    fn add_adopted(&self, adopted: &[(SessionId, ContainerSpan)], seen: &mut StoreSession) -> Result<bool> {
        let mut is_whole = true;
        for (session, span) in adopted {
            for id in span.ids(*session).filter(|id| id.kind == ContainerKind::Data) {
                // Chunks of an unreadable container are stored again, by a backup that reads its
                // source again.
                match self.containers.catalog(id) {
                    Ok(catalog) => seen.add_adopted(&catalog)?,
                    Err(_) => is_whole = false,
                }
            }
        }
        Ok(is_whole)
    }

    /// The trees of the interrupted backup that this one continues. `None`: it begins at the start,
    /// because the caller did not ask to continue, its streams are cut in another way, or data is
    /// damaged.
    fn resumed_trees(
        &self,
        how: &Beginning<'_>,
        streams: &[OpenStream],
        seen: &StoreSession,
    ) -> Option<Vec<TreeBuilder>> {
        let is_same = how.streams.len() == streams.len()
            && how
                .streams
                .iter()
                .zip(streams)
                .all(|(stream, open)| stream.fixed_chunk_bytes.unwrap_or(0) == open.fixed_chunk_bytes);
        if !is_same || streams.iter().all(|stream| stream.len == 0) {
            return None;
        }
        let printer = self.containers.fingerprinter();
        let children = self.settings().node_avg_children;
        let tree = |stream: &OpenStream| {
            let is_sound = |node: &SpineNode| {
                Child::from(node)
                    .as_root()
                    .is_some_and(|root| seen.is_sound(&root))
            };
            let tree = TreeBuilder::resume(printer.clone(), children, &stream.spine)?;
            stream.spine.iter().all(is_sound).then_some(tree)
        };
        streams.iter().map(tree).collect()
    }

    /// Makes these listings together, if that pays. Returns a moment before them.
    fn look_ahead(&self, listings: &[ListingOf<'_>]) -> Moment {
        let now = self.env.storage.moment();
        self.env.storage.look_ahead(listings);
        now
    }

    /// Claims a number, and starts the heartbeats of the session. Listings for the number are as of
    /// any moment after `since`.
    fn claim(
        &self,
        series: SeriesId,
        name: &SeriesName,
        since: Moment,
    ) -> Result<(Session, HeartbeatTask, Listing)> {
        let begin = Begin {
            series,
            name: name.clone(),
            process: self.options.process,
            policy: self.options.policy,
        };
        let (session, listing) = Session::begin_listed(&self.sealer, begin, since)?;
        self.refresh_caches(&session.view());
        let heartbeat = self.heartbeats.add(&session)?;
        // The first heartbeat is durable before any container is put: who left containers and no
        // trace besides had a manifest.
        self.sealer.barrier()?;
        Ok((session, heartbeat, listing))
    }

    /// The store's maintenance, which each backup does beside its own work: a reserve for full
    /// disks, an index that has the hooks of all backups, removal of objects of ended sessions, two
    /// readable copies of the config.
    fn maintain(
        &self,
        session: &Session,
        (list, listing): (&ManifestList, Listing),
        index: &Index,
        warnings: &mut Vec<Warning>,
    ) -> Result<Tidying> {
        let stored = list.backups().filter_map(ManifestEntry::backup);
        let stored = stored.map(|backup| backup.totals.bytes_stored).sum();
        let grown = reclaim::reserve::grow(&self.env, stored, self.settings().container_bytes);
        warnings.extend(grown.err().map(|error| Warning::NoReserve {
            why: error.to_string(),
        }));
        let uncovered = index.uncovered(list.backups().map(ManifestEntry::session));
        let missing = committed(&self.sealer, list, |session| uncovered.contains(&session))?;
        index.catch_up(&self.containers, &missing)?;
        let merged = merge_if_wanted(session, index);
        warnings.extend(merged.err().map(|error| Warning::IndexNotMerged {
            why: error.to_string(),
        }));
        let (tidying, left) = Tidying::begin(session, listing, self.env.storage.is_far());
        warnings.extend(left);
        if !self.config.damage.is_empty() {
            let mended = object::config::repair(&self.env, &self.config);
            warnings.extend(mended.err().map(|error| Warning::ConfigNotMended {
                why: error.to_string(),
            }));
        }
        Ok(tidying)
    }

    /// Commits a backup after its streams were sent.
    pub(crate) fn commit_backup(
        &self,
        begun: BegunBackup,
        options: &BackupOptions,
        sent: Sent,
        monitor: &Monitor,
    ) -> Result<BackupReport> {
        let elapsed = self.env.clock.monotonic().saturating_sub(begun.began);
        let elapsed_nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let about = options.about(begun.name, begun.source_time, elapsed_nanos, &monitor.counters);
        // The store's half counts until its last stage has ended.
        let committed = begun.local.commit(about)?;
        let mut warnings = begun.warnings;
        warnings.extend(begun.tidying.end());
        let healed = self.after_commit(&committed, begun.since, &begun.index, monitor, &mut warnings);
        let parent = begun.parents.first().map(ManifestEntry::session);
        let resumed = begun.local.terms().resumed.first().map(|stream| stream.len);
        let made = BackupReport::of(
            committed,
            sent,
            (parent, resumed),
            elapsed_nanos,
            warnings,
            monitor,
        );
        Ok(BackupReport {
            settings: begun.settings,
            healed,
            ..made
        })
    }

    /// Heals containers with what a backup has stored, and adds warnings of the commit and the
    /// index. Nothing that fails here harms the backup.
    pub(crate) fn after_commit(
        &self,
        committed: &Committed,
        since: Moment,
        index: &Index,
        monitor: &Monitor,
        warnings: &mut Vec<Warning>,
    ) -> Vec<Healed> {
        warnings.extend(committed.warnings.iter().map(|error| match error {
            IngestError::Session(error) => Warning::traces_left(error),
            other => Warning::IndexNotUpdated {
                why: other.to_string(),
            },
        }));
        if committed.same_as.is_some() {
            return Vec::new();
        }
        let fresh = committed.containers.iter();
        let fresh: Vec<ContainerId> = fresh.flat_map(|span| span.ids(committed.session)).collect();
        let healed = self.mend(since, &committed.verified, index, &fresh, monitor, warnings);
        // The manifests may name containers that prune has removed. `check` knows which containers
        // must exist.
        let met = index.take_warnings().into_iter();
        let told = met.filter(|warning| !matches!(warning, index::Warning::MissingContainer { .. }));
        warnings.extend(told.map(Warning::Index));
        healed
    }
}

/// Takes over the data of dead sessions of the series, as of their last checkpoints.
fn adopt(session: &Session, listing: &Listing, warnings: &mut Vec<Warning>) -> Result<Adopted> {
    let mut all = Adopted::default();
    for dead in session.find_adoptable_by(listing)? {
        match session.adopt(&dead) {
            Ok(adopted) => {
                all.containers.extend(adopted.containers);
                all.positions.extend(adopted.positions);
            }
            // Another session took it over first, or it came back to life. Its data is not ours to
            // use.
            Err(SessionError::NotAdoptable { .. }) => {}
            // The storage may keep sessions of other clients from this one.
            Err(error) if error.is_no_right() || matches!(error, SessionError::Damaged(_)) => {
                warnings.push(Warning::NotAdopted {
                    why: error.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

/// The listed backups, and the parents among them.
fn choose_parents(
    session: &Session,
    since: Moment,
    series: SeriesId,
    choice: ParentChoice<'_>,
) -> Result<(ManifestList, Vec<ManifestEntry>)> {
    // The list of the choice serves for everything else: it is newer than the listing of epochs.
    let mut list = ManifestList::default();
    let choose = |listed: &ManifestList| {
        list.clone_from(listed);
        if let ParentChoice::Named(named) = choice {
            return named.to_vec();
        }
        let of_series = listed.backups().rev().filter(|entry| entry.series() == series);
        // An unreadable revision may be a tombstone, and prune may be removing its nodes.
        let sure = of_series.filter(|entry| !entry.is_in_doubt());
        // A node that refers forward cannot be used in another backup.
        let is_tree = |backup: &Backup| role(backup, StreamRole::Listing).is_some();
        let fits = |backup: &Backup| backup.next.is_none() && is_tree(backup);
        let mut fitting = sure.filter(|entry| entry.backup().is_some_and(fits));
        fitting.next().map(ManifestEntry::session).into_iter().collect()
    };
    let parents = session.choose_parents_since(since, choose)?;
    for parent in &parents {
        if parent.is_in_doubt() || parent.backup().is_some_and(|backup| backup.next.is_some()) {
            return Err(Error::Setting(format!(
                "nothing can be copied from backup {}: {}",
                parent.session(),
                if parent.is_in_doubt() {
                    "a revision of its manifest cannot be read, and may say that it is forgotten"
                } else {
                    "it refers to later backups of its series; copy from the newest one"
                }
            )));
        }
    }
    Ok((list, parents))
}

/// What a backup of a series with these settings refers to.
fn granularity(settings: &SeriesSettings) -> Granularity {
    match settings.layout {
        Layout::Inline => Granularity::Chunk,
        Layout::Hybrid => Granularity::Segment {
            avg_bytes: settings.segment_bytes,
        },
    }
}

/// A cap chooses among chunks that are stored in several places. If a backup refers to whole
/// segments, it has no meaning.
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

/// Merges the runs of the index if they are many or large, unless another session does so.
fn merge_if_wanted(session: &Session, index: &Index) -> Result<()> {
    if !index.wants_merge() {
        return Ok(());
    }
    let lease = match session.acquire_lease(LeaseRole::Index) {
        Ok(lease) => lease,
        Err(SessionError::LeaseTaken { .. }) => return Ok(()),
        // Another client merges.
        Err(error) if error.is_no_right() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    index.merge(&|| lease.is_held().unwrap_or(false), &|_| true)?;
    session.sealer().barrier()?;
    lease.drop_lower()?;
    lease.release()?;
    Ok(())
}

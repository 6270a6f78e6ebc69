//! Copies backups from one store to another.
//!
//! Each copy is an ordinary backup of the destination: with the streams, the series, the times, the
//! tags and the hold of the original, and with a note of its origin, by which the next run skips
//! it. Within a fingerprint domain references and missing chunks travel ([`relay`]). Across domains
//! the streams are read and cut anew, but not what is equal to an earlier backup that was copied
//! ([`reread`]).
//!
//! Nothing in the source changes. A copy that was killed leaves a session as a killed backup does:
//! the next one takes over what was stored. One thread calls; it and the other stores' users need
//! not wait for each other.

mod chunks;
mod fault;
mod lost;
mod outstanding;
mod relay;
mod report;
mod reread;
mod selection;

use std::cell::RefCell;
use std::sync::Arc;

use format::config::Settings;
use format::manifest::{Backup, Origin, SeriesName, StreamRole};
use format::series::Layout;
use ingest::{Client, Sent, Terms};
use recipe::{NodeSource, StoreReader, TreeRoot};
use types::SessionId;

use crate::backup_options::{BackupOptions, Original};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::repository::{Beginning, ParentChoice, Pinned, Repository, RunningBackup, retried};
use crate::settings::SettingsChange;
use crate::snapshots::Snapshot;
use crate::streams::{self, role};
use fault::{CopyFault, is_of_whole_source, may_be_of_earlier};
use relay::Relay;
pub use report::{Copied, CopyReport, CopyRequest, CopyStep, NotCopied};
use reread::{CopiedStream, Earlier, Reread};
use selection::Selection;

/// Copies backups from one repository to another, the oldest first. If data of one cannot be read,
/// or one was forgotten meanwhile, it continues with the others. What another run has copied some
/// seconds before is not copied again.
///
/// # Errors
/// If a named backup does not exist; of the destination; if the source cannot be read at all, or
/// refuses or is gone meanwhile.
/// Backups that were copied before stay.
pub fn copy(
    from: &dyn Repository,
    to: &dyn Repository,
    request: &CopyRequest,
    monitor: &Monitor,
    told: &mut dyn FnMut(CopyStep<'_>),
) -> Result<CopyReport> {
    let mut selection = Selection::new(from, to, request)?;
    let mut report = CopyReport {
        unread: std::mem::take(&mut selection.unread),
        older: std::mem::take(&mut selection.older),
        unread_there: std::mem::take(&mut selection.unread_there),
        ..CopyReport::default()
    };
    let lens = selection.due.iter().map(|snapshot| bytes_of(&snapshot.backup));
    monitor.set_total(lens.sum());
    for (snapshot, has) in std::mem::take(&mut selection.skipped) {
        skip(&snapshot, has, &mut report, told);
    }
    for snapshot in std::mem::take(&mut selection.due) {
        if request.is_dry_run {
            told(CopyStep::Begins(&snapshot));
            report.due.push(snapshot);
            continue;
        }
        copy_one(
            (from, to),
            request,
            (&mut selection, &mut report),
            snapshot,
            monitor,
            told,
        )?;
    }
    Ok(report)
}

fn skip(snapshot: &Snapshot, has: SessionId, report: &mut CopyReport, told: &mut dyn FnMut(CopyStep<'_>)) {
    told(CopyStep::Skipped { from: snapshot, has });
    report.skipped.push((snapshot.id, has));
}

fn copy_one(
    (from, to): (&dyn Repository, &dyn Repository),
    request: &CopyRequest,
    (selection, report): (&mut Selection, &mut CopyReport),
    snapshot: Snapshot,
    monitor: &Monitor,
    told: &mut dyn FnMut(CopyStep<'_>),
) -> Result<()> {
    let is_again = request.again.contains(&snapshot.id);
    if !is_again && let Some(has) = selection.made_meanwhile(to, &snapshot)? {
        skip(&snapshot, has, report, told);
        monitor.add_done(bytes_of(&snapshot.backup));
        return Ok(());
    }
    told(CopyStep::Begins(&snapshot));
    monitor.counters.clear();
    if selection.begins(&snapshot.backup.series) {
        take_settings(from, to, &snapshot.backup.series)?;
    }
    let earlier = selection.earlier(&snapshot);
    let copying = Copying {
        from,
        to,
        request,
        snapshot: &snapshot,
        origin: selection.origin(&snapshot),
        earlier,
        selection: RefCell::new(selection),
        is_again,
        monitor,
    };
    let outcome = copying.run()?;
    drop(copying);
    match outcome {
        Outcome::Copied(copied) => {
            selection.note(&copied.from, copied.made.id);
            told(CopyStep::Copied(&copied));
            report.copied.push(*copied);
        }
        Outcome::Failed(failed) => {
            told(CopyStep::Failed(&failed));
            report.failed.push(*failed);
        }
        Outcome::Made(has) => skip(&snapshot, has, report, told),
        Outcome::Forgotten => {
            told(CopyStep::Forgotten(&snapshot));
            report.forgotten.push(snapshot.id);
        }
    }
    monitor.add_done(bytes_of(&snapshot.backup));
    Ok(())
}

/// Lays the backups of a new series out as in the source, if that has settings of its own and the
/// destination none. When backups are forgotten, and what follows each, is up to each store.
fn take_settings(from: &dyn Repository, to: &dyn Repository, series: &SeriesName) -> Result<()> {
    let Some(own) = from.own_settings(series)? else {
        return Ok(());
    };
    if to.own_settings(series)?.is_some() {
        return Ok(());
    }
    let is_hybrid = own.layout == Layout::Hybrid;
    let change = SettingsChange::NONE
        .layout(Some(own.layout))
        .live_window(is_hybrid.then_some(own.live_window))
        .segment_bytes(is_hybrid.then_some(own.segment_bytes))
        .repair_percent(Some(own.repair_percent));
    match to.set_own_settings(series, &change) {
        // The destination has chunks that these settings do not suit.
        Err(Error::Setting(_)) => Ok(()),
        done => done,
    }
}

fn bytes_of(backup: &Backup) -> u64 {
    backup.streams.iter().map(|stream| stream.len).sum()
}

/// What became of a backup.
enum Outcome {
    Copied(Box<Copied>),
    Failed(Box<NotCopied>),
    /// Another run has made this copy meanwhile.
    Made(SessionId),
    /// It was forgotten in the source.
    Forgotten,
}

/// The copy of one backup.
struct Copying<'a> {
    from: &'a dyn Repository,
    to: &'a dyn Repository,
    request: &'a CopyRequest,
    snapshot: &'a Snapshot,
    /// The backup that the copy says it is one of.
    origin: Option<Origin>,
    /// An earlier backup of the source, and the number of its copy.
    earlier: Option<(Snapshot, SessionId)>,
    selection: RefCell<&'a mut Selection>,
    /// It is copied although the destination has it.
    is_again: bool,
    monitor: &'a Monitor,
}

impl Copying<'_> {
    fn run(&self) -> Result<Outcome> {
        let mut wanted = vec![self.snapshot.clone()];
        wanted.extend(self.earlier.iter().map(|(source, _)| source.clone()));
        let pinned = self.from.pin_all(&wanted, self.monitor)?;
        let is_pinned = |id: SessionId| pinned.snapshots().iter().find(|one| one.id == id);
        let Some(snapshot) = is_pinned(self.snapshot.id) else {
            return Ok(Outcome::Forgotten);
        };
        let earlier = self.earlier.as_ref();
        let earlier = earlier.and_then(|(source, copy)| Some((is_pinned(source.id)?, *copy)));
        let mut upon = earlier;
        // What was stored before a connection broke is taken over.
        let outcome = retried(self.to, self.monitor, |_| {
            match self.once(&*pinned, snapshot, upon) {
                // Of the earlier copy, data turned out to have rotted, or the manifest cannot be
                // read, or it was forgotten meanwhile: the source has all of it.
                Err(error) if upon.is_some() && may_be_of_earlier(&error, self.has_sent()) => upon = None,
                // The earlier one was not pinned.
                Err(Error::Forgotten { id, .. }) if upon.is_some_and(|(source, _)| source.id == id) => {
                    upon = None;
                }
                done => return done,
            }
            self.monitor.counters.clear();
            self.once(&*pinned, snapshot, None)
        });
        let outcome = match outcome.map_err(|error| pinned.explain(error)) {
            Err(Error::Forgotten { id, .. }) if id == snapshot.id => Outcome::Forgotten,
            outcome => outcome?,
        };
        pinned.end(self.monitor);
        Ok(outcome)
    }

    fn has_sent(&self) -> bool {
        self.monitor.counters.bytes_logical.get() > 0
    }

    fn once(
        &self,
        pinned: &dyn Pinned,
        snapshot: &Snapshot,
        earlier: Option<(&Snapshot, SessionId)>,
    ) -> Result<Outcome> {
        let reader = pinned.reader()?;
        let options = self.options(snapshot);
        let series = snapshot.backup.series.clone();
        let parents: Vec<SessionId> = earlier.iter().map(|(_, copy)| *copy).collect();
        let roots: Vec<TreeRoot> = snapshot.backup.streams.iter().map(TreeRoot::from).collect();
        let (kinds, fixed) = match self.streams(reader, snapshot) {
            Ok(streams) => streams,
            Err(fault) => return self.failed(pinned, snapshot, fault),
        };
        let how = Beginning::new(&options, series, kinds).parents(ParentChoice::Named(&parents));
        let begun = self.to.begin(&how, self.monitor)?;
        let session = begun.session();
        let is_within_domain = is_one_domain(reader, pinned.settings(), session.terms());
        let client = Client {
            session,
            pools: self.to.client_pools(),
            options: &options.ingest,
            counters: &self.monitor.counters,
            cancel: self.monitor.cancel(),
            clock: self.to.clock(),
        };
        let sent = if is_within_domain {
            let relay = Relay {
                from: reader,
                client,
                roots: &roots,
                assembling: self.request.assembling,
                monitor: self.monitor,
            };
            relay.run()
        } else {
            let streams = copied_streams(&snapshot.backup, fixed, earlier, begun.parents());
            self.reread(reader, snapshot, &streams, client)
        };
        match sent {
            Ok(sent) => self.commit(begun, &options, sent, snapshot, is_within_domain, earlier),
            Err(fault) => {
                drop(begun);
                self.failed(pinned, snapshot, fault)
            }
        }
    }

    fn reread(
        &self,
        reader: &dyn StoreReader,
        snapshot: &Snapshot,
        streams: &[CopiedStream],
        client: Client<'_>,
    ) -> std::result::Result<Sent, CopyFault> {
        let listing = streams::listing(reader, &snapshot.backup);
        let is_tree = snapshot.backup.streams.first().map(|one| one.role) == Some(StreamRole::Content);
        let reread = Reread {
            from: reader,
            client,
            streams,
            listing: listing.as_ref().filter(|_| is_tree),
            assembling: self.request.assembling,
            monitor: self.monitor,
        };
        reread.run()
    }

    fn commit(
        &self,
        begun: Box<dyn RunningBackup + '_>,
        options: &BackupOptions,
        sent: Sent,
        snapshot: &Snapshot,
        is_within_domain: bool,
        earlier: Option<(&Snapshot, SessionId)>,
    ) -> Result<Outcome> {
        if !self.is_again
            && let Some(has) = self.selection.borrow_mut().made_meanwhile(self.to, snapshot)?
        {
            return Ok(Outcome::Made(has));
        }
        let made = begun.commit(options, sent, self.monitor)?;
        for warning in &made.warnings {
            self.monitor.add_note(warning.clone());
        }
        Ok(Outcome::Copied(Box::new(Copied {
            from: snapshot.clone(),
            bytes_read: made.totals.bytes_read,
            made,
            is_within_domain,
            upon: earlier.filter(|_| !is_within_domain).map(|(source, _)| source.id),
        })))
    }

    /// The outcome, if the fault is one of the backup's data alone.
    fn failed(&self, pinned: &dyn Pinned, snapshot: &Snapshot, fault: CopyFault) -> Result<Outcome> {
        let (error, lost) = match fault {
            CopyFault::Other(error) => return Err(error),
            // The connection to the destination is not to blame, and need not be made again.
            CopyFault::Source { error, .. } if is_of_whole_source(&error) => {
                let why = Box::new(error);
                return Err(Error::SourceOutage { why });
            }
            CopyFault::Source { error, lost } => (error, lost),
        };
        if let Some(id) = pinned.forgotten() {
            let why = Some(Box::new(error));
            return Err(Error::Forgotten { id, why });
        }
        if let Error::Restore(error) = &error {
            pinned.note_missing(error);
        }
        let files = lost::files_with(pinned.reader()?, &snapshot.backup, &lost);
        Ok(Outcome::Failed(Box::new(NotCopied {
            from: snapshot.clone(),
            why: error.to_string(),
            files,
        })))
    }

    /// The streams of the copy, and the length of their fixed chunks.
    fn streams(
        &self,
        reader: &dyn StoreReader,
        snapshot: &Snapshot,
    ) -> std::result::Result<(Vec<ingest::Stream>, Option<u32>), CopyFault> {
        let roles: Vec<StreamRole> = snapshot.backup.streams.iter().map(|one| one.role).collect();
        let tree = ingest::tree_streams();
        if tree.iter().map(|stream| stream.role).eq(roles.iter().copied()) {
            return Ok((tree, None));
        }
        let [StreamRole::Whole] = roles[..] else {
            let id = snapshot.id;
            return Err(CopyFault::of_source(Error::Setting(format!(
                "backup {id} has streams that this program does not know"
            ))));
        };
        let root = role(&snapshot.backup, StreamRole::Whole).expect("it has one");
        let fixed = reread::fixed_chunk_bytes(reader, &root).map_err(CopyFault::of_source)?;
        Ok((ingest::single_stream(fixed), fixed))
    }

    fn options(&self, snapshot: &Snapshot) -> BackupOptions {
        let Backup {
            source_time,
            elapsed_nanos,
            user,
            program,
            tags,
            hold_until,
            totals,
            series,
            ..
        } = &snapshot.backup;
        let original = Original {
            source_time: *source_time,
            elapsed_nanos: *elapsed_nanos,
            program: program.clone(),
            hold_until: *hold_until,
            origin: self.origin,
            totals: *totals,
        };
        let ingest = self.request.ingest.clone().is_resumable(false);
        let mut options = BackupOptions::default()
            .host(series.host.clone())
            .user(user.clone())
            .tags(tags.clone())
            .ingest(ingest);
        options.original = Some(Arc::new(original));
        options
    }
}

/// Whether both stores cut and fingerprint alike. A source that does not say how it cuts has the
/// parameters of its domain.
fn is_one_domain(source: &dyn StoreReader, settings: Option<Settings>, terms: &Terms) -> bool {
    const PROBE: &[u8] = b"one domain";
    let source: &dyn StoreReader = source;
    let printer = NodeSource::fingerprinter(source);
    let cutting = |settings: &Settings| {
        (
            settings.chunk_min_bytes,
            settings.chunk_avg_bytes,
            settings.chunk_max_bytes,
            settings.node_avg_children,
        )
    };
    printer.chunk(PROBE) == terms.fingerprinter.chunk(PROBE)
        && settings.is_none_or(|settings| cutting(&settings) == cutting(&terms.settings))
}

/// The streams of a backup, with those of an earlier one that the destination has.
fn copied_streams(
    backup: &Backup,
    fixed_chunk_bytes: Option<u32>,
    earlier: Option<(&Snapshot, SessionId)>,
    parents: &[Snapshot],
) -> Vec<CopiedStream> {
    let pair = earlier.and_then(|(source, copy)| {
        let copy = parents.iter().find(|parent| parent.id == copy)?;
        Some((&source.backup, &copy.backup))
    });
    let stream = |stream: &format::manifest::StreamRoot| {
        let earlier = pair.and_then(|(source, copy)| {
            let (source, copy) = (role(source, stream.role)?, role(copy, stream.role)?);
            (source.len == copy.len).then_some(Earlier { source, copy })
        });
        CopiedStream {
            root: TreeRoot::from(stream),
            fixed_chunk_bytes,
            earlier,
        }
    };
    backup.streams.iter().map(stream).collect()
}

//! Finds entries by patterns in many backups.
//!
//! The listing of a backup is compared with that of the backup of the same series that was searched
//! before it, and only the parts that differ are read (R1). What was found in the rest stays found.
//! So the cost is that of the distinct parts of all listings, not of all listings.
//!
//! Memory: what is found in the last backup of each series, [`FOUND_BYTES_MAX`] together. A series
//! with more is searched without it: each of its listings is read.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use format::listing::ListingEntry;
use format::manifest::StreamRole;
use recipe::{StoreReader, TreeRoot};
use restore::{RestoreError, Wanted};
use tree::{Base, Excludes, order};
use types::{FileTime, SeriesId, SessionId};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::repository::{Pinned, Repository};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};

/// About the most memory for entries that were found.
const FOUND_BYTES_MAX: usize = 64 << 20;
/// About the memory of an entry without its names.
const ENTRY_BYTES: usize = 320;

/// What is searched for. An entry is found if it passes all of this.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FindRequest {
    /// The patterns that choose entries: one that a backup with these patterns would leave out, is
    /// found. What is below a matching folder is not, unless it matches too.
    pub patterns: Excludes,
    /// Only entries that were modified then or later.
    pub oldest: Option<FileTime>,
    /// Only entries that were modified then or earlier.
    pub newest: Option<FileTime>,
}

types::setters!(FindRequest {
    patterns: Excludes,
    oldest: Option<FileTime>,
    newest: Option<FileTime>,
});

impl FindRequest {
    fn finds(&self, entry: &ListingEntry) -> bool {
        let time = entry.mtime;
        self.oldest.is_none_or(|oldest| time >= oldest)
            && self.newest.is_none_or(|newest| time <= newest)
            && self.patterns.excludes(&entry.path)
    }
}

/// What was found in a backup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found<'a> {
    /// An entry of its listing.
    Entry(&'a ListingEntry),
    /// The one stream that the backup is of.
    Stream {
        /// Its name.
        name: &'a [u8],
        /// Its length in bytes.
        len: u64,
    },
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindReport {
    /// How many entries were found, in all backups together.
    pub found: u64,
    /// How many backups were searched.
    pub backups: u64,
    /// The backups that could not be searched to the end, and why.
    pub unread: Vec<(SessionId, String)>,
}

impl Store {
    /// Searches backups in this order, and calls `each` with what is found in them: of each backup
    /// in listing order. Backups that were forgotten meanwhile are left out.
    ///
    /// ```
    /// # use onefold::{BackupOptions, Credential, Env, InitOptions, Monitor, OpenOptions};
    /// # use onefold::{Store, TreeOptions};
    /// use onefold::{Error, ExcludeBuilder, FindRequest};
    ///
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("folder");
    /// # std::fs::create_dir(&folder)?;
    /// # std::fs::write(folder.join("letter.txt"), "Dear reader")?;
    /// # let env = Env::create_local(place.path().join("store"))?;
    /// # let credential = Credential::password("correct horse battery staple");
    /// # Store::init(&env, &credential, &InitOptions::default(), None)?;
    /// # let store = Store::open(&env, &credential, &OpenOptions::default())?;
    /// # let monitor = Monitor::default();
    /// # let (options, tree) = (BackupOptions::default().host("laptop"), TreeOptions::new([&folder]));
    /// # store.backup_tree(&options, &tree, &monitor, &mut |_| {})?;
    /// let mut patterns = ExcludeBuilder::new();
    /// patterns.add("*.txt", false)?;
    /// let request = FindRequest::default().patterns(patterns.build()?);
    /// let backups = store.snapshots()?.snapshots;
    /// let report = store.find_entries(&backups, &request, &monitor, |backup, found| {
    ///     println!("{}: {found:?}", backup.id);
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert_eq!((report.found, report.backups), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Of the storage or the connection; those of `each`. Backups with a damaged listing are in the
    /// report.
    pub fn find_entries<E: From<Error>>(
        &self,
        backups: &[Snapshot],
        request: &FindRequest,
        monitor: &Monitor,
        each: impl FnMut(&Snapshot, Found<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<FindReport, E> {
        find_entries(self, backups, request, monitor, each)
    }
}

/// [`Store::find_entries`] from any repository.
///
/// # Errors
/// As [`Store::find_entries`]; of the connection.
pub fn find_entries<E: From<Error>>(
    from: &dyn Repository,
    backups: &[Snapshot],
    request: &FindRequest,
    monitor: &Monitor,
    mut each: impl FnMut(&Snapshot, Found<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<FindReport, E> {
    let pinned = from.pin_all(backups, monitor)?;
    let now: HashMap<SessionId, &Snapshot> = pinned
        .snapshots()
        .iter()
        .map(|snapshot| (snapshot.id, snapshot))
        .collect();
    let reader = pinned.reader().map_err(|error| pinned.explain(error))?;
    let mut report = FindReport::default();
    let mut search = Search {
        reader,
        request,
        monitor,
        series: HashMap::new(),
    };
    monitor.begin_part(WorkUnit::Backups, now.len() as u64);
    for snapshot in backups.iter().filter_map(|backup| now.get(&backup.id)) {
        if monitor.is_cancelled() {
            return Err(E::from(RestoreError::Interrupted.into()));
        }
        let mut told = |found: Found<'_>| {
            report.found += 1;
            each(snapshot, found)
        };
        match search.backup(snapshot, &mut told) {
            Ok(()) => {}
            Err(Failure::Told(error)) => return Err(error),
            Err(Failure::Unread(error)) => {
                search.series.remove(&snapshot.series);
                let error = unread(&*pinned, error)?;
                report.unread.push((snapshot.id, error));
            }
        }
        report.backups += 1;
        monitor.add_done(1);
    }
    pinned.end(monitor);
    Ok(report)
}

/// Why one backup could not be searched, if others can.
fn unread(pinned: &dyn Pinned, error: Error) -> Result<String> {
    let error = pinned.explain(error);
    match error.is_of_stored() {
        true => Ok(error.to_string()),
        false => Err(error),
    }
}

/// Why the search of a backup ended early.
enum Failure<E> {
    /// The caller's error.
    Told(E),
    /// The backup cannot be read.
    Unread(Error),
}

impl<E, F: Into<Error>> From<F> for Failure<E> {
    fn from(error: F) -> Self {
        Self::Unread(error.into())
    }
}

/// What was found in the last searched backup of a series.
struct Known {
    listing: TreeRoot,
    fences: Option<TreeRoot>,
    found: BTreeMap<ListedPath, ListingEntry>,
    bytes: usize,
}

/// A path, in listing order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedPath(Vec<u8>);

impl Ord for ListedPath {
    fn cmp(&self, other: &Self) -> Ordering {
        order::compare(&self.0, &other.0)
    }
}

impl PartialOrd for ListedPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn bytes_of(entry: &ListingEntry) -> usize {
    let xattrs = entry.xattrs.iter().map(|(name, value)| name.len() + value.len());
    ENTRY_BYTES + 2 * entry.path.len() + xattrs.sum::<usize>()
}

impl Known {
    fn insert(&mut self, entry: ListingEntry) {
        self.bytes += bytes_of(&entry);
        let replaced = self.found.insert(ListedPath(entry.path.clone()), entry);
        self.bytes -= replaced.map_or(0, |entry| bytes_of(&entry));
    }

    fn remove(&mut self, path: &[u8]) {
        let removed = self.found.remove(&ListedPath(path.to_vec()));
        self.bytes -= removed.map_or(0, |entry| bytes_of(&entry));
    }
}

/// A search of several backups.
struct Search<'a> {
    reader: &'a dyn StoreReader,
    request: &'a FindRequest,
    monitor: &'a Monitor,
    series: HashMap<SeriesId, Known>,
}

impl Search<'_> {
    /// Searches one backup.
    fn backup<E>(
        &mut self,
        snapshot: &Snapshot,
        each: &mut dyn FnMut(Found<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), Failure<E>> {
        if let Some((name, len)) = snapshot.single_stream() {
            let time = FileTime::from(snapshot.backup.source_time);
            let request = self.request;
            let is_in_time = request.oldest.is_none_or(|oldest| time >= oldest)
                && request.newest.is_none_or(|newest| time <= newest);
            // The name of a stream may be no path.
            let path = [&b"/"[..], name.strip_prefix(b"/").unwrap_or(name)].concat();
            if is_in_time && request.patterns.excludes(&path) {
                each(Found::Stream { name, len }).map_err(Failure::Told)?;
            }
            return Ok(());
        }
        let Some(listing) = role(&snapshot.backup, StreamRole::Listing) else {
            return Ok(());
        };
        match self.series.remove(&snapshot.series) {
            None => self.read_all(snapshot, listing, each),
            Some(known) => self.read_changed(snapshot, known, listing, each),
        }
    }

    /// Reads the listing, or the parts that can match.
    fn read_all<E>(
        &mut self,
        snapshot: &Snapshot,
        root: TreeRoot,
        each: &mut dyn FnMut(Found<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), Failure<E>> {
        let Some(listing) = streams::listing(self.reader, &snapshot.backup) else {
            return Ok(());
        };
        let wanted = match self.request.patterns.roots() {
            Some(roots) if !roots.is_empty() => Wanted::below(roots),
            _ => Wanted::all(),
        };
        let mut entries = listing.entries(wanted)?;
        let mut known = Some(Known {
            listing: root,
            fences: role(&snapshot.backup, StreamRole::Fences),
            found: BTreeMap::new(),
            bytes: 0,
        });
        while let Some(listed) = entries.next_entry()? {
            if self.monitor.is_cancelled() {
                return Err(RestoreError::Interrupted.into());
            }
            if !self.request.finds(&listed.entry) {
                continue;
            }
            each(Found::Entry(&listed.entry)).map_err(Failure::Told)?;
            if let Some(known) = &mut known {
                known.insert(listed.entry);
            }
            known = known.filter(|known| known.bytes <= FOUND_BYTES_MAX);
        }
        drop(entries);
        streams::note_fences(listing, snapshot.id, self.monitor);
        self.keep(snapshot.series, known);
        Ok(())
    }

    /// Reads where the listing differs from the last one of the series.
    fn read_changed<E>(
        &mut self,
        snapshot: &Snapshot,
        mut known: Known,
        root: TreeRoot,
        each: &mut dyn FnMut(Found<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), Failure<E>> {
        let before = restore::BackupListing::new(self.reader, known.listing, known.fences);
        let Some(after) = streams::listing(self.reader, &snapshot.backup) else {
            return Ok(());
        };
        let base = Base::default();
        let walked = restore::for_each_difference(&before, &after, &base, |difference, _| {
            if let Some(before) = &difference.before {
                known.remove(&before.entry.path);
            }
            if let Some(after) = difference.after.filter(|after| self.request.finds(&after.entry)) {
                known.insert(after.entry);
            }
            match known.bytes {
                _ if self.monitor.is_cancelled() => ControlFlow::Break(true),
                ..=FOUND_BYTES_MAX => ControlFlow::Continue(()),
                _ => ControlFlow::Break(false),
            }
        })?;
        match walked {
            ControlFlow::Break(true) => return Err(RestoreError::Interrupted.into()),
            ControlFlow::Break(false) => return self.read_all(snapshot, root, each),
            ControlFlow::Continue(()) => {}
        }
        streams::note_fences(after, snapshot.id, self.monitor);
        for entry in known.found.values() {
            each(Found::Entry(entry)).map_err(Failure::Told)?;
        }
        known.listing = root;
        known.fences = role(&snapshot.backup, StreamRole::Fences);
        self.keep(snapshot.series, Some(known));
        Ok(())
    }

    /// Keeps what was found for the next backup of the series, if there is room.
    fn keep(&mut self, series: SeriesId, known: Option<Known>) {
        let held: usize = self.series.values().map(|known| known.bytes).sum();
        if let Some(known) = known.filter(|known| held + known.bytes <= FOUND_BYTES_MAX) {
            self.series.insert(series, known);
        }
    }
}

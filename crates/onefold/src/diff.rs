//! What changed from one backup to another.
//!
//! Equal parts of the two listings have equal nodes, and are skipped unread (R1). So the cost is
//! what changed, not the size of the backups. Entries that are equal in the listings count as
//! unchanged: as for a backup, the content of a file is the same if its size, times and inode are.

use std::ops::ControlFlow;

use format::listing::{EntryKind, ListingEntry};
use format::manifest::StreamRole;
use recipe::{SameBytes, StoreReader, TreeRoot};
use restore::{BackupListing, RestoreError, Wanted};
use tree::{Base, Difference, Listed};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::repository::{Pinned, Repository};
use crate::restore::ensure_folder;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};

/// What is compared; by default all of both backups, but for metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffRequest {
    /// The folder of the first backup that is compared; empty: all of it.
    pub before: Vec<u8>,
    /// The folder of the second backup; empty: all of it.
    pub after: Vec<u8>,
    /// Report entries of which only metadata changed.
    pub metadata: bool,
}

types::setters!(DiffRequest {
    before: Vec<u8>,
    after: Vec<u8>,
    metadata: bool,
});

/// The kinds of entries that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffKind {
    /// A file, a further name of one, or a stream.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, device, fifo or socket.
    Other,
}

/// A path that the two backups do not have in common, or not with the same entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The path below the compared folders. It begins with `/`, except for the name of a stream.
    pub path: Vec<u8>,
    /// The kind in the first backup; `None`: the entry is new.
    pub before: Option<DiffKind>,
    /// The kind in the second backup; `None`: the entry is gone.
    pub after: Option<DiffKind>,
    /// The entry is of another type now.
    pub is_type_changed: bool,
    /// The content of the file, the target of the link or the number of the device changed.
    pub is_content_changed: bool,
    /// Mode, owner, time of modification, extended attributes or flags changed.
    pub is_metadata_changed: bool,
}

impl Change {
    /// Letters as restic has them: `+` new, `-` gone, `T` another type, `M` other content, `U`
    /// other metadata.
    #[must_use]
    pub fn modifier(&self) -> &'static str {
        match (self.before, self.after) {
            (None, _) => "+",
            (_, None) => "-",
            _ if self.is_type_changed && self.is_metadata_changed => "TU",
            _ if self.is_type_changed => "T",
            _ if self.is_content_changed => "M",
            _ => "U",
        }
    }
}

/// Counts of entries, and the lengths of files in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffCounts {
    /// Files, and further names of files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Other entries.
    pub others: u64,
    /// The lengths of these files, and of changed files before or after. A further name of a file
    /// has no length. What is stored for them is not counted.
    pub bytes: u64,
}

impl DiffCounts {
    fn add(&mut self, kind: DiffKind) {
        match kind {
            DiffKind::File => self.files += 1,
            DiffKind::Folder => self.folders += 1,
            DiffKind::Other => self.others += 1,
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffReport {
    /// Files with other content.
    pub files_changed: u64,
    /// What only the second backup has.
    pub added: DiffCounts,
    /// What only the first backup has.
    pub removed: DiffCounts,
}

impl Store {
    /// Calls `each` with what changed from one backup to another, in listing order.
    ///
    /// ```
    /// # use onefold::{BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions};
    /// # use onefold::{Store, TreeOptions};
    /// use onefold::{DiffRequest, Error};
    ///
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("folder");
    /// # std::fs::create_dir(&folder)?;
    /// # let env = Env::create_local(place.path().join("store"))?;
    /// # let credential = Credential::password("correct horse battery staple");
    /// # Store::init(&env, &credential, &InitOptions::default(), None)?;
    /// # let store = Store::open(&env, &credential, &OpenOptions::default())?;
    /// # let monitor = Monitor::default();
    /// # let (options, tree) = (BackupOptions::default().host("laptop"), TreeOptions::new([&folder]));
    /// # let first = store.backup_tree(&options, &tree, &monitor, &mut |_| {})?.id;
    /// # std::fs::write(folder.join("letter"), "Dear reader")?;
    /// # store.backup_tree(&options, &tree, &monitor, &mut |_| {})?;
    /// let before = store.find(&first.to_string(), &Filter::default())?;
    /// let after = store.find("latest", &Filter::default())?;
    /// let request = DiffRequest::default();
    /// let report = store.diff(&before, &after, &request, &monitor, |change| {
    ///     println!("{} {}", change.modifier(), String::from_utf8_lossy(&change.path));
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert_eq!((report.added.files, report.added.bytes), (1, 11));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if a folder to compare does not exist, or if only one backup is of a single
    /// stream; if a listing or, where that is compared, content cannot be read; `Forgotten`, as for
    /// [`Self::restore`]; those of `each`.
    pub fn diff<E: From<Error>>(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        request: &DiffRequest,
        monitor: &Monitor,
        each: impl FnMut(&Change) -> std::result::Result<(), E>,
    ) -> std::result::Result<DiffReport, E> {
        diff(self, before, after, request, monitor, each)
    }
}

/// [`Store::diff`] from any repository.
///
/// # Errors
/// As [`Store::diff`]; of the connection.
pub fn diff<E: From<Error>>(
    from: &dyn Repository,
    before: &Snapshot,
    after: &Snapshot,
    request: &DiffRequest,
    monitor: &Monitor,
    each: impl FnMut(&Change) -> std::result::Result<(), E>,
) -> std::result::Result<DiffReport, E> {
    let pinned = from.pin_all(&[before.clone(), after.clone()], monitor)?;
    let find = |wanted: &Snapshot| {
        let found = pinned.snapshots().iter().find(|found| found.id == wanted.id);
        let (id, why) = (wanted.id, None);
        found.ok_or(Error::Forgotten { id, why })
    };
    let (before, after) = (find(before)?, find(after)?);
    let report = diff_pinned(&*pinned, before, after, request, monitor, each)?;
    pinned.end(monitor);
    Ok(report)
}

fn diff_pinned<E: From<Error>>(
    pinned: &dyn Pinned,
    before: &Snapshot,
    after: &Snapshot,
    request: &DiffRequest,
    monitor: &Monitor,
    mut each: impl FnMut(&Change) -> std::result::Result<(), E>,
) -> std::result::Result<DiffReport, E> {
    let failed = |error: Error| pinned.explain(error);
    let reader = pinned.reader().map_err(failed)?;
    let mut report = DiffReport::default();
    if before.single_stream().is_some() || after.single_stream().is_some() {
        for change in of_streams(reader, before, after, request, &mut report).map_err(failed)? {
            each(&change)?;
        }
        return Ok(report);
    }
    let (Some(old), Some(new)) = (Tree::of(reader, before), Tree::of(reader, after)) else {
        return Err(Error::NotFound("a backup has no listing".to_owned()).into());
    };
    let hint = "`onefold diff` compares folders";
    ensure_folder(&old.listing, before, &request.before, hint).map_err(failed)?;
    ensure_folder(&new.listing, after, &request.after, hint).map_err(failed)?;
    let base = Base {
        before: request.before.clone(),
        after: request.after.clone(),
    };
    let mut comparison = Comparison {
        content: SameBytes::new(reader, &old.content, &new.content),
        trees: (&old, &new),
        base: &base,
        report: &mut report,
    };
    monitor.begin_part(WorkUnit::Bytes, new.len);
    let each = |difference: Difference, at: u64| {
        monitor.add_done_up_to(at);
        if monitor.is_cancelled() {
            return ControlFlow::Break(E::from(RestoreError::Interrupted.into()));
        }
        let change = match comparison.change(&difference) {
            Ok(change) => change,
            Err(error) => return ControlFlow::Break(failed(error).into()),
        };
        let Some(mut change) = change else {
            return ControlFlow::Continue(());
        };
        change.is_metadata_changed &= request.metadata;
        let is_shown = change.modifier() != "U" || request.metadata;
        match is_shown.then(|| each(&change)).transpose() {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    };
    let walked = restore::for_each_difference(&old.listing, &new.listing, &base, each);
    match walked.map_err(|error| failed(error.into()))? {
        ControlFlow::Continue(()) => {}
        ControlFlow::Break(error) => return Err(error),
    }
    streams::note_fences(old.listing, before.id, monitor);
    streams::note_fences(new.listing, after.id, monitor);
    Ok(report)
}

/// A backup of files and folders.
struct Tree<'a> {
    listing: BackupListing<'a>,
    /// Bytes of the listing.
    len: u64,
    content: TreeRoot,
}

impl<'a> Tree<'a> {
    fn of(reader: &'a dyn StoreReader, snapshot: &Snapshot) -> Option<Self> {
        Some(Self {
            listing: streams::listing(reader, &snapshot.backup)?,
            len: role(&snapshot.backup, StreamRole::Listing)?.len,
            content: role(&snapshot.backup, StreamRole::Content)?,
        })
    }

    /// The first name of what an entry is a further name of, or else the entry itself.
    fn first_name(&self, listed: &Listed) -> Result<Listed> {
        let EntryKind::HardLink { target } = &listed.entry.kind else {
            return Ok(listed.clone());
        };
        let mut found = self.listing.entries(Wanted::just([target.clone()]))?;
        Ok(found.next_entry()?.unwrap_or_else(|| listed.clone()))
    }
}

/// Judges differences, and counts them.
struct Comparison<'a, 'b> {
    content: SameBytes<'a, dyn StoreReader + 'a>,
    trees: (&'b Tree<'a>, &'b Tree<'a>),
    base: &'b Base,
    report: &'b mut DiffReport,
}

impl Comparison<'_, '_> {
    /// The change that a difference is; `None` if only what a restore does not set is different.
    fn change(&mut self, difference: &Difference) -> Result<Option<Change>> {
        let (base, listed) = match (&difference.before, &difference.after) {
            (_, Some(after)) => (&self.base.after, after),
            (Some(before), None) => (&self.base.before, before),
            (None, None) => return Ok(None),
        };
        let base = base.strip_suffix(b"/").unwrap_or(base);
        let path = listed.entry.path.strip_prefix(base).unwrap_or(&listed.entry.path);
        // The compared folder itself.
        if path.is_empty() {
            return Ok(None);
        }
        let kind = |listed: &Option<Listed>| listed.as_ref().map(|listed| kind(&listed.entry));
        let mut change = Change {
            path: path.to_vec(),
            before: kind(&difference.before),
            after: kind(&difference.after),
            is_type_changed: false,
            is_content_changed: false,
            is_metadata_changed: false,
        };
        let report = &mut *self.report;
        match (&difference.before, &difference.after) {
            (Some(before), Some(after)) => self.judge(before, after, &mut change)?,
            (None, Some(after)) => {
                report.added.add(kind_of(after));
                report.added.bytes += after.entry.file_len();
            }
            (Some(before), None) => {
                report.removed.add(kind_of(before));
                report.removed.bytes += before.entry.file_len();
            }
            (None, None) => {}
        }
        let is_both = change.before.is_some() && change.after.is_some();
        let is_same = !(change.is_type_changed || change.is_content_changed || change.is_metadata_changed);
        Ok((!is_both || !is_same).then_some(change))
    }

    /// Finds what changed of an entry.
    fn judge(&mut self, before: &Listed, after: &Listed, change: &mut Change) -> Result<()> {
        let (old, new) = (&before.entry, &after.entry);
        let metadata = |entry: &ListingEntry| (entry.mode, entry.uid, entry.gid, entry.mtime, entry.flags);
        change.is_metadata_changed = metadata(old) != metadata(new)
            || (&old.user, &old.group, &old.xattrs) != (&new.user, &new.group, &new.xattrs);
        if old.kind == new.kind && !matches!(old.kind, EntryKind::File { .. }) {
            return Ok(());
        }
        // A further name may have become the first one.
        let (before, after) = (self.trees.0.first_name(before)?, self.trees.1.first_name(after)?);
        let lens = (before.entry.file_len(), after.entry.file_len());
        match (&before.entry.kind, &after.entry.kind) {
            (EntryKind::File { .. }, EntryKind::File { .. }) => {
                let offsets = (before.content_offset, after.content_offset);
                let is_same = lens.0 == lens.1 && self.content.are_equal(offsets.0, offsets.1, lens.0)?;
                change.is_content_changed = !is_same;
                if !is_same {
                    self.report.files_changed += 1;
                }
            }
            (old, new) if std::mem::discriminant(old) != std::mem::discriminant(new) => {
                change.is_type_changed = true;
            }
            (old, new) => change.is_content_changed = old != new,
        }
        if change.is_type_changed || change.is_content_changed {
            // The bytes of a further name are those of the first one, which may stay.
            self.report.removed.bytes += old.file_len();
            self.report.added.bytes += new.file_len();
        }
        Ok(())
    }
}

fn kind_of(listed: &Listed) -> DiffKind {
    kind(&listed.entry)
}

fn kind(entry: &ListingEntry) -> DiffKind {
    match entry.kind {
        EntryKind::File { .. } | EntryKind::HardLink { .. } => DiffKind::File,
        EntryKind::Folder => DiffKind::Folder,
        _ => DiffKind::Other,
    }
}

/// Compares two backups of single streams.
fn of_streams(
    reader: &dyn StoreReader,
    before: &Snapshot,
    after: &Snapshot,
    request: &DiffRequest,
    report: &mut DiffReport,
) -> Result<Vec<Change>> {
    let stream = |snapshot: &Snapshot| Some((snapshot.single_stream()?.0.to_vec(), whole(snapshot)?));
    let (Some(old), Some(new)) = (stream(before), stream(after)) else {
        let text = "one of the backups is of a single stream, and the other one of files and folders";
        return Err(Error::NotFound(text.to_owned()));
    };
    if !(request.before.is_empty() && request.after.is_empty()) {
        let text = format!("backup {} is of one stream, and has no folders", before.id);
        return Err(Error::NotFound(text));
    }
    let change = |path: &[u8], before: bool, after: bool| Change {
        path: path.to_vec(),
        before: before.then_some(DiffKind::File),
        after: after.then_some(DiffKind::File),
        is_type_changed: false,
        is_content_changed: before && after,
        is_metadata_changed: false,
    };
    if old.0 == new.0 {
        let len = old.1.len;
        let is_same = len == new.1.len
            && (old.1.fingerprint == new.1.fingerprint
                || SameBytes::new(reader, &old.1, &new.1).are_equal(0, 0, len)?);
        if is_same {
            return Ok(Vec::new());
        }
        report.files_changed = 1;
    } else {
        (report.removed.files, report.added.files) = (1, 1);
    }
    (report.removed.bytes, report.added.bytes) = (old.1.len, new.1.len);
    Ok(match old.0 == new.0 {
        true => vec![change(&old.0, true, true)],
        false => vec![change(&old.0, true, false), change(&new.0, false, true)],
    })
}

fn whole(snapshot: &Snapshot) -> Option<TreeRoot> {
    role(&snapshot.backup, StreamRole::Whole)
}

//! Feeds an archive with entries and their content, in listing order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use format::listing::{Content, EntryKind, ListingEntry};
use restore::{BackupListing, Entries, Output, RestoreError, Wanted};
use tree::{Listed, order};
use types::ByteRange;

use super::format::ArchiveWriter;
use super::{ArchiveFault, ArchiveReport, ArchiveRequest, not_written};
use crate::error::{Error, Result};

/// Added to the name of a file of which the backup has a part only, as a restore does.
const INCOMPLETE: &[u8] = b".onefold-incomplete";
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The entry that the next bytes of content belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current {
    None,
    File {
        left: u64,
    },
    /// They belong to no entry.
    Unwanted {
        left: u64,
    },
}

/// Writes entries as their content arrives.
pub(super) struct Feeding<'a, 'b> {
    archive: &'a mut (dyn ArchiveWriter + 'b),
    entries: Entries<'a>,
    listing: &'a BackupListing<'a>,
    request: &'a ArchiveRequest,
    cancel: &'a AtomicBool,
    faults: &'a mut dyn FnMut(&ArchiveFault),
    current: Current,
    /// A file whose lead is skipped first.
    after_lead: Option<Listed>,
    /// Further names that wait for the end, the next one last, by the path of their first names.
    late: BTreeMap<Vec<u8>, Vec<ListingEntry>>,
    /// Names in the archive of first names that were written late.
    written_late: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The paths of sockets, which are left out.
    sockets: BTreeSet<Vec<u8>>,
    report: ArchiveReport,
    failure: Option<Error>,
}

impl<'a, 'b> Feeding<'a, 'b> {
    pub(super) fn new(
        archive: &'a mut (dyn ArchiveWriter + 'b),
        entries: Entries<'a>,
        listing: &'a BackupListing<'a>,
        request: &'a ArchiveRequest,
        cancel: &'a AtomicBool,
        faults: &'a mut dyn FnMut(&ArchiveFault),
    ) -> Self {
        Self {
            archive,
            entries,
            listing,
            request,
            cancel,
            faults,
            current: Current::None,
            after_lead: None,
            late: BTreeMap::new(),
            written_late: BTreeMap::new(),
            sockets: BTreeSet::new(),
            report: ArchiveReport::default(),
            failure: None,
        }
    }

    /// The counts so far.
    pub(super) fn report(&self) -> ArchiveReport {
        self.report
    }

    /// Why the content was refused, if it was.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn fault(&mut self, path: &[u8], why: &'static str) {
        self.report.faults += 1;
        let path = path.to_vec();
        (self.faults)(&ArchiveFault { path, why });
    }

    /// The name in the archive.
    fn name(&self, path: &[u8]) -> Vec<u8> {
        let base = match self.request.is_base {
            true => self.request.path.strip_suffix(b"/").unwrap_or(&self.request.path),
            false => b"",
        };
        let below = path.strip_prefix(base).unwrap_or(path);
        match below.strip_prefix(b"/").unwrap_or(below) {
            // It is the path itself.
            b"" => order::name(path).to_vec(),
            name => name.to_vec(),
        }
    }

    fn left(&self) -> u64 {
        match self.current {
            Current::None => 0,
            Current::File { left } | Current::Unwanted { left } => left,
        }
    }

    /// Writes entries up to the next one with content. `false`: there is none.
    fn place_next(&mut self) -> Result<bool> {
        while self.left() == 0 {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(RestoreError::Interrupted.into());
            }
            let listed = match self.after_lead.take() {
                Some(listed) => listed,
                None => {
                    let Some(listed) = self.entries.next_entry()? else {
                        return Ok(false);
                    };
                    let lead = listed.entry.lead();
                    if lead > 0 {
                        self.current = Current::Unwanted { left: lead };
                        self.after_lead = Some(listed);
                        continue;
                    }
                    listed
                }
            };
            self.place(listed.entry)?;
        }
        Ok(true)
    }

    fn place(&mut self, entry: ListingEntry) -> Result<()> {
        let is_base = self.request.is_base && entry.path == self.request.path || entry.path == b"/";
        if is_base && entry.kind == EntryKind::Folder {
            return Ok(());
        }
        let name = self.name(&entry.path);
        match &entry.kind {
            EntryKind::HardLink { target } => {
                let target = target.clone();
                self.place_link(&name, entry, &target)
            }
            EntryKind::File { len, .. } => {
                let len = *len;
                self.begin_file(name, &entry, len).map(drop)
            }
            _ => self.place_other(&name, &entry),
        }
    }

    /// Marks the name if the backup has only a part of the file.
    fn marked(mut name: Vec<u8>, entry: &ListingEntry) -> (Vec<u8>, bool) {
        let is_part = matches!(entry.state.content, Content::Partial { .. });
        if is_part {
            name.extend_from_slice(INCOMPLETE);
        }
        (name, is_part)
    }

    fn tell_part(&mut self, entry: &ListingEntry) {
        self.fault(
            &entry.path,
            "incomplete in the backup; what there is of it has another name",
        );
    }

    /// Returns the name in the archive.
    fn begin_file(&mut self, name: Vec<u8>, entry: &ListingEntry, len: u64) -> Result<Vec<u8>> {
        let (name, is_part) = Self::marked(name, entry);
        if is_part {
            self.tell_part(entry);
        }
        if matches!(entry.state.content, Content::Older { .. }) {
            self.report.older += 1;
        }
        self.tell_shortfall(&name, entry);
        self.archive.begin_file(&name, entry, len).map_err(not_written)?;
        self.report.files += 1;
        self.current = Current::File { left: len };
        self.end_if_whole()?;
        Ok(name)
    }

    fn place_other(&mut self, name: &[u8], entry: &ListingEntry) -> Result<()> {
        if entry.kind == EntryKind::Socket {
            self.report.sockets += 1;
            self.sockets.insert(entry.path.clone());
            return Ok(());
        }
        if self.archive.other(name, entry).map_err(not_written)? {
            self.report.others += 1;
            self.tell_shortfall(name, entry);
            if matches!(entry.state.content, Content::Partial { .. }) {
                self.fault(
                    &entry.path,
                    "not all that was in it could be read when it was backed up: some may be missing",
                );
            }
        } else {
            self.fault(&entry.path, "left out: the archive's format has no such entries");
        }
        Ok(())
    }

    /// Writes a further name as a link, or keeps it for the end.
    fn place_link(&mut self, name: &[u8], entry: ListingEntry, target: &[u8]) -> Result<()> {
        if self.sockets.contains(target) {
            self.report.sockets += 1;
            return Ok(());
        }
        let is_in = order::is_within(target, &self.request.path);
        let is_partial = matches!(entry.state.content, Content::Partial { .. });
        if is_in && !is_partial {
            let target = self.name(target);
            if self.archive.link(name, &entry, &target).map_err(not_written)? {
                self.report.others += 1;
                return Ok(());
            }
        }
        self.late.entry(target.to_vec()).or_default().push(entry);
        Ok(())
    }

    fn tell_shortfall(&mut self, name: &[u8], entry: &ListingEntry) {
        if let Some(why) = self.archive.shortfall(name, entry) {
            self.fault(&entry.path, why);
        }
        if entry.state.lacks_attributes {
            self.fault(&entry.path, "not all of its attributes are in the backup");
        }
    }

    fn end_if_whole(&mut self) -> Result<()> {
        if self.current == (Current::File { left: 0 }) {
            self.archive.end_file().map_err(not_written)?;
        }
        if self.left() == 0 {
            self.current = Current::None;
        }
        Ok(())
    }

    /// Writes the entries behind the last content.
    pub(super) fn place_rest(&mut self) -> Result<()> {
        match self.place_next()? {
            true => Err(RestoreError::Internal("the listing has more content than its range").into()),
            false => Ok(()),
        }
    }

    /// Begins the next further name that waited for the end. Returns the range of its content.
    pub(super) fn next_late(&mut self) -> Result<Option<ByteRange>> {
        while let Some((target, mut names)) = self.late.pop_first() {
            let Some(entry) = names.pop() else { continue };
            let path = entry.path.clone();
            if !names.is_empty() {
                self.late.insert(target.clone(), names);
            }
            let name = self.name(&path);
            if let Some(first) = self.written_late.get(&target).cloned() {
                let (name, is_part) = Self::marked(name.clone(), &entry);
                if self.archive.link(&name, &entry, &first).map_err(not_written)? {
                    self.report.others += 1;
                    if is_part {
                        self.tell_part(&entry);
                    }
                    continue;
                }
            }
            let mut found = self.listing.entries(Wanted::just([target.clone()]))?;
            let Some(first) = found.next_entry()? else {
                self.fault(&path, "left out: the backup lacks what it is a further name of");
                continue;
            };
            // It is the same inode, under another path.
            let (offset, len) = (first.content_offset, first.entry.file_len());
            let entry = ListingEntry { path, ..first.entry };
            if let EntryKind::File { .. } = entry.kind {
                let name = self.begin_file(name, &entry, len)?;
                self.written_late.entry(target).or_insert(name);
                return Ok(Some(ByteRange { offset, len }));
            }
            self.written_late.entry(target).or_insert_with(|| name.clone());
            self.place_other(&name, &entry)?;
        }
        Ok(None)
    }

    /// Fails unless the last late file has all its bytes.
    pub(super) fn end_late(&self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            _ => Err(RestoreError::Internal("a file has fewer bytes than its entry says").into()),
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.left() == 0 && !self.place_next()? {
                return Err(RestoreError::Internal("there is more content than entries").into());
            }
            let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            match &mut self.current {
                Current::File { left } => {
                    self.archive.write(now).map_err(not_written)?;
                    *left -= now.len() as u64;
                }
                Current::Unwanted { left } => *left -= now.len() as u64,
                Current::None => {}
            }
            self.end_if_whole()?;
            bytes = later;
        }
        Ok(())
    }
}

impl Output for Feeding<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.feed(bytes).map_err(|error| {
            self.failure = Some(error);
            io::Error::other("the archive was given up")
        })
    }

    fn skip_zeros(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let now = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
            self.write(&ZEROS[..now])?;
            len -= now as u64;
        }
        Ok(())
    }
}

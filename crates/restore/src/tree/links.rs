//! Hard links to a first name that is not restored.
//!
//! They wait until all other entries are placed, and so does the metadata of their folders. Then
//! the first of them becomes the entry itself, with a file's content, and the others become links
//! to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::listing::EntryKind;
use recipe::StreamBytes;
use tree::{FileWriter, Listed, PendingLink, Placed, SkipReason};

use super::{Fault, TreeSink, TreeSource};
use crate::error::RestoreError;
use crate::listing::Wanted;

/// Waiting links, by the name that is not restored.
pub(super) type WaitingLinks = BTreeMap<Vec<u8>, Vec<PendingLink>>;

impl TreeSink<'_> {
    /// Creates the waiting links.
    pub(super) fn restore_links(&mut self, source: TreeSource<'_>) -> Result<(), RestoreError> {
        let mut links = std::mem::take(&mut self.links);
        if links.is_empty() {
            return Ok(());
        }
        let mut firsts = source.listing.entries(Wanted::just(links.keys().cloned()))?;
        while let Some(listed) = firsts.next_entry()? {
            let names = links.remove(&listed.entry.path).unwrap_or_default();
            match &listed.entry.kind {
                EntryKind::Folder | EntryKind::HardLink { .. } => self.miss(&listed.entry.path, names),
                _ => self.restore_names(source, &listed, names)?,
            }
        }
        for (target, names) in links {
            self.miss(&target, names);
        }
        Ok(())
    }

    fn miss(&mut self, target: &[u8], names: Vec<PendingLink>) {
        for name in names {
            self.tell(Fault::Lost {
                path: name.entry().path.clone(),
                error: Arc::new(RestoreError::NoLinkTarget {
                    target: target.to_vec(),
                }),
            });
        }
    }

    /// Creates all names of one entry. If one fails, the others are still created.
    fn restore_names(
        &mut self,
        source: TreeSource<'_>,
        listed: &Listed,
        names: Vec<PendingLink>,
    ) -> Result<(), RestoreError> {
        let mut first: Option<PendingLink> = None;
        for name in names {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(RestoreError::Interrupted);
            }
            self.ensure_room()?;
            if let Some(first) = &first {
                match name.link(first) {
                    Ok(Placed::Skipped(_)) => self.stats.kept += 1,
                    Ok(_) => self.stats.others += 1,
                    Err(fault) => self.tell(Fault::Tree(fault)),
                }
                continue;
            }
            let is_there = match name.make(&listed.entry) {
                Ok(Placed::File(writer)) => self.copy(source, writer, listed.content_offset),
                Ok(Placed::Done) => {
                    self.stats.others += 1;
                    true
                }
                Ok(Placed::Skipped(reason)) => {
                    self.stats.kept += 1;
                    // Any other entry that stays there may be a different file.
                    reason == SkipReason::Unchanged
                }
                Ok(_) => return Err(RestoreError::Internal("an entry was placed as something else")),
                Err(fault) => {
                    self.tell(Fault::Tree(fault));
                    false
                }
            };
            if is_there {
                first = Some(name);
            }
        }
        Ok(())
    }

    /// Fills a file from the content, and returns whether it exists now. A failure affects only
    /// this file.
    fn copy(&mut self, source: TreeSource<'_>, writer: FileWriter, from: u64) -> bool {
        let done = match fill(source, &writer, from) {
            Ok(()) => {
                let len = writer.len();
                let finished = writer.finish().map_err(Fault::Tree);
                finished.map(|stays| stays.is_none().then_some(len))
            }
            Err(error) => {
                let path = writer.entry().path.clone();
                drop(writer);
                Err(match error {
                    RestoreError::Tree(fault) => Fault::Tree(fault),
                    other => Fault::Lost {
                        path,
                        error: Arc::new(other),
                    },
                })
            }
        };
        match done {
            Ok(Some(len)) => {
                self.stats.bytes += len;
                self.count_file();
                true
            }
            // The same file was created meanwhile.
            Ok(None) => {
                self.stats.kept += 1;
                true
            }
            Err(fault) => {
                self.tell(fault);
                false
            }
        }
    }
}

fn fill(source: TreeSource<'_>, writer: &FileWriter, from: u64) -> Result<(), RestoreError> {
    let mut bytes = StreamBytes::new(source.reader, source.content, from, writer.len())?;
    let mut offset = 0;
    loop {
        let piece = bytes.next_bytes()?;
        if piece.is_empty() {
            return Ok(());
        }
        writer.write_at(offset, piece)?;
        offset += piece.len() as u64;
    }
}

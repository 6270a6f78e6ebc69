//! Containers whose catalogs could not be read when their hooks should have been added:
//! `index/unread.<number>`.
//!
//! Their sessions still count as covered. Otherwise every backup would read those sessions again,
//! fail at the same sector, and publish the readable hooks again. The next backup tries a catalog
//! named here again. Later backups try when twice as many sessions have come since the first
//! attempt, and finally every [`SESSIONS_MAX`] sessions. Once a copy can be read, its hooks are
//! added, and the list names it no more.
//!
//! The list with the highest number counts. The creator of a number deletes lower ones. A process
//! that loses a number reads again. If the object is lost, `index rebuild` adds the missing hooks
//! (INV-4). It is not sealed: it names containers and sessions, as names of objects do.
//!
//! ```text
//! head and meta: see `object_header`; digest over all before
//! ```

use std::collections::BTreeMap;

use env::StorageError;
use format::names;
use format::wire::{Reader, Writer, digest};
use types::{ContainerId, SessionId, StoreId};

use crate::error::IndexError;
use crate::index::Index;
use crate::object_header::Head;

const HEAD: Head = Head {
    magic: *b"1FOLDunr",
    version: 1,
    what: "such a list",
};
const WHAT: &str = "list of unread catalogs";

/// The most remembered catalogs. Sessions of further ones stay uncovered.
const ENTRIES_MAX: usize = 4096;
/// A catalog is tried again after at most so many sessions.
const SESSIONS_MAX: u64 = 64;
/// The most attempts to get a number.
const NUMBERS_MAX: usize = 64;

/// The attempts to read a catalog, each recorded as the newest session at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    first: SessionId,
    last: SessionId,
}

/// The remembered catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    entries: BTreeMap<ContainerId, Asked>,
}

impl Unread {
    pub(crate) fn has(&self, id: ContainerId) -> bool {
        self.entries.contains_key(&id)
    }

    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.entries.len() + more <= ENTRIES_MAX
    }

    pub(crate) fn containers(&self) -> impl Iterator<Item = ContainerId> + '_ {
        self.entries.keys().copied()
    }

    /// The catalogs to try when `now` is the newest session.
    pub(crate) fn due(&self, now: SessionId) -> Vec<ContainerId> {
        let is_due = |asked: &Asked| {
            let waited = asked.last.get().saturating_sub(asked.first.get());
            let wait = waited.clamp(1, SESSIONS_MAX);
            now.get().saturating_sub(asked.last.get()) >= wait
        };
        let due = self.entries.iter().filter(|(_, asked)| is_due(asked));
        due.map(|(id, _)| *id).collect()
    }

    fn note(&mut self, now: SessionId, asked: &BTreeMap<ContainerId, bool>) {
        for (id, is_over) in asked {
            if *is_over {
                self.entries.remove(id);
            } else if self.has(*id) || self.has_room(1) {
                let fresh = Asked {
                    first: now,
                    last: now,
                };
                self.entries.entry(*id).or_insert(fresh).last = now;
            }
        }
    }

    pub(crate) fn encode(&self, store: StoreId) -> Vec<u8> {
        let mut meta = Vec::new();
        let mut w = Writer::new(&mut meta);
        w.store(store);
        let entries: Vec<_> = self.entries.iter().collect();
        w.list(&entries, |w, (id, asked)| {
            w.container(**id);
            w.session(asked.first);
            w.session(asked.last);
        });
        let mut out = HEAD.write(&meta);
        let value = digest(&out);
        Writer::new(&mut out).u128(value);
        out
    }

    pub(crate) fn decode(bytes: &[u8], store: StoreId) -> Result<Self, String> {
        let text = |e: format::FormatError| e.to_string();
        let mut r = Reader::new(WHAT, bytes);
        let meta = HEAD.read(&mut r)?;
        let value = digest(bytes.get(..r.position()).unwrap_or_default());
        if r.u128().map_err(text)? != value {
            return Err("it is damaged".to_owned());
        }
        r.finish().map_err(text)?;
        let mut r = Reader::new(WHAT, meta);
        let of = r.store().map_err(text)?;
        if of != store {
            return Err(format!("it is of store {of}"));
        }
        let entry = |r: &mut Reader<'_>| {
            let (id, first, last) = (r.container()?, r.session()?, r.session()?);
            Ok((id, Asked { first, last }))
        };
        let entries = r.list(3, entry).map_err(text)?;
        r.finish().map_err(text)?;
        if entries.len() > ENTRIES_MAX {
            return Err(format!(
                "it has {} entries, and {ENTRIES_MAX} at most",
                entries.len()
            ));
        }
        Ok(Self {
            entries: entries.into_iter().collect(),
        })
    }
}

impl Index {
    /// The remembered catalogs. Requests nothing from the storage if a listing of runs has shown
    /// that there are none.
    pub(crate) fn unread(&self) -> Result<Unread, IndexError> {
        if !self.has_unread() {
            return Ok(Unread::default());
        }
        Ok(self.read_unread()?.1)
    }

    /// The numbers of all lists, ascending, and the content of the highest.
    fn read_unread(&self) -> Result<(Vec<u32>, Unread), IndexError> {
        let listed = self.storage().list(names::INDEX_FOLDER)?;
        let numbers = listed
            .iter()
            .filter_map(|object| names::parse_index_unread(&object.name));
        let mut numbers: Vec<u32> = numbers.filter(|number| *number < u32::MAX).collect();
        numbers.sort_unstable();
        let Some(highest) = numbers.last() else {
            return Ok((numbers, Unread::default()));
        };
        let name = names::index_unread(*highest);
        let read = match self.storage().get(&name) {
            Ok(bytes) => Unread::decode(&bytes, self.store()),
            // The list is being replaced: the next call reads the new one.
            Err(StorageError::NotFound { .. }) => Ok(Unread::default()),
            Err(error @ StorageError::Io { .. }) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let unread = read.unwrap_or_else(|why| {
            self.note_bad(
                name,
                format!("{why}; `onefold index rebuild` finds what it named"),
            );
            Unread::default()
        });
        Ok((numbers, unread))
    }

    /// Records the catalogs that were tried when `now` was the newest session, and which of them
    /// are settled.
    pub(crate) fn note_unread(
        &self,
        now: SessionId,
        asked: &BTreeMap<ContainerId, bool>,
    ) -> Result<(), IndexError> {
        if asked.is_empty() {
            return Ok(());
        }
        let mut name = names::index_unread(0);
        for _ in 0..NUMBERS_MAX {
            let (numbers, before) = self.read_unread()?;
            let mut unread = before.clone();
            unread.note(now, asked);
            if unread == before {
                return Ok(());
            }
            if !unread.entries.is_empty() {
                name = names::index_unread(numbers.last().map_or(0, |highest| highest + 1));
                match self.storage().put(&name, &[&unread.encode(self.store())]) {
                    Ok(()) => {}
                    Err(StorageError::AlreadyExists { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            self.set_has_unread(!unread.entries.is_empty());
            let old: Vec<_> = numbers.into_iter().map(names::index_unread).collect();
            self.delete(&old)?;
            return Ok(());
        }
        Err(IndexError::TooManyRuns { name })
    }
}

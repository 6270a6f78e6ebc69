//! The objects of epochs: which exist, which epoch is open, and the lists of which epoch count.
//!
//! An epoch is open while its condemned list exists. An epoch below the highest one is void, and
//! nobody uses its list (docs/protocol.md, "Condemn, wait, remove"). The next epoch starts from the
//! removed list of the highest finished one.

use std::collections::BTreeSet;

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{Condemned, Removed};
use object::{ObjectError, Sealer};
use types::{Epoch, ObjectName, UnixNanos};

use crate::error::{ReclaimError, Result};
use crate::objects;
use crate::progress::Progress;
use crate::warning::Warning;

/// No store counts so far: somebody else made the name. Two numbers must follow an epoch, because
/// it may announce the next one.
const LAST: u64 = Epoch::MAX.get() - 1;

/// The epochs that have lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub(crate) condemned: BTreeSet<Epoch>,
    pub(crate) removed: BTreeSet<Epoch>,
}

impl Epochs {
    pub(crate) fn list(sealer: &Sealer) -> Result<Self> {
        // In this order, as sessions do: a condemned list is dropped only when its removed list
        // exists.
        let condemned = sealer.list(names::CONDEMNED_FOLDER, names::parse_condemned)?;
        let removed = sealer.list(names::REMOVED_FOLDER, names::parse_removed)?;
        let epochs = Self {
            condemned: condemned.into_iter().map(|(epoch, _)| epoch).collect(),
            removed: removed.into_iter().map(|(epoch, _)| epoch).collect(),
        };
        match epochs.highest() {
            Some(highest) if highest.get() >= LAST => {
                let is_removed = epochs.removed.contains(&highest);
                let name = if is_removed {
                    names::removed
                } else {
                    names::condemned
                };
                Err(objects::no_next(&name(highest)))
            }
            _ => Ok(epochs),
        }
    }

    pub(crate) fn highest(&self) -> Option<Epoch> {
        self.condemned.last().copied().max(self.removed.last().copied())
    }

    /// The number of the next epoch.
    pub(crate) fn next(&self) -> Epoch {
        match self.highest() {
            Some(highest) => highest.next(),
            None => Epoch::new(1).expect("1 is an epoch"),
        }
    }

    /// The open epoch, which must be finished first.
    pub(crate) fn open(&self) -> Option<Epoch> {
        self.highest().filter(|highest| self.condemned.contains(highest))
    }

    /// Removed lists of finished epochs, the newest first.
    pub(crate) fn finished(&self) -> impl Iterator<Item = Epoch> + '_ {
        let finished = |epoch: &Epoch| !self.condemned.contains(epoch);
        self.removed.iter().rev().copied().filter(finished)
    }

    /// The removed list of the newest finished epoch, and when it was put; and whether a list could
    /// not be read. In that case nobody knows which marks counted and which slots stayed, so
    /// everything must be swept.
    pub(crate) fn last_removed(
        &self,
        sealer: &Sealer,
        progress: &dyn Progress,
    ) -> Result<(Option<(Removed, UnixNanos)>, bool)> {
        let mut unreadable = false;
        for epoch in self.finished() {
            match read_removed(sealer, epoch)? {
                Found::Whole(removed) => {
                    let put_at = sealer.env().storage.head(&names::removed(epoch))?.put_at;
                    return Ok((Some((removed, put_at)), unreadable));
                }
                Found::Missing => unreadable = true,
                Found::Damaged(why) => {
                    progress.warn(Warning::removed_list_unread(&why));
                    unreadable = true;
                }
            }
        }
        Ok((None, unreadable))
    }

    /// Whether the list of a finished epoch below this one has rotted. Then nobody knows which of
    /// its slots still exist.
    pub(crate) fn has_rotten_below(
        &self,
        sealer: &Sealer,
        newest: Epoch,
        progress: &dyn Progress,
    ) -> Result<bool> {
        let mut has_rotten = false;
        for epoch in self.finished().filter(|epoch| *epoch < newest) {
            let read = sealer.read(&names::removed(epoch), ObjectKind::Removed, Removed::decode);
            if let Err(why) = read.map(drop)
                && why.is_damage()
            {
                progress.warn(Warning::removed_list_unread(&why));
                has_rotten = true;
            }
        }
        Ok(has_rotten)
    }

    /// Whether the lists of the open epoch cannot be read. Then a new epoch supersedes it, and
    /// sweeps all containers, with the slots that it condemned. Its number is not used again,
    /// because sessions have answered it.
    pub(crate) fn is_illegible(&self, sealer: &Sealer, open: Epoch) -> Result<bool> {
        Ok(match read_removed(sealer, open)? {
            Found::Whole(_) => false,
            Found::Damaged(_) => true,
            Found::Missing => matches!(read_condemned(sealer, open)?, Found::Damaged(_)),
        })
    }
}

/// What reading a list found.
pub(crate) enum Found<T> {
    Whole(T),
    Missing,
    Damaged(String),
}

pub(crate) fn read_condemned(sealer: &Sealer, epoch: Epoch) -> Result<Found<Condemned>> {
    found(sealer.read(&names::condemned(epoch), ObjectKind::Condemned, Condemned::decode))
}

pub(crate) fn read_removed(sealer: &Sealer, epoch: Epoch) -> Result<Found<Removed>> {
    found(sealer.read(&names::removed(epoch), ObjectKind::Removed, Removed::decode))
}

fn found<T>(read: Result<T, ObjectError>) -> Result<Found<T>> {
    match read {
        Ok(list) => Ok(Found::Whole(list)),
        Err(error) if error.is_not_found() => Ok(Found::Missing),
        Err(error) if is_lost(&error) => Ok(Found::Damaged(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Whether an object is lost, by rot or a bad sector. A storage that does not answer says nothing
/// of it.
pub(crate) fn is_lost(error: &ObjectError) -> bool {
    error.is_damage() || matches!(error, ObjectError::Storage(error) if error.is_of_medium())
}

/// Creates a list, and returns whether this process created it. The list, and all objects that it
/// follows from, are durable on return.
pub(crate) fn create(sealer: &Sealer, name: &ObjectName, kind: ObjectKind, bytes: &[u8]) -> Result<bool> {
    sealer.barrier()?;
    match sealer.put(name, kind, bytes) {
        Ok(()) => {
            sealer.barrier()?;
            Ok(true)
        }
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Deletes an object. It is no error if another process has deleted it.
pub(crate) fn delete(sealer: &Sealer, name: &ObjectName) -> Result<()> {
    Ok(sealer.env().storage.delete_many(std::slice::from_ref(name))?)
}

/// Does the same as [`delete`] for many objects, several at once.
pub(crate) fn delete_all(sealer: &Sealer, names: &[ObjectName]) -> Result<()> {
    let doomed: Vec<_> = names.iter().map(|name| (name.clone(), 0)).collect();
    objects::delete(&*sealer.env().storage, &doomed)?;
    Ok(())
}

/// Fails if a higher epoch exists: then this one is void, or another process has finished it.
pub(crate) fn ensure_highest(sealer: &Sealer, epoch: Epoch) -> Result<()> {
    if Epochs::list(sealer)?.highest() > Some(epoch) {
        return Err(ReclaimError::Overtaken);
    }
    Ok(())
}

//! Listing epochs, and reading their condemned and removed lists.
//!
//! Condemned lists are listed before removed ones. A condemned list is deleted only after its
//! removed list exists, so the listing misses neither. A list that vanishes between listing and
//! reading was deleted; listing again finds its replacement. Stateless.

use std::collections::BTreeSet;

use env::{ListingOf, Moment};
use format::names;
use format::reclaim::{Condemned, Damaged, Removed};
use types::{Epoch, ObjectName, SessionId};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::objects::{Objects, Payload, Read};
use crate::view::{ReclaimView, ViewBuilder};

/// How often to list again if lists vanish before they are read.
const LISTINGS_MAX: usize = 8;

/// The epochs that have lists, by name alone. Apart from damage, equal names give equal views.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EpochNames {
    condemned: BTreeSet<Epoch>,
    removed: BTreeSet<Epoch>,
}

impl EpochNames {
    pub(crate) fn list(objects: &Objects) -> Result<Self> {
        let condemned = condemned(objects, objects.storage().moment())?;
        let removed = removed(objects, objects.storage().moment())?;
        Ok(Self { condemned, removed })
    }

    /// Whether a removed list was there before and is not any more.
    pub(crate) fn lacks_removed_of(&self, before: &Self) -> bool {
        !before.removed.is_subset(&self.removed)
    }
}

fn condemned(objects: &Objects, since: Moment) -> Result<BTreeSet<Epoch>> {
    epochs(objects, names::CONDEMNED_FOLDER, names::parse_condemned, since)
}

/// As of any moment after `since`, which must be after the listing of condemned lists.
fn removed(objects: &Objects, since: Moment) -> Result<BTreeSet<Epoch>> {
    epochs(objects, names::REMOVED_FOLDER, names::parse_removed, since)
}

fn epochs(
    objects: &Objects,
    folder: &str,
    parse: fn(&ObjectName) -> Option<Epoch>,
    since: Moment,
) -> Result<BTreeSet<Epoch>> {
    Ok(objects
        .storage()
        .list_since(folder, since)?
        .iter()
        .filter_map(|meta| parse(&meta.name))
        .collect())
}

/// Lists epochs as of any moment after `since`, and builds their view for session `own`.
pub(crate) fn load(
    objects: &Objects,
    own: SessionId,
    mut since: Moment,
) -> Result<(EpochNames, ReclaimView)> {
    let storage = objects.storage();
    for _ in 0..LISTINGS_MAX {
        let condemned = condemned(objects, since)?;
        let then = storage.moment();
        storage.look_ahead(&[
            ListingOf::Objects(names::REMOVED_FOLDER),
            ListingOf::Objects(names::DAMAGED_FOLDER),
        ]);
        let removed = removed(objects, then)?;
        let listed = EpochNames { condemned, removed };
        if let Some(view) = read(objects, own, &listed, then)? {
            return Ok((listed, view));
        }
        since = storage.moment();
    }
    Err(SessionError::Contended {
        name: names::CONDEMNED_FOLDER.to_owned(),
    })
}

/// The view of these lists, and of lists of damage as of any moment after `since`. `None`: a list
/// vanished.
fn read(
    objects: &Objects,
    own: SessionId,
    listed: &EpochNames,
    since: Moment,
) -> Result<Option<ReclaimView>> {
    let mut view = ViewBuilder::new(own);
    for epoch in listed.condemned.union(&listed.removed).copied() {
        view.saw(epoch);
        let mut known = false;
        if listed.removed.contains(&epoch) {
            match list::<Removed>(objects, &names::removed(epoch), &mut view)? {
                Listed::Gone => return Ok(None),
                Listed::Read(removed) => {
                    view.absent(&removed.slots);
                    view.absent_runs(&removed.gone);
                    known = true;
                }
                Listed::Unreadable => {}
            }
        }
        // Removed slots were condemned before, so the longer list replaces one that cannot be read.
        if !known && listed.condemned.contains(&epoch) {
            match list::<Condemned>(objects, &names::condemned(epoch), &mut view)? {
                Listed::Gone => return Ok(None),
                Listed::Read(condemned) => {
                    view.absent(&condemned.slots);
                    known = true;
                }
                Listed::Unreadable => {}
            }
        }
        if !known {
            view.blind();
        }
    }
    for meta in objects.storage().list_since(names::DAMAGED_FOLDER, since)? {
        let Some((container, _)) = names::parse_damaged(&meta.name) else {
            continue;
        };
        match list::<Damaged>(objects, &meta.name, &mut view)? {
            // It was healed just now.
            Listed::Gone => {}
            Listed::Read(damaged) => view.absent(std::slice::from_ref(&damaged.slots)),
            Listed::Unreadable => view.absent_container(container),
        }
    }
    Ok(Some(view.build()))
}

enum Listed<T> {
    Read(T),
    Gone,
    Unreadable,
}

fn list<P: Payload>(objects: &Objects, name: &ObjectName, view: &mut ViewBuilder) -> Result<Listed<P>> {
    let unreadable = match objects.read::<P>(name) {
        Ok(Read::Whole(value)) => return Ok(Listed::Read(value)),
        Ok(Read::Missing) => return Ok(Listed::Gone),
        Ok(Read::Damaged(object)) => object,
        // One bad sector must not end every session.
        Err(SessionError::Storage(error)) if error.is_of_medium() => {
            DamagedObject::unread(name.clone(), &error)
        }
        Err(error) => return Err(error),
    };
    view.unreadable(unreadable);
    Ok(Listed::Unreadable)
}

//! Writes containers anew of which every slot can be read, but not every copy: a mirror copy is
//! damaged or missing, or a part that another part repeats. And makes containers of catalog copies
//! again, from the catalogs.
//!
//! The order is that of [`super::heal`]: the new generation is durable in all copies before older
//! objects are deleted.

use std::collections::{BTreeMap, BTreeSet};

use container::{CatalogCopies, ContainerError, Depth, SealedContainer};
use format::names;
use session::HeldLease;
use types::{ContainerId, ContainerKind, Generation};

use super::copies::Copies;
use super::donors::Donors;
use super::generation;
use super::lists::{Lists, OnRecord};
use super::patient::{Known, Patient};
use super::{ensure_wanted, objects_of};
use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::objects::{self, Objects, StandingObjects};

/// Writes these containers anew, as far as all of their slots can be read. Returns those that it
/// has written.
///
/// # Errors
/// `Overtaken`, `Interrupted`; of the storage. The store is as readable as before.
pub fn rewrite(
    context: &Context<'_>,
    lease: &HeldLease,
    ids: &BTreeSet<ContainerId>,
) -> Result<Vec<ContainerId>> {
    context.containers.clear_catalogs();
    let lists = Lists::read(context.sealer)?;
    let record = OnRecord::read(context.sealer)?;
    let donors = Donors::new(context);
    let copies_of_catalogs = Copies::default();
    let mut written = Vec::new();
    for id in ids.iter().copied().filter(|id| !record.is_gone(*id)) {
        ensure_wanted(context)?;
        let found = objects_of(context, id)?;
        let next = found.highest().map_or(Generation::FIRST, Generation::next);
        let sealed = if id.kind == ContainerKind::Catalog {
            copies(context, id, next)?
        } else {
            let known = Known {
                listed: lists.get(id),
                record: &record,
                needed: None,
                copies: &copies_of_catalogs,
            };
            let patient = Patient::examine(context.containers, id, &found, known)?;
            if !patient.is_sound() {
                continue;
            }
            generation::again(context, &patient, &donors, next)?
        };
        if let Some(sealed) = sealed
            && replace(context, lease, (id, &found), &sealed)?
        {
            written.push(id);
        }
    }
    context.sealer.barrier()?;
    Ok(written)
}

/// Puts the new generation, and then deletes the older objects. Returns whether it is there.
fn replace(
    context: &Context<'_>,
    lease: &HeldLease,
    (id, found): (ContainerId, &Objects),
    sealed: &SealedContainer,
) -> Result<bool> {
    if !lease.is_held()? {
        return Err(ReclaimError::Overtaken);
    }
    match context.containers.put(sealed) {
        Ok(()) => {}
        // Somebody else writes it anew.
        Err(ContainerError::AlreadyExists { .. }) => {
            context.containers.forget(id);
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    context.sealer.barrier()?;
    context.containers.forget(id);
    let verified = context.containers.verify(id, Depth::Full)?;
    if verified.generation != Some(sealed.generation()) || !verified.is_sound() {
        // The disk does not give back what was written to it. All older objects stay.
        return Ok(false);
    }
    let doomed = found.but(id, Some(StandingObjects::of(&sealed.catalog())));
    objects::delete(&*context.sealer.env().storage, &doomed)?;
    context.containers.forget(id);
    Ok(true)
}

/// A container with the copies of the catalogs of its session that no other container has. `None`:
/// there are none, or a catalog is lost of which this container may have the only copy.
fn copies(context: &Context<'_>, id: ContainerId, generation: Generation) -> Result<Option<SealedContainer>> {
    let mut elsewhere = BTreeSet::new();
    for other in containers_of(context, id, ContainerKind::Catalog)? {
        if other != id {
            // What cannot be read of it is copied here, too.
            context
                .containers
                .catalog_copies(other, |copy| _ = elsewhere.insert(copy.container))
                .ok();
        }
    }
    let mut own = BTreeMap::new();
    // As far as they can be read.
    let read = context.containers.catalog_copies(id, |copy| {
        own.insert(copy.container, copy);
    });
    match read {
        Err(ContainerError::Storage(error)) if error.is_outage() => {
            return Err(ContainerError::Storage(error).into());
        }
        Ok(()) | Err(_) => {}
    }
    let mut copies = CatalogCopies::again(context.containers, (id, generation), context.packing.compression);
    let mut described: BTreeSet<ContainerId> = own.keys().copied().collect();
    for kind in [ContainerKind::Data, ContainerKind::Archive] {
        described.extend(containers_of(context, id, kind)?);
    }
    for container in described.difference(&elsewhere) {
        match (context.containers.catalog(*container), own.get(container)) {
            (Ok(view), _) => copies.add(&view),
            (Err(_), Some(copy)) => copies.add_copy(copy),
            (Err(error), None) if error.is_gone() => return Ok(None),
            (Err(error), None) => return Err(error.into()),
        }
    }
    if copies.is_empty() {
        return Ok(None);
    }
    Ok(Some(copies.seal(context.containers)?))
}

/// The containers of a kind of the same session.
fn containers_of(
    context: &Context<'_>,
    of: ContainerId,
    kind: ContainerKind,
) -> Result<BTreeSet<ContainerId>> {
    let folder = names::container_folder(kind, of.session);
    let listed = context.sealer.env().storage.list(&folder)?;
    let ids = listed
        .iter()
        .filter_map(|object| names::parse_container(&object.name));
    Ok(ids.map(|(id, _)| id).collect())
}

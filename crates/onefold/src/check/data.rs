//! Reads whole containers, in all copies, and compares every chunk with its fingerprint.

use std::sync::atomic::{AtomicUsize, Ordering};

use container::{ContainerError, CopyOf, Depth, Part, Verified};
use format::container::CatalogCopy;
use types::{ContainerId, ContainerKind, Slot, SlotRange};

use super::needs::Needs;
use super::{CheckReport, Damage, refuses_container};
use crate::damage::{BadSlots, all_slots};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;

/// Reads the containers, several at a time. Adds slots that no copy has to `bad`.
pub(super) fn read(
    store: &Store,
    chosen: &[ContainerId],
    needs: &Needs,
    monitor: &Monitor,
    report: &mut CheckReport,
    bad: &mut BadSlots,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Some readers wait for the disk while the others compute.
    let readers = cores + 2;
    let next = AtomicUsize::new(0);
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..readers.min(chosen.len().max(1)) {
            let (tx, next) = (tx.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(id) = chosen.get(at).filter(|_| !monitor.is_cancelled()) else {
                        return;
                    };
                    if tx.send((*id, store.containers.verify(*id, Depth::Full))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tx);
        let mut again = Vec::new();
        for (id, verified) in rx {
            monitor.add_done(1);
            report.containers_read += 1;
            let Some(verified) = read_of(id, verified, needs, report, bad)? else {
                continue;
            };
            report.bytes_read += verified.bytes_read;
            if lacks_mirror(&verified) {
                again.push(id);
            } else {
                tell(store, id, &verified, needs, report, bad)?;
            }
        }
        if monitor.is_cancelled() {
            return Err(restore::RestoreError::Interrupted.into());
        }
        // If a generation is just being put, its mirror copy follows the main one within a moment,
        // and exists by now.
        for id in again {
            let verified = store.containers.verify(id, Depth::Full);
            let Some(verified) = read_of(id, verified, needs, report, bad)? else {
                continue;
            };
            report.bytes_read += verified.bytes_read;
            tell(store, id, &verified, needs, report, bad)?;
        }
        Ok(())
    })
}

/// The result of reading a container; `None` after adding a finding that it cannot be read.
fn read_of(
    id: ContainerId,
    verified: std::result::Result<Verified, ContainerError>,
    needs: &Needs,
    report: &mut CheckReport,
    bad: &mut BadSlots,
) -> Result<Option<Verified>> {
    match verified {
        Ok(verified) => Ok(Some(verified)),
        Err(error) if refuses_container(&error) => Err(error.into()),
        Err(error) => {
            report.find_if(needs.has(id), id, Damage::container(error), false);
            report.damaged_containers.insert(id);
            bad.entry(id).or_default().push(all_slots());
            Ok(None)
        }
    }
}

/// Whether the generation that was read has no mirror copy.
fn lacks_mirror(verified: &Verified) -> bool {
    let mut of_mirror = verified
        .damages
        .iter()
        .filter(|damage| damage.copy == CopyOf::Mirror);
    of_mirror.any(|damage| matches!(damage.error, ContainerError::Missing { .. }))
}

fn tell(
    store: &Store,
    id: ContainerId,
    verified: &Verified,
    needs: &Needs,
    report: &mut CheckReport,
    bad: &mut BadSlots,
) -> Result<()> {
    if verified.generation.is_none() && !needs.has(id) {
        // Prune has removed it.
        return Ok(());
    }
    judge(id, verified, needs, report, bad);
    if id.kind == ContainerKind::Catalog {
        compare_copies(store, id, report)?;
    }
    Ok(())
}

/// Distinguishes damage that another copy covers from lost slots.
fn judge(id: ContainerId, verified: &Verified, needs: &Needs, report: &mut CheckReport, bad: &mut BadSlots) {
    let lost = verified.lost(id.kind);
    let is_lost = |slots: &[SlotRange]| {
        let Some(lost) = &lost else { return true };
        let is_in = |slot: Slot| {
            let at = lost.partition_point(|range| range.end() <= slot.get());
            lost.get(at).is_some_and(|range| range.contains(slot))
        };
        slots.iter().flat_map(|range| range.iter()).any(is_in)
    };
    for damage in &verified.damages {
        let is_covered = match damage.part {
            // The footer repeats the header, and readers use the footer's copy.
            Part::Header => true,
            // Copies of catalogs can be made again from the catalogs.
            _ if id.kind == ContainerKind::Catalog => true,
            _ if is_of_all(damage) => lost.as_ref().is_some_and(Vec::is_empty),
            _ => !is_lost(&damage.slots),
        };
        if needs.has_any(id, &damage.slots) {
            report.damaged_containers.insert(id);
        }
        let copy = match damage.copy {
            CopyOf::Main | CopyOf::Body => "",
            CopyOf::Mirror => " (mirror copy)",
        };
        report.find_if(
            needs.has_any(id, &damage.slots),
            format!("{id}.{}{copy}", damage.generation),
            what_of(damage),
            is_covered,
        );
    }
    match lost {
        None => bad.entry(id).or_default().push(all_slots()),
        Some(lost) if lost.is_empty() => {}
        Some(lost) => bad.entry(id).or_default().extend(lost),
    }
}

/// The damage, without the advice to run check.
fn what_of(damage: &container::Damage) -> Damage {
    match &damage.error {
        ContainerError::BodyMissing { body, .. } => Damage::BodyMissing { body: body.clone() },
        error => Damage::container(format!("{error}{}", shown(&damage.slots))),
    }
}

/// Whether the whole copy is unreadable.
fn is_of_all(damage: &container::Damage) -> bool {
    matches!(damage.part, Part::Trailer | Part::Catalog)
}

fn shown(slots: &[SlotRange]) -> String {
    if slots.is_empty() {
        return String::new();
    }
    let one = |slots: &SlotRange| match slots.count() {
        1 => format!("slot {}", slots.first()),
        _ => format!("slots {} to {}", slots.first(), slots.end() - 1),
    };
    let all: Vec<String> = slots.iter().map(one).collect();
    format!(" ({})", all.join(", "))
}

/// Checks that copies of catalogs equal the catalogs.
fn compare_copies(store: &Store, id: ContainerId, report: &mut CheckReport) -> Result<()> {
    let mut copies = Vec::new();
    match store.containers.catalog_copies(id, |copy| copies.push(copy)) {
        Ok(()) => {}
        Err(error) if refuses_container(&error) => return Err(error.into()),
        // This is a finding already, because the container was read.
        Err(error) if error.is_damage() => return Ok(()),
        Err(error) => report.find(id, Damage::container(error), true),
    }
    for copy in copies {
        match store.containers.catalog(copy.container) {
            Ok(view) if view.generation() == copy.generation && !is_same(&copy, view.entries()) => {
                let container = copy.container;
                report.damaged_containers.insert(id);
                report.find(id, Damage::CatalogCopyDiffers { container }, true);
            }
            // It has another generation, or is lost. The copy exists for that case, which is a
            // finding of its own.
            Ok(_) => {}
            Err(error) if refuses_container(&error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn is_same(copy: &CatalogCopy, entries: &[format::container::CatalogEntry]) -> bool {
    copy.entries.len() == entries.len()
        && copy.entries.iter().zip(entries).all(|(copied, entry)| {
            copied.slot == entry.slot
                && copied.len == entry.len
                && copied.fingerprint_prefix == entry.fingerprint.prefix16()
        })
}

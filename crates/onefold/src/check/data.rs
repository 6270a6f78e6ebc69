//! Reads whole containers, in all copies, and compares every chunk with its fingerprint.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use container::{ContainerError, CopyOf, Depth, Part, Verified};
use format::container::CatalogCopy;
use types::{ContainerId, ContainerKind, Generation, Slot, SlotRange};

use super::needs::Needs;
use super::{CheckReport, Damage, refuses_container};
use crate::damage::{BadSlots, all_slots};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;

/// The most times that a container is read, if rewriters replace it again and again.
const ROUNDS_MAX: u32 = 4;

/// Reads the containers, several at a time. Adds slots that no copy has to `bad`. The containers
/// are in ascending order.
///
/// Each round lists each folder once, for all containers in it. An unsound container waits for the
/// next round, whose listing shows whether a rewriter has replaced it meanwhile.
pub(super) fn read(
    store: &Store,
    chosen: &[ContainerId],
    needs: &Needs,
    monitor: &Monitor,
    report: &mut CheckReport,
    bad: &mut BadSlots,
) -> Result<()> {
    let folders = Folders::of(chosen);
    let mut unsound = Vec::new();
    let verify = |at: usize| folders.verify(store, at);
    read_each(chosen.len(), monitor, verify, |at, verified| {
        monitor.add_done(1);
        report.containers_read += 1;
        let id = chosen[at];
        if let Some(verified) = read_of(id, verified, needs, report, bad)? {
            report.bytes_read += verified.bytes_read;
            if verified.is_sound() {
                tell(store, id, &verified, needs, report, bad)?;
            } else {
                unsound.push((id, verified));
            }
        }
        Ok(())
    })?;
    for round in 1..ROUNDS_MAX {
        unsound.sort_unstable_by_key(|(id, _)| *id);
        let mut due = Vec::new();
        for (id, verified, newest) in with_newest(store, std::mem::take(&mut unsound))? {
            // If a generation is just being put, its mirror copy follows the main one within a
            // moment, and exists by now.
            if newest != verified.generation || round == 1 && lacks_mirror(&verified) {
                due.push((id, newest));
            } else {
                tell(store, id, &verified, needs, report, bad)?;
            }
        }
        let verify = |at: usize| {
            store
                .containers
                .verify_generation(due[at].0, due[at].1, Depth::Full)
        };
        read_each(due.len(), monitor, verify, |at, verified| {
            let id = due[at].0;
            if let Some(verified) = read_of(id, verified, needs, report, bad)? {
                report.bytes_read += verified.bytes_read;
                unsound.push((id, verified));
            }
            Ok(())
        })?;
    }
    unsound
        .iter()
        .try_for_each(|(id, verified)| tell(store, *id, verified, needs, report, bad))
}

/// Verifies so many containers, several at a time, and hands out the results as they come.
fn read_each(
    count: usize,
    monitor: &Monitor,
    verify: impl Fn(usize) -> std::result::Result<Verified, ContainerError> + Sync,
    mut each: impl FnMut(usize, std::result::Result<Verified, ContainerError>) -> Result<()>,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Some readers wait for the disk while the others compute.
    let readers = cores + 2;
    let next = AtomicUsize::new(0);
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..readers.min(count) {
            let (tx, next, verify) = (tx.clone(), &next, &verify);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || monitor.is_cancelled() || tx.send((at, verify(at))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tx);
        for (at, verified) in rx {
            each(at, verified)?;
        }
        if monitor.is_cancelled() {
            return Err(restore::RestoreError::Interrupted.into());
        }
        Ok(())
    })
}

/// The folders of some containers, each listed once by the first reader that needs it.
struct Folders<'a> {
    chosen: &'a [ContainerId],
    /// By the position of their first container.
    folders: BTreeMap<usize, Folder<'a>>,
}

struct Folder<'a> {
    ids: &'a [ContainerId],
    /// `None`: the listing failed.
    newest: OnceLock<Option<Vec<Option<Generation>>>>,
}

impl<'a> Folders<'a> {
    fn of(chosen: &'a [ContainerId]) -> Self {
        let mut first = 0;
        let folders = chosen.chunk_by(is_beside).map(|ids| {
            let at = first;
            first += ids.len();
            let newest = OnceLock::new();
            (at, Folder { ids, newest })
        });
        Self {
            chosen,
            folders: folders.collect(),
        }
    }

    /// Verifies the newest generation of the container at this position.
    fn verify(&self, store: &Store, at: usize) -> std::result::Result<Verified, ContainerError> {
        let containers = &store.containers;
        let folder = self.folders.range(..=at).next_back();
        let newest = folder.and_then(|(first, folder)| {
            let list = || containers.newest_generations(folder.ids).ok();
            Some(folder.newest.get_or_init(list).as_ref()?[at - first])
        });
        match newest {
            Some(newest) => containers.verify_generation(self.chosen[at], newest, Depth::Full),
            // It lists the folder itself, so its error is that of the listing.
            None => containers.verify(self.chosen[at], Depth::Full),
        }
    }
}

/// Whether the objects of two containers are in the same folder.
fn is_beside(one: &ContainerId, other: &ContainerId) -> bool {
    (one.session, one.kind) == (other.session, other.kind)
}

/// Lists the newest generations of unsound containers, which are in ascending order.
fn with_newest(
    store: &Store,
    unsound: Vec<(ContainerId, Verified)>,
) -> Result<Vec<(ContainerId, Verified, Option<Generation>)>> {
    let ids: Vec<ContainerId> = unsound.iter().map(|(id, _)| *id).collect();
    let mut newest = Vec::with_capacity(ids.len());
    for some in ids.chunk_by(is_beside) {
        match store.containers.newest_generations(some) {
            Ok(listed) => newest.extend(listed.into_iter().map(Some)),
            Err(error) if refuses_container(&error) => return Err(error.into()),
            // The damage that was found is reported.
            Err(_) => newest.extend(some.iter().map(|_| None)),
        }
    }
    let all = unsound.into_iter().zip(newest);
    let all = all.map(|((id, verified), newest)| {
        let newest = newest.unwrap_or(verified.generation);
        (id, verified, newest)
    });
    Ok(all.collect())
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

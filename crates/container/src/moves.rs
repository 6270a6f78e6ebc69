//! Following merged containers: stub generations, and the maps of who took their slots over.
//!
//! A stub says where its container's slots went; the catalog there says to which slots. Chains end after
//! [`HOPS_MAX`] at the latest, whatever somebody wrote (INV-8). Hops are loaded outside the cache's
//! one-loader rule: a circle of stubs would otherwise wait for itself. A stub that cannot be read, or is gone, loses
//! nothing where the list of what was merged is known: the catalog that it led to says the rest.

use std::sync::Arc;

use format::container::MergedRange;
use types::{ContainerId, Generation, Slot, SlotRange};

use crate::containers::Containers;
use crate::error::ContainerError;
use crate::identity::CopyOf;
use crate::view::{CatalogView, Contents, MovedSlots};

/// How often a container's slots may have moved on.
pub const HOPS_MAX: u32 = 16;

/// Containers remembered whose stubs cannot be read.
const LED_MAX: usize = 4096;

/// Slots of the requested container, and where they are after the hops so far.
#[derive(Debug, Clone, Copy)]
struct Piece {
    old: SlotRange,
    at: ContainerId,
    first: Slot,
}

impl Containers {
    /// Loads a container's catalog, through stubs where it was merged.
    pub(crate) fn load(&self, id: ContainerId) -> Result<CatalogView, ContainerError> {
        match self.load_contents(id) {
            Ok(contents) => match contents.catalog.moved_to {
                None => Ok(CatalogView::of(Arc::new(contents))),
                Some(next) => self.follow(id, next),
            },
            Err(error) if error.is_damage() => self.load_by_list(id, error),
            Err(error) => Err(error),
        }
    }

    /// Where no stub shows the way any more, the list that said what was merged does ([`Self::know_moved`]).
    fn load_by_list(&self, id: ContainerId, error: ContainerError) -> Result<CatalogView, ContainerError> {
        let Some(next) = self.moved_by_list(id) else {
            return Err(error);
        };
        // Its slots may not be there: then what is wrong with itself is what counts.
        let found = self.follow(id, next).ok().filter(CatalogView::leads_to_slots);
        let Some(view) = found else { return Err(error) };
        let mut led = self.led();
        if led.len() < LED_MAX {
            led.insert(id, error.to_string());
        }
        Ok(view)
    }

    /// Loads the highest listed generation, where it is newer than `view`'s.
    pub(crate) fn load_newer(&self, view: &CatalogView) -> Result<Option<CatalogView>, ContainerError> {
        // A merged container moves on when the one that took its slots over is rewritten.
        let highest = self.list_generations(view.id(), CopyOf::Main)?.pop();
        if highest.is_none_or(|highest| highest <= view.generation()) {
            return Ok(None);
        }
        // Stubs lead to what is cached, which may be what turned out stale.
        if let Some(cached) = self.cached_catalog(view.id())
            && cached.generation() <= view.generation()
        {
            self.cache().forget(&cached);
        }
        let fresh = self.load(view.requested())?;
        Ok((fresh.id() != view.id() || fresh.generation() > view.generation()).then_some(fresh))
    }

    /// The view of what was loaded, which is cached unless it is a stub: many stubs lead to one container.
    fn hold(&self, contents: Contents) -> Arc<CatalogView> {
        let is_stub = contents.catalog.moved_to.is_some();
        let view = Arc::new(CatalogView::of(Arc::new(contents)));
        if !is_stub {
            self.cache().insert(Arc::clone(&view));
        }
        view
    }

    /// The highest generation that the storage lists, where it is above that one.
    fn newest_of(
        &self,
        id: ContainerId,
        above: Generation,
    ) -> Result<Option<Arc<CatalogView>>, ContainerError> {
        // What it lists is remembered, and loaded first.
        let highest = self.list_generations(id, CopyOf::Main)?.pop();
        if highest.is_none_or(|highest| highest <= above) {
            return Ok(None);
        }
        let contents = self.load_contents(id)?;
        Ok((contents.at.generation > above).then(|| self.hold(contents)))
    }

    /// A container's view, whose slots went to `next`.
    fn follow(&self, id: ContainerId, mut next: ContainerId) -> Result<CatalogView, ContainerError> {
        let all = SlotRange::new(Slot::new(0).expect("a slot"), Slot::MAX.get() + 1).expect("all slots");
        let mut pieces = vec![Piece {
            old: all,
            at: id,
            first: all.first(),
        }];
        for _ in 0..HOPS_MAX {
            let mut target = match self
                .cached_catalog(next)
                .filter(|view| view.requested() == view.id())
            {
                Some(cached) => cached,
                None => self.hold(self.load_contents(next)?),
            };
            // A generation from before the merge may be cached, or still stand: the highest one knows.
            if !is_known(&pieces, &target)
                && let Some(newest) = self.newest_of(next, target.generation())?
            {
                target = newest;
            }
            pieces = pieces
                .iter()
                .flat_map(|piece| translate(*piece, next, target.merged()))
                .collect();
            if let Some(further) = target.contents().catalog.moved_to {
                next = further;
                continue;
            }
            let arrived = pieces.iter().filter(|piece| piece.at == next);
            let moved = arrived
                .map(|piece| MovedSlots {
                    old: piece.old,
                    first_here: piece.first,
                })
                .collect();
            return Ok(CatalogView::moved(id, &target, moved));
        }
        Err(ContainerError::TooManyHops {
            container: id,
            hops: HOPS_MAX,
        })
    }
}

/// Whether a container that slots went to says so, or sends on.
fn is_known(pieces: &[Piece], target: &CatalogView) -> bool {
    let names = |piece: &Piece| target.merged().iter().any(|range| range.from == piece.at);
    target.moved_to().is_some() || pieces.iter().any(names)
}

/// A piece's slots after one hop: those that the map names are `here` now, the others where they were
/// (a later hop may name them).
fn translate(piece: Piece, here: ContainerId, merged: &[MergedRange]) -> Vec<Piece> {
    let mut out = Vec::new();
    let (mut from, end) = (piece.first.get(), piece.first.get() + piece.old.count());
    let mut cut = |at: ContainerId, first: u32, start: u32, stop: u32| {
        let old_first = piece.old.first().get() + (start - piece.first.get());
        let old = Slot::new(old_first)
            .ok()
            .and_then(|slot| SlotRange::new(slot, stop - start));
        if let (Some(old), Ok(first)) = (old, Slot::new(first)) {
            out.push(Piece { old, at, first });
        }
    };
    let of_piece = merged.iter().filter(|range| range.from == piece.at);
    for range in of_piece {
        let start = range.slots.first().get().max(from);
        let stop = range.slots.end().min(end);
        if start >= stop {
            continue;
        }
        if from < start {
            cut(piece.at, from, from, start);
        }
        let ahead = start - range.slots.first().get();
        cut(here, range.first_here.get() + ahead, start, stop);
        from = stop;
    }
    if from < end {
        cut(piece.at, from, from, end);
    }
    out
}

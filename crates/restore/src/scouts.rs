//! Reads recipes ahead of the planner: several threads open segments while one plans, in its order.
//!
//! To open a segment takes its node and the catalogs of all containers that it names, and each is a request that is waited for: a
//! seek of a disk, or a round trip. One thread would wait for one after another, and the disks for it. How many segments are opened that nobody has
//! asked for yet is bounded, and so is their memory (INV-7): of each its references, some hundred bytes for each chunk.
//!
//! What must hold: what comes, and in which order, is what [`crate::references()`] gives in one thread. Who has enough drops the
//! receiving end, and the threads end with what they are at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use recipe::{NodeCache, TreeRoot};
use types::ByteRange;

use crate::error::RestoreError;
use crate::plan::Reference;
use crate::references::{Opened, Part, Parts, SegmentPart, one_by_one};

/// Opened segments that wait, for each thread.
const AHEAD_OF_EACH: usize = 2;

/// Where the segment that comes next will be.
type Coming = Receiver<Opened>;

/// A segment, and who waits for it.
type Job = (SegmentPart, Sender<Opened>);

/// Tells when it goes: what is still to be opened is for nobody.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The references of the ranges, by so many threads of the scope; by the one that asks, where that is none or none can be had.
///
/// # Errors
/// Of the items, as [`crate::references()`] has them.
pub(crate) fn references_by<'scope, 'a: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    threads: usize,
    nodes: &'a NodeCache,
    root: &'a TreeRoot,
    ranges: &'a [ByteRange],
) -> Box<dyn Iterator<Item = Result<Reference, RestoreError>> + Send + 'scope> {
    let (jobs_tx, jobs_rx) = unbounded::<Job>();
    let (order_tx, order_rx) = bounded::<Coming>(AHEAD_OF_EACH * threads);
    let is_over = Arc::new(AtomicBool::new(false));
    let spawn = |name: String| thread::Builder::new().name(name);
    let scouts = (0..threads).filter(|number| {
        let (jobs, is_over) = (jobs_rx.clone(), Arc::clone(&is_over));
        let scout = move || {
            for (part, waiting) in jobs {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // Fails only where it is over meanwhile.
                drop(waiting.send(part.open(nodes)));
            }
        };
        spawn(format!("scout-{number}"))
            .spawn_scoped(scope, scout)
            .is_ok()
    });
    let is_scouted = scouts.count() > 0;
    drop(jobs_rx);
    let lead = move || lead(Parts::new(nodes, root, ranges), &order_tx, &jobs_tx);
    if !is_scouted || spawn("scouts".to_owned()).spawn_scoped(scope, lead).is_err() {
        return Box::new(crate::references(nodes, root, ranges));
    }
    let waiting = Waiting(is_over);
    let opened = order_rx.into_iter().map(move |coming| {
        let _waiting = &waiting;
        coming.recv().unwrap_or(Err(RestoreError::Internal(
            "a thread that opens segments has ended before its segment was opened",
        )))
    });
    Box::new(one_by_one(opened))
}

/// Hands the parts out, until there are no more or nobody wants them.
fn lead(parts: Parts<'_>, order: &Sender<Coming>, jobs: &Sender<Job>) {
    for part in parts {
        let (waiting, coming) = bounded(1);
        if order.send(coming).is_err() {
            return;
        }
        // The other end is there: of the one it was just put into the queue, and scouts end after this.
        match part {
            Part::Segment(part) => drop(jobs.send((part, waiting))),
            Part::Failed(error) => drop(waiting.send(Err(error))),
        }
    }
}

//! A kill before the first and the last change of each kind: of making backups archival, of layout
//! repair, of the prune that moves data of archival backups and expires the oldest, and of
//! forgetting in the middle. Each is in the middle of two backups and a reader (`common/killed.rs`
//! has what must hold). Two series have segments in common, or chunks if the layout is inline
//! [RevDedup 2.4.2].
//!
//! `ONEFOLD_TEST_LONG=1` kills before every change, and before and after other operations too, at
//! some of those that wait for others.

use std::collections::BTreeSet;

use crate::common::archival::{hold, is_rewrite, optimize};
use crate::common::beside::Kept;
use crate::common::killed::{Content, Done, Scene, Work};
use crate::common::pruning::{Stage, assert_stages, everything, prune};
use crate::common::{Asked, How, Process, back_up_bytes, noise, snapshot};
use onefold::{Layout, OptimizeRequest, SessionId, SettingsChange};

const SHARED: usize = 130 << 10;
const PIECE: usize = 10 << 10;

/// One of two series, in turns.
#[derive(Clone, Copy)]
enum Of {
    A,
    B,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Self::A => "/a",
            Self::B => "/b",
        }
    }

    /// The n-th backup: it has segments that all have, some data of its own, and some of the next
    /// one, of either series.
    fn content(self, n: u64) -> Content {
        let own = noise(3000 + n * 2 + self as u64, PIECE);
        let steps = [n, n + 1].map(|step| noise(1000 + step, PIECE)).concat();
        let [first, second] = [31, 32].map(|n| noise(n, SHARED));
        Content {
            name: self.name(),
            halves: [[own, first].concat(), [steps, second].concat()],
        }
    }
}

/// So many backups of both series in a store.
fn store(count: u64, layout: Layout) -> (Process, Vec<Kept>) {
    let machine = Process::new(7).striding();
    let change = SettingsChange::default()
        .layout(Some(layout))
        .segment_bytes((layout == Layout::Hybrid).then_some(64 << 10));
    machine.init().set_default_series_settings(&change).unwrap();
    let mut kept: Vec<Kept> = Vec::new();
    for (n, of) in (0..count).flat_map(|n| [(n, Of::A), (n, Of::B)]) {
        let bytes = of.content(n).whole();
        let made = back_up_bytes(&machine.open(), of.name(), &bytes, &How::plain()).unwrap();
        let shares = made.totals.bytes_new < bytes.len() as u64 * 2 / 3;
        assert!(shares || kept.is_empty(), "{:?}", made.totals);
        kept.push((made.id, of.name(), bytes));
    }
    (machine, kept)
}

/// The next backups are made meanwhile, and the oldest is read.
fn scene((machine, kept): (Process, Vec<Kept>), next: u64, work: Work) -> Scene {
    Scene {
        machine,
        read: kept[0].0,
        kept,
        beside: [Of::A.content(next), Of::B.content(next)],
        held: Vec::new(),
        work,
    }
}

fn archival() -> Option<OptimizeRequest> {
    Some(OptimizeRequest::default().live(Some(1)).workers(1))
}

fn assert_asked(done: &Done, asked: &[&str]) {
    let all: BTreeSet<String> = done
        .requests
        .iter()
        .map(|request| format!("{:?} {}", request.asked, request.name.split('/').next().unwrap()))
        .collect();
    let missing: Vec<_> = asked.iter().filter(|asked| !all.contains(**asked)).collect();
    assert!(missing.is_empty(), "{missing:?} of {all:?}");
}

/// Checks that this order happened so many times: the commit of a rewrite, a revision of the
/// backup, the forgetting of the rewrite.
fn assert_published(done: &Done, times: usize) {
    let puts = done.requests.iter().filter(|request| request.asked == Asked::Put);
    let commits = puts.filter(|request| is_rewrite(request.asked, &request.name));
    assert_eq!(commits.count(), times, "{:?}", done.requests);
}

fn ids(kept: &[Kept]) -> Vec<SessionId> {
    kept.iter().map(|(id, ..)| *id).collect()
}

#[test]
fn kills_while_making_backups_archival_and_repairing_the_newest() {
    let work = Work {
        optimizes: archival().map(|request| request.repair(Some(1000))),
        ..Work::default()
    };
    scene(store(2, Layout::Hybrid), 2, work).kill_everywhere(|done| {
        let each = &done.optimized.backups;
        assert!(
            each.len() == 2 && each.iter().all(|(_, done)| done.is_done && done.segments > 1),
            "{each:?}"
        );
        let repaired = done.optimized.repaired.iter().filter(|(_, done)| done.is_done);
        let repaired = repaired.count();
        assert!(repaired > 0, "{:?}", done.optimized.repaired);
        assert_asked(done, &["Put archive", "Put data", "Put recipe", "Put backups"]);
        assert_published(done, 2 + repaired);
    });
}

#[test]
fn kills_while_repairing_the_layout() {
    let work = Work {
        optimizes: Some(OptimizeRequest::default().repair(Some(1000)).workers(1)),
        ..Work::default()
    };
    scene(store(2, Layout::Inline), 2, work).kill_everywhere(|done| {
        let each = &done.optimized.repaired;
        assert!(
            each.iter().any(|(_, done)| done.is_done && done.backups > 1),
            "{each:?}"
        );
        assert_asked(done, &["Put data", "Put recipe", "Put index", "Put backups"]);
    });
}

/// The unused data of both series is removed, with the oldest backup, whose archive containers are
/// whole. The survivors in other containers are moved.
#[test]
fn kills_while_moving_and_expiring() {
    let (machine, kept) = store(3, Layout::Hybrid);
    optimize(&machine.open(), 1);
    let work = Work {
        forgets: ids(&kept)[..2].to_vec(),
        prunes: Some(everything()),
        ..Work::default()
    };
    let mut scene = scene((machine, kept), 3, work);
    scene.read = scene.kept[1].0;
    scene.kill_everywhere(|done| {
        let report = done.pruned.as_ref().unwrap();
        assert_stages(report, &[Stage::Removes, Stage::Compacts], "nobody killed");
        assert_asked(
            done,
            &[
                "Put data",
                "Delete data",
                "Delete archive",
                "Delete recipe",
                "Delete condemned",
            ],
        );
    });
}

/// Backups in the middle of both series, to which the ones before refer. One of the latter is held,
/// and keeps referring to a forgotten backup. The other one is rewritten.
#[test]
fn kills_while_forgetting_in_the_middle() {
    let (machine, mut kept) = store(3, Layout::Hybrid);
    optimize(&machine.open(), 1);
    // It shares nothing, so some data is removed while other data is still referred to.
    let apart = noise(77, 40 << 10);
    let made = back_up_bytes(&machine.open(), "/apart", &apart, &How::plain()).unwrap();
    kept.push((made.id, "/apart", apart));
    prune(&machine.beside(9).striding().open(), &everything(), "before");
    let ids = ids(&kept);
    hold(&machine.open(), ids[0], true);
    assert_eq!(snapshot(&machine.open(), ids[0]).backup.next, Some(ids[2]));
    let work = Work {
        forgets: [&ids[2..4], &ids[6..]].concat(),
        optimizes: archival(),
        prunes: Some(everything()),
    };
    let mut scene = scene((machine, kept), 3, work);
    // One reads the rewritten backup, and one takes data of the forgotten one. Only the hold keeps
    // the data to which the first refers.
    scene.read = ids[1];
    scene.beside[1] = Of::B.content(1);
    scene.held = ids[..1].to_vec();
    scene.kill_everywhere(|done| {
        let each = &done.optimized.backups;
        assert!(
            each.len() == 1 && each[0].0 == ids[1] && each[0].1.is_done,
            "{each:?}"
        );
        assert_published(done, 1);
        let report = done.pruned.as_ref().unwrap();
        assert_stages(report, &[Stage::Removes], "nobody killed");
    });
}

//! Layout repair in series of layout `hybrid`: the newest backup, which refers to scattered whole
//! segments, is repaired, and archival ones still refer forward to it (R2, R6, L9).

use crate::common::pruning::{everything, forget, prune_after_crash};
use crate::common::{
    How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot, tiny,
};
use onefold::{Layout, Monitor, OptimizeReport, OptimizeRequest, SessionId, SettingsChange, Snapshot, Store};

const NAME: &str = "/image";
/// The shortest possible segments, a few in each container.
const SEGMENT: u32 = 64 << 10;
const CONTAINER: u32 = 256 << 10;
const LEN: usize = 4 << 20;
const WEEKS: usize = 12;

fn hybrid(repair: u16) -> SettingsChange {
    SettingsChange::default()
        .layout(Some(Layout::Hybrid))
        .live_window(Some(1))
        .segment_bytes(Some(SEGMENT))
        .repair_percent(Some(repair))
}

struct Weeks {
    machine: Process,
    made: Vec<(SessionId, Vec<u8>)>,
    /// The reports of each optimize.
    reports: Vec<OptimizeReport>,
    /// The bytes that each backup stored anew.
    new: Vec<u64>,
}

impl Weeks {
    /// A stream that changes in two places each week, optimized and pruned after each backup.
    fn of(repair: u16, seed: u64) -> Self {
        let machine = Process::new(seed);
        let store = machine.try_init(&tiny().container_bytes(CONTAINER)).unwrap();
        store.set_default_series_settings(&hybrid(repair)).unwrap();
        let mut weeks = Self {
            machine,
            made: Vec::new(),
            reports: Vec::new(),
            new: Vec::new(),
        };
        let mut bytes = noise(1, LEN);
        for week in 0..WEEKS {
            for place in [1, 5, 7, 11].map(|step| (week * step + step) % WEEKS) {
                let at = place * LEN / WEEKS;
                let change = noise(100 + (week * WEEKS + place) as u64, 20_000);
                bytes[at..at + change.len()].copy_from_slice(&change);
            }
            weeks.week(&bytes);
        }
        weeks
    }

    fn week(&mut self, bytes: &[u8]) {
        let store = self.machine.open();
        let made = back_up_bytes(&store, NAME, bytes, &How::plain()).unwrap();
        self.made.push((made.id, bytes.to_vec()));
        self.new.push(made.totals.bytes_new);
        let request = OptimizeRequest::default().workers(2);
        let preview = store.preview_optimize(&request).unwrap();
        let report = store.optimize(&request, &Monitor::default()).unwrap();
        let foretold = preview.repairs.iter().map(|due| (due.id, due.budget));
        let budgets = report.repaired.iter().map(|(id, done)| (*id, done.bytes_budget));
        assert!(foretold.eq(budgets), "{preview:?} {report:?}");
        assert!(report.failed.is_empty(), "{report:?}");
        self.reports.push(report);
        prune_after_crash(&self.machine.open(), &everything(), "each week");
    }

    fn assert_all(&self, from: usize, when: &str) {
        let store = self.machine.open();
        for (id, bytes) in &self.made[from..] {
            assert_restores_bytes(&store, &snapshot(&store, *id), NAME, bytes, when);
        }
        assert_sound(&store, when);
    }

    fn newest(&self) -> SessionId {
        self.made.last().unwrap().0
    }

    /// Containers that the newest backup reads.
    fn containers_read(&self) -> u64 {
        let store = self.machine.open();
        let newest: Vec<Snapshot> = vec![snapshot(&store, self.newest())];
        store.layouts(&newest, &Monitor::default()).unwrap()[0].containers_read
    }
}

#[test]
fn the_newest_is_put_in_order_and_older_ones_refer_forward_to_it() {
    let (plain, repaired) = (Weeks::of(0, 1), Weeks::of(100, 1));
    let [before, after] = [&plain, &repaired].map(Weeks::containers_read);
    // So many containers would be full.
    let least = LEN as u64 / u64::from(CONTAINER);
    assert!(
        2 * (after - least) < before - least,
        "{before} containers without repair, {after} with it"
    );
    repaired.assert_all(0, "after all weeks");
    // Each repair copies no more than its own backup stored, because the bytes copied for archival
    // ones are not known any more.
    let mut count = 0;
    for (report, new) in repaired.reports.iter().zip(&repaired.new).skip(1) {
        assert_eq!(
            report.backups.len(),
            1,
            "the one before became archival: {report:?}"
        );
        for (_, done) in &report.repaired {
            assert!(
                done.bytes_budget <= *new && done.bytes_copied <= done.bytes_budget,
                "{done:?} of {new}"
            );
            count += usize::from(done.is_done);
        }
    }
    assert!(count > 2, "{:?}", repaired.reports);
    assert!(plain.reports.iter().all(|report| report.repaired.is_empty()));
}

#[test]
fn archival_backups_outlive_repairs_and_expire_without_copies() {
    let weeks = Weeks::of(100, 2);
    let store: Store = weeks.machine.open();
    for (id, _) in &weeks.made[..3] {
        forget(&store, *id);
    }
    let report = prune_after_crash(&store, &everything(), "the oldest");
    assert_eq!(report.bytes_copied, 0, "{report:?}");
    weeks.assert_all(3, "the oldest are gone");
    // The next backup finds the segments in their new places.
    let mut weeks = weeks;
    let bytes = weeks.made.last().unwrap().1.clone();
    weeks.week(&bytes);
    assert_eq!(weeks.new.last(), Some(&0));
    weeks.assert_all(3, "the same again");
}

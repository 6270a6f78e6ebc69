//! How to watch and stop an optimization: a request to stop takes effect at once, in every step,
//! and the progress ends at the total.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};
use format::names;
use onefold::{
    Credential, ErrorKind, Layout, Monitor, OpenOptions, OptimizeReport, OptimizeRequest, SessionId,
    SettingsChange, Store, WorkUnit,
};
use types::{ContainerKind, Generation};

const NAME: &str = "/image";

/// A series in which each backup has most of the one before, and some of that several times.
struct Series {
    machine: Process,
    ids: Vec<SessionId>,
    contents: Vec<Vec<u8>>,
}

impl Series {
    fn new(seed: u64, layout: Layout, count: u64) -> Self {
        let machine = Process::new(seed);
        let change = SettingsChange::default()
            .layout(Some(layout))
            .segment_bytes((layout == Layout::Hybrid).then_some(64 << 10));
        machine.init().set_default_series_settings(&change).unwrap();
        let mut series = Self {
            machine,
            ids: Vec::new(),
            contents: Vec::new(),
        };
        let mut once = noise(seed, 200 << 10);
        for n in 0..count {
            let at = usize::try_from(n * 37 % 150).unwrap() << 10;
            once.splice(at..at + (20 << 10), noise(seed + 1 + n, 24 << 10));
            let bytes = [&once[..], &noise(seed + 50, 500), &once, &once].concat();
            let store = series.machine.open();
            series
                .ids
                .push(back_up_bytes(&store, NAME, &bytes, &How::plain()).unwrap().id);
            series.contents.push(bytes);
        }
        series
    }

    /// A process that caches almost nothing.
    fn forgetful(&self, seed: u64) -> (Process, Store) {
        let process = self.machine.beside(seed);
        let options = OpenOptions::default().node_cache_bytes(0);
        let store = Store::open(&process.env, &Credential::None, &options).unwrap();
        (process, store)
    }

    fn assert_all(&self) {
        let store = self.machine.beside(0xfe).open();
        for (id, bytes) in self.ids.iter().zip(&self.contents) {
            assert_restores_bytes(&store, &snapshot(&store, *id), NAME, bytes, "all restore");
        }
        assert_sound(&store, "at the end");
    }
}

fn request(repair: Option<u16>) -> OptimizeRequest {
    OptimizeRequest::default()
        .live(repair.is_none().then_some(1))
        .repair(repair)
        .workers(1)
}

fn is_of_containers(name: &str) -> bool {
    let mut folders = ContainerKind::ALL.iter().map(|kind| kind.folder());
    folders.any(|folder| name.starts_with(folder))
}

/// Stops before the n-th read of a container. Returns how many reads followed, or the report if it
/// had ended.
fn stopped_at(series: &Series, n: u64, request: &OptimizeRequest) -> Result<usize, OptimizeReport> {
    let (process, store) = series.forgetful(n + 100);
    let cancel = Arc::new(AtomicBool::new(false));
    let (asked, stop) = (Arc::clone(&cancel), Arc::clone(&process.watched));
    let mut left = n;
    let is_it = move |_, name: &str| {
        left -= u64::from(is_of_containers(name));
        left == 0
    };
    process.watched.set_once_at(is_it, move || {
        asked.store(true, Ordering::Relaxed);
        drop(stop.take_requests());
    });
    match store.optimize(request, &Monitor::new(cancel)) {
        Ok(report) => Err(report),
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            let requests = process.watched.take_requests();
            Ok(requests
                .iter()
                .filter(|request| is_of_containers(&request.name))
                .count())
        }
        Err(error) => panic!("{error}"),
    }
}

fn assert_stops_everywhere(series: &Series, request: &OptimizeRequest) {
    let mut stops = 0;
    for n in (1..).step_by(5) {
        match stopped_at(series, n, request) {
            Ok(after) => assert!(after <= 12, "{after} reads and puts after it was to stop at {n}"),
            Err(report) => {
                assert!(report.failed.is_empty(), "{report:?}");
                break;
            }
        }
        stops += 1;
    }
    assert!(stops > 20, "{stops}");
    series.assert_all();
}

#[test]
fn making_backups_archival_stops_at_any_point() {
    assert_stops_everywhere(&Series::new(1, Layout::Hybrid, 3), &request(None));
}

#[test]
fn a_repair_stops_at_any_point() {
    assert_stops_everywhere(&Series::new(2, Layout::Inline, 8), &request(Some(1000)));
}

/// The progress of an `optimize` at each read and put of a container.
fn shown(series: &Series, request: &OptimizeRequest) -> (Vec<(u64, u64)>, OptimizeReport) {
    let (process, store) = series.forgetful(100);
    let monitor = Arc::new(Monitor::default());
    let all = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (shows, seen) = (Arc::clone(&monitor), Arc::clone(&all));
    let is_never = move |_, name: &str| {
        if is_of_containers(name) && shows.work_total() > 0 {
            assert_eq!(shows.work_unit(), WorkUnit::Bytes);
            seen.lock().unwrap().push((shows.work_done(), shows.work_total()));
        }
        false
    };
    process.watched.set_once_at(is_never, || {});
    let report = store.optimize(request, &monitor).unwrap();
    let mut all = std::mem::take(&mut *all.lock().unwrap());
    all.push((monitor.work_done(), monitor.work_total()));
    (all, report)
}

/// Checks that the progress has at least so many parts, never goes back, and ends at the total.
fn assert_shows_all(shown: &[(u64, u64)], parts: u64) {
    let (done, total) = *shown.last().unwrap();
    assert_eq!(done, total);
    let of_last = || shown.iter().filter(|(_, of)| *of == total).map(|(done, _)| *done);
    assert!(of_last().is_sorted(), "{shown:?}");
    let steps = of_last()
        .zip(of_last().skip(1))
        .map(|(before, after)| after - before);
    let widest = steps.max().unwrap();
    assert!(widest <= total / parts, "{widest} of {total} at once: {shown:?}");
}

#[test]
fn progress_ends_with_all_bytes() {
    let (all, report) = shown(&Series::new(3, Layout::Hybrid, 4), &request(None));
    assert_eq!(report.backups.len(), 3, "{report:?}");
    assert_shows_all(&all, 12);
    let (all, report) = shown(&Series::new(4, Layout::Inline, 8), &request(Some(1000)));
    assert!(report.repaired[0].1.is_done, "{report:?}");
    assert_shows_all(&all, 5);
}

/// Backups that cannot be rewritten count as done.
#[test]
fn progress_ends_with_all_bytes_though_no_backup_can_be_rewritten() {
    let series = Series::new(5, Layout::Hybrid, 3);
    let store = series.machine.open();
    let root = snapshot(&store, series.ids[0]).backup.streams[0]
        .location
        .container;
    for name in [
        names::container(root, Generation::FIRST),
        names::mirror(root, Generation::FIRST).unwrap(),
    ] {
        assert!(series.machine.storage.damage(&name, |bytes| bytes.truncate(10)));
    }
    let (all, report) = shown(&series, &request(None));
    assert_eq!((report.failed.len(), report.backups.len()), (2, 0), "{report:?}");
    let (done, total) = *all.last().unwrap();
    assert_eq!(done, total);
}

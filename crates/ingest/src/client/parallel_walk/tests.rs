//! The walk's threads: the order with slow threads, the end when a thread stops or dies, and a lack
//! of descriptors.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use env::SystemClock;
use tree::Roots;

use super::*;
use crate::counters::Counters;
use crate::error::Failure;
use crate::tests::any_turns;

/// More stretches than are examined ahead: folders with some files each.
fn wide_tree(folders: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in 0..folders {
        let path = dir.path().join(format!("folder {folder:04}"));
        fs::create_dir(&path).unwrap();
        for file in 0..3 {
            fs::write(path.join(format!("{file}")), "x").unwrap();
        }
    }
    dir
}

fn options(root: &Path) -> WalkOptions {
    WalkOptions {
        roots: Roots::new(Path::new("/"), [root]),
        ..WalkOptions::default()
    }
}

/// A walk whose threads the test plays.
fn begun(walk: Walk, stretches: Receiver<Listed>) -> ParallelWalk<'static> {
    ParallelWalk {
        clock: &SystemClock,
        walk,
        stretches,
        current: None,
        has_ended: false,
    }
}

fn path_of(item: Result<WalkEntry, TreeError>) -> Vec<u8> {
    item.unwrap().entry.path
}

/// The entries by one thread, one after another.
fn expected(root: &Path) -> Vec<Vec<u8>> {
    Walk::new(options(root)).map(path_of).collect()
}

/// All entries and faults, and how the walk ended.
fn drain(walked: &mut ParallelWalk<'_>) -> (Vec<Result<WalkEntry, TreeError>>, Result<(), IngestError>) {
    let mut items = Vec::new();
    loop {
        match walked.next(true) {
            Ok(Next::Item(item)) => items.push(item),
            Ok(Next::NotYet) => panic!("it was told to wait"),
            Ok(Next::End) => return (items, Ok(())),
            Err(error) => return (items, Err(error)),
        }
    }
}

fn with_threads<R>(options: WalkOptions, work: impl FnOnce(ParallelWalk<'_>) -> R) -> R {
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let stages = ClientStages::new();
    let around = Around {
        counters: &counters,
        cancel: &cancel,
        failure: &failure,
        stages: &stages,
        clock: &SystemClock,
        turns: any_turns(),
        readers: 4,
    };
    thread::scope(|scope| work(ParallelWalk::start(scope, options, around).unwrap()))
}

#[test]
fn entries_arrive_in_listing_order_although_one_thread_is_slow() {
    let dir = wide_tree(200);
    let wanted = expected(dir.path());
    let found = with_threads(options(dir.path()), |mut walked| drain(&mut walked));
    assert!(found.1.is_ok());
    assert_eq!(found.0.into_iter().map(path_of).collect::<Vec<_>>(), wanted);

    // A stretch that the next one always overtakes.
    let (lister, walk) = Walk::apart(options(dir.path()));
    let (to_walk, stretches) = crossbeam_channel::bounded(STRETCHES_AHEAD);
    let (jobs, queue) = crossbeam_channel::bounded::<Job>(STRETCHES_AHEAD);
    let mut looker = walk.looker();
    let mut walked = begun(walk, stretches);
    let (items, ended) = thread::scope(|scope| {
        scope.spawn(move || list(lister, &to_walk, &jobs, &SystemClock));
        scope.spawn(move || {
            while let Ok(slow) = queue.recv() {
                let overtaking = queue.recv().ok();
                for (stretch, done) in overtaking.into_iter().chain([slow]) {
                    done.send(looker.look(stretch)).unwrap();
                }
            }
        });
        drain(&mut walked)
    });
    assert!(ended.is_ok());
    assert_eq!(items.into_iter().map(path_of).collect::<Vec<_>>(), wanted);
    assert!(matches!(walked.next(true), Ok(Next::End)), "and stays so");
}

#[test]
fn a_lister_that_dies_is_no_end_of_the_tree() {
    let dir = wide_tree(40);
    let (lister, walk) = Walk::apart(options(dir.path()));
    let (to_walk, stretches) = crossbeam_channel::bounded(STRETCHES_AHEAD);
    let (jobs, queue) = crossbeam_channel::bounded::<Job>(STRETCHES_AHEAD);
    let mut looker = walk.looker();
    let mut walked = begun(walk, stretches);
    let mut left = 2;
    let dying = lister.inspect(move |_| {
        assert!(left > 0, "the lister dies");
        left -= 1;
    });
    let lister = thread::spawn(move || list(dying, &to_walk, &jobs, &SystemClock));
    thread::spawn(move || {
        while let Ok((stretch, done)) = queue.recv() {
            drop(done.send(looker.look(stretch)));
        }
    });
    let (items, ended) = drain(&mut walked);
    assert!(!items.is_empty());
    assert!(
        matches!(ended, Err(IngestError::Internal(_))),
        "{} entries",
        items.len()
    );
    assert!(lister.join().is_err());
}

#[test]
fn all_threads_end_when_nobody_takes_entries_any_more() {
    let dir = wide_tree(500);
    for taken in [0, 1, 100] {
        // The scope ends when its threads have ended.
        with_threads(options(dir.path()), |mut walked| {
            for _ in 0..taken {
                assert!(matches!(walked.next(true), Ok(Next::Item(Ok(_)))));
            }
        });
    }
}

const SCARCE: &str = "ONEFOLD_TEST_FEW_DESCRIPTORS";

/// In a process of its own, because the limit is for each process.
#[test]
fn a_lack_of_descriptors_is_reported_and_nothing_hangs() {
    if let Some(root) = std::env::var_os(SCARCE) {
        let (items, ended) = with_threads(options(Path::new(&root)), |mut walked| drain(&mut walked));
        assert!(ended.is_ok(), "{ended:?}");
        let (entries, faults): (Vec<_>, Vec<_>) = items.into_iter().partition(Result::is_ok);
        let faults: Vec<_> = faults
            .into_iter()
            .filter_map(Result::err)
            .map(|fault| fault.to_string())
            .collect();
        println!(
            "{} entries, {} faults: {:?}",
            entries.len(),
            faults.len(),
            faults.first()
        );
        assert!(
            faults.iter().all(|fault| fault.contains("Too many open files")),
            "{faults:?}"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Deep and wide.
    for folder in 0..30 {
        let mut path = dir.path().join(format!("{folder}"));
        for depth in 0..10 {
            path = path.join(format!("{depth}"));
        }
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), "x").unwrap();
    }
    for (limit, is_enough) in [(9, false), (12, false), (256, true)] {
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "client::parallel_walk::tests::a_lack_of_descriptors_is_reported_and_nothing_hangs",
                "--nocapture",
            ])
            .env(SCARCE, dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "limit {limit}: {said}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(said.contains(" 0 faults"), is_enough, "limit {limit}: {said}");
    }
}

//! The folders above the backups.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::fs;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use onefold::Filter;
use rustix::io::Errno;

use crate::bed::{Bed, list, names, number, read};

fn bed() -> (Bed, tempfile::TempDir) {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("letter"), "Dear reader").unwrap();
    bed.back_up(folder.path(), "a/b", &["one", "x/y"]);
    // In the same second.
    bed.back_up(folder.path(), "c", &["one"]);
    bed.clock.advance(Duration::from_secs(5));
    bed.back_up(folder.path(), "c", &[]);
    (bed, folder)
}

#[test]
fn backups_are_found_by_id_time_host_and_tag() {
    let (bed, _folder) = bed();
    let files = bed.files();
    assert_eq!(names(&files, ""), ["hosts", "ids", "snapshots", "tags"]);
    let ids = names(&files, "ids");
    assert_eq!(ids.len(), 3);
    let times = names(&files, "snapshots");
    assert_eq!(times.len(), 4);
    assert_eq!(times[0], "latest");
    assert_eq!(times[2], format!("{}-1", times[1]), "two backups of one second");
    assert_eq!(names(&files, "hosts"), ["a_b", "c"]);
    assert_eq!(names(&files, "hosts/c"), ["latest", &times[1], &times[3]]);
    assert_eq!(names(&files, "tags"), ["one", "x_y"]);
    assert_eq!(names(&files, "tags/x_y"), ["latest", &times[1]]);
    for folder in ["snapshots", "hosts/c"] {
        let latest = files.read_link(number(&files, &format!("{folder}/latest")));
        assert_eq!(latest.unwrap(), times[3].as_bytes());
    }
    assert_eq!(files.look_up(1, b"nothing"), Err(Errno::NOENT));
    assert_eq!(
        files.look_up(number(&files, "snapshots/latest"), b"x"),
        Err(Errno::NOENT)
    );
}

#[test]
fn a_filter_hides_the_other_backups() {
    let (bed, _folder) = bed();
    let files = bed.files_with(|options| {
        options.filter = Filter::default().tags(vec![vec!["one".to_owned()]]);
    });
    assert_eq!(names(&files, "ids").len(), 2);
    assert_eq!(names(&files, "hosts"), ["a_b", "c"]);
}

#[test]
fn new_backups_appear_and_forgotten_ones_go_but_not_while_they_are_read() {
    let (bed, folder) = bed();
    let files = bed.files();
    let first = format!("ids/1{}/letter", folder.path().display());
    let letter = number(&files, &first);
    bed.back_up(folder.path(), "d", &[]);
    let before = files.attributes(1).unwrap().attributes.mtime;
    bed.clock.advance(Duration::from_secs(10));
    assert_eq!(names(&files, "hosts"), ["a_b", "c", "d"]);
    assert_ne!(files.attributes(1).unwrap().attributes.mtime, before);

    let store = bed.store();
    let request = onefold::ForgetRequest::named(["1"]);
    store.forget(&request, &onefold::Monitor::default()).unwrap();
    bed.clock.advance(Duration::from_secs(10));
    assert!(!names(&files, "ids").contains(&"1".to_owned()));
    assert_eq!(read(&files, letter).unwrap(), b"Dear reader", "it is pinned");
}

#[test]
fn inodes_are_kept_while_the_kernel_knows_them() {
    let (bed, folder) = bed();
    let files = bed.files();
    let at = format!("ids/1{}", folder.path().display());
    let folder = number(&files, &at);
    let letter = number(&files, &format!("{at}/letter"));
    assert_eq!(number(&files, &format!("{at}/letter")), letter);
    files.forget(letter, 1);
    assert!(files.attributes(letter).is_ok());
    files.forget(letter, 1);
    assert_eq!(files.attributes(letter), Err(Errno::STALE));
    // It has the same number when it comes back, and in a list.
    assert_eq!(list(&files, folder, false)[0].number, letter);
    assert_eq!(files.attributes(letter), Err(Errno::STALE), "nobody was told");
    assert_eq!(list(&files, folder, true)[0].number, letter);
    files.forget(letter, 1);
    assert_eq!(files.attributes(letter), Err(Errno::STALE));
    // A file is one inode wherever its backup is, and a folder is not.
    let time = format!("snapshots/{}", names(&files, "snapshots")[1]);
    let inner = at.strip_prefix("ids/1").unwrap();
    assert_eq!(number(&files, &format!("{time}{inner}/letter")), letter);
    assert_ne!(number(&files, &format!("{time}{inner}")), folder);
}

#[test]
fn the_tops_of_many_backups_are_listed_without_a_session() {
    let bed = Bed::new();
    for _ in 0..50 {
        bed.back_up_stream(b"bytes", "name", &onefold::StreamOptions::default());
        bed.clock.advance(Duration::from_secs(5));
    }
    let files = bed.files();
    let begun = || bed.storage.sessions_begun.load(Ordering::SeqCst);
    let before = begun();
    // By number, not by name.
    let ids = names(&files, "ids");
    assert!(ids.is_sorted_by_key(|id| id.parse::<u64>().unwrap()), "{ids:?}");
    for folder in ["ids", "snapshots", "hosts/host"] {
        let listed = list(&files, number(&files, folder), true);
        assert!(listed.len() >= 50, "{} in {folder}", listed.len());
        let told = |listed: &mount::Listed| {
            let attributes = files.attributes(listed.number).unwrap().attributes;
            let mut seconds = attributes.mtime.seconds() - 1_700_000_000;
            if listed.name == b"latest" {
                seconds = 0;
            }
            (attributes.kind == listed.kind, seconds)
        };
        let told: Vec<_> = listed.iter().map(told).collect();
        assert!(told.iter().all(|(is_right, _)| *is_right));
        // The time is that of the backup.
        assert!((0..50).all(|nth| told.contains(&(true, nth * 5))), "{told:?}");
    }
    assert!(files.is_idle());
    assert_eq!(begun(), before);
    // One that is looked up is read.
    number(&files, &format!("ids/{}/name", ids[7]));
    assert!(begun() > before && !files.is_idle());
}

#[test]
fn a_top_folder_that_was_listed_gets_the_attributes_of_its_listing_when_it_is_looked_up() {
    let (bed, _folder) = bed();
    let files = bed.files();
    let ids = number(&files, "ids");
    let listed = list(&files, ids, true)[0].clone();
    let looked_up = files.look_up(ids, &listed.name).unwrap();
    assert_eq!(looked_up.attributes.number, listed.number);
    assert_ne!(
        Some(looked_up.attributes),
        listed.entry.map(|entry| entry.attributes)
    );
    let now = files.attributes(listed.number).unwrap().attributes;
    assert_eq!(now, looked_up.attributes);
    assert_eq!(list(&files, ids, true)[0].entry.as_ref().unwrap().attributes, now);
}

#[test]
fn a_damaged_backup_is_listed() {
    let (bed, _folder) = bed();
    let files = bed.files();
    bed.storage.is_rotten.store(true, Ordering::SeqCst);
    let ids = number(&files, "ids");
    assert_eq!(list(&files, ids, true).len(), 3);
    assert_eq!(files.look_up(ids, b"1"), Err(Errno::IO));
    assert_eq!(list(&files, ids, true).len(), 3);
}

#[test]
fn a_pin_that_hangs_stops_neither_reads_of_other_backups_nor_the_end() {
    let (bed, folder) = bed();
    let files = bed.files();
    let letter = number(&files, &format!("ids/1{}/letter", folder.path().display()));
    let ids = number(&files, "ids");
    let second = names(&files, "ids")[1].clone();
    thread::scope(|scope| {
        let gate = bed.storage.sessions.lock().unwrap();
        let before = bed.storage.sessions_begun.load(Ordering::SeqCst);
        // Two want the same backup.
        let hanging = [0, 1].map(|_| scope.spawn(|| files.look_up(ids, second.as_bytes())));
        while bed.storage.sessions_begun.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
        let (done, is_done) = mpsc::channel();
        let files = &files;
        scope.spawn(move || {
            done.send(files.read_file(letter, 0, 100).map(|bytes| bytes.len()))
                .unwrap();
        });
        let read = is_done.recv_timeout(Duration::from_secs(10));
        drop(gate);
        assert_eq!(read, Ok(Ok(11)), "it went on");
        let [one, other] = hanging.map(|thread| thread.join().unwrap().unwrap());
        assert_eq!(one.attributes.number, other.attributes.number);
        let begun = bed.storage.sessions_begun.load(Ordering::SeqCst);
        assert_eq!(begun, before + 1, "one pin for both");
    });
    let third = names(&files, "ids")[2].clone();
    thread::scope(|scope| {
        let gate = bed.storage.sessions.lock().unwrap();
        let before = bed.storage.sessions_begun.load(Ordering::SeqCst);
        let hanging = scope.spawn(|| files.look_up(ids, third.as_bytes()));
        while bed.storage.sessions_begun.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
        let (done, is_done) = mpsc::channel();
        let files = &files;
        scope.spawn(move || {
            files.close();
            done.send(()).unwrap();
        });
        let closed = is_done.recv_timeout(Duration::from_secs(10));
        assert!(!files.is_idle(), "the pin that hangs counts");
        drop(gate);
        assert_eq!(closed, Ok(()));
        assert_eq!(hanging.join().unwrap(), Err(Errno::IO));
    });
    assert!(files.is_idle());
}

#[test]
fn an_end_ends_all_pins() {
    let (bed, folder) = bed();
    let files = bed.files();
    let letter = number(&files, &format!("ids/1{}/letter", folder.path().display()));
    assert!(!files.is_idle());
    files.close();
    assert!(files.is_idle());
    assert_eq!(files.read_file(letter, 0, 100), Err(Errno::IO));
}

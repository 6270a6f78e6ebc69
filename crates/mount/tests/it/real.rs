//! A mounted file system, used by the kernel.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use env::{Clock, SystemClock};
use mount::{MountError, MountOptions, mount};
use onefold::{BackupOptions, Credential, Env, InitOptions, Monitor, OpenOptions, Store, TreeOptions};

use crate::bed::noise;

/// Ends the file system when it is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(paths_below(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_kernel_reads_what_was_backed_up_and_an_end_leaves_nothing_mounted() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs /dev/fuse and the superuser");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (source, at) = (place.path().join("source"), place.path().join("at"));
    fs::create_dir_all(source.join("in/deep")).unwrap();
    fs::create_dir(&at).unwrap();
    fs::write(source.join("large"), noise(1, 3_000_000)).unwrap();
    for nth in 0..300 {
        fs::write(source.join(format!("in/{nth}")), noise(nth, 500)).unwrap();
    }
    fs::hard_link(source.join("in/7"), source.join("in/deep/seven")).unwrap();
    symlink("../large", source.join("in/link")).unwrap();

    let env = Env::create_local(place.path().join("store")).unwrap();
    Store::init(&env, &Credential::None, &InitOptions::default(), None).unwrap();
    let store = Store::open(&env, &Credential::None, &OpenOptions::default()).unwrap();
    let store: &'static Store = Box::leak(Box::new(store));
    let back_up = || {
        let (options, tree) = (BackupOptions::default().host("host"), TreeOptions::new([&source]));
        let done = store.backup_tree(&options, &tree, &Monitor::default(), &mut |fault| {
            panic!("{fault}")
        });
        done.unwrap();
    };
    back_up();

    let options = || MountOptions::new(|time| time.get().to_string());
    let missing = mount(store, &place.path().join("missing"), options());
    assert!(matches!(missing, Err(MountError::NoFolder { .. })));
    let mounted = mount(store, &at, options()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| mounted.wait(&stop));
        // A failed assertion ends it, too.
        let _ending = Ending(&stop);
        let shown = at
            .join("snapshots/latest")
            .join(source.strip_prefix("/").unwrap());
        let below = |path: PathBuf, base: &Path| path.strip_prefix(base).unwrap().to_owned();
        let was: Vec<_> = paths_below(&source)
            .into_iter()
            .map(|path| below(path, &source))
            .collect();
        let is: Vec<_> = paths_below(&shown)
            .into_iter()
            .map(|path| below(path, &shown))
            .collect();
        assert_eq!(is, was);
        for path in &was {
            let (real, shown) = (source.join(path), shown.join(path));
            let metadata = |path| fs::symlink_metadata(path).unwrap();
            let (was, is) = (metadata(&real), metadata(&shown));
            let all = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid(), of.mtime(), of.mtime_nsec());
            assert_eq!(all(&is), all(&was), "{}", path.display());
            if was.is_file() {
                assert_eq!(
                    (is.len(), is.nlink()),
                    (was.len(), was.nlink()),
                    "{}",
                    path.display()
                );
                assert!(fs::read(&shown).unwrap() == fs::read(&real).unwrap());
            }
        }
        let number = |name| fs::metadata(shown.join(name)).unwrap().ino();
        assert_eq!(number("in/7"), number("in/deep/seven"));
        let refused = fs::write(shown.join("new"), "").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

        // Another backup appears.
        fs::write(source.join("new"), "new").unwrap();
        back_up();
        let new = shown.join("new");
        let appeared = (0..200).any(|_| {
            SystemClock.sleep(std::time::Duration::from_millis(50));
            new.exists()
        });
        assert!(appeared);
        assert_eq!(fs::read_dir(at.join("ids")).unwrap().count(), 2);

        // A program that works in it does not keep it from ending.
        let open = fs::File::open(shown.join("large")).unwrap();
        stop.store(true, Ordering::Relaxed);
        waiting.join().unwrap().unwrap();
        drop(open);
    });
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "nothing is mounted");

    // It also ends by umount.
    let mounted = mount(store, &at, options()).unwrap();
    assert!(fs::metadata(at.join("ids/1")).unwrap().is_dir());
    let done = Command::new("umount").arg(&at).status().unwrap();
    assert!(done.success());
    mounted.wait(&AtomicBool::new(false)).unwrap();
}

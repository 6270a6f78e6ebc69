//! `mount`: what it shows is what was backed up, and a signal ends it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::bed::{Bed, noise, signal};

#[test]
fn a_mounted_backup_equals_its_source_and_a_signal_ends_it() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs /dev/fuse and the superuser");
        return;
    }
    let bed = Bed::new();
    fs::create_dir_all(bed.path("source/in")).unwrap();
    fs::write(bed.path("source/large"), noise(3 << 20, 1)).unwrap();
    for nth in 0..50 {
        fs::write(bed.path(format!("source/in/{nth}")), noise(1000, nth)).unwrap();
    }
    chown(bed.path("source"), Some(1234), None).unwrap();
    fs::hard_link(bed.path("source/large"), bed.path("source/in/other name")).unwrap();
    bed.ok(["backup", "--host", "one", "source"]);
    bed.ok(["backup", "--host", "two", "source"]);
    fs::create_dir(bed.path("at")).unwrap();

    let missing = bed.run(["mount", "nowhere"]);
    missing.expect(1).says(&["nowhere: "]);

    let mount = [
        "mount",
        "--json",
        "--host",
        "two",
        "--memory",
        "8M",
        "--owner-root",
        "at",
    ];
    let others = ["--allow-other", "--no-default-permissions"];
    bed.run(["mount", "at", "--no-default-permissions"]).expect(2);
    let mut command = bed.command(mount.iter().chain(&others));
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(r#""message_type":"mounted""#), "{first}");
    assert_eq!(fs::read_dir(bed.path("at/ids")).unwrap().count(), 1);
    let shown = bed.restored("at/snapshots/latest", "source");
    assert_eq!(fs::metadata(&shown).unwrap().uid(), 0);
    let difference = Command::new("diff")
        .arg("-r")
        .arg(bed.path("source"))
        .arg(&shown)
        .status();
    signal(&running, Signal::TERM);
    assert!(difference.unwrap().success());
    assert!(running.wait().unwrap().success());
    let last = lines.next().unwrap().unwrap();
    assert!(last.contains(r#""message_type":"unmounted""#), "{last}");
    assert_eq!(fs::read_dir(bed.path("at")).unwrap().count(), 0);
}

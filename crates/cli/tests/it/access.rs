//! No other user can read a store, or other files that the program writes, whatever the umask is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::bed::{Bed, Ran, noise};

/// Runs the program with this umask.
fn masked(bed: &Bed, mask: &str, args: &[&str]) -> Ran {
    let command = bed.command(args);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", mask])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(bed.path(""));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.output().unwrap().into()
}

/// Fails unless the folder, all folders in it and all files have these bits of the mask `of`.
#[track_caller]
fn assert_modes(root: &Path, folders: u32, files: u32) {
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut todo = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = todo.pop() {
        assert_eq!(
            mode(&folder),
            folders,
            "{}: {:o}",
            folder.display(),
            mode(&folder)
        );
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                seen += 1;
                assert_eq!(mode(&path), files, "{}: {:o}", path.display(), mode(&path));
            }
        }
    }
    assert!(seen > 0, "a store has files");
}

/// Runs one of each command that writes to a store.
fn use_store(bed: &Bed, mask: &str) {
    for round in 0..3 {
        fs::write(bed.path("src"), noise(3 << 20, round)).unwrap();
        masked(bed, mask, &["backup", "src", "--index-memory-mib", "1"]).expect(0);
    }
    for args in [
        &["tag", "1", "--add", "x"][..],
        &["hold", "3", "--for", "1d"],
        &["series", "set", "--default", "--layout", "hybrid"],
        &["forget", "1", "--prune"],
        &["optimize"],
        &["index", "rebuild"],
        &["check", "--read-data"],
    ] {
        masked(bed, mask, args).expect(0);
    }
}

#[test]
fn a_store_is_its_owners_alone() {
    for mask in ["000", "022", "077"] {
        let bed = Bed::bare();
        masked(&bed, mask, &["init", "--container-mib", "1"]).expect(0);
        use_store(&bed, mask);
        assert_modes(&bed.store(), 0o700, 0o600);
    }
}

#[test]
fn every_writer_keeps_a_group_store_open_to_its_group() {
    for mask in ["022", "077"] {
        let bed = Bed::bare();
        let said = masked(&bed, mask, &["init", "--container-mib", "1", "--group-access"]).expect(0);
        assert!(said.out().contains("group"), "{}", said.out());
        use_store(&bed, mask);
        assert_modes(&bed.store(), 0o2770, 0o660);
    }
}

#[test]
fn a_folder_that_is_open_to_its_group_is_not_taken_over_unsaid() {
    let bed = Bed::bare();
    fs::create_dir(bed.store()).unwrap();
    fs::set_permissions(bed.store(), fs::Permissions::from_mode(0o2775)).unwrap();
    bed.run(["init"]).expect(1).says(&["--group-access", "chmod g-s"]);
    assert_eq!(fs::read_dir(bed.store()).unwrap().count(), 0);
    bed.ok(["init", "--group-access"]);
    assert_modes(&bed.store(), 0o2770, 0o660);
    bed.run(["init"]).expect(1).says(&["a store here already"]);
}

#[test]
fn a_world_readable_password_file_is_reported_when_it_is_set() {
    let bed = Bed::bare();
    for (mode, warns) in [(0o600, false), (0o640, false), (0o644, true)] {
        let (store, file) = (format!("{mode:o}"), bed.path("word"));
        fs::write(&file, "secret").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = bed.plain();
        command.args(["init", "-r", &store, "--password-file", "word"]);
        let ran = Ran::from(command.output().unwrap()).expect(0);
        assert_eq!(ran.err().contains("chmod 600 word"), warns, "{}", ran.err());
    }
}

#[test]
fn analysis_files_are_private_to_their_owner() {
    let bed = Bed::bare();
    fs::write(bed.path("data"), noise(300_000, 1)).unwrap();
    let mode = |name: &str| fs::metadata(bed.path(name)).unwrap().permissions().mode() & 0o777;
    masked(&bed, "000", &["analyze", "data", "--output", "a.html"]).expect(0);
    assert_eq!(mode("a.html"), 0o600);
}

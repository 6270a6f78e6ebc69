//! Access rights of written files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::bed::{Bed, Ran, noise};

#[test]
fn output_is_private_to_its_owner_under_any_umask() {
    let bed = Bed::new();
    fs::write(bed.path("data"), noise(300_000, 1)).unwrap();
    let mode = |name: &str| fs::metadata(bed.path(name)).unwrap().permissions().mode() & 0o777;
    for to in ["--output t", "--destor d"] {
        let mut shell = Command::new("sh");
        let script = format!("umask 000; exec \"$0\" trace data {to}");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_onefold-lab")]);
        Ran::from(shell.current_dir(bed.path("")).output().unwrap()).expect(0);
    }
    assert_eq!((mode("t"), mode("d")), (0o600, 0o700));
    for entry in fs::read_dir(bed.path("d")).unwrap() {
        assert_eq!(
            entry.unwrap().metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

//! File names of other users are escaped on a terminal. Pipes and JSON have them unchanged.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::bed::{Bed, lines};

/// The text that a command writes to a terminal, on both outputs, and its exit code.
fn on_terminal(bed: &Bed, args: &[&OsStr]) -> (Vec<u8>, Option<i32>) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options()
        .read(true)
        .write(true)
        .open(OsStr::from_bytes(name.as_bytes()))
        .unwrap();
    let mut command = bed.command(args);
    command
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut said = Vec::new();
    // Reading fails once every process has closed the other side.
    drop(File::from(ours).read_to_end(&mut said));
    (said, child.wait().unwrap().code())
}

const NAME: &str = "a\x1b]0;owned\x07b\nc\u{202e}d\u{9b}31m";
const SHOWN: &str = "a\\x1b]0;owned\\x07b\\nc\\u{202e}d\\x9b31m";

#[test]
fn a_terminal_is_shown_escapes_and_nobody_else() {
    let bed = Bed::new();
    fs::create_dir(bed.path(NAME)).unwrap();
    fs::write(bed.path(NAME).join(OsStr::from_bytes(b"raw\xff\x1bend")), "x").unwrap();
    bed.ok(["backup", NAME, "--host", NAME, "--tag", NAME]);
    bed.ok(["backup", NAME, "--host", NAME, "--tag", NAME]);
    let target = format!("out{NAME}");
    let list = format!("{NAME},");
    let commands: [&[&str]; 13] = [
        &["ls", "latest"],
        &["ls", "latest", "--long"],
        &["snapshots"],
        &["forget", "--keep-last", "1", "-n"],
        &["forget", "--keep-tag", "none"],
        &["series", "list"],
        &["tag", "1", "--set", &list],
        &["tag", "1", "--add", "x"],
        &["restore", "latest", "--target", &target],
        &["ls", "latest", NAME],
        &["ls", NAME],
        &["snapshots", NAME],
        &["snapshots", "--host", NAME, "--json"],
    ];
    for args in commands {
        let words: Vec<_> = args.iter().map(OsStr::new).collect();
        let (said, _) = on_terminal(&bed, &words);
        let text = String::from_utf8(said).unwrap();
        let active = |one: char| one.is_control() && !matches!(one, '\n' | '\r');
        // A restore draws its progress and erases it.
        let drawn = args[0] == "restore";
        assert!(drawn || !text.contains(active), "{args:?}: {text:?}");
        assert!(
            !text.contains("\x1b]0") && !text.contains('\u{202e}'),
            "{args:?}: {text:?}"
        );
        // clap itself removes active characters from the words in its errors.
        let is_other = args.contains(&"--json") || args.contains(&"--set") || args == ["snapshots", NAME];
        assert!(is_other || text.contains("owned"), "{args:?}: {text:?}");
    }
    let (said, code) = on_terminal(&bed, &["ls".as_ref(), "latest".as_ref()]);
    let text = String::from_utf8(said).unwrap();
    assert_eq!(code, Some(0));
    assert!(text.contains(&format!("{SHOWN}/raw\\xff\\x1bend")), "{text}");
    // A pipe gets the bytes unchanged.
    let piped = bed.ok(["ls", "latest"]).out;
    let name = [NAME.as_bytes(), b"/raw\xff\x1bend"].concat();
    assert!(piped.windows(name.len()).any(|part| part == name));
    let json = bed.ok(["snapshots", "--json"]).out;
    assert_eq!(lines(&json)[0]["hostname"], NAME);
    assert_eq!(lines(&json)[0]["tags"][0], NAME);
}

#[test]
fn two_paths_are_distinguished_from_one_with_a_blank() {
    let bed = Bed::new();
    for folder in ["a b", "a", "b"] {
        fs::create_dir(bed.path(folder)).unwrap();
    }
    bed.ok(["backup", "a b", "--host", "h"]);
    bed.ok(["backup", "a", "b", "--host", "h"]);
    let place = bed.path("").display().to_string();
    let one = format!("'{place}a b'");
    let two = format!("{place}a {place}b");
    for args in [
        &["snapshots"][..],
        &["series", "list"],
        &["forget", "-l", "5", "-n"],
    ] {
        let text = bed.ok(args).out();
        assert!(text.contains(&one) && text.contains(&two), "{args:?}: {text}");
    }
}

#[test]
fn times_are_local_everywhere_and_the_zone_is_said() {
    let bed = Bed::new();
    fs::write(bed.path("file"), "x").unwrap();
    bed.ok(["backup", "file"]);
    bed.ok(["hold", "1", "--until", "2100-06-01T10:00:00Z"]);
    if !std::path::Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
        println!("skipped: this machine knows no time zones");
        return;
    }
    for (zone, name, hold) in [
        (
            "Europe/Berlin",
            "(Europe/Berlin)",
            "held until 2100-06-01 12:00:00 CEST",
        ),
        ("UTC", "(UTC)", "held until 2100-06-01 10:00:00 UTC"),
    ] {
        for args in [&["snapshots"][..], &["forget", "-l", "1", "-n"]] {
            let mut command = bed.command(args);
            let said = command.env("TZ", zone).output().unwrap();
            let text = String::from_utf8(said.stdout).unwrap();
            assert!(text.contains(name) && text.contains(hold), "{args:?}: {text}");
        }
    }
}

#[test]
fn numbers_that_are_missing_are_explained() {
    let bed = Bed::new();
    fs::write(bed.path("file"), "x").unwrap();
    bed.ok(["backup", "file"]);
    assert!(bed.ok(["snapshots"]).out().ends_with("1 backup\n"));
    bed.ok(["check"]);
    bed.ok(["backup", "file"]);
    let text = bed.ok(["snapshots"]).out();
    assert!(text.contains("2 backups; numbers are missing"), "{text}");
}

#[test]
fn check_and_stats_report_their_findings_in_words() {
    let bed = Bed::new();
    assert!(bed.ok(["stats"]).out().contains("no data is stored yet"));
    fs::write(bed.path("file"), crate::bed::noise(300_000, 1)).unwrap();
    bed.ok(["backup", "file"]);
    let text = bed.ok(["stats"]).out();
    assert!(
        text.contains("data          293 KiB  as all backups restored would take"),
        "{text}"
    );
    let text = bed.ok(["check"]).out();
    assert!(
        text.contains("no damage found") && text.contains("--read-data"),
        "{text}"
    );
    let text = bed.ok(["check", "--read-data"]).out();
    assert!(text.contains("every stored byte was read"), "{text}");
    for folder in ["data", "small", "mirror"] {
        for path in bed.objects(folder) {
            fs::remove_file(path).unwrap();
        }
    }
    let text = bed.run(["check"]).expect(1).out();
    assert!(text.contains("1 of 1 backup cannot be restored whole"), "{text}");
}

//! What lists of paths name, and what markers and sizes leave out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::process::getuid;

use crate::bed::{Bed, noise};
use crate::exit_codes::{NOBODY, by_nobody};

/// The names of all files of the newest backup, with the folders below the bed.
fn files(bed: &Bed) -> Vec<String> {
    let out = bed.ok(["ls", "latest"]).out();
    let root = bed.path("");
    let below = |line: &str| {
        let path = Path::new(line).strip_prefix(&root).ok()?;
        (!bed.path(path).is_dir()).then(|| path.display().to_string())
    };
    out.lines().filter_map(below).collect()
}

fn plant(bed: &Bed, files: &[&str]) {
    for file in files {
        let path = bed.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(3000, 1)).unwrap();
    }
}

#[test]
fn lists_name_patterns_lines_and_raw_paths() {
    let bed = Bed::new();
    plant(
        &bed,
        &[
            "a/one.txt",
            "a/two.txt",
            "a/b.md",
            "c/#odd",
            "c/ blank ",
            "c/[x]",
            "c/x",
        ],
    );
    fs::write(bed.path("list"), "# a comment\n\n a/*.txt \r\nnothing/*\nc/[x]\n").unwrap();
    bed.ok(["backup", "--files-from", "list"])
        .says(&["nothing matches `nothing/*`"]);
    assert_eq!(files(&bed), ["a/one.txt", "a/two.txt", "c/[x]"]);

    fs::write(bed.path("lines"), "c/#odd\nc/ blank \n\n").unwrap();
    bed.ok(["backup", "--files-from-verbatim", "lines", "a/b.md"]);
    assert_eq!(files(&bed), ["a/b.md", "c/ blank ", "c/#odd"]);

    let strange = bed.path(Path::new(OsStr::from_bytes(b"c/\xff\nx")));
    fs::write(&strange, "strange").unwrap();
    bed.fed(["backup", "--files-from-raw", "-"], b"c/\xff\nx\0a/one.txt\0")
        .expect(0);
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.restored("out", &strange)).unwrap(), b"strange");

    // A list that was cut, none at all, and one place for two lists.
    bed.fed(["backup", "--files-from-raw", "-"], b"a/one.txt\0a/tw")
        .expect(1)
        .says(&["standard input", "no NUL byte"]);
    bed.fed(["backup", "--files-from", "-"], b"# nothing\n")
        .expect(1)
        .says(&["nothing to back up"]);
    bed.fed(["backup", "--files-from", "-", "--files-from-raw", "-"], b"")
        .expect(1)
        .says(&["only one list"]);
    bed.run(["backup", "--files-from", "absent"])
        .expect(1)
        .says(&["absent"]);
    bed.fed(["backup", "--stdin", "--files-from", "list"], b"x")
        .expect(2)
        .says(&["--files-from concerns files"]);
    assert_eq!(bed.backups().len(), 3);
}

#[test]
fn patterns_of_files_from_match_names_of_any_bytes() {
    let bed = Bed::new();
    let latin = Path::new(OsStr::from_bytes(b"a/caf\xe9.txt"));
    plant(&bed, &["a/x.txt", "a/Übung", "a/Ärger", "a/d/deep", "a/d/e/deep"]);
    fs::write(bed.path(latin), "latin").unwrap();
    symlink(bed.path("a/d"), bed.path("a/link")).unwrap();
    fs::write(bed.path("list"), "a/*.txt\n[a]/[ÄÖ]*\n**/deep\n").unwrap();
    let ran = bed.ok(["backup", "--files-from", "list"]);
    assert!(!ran.err().contains("warning"), "{}", ran.err());
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.restored("out", latin)).unwrap(), b"latin");
    for (name, want) in [
        ("a/x.txt", true),
        ("a/Ärger", true),
        ("a/Übung", false),
        ("a/d/deep", true),
        ("a/d/e/deep", true),
        ("a/link", false),
    ] {
        assert_eq!(bed.restored("out", name).exists(), want, "{name}");
    }
    // A slash at the end finds folders, and follows a link.
    fs::write(bed.path("list"), "a/*/\n").unwrap();
    bed.ok(["backup", "--files-from", "list"]);
    assert_eq!(
        files(&bed),
        ["a/d/deep", "a/d/e/deep", "a/link/deep", "a/link/e/deep"]
    );

    for (wrong, why) in [(&b"a/[b\n"[..], "`a/[b`"), (b"a/\xff*\n", "not UTF-8")] {
        bed.fed(["backup", "--files-from", "-"], wrong)
            .expect(1)
            .says(&[why]);
    }
}

#[test]
fn what_patterns_of_files_from_cannot_reach_is_named_with_3() {
    let bed = Bed::bare();
    if getuid().is_root() {
        chown(bed.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    by_nobody(&bed, &["init"]).expect(0);
    plant(&bed, &["home/ann/docs/x", "home/bob/docs/x", "home/file"]);
    let mode = |mode| fs::set_permissions(bed.path("home/bob"), fs::Permissions::from_mode(mode)).unwrap();
    for (pattern, mode_of_bob, fault) in [
        // Nobody may look for `docs` there.
        ("home/*/docs", 0o000, "home/bob/docs: Permission denied"),
        ("home/*/d*", 0o000, "home/bob: Permission denied"),
        ("home/**/x", 0o000, "home/bob: Permission denied"),
        ("home/*/docs", 0o755, ""),
    ] {
        mode(mode_of_bob);
        fs::write(bed.path("list"), pattern).unwrap();
        let ran = by_nobody(&bed, &["backup", "--files-from", "list"]);
        let ran = ran.expect(if fault.is_empty() { 0 } else { 3 }).says(&[fault]);
        assert_eq!(
            ran.err().contains("warning: home"),
            !fault.is_empty(),
            "{}",
            ran.err()
        );
        let listed = by_nobody(&bed, &["ls", "latest"]).expect(0).out();
        assert!(listed.contains("home/ann/docs/x"), "{pattern}: {listed}");
        assert_eq!(listed.contains("home/bob/docs/x"), fault.is_empty(), "{pattern}");
    }
    // A link to itself.
    symlink("loop", bed.path("home/loop")).unwrap();
    by_nobody(&bed, &["backup", "--files-from", "list"])
        .expect(3)
        .says(&["home/loop/docs: Too many levels of symbolic links"]);
}

/// Anybody who may write there can make such an entry. It must not take the place of the others.
#[test]
fn a_pattern_that_is_the_name_of_an_entry_is_a_pattern() {
    let bed = Bed::new();
    plant(&bed, &["c/*", "c/?", "c/x", "c/long"]);
    for (pattern, found) in [
        ("c/*", &["c/*", "c/?", "c/long", "c/x"][..]),
        ("c/?", &["c/*", "c/?", "c/x"]),
    ] {
        fs::write(bed.path("list"), pattern).unwrap();
        bed.ok(["backup", "--files-from", "list"]);
        assert_eq!(files(&bed), found, "{pattern}");
    }
}

/// A store beside the data, in one folder.
#[test]
fn the_store_is_left_out_of_its_own_folder() {
    let bed = Bed::new();
    plant(&bed, &["store/photos/y", "store/photos/data/z"]);
    let photos = ["store/photos/data/z", "store/photos/y"];
    for path in ["store", "store/photos"] {
        bed.ok(["backup", path]);
        assert_eq!(files(&bed), photos, "{path}");
    }
    bed.run(["backup", "store/sessions", "store/photos"])
        .expect(3)
        .says(&["store/sessions: belongs to the store"]);
    assert_eq!(files(&bed), photos);
}

#[test]
fn markers_and_sizes_leave_out() {
    let bed = Bed::new();
    plant(
        &bed,
        &[
            "t/kept",
            "t/marked/.nobackup",
            "t/marked/inner/file",
            "t/other/.nobackup2",
            "t/other/file",
        ],
    );
    fs::write(bed.path("t/large"), noise(20_000, 3)).unwrap();
    fs::write(bed.path("t/other/.tag"), "Signature: yes, more").unwrap();
    bed.ok([
        "backup",
        "t",
        "--exclude-if-present",
        ".nobackup",
        "--exclude-if-present=.tag:Signature: no",
        "--exclude-larger-than",
        "10K",
    ]);
    let expected = [
        "t/kept",
        "t/marked/.nobackup",
        "t/other/.nobackup2",
        "t/other/.tag",
        "t/other/file",
    ];
    assert_eq!(files(&bed), expected);
    bed.ok(["backup", "t", "--exclude-if-present=.tag:Signature: yes"]);
    let found = files(&bed);
    assert!(
        !found.contains(&"t/other/file".to_owned()) && found.contains(&"t/large".to_owned()),
        "{found:?}"
    );
    for wrong in ["", "a/b", ".."] {
        let option = format!("--exclude-if-present={wrong}");
        bed.run(["backup", "t", &option])
            .expect(2)
            .says(&["name of a file"]);
    }
    fs::write(bed.path("patterns"), "KEPT\n").unwrap();
    bed.ok(["backup", "t", "--iexclude-file", "patterns"]);
    assert!(!files(&bed).contains(&"t/kept".to_owned()));
}

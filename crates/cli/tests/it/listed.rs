//! What lists of paths name, and what markers and sizes leave out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::bed::{Bed, noise};

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

//! Kinds of backups and what they leave out: standard input, disk images, excludes, two at once.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};

use crate::bed::{Bed, Ran, last, lines, noise};
use crate::picture::{assert_same, picture};

#[test]
fn standard_input_is_a_stream_with_a_name() {
    let bed = Bed::new();
    let dump = noise(3 << 20, 12);
    let args = ["backup", "--stdin", "--stdin-filename", "shop.sql", "--json"];
    let first = last(&bed.fed(args, &dump).expect(0));
    let second = last(&bed.fed(args, &dump).expect(0));
    assert!(first["data_added"].as_u64().unwrap() >= 3 << 20);
    assert_eq!(second["data_added"].as_u64(), Some(0));
    let ls = bed.ok(["ls", "latest", "--long"]).out();
    assert!(
        ls.contains("shop.sql") && ls.contains(&dump.len().to_string()),
        "{ls}"
    );
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.path("out/shop.sql")).unwrap(), dump);
    bed.run(["ls", "latest", "other.sql"])
        .expect(1)
        .says(&["other.sql"]);
    bed.ok(["ls", "latest", "shop.sql"]);
    bed.assert_sound();
}

#[test]
fn an_empty_stream_makes_no_backup_unless_it_is_asked_for() {
    let bed = Bed::new();
    bed.fed(["backup", "--stdin"], b"").expect(1).says(&[
        "standard input is empty",
        "no backup",
        "--stdin-allow-empty",
    ]);
    bed.run(["backup", "--stdin-from-command", "--", "true"])
        .expect(1)
        .says(&["`true`", "empty", "--stdin-allow-empty"]);
    assert!(bed.backups().is_empty());
    bed.fed(["backup", "--stdin", "--stdin-allow-empty"], b"")
        .expect(0);
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.path("out/stdin")).unwrap(), b"");
    bed.ok([
        "backup",
        "--stdin-from-command",
        "--stdin-allow-empty",
        "--",
        "true",
    ]);
    assert_eq!(bed.backups().len(), 2);
}

#[test]
fn the_output_of_a_command_is_backed_up_unless_the_command_fails() {
    let bed = Bed::new();
    fs::write(bed.path("dump"), noise(3 << 20, 12)).unwrap();
    let command = [
        "backup",
        "--stdin-from-command",
        "--stdin-filename",
        "shop.sql",
        "--",
    ];
    let run = |words: &[&str]| bed.run(command.iter().chain(words));
    run(&["cat", "dump"]).expect(0);
    bed.ok(["restore", "latest", "-t", "out"]);
    assert!(fs::read(bed.path("out/shop.sql")).unwrap() == fs::read(bed.path("dump")).unwrap());
    for (words, told) in [
        (&["sh", "-c", "cat dump; exit 3"][..], "exit status: 3"),
        (&["sh", "-c", "exit 4"], "exit status: 4"),
        (&["sh", "-c", "cat dump; kill -9 $$"], "signal: 9"),
        (&["no-such-program"], "No such file"),
    ] {
        run(words).expect(1).says(&[told, words[0], "no backup was made"]);
    }
    assert_eq!(bed.backups().len(), 1);
    bed.run(["backup", "--stdin-from-command"]).expect(2);
    bed.run(["backup", "--stdin", "--stdin-from-command", "--", "true"])
        .expect(2);
    // The next backup takes over the data of the failed one, and has exactly the command's output.
    run(&["cat", "dump"]).expect(0);
    bed.ok(["restore", "latest", "-t", "again"]);
    assert!(fs::read(bed.path("again/shop.sql")).unwrap() == fs::read(bed.path("dump")).unwrap());
    bed.assert_sound();
}

#[test]
fn an_image_has_fixed_chunks_and_its_holes_are_neither_read_nor_stored() {
    let bed = Bed::new();
    let image = fs::File::create_new(bed.path("disk.img")).unwrap();
    image.set_len(256 << 20).unwrap();
    for (at, seed) in [(0, 13), (100 << 20, 14), ((256 << 20) - 70_000, 15)] {
        image.write_all_at(&noise(70_000, seed), at).unwrap();
    }
    let first = last(&bed.ok(["backup", "--image-kib", "64", "disk.img", "--json"]));
    assert_eq!(first["total_bytes_processed"].as_u64(), Some(256 << 20));
    assert!(first["bytes_read"].as_u64().unwrap() < 1 << 20, "{first}");
    // One byte changes one chunk.
    image.write_all_at(b"!", (100 << 20) + 5).unwrap();
    let second = last(&bed.ok(["backup", "--image-kib", "64", "disk.img", "--json"]));
    assert!(
        (64 << 10..80 << 10).contains(&second["data_added"].as_u64().unwrap()),
        "{second}"
    );
    bed.ok(["restore", "latest", "-t", "out"]);
    let back = bed.restored("out", "disk.img");
    assert!(fs::read(&back).unwrap() == fs::read(bed.path("disk.img")).unwrap());
    assert!(
        back.metadata().unwrap().blocks() * 512 < 2 << 20,
        "the holes came back as holes"
    );
    bed.run(["backup", "--image-kib", "3", "disk.img"])
        .expect(2)
        .says(&["4..=1024"]);
    bed.run(["backup", "--image-kib", "64", "none"])
        .expect(1)
        .says(&["none", "No such file"]);
    bed.run(["backup", "--image-kib", "64", "store"])
        .expect(1)
        .says(&["store", "is a folder"]);
    bed.run(["backup", "--image-kib", "64", "disk.img", "store"])
        .expect(2)
        .says(&["one path"]);
}

#[test]
fn excludes_caches_and_the_store_itself_are_left_out() {
    let bed = Bed::new();
    for name in [
        "src/keep",
        "src/skip.tmp",
        "src/build/out",
        "src/cache/thing",
        "src/sub/build/x",
        "src/listed",
    ] {
        fs::create_dir_all(bed.path(name).parent().unwrap()).unwrap();
        fs::write(bed.path(name), name).unwrap();
    }
    fs::write(
        bed.path("src/cache/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    )
    .unwrap();
    fs::write(bed.path("rules"), "# a comment\n\nlisted\n").unwrap();
    let args = "backup . --exclude *.tmp --exclude build --exclude-file rules --exclude-caches";
    bed.ok(args.split(' '));
    let ls = bed.ok(["ls", "latest"]).out();
    for kept in ["src/keep", "src/sub", "CACHEDIR.TAG", "/rules"] {
        assert!(ls.contains(kept), "{kept} in {ls}");
    }
    for left_out in ["skip.tmp", "build", "thing", "/listed", "/store/"] {
        assert!(!ls.contains(left_out), "{left_out} in {ls}");
    }
    bed.run(["backup", ".", "--exclude", "[a"])
        .expect(1)
        .says(&["[a"]);
}

#[test]
fn two_processes_back_up_into_one_store_at_once() {
    let bed = Bed::new();
    for (name, seed) in [("left", 16), ("right", 17)] {
        fs::create_dir(bed.path(name)).unwrap();
        fs::write(bed.path(name).join("own"), noise(12 << 20, seed)).unwrap();
        fs::write(bed.path(name).join("shared"), noise(12 << 20, 18)).unwrap();
    }
    // Also two of one series: neither takes the other for dead.
    let children: Vec<_> = ["left", "right", "right"]
        .map(|name| bed.command(["backup", name]).spawn().unwrap())
        .into_iter()
        .collect();
    for child in children {
        let ran = Ran::from(child.wait_with_output().unwrap()).expect(0);
        assert!(!ran.out().contains("continued"), "{}", ran.out());
    }
    assert_eq!(bed.backups().len(), 3);
    for name in ["left", "right"] {
        let path = bed.path(name).display().to_string();
        bed.ok(["restore", "latest", "--path", &path, "-t", "out"]);
        assert_same(&picture(&bed.path(name)), &picture(&bed.restored("out", name)));
    }
    bed.assert_sound();
    let again = last(&bed.ok(["backup", "left", "--force", "--json"]));
    // Except for the listing, which has the folders above with their times.
    assert!(again["data_added"].as_u64().unwrap() < 10_000, "{again}");
}

/// As with rsync, tar and the kernel: a path before a `/` is the target of the link.
#[test]
fn a_link_is_followed_with_a_final_slash_and_reported_without() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("real/sub")).unwrap();
    fs::write(bed.path("real/sub/file"), "of the folder").unwrap();
    for (link, target) in [
        ("data", "real"),
        ("tofile", "real/sub/file"),
        ("dangling", "none"),
    ] {
        symlink(target, bed.path(link)).unwrap();
    }
    for given in ["data/", "data/.", "./data//"] {
        let ran = bed.ok(["backup", given]);
        assert!(!ran.err().contains("link"), "{}", ran.err());
        let ls = bed.ok(["ls", "latest", "data/sub/../sub/"]).out();
        assert!(ls.contains("/data/sub/file"), "{given}: {ls}");
    }
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("real")),
        &picture(&bed.restored("out", "data")),
    );
    // A link in the middle of a path is always followed.
    bed.ok(["backup", "data/sub"]);
    assert!(bed.ok(["ls", "latest"]).out().contains("/data/sub/file"));
    // `..` after a link resolves as in the kernel.
    symlink("real/sub", bed.path("deep")).unwrap();
    bed.ok(["backup", "deep/../sub"]);
    assert!(
        bed.ok(["ls", "latest", "deep/../sub"])
            .out()
            .contains("/real/sub/file")
    );

    for (given, words) in [
        (
            "data",
            vec!["data is a symbolic link to real", "`data/` backs that up"],
        ),
        ("tofile", vec!["the link alone", "real/sub/file` backs that up"]),
        ("dangling", vec!["none does not exist"]),
    ] {
        let ran = bed.ok(["backup", given]).says(&words);
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        let told = lines(&bed.ok(["backup", given, "--json"]).err);
        assert_eq!(told[0]["message_type"], "error");
        assert!(
            told[0]["message"].as_str().unwrap().contains(words[0]),
            "{told:?}"
        );
    }
    // The target of the link is backed up beside it, so there is no warning.
    assert_eq!(bed.ok(["backup", "data", "real"]).err(), "");
    bed.run(["backup", "tofile/"])
        .expect(1)
        .says(&["tofile/", "real/sub/file", "Not a directory"]);
    bed.run(["backup", "dangling/"])
        .expect(1)
        .says(&["dangling/", "leads to none", "No such file"]);
    // An image follows the link, because names of devices are links.
    let image = last(&bed.ok(["backup", "--image-kib", "4", "tofile", "--json"]));
    assert_eq!(image["total_bytes_processed"].as_u64(), Some(13));
    bed.run(["backup", "--image-kib", "4", "data"])
        .expect(1)
        .says(&["is a folder"]);
}

#[test]
fn patterns_are_cleaned_and_those_that_can_never_match_are_reported() {
    let bed = Bed::new();
    for name in [
        "src/keep",
        "src/cache/a",
        "other/src/cache/b",
        "src/some[dir]/c",
        "src/somed",
    ] {
        fs::create_dir_all(bed.path(name).parent().unwrap()).unwrap();
        fs::write(bed.path(name), name).unwrap();
    }
    let listed = |args: &[&str]| {
        let ran = bed.ok(["backup", "src", "other"].iter().chain(args));
        (ran.err(), bed.ok(["ls", "latest"]).out())
    };
    // Only from the current folder, or from any folder.
    for (pattern, is_everywhere) in [
        ("./src/cache", false),
        ("./src//./cache/", false),
        ("src/../src/cache", true),
        ("src//cache/", true),
        ("cache/", true),
    ] {
        let (told, ls) = listed(&["-e", pattern]);
        assert_eq!(told, "", "{pattern}");
        assert!(
            !ls.contains("src/cache/a") && ls.contains("src/keep"),
            "{pattern}: {ls}"
        );
        assert_eq!(
            ls.contains("other/src/cache/b"),
            !is_everywhere,
            "{pattern}: {ls}"
        );
    }
    for (name, text) in [
        ("marked", "\u{feff}cache\n"),
        ("windows", "\u{feff}# rules\r\ncache\r\n"),
        ("old", "# rules\rcache\r"),
    ] {
        fs::write(bed.path(name), text).unwrap();
        let (told, ls) = listed(&["--exclude-file", name]);
        assert!(told.is_empty() && !ls.contains("cache"), "{name}: {told} {ls}");
    }
    for (pattern, word) in [
        ("/elsewhere/x", "outside of all"),
        ("./src", "never left out"),
        ("\"cache\"", "quotes"),
        (r"src\cache", "backslash"),
        ("some[dir]", r"`\[`"),
    ] {
        let (told, ls) = listed(&["-e", pattern]);
        assert!(
            told.contains(word) && told.lines().count() == 1,
            "{pattern}: {told}"
        );
        assert!(ls.contains("src/some[dir]/c"), "{pattern}: {ls}");
    }
    assert!(!listed(&["-e", r"some\[dir\]"]).1.contains("some[dir]"));
    fs::write(bed.path("rules"), "cache\r\n$HOME/x\r\n").unwrap();
    let home = std::env::var("HOME").unwrap();
    for (args, words) in [
        (["-e", "~/x"], vec!["`~`", "not replaced"]),
        (["-e", "!$HOME/x"], vec!["HOME", &home]),
        (["-e", "${HOME}/x"], vec!["variables are not replaced"]),
        (["--exclude-file", "rules"], vec!["rules, line 2", "HOME"]),
        (["-e", ""], vec!["empty"]),
    ] {
        bed.run(["backup", "src"].iter().chain(&args))
            .expect(1)
            .says(&words);
    }
    let told = bed.ok(["backup", "src", "-e", "nothing.such", "-v"]).out();
    assert!(told.contains("\"nothing.such\" matched nothing"), "{told}");
}

#[test]
fn paths_that_name_nothing_are_reported_for_every_option() {
    let bed = Bed::new();
    for name in ["src/a", "src/b"] {
        fs::create_dir_all(bed.path("src")).unwrap();
        fs::write(bed.path(name), name).unwrap();
    }
    bed.ok(["backup", "src"]);
    // Every command cleans `..`.
    assert!(bed.ok(["ls", "latest", "src/../src/./a"]).out().contains("src/a"));
    assert_eq!(bed.ok(["dump", "latest", "src/../src//a"]).out(), "src/a");
    bed.ok(["restore", "latest", "-t", "out", "-i", "src/../src/a"]);
    assert!(bed.restored("out", "src/a").exists() && !bed.restored("out", "src/b").exists());
    assert_eq!(
        lines(&bed.ok(["snapshots", "--json", "--path", "src/x/.."]).out).len(),
        1
    );
    // The command names the path without an entry in the backup.
    bed.run(["ls", "latest", "src/a", "src/none"])
        .expect(1)
        .says(&["under src/none"]);
    bed.run(["restore", "latest", "-t", "out2", "-i", "src/a", "-i", "src/none"])
        .expect(1)
        .says(&["under src/none"]);
    assert!(bed.restored("out2", "src/a").exists());
    for args in [
        vec!["ls", "latest", "~/src"],
        vec!["dump", "latest", "$HOME/src"],
        vec!["restore", "latest", "-t", "out3", "-i", "${HOME}/src"],
        vec!["restore", "latest", "--target=~/out3"],
        vec!["forget", "--path=~/src", "--keep-last", "1"],
        vec!["backup", "~/src"],
        vec!["snapshots", "--repo=~/store"],
    ] {
        bed.run(&args).expect(1).says(&["not replaced by a shell"]);
    }
    for name in ["x/", "..", "../x"] {
        bed.fed(["backup", "--stdin", "--stdin-filename", name], b"x")
            .expect(1)
            .says(&["no name for a stream"]);
    }
    bed.fed(["backup", "--stdin", "--stdin-filename", "./a//b"], b"x")
        .expect(0);
    assert_eq!(bed.ok(["ls", "latest"]).out(), "a/b\n");
}

#[test]
fn resuming_reports_the_found_position_or_its_absence() {
    let bed = Bed::new();
    fs::write(bed.path("bytes"), noise(3 << 20, 5)).unwrap();
    let begun_anew = bed
        .fed(["backup", "--stdin", "--resume"], &noise(3 << 20, 5))
        .expect(0);
    assert!(begun_anew.err().contains("began anew"), "{}", begun_anew.err());
    assert!(
        !begun_anew.out().contains("stored before"),
        "{}",
        begun_anew.out()
    );
    let image = bed
        .run(["backup", "--image-kib", "64", "--resume", "bytes"])
        .expect(0);
    assert!(image.err().contains("began anew"), "{}", image.err());
    bed.run(["backup", "--resume", "bytes"])
        .expect(2)
        .says(&["--resume", "goes on by itself"]);
}

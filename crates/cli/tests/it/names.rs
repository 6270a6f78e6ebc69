//! Several names of one symbolic link, socket, pipe or device: they are restored as names of one
//! entry.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, mkdirat, mknodat, openat, utimensat,
};

use crate::bed::{Bed, last, lines};
use crate::picture::{Picture, assert_same, picture};
use crate::sources::with_mounts;

const FOLDERS: [&str; 3] = ["first", "second", "third"];

/// Makes an entry of each kind in a folder, as far as this user may. Returns their names.
fn make_nodes(folder: &Path) -> Vec<&'static str> {
    fs::create_dir_all(folder).unwrap();
    let make = |name: &str, kind, device| {
        mknodat(CWD, folder.join(name), kind, Mode::from_raw_mode(0o640), device).is_ok()
    };
    symlink("nowhere", folder.join("link")).unwrap();
    drop(UnixListener::bind(folder.join("socket")).unwrap());
    assert!(make("pipe", FileType::Fifo, 0));
    let mut names = vec!["link", "pipe", "socket"];
    // Only the superuser may make these, and not everywhere.
    names.extend(make("null", FileType::CharacterDevice, 0x103).then_some("null"));
    names.extend(make("disk", FileType::BlockDevice, 0x700).then_some("disk"));
    let time = Timespec {
        tv_sec: 1_234_567_890,
        tv_nsec: 7,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    for name in &names {
        utimensat(CWD, folder.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    names
}

/// One of each kind, each with a name in all folders.
fn plant(root: &Path) -> Vec<&'static str> {
    let names = make_nodes(&root.join(FOLDERS[0]));
    for folder in &FOLDERS[1..] {
        fs::create_dir_all(root.join(folder)).unwrap();
        for name in &names {
            fs::hard_link(root.join(FOLDERS[0]).join(name), root.join(folder).join(name)).unwrap();
        }
    }
    names
}

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

/// The entries of a folder, by their paths in it.
fn within(picture: &Picture, folder: &str) -> Picture {
    let below = picture.iter().filter_map(|(path, entry)| {
        let name = path.strip_prefix(folder).ok()?;
        Some((name.to_owned(), entry.clone().alone()))
    });
    below.filter(|(name, _)| name != Path::new("")).collect()
}

#[test]
fn names_of_one_link_socket_pipe_or_device_come_back_as_names_of_one() {
    let bed = Bed::new();
    let src = bed.path("src");
    for folder in FOLDERS {
        make_nodes(&src.join(folder));
    }
    let restored = |target: &str| {
        bed.ok(["backup", "src"]);
        bed.ok(["restore", "latest", "-t", target]);
        picture(&bed.restored(target, "src"))
    };
    // At first they are separate entries.
    let is = restored("apart");
    assert_same(&picture(&src), &is);
    fs::remove_dir_all(&src).unwrap();
    let names = plant(&src);
    for target in ["one", "still one"] {
        let is = restored(target);
        assert_same(&picture(&src), &is);
    }
    let ls = bed.ok(["ls", "latest", "--json"]);
    let nodes = lines(&ls.out);
    let long = bed.ok(["ls", "latest", "--long"]).out();
    for name in &names {
        let path = |folder: &str| src.join(folder).join(name).display().to_string();
        let first = path("first");
        for folder in &FOLDERS[1..] {
            let node = nodes.iter().find(|node| node["path"] == path(folder)).unwrap();
            assert_eq!(node["type"], "hardlink", "{node}");
            assert_eq!(node["linktarget"], first.as_str(), "{node}");
            let line = format!("{} -> {first}", path(folder));
            let line = long.lines().find(|found| found.ends_with(&line)).unwrap();
            assert!(line.starts_with('h'), "{line}");
        }
    }
    // The first names are removed, and others change.
    fs::remove_dir_all(src.join("first")).unwrap();
    fs::rename(src.join("second"), src.join("zweite")).unwrap();
    let is = restored("fewer");
    assert_same(&picture(&src), &is);
    for name in names {
        assert_eq!(
            bed.restored("fewer", "src")
                .join("third")
                .join(name)
                .symlink_metadata()
                .unwrap()
                .nlink(),
            2
        );
    }
    bed.assert_sound();
}

#[test]
fn hard_links_to_an_excluded_first_name_are_restored_as_one_file() {
    let bed = Bed::new();
    let names = plant(&bed.path("src"));
    let was = within(&picture(&bed.path("src")), "first");
    bed.ok(["backup", "src"]);
    bed.ok(["backup", "src", "--exclude", "first"]);
    let asked = [
        "restore",
        "1",
        "-t",
        "asked",
        "-i",
        "src/second",
        "-i",
        "src/third",
        "--json",
    ];
    let summary = last(&bed.ok(asked));
    assert_eq!(summary["files_restored"], 0);
    bed.ok(["restore", "latest", "-t", "without"]);
    for target in ["asked", "without"] {
        let back = bed.restored(target, "src");
        assert!(!back.join("first").exists(), "{target}");
        for folder in ["second", "third"] {
            assert_same(&was, &within(&picture(&back), folder));
        }
        for name in &names {
            let [second, third] = ["second", "third"].map(|folder| inode(&back.join(folder).join(name)));
            assert_eq!(second, third, "{name} in {target}");
        }
    }
    // Only one name.
    bed.ok(["restore", "1", "-t", "one", "-i", "src/third/pipe"]);
    let pipe = bed.restored("one", "src/third/pipe").symlink_metadata().unwrap();
    assert_eq!(
        (pipe.nlink(), pipe.mtime(), pipe.mode() & 0o7777),
        (1, 1_234_567_890, 0o640)
    );
}

#[test]
fn no_name_leads_to_something_else_that_stays() {
    let bed = Bed::new();
    let names = plant(&bed.path("src"));
    let times = |path: &Path, sec| {
        let time = Timespec {
            tv_sec: sec,
            tv_nsec: 7,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    };
    for folder in FOLDERS {
        let file = bed.path("src").join(folder).join("file");
        if folder == "first" {
            fs::write(&file, "backup").unwrap();
            times(&file, 1_234_567_890);
        } else {
            fs::hard_link(bed.path("src/first/file"), &file).unwrap();
        }
    }
    bed.ok(["backup", "src"]);
    let all: Vec<&str> = names.iter().copied().chain(["file"]).collect();
    let was = picture(&bed.path("src"));
    // The user's own entries: with the same time, and with a later one. In place of the file: a
    // pipe, and another file.
    for (number, (mode, stays)) in [
        ("always", false),
        ("if-changed", false),
        ("if-newer", true),
        ("never", true),
    ]
    .into_iter()
    .enumerate()
    {
        for later in [0, 500] {
            let target = format!("out{number}-{later}");
            let back = bed.restored(&target, "src");
            fs::create_dir_all(back.join("first")).unwrap();
            for name in &all {
                let mine = back.join("first").join(name);
                if *name == "file" && later == 0 {
                    mknodat(CWD, &mine, FileType::Fifo, Mode::RWXU, 0).unwrap();
                } else {
                    fs::write(&mine, "another").unwrap();
                }
                times(&mine, 1_234_567_890 + later);
            }
            bed.ok(["restore", "1", "-t", &target, "--overwrite", mode]);
            let is = picture(&back);
            for folder in &FOLDERS[1..] {
                let (was, is) = (within(&was, folder), within(&is, folder));
                for name in &all {
                    assert_eq!(
                        was[Path::new(name)],
                        is[Path::new(name)],
                        "{folder}/{name} with {mode}"
                    );
                }
            }
            for name in &all {
                let [first, second, third] = FOLDERS.map(|folder| inode(&back.join(folder).join(name)));
                assert_eq!(second, third, "{name} with {mode}");
                assert_eq!(first != second, stays, "{name} with {mode}");
            }
        }
    }
    // An entry that stays because it is the same gets new names.
    for mode in ["if-changed", "if-newer", "never"] {
        let back = bed.restored("again", "src");
        bed.ok(["restore", "1", "-t", "again"]);
        for name in &all {
            fs::remove_file(back.join("second").join(name)).unwrap();
        }
        bed.ok(["restore", "1", "-t", "again", "--overwrite", mode]);
        let is = picture(&back);
        assert_same(&within(&was, "second"), &within(&is, "second"));
        for name in &all {
            let links = back.join("first").join(name).symlink_metadata().unwrap().nlink();
            assert_eq!(links, 3, "{name} with {mode}");
        }
    }
}

#[test]
fn a_name_that_cannot_be_made_is_named() {
    let bed = Bed::new();
    let src = bed.path("src");
    fs::create_dir_all(src.join("disk")).unwrap();
    let script = "
        onefold() { \"$ONEFOLD\" --insecure-no-password \"$@\"; }
        mkdir -p src/disk src/other; echo x > src/a-file; ln -s x src/a-link; mkfifo src/a-pipe
        for name in file link pipe; do
            ln src/a-$name src/disk/a-$name; ln src/a-$name src/other/a-$name
        done
        onefold backup src -q
        for out in elsewhere blocked; do mkdir -p $out$(pwd)/src/disk; done
        mount -t tmpfs none elsewhere$(pwd)/src/disk
        got=0; onefold restore 1 -t elsewhere -q 2> told || got=$?; [ $got = 1 ]
        [ -z \"$(ls elsewhere$(pwd)/src/disk)\" ]
        stat -c '%h' elsewhere$(pwd)/src/a-* elsewhere$(pwd)/src/other/* > counts
        for name in file link pipe; do mkdir -p blocked$(pwd)/src/a-$name/full; done
        got=0; onefold restore 1 -t blocked -q 2> blocked-by || got=$?; [ $got = 1 ]
        stat -c '%h %F' blocked$(pwd)/src/disk/* blocked$(pwd)/src/other/* > blocked-counts
    ";
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    ran.expect(0);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    let (told, blocked) = (text("told"), text("blocked-by"));
    for name in ["file", "link", "pipe"] {
        assert!(
            told.contains(&format!("src/disk/a-{name}: cannot link it to its first name")),
            "{told}"
        );
        assert!(blocked.contains(&format!("src/a-{name}: cannot")), "{blocked}");
    }
    assert_eq!(text("counts"), "2\n".repeat(6));
    let kinds = "2 regular file\n2 symbolic link\n2 fifo\n";
    assert_eq!(text("blocked-counts"), kinds.repeat(2));
}

/// The first name is too long for the format.
#[test]
fn a_first_name_that_is_left_out_costs_the_others_nothing() {
    let bed = Bed::new();
    let src = bed.path("src");
    fs::create_dir_all(&src).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut deep = openat(CWD, &src, flags, Mode::empty()).unwrap();
    let name = "d".repeat(255);
    for _ in 0..(1 << 16) / name.len() {
        mkdirat(&deep, &*name, Mode::RWXU).unwrap();
        deep = openat(&deep, &*name, flags, Mode::empty()).unwrap();
    }
    mknodat(&deep, &*name, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let file = openat(&deep, "file", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"content").unwrap();
    for (first, others) in [(&name[..], ["x", "y"]), ("file", ["f", "g"])] {
        for other in others {
            rustix::fs::linkat(&deep, first, CWD, src.join(other), AtFlags::empty()).unwrap();
        }
    }
    bed.run(["backup", "src"]).expect(3).says(&["cannot be listed"]);
    bed.ok(["restore", "latest", "-t", "some", "-i", "src/y", "-i", "src/g"]);
    bed.ok(["restore", "latest", "-t", "all"]);
    for target in ["some", "all"] {
        let back = bed.restored(target, "src");
        assert_eq!(fs::read(back.join("g")).unwrap(), b"content");
        let pipe = back.join("y").symlink_metadata().unwrap();
        assert!(pipe.file_type().is_fifo());
    }
    let back = bed.restored("all", "src");
    for [one, other] in [["x", "y"], ["f", "g"]] {
        assert_eq!(inode(&back.join(one)), inode(&back.join(other)));
    }
    bed.assert_sound();
}

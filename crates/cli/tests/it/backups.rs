//! Kinds of backups and what they leave out: standard input, disk images, excludes, two at once.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::bed::{Bed, Ran, last, noise};
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
    bed.fed(["backup", "--stdin"], b"").expect(0);
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.path("out/stdin")).unwrap(), b"");
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
        .expect(1)
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
    for left_out in ["skip.tmp", "build", "thing", "/listed", "/store"] {
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
    // Also of one series: neither takes the other for dead.
    let children: Vec<_> = ["left", "right", "right"]
        .map(|name| bed.command(["backup", name]).spawn().unwrap())
        .into_iter()
        .collect();
    for child in children {
        let ran = Ran::from(child.wait_with_output().unwrap()).expect(0);
        assert!(!ran.out().contains("went on from"), "{}", ran.out());
    }
    assert_eq!(bed.backups().len(), 3);
    for name in ["left", "right"] {
        let path = bed.path(name).display().to_string();
        bed.ok(["restore", "latest", "--path", &path, "-t", "out"]);
        assert_same(&picture(&bed.path(name)), &picture(&bed.restored("out", name)));
    }
    bed.assert_sound();
    let again = last(&bed.ok(["backup", "left", "--force", "--json"]));
    // But for the listing, which shows the folders above with their times.
    assert!(again["data_added"].as_u64().unwrap() < 10_000, "{again}");
}

//! How much of the store is read.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::fs;

use crate::bed::{Bed, list, noise, number, read};

/// 20,000 files in 200 folders.
fn many() -> (Bed, tempfile::TempDir) {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    for outer in 0..200 {
        let inner = folder.path().join(format!("{outer:03}"));
        fs::create_dir(&inner).unwrap();
        for file in 0..100 {
            fs::write(inner.join(format!("{file:03}-{}", "x".repeat(60))), "").unwrap();
        }
    }
    std::os::unix::fs::symlink("x", folder.path().join("so that there may be hard links")).unwrap();
    bed.back_up(folder.path(), "host", &[]);
    (bed, folder)
}

#[test]
fn a_path_costs_the_path_and_a_folder_costs_the_folder() {
    let (bed, folder) = many();
    let files = bed.files();
    let (ids, ..) = bed.cost(|| number(&files, "ids/1"));
    assert_ne!(ids, 0);
    let path = format!("ids/1{}/150/042-{}", folder.path().display(), "x".repeat(60));
    let (_, reads, bytes) = bed.cost(|| number(&files, &path));
    assert!(reads <= 70 && bytes < 700_000, "{reads} reads, {bytes} bytes");
    // Again, and a neighbour: from memory.
    let other = path.replace("042-", "043-");
    let (_, again, _) = bed.cost(|| (number(&files, &path), number(&files, &other)));
    assert_eq!(again, 0);
    // The whole listing is more than ten times as long.
    let top = number(&files, &format!("ids/1{}", folder.path().display()));
    let (listed, reads, bytes) = bed.cost(|| list(&files, top, true).len());
    assert_eq!(listed, 201);
    assert!(
        bytes > 2_000_000,
        "the first list counts links: {reads} reads, {bytes} bytes"
    );
    let (_, reads, bytes) = bed.cost(|| list(&files, number(&files, &path[..path.len() - 65]), true));
    assert_eq!((reads, bytes), (0, 0), "the listing is in memory now");
}

#[test]
fn a_region_is_read_once_for_many_small_reads() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(3, 1_000_000)).unwrap();
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let file = number(&files, &format!("ids/1{}/file", folder.path().display()));
    let (_, _, bytes) = bed.cost(|| {
        // Not in order, so that nothing is read ahead.
        for nth in 0..250_u64 {
            let offset = nth * 7919 % 250 * 4000;
            assert_eq!(files.read_file(file, offset, 4000).unwrap().len(), 4000);
        }
    });
    assert!((1_000_000..1_400_000).contains(&bytes), "{bytes} bytes");
    let (all, reads, _) = bed.cost(|| read(&files, file).unwrap());
    assert_eq!((all.len(), reads), (1_000_000, 0));
}

/// The kernel keeps what it was given. A second copy here would push out what it has not.
#[test]
fn what_a_long_read_has_passed_is_not_kept_a_second_time() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(5, 4 << 20)).unwrap();
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let file = number(&files, &format!("ids/1{}/file", folder.path().display()));
    let whole = |offset| files.read_file(file, offset, 1 << 20).unwrap();
    let small = |offset| bed.cost(|| files.read_file(file, offset, 4096).unwrap()).1;
    assert_eq!(whole(2 << 20).len(), 1 << 20);
    assert!(small((2 << 20) + 500_000) > 0);
    // A shorter read keeps all.
    files.read_file(file, 0, 500_000).unwrap();
    assert_eq!(small(100_000), 0);
}

#[test]
fn a_long_read_takes_many_regions_at_once() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(4, 1_000_000)).unwrap();
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let file = number(&files, &format!("ids/1{}/file", folder.path().display()));
    let (read, reads, _) = bed.cost(|| files.read_file(file, 0, 1_000_000).unwrap());
    assert_eq!(read.len(), 1_000_000);
    // 125 regions in 17 containers, and the catalogs and nodes of these.
    assert!(reads < 80, "{reads} reads");
}

//! Options of stores in object stores: the cache, limits of the rate, storage classes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use testfs::S3Server;

use crate::bed::{Bed, noise};
use crate::object_stores::bed_at;

/// Bytes of all files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_below(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_cache_is_kept_bounded_and_passed() {
    let Some(server) = S3Server::start() else { return };
    let bed = bed_at(&server, &server.location("cached"));
    bed.ok(["init", "--container-mib", "1", "--reserve-mib", "0"]);
    fs::create_dir(bed.path("src")).unwrap();
    for number in 0..400 {
        fs::write(bed.path(format!("src/{number}")), noise(3000, number)).unwrap();
    }
    let cache = bed.path("cache/objects");
    bed.ok(["backup", "--no-cache", "src"]);
    bed.ok(["snapshots", "--no-cache"]);
    assert_eq!(bytes_below(&cache), 0);
    bed.ok(["backup", "src"]);
    bed.ok(["ls", "latest"]);
    let kept = bytes_below(&cache);
    assert!(kept > 10_000, "{kept} bytes are kept");
    fs::remove_dir_all(&cache).unwrap();
    for _ in 0..3 {
        bed.ok(["backup", "--cache-size", "4096", "src"]);
    }
    let bounded = bytes_below(&cache);
    assert!(bounded < kept / 2, "{bounded} of {kept} bytes are kept");
    // A cache that others have damaged costs time alone.
    bed.ok(["ls", "latest"]);
    let mut folders = vec![cache];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                fs::write(entry.path(), "nothing").unwrap();
            }
        }
    }
    assert_eq!(
        bed.ok(["ls", "latest"])
            .out()
            .lines()
            .filter(|line| line.contains("/src/"))
            .count(),
        400
    );
    bed.assert_sound();
    bed.run(["ls", "latest", "--no-cache", "--cache-size", "1M"])
        .expect(2);
}

#[test]
fn rates_are_limited_both_ways() {
    let Some(server) = S3Server::start() else { return };
    let bed = bed_at(&server, &server.location("slow"));
    bed.ok(["init", "--reserve-mib", "0"]);
    let bytes = noise(3 << 20, 1);
    let began = Instant::now();
    let args = ["backup", "--stdin", "--limit-upload", "1024"];
    bed.fed(args, &bytes).expect(0);
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    let began = Instant::now();
    let ran = bed.ok(["dump", "latest", "--limit-download", "1024"]);
    assert_eq!(ran.out, bytes);
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    bed.run(["snapshots", "--limit-upload", "0"]).expect(2);
}

#[test]
fn data_are_stored_in_a_class_that_can_be_read_at_once() {
    let Some(server) = S3Server::start() else { return };
    let bed = bed_at(&server, &server.location("class"));
    bed.ok(["init", "--reserve-mib", "0"]);
    fs::write(bed.path("file"), noise(2 << 20, 1)).unwrap();
    bed.run(["backup", "file", "--storage-class", "DEEP_ARCHIVE"])
        .expect(1)
        .says(&["DEEP_ARCHIVE"]);
    assert!(bed.backups().is_empty());
    bed.ok(["backup", "file", "--storage-class", "STANDARD_IA"]);
    bed.assert_sound();
}

#[test]
fn these_options_are_refused_for_a_folder() {
    let bed = Bed::new();
    for option in [
        "--no-cache",
        "--cache-size=1M",
        "--limit-upload=9",
        "--limit-download=9",
        "--storage-class=X",
    ] {
        bed.run(["snapshots", option]).expect(2).says(&["object store"]);
    }
}

/// A storage class is of what is written: the store to copy from may be at another service, which
/// has no class of that name, or in a folder.
#[test]
fn a_storage_class_concerns_the_store_that_a_copy_writes() {
    let Some(server) = S3Server::start() else { return };
    let mut bed = bed_at(&server, &server.location("copies"));
    bed.ok(["init", "--reserve-mib", "0"]);
    let copy = |from: &str| {
        let class = "--storage-class=STANDARD_IA";
        let password = "--from-insecure-no-password";
        bed.run(["copy", password, "--from-repo", from, class])
    };
    // Without an account, Azure is never asked.
    let ran = copy("azure:box");
    assert!(!ran.err().contains("STANDARD_IA"), "{}", ran.err());
    ran.expect(1).says(&["azure:box", "AZURE_"]);
    bed.ok(["init", "--repo", "plain", "--reserve-mib", "0"]);
    copy("plain").expect(0);
    let source = server.location("copies");
    bed.set("ONEFOLD_REPOSITORY", bed.path("plain").to_str().unwrap());
    let password = "--from-insecure-no-password";
    bed.run([
        "copy",
        password,
        "--from-repo",
        &source,
        "--storage-class=STANDARD_IA",
    ])
    .expect(2)
    .says(&["--storage-class concerns what is written"]);
}

//! `prune`: its output, and the report about containers that it left.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::bed::{Bed, last, lines, noise, settle};

/// A store with a backup of two files; the next backup lacks one of them.
fn bed() -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/goes"), noise(5 << 19, 60)).unwrap();
    fs::write(bed.path("src/stays"), noise(2 << 20, 61)).unwrap();
    settle();
    bed.ok(["backup", "src"]);
    fs::remove_file(bed.path("src/goes")).unwrap();
    bed.ok(["backup", "src"]);
    bed.ok(["forget", "1"]);
    bed
}

fn assert_restores(bed: &Bed) {
    bed.ok(["restore", "2", "-t", "out"]);
    let back = fs::read(bed.restored("out", "src/stays")).unwrap();
    assert!(back == noise(2 << 20, 61), "what came back differs");
    bed.assert_sound();
}

fn stored(bed: &Bed) -> u64 {
    let blocks = |path| fs::metadata(path).unwrap().blocks();
    bed.objects("data").into_iter().map(blocks).sum::<u64>() * 512
}

#[test]
fn prune_removes_and_counts_dead_data() {
    let bed = bed();
    let before = stored(&bed);
    let dry = bed.ok(["prune", "-n", "--max-unused", "0"]).out();
    assert!(
        dry.starts_with("would free ") && dry.contains("leave 0 B unused"),
        "{dry}"
    );
    assert_eq!(stored(&bed), before, "nothing was changed");
    let ran = bed.ok(["prune", "--max-unused", "0"]);
    let text = ran.out();
    assert!(text.starts_with("freed ") && text.contains("; copied "), "{text}");
    assert_eq!(ran.err(), "");
    let freed = before - stored(&bed);
    assert!((2 << 20..3 << 20).contains(&freed), "{freed} of {before}: {text}");
    assert_restores(&bed);
    let again = bed.ok(["prune"]).out();
    assert!(again.starts_with("nothing to reclaim"), "{again}");
}

#[test]
fn prune_removes_and_counts_dead_data_in_json() {
    let bed = bed();
    let dry = last(&bed.ok(["prune", "-n", "--max-unused", "0", "--json"]));
    assert_eq!(dry["dry_run"], true);
    assert!(dry["bytes_stored"].is_null(), "{dry}");
    let ran = bed.ok(["prune", "--max-unused", "0", "--json"]);
    assert_eq!(ran.err(), "");
    let summary = last(&ran);
    assert_eq!(summary["message_type"], "prune_summary");
    assert_eq!(summary["dry_run"], false);
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert!((2 << 20..3 << 20).contains(&number("bytes_freed")), "{summary}");
    assert!(number("containers_removed") > 0, "{summary}");
    assert!(number("bytes_stored") > 2 << 20, "{summary}");
    // It shows only when a container loses slots whether that takes a copy.
    let parts = |said: &serde_json::Value| {
        let [copied, trimmed] =
            ["containers_compacted", "containers_trimmed"].map(|name| said[name].as_u64());
        copied.unwrap() + trimmed.unwrap()
    };
    assert_eq!(summary["containers_removed"], dry["containers_removed"]);
    assert_eq!(parts(&summary), parts(&dry), "{summary} {dry}");
    assert_restores(&bed);
    let again = last(&bed.ok(["prune", "--json"]));
    assert_eq!(
        (again["bytes_freed"].as_u64(), again["dry_run"].as_bool()),
        (Some(0), Some(false))
    );
}

/// The chunks of a trimmed container are in an object beside it.
#[test]
fn a_lost_body_is_named_with_a_remedy() {
    let bed = bed();
    // Dead slots that share a region with live ones may stay, or their whole container is copied.
    bed.ok(["prune", "--max-unused", "200K"]);
    let is_body = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "body");
    let Some(body) = bed.objects("data").into_iter().find(is_body) else {
        // A file system that gives nothing back: everything is copied.
        return;
    };
    let kept = fs::read(&body).unwrap();
    fs::remove_file(&body).unwrap();
    let name = body.strip_prefix(bed.store()).unwrap().display().to_string();
    let ran = bed.run(["restore", "2", "-t", "out"]).expect(1);
    let ran = ran.says(&[
        "src/stays: not restored: container ",
        &name,
        "is missing",
        "onefold check",
    ]);
    assert!(!ran.err().contains("replaced"), "{}", ran.err());
    let found = bed.run(["check"]).expect(1).out();
    assert!(
        found.contains("its chunks are in is missing") && found.contains(&name),
        "{found}"
    );
    assert!(
        found.contains("backup 2 cannot be restored whole") && found.contains("/src/stays"),
        "{found}"
    );
    // The one repair, and then the other.
    fs::write(&body, kept).unwrap();
    assert_restores(&bed);
    fs::remove_file(&body).unwrap();
    bed.run(["check"]).expect(1);
    bed.ok(["backup", "src", "--force"]);
    bed.ok(["restore", "latest", "-t", "healed"]);
    assert!(fs::read(bed.restored("healed", "src/stays")).unwrap() == noise(2 << 20, 61));
}

/// A count of one is printed in the singular.
#[test]
fn a_single_dead_container_is_removed() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(3 << 10, 62)).unwrap();
    bed.ok(["backup", "src"]);
    let dry = bed.ok(["forget", "1", "-n"]).out();
    assert!(
        dry.contains(": 1 container would be deleted, 0 would shrink; "),
        "{dry}"
    );
    let text = bed.ok(["forget", "1", "--prune"]).out();
    assert!(text.contains(": 1 container was deleted, 0 shrank; "), "{text}");
}

/// The space that all containers take, second copies included, and the sum of their lengths.
fn sizes(bed: &Bed) -> (u64, u64) {
    let folders = ["data", "recipe", "small", "mirror"].into_iter();
    let metas = folders.flat_map(|folder| bed.objects(folder));
    let metas: Vec<_> = metas.map(|path| fs::metadata(path).unwrap()).collect();
    let blocks: u64 = metas.iter().map(MetadataExt::blocks).sum();
    (blocks * 512, metas.iter().map(MetadataExt::size).sum())
}

/// After the older backups of a hybrid series are pruned, the rest takes the space of a new store
/// with the same backups. The lengths of its objects are larger, and the program prints by how
/// much. No backup here is so small that its chunks have a second copy.
#[test]
fn a_pruned_hybrid_series_is_as_large_as_a_new_store_of_it() {
    let init = |bed: &Bed| {
        let args = "init --container-mib 1 --reserve-mib 0 --layout hybrid --segment 256K";
        bed.ok(args.split(' '));
    };
    let bed = Bed::bare();
    init(&bed);
    fs::create_dir(bed.path("src")).unwrap();
    let mut file = noise(12 << 20, 70);
    let mut said = String::new();
    for n in 0..6_usize {
        let at = (n * 1900) << 10;
        file[at..at + (1500 << 10)].copy_from_slice(&noise(1500 << 10, 71 + n as u64));
        fs::write(bed.path("src/file"), &file).unwrap();
        settle();
        bed.ok(["backup", "src"]);
    }
    bed.ok(["forget", "1", "2", "3", "4", "5"]);
    for _ in 0..2 {
        said += &bed.ok(["prune"]).out();
    }
    let new = Bed::bare();
    init(&new);
    fs::create_dir(new.path("src")).unwrap();
    fs::write(new.path("src/file"), &file).unwrap();
    new.ok(["backup", "src"]);
    let ((blocks, lens), (new_blocks, new_lens)) = (sizes(&bed), sizes(&new));
    assert!(
        blocks < new_blocks / 100 * 110,
        "{blocks} of {new_blocks}: {said}"
    );
    let stats = lines(&bed.ok(["stats", "--json"]).out);
    let stats = stats.iter().find(|line| line["message_type"] == "stats").unwrap();
    let holes = stats["hole_size"].as_u64().unwrap();
    assert!(
        lens - holes < new_lens / 100 * 110,
        "{lens} of {new_lens}, holes {holes}: {said}"
    );
    let text = bed.ok(["stats"]).out();
    assert_eq!(holes > 0, text.contains("\nholes "), "{text}");
    assert_eq!(holes > 0, said.contains("with holes"), "{said}");
    bed.assert_sound();
}

#[test]
fn a_container_that_is_too_damaged_to_be_rewritten_is_named_in_json_too() {
    let bed = Bed::new();
    // Each region has data of files that stay and of files that do not, so all are rewritten.
    fs::create_dir(bed.path("src")).unwrap();
    for number in 0..200 {
        let path = bed.path(format!("src/{number:03}"));
        fs::write(path, noise(10_000, 60 + number)).unwrap();
    }
    settle();
    bed.ok(["backup", "src"]);
    for number in (0..200).step_by(2) {
        fs::remove_file(bed.path(format!("src/{number:03}"))).unwrap();
    }
    bed.ok(["backup", "src"]);
    bed.ok(["forget", "1"]);
    for path in bed.objects("data") {
        let mut bytes = fs::read(&path).unwrap();
        let content = bytes.len().saturating_sub(64 << 10);
        bytes[..content]
            .iter_mut()
            .step_by(4096)
            .skip(1)
            .for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).unwrap();
    }
    let ran = bed
        .run(["prune", "--max-unused", "0", "--json"])
        .expect(1)
        .says(&["stays as it is", "onefold check --read-data"]);
    let summary = last(&ran);
    let damaged = summary["damaged"].as_array().unwrap();
    assert!(!damaged.is_empty(), "{summary}");
    for one in damaged {
        let [container, why] = ["container", "why"].map(|name| one[name].as_str().unwrap());
        assert!(container.starts_with("data/") && !why.is_empty(), "{summary}");
    }
}

//! Pools and volumes that no server has open: every command, exit codes, JSON, text.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::bed::{last, lines};
use crate::pooled::{MIB, Pooled, number};

#[test]
fn a_pool_is_made_of_a_new_file_and_cleaned_up_if_that_fails() {
    let pooled = Pooled::new();
    let (file, index) = (pooled.bed.path("pool"), pooled.bed.path("pool.index"));
    let found = fs::metadata(&file).unwrap();
    assert_eq!(found.len(), 256 * MIB);
    assert!(found.blocks() * 512 < MIB, "it is sparse");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o777, 0o700);
    // Neither a pool nor another file is overwritten.
    let before = fs::read(&file).unwrap();
    for _ in 0..2 {
        pooled
            .run(&["pool", "init", "pool", "--size", "512M"])
            .expect(1)
            .says(&["pool", "exists already", "another file"]);
    }
    assert!(fs::read(&file).unwrap() == before);
    // The index exists: the new file is removed, an empty one is empty again.
    fs::create_dir(pooled.bed.path("other.index")).unwrap();
    let init = ["pool", "init", "other", "--size", "64M"];
    pooled
        .run(&init)
        .expect(1)
        .says(&["other.index", "does not exist"]);
    assert!(!pooled.bed.path("other").exists());
    fs::write(pooled.bed.path("other"), b"").unwrap();
    pooled.run(&init).expect(1);
    assert_eq!(fs::metadata(pooled.bed.path("other")).unwrap().len(), 0);
    assert!(pooled.bed.path("other.index").exists());
    // A pipe is left alone: to open it would wait for ever.
    let made = Command::new("mkfifo").arg(pooled.bed.path("pipe")).status();
    assert!(made.unwrap().success());
    let init = ["pool", "init", "pipe", "--size", "64M"];
    pooled.run(&init).expect(1).says(&["pipe"]);
    // The pool is too small: file and index are removed.
    pooled
        .run(&["pool", "init", "tiny", "--size", "1M"])
        .expect(1)
        .says(&["tiny"]);
    assert!(!pooled.bed.path("tiny").exists() && !pooled.bed.path("tiny.index").exists());
}

#[test]
fn an_index_elsewhere_is_found_from_anywhere() {
    let pooled = Pooled::new();
    let made = last(&pooled.ok(&[
        "pool",
        "init",
        "away",
        "--size",
        "64M",
        "--index",
        "elsewhere",
        "--json",
    ]));
    let index = pooled.bed.path("elsewhere").display().to_string();
    assert_eq!(made["message_type"], "pool_made", "{made}");
    assert_eq!(
        (&made["index"], number(&made, "pool_bytes")),
        (&index.into(), 64 * MIB)
    );
    let mut command = pooled.command(&["pool", "stats"]);
    command.arg(pooled.bed.path("away")).current_dir("/");
    let stats = command.output().unwrap();
    assert!(stats.status.success());
    // A file and its index move together, and a link leads to both.
    fs::create_dir(pooled.bed.path("dir")).unwrap();
    for name in ["pool", "pool.index"] {
        fs::rename(pooled.bed.path(name), pooled.bed.path("dir").join(name)).unwrap();
    }
    pooled.ok(&["pool", "stats", "dir/pool"]);
    std::os::unix::fs::symlink("dir/pool", pooled.bed.path("pool")).unwrap();
    pooled.ok(&["pool", "stats", "pool"]);
}

#[test]
fn volumes_are_made_listed_changed_and_removed() {
    let pooled = Pooled::new();
    let made = last(&pooled.ok(&[
        "volume",
        "create",
        "pool",
        "web",
        "64MiB",
        "--deduplicate",
        "off",
        "--compare-bytes",
        "on",
        "--interval",
        "90s",
        "--quiet-intervals",
        "3",
        "--finder-limit",
        "100MiB",
        "--json",
    ]));
    assert_eq!(made["message_type"], "volume", "{made}");
    let settings = &made["settings"];
    assert_eq!(settings["deduplicate"], false, "{made}");
    assert_eq!(settings["compare_bytes"], true, "{made}");
    assert_eq!(number(settings, "interval_s"), 90);
    assert_eq!(number(settings, "quiet_intervals"), 3);
    assert_eq!(number(settings, "finder_limit_bytes_per_s"), 100 * MIB);
    let said = pooled.ok(&["volume", "create", "pool", "db", "100001"]).out();
    assert!(
        said.contains("the volume db") && said.contains("every 5 min"),
        "{said}"
    );
    let listed = lines(&pooled.ok(&["volume", "list", "pool", "--json"]).out);
    let rows: Vec<_> = listed
        .iter()
        .map(|line| (line["name"].as_str().unwrap(), number(line, "logical_bytes")))
        .collect();
    assert_eq!(rows, [("db", 25 * 4096), ("web", 64 * MIB)]);
    let text = pooled.ok(&["volume", "list", "pool"]).out();
    for word in [
        "volume",
        "size",
        "data",
        "backlog",
        "64.0 MiB",
        "shared: 0 B of 0 B",
    ] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    // One setting changes, and the others stay.
    let set = ["volume", "set", "pool", "web", "--interval", "5m", "--json"];
    let set = last(&pooled.ok(&set));
    assert_eq!(number(&set["settings"], "interval_s"), 300);
    assert_eq!(number(&set["settings"], "quiet_intervals"), 3);
    // Growing is harmless, shrinking is not.
    pooled.ok(&["volume", "resize", "pool", "db", "2M"]);
    pooled
        .run(&["volume", "resize", "pool", "db", "1M"])
        .expect(1)
        .says(&["\"db\"", "lost", "--force"]);
    let resized = last(&pooled.ok(&["volume", "resize", "pool", "db", "1M", "--force", "--json"]));
    assert_eq!(number(&resized, "logical_bytes"), MIB);
    // It holds no data.
    let removed = last(&pooled.ok(&["volume", "remove", "pool", "db", "--json"]));
    assert_eq!(
        (&removed["message_type"], number(&removed, "mapped_bytes")),
        (&"volume_removed".into(), 0)
    );
    assert_eq!(
        lines(&pooled.ok(&["volume", "list", "pool", "--json"]).out).len(),
        1
    );
    pooled.assert_sound();
}

#[test]
fn errors_say_what_where_and_what_to_do_next() {
    let pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "web", "1M"]);
    let none: [(&[&str], &[&str]); 4] = [
        (
            &["pool", "stats", "nowhere"],
            &["nowhere", "no pool", "onefold pool init"],
        ),
        (&["volume", "list", "nowhere"], &["nowhere", "no pool"]),
        (
            &["pool", "check", "plain"],
            &["plain", "not a pool", "onefold pool init"],
        ),
        (
            &["volume", "serve", "plain", "--listen", "unix:s"],
            &["plain", "not a pool"],
        ),
    ];
    fs::write(pooled.bed.path("plain"), vec![7; 1 << 20]).unwrap();
    for (args, words) in none {
        pooled.run(args).expect(10).says(words);
    }
    let failing: [(&[&str], &[&str]); 8] = [
        (
            &["volume", "create", "pool", "web", "1M"],
            &["\"web\"", "exists already"],
        ),
        (
            &["volume", "create", "pool", "a/b", "1M"],
            &["name of a volume", "slash"],
        ),
        (
            &["volume", "create", "pool", "x", "0"],
            &["size of a volume", "4 KiB"],
        ),
        (&["volume", "resize", "pool", "x", "1M"], &["no volume \"x\""]),
        (&["volume", "remove", "pool", "x"], &["no volume \"x\""]),
        (&["volume", "drain", "pool", "x"], &["no volume \"x\""]),
        (
            &["volume", "set", "pool", "x", "--interval", "1m"],
            &["no volume \"x\""],
        ),
        (
            &["pool", "grow", "pool", "64M"],
            &["size of the pool", "only grow"],
        ),
    ];
    for (args, words) in failing {
        pooled.run(args).expect(1).says(words);
    }
    pooled.ok(&["volume", "set", "pool", "web", "--deduplicate", "off"]);
    pooled
        .run(&["volume", "drain", "pool", "web"])
        .expect(1)
        .says(&["\"web\" shares no blocks", "--deduplicate on"]);
    let not_understood: [(&[&str], &str); 7] = [
        (&["volume", "set", "pool", "web"], "--deduplicate"),
        (&["volume", "set", "pool", "web", "--interval", "5"], "as in 5m"),
        (&["volume", "create", "pool", "x", "1GB"], "as in 16G or 16GiB"),
        (&["volume", "serve", "pool"], "--listen"),
        (
            &["volume", "serve", "pool", "--listen", "udp:x"],
            "tcp:HOST[:PORT]",
        ),
        (
            &["pool", "stats", "pool", "--json", "--prometheus"],
            "cannot be used with",
        ),
        (
            &["pool", "stats", "pool", "--repo", "x"],
            "concerns a store, and none is opened here",
        ),
    ];
    for (args, word) in not_understood {
        pooled.run(args).expect(2).says(&[word]);
    }
    let help = pooled.ok(&["pool", "init", "--help"]).out();
    assert!(help.contains("--size") && !help.contains("--repo"), "{help}");
    let json = pooled.run(&["pool", "stats", "nowhere", "--json"]).expect(10);
    let told = lines(&json.err);
    assert_eq!(
        (&told[0]["message_type"], number(&told[0], "code")),
        (&"exit_error".into(), 10)
    );
}

#[test]
fn a_pool_grows_and_its_figures_add_up() {
    let pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a \"quoted\" \\ name", "1T"]);
    let grown = last(&pooled.ok(&["pool", "grow", "pool", "512MiB", "--json"]));
    assert_eq!(
        (number(&grown, "before_bytes"), number(&grown, "pool_bytes")),
        (256 * MIB, 512 * MIB)
    );
    let stats = pooled.stats();
    assert_eq!(stats["message_type"], "pool");
    assert_eq!(number(&stats, "pool_bytes"), 512 * MIB);
    assert_eq!(number(&stats, "logical_bytes"), 1 << 40);
    let sum = ["unique_bytes", "other_bytes", "free_bytes"].map(|field| number(&stats, field));
    assert_eq!(sum.iter().sum::<u64>(), 512 * MIB, "{stats}");
    assert!(number(&stats, "index_bytes") > 0, "{stats}");
    let text = pooled.ok(&["pool", "stats", "pool"]).out();
    for words in [
        "1 volume of 1.00 TiB",
        "pool of 512 MiB",
        "free",
        "shared: equal blocks",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let exposed = pooled.ok(&["pool", "stats", "pool", "--prometheus"]).out();
    for line in exposed.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(
            name.starts_with("onefold_") && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    for line in [
        "onefold_pool_bytes 536870912",
        "# TYPE onefold_pool_shared_bytes gauge",
        "onefold_volume_logical_bytes{volume=\"a \\\"quoted\\\" \\\\ name\"} 1099511627776",
        "# TYPE onefold_volume_request_seconds summary",
    ] {
        assert!(exposed.lines().any(|found| found == line), "{line} in {exposed}");
    }
    let heads: Vec<_> = exposed
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .collect();
    let unique: std::collections::BTreeSet<_> = heads.iter().collect();
    assert_eq!(heads.len(), unique.len(), "a metric has one head");
}

//! The settings of series, and their effect on backups.

use std::fs;

use serde_json::json;

use crate::bed::{Bed, last, lines, noise, settle};

#[test]
fn a_series_is_set_shown_and_listed() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(3 << 20, 1)).unwrap();
    settle();
    let summary = last(&bed.ok(["backup", "src", "--host", "h", "--json"]));
    assert_eq!(summary["layout"], "inline");
    let shown = last(&bed.ok(["series", "show", "--path", "src", "--host", "h", "--json"]));
    let id = shown["id"].as_str().unwrap().to_owned();
    let path = bed.path("src").display().to_string();
    assert_eq!(
        shown,
        json!({
            "message_type": "series", "id": id, "hostname": "h", "paths": [path], "backups": 1,
            "layout": "inline", "live_window": null, "archival_window": null, "segment_bytes": null, "optimize_after_backup": null, "repair_percent": 0,
            "set": "nothing",
        })
    );

    let set = [
        "series",
        "set",
        &id[..6],
        "--layout",
        "hybrid",
        "--segment",
        "64KiB",
        "--json",
    ];
    let told = last(&bed.ok(set));
    assert_eq!(told["layout"], "hybrid");
    assert_eq!(
        (&told["live_window"], &told["segment_bytes"]),
        (&json!(1), &json!(65536))
    );
    assert_eq!(told["set"], "series");
    bed.ok(["series", "set", "--default", "--layout", "hybrid", "--live", "5"]);
    bed.ok([
        "series",
        "set",
        "--stdin-filename",
        "dump",
        "--host",
        "h",
        "--live",
        "7",
    ]);
    let listed = lines(&bed.ok(["series", "list", "--json"]).out);
    let seen: Vec<_> = listed
        .iter()
        .map(|it| {
            json!([
                it["message_type"],
                it["paths"],
                it["backups"],
                it["live_window"],
                it["set"]
            ])
        })
        .collect();
    assert_eq!(
        seen,
        [
            json!(["series", [path], 1, 1, "series"]),
            json!(["series", ["dump"], 0, 7, "series"]),
            json!(["series_default", null, null, 5, "default"]),
        ]
    );
    let text = bed.ok(["series", "list"]).out();
    assert!(
        text.contains("hybrid, 7 live, 4.00 MiB") && text.contains("h: dump"),
        "{text}"
    );

    // All files are read again: no segment of the inline backup before has this length. Of the
    // metadata, one or two chunks may be the same.
    fs::write(bed.path("src/small"), noise(1000, 2)).unwrap();
    let backup = ["backup", "src", "--host", "h", "--force", "--json"];
    let summary = last(&bed.ok(backup));
    assert_eq!(summary["layout"], "hybrid");
    let counted = |name: &str| summary[name].as_u64().unwrap();
    assert!(counted("chunks_new") + 2 >= counted("chunks"), "{summary}");
    let (asked, segments) = (&summary["lookups"]["asked"], &summary["segments"]);
    assert!(
        asked.as_u64() <= segments.as_u64() && segments.as_u64() > Some(20),
        "{summary}"
    );
    let summary = last(&bed.ok(backup));
    // The listing has the folders above, where other tests make entries.
    assert!(summary["chunks_new"].as_u64() <= Some(2), "{summary}");
    bed.ok(["restore", "latest", "-t", "out"]);
    let restored = fs::read(bed.restored("out", "src/file")).unwrap();
    assert!(restored == noise(3 << 20, 1));
    bed.assert_sound();
    let told = bed.fed(
        [
            "backup",
            "--stdin",
            "--stdin-filename",
            "dump",
            "--host",
            "h",
            "--json",
        ],
        b"x",
    );
    assert_eq!(last(&told.expect(0))["layout"], "hybrid");
    let shown = last(&bed.ok([
        "series",
        "show",
        "--stdin-filename",
        "dump",
        "--host",
        "h",
        "--json",
    ]));
    assert_eq!(shown["backups"], 1);

    bed.ok(["series", "set", &id, "--layout", "inline"]);
    let text = bed.ok(["series", "show", &id]).out();
    assert!(text.contains("layout   inline") && text.contains(&id), "{text}");
}

#[test]
fn a_store_may_begin_with_a_layout() {
    let bed = Bed::bare();
    bed.ok([
        "init",
        "--layout",
        "hybrid",
        "--live",
        "2",
        "--archival",
        "5",
        "--segment",
        "1M",
    ]);
    let shown = last(&bed.ok(["series", "show", "--default", "--json"]));
    assert_eq!(
        shown,
        json!({
            "message_type": "series_default", "id": null, "hostname": null, "paths": null, "backups": null,
            "layout": "hybrid", "live_window": 2, "archival_window": 5, "segment_bytes": 1 << 20, "optimize_after_backup": false, "repair_percent": 0,
            "set": "default",
        })
    );
    let text = bed.ok(["series", "list"]).out();
    assert!(text.contains("hybrid, 2 live, 5 archival, 1.00 MiB"), "{text}");
    fs::write(bed.path("file"), "eins").unwrap();
    assert_eq!(last(&bed.ok(["backup", "file", "--json"]))["layout"], "hybrid");
    let set = ["series", "set", "--default", "--archival", "all", "--json"];
    assert_eq!(last(&bed.ok(set))["archival_window"], json!(null));
}

#[test]
fn series_options_without_effect_are_refused() {
    let bed = Bed::bare();
    for args in [
        ["init", "--live", "2"].as_slice(),
        &["init", "--layout", "inline", "--segment", "1M"],
        &["init", "--layout", "hybrid", "--segment", "3M"],
        &["init", "--layout", "hybrid", "--live", "0"],
        &["init", "--archival", "2"],
        &["init", "--layout", "hybrid", "--archival", "0"],
        &["init", "--layout", "hybrid", "--archival", "65536"],
        &["init", "--optimize-after-backup", "yes"],
        &["init", "--repair", "70000"],
    ] {
        bed.run(args).expect(2);
    }
    // With chunks of 64 KiB, such a segment would have one chunk.
    bed.run([
        "init",
        "--chunk-kib",
        "64",
        "--layout",
        "hybrid",
        "--segment",
        "64K",
    ])
    .expect(1)
    .says(&["a segment cannot have 65536 bytes", "from 262144 to"]);
    assert!(!bed.store().join("config").exists());
    bed.ok(["init"]);
    fs::write(bed.path("file"), "eins").unwrap();
    for args in [
        ["series", "set", "--default"].as_slice(),
        &["series", "set", "--layout", "hybrid"],
        &[
            "series",
            "set",
            "--default",
            "--path",
            "file",
            "--layout",
            "hybrid",
        ],
        &["series", "set", "--default", "--host", "h", "--layout", "hybrid"],
        &["series", "show"],
    ] {
        bed.run(args).expect(2);
    }
    bed.run(["series", "set", "--path", "file", "--live", "2"])
        .expect(1)
        .says(&["a live window says nothing for layout inline"]);
    bed.run(["series", "set", "--path", "file", "--archival", "all"])
        .expect(1)
        .says(&["an archival window says nothing for layout inline; set layout hybrid, too"]);
    bed.run(["series", "show", "0123"])
        .expect(1)
        .says(&["no series has an id that begins with 0123"]);
    bed.ok(["series", "set", "--path", "file", "--layout", "hybrid"]);
    bed.ok(["series", "set", "--path", "other", "--layout", "hybrid"]);
    bed.run(["series", "show", ""])
        .expect(1)
        .says(&["the ids of 2 series begin"]);
    bed.run(["backup", "file", "--cap", "3"])
        .expect(1)
        .says(&["hybrid", "nothing to cap"]);
    bed.run(["backup", "file", "--cap-remember", "3"]).expect(1);
    bed.ok(["backup", "file"]);
    bed.ok(["backup", "file", "--cap", "none"]);
}

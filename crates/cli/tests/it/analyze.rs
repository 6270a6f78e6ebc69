//! `onefold analyze`: settings tried on real files.

use std::fs;

use crate::bed::{Bed, lines};

#[test]
fn settings_are_tried_on_real_files_and_recommended() {
    let bed = Bed::bare();
    fs::create_dir(bed.path("data")).unwrap();
    let mut noise = crate::bed::noise(600_000, 7);
    fs::write(bed.path("data/a"), &noise).unwrap();
    noise[300_000..300_100].fill(7);
    fs::write(bed.path("later"), &noise).unwrap();
    // The output is in the folder that is read, and is not read itself.
    let analyze = [
        "analyze",
        "data",
        "later",
        "--output",
        "data/report.html",
        "--json",
    ];
    let told = lines(&bed.ok(analyze).out);
    let last = told.last().unwrap();
    assert_eq!(
        (&last["message_type"], &last["bytes"], &last["chunk_bytes"]),
        (&"analyzed".into(), &1_200_000.into(), &8192.into())
    );
    let caps: Vec<&str> = told.iter().map(|line| line["cap"].as_str().unwrap()).collect();
    let sizes = ["none"; 5];
    let capped = ["least:32K", "least:56K", "least:96K", "20", "10"];
    assert_eq!(
        (&caps[..5], &caps[5..10], caps.len()),
        (&sizes[..], &capped[..], 11),
        "sizes, caps, and what follows"
    );
    for line in &told[..10] {
        let speeds = line["speeds"].as_array().unwrap();
        let memories: Vec<u64> = speeds
            .iter()
            .map(|one| one["memory_bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(memories, [32, 96, 256, 1024].map(|mib| mib << 20));
    }
    let html = fs::read_to_string(bed.path("data/report.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    let cap = format!("<code>backup --cap {}</code>", caps[10]);
    assert!(html.contains(&cap), "{cap}");
    bed.run(analyze).expect(1).says(&["report.html", "File exists"]);
    bed.run(["analyze", "gone", "--output", "r"])
        .expect(1)
        .says(&["gone: No such file"]);
    assert!(!bed.path("r").exists(), "half a report is none");
}

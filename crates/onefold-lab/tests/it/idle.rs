//! The laboratory refuses options that could have no effect, and ignores the environment variables
//! of stores.

use std::fs;

use crate::bed::{Bed, Ran, lines, noise};

#[test]
fn there_are_no_options_of_stores() {
    let bed = Bed::new();
    fs::write(bed.path("data"), noise(100_000, 1)).unwrap();
    bed.run(["--repo", "store", "trace", "data", "--output", "out"])
        .expect(2)
        .says(&["unexpected argument '--repo'"]);
    assert!(!bed.path("out").exists());
    let help = bed.ok(["simulate", "--help"]).out();
    assert!(help.contains("--json") && !help.contains("--password"), "{help}");
}

#[test]
fn the_laboratory_ignores_environment_variables_of_stores() {
    let bed = Bed::new();
    bed.ok([
        "generate",
        "2year",
        "--size",
        "40M",
        "--weeks",
        "1",
        "--chunk-bytes",
        "256",
        "--trace",
        "t",
    ]);
    let simulate = |more: &[&str], mib: &str| {
        let mut command = bed.command(["simulate", "t", "--json", "--engine"]);
        command.args(more);
        command
            .env("ONEFOLD_PASSWORD", "secret")
            .env("ONEFOLD_INDEX_MEMORY_MIB", "1");
        command
            .env("ONEFOLD_PASSWORD_FILE", "gone")
            .env("ONEFOLD_INDEX_MIB", mib);
        let ran = Ran::from(command.output().unwrap()).expect(0);
        let told = lines(&ran.out);
        let mut periods = told
            .iter()
            .rev()
            .map(|line| line["looked"]["index_period"].as_u64());
        periods
            .find_map(|period| period)
            .expect("the engine's index was simulated")
    };
    assert_eq!(simulate(&[], "1"), 1);
    assert_eq!(simulate(&[], "65537"), 1, "a store's may be larger");
    assert!(
        simulate(&["--index-mib", "1"], "256") > 1,
        "its own option counts"
    );
}

#[test]
fn a_simulated_index_has_bounds() {
    let bed = Bed::new();
    fs::write(bed.path("data"), noise(100_000, 1)).unwrap();
    bed.ok(["trace", "data", "--output", "t"]);
    for (mib, code) in [("0", 2), ("1", 0), ("65536", 0), ("65537", 2)] {
        let ran = bed
            .run(["simulate", "t", "--engine", "--index-mib", mib])
            .expect(code);
        if code == 2 {
            ran.says(&["--index-mib", mib, "is not in"]);
        }
    }
}

#[test]
fn how_a_cap_counts_is_refused_where_there_is_none() {
    let bed = Bed::new();
    fs::write(bed.path("data"), noise(100_000, 1)).unwrap();
    bed.ok(["trace", "data", "--output", "t"]);
    let simulate = |more: &[&'static str]| bed.run([&["simulate", "t", "--engine"][..], more].concat());
    let words = "says how a cap counts, and there is none";
    let refused: [&[&str]; 3] = [
        &["--cap-remember", "2"],
        &["--cap-remember", "2", "--cap", "none"],
        &["--cap-window", "20000000"],
    ];
    for more in refused {
        simulate(more).expect(2).says(&[more[0], words]);
    }
    simulate(&["--cap", "5", "--cap-remember", "2", "--cap-window", "1M"]).expect(0);
}

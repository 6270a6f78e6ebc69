//! The simulator: sources of traces, and the table over time.

use std::fs;

use crate::bed::{Bed, Ran, lines};
use crate::lab::generate;

#[test]
fn a_trace_passes_through_a_pipe() {
    let bed = Bed::new();
    bed.ok(generate("1M", "2", &["--trace", "t"]));
    // Standard output carries only the trace, under any name and for any kind of file.
    let piped = bed.ok(generate("1M", "2", &["--trace", "-"]));
    assert!(piped.out == fs::read(bed.path("t")).unwrap());
    for name in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let again = bed.ok(generate("1M", "2", &["--trace", name]));
        assert!(again.out == piped.out, "{name}");
        let mut to_file = bed.command(generate("1M", "2", &["--trace", name]));
        let file = fs::File::create(bed.path("redirected")).unwrap();
        assert!(to_file.stdout(file).status().unwrap().success());
        assert!(fs::read(bed.path("redirected")).unwrap() == piped.out, "{name}");
        bed.run(generate("1M", "2", &["--trace", name, "--json"]))
            .expect(1)
            .says(&["would mix on standard output", "--json"]);
    }
    let simulated = |ran: Ran| ran.expect(0).out();
    let from_file = simulated(bed.run(["simulate", "t"]));
    for name in ["-", "/dev/stdin"] {
        assert_eq!(simulated(bed.fed(["simulate", name], &piped.out)), from_file);
    }
    bed.fed(["simulate", "-", "t", "-"], &piped.out)
        .expect(1)
        .says(&["name it only once"]);
    bed.fed(["simulate", "-"], &piped.out[..100])
        .expect(1)
        .says(&["standard input", "ends too early"]);
    // A failed command keeps the pipe. The reader reports the truncated trace.
    let script =
        "mkfifo pipe && { cat pipe >half & }; \"$0\" trace a gone --output pipe; code=$?; wait; exit $code";
    fs::write(bed.path("a"), [7; 10_000]).unwrap();
    let traced = bed.ok(["trace", "a", "--output", "-"]);
    bed.ok(["trace", "a", "--output", "u"]);
    assert!(traced.out == fs::read(bed.path("u")).unwrap());
    // The trace is written into the folder that it describes: it is left out.
    fs::create_dir(bed.path("folder")).unwrap();
    fs::write(bed.path("folder/a"), [7; 10_000]).unwrap();
    let mut into = bed.command(["trace", "folder", "--output", "-"]);
    let file = fs::File::create(bed.path("folder/trace")).unwrap();
    assert!(into.stdout(file).status().unwrap().success());
    let backup = &lines(&bed.ok(["simulate", "folder/trace", "--json"]).out)[0];
    assert_eq!(backup["bytes"], 10_000);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_onefold-lab")]);
    let ran = Ran::from(shell.current_dir(bed.path("")).output().unwrap());
    ran.expect(1).says(&["gone: No such file"]);
    assert!(bed.path("pipe").exists());
    bed.run(["simulate", "half"])
        .expect(1)
        .says(&["half", "ends too early"]);
}

#[test]
fn the_course_over_time_is_shown_in_steps() {
    let bed = Bed::new();
    bed.ok(generate("1M", "5", &["--trace", "t"]));
    let simulate = [
        "simulate",
        "t",
        "--memory",
        "4M,8M,4M",
        "--assembly",
        "rolling,lru",
        "--skip",
        "4",
    ];
    let mut backups = lines(&bed.ok(simulate.iter().chain(&["--json"])).out);
    let averages = backups.pop().unwrap();
    assert_eq!(
        averages["speeds"].as_array().unwrap().len(),
        4,
        "4M is named twice: {averages}"
    );
    let text = bed.ok(simulate).out();
    let at = text.find("over time").expect(&text);
    let table: Vec<&str> = text[at..].lines().collect();
    assert!(table[0].contains("each MiB with rolling:"), "{text}");
    assert_eq!(
        table[1].split_whitespace().collect::<Vec<_>>().join(" "),
        "backups 1 : 4.00 MiB 8.00 MiB"
    );
    // 21 backups in steps of two, the last of one.
    assert_eq!(table.len(), 2 + 11, "{text}");
    let figures = |n: usize| -> Vec<f64> {
        let backup = &backups[n - 1];
        let read = [0, 2].map(|memory| {
            let speed = backup["restored"][memory]["speed_factor"].as_f64();
            1.0 / speed.unwrap()
        });
        [&[backup["deduplication_factor"].as_f64().unwrap()][..], &read].concat()
    };
    for (line, (first, last)) in [(2, (5, 6)), (7, (15, 16)), (12, (25, 25))] {
        let words: Vec<&str> = table[line].split_whitespace().collect();
        let name = if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        };
        assert_eq!(words[0], name, "{text}");
        for (n, word) in words[1..].iter().enumerate() {
            let (shown, is): (f64, f64) = (
                word.parse().unwrap(),
                (figures(first)[n] + figures(last)[n]) / 2.0,
            );
            assert!((shown - is).abs() < 0.006, "{shown} and {is}: {text}");
        }
    }
    // If nothing was restored, nothing is printed about restores.
    let skipped = bed.ok(["simulate", "t", "--skip", "25"]).out();
    assert!(
        skipped.contains("backups") && !skipped.contains("over time"),
        "{skipped}"
    );
}

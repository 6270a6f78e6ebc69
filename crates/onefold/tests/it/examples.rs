//! The examples run, and what they assert holds.

#[path = "../../examples/backup_and_restore.rs"]
mod backup_and_restore;
#[path = "../../examples/progress.rs"]
mod progress;
#[path = "../../examples/prune.rs"]
mod prune;
#[path = "../../examples/read_range.rs"]
mod read_range;
#[path = "../../examples/snapshots.rs"]
mod snapshots;
#[path = "../../examples/stream.rs"]
mod stream;

#[test]
fn each_example_runs() {
    for (name, example) in [
        ("backup_and_restore", backup_and_restore::main as fn() -> _),
        ("progress", progress::main),
        ("prune", prune::main),
        ("read_range", read_range::main),
        ("snapshots", snapshots::main),
        ("stream", stream::main),
    ] {
        let done: Result<(), Box<dyn std::error::Error>> = example();
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

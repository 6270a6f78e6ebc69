//! How often a client waits for its server (B1, B6): each time costs the network's delay.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::Listings;
use onefold::{BackupOptions, BackupReport, Clock, Monitor, SystemClock, TreeOptions, operations};

use crate::bed::{noise, settle};
use crate::cuts::Wire;

/// Backs up the tree. Returns how often the client has spoken after the server had, the greeting
/// not counted.
fn turns(wire: &Wire) -> (u64, BackupReport) {
    let tree = wire.path("tree");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let listings = Listings::of(&wire.path("cache"), &clock).unwrap();
    let repository = wire.repository().keeping(listings);
    wire.relay.turns.store(0, Ordering::SeqCst);
    let made = operations::back_up_tree(
        &repository,
        &BackupOptions::default().host("h"),
        &TreeOptions::default().paths(vec![tree]),
        &Monitor::default(),
        &mut |fault| panic!("{fault}"),
    );
    (wire.relay.turns.load(Ordering::SeqCst), made.unwrap())
}

/// The client begins, offers, commits and leaves: it asks for nothing else, however large the tree.
#[test]
fn an_unchanged_tree_needs_few_round_trips() {
    let wire = Wire::new();
    let tree = wire.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..300 {
        fs::write(tree.join(number.to_string()), noise(100_000, number)).unwrap();
    }
    settle();
    turns(&wire);
    // Messages of both sides may cross, and then count as more turns: the least of three runs
    // counts.
    let (unchanged, made) = (0..3)
        .map(|_| turns(&wire))
        .min_by_key(|(turns, _)| *turns)
        .unwrap();
    assert_eq!(made.totals.bytes_read, 0, "{made:?}");
    assert!(unchanged <= 4, "{unchanged} turns");
    fs::write(tree.join("150"), noise(100_001, 1000)).unwrap();
    settle();
    let (changed, _) = turns(&wire);
    assert!(changed <= 8, "{changed} turns");
}

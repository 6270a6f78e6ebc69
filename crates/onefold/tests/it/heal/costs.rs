//! The reads and the memory of healing.

use std::collections::BTreeMap;

use onefold::{Credential, Monitor, OpenOptions, ReadData, Store};

use crate::common::storage::Asked;
use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};

use super::{damage_lists, data, rot};

/// Backs up with this much memory for healing after each data container got a bad byte. Returns how
/// often healing read each region, most often first. A bad region is read once more each time.
fn heal_all(seed: u64, memory_bytes: u64) -> Vec<usize> {
    let process = Process::new(seed);
    let bytes = noise(seed, 400 << 10);
    let first = back_up_bytes(&process.init(), "/a", &bytes, &How::plain()).unwrap();
    let damaged = data(&process);
    assert!(damaged.len() > 8, "{damaged:?}");
    damaged.iter().for_each(|name| rot(&process, name));
    let checking = process.beside(seed + 1).open();
    checking.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert_eq!(damage_lists(&process).len(), damaged.len());

    let healing = process.beside(seed + 2);
    let options = OpenOptions::default().node_cache_bytes(memory_bytes);
    let store = Store::open(&healing.env, &Credential::None, &options).unwrap();
    drop(healing.watched.take_requests());
    let second = back_up_bytes(&store, "/b", &bytes, &How::plain()).unwrap();
    assert_eq!(second.healed.len(), damaged.len());
    assert!(second.healed.iter().all(|healed| healed.left == 0));
    assert_eq!(damage_lists(&process), Vec::<String>::new());
    let mut times: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for request in healing.watched.take_requests() {
        if let Asked::Range(range) = request.asked
            && damaged.contains(&request.name)
        {
            *times.entry((request.name, range.offset)).or_default() += 1;
        }
    }
    for (id, name) in [(first.id, "/a"), (second.id, "/b")] {
        assert_restores_bytes(&checking, &snapshot(&checking, id), name, &bytes, "healed");
    }
    assert_sound(&checking, "healed");
    let mut times: Vec<usize> = times.into_values().collect();
    times.sort_unstable_by_key(|times| std::cmp::Reverse(*times));
    times
}

#[test]
fn healing_reads_a_damaged_container_twice() {
    let times = heal_all(681, 16 << 20);
    assert!(times.len() > 8 && times[0] == 2, "{times:?}");
}

/// The containers do not fit into memory together.
#[test]
fn little_memory_heals_all_the_same() {
    let times = heal_all(691, 1);
    assert!(times[0] == 4, "{times:?}");
}

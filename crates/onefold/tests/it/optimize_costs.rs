//! The requests of making backups archival, counted. They follow the number of due backups and the
//! number of backups, not their product (R3).

use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot,
};
use onefold::{Credential, Monitor, OpenOptions, OptimizeRequest, SessionId, Store};

/// A store with so many due backups, each with some data of its own, and so many series with one
/// backup.
struct Grown {
    machine: Process,
    made: Vec<(String, SessionId, Vec<u8>)>,
}

impl Grown {
    fn new(count: u64) -> Self {
        let machine = Process::new(1);
        machine.init();
        let mut grown = Self {
            machine,
            made: Vec::new(),
        };
        for n in 0..=count {
            let parts = [n, 500, n + 1, 501].map(|part| noise(part, 24 << 10));
            grown.back_up("/image", parts.concat());
        }
        for n in 0..count {
            grown.back_up(&format!("/other-{n}"), noise(1000 + n, 64 << 10));
        }
        grown
    }

    fn back_up(&mut self, name: &str, bytes: Vec<u8>) {
        let made = back_up_bytes(&self.machine.open(), name, &bytes, &How::plain()).unwrap();
        self.made.push((name.to_owned(), made.id, bytes));
    }

    /// How many nodes a process without a node cache reads when so many backups become archival.
    fn reads(&self, count: usize) -> usize {
        let process = self.machine.beside(2);
        let options = OpenOptions::default().node_cache_bytes(0);
        let store = Store::open(&process.env, &Credential::None, &options).unwrap();
        drop(process.watched.take_requests());
        let request = OptimizeRequest::default().live(Some(1));
        let report = store.optimize(&request, &Monitor::default()).unwrap();
        let done = report.backups.iter().filter(|(_, done)| done.bytes_archived > 0);
        assert_eq!(done.count(), count, "{report:?}");
        let requests = process.watched.take_requests().into_iter();
        let of_nodes = requests.filter(|request| request.is_in("recipe") || request.is_in("small"));
        let reads = of_nodes
            .filter(|request| matches!(request.asked, Asked::Range(_) | Asked::Whole))
            .count();
        for (name, id, bytes) in &self.made {
            let store = self.machine.open();
            assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, "archival");
        }
        assert_sound(&self.machine.open(), "archival");
        reads
    }
}

#[test]
fn nodes_are_read_for_each_backup_and_not_for_each_two() {
    let [few, more, most] = [4, 8, 16].map(|count| {
        let grown = Grown::new(count);
        grown.reads(usize::try_from(count).unwrap())
    });
    // Twice as many cost twice as much, and the additional cost is the same for each.
    let each = (more - few).div_ceil(4);
    assert!(most - more <= 8 * each + each, "{few}, {more}, {most} reads");
}

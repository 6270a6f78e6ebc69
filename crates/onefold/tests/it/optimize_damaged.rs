//! A slot of a later backup that `check` has listed as damaged never replaces an older backup's
//! copy, wherever the chain ends (R2).

use crate::common::archival::{hold, optimize};
use crate::common::pruning::{everything, forget, prune};
use crate::common::{How, Process, assert_restores_bytes, back_up_bytes, noise, snapshot};
use container::{CompressedRegion, ContainerBuilder, Containers};
use crypto::Credential;
use env::Storage;
use format::names;
use object::config;
use onefold::{Layout, Monitor, ReadData, SessionId, SettingsChange};

const NAME: &str = "/image";

/// A hybrid series whose backups have the same segments except their ends. The last one has the
/// same chunks in segments of its own, which it stores anew.
struct Hybrid {
    machine: Process,
    ids: Vec<SessionId>,
    contents: Vec<Vec<u8>>,
}

impl Hybrid {
    fn new(seed: u64, count: u64) -> Self {
        let machine = Process::new(seed);
        let hybrid = SettingsChange::default()
            .layout(Some(Layout::Hybrid))
            .segment_bytes(Some(64 << 10));
        machine.init().set_default_series_settings(&hybrid).unwrap();
        let common = noise(seed, 400 << 10);
        let mut contents: Vec<Vec<u8>> = (1..count)
            .map(|n| [common.clone(), noise(seed + n, 30 << 10)].concat())
            .collect();
        // Each segment gets some bytes of its own.
        let parts = common.chunks(40 << 10);
        let last = (0u64..)
            .zip(parts)
            .flat_map(|(n, part)| [part.to_vec(), noise(seed + 100 + n, 200)]);
        contents.push(last.collect::<Vec<_>>().concat());
        let how = How::plain();
        let back_up = |bytes: &Vec<u8>| back_up_bytes(&machine.open(), NAME, bytes, &how).unwrap().id;
        let ids = contents.iter().map(back_up).collect();
        Self {
            machine,
            ids,
            contents,
        }
    }

    /// Rots some bytes in each container of the last backup. No list names them.
    fn rot_last(&self) {
        let last = self.ids.last().unwrap();
        let of_last = format!("data/{:013}/", last.get());
        let mut spoilt = 0;
        for object in self.machine.storage.list("data").unwrap() {
            if object.name.as_str().starts_with(&of_last) {
                let spoil = |bytes: &mut Vec<u8>| bytes[100] ^= 1;
                assert!(self.machine.storage.damage(&object.name, spoil));
                spoilt += 1;
            }
        }
        assert!(spoilt > 5, "{spoilt} containers of backup {last}");
    }

    /// Rots some bytes in each container of the last backup. A check lists them.
    fn damage_last(&self) {
        self.rot_last();
        let everything = ReadData::Share(1.0);
        let found = self
            .machine
            .open()
            .check(everything, &Monitor::default())
            .unwrap();
        let last = self.ids.last().unwrap();
        assert!(found.damaged_backups.contains(last), "{found:?}");
    }

    /// Gives each container of the last backup another generation with zeros for all of its chunks,
    /// as healing does for chunks that it has not found. No list names them.
    fn zero_last(&self) {
        let machine = self.machine.beside(0xfd);
        let opened = config::open(&machine.env, Credential::NoPassword).unwrap();
        let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
        let of_last = format!("data/{:013}/", self.ids.last().unwrap().get());
        let mut zeroed = 0;
        for object in self.machine.storage.list("data").unwrap() {
            if !object.name.as_str().starts_with(&of_last) {
                continue;
            }
            let (id, generation) = names::parse_container(&object.name).unwrap();
            let view = containers.generation(id, generation).unwrap();
            let mut builder = ContainerBuilder::new(id, generation.next());
            for entry in view.entries() {
                let zeros = CompressedRegion::raw(vec![0; entry.len as usize]);
                builder.append_survivors(zeros, &[*entry]);
            }
            containers.put(&builder.seal(&containers).unwrap()).unwrap();
            assert!(self.machine.storage.lose(&object.name));
            zeroed += 1;
        }
        machine.storage.barrier().unwrap();
        assert!(zeroed > 5, "{zeroed} containers");
    }

    fn assert_restores(&self, place: usize, when: &str) {
        let store = self.machine.beside(0xfe).open();
        let found = snapshot(&store, self.ids[place]);
        assert_restores_bytes(&store, &found, NAME, &self.contents[place], when);
    }

    fn next(&self, place: usize) -> Option<SessionId> {
        snapshot(&self.machine.open(), self.ids[place]).backup.next
    }

    /// Makes all but the last backup archival, except held ones, and removes the unused data.
    fn settle(&self) {
        optimize(&self.machine.open(), 1);
        self.machine
            .open()
            .prune(&everything(), &Monitor::default())
            .unwrap();
    }
}

#[test]
fn a_hold_ends_and_the_next_backup_refers_forward_to_damaged_data() {
    let series = Hybrid::new(1, 3);
    let store = series.machine.open();
    hold(&store, series.ids[0], true);
    optimize(&store, 1);
    prune(&store, &everything(), "while it is held");
    assert_eq!(
        [0, 1].map(|place| series.next(place)),
        [None, Some(series.ids[2])]
    );
    series.damage_last();
    series.assert_restores(0, "held");
    hold(&series.machine.open(), series.ids[0], false);
    series.settle();
    assert_eq!(series.next(0), Some(series.ids[1]));
    series.assert_restores(0, "archival");
}

#[test]
fn the_next_backup_is_forgotten_and_the_one_after_it_refers_forward_to_damaged_data() {
    let series = Hybrid::new(2, 4);
    let store = series.machine.open();
    hold(&store, series.ids[1], true);
    optimize(&store, 1);
    prune(&store, &everything(), "all that are not held are archival");
    let nexts = [Some(series.ids[1]), None, Some(series.ids[3])];
    assert_eq!([0, 1, 2].map(|place| series.next(place)), nexts);
    series.damage_last();
    hold(&series.machine.open(), series.ids[1], false);
    forget(&series.machine.open(), series.ids[1]);
    series.assert_restores(0, "its next one is forgotten");
    series.settle();
    assert_eq!(series.next(0), Some(series.ids[2]));
    series.assert_restores(0, "onto the one that is left");
}

#[test]
fn zeros_that_healing_wrote_are_never_taken_for_the_chunk() {
    let series = Hybrid::new(3, 3);
    let store = series.machine.open();
    hold(&store, series.ids[0], true);
    optimize(&store, 1);
    prune(&store, &everything(), "while it is held");
    series.zero_last();
    series.assert_restores(0, "held");
    hold(&series.machine.open(), series.ids[0], false);
    series.settle();
    series.assert_restores(0, "archival");
}

/// Damage that nobody knew of: the older copy stays, and the next healing knows what to look for.
#[test]
fn damage_that_a_rewrite_meets_is_listed() {
    let series = Hybrid::new(1490, 2);
    series.rot_last();
    assert!(series.machine.names("damaged").is_empty());
    let report = optimize(&series.machine.open(), 1);
    assert!(!report.warnings.is_empty(), "{report:?}");
    assert!(!series.machine.names("damaged").is_empty());
    series
        .machine
        .open()
        .prune(&everything(), &Monitor::default())
        .unwrap();
    series.assert_restores(0, "the older backup");
}

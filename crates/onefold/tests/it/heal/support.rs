//! Containers whose generations a test makes, and the results of healing.

#![expect(unreachable_pub, reason = "of one test binary")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use container::{CatalogView, Compression, ContainerBuilder, Containers, compress_region};
use crypto::Credential;
use env::Storage;
use env::fault::{CrashPolicy, FaultStorage};
use format::container::CatalogEntry;
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerSlots, Damaged};
use object::{Sealer, config};
use onefold::{PruneReport, SessionId};
use types::{ContainerId, ContainerKind, Generation, ObjectName, Slot, SlotRange};

use crate::common::pruning::{everything, prune_after_crash};
use crate::common::{How, Process, assert_restores_bytes, back_up_bytes, noise, snapshot};

/// A store with one backup of a stream, and one of its data containers.
pub struct Ward {
    pub machine: Process,
    pub sealer: Sealer,
    pub containers: Containers,
    pub first: SessionId,
    pub bytes: Vec<u8>,
    pub id: ContainerId,
    /// Its first generation.
    pub view: CatalogView,
    /// The chunks of the container, in the order of its slots.
    pub chunks: Vec<Vec<u8>>,
}

impl Ward {
    pub fn new(seed: u64) -> Self {
        Self::of(seed, 200 << 10)
    }

    /// With so many bytes in its backup.
    pub fn of(seed: u64, len: usize) -> Self {
        let machine = Process::new(seed);
        let store = machine.init();
        let bytes = noise(seed, len);
        let first = back_up_bytes(&store, "/a", &bytes, &How::plain()).unwrap().id;
        let opened = config::open(&machine.env, Credential::NoPassword).unwrap();
        let sealer = opened.sealer(&machine.env);
        let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
        let name = ObjectName::new(machine.names("data")[1].clone()).unwrap();
        let (id, generation) = names::parse_container(&name).unwrap();
        let view = containers.generation(id, generation).unwrap();
        let entries = view.entries().iter();
        let chunks = entries.map(|entry| chunk_of(&containers, &view, entry)).collect();
        Self {
            machine,
            sealer,
            containers,
            first,
            bytes,
            id,
            view,
            chunks,
        }
    }

    pub fn slots(&self) -> Vec<Slot> {
        self.view.entries().iter().map(|entry| entry.slot).collect()
    }

    /// Where the chunk of a slot begins in the stream.
    pub fn offset(&self, at: usize) -> usize {
        let chunk = &self.chunks[at];
        let mut windows = self.bytes.windows(chunk.len());
        windows.position(|window| window == chunk).unwrap()
    }

    pub fn name(&self, generation: u32) -> ObjectName {
        names::container(self.id, Generation::new(generation).unwrap())
    }

    /// Puts a generation without some of the slots, each chunk in a region of its own.
    pub fn put_without(&self, generation: u32, lacking: &[Slot]) {
        let mut builder = ContainerBuilder::new(self.id, Generation::new(generation).unwrap());
        for (entry, chunk) in self.view.entries().iter().zip(&self.chunks) {
            if !lacking.contains(&entry.slot) {
                let region = compress_region(chunk.clone(), Compression::Off);
                builder.append_survivors(region, &[*entry]);
            }
        }
        self.containers
            .put(&builder.seal(&self.containers).unwrap())
            .unwrap();
        self.sealer.barrier().unwrap();
    }

    /// Puts a list of damage; `None`: of the container as a whole.
    pub fn list(&self, number: u32, slots: Option<&[Slot]>) {
        let ranges = slots.map(|slots| slots.iter().map(|slot| SlotRange::one(*slot)));
        let list = Damaged {
            slots: ContainerSlots {
                container: self.id,
                slots: ranges.map(|ranges| merged(ranges.collect())),
            },
        };
        let name = names::damaged(self.id, number);
        let put = self.sealer.put(&name, ObjectKind::Damaged, &list.to_bytes());
        put.unwrap();
        self.sealer.barrier().unwrap();
    }

    /// The slots that lists of damage name; `None`: one of them names the whole container.
    pub fn listed(&self) -> Option<BTreeSet<Slot>> {
        let mut out = BTreeSet::new();
        for ((id, number), _) in self
            .sealer
            .list(names::DAMAGED_FOLDER, names::parse_damaged)
            .unwrap()
        {
            assert_eq!(id, self.id);
            let name = names::damaged(id, number);
            let list = self
                .sealer
                .read(&name, ObjectKind::Damaged, Damaged::decode)
                .unwrap();
            out.extend(list.slots.slots?.iter().flat_map(|range| range.iter()));
        }
        Some(out)
    }

    pub fn prune(&self, seed: u64, when: &str) -> PruneReport {
        prune_after_crash(&self.machine.beside(seed).open(), &everything(), when)
    }

    /// The backup is whole, and no damage is listed.
    pub fn assert_whole(&self, seed: u64, when: &str) {
        let store = self.machine.beside(seed).open();
        let first = snapshot(&store, self.first);
        assert_restores_bytes(&store, &first, "/a", &self.bytes, when);
        assert_eq!(self.listed(), Some(BTreeSet::new()), "{when}");
        crate::common::assert_sound(&store, when);
    }
}

fn chunk_of(containers: &Containers, view: &CatalogView, entry: &CatalogEntry) -> Vec<u8> {
    let region = view.region_of(entry.slot).unwrap();
    let region = containers.read_region(view, region).unwrap();
    region.slot_bytes(view, entry.slot).unwrap().to_vec()
}

/// Ranges that do not touch.
fn merged(ranges: Vec<SlotRange>) -> Vec<SlotRange> {
    let mut out: Vec<SlotRange> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end() == range.first().get() => {
                *last = SlotRange::new(last.first(), last.count() + range.count()).unwrap();
            }
            _ => out.push(range),
        }
    }
    out
}

/// Removes objects durably. They can come back.
pub fn take(machine: &Process, names: &[ObjectName]) -> BTreeMap<ObjectName, Vec<u8>> {
    let taken = names.iter().map(|name| {
        let bytes = machine.storage.get(name).unwrap().to_vec();
        assert!(machine.storage.lose(name));
        (name.clone(), bytes)
    });
    taken.collect()
}

/// Puts objects back if their names are free.
pub fn bring_back(machine: &Process, taken: &BTreeMap<ObjectName, Vec<u8>>) {
    for (name, bytes) in taken {
        if machine.storage.head(name).is_err() {
            machine.storage.put(name, &[bytes]).unwrap();
        }
    }
    machine.storage.barrier().unwrap();
}

/// The objects with copies of catalogs.
pub fn catalog_copies(machine: &Process) -> Vec<ObjectName> {
    let folder = ContainerKind::Catalog.folder();
    let named = machine.names(folder).into_iter();
    named.map(|name| ObjectName::new(name).unwrap()).collect()
}

/// The states that a power cut leaves, and when it came.
pub type Images = Arc<Mutex<Vec<(FaultStorage, String)>>>;

/// Takes an image of the store before each operation that this process performs once its backup is
/// committed. Every backup performs the operations before that; other suites cut them.
pub fn crash_after_commit(dying: &Process) -> Images {
    let images = Images::default();
    let (machine, taken) = (dying.storage.clone(), Arc::clone(&images));
    let (mut count, mut is_committed) = (0_usize, false);
    dying.watched.set_before(move |asked, name| {
        is_committed |= name.starts_with(names::BACKUPS_FOLDER);
        if !is_committed {
            return;
        }
        count += 1;
        // The user has to forget a torn manifest first; another suite covers that.
        let policy = [CrashPolicy::KeepAll, CrashPolicy::DropAll][count % 2];
        let when = format!("{policy:?} before operation {count}, {asked:?} {name}");
        taken.lock().unwrap().push((machine.crash(policy), when));
    });
    images
}

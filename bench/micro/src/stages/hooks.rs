//! Hook look-ups: in memory, and in runs on disk, known and unknown fingerprints.

use std::path::PathBuf;
use std::sync::Arc;

use env::{LocalStorage, Storage};
use index::{HookIndex, HookKind, Index, IndexOptions, MemoryIndex, conformance};
use types::{ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, StoreId};

use crate::data::words;
use crate::harness::{Case, Options, compare};

const HOOKS: usize = 1 << 20;
const CONTAINER_HOOKS: usize = 1 << 11;
const ASKED: usize = 1 << 12;

pub fn run(options: &Options, _text: &[u8]) {
    let bits: Vec<u64> = words(9).take(HOOKS).collect();
    let hooks = || {
        bits.iter().enumerate().map(|(n, &bits)| {
            let container = ContainerId {
                session: session(),
                kind: ContainerKind::Data,
                sequence: SequenceNumber::new((n / CONTAINER_HOOKS) as u32 + 1).expect("some hundred"),
            };
            conformance::hook(HookKind::Data, bits, container)
        })
    };
    let memory = MemoryIndex::new(64 << 20);
    memory.add(hooks());
    let folder = Folder::new();
    let on_disk = on_disk(&folder, hooks());
    let step = HOOKS / ASKED;
    let known: Vec<Fingerprint> = bits
        .iter()
        .step_by(step)
        .map(|&bits| conformance::fingerprint(bits))
        .collect();
    let unknown: Vec<Fingerprint> = words(10).take(ASKED).map(conformance::fingerprint).collect();
    let ask = |index: &dyn HookIndex, prints: &[Fingerprint]| {
        let mut out = Vec::new();
        let found = prints.iter().filter(|print| {
            index.candidates(print, HookKind::Data, &mut out);
            !out.is_empty()
        });
        found.count() as u64
    };
    let note = format!(
        "{HOOKS} hooks; found of {ASKED} known: {} in memory, {} on disk; R = {:?}",
        ask(&memory, &known),
        ask(&on_disk, &known),
        memory.rates(),
    );
    compare(
        options,
        "hooks",
        &note,
        vec![
            Case::operations("memory, known", ASKED, || ask(&memory, &known)),
            Case::operations("memory, unknown", ASKED, || ask(&memory, &unknown)),
            Case::operations("disk (cached), known", ASKED, || ask(&on_disk, &known)),
            Case::operations("disk (cached), unknown", ASKED, || ask(&on_disk, &unknown)),
        ],
    );
}

fn session() -> SessionId {
    SessionId::new(1).expect("not 0")
}

fn on_disk(folder: &Folder, hooks: impl Iterator<Item = index::Hook>) -> Index {
    let storage = LocalStorage::create(&folder.0).expect("an empty folder");
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let index =
        Index::open(storage, StoreId::from_bytes([4; 16]), IndexOptions::default()).expect("an empty store");
    let mut writer = index.session(session());
    for hook in hooks {
        writer.add_hook(hook).expect("room");
    }
    writer.publish(&[session()]).expect("room");
    index
}

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("onefold-micro.{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

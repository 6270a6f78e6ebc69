//! Fills an index in memory until R = 1/4 and prints what that took, and what look-ups take then.
//!
//! `cargo run --release --manifest-path bench/hooks/Cargo.toml -- MIB`: the budget. Times are those
//! that the one thread was on a processor, so that others at work disturb them little. Containers
//! have 4,096 chunks; "the step" is the adding of a container whole.

use std::time::Duration;

use env::{MemoryStorage, Storage};
use index::sampling::Anchors;
use index::{Hook, HookIndex, HookKind, MemoryIndex};
use types::{ContainerId, ContainerKind, Fingerprint, ObjectName, SequenceNumber, SessionId, StoreId};

const CONTAINER_CHUNKS: u64 = 4096;
const ASKED: u64 = 1 << 21;

fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&mixed(n << 1).to_le_bytes());
    bytes[8..16].copy_from_slice(&mixed(n << 1 | 1).to_le_bytes());
    Fingerprint::from_bytes(bytes)
}

fn container(n: u64) -> ContainerId {
    ContainerId {
        session: SessionId::new(n / 1000 + 1).expect("small"),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new((n % 1000) as u32).expect("small"),
    }
}

fn hooks_of(n: u64) -> Vec<Hook> {
    let chunks: Vec<_> = (n * CONTAINER_CHUNKS..(n + 1) * CONTAINER_CHUNKS)
        .map(fingerprint)
        .collect();
    let anchors = Anchors::of(chunks.iter().map(|chunk| (HookKind::Data, chunk)));
    chunks
        .iter()
        .map(|chunk| Hook::of(HookKind::Data, chunk, container(n), &anchors))
        .collect()
}

/// Time that this thread was on a processor.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

fn main() {
    let mib: usize = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(64);
    let index = MemoryIndex::new(mib << 20);
    let (mut added, mut adding) = (0u64, Duration::ZERO);
    let mut halvings = 0;
    for n in 0.. {
        let hooks = hooks_of(n);
        let before = index.stats();
        let began = on_cpu();
        index.add(hooks);
        let took = on_cpu() - began;
        let now = index.rates().data.halvings();
        if now == halvings {
            (added, adding) = (added + (CONTAINER_CHUNKS >> now), adding + took);
        } else {
            halvings = now;
            println!(
                "full at R = 1/{}: {} hooks, {} containers, load {:.3}, {:.2} bytes each, {:.3} false loads a GiB; the step that halved took {took:?}",
                1 << (now - 1),
                before.entries[0],
                before.containers,
                before.load,
                before.bytes_per_entry,
                before.false_loads_per_gib,
            );
            if now == 2 {
                break;
            }
        }
    }
    println!(
        "insertion: {:.0} ns a hook",
        adding.as_nanos() as f64 / added as f64
    );
    let containers = index.stats().containers;
    for (what, first) in [("known", 0), ("new", containers * CONTAINER_CHUNKS)] {
        let prints: Vec<_> = (0..ASKED)
            .map(|n| fingerprint(first + mixed(n) % (containers * CONTAINER_CHUNKS)))
            .collect();
        let (mut out, mut found) = (Vec::new(), 0usize);
        let began = on_cpu();
        for print in &prints {
            index.candidates(print, HookKind::Data, &mut out);
            found += out.len();
        }
        let took = (on_cpu() - began).as_nanos() as f64 / ASKED as f64;
        println!("look-up of {what} chunks: {took:.0} ns, {found} of {ASKED} found");
    }
    let (storage, name) = (
        MemoryStorage::new(),
        ObjectName::new("index/image.0").expect("a name"),
    );
    let store = StoreId::from_bytes([1; 16]);
    let began = on_cpu();
    index.checkpoint(&storage, store, &name, &[]).expect("memory");
    let wrote = on_cpu() - began;
    let bytes = storage.get(&name).expect("there");
    let began = on_cpu();
    let read = MemoryIndex::restore(&bytes, store, mib << 20)
        .expect("whole")
        .expect("this budget");
    println!(
        "image: {} MiB, digested and copied in {wrote:?}, taken back in {:?}",
        bytes.len() >> 20,
        (on_cpu() - began)
    );
    assert_eq!(read.0.stats().entries, index.stats().entries);
    let began = on_cpu();
    index.retain(&|container| container.sequence.get() % 10 != 0);
    println!("removing one container in ten: {:?}", on_cpu() - began);
}

//! The index in memory against a multimap, its bytes for each entry, and the rate of its false
//! answers.

use std::collections::{BTreeMap, BTreeSet};

use index::conformance::{self, Promise, fingerprint, with_anchors};
use index::sampling::SamplingRates;
use index::{CANDIDATES_MAX, Hook, HookKind, MEMORY_BYTES_MIN, MemoryIndex};
use proptest::prelude::*;
use types::{ContainerId, ContainerKind};

use crate::store::*;

const ROOMY: usize = 4 << 20;

#[test]
fn the_memory_index_conforms_with_room_for_all() {
    conformance::check(Promise::Exact, |hooks| {
        let index = MemoryIndex::new(ROOMY);
        index.add(hooks.iter().copied());
        index
    });
}

#[test]
fn the_memory_index_conforms_sampled() {
    conformance::check(Promise::Sampled, |hooks| {
        let index = MemoryIndex::new(MEMORY_BYTES_MIN);
        // So many other hooks that the looked-up ones are only sampled.
        index.add((0..30_000).map(|n| hook(bits(n) | 1 << 63, data(90, 0))));
        index.add(hooks.iter().copied());
        index
    });
}

#[test]
fn hooks_may_come_in_any_order() {
    let hooks: Vec<_> = (0..40_000).map(|n| hook(bits(n), data(n / 500 + 1, 0))).collect();
    let mut by_bits = hooks.clone();
    by_bits.sort_by_key(|hook| hook.bits);
    let mut backwards = by_bits.clone();
    backwards.reverse();
    for order in [&hooks, &by_bits, &backwards] {
        let index = MemoryIndex::new(ROOMY);
        index.add(order.iter().copied());
        assert_eq!(index.stats().entries, [40_000, 0]);
        for hook in &hooks {
            assert_eq!(ask(&index, hook.bits, hook.kind), [hook.container]);
        }
    }
}

/// A plain model: every hook of every container that was added and not removed, and the rates of
/// the index.
#[derive(Debug, Default)]
struct Multimap(
    BTreeMap<(HookKind, u64), BTreeMap<ContainerId, Hook>>,
    /// Bits that had more candidates than are kept when some were removed: the oldest had been
    /// dropped before.
    BTreeSet<(HookKind, u64)>,
);

impl Multimap {
    fn add(&mut self, hooks: &[Hook]) {
        for hook in hooks {
            let held = self.0.entry((hook.kind, hook.bits)).or_default();
            let held = held.entry(hook.container).or_insert(*hook);
            held.standing.is_anchor |= hook.standing.is_anchor;
        }
    }

    fn remove(&mut self, gone: &dyn Fn(ContainerId) -> bool) {
        for (key, held) in &mut self.0 {
            if held.len() > CANDIDATES_MAX {
                self.1.insert(*key);
            }
            held.retain(|container, _| !gone(*container));
        }
    }

    fn check(&self, index: &MemoryIndex, rates: SamplingRates) {
        let mut made_up = 0;
        for ((kind, bits), held) in &self.0 {
            let found = ask(index, *bits, *kind);
            let age = |id: &ContainerId| (id.session, id.sequence, id.kind.number());
            assert!(
                found.is_sorted_by_key(|id| std::cmp::Reverse(age(id))),
                "newest first"
            );
            let staying: Vec<_> = held
                .values()
                .filter(|hook| hook.standing.stays_at(rates.of(*kind)))
                .map(|hook| hook.container)
                .collect();
            // A hook at a greater R may have displaced others, and may then be dropped at this R.
            // Anchors displace none. With fewer candidates than are kept, none is ever displaced.
            if held.len() <= CANDIDATES_MAX && !self.1.contains(&(*kind, *bits)) {
                let found: BTreeSet<_> = found.iter().copied().collect();
                let staying: BTreeSet<_> = staying.into_iter().collect();
                assert!(
                    found.is_superset(&staying),
                    "bits {bits:x} at {rates:?}: {found:?}, {staying:?}"
                );
                made_up += found.len() - staying.len();
            } else {
                assert!(found.len() <= CANDIDATES_MAX);
            }
        }
        let (known, new) = (self.0.keys(), self.0.keys().map(|(kind, bits)| (*kind, !bits)));
        ask_all(index, &known.copied().chain(new).collect::<Vec<_>>());
        // The look-ups of half a GiB: a third of one false answer is expected.
        assert!(made_up <= 5, "{made_up} of {} are made up", self.0.len());
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Adds a container with so many new chunks, so many known ones, and nodes.
    Add(u64, u32, u64, u64, u64),
    /// Removes all containers of these sessions, by remainder.
    Remove(u64),
    /// Writes the index and reads it back.
    Checkpoint,
}

fn any_step() -> impl Strategy<Value = Step> {
    let add = (1u64..40, 0u32..3, 0u64..1500, 0u64..200, 0u64..6);
    prop_oneof![
        12 => add.prop_map(|(session, sequence, new, known, nodes)| Step::Add(session, sequence, new, known, nodes)),
        1 => (0u64..5).prop_map(Step::Remove),
        1 => Just(Step::Checkpoint),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(10)))]

    #[test]
    fn the_memory_index_answers_as_a_multimap_sampled_at_its_rates(
        steps in proptest::collection::vec(any_step(), 1..40),
        budget in MEMORY_BYTES_MIN..MEMORY_BYTES_MIN * 4,
    ) {
        let mut index = MemoryIndex::new(budget);
        let mut model = Multimap::default();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Add(session, sequence, new, known, nodes) => {
                    let container = data(session, sequence);
                    let fresh = (next..next + new).map(|n| hook(bits(n), container));
                    let old = (0..known.min(next)).map(|n| hook(bits(n * next / known.max(1)), container));
                    let recipe = id(ContainerKind::Recipe, session, sequence);
                    let taken = new.max(nodes);
                    let nodes = (next..next + nodes).map(|n| conformance::hook(HookKind::Node, bits(n), recipe));
                    let hooks = with_anchors(fresh.chain(old).chain(nodes).collect());
                    next += taken;
                    index.add(hooks.iter().copied());
                    model.add(&hooks);
                }
                Step::Remove(remainder) => {
                    let gone = |container: ContainerId| container.session.get() % 5 == remainder;
                    index.retain(&|container| !gone(container));
                    model.remove(&gone);
                }
                Step::Checkpoint => index = through_an_image(&index, budget),
            }
            let stats = index.stats();
            prop_assert!(stats.bytes <= stats.budget_bytes, "{stats:?}");
        }
        prop_assert_eq!(index.stats().forgotten_containers, 0);
        model.check(&index, index.rates());
        for n in next..next + 500 {
            prop_assert!(ask(&index, bits(n), HookKind::Data).is_empty());
            prop_assert!(ask(&index, bits(n), HookKind::Node).is_empty());
        }
    }
}

fn through_an_image(index: &MemoryIndex, budget: usize) -> MemoryIndex {
    let storage = env::fault::FaultStorage::new();
    let name = types::ObjectName::new("index/image".to_owned()).unwrap();
    index.checkpoint(&storage, store_id(), &name, &[]).unwrap();
    let bytes = env::Storage::get(&storage, &name).unwrap();
    MemoryIndex::restore(&bytes, store_id(), budget)
        .unwrap()
        .unwrap()
        .0
}

/// Spreads bits like those of fingerprints: unevenly.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn container(n: u64, chunks: u64) -> Vec<Hook> {
    let of = data(n / 1000 + 1, u32::try_from(n % 1000).unwrap());
    let chunks = n * chunks + 1..(n + 1) * chunks + 1;
    with_anchors(chunks.map(|n| hook(mixed(n), of)).collect())
}

/// The most whole containers of new chunks that fit before R falls again.
fn full(budget: usize, chunks: u64, halvings: u8) -> (MemoryIndex, u64) {
    let index = MemoryIndex::new(budget);
    let fit = (0..)
        .find(|n| {
            index.add(container(*n, chunks));
            index.rates().data.halvings() > halvings
        })
        .unwrap();
    let index = MemoryIndex::new(budget);
    (0..fit).for_each(|n| index.add(container(n, chunks)));
    (index, fit)
}

#[test]
fn an_entry_takes_at_most_eight_bytes_at_ninety_percent_load() {
    for (halvings, chunks, budget) in [
        (0, 2000, 1 << 20),
        (1, 2000, 1 << 20),
        (4, 2000, 512 << 10),
        (7, 4000, 256 << 10),
    ] {
        let stats = full(budget, chunks, halvings).0.stats();
        println!("R = {}: {stats:?}", stats.rates.data);
        assert_eq!(stats.rates.data.halvings(), halvings);
        assert!(stats.load >= 0.9, "{stats:?}");
        assert!(stats.bytes_per_entry <= 8.0, "{stats:?}");
        assert!(stats.bytes <= stats.budget_bytes);
        assert_eq!(stats.forgotten_containers, 0);
    }
}

#[test]
fn new_data_loads_at_most_one_catalog_a_gib() {
    const LOOKUPS_PER_GIB: u64 = 131_072;
    const GIB: u64 = 24;
    for halvings in [0, 2] {
        let (index, containers) = full(1 << 20, 500, halvings);
        let (first, mut out, mut found) = (containers * 500 + 1, Vec::new(), 0);
        for n in first..first + GIB * LOOKUPS_PER_GIB {
            index::HookIndex::candidates(&index, &fingerprint(mixed(n)), HookKind::Data, &mut out);
            found += out.len() as u64;
        }
        let expected = index.stats().false_loads_per_gib;
        println!(
            "R = {}: {found} in {GIB} GiB, {expected:.3} a GiB expected",
            index.rates().data
        );
        assert!(expected <= 1.0);
        assert!(
            found <= GIB,
            "{found} catalogs loaded for nothing in {GIB} GiB of new data"
        );
    }
}

#[test]
fn nodes_keep_their_hooks_while_chunks_lose_theirs() {
    let index = MemoryIndex::new(256 << 10);
    for n in 0..200 {
        let first = n * 2000;
        let chunks = (first..first + 2000).map(|n| hook(bits(n), data(n / 2000 + 1, 0)));
        let recipe = id(ContainerKind::Recipe, n + 1, 1);
        let nodes = (first..first + 4).map(|n| conformance::hook(HookKind::Node, bits(n), recipe));
        index.add(with_anchors(chunks.chain(nodes).collect()));
    }
    let rates = index.rates();
    assert!(rates.data.halvings() >= 3, "{rates:?}");
    assert_eq!(rates.node.halvings(), 0);
    for n in 0..200 {
        for node in n * 2000..n * 2000 + 4 {
            let recipe = id(ContainerKind::Recipe, n + 1, 1);
            assert_eq!(ask(&index, bits(node), HookKind::Node), [recipe]);
        }
    }
}

#[test]
fn when_anchors_alone_are_too_many_the_oldest_are_forgotten() {
    let index = MemoryIndex::new(MEMORY_BYTES_MIN);
    let count = 20_000;
    for n in 0..count {
        index.add(with_anchors(vec![hook(bits(n), data(n + 1, 0))]));
    }
    let stats = index.stats();
    assert!(
        stats.forgotten_containers > 0 && stats.bytes <= stats.budget_bytes,
        "{stats:?}"
    );
    assert_eq!(stats.containers + stats.forgotten_containers, count);
    for n in count - stats.containers..count {
        assert_eq!(
            ask(&index, bits(n), HookKind::Data),
            [data(n + 1, 0)],
            "of {count}"
        );
    }
    assert!(index.holds(data(count, 0)) && !index.holds(data(1, 0)));
}

#[test]
fn more_containers_than_a_slot_can_name_widen_it() {
    let index = MemoryIndex::new(256 << 10);
    let chunks = 100_000;
    index.add(with_anchors(
        (0..chunks).map(|n| hook(mixed(n), data(1, 0))).collect(),
    ));
    let narrow = index.stats();
    assert!(
        narrow.rates.data.halvings() >= 1 && narrow.containers == 1,
        "{narrow:?}"
    );
    // Each has a hook that stays.
    let count = 5_000;
    for n in 0..count {
        index.add(with_anchors(vec![hook(mixed(chunks + n), data(n + 2, 0))]));
    }
    let wide = index.stats();
    assert_eq!((wide.containers, wide.forgotten_containers), (count + 1, 0));
    for n in 0..count {
        assert_eq!(ask(&index, mixed(chunks + n), HookKind::Data), [data(n + 2, 0)]);
    }
    assert!(
        wide.bytes <= wide.budget_bytes && wide.false_loads_per_gib <= 1.0,
        "{wide:?}"
    );
}

/// A writer that can choose fingerprints may fill one segment. Lines of one segment are lines of
/// all.
#[test]
fn hooks_of_one_segment_keep_to_the_budget() {
    for budget in [MEMORY_BYTES_MIN, 1 << 20, 8 << 20] {
        let index = MemoryIndex::new(budget);
        let crowded = |n: u64| (7 << 57) | (bits(n) >> 8);
        for n in 0..300 {
            let hooks = (n * 1000..(n + 1) * 1000).map(|m| hook(crowded(m), data(n + 1, 0)));
            index.add(with_anchors(hooks.collect()));
            let stats = index.stats();
            assert!(stats.bytes <= stats.budget_bytes, "{stats:?}");
        }
        let keys: Vec<_> = (0..300_000).map(|n| (HookKind::Data, crowded(n))).collect();
        ask_all(&index, &keys);
        let stats = index.stats();
        assert!(stats.entries[0] > 500, "{stats:?}");
        // Later hooks that are spread still find room.
        index.add(with_anchors(
            (0..200).map(|n| hook(bits(n), data(500, 0))).collect(),
        ));
        assert!(index.holds(data(500, 0)));
        assert!(index.stats().bytes <= stats.budget_bytes);
    }
}

#[test]
fn many_threads_ask_while_one_adds() {
    let index = MemoryIndex::new(256 << 10);
    index.add((0..500).map(|n| Hook {
        standing: anchored(),
        ..hook(bits(n), data(1, 0))
    }));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..20_000 {
                    let found = ask(&index, bits(n % 500), HookKind::Data);
                    let level = index::sampling::SampleLevel::of(&fingerprint(bits(n % 500)));
                    assert!(found.contains(&data(1, 0)) || level.get() > 0);
                }
            });
        }
        scope.spawn(|| {
            for n in 2..100 {
                index.add((0..1000).map(|m| hook(bits(n * 1000 + m), data(n, 0))));
            }
        });
    });
    assert!(index.rates().data.halvings() > 0);
}

fn anchored() -> index::sampling::Standing {
    index::sampling::Standing::from_bits(1 << 5)
}

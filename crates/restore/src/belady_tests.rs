//! The planner that looks ahead, against a plain model of it, and its guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use proptest::prelude::*;
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

use crate::belady::{AheadPlanner, KEPT_BYTES, Sizes};
use crate::plan::{ChunkPart, Next, Place, Reference, Step, Use};

fn chunk(container: u32, slot: u32, len: u64) -> Reference {
    let container = ContainerId {
        session: SessionId::new(1).unwrap(),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(container).unwrap(),
    };
    let location = ChunkLocation {
        container,
        slot: Slot::new(slot).unwrap(),
    };
    let fingerprint = Fingerprint::from_bytes([0; 32]);
    Reference {
        chunk: Some(ChunkPart {
            location,
            fingerprint,
            chunk_len: len,
            skip: 0,
        }),
        len,
    }
}

fn zeros(len: u64) -> Reference {
    Reference { chunk: None, len }
}

fn recipes() -> impl Strategy<Value = Vec<Reference>> {
    let one = prop_oneof![
        4 => (0..12u32, 0..30u32, 1..40u64).prop_map(|(c, s, len)| chunk(c, s, len)),
        1 => (1..100u64).prop_map(zeros),
    ];
    prop::collection::vec(one, 0..200)
}

/// All actions of a planner.
fn say(references: &[Reference], sizes: Sizes) -> Vec<Next> {
    let references = references.iter().map(|r| Ok::<_, Infallible>(*r));
    let mut planner = AheadPlanner::with(references, sizes);
    let mut said = Vec::new();
    while let Some(next) = planner.next_action().unwrap() {
        said.push(next);
    }
    said
}

fn steps(said: &[Next]) -> impl Iterator<Item = &Step> {
    said.iter().filter_map(|next| match next {
        Next::Step(step) => Some(step),
        _ => None,
    })
}

fn reads(said: &[Next]) -> Vec<ContainerId> {
    steps(said).map(|step| step.container).collect()
}

/// The rule in its plainest form, with lists: of the known spots within reach, keep the chunks that
/// are needed soonest.
fn model(recipe: &[Reference], sizes: Sizes) -> Vec<ContainerId> {
    let part = |spot: usize| recipe[spot].chunk;
    let distance = |from: usize, to: usize| (to - from) as u64;
    // Kept chunks and their weights.
    let mut kept: BTreeMap<(ContainerId, u32), u64> = BTreeMap::new();
    let mut read = Vec::new();
    let mut reach = 1_u64 << 60;
    let grown = |reach: u64| (reach + reach / 4096 + 1).min(1 << 60);
    for (spot, reference) in recipe.iter().enumerate() {
        let Some(needed) = reference.chunk else {
            reach = grown(reach);
            continue;
        };
        let known = spot..recipe.len().min(spot + sizes.known_max);
        let before: BTreeSet<_> = kept.keys().copied().collect();
        let is_missing = !kept.contains_key(&key(&needed));
        if is_missing {
            let container = needed.location.container;
            read.push(container);
            let of_container = known.clone().filter_map(|at| Some((at, part(at)?)));
            let of_container: Vec<_> = of_container
                .filter(|(_, part)| part.location.container == container)
                .collect();
            let distinct: BTreeMap<_, u64> = of_container
                .iter()
                .map(|(_, part)| (key(part), part.chunk_len + KEPT_BYTES))
                .collect();
            let weight = distinct.values().sum::<u64>().isqrt();
            let mut new_bytes = 0;
            for (at, part) in of_container {
                if distance(spot, at) * weight / 3 > reach || new_bytes >= sizes.step_bytes {
                    break;
                }
                kept.entry(key(&part)).or_insert_with(|| {
                    new_bytes += part.chunk_len + KEPT_BYTES;
                    weight
                });
            }
        }
        // The spot is sent.
        reach = grown(reach);
        let next_use = |of: &(ContainerId, u32)| {
            (spot + 1..known.end).find(|at| part(*at).is_some_and(|part| key(&part) == *of))
        };
        let mut by_next: BTreeMap<usize, ((ContainerId, u32), u64)> = kept
            .iter()
            .filter_map(|(of, weight)| Some((next_use(of)?, (*of, *weight))))
            .collect();
        let weigh = |by_next: &BTreeMap<usize, _>| {
            let lens = by_next.keys().map(|at| part(*at).unwrap().chunk_len + KEPT_BYTES);
            lens.sum::<u64>()
        };
        while is_missing && weigh(&by_next) > sizes.cache_bytes {
            let (at, (of, weight)) = by_next.pop_last().unwrap();
            if before.contains(&of) {
                reach = reach.min(distance(spot + 1, at) * weight);
            }
        }
        kept = by_next.into_values().collect();
    }
    read
}

/// Containers that a forward assembly area reads [Lillibridge 3.3]: when the first spot needs a
/// container, all spots of the area that need it are filled.
fn area_reads(recipe: &[Reference], window: u64) -> usize {
    let container = |spot: usize| recipe[spot].chunk.map(|part| part.location.container);
    let mut filled = vec![false; recipe.len()];
    let (mut reads, mut end) = (0, 0);
    for front in 0..recipe.len() {
        if container(front).is_none() || filled[front] {
            continue;
        }
        let bytes = |end: usize| {
            let chunks = (front..end).filter(|spot| container(*spot).is_some());
            chunks.map(|spot| recipe[spot].len).sum::<u64>()
        };
        while end < recipe.len() && bytes(end) < window {
            end += 1;
        }
        for (spot, filled) in filled.iter_mut().enumerate().take(end).skip(front) {
            *filled |= container(spot) == container(front);
        }
        reads += 1;
    }
    reads
}

fn key(part: &ChunkPart) -> (ContainerId, u32) {
    (part.location.container, part.location.slot.get())
}

fn sizes() -> impl Strategy<Value = Sizes> {
    (1..60_usize, 0..24 * KEPT_BYTES, 1..2000_u64, 1..30_usize).prop_map(
        |(known_max, cache_bytes, step_bytes, run_spots)| Sizes {
            known_max,
            cache_bytes,
            step_bytes,
            run_spots,
        },
    )
}

/// Gives each chunk one length.
fn consistent(recipe: Vec<Reference>) -> Vec<Reference> {
    let length = |part: &ChunkPart| 1 + u64::from(part.location.slot.get() * 7 % 40);
    let each = recipe.into_iter().map(|reference| match reference.chunk {
        Some(part) => Reference {
            chunk: Some(ChunkPart {
                chunk_len: length(&part),
                ..part
            }),
            len: length(&part),
        },
        None => reference,
    });
    each.collect()
}

const ENOUGH: Sizes = Sizes {
    known_max: 1000,
    cache_bytes: 1 << 30,
    step_bytes: 1 << 30,
    run_spots: 1000,
};

#[test]
fn a_chunk_that_is_needed_in_one_run_is_not_kept() {
    let recipe = [
        chunk(1, 0, 10),
        chunk(1, 1, 10),
        chunk(1, 0, 10),
        zeros(5),
        chunk(2, 0, 10),
    ];
    let said = say(&recipe, ENOUGH);
    let fills = |n: usize| steps(&said).nth(n).unwrap().fills.clone();
    assert_eq!(
        fills(0).iter().map(|fill| fill.place).collect::<Vec<_>>(),
        [0, 1, 2].map(Place::Spot)
    );
    assert_eq!(fills(1).len(), 1);
    assert!(!said.iter().any(|next| matches!(next, Next::Uses(_))));
}

#[test]
fn a_chunk_that_is_needed_later_is_kept_and_its_container_read_once() {
    let recipe = [chunk(1, 0, 10), chunk(2, 0, 10), chunk(1, 0, 10), chunk(1, 1, 10)];
    let said = say(&recipe, ENOUGH);
    assert_eq!(reads(&said).len(), 2);
    let first = steps(&said).next().unwrap();
    let places = first.fills.iter().map(|fill| fill.place);
    assert_eq!(places.collect::<Vec<_>>(), [1, 0].map(Place::Kept));
    // Room for one chunk: the planner drops the chunk whose next use is latest. Chunks sent at once
    // need no room.
    let with = |cache_bytes| Sizes {
        cache_bytes,
        ..ENOUGH
    };
    assert_eq!(reads(&say(&recipe, with(0))).len(), 3);
    let twice = [recipe[0], recipe[1], recipe[3], recipe[1], recipe[2]];
    assert_eq!(reads(&say(&twice, with(KEPT_BYTES + 10))).len(), 3);
    assert_eq!(reads(&say(&twice, with(2 * (KEPT_BYTES + 10)))).len(), 2);
}

/// The default memory, half of which is the planner's; containers of 32 MiB in chunks of 4 KiB.
#[test]
fn a_stream_in_the_order_of_its_containers_is_sent_without_a_copy() {
    const CHUNKS: u32 = (32 << 20) / 4096;
    let slots = (1..=4).flat_map(|container| (0..CHUNKS).map(move |slot| chunk(container, slot, 4096)));
    let mut planner = AheadPlanner::new(slots.map(Ok::<_, Infallible>), 48 << 20);
    let mut reads = 0;
    while let Some(next) = planner.next_action().unwrap() {
        match next {
            Next::Spots(_) => {}
            Next::Uses(_) => panic!("something was kept"),
            Next::Step(step) => {
                reads += 1;
                assert!(step.fills.iter().all(|fill| matches!(fill.place, Place::Spot(_))));
            }
        }
    }
    assert_eq!(reads, 4);
}

#[test]
fn without_memory_belady_continues_by_single_chunks() {
    let recipe = [chunk(1, 0, 10), chunk(2, 0, 10), chunk(1, 0, 10), chunk(1, 1, 10)];
    for memory_bytes in [0, 1] {
        let references = recipe.iter().map(|r| Ok::<_, Infallible>(*r));
        let mut planner = AheadPlanner::new(references, memory_bytes);
        let mut said = Vec::new();
        while let Some(next) = planner.next_action().unwrap() {
            said.push(next);
            assert!(said.len() < 20, "it does not get on");
        }
        assert!(reads(&said).len() >= 3);
    }
}

#[test]
fn references_that_contradict_each_other_are_judged_each_for_itself() {
    let recipe = [chunk(1, 0, 10), chunk(1, 0, 11), chunk(1, 0, 10), chunk(1, 0, 11)];
    let said = say(&recipe, ENOUGH);
    let of_spot = |spot| {
        let mut fills = steps(&said).flat_map(|step| &step.fills);
        fills.any(|fill| fill.place == Place::Spot(spot) && Some(fill.part) == recipe[1].chunk)
    };
    assert!(of_spot(1) && of_spot(3));
    let runs = say(
        &recipe,
        Sizes {
            known_max: 1,
            ..ENOUGH
        },
    );
    assert_eq!(reads(&runs).len(), 4);
}

proptest! {
    #[test]
    fn belady_reads_the_same_as_the_model(recipe in recipes(), sizes in sizes()) {
        let recipe = consistent(recipe);
        // One spot at a time, so that planner and model know the same spots at each.
        let sizes = Sizes { run_spots: 1, ..sizes };
        prop_assert_eq!(reads(&say(&recipe, sizes)), model(&recipe, sizes));
    }

    #[test]
    fn every_spot_is_filled_once_from_a_chunk_kept_at_that_step(recipe in recipes(), sizes in sizes(), is_consistent in any::<bool>()) {
        let recipe = if is_consistent { consistent(recipe) } else { recipe };
        let part = |spot: u64| recipe[usize::try_from(spot).unwrap()].chunk.unwrap();
        let (mut told, mut filled) = (Vec::new(), BTreeSet::new());
        // Kept chunks by number, once a step brings them; those that are gone are in `gone`.
        let mut kept: BTreeMap<u64, ChunkPart> = BTreeMap::new();
        let mut uses: Vec<Use> = Vec::new();
        let mut gone = BTreeSet::new();
        for next in say(&recipe, sizes) {
            match next {
                Next::Spots(spots) => told.extend(spots),
                Next::Uses(of) => {
                    for one in of.uses {
                        prop_assert!(one.spot < told.len() as u64);
                        prop_assert!(filled.insert(one.spot));
                        prop_assert_eq!((part(one.spot), one.len), (one.part, recipe[usize::try_from(one.spot).unwrap()].len));
                        prop_assert!(!gone.contains(&one.number));
                        if one.is_last {
                            gone.insert(one.number);
                        }
                        uses.push(one);
                    }
                    for number in of.evicted {
                        prop_assert!(kept.contains_key(&number) && gone.insert(number));
                    }
                }
                Next::Step(step) => {
                    for fill in &step.fills {
                        prop_assert_eq!(fill.part.location.container, step.container);
                        match fill.place {
                            Place::Spot(spot) => {
                                prop_assert!(filled.insert(spot));
                                prop_assert_eq!(part(spot), fill.part);
                            }
                            Place::Kept(number) => {
                                prop_assert_eq!((fill.part.skip, fill.len), (0, fill.part.chunk_len));
                                prop_assert!(kept.insert(number, fill.part).is_none());
                            }
                        }
                    }
                    for (spot, reference) in (0..).zip(&told) {
                        prop_assert!(reference.chunk.is_none() || filled.contains(&spot));
                    }
                    let held: u64 = kept.iter().filter(|(number, _)| !gone.contains(number))
                        .map(|(_, part)| part.chunk_len + KEPT_BYTES).sum();
                    prop_assert!(held <= sizes.cache_bytes, "{} of {}", held, sizes.cache_bytes);
                }
            }
        }
        prop_assert_eq!(&told, &recipe);
        prop_assert_eq!(filled.len(), recipe.iter().filter(|r| r.chunk.is_some()).count());
        for one in uses {
            prop_assert_eq!(kept[&one.number], ChunkPart { skip: 0, ..one.part });
        }
        prop_assert_eq!(kept.len(), gone.len(), "nothing is kept at the end");
    }

    #[test]
    fn to_know_all_and_keep_all_reads_each_container_once(recipe in recipes()) {
        let recipe = consistent(recipe);
        let reads = reads(&say(&recipe, ENOUGH));
        prop_assert_eq!(reads.len(), reads.iter().collect::<BTreeSet<_>>().len());
    }

    /// An area holds a chunk for each spot; a cache holds it once for all spots.
    #[test]
    fn belady_reads_no_more_than_an_area_of_the_same_bytes(recipe in recipes(), window in 40..400_u64) {
        let recipe = consistent(recipe);
        let of_area = area_reads(&recipe, window);
        // Makes room for the overhead of chunks, which this test does not compare.
        let cache_bytes = window + 40 + recipe.len() as u64 * KEPT_BYTES;
        let cache = reads(&say(&recipe, Sizes { cache_bytes, run_spots: 1, ..ENOUGH }));
        prop_assert!(cache.len() <= of_area, "{} to {of_area}", cache.len());
    }
}

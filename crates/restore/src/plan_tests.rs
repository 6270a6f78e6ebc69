//! The planner against a plain simulation of the paper's description, and its promises.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use proptest::prelude::*;
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

use crate::lru::LruPlanner;
use crate::plan::{Assembler, Assembly, ChunkPart, From, Next, Planner, Reference, Step};

pub(crate) fn chunk(container: u32, slot: u32, len: u64) -> Reference {
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

pub(crate) fn zeros(len: u64) -> Reference {
    Reference { chunk: None, len }
}

fn plan(references: &[Reference], assembly: Assembly, window: u64) -> Vec<Step> {
    let mut planner = Planner::new(
        references.iter().map(|r| Ok::<_, Infallible>(*r)),
        assembly,
        window,
    );
    let mut steps = Vec::new();
    let mut laid_out = Vec::new();
    while let Some(next) = planner.next_action().unwrap() {
        match next {
            Next::Step(step) => steps.push(step),
            Next::Spots(spots) => laid_out.extend(spots),
            Next::Uses(_) => panic!("nothing is kept"),
        }
    }
    assert_eq!(laid_out, references, "every reference is laid out once, in order");
    steps
}

fn order(steps: &[Step]) -> Vec<u32> {
    steps.iter().map(|step| step.container.sequence.get()).collect()
}

#[test]
fn the_papers_example_reads_each_container_once() {
    // Lillibridge table 1: containers 51, 13, 47, 13, 51, 28.
    let recipe = [(51, 0), (13, 1), (47, 0), (13, 0), (51, 0), (28, 0)].map(|(c, s)| chunk(c, s, 4000));
    let steps = plan(&recipe, Assembly::Rolling, 1 << 20);
    assert_eq!(order(&steps), [51, 13, 47, 28]);
    assert_eq!(
        steps[0]
            .fills
            .iter()
            .filter_map(|fill| fill.spot())
            .collect::<Vec<_>>(),
        [0, 4]
    );
}

#[test]
fn rolling_spans_what_fixed_reads_twice() {
    let recipe = [chunk(1, 0, 10), chunk(2, 0, 10), chunk(2, 1, 10), chunk(3, 0, 10)];
    assert_eq!(order(&plan(&recipe, Assembly::Fixed, 20)), [1, 2, 2, 3]);
    assert_eq!(order(&plan(&recipe, Assembly::Rolling, 20)), [1, 2, 3]);
}

#[test]
fn zeros_cost_neither_room_nor_reads() {
    let recipe = [chunk(1, 0, 10), zeros(1 << 40), chunk(1, 1, 10), zeros(7)];
    let steps = plan(&recipe, Assembly::Rolling, 21);
    assert_eq!(order(&steps), [1]);
    assert_eq!(steps[0].filled_below, 4);
    assert!(plan(&[zeros(5)], Assembly::Rolling, 1).is_empty());
}

pub(crate) fn recipes() -> impl Strategy<Value = Vec<Reference>> {
    let one = prop_oneof![
        4 => (0..12u32, 0..30u32, 1..40u64).prop_map(|(c, s, len)| chunk(c, s, len)),
        1 => (1..100u64).prop_map(zeros),
    ];
    prop::collection::vec(one, 0..200)
}

/// Container LRU as one would write it down: a list, the most recently used last.
fn lru_reads(recipe: &[Reference], memory: u64, weigh: impl Fn(ContainerId) -> u64) -> Vec<ContainerId> {
    let (mut kept, mut read): (Vec<ContainerId>, Vec<ContainerId>) = Default::default();
    for container in recipe.iter().filter_map(|r| Some(r.chunk?.location.container)) {
        match kept.iter().position(|id| *id == container) {
            Some(at) => drop(kept.remove(at)),
            None => {
                read.push(container);
                while !kept.is_empty()
                    && kept.iter().map(|id| weigh(*id)).sum::<u64>() + weigh(container) > memory
                {
                    kept.remove(0);
                }
            }
        }
        kept.push(container);
    }
    read
}

proptest! {
    #[test]
    fn lru_reads_what_a_list_would(recipe in recipes(), memory in 0..200u64) {
        let weigh = |id: ContainerId| u64::from(id.sequence.get()) * 7 + 5;
        let references = recipe.iter().map(|r| Ok::<_, Infallible>(*r));
        let mut planner = LruPlanner::new(references, memory, weigh);
        let (mut read, mut spots, mut filled) = (Vec::new(), Vec::new(), 0);
        let mut kept: BTreeSet<ContainerId> = BTreeSet::new();
        while let Some(next) = planner.next_action().unwrap() {
            let step = match next {
                Next::Spots(entered) => {
                    spots.extend(entered);
                    continue;
                }
                Next::Step(step) => step,
                Next::Uses(_) => panic!("it keeps containers"),
            };
            if let From::StorageToKeep { evicted } = &step.from {
                read.push(step.container);
                for id in evicted {
                    prop_assert!(kept.remove(id));
                }
                kept.insert(step.container);
            }
            prop_assert!(kept.contains(&step.container));
            for fill in &step.fills {
                let part = recipe[usize::try_from(fill.spot().unwrap()).unwrap()].chunk.unwrap();
                prop_assert_eq!(part, fill.part);
                prop_assert_eq!(part.location.container, step.container);
            }
            filled += step.fills.len();
            prop_assert_eq!(step.filled_below, spots.len() as u64);
        }
        prop_assert_eq!(&spots, &recipe);
        prop_assert_eq!(filled, recipe.iter().filter(|r| r.chunk.is_some()).count());
        prop_assert_eq!(read, lru_reads(&recipe, memory, weigh));
    }

    #[test]
    fn every_spot_is_filled_once_within_the_window(recipe in recipes(), window in 1..400u64, fixed in any::<bool>()) {
        let assembly = if fixed { Assembly::Fixed } else { Assembly::Rolling };
        let steps = plan(&recipe, assembly, window);
        let mut seen = BTreeSet::new();
        let mut sent = 0u64;
        for step in &steps {
            let room: u64 = step.fills.iter().map(|fill| fill.len).sum();
            let largest = step.fills.iter().map(|fill| fill.len).max().unwrap();
            prop_assert!(room < window + largest, "fills more than the area holds");
            for fill in &step.fills {
                prop_assert!(fill.spot().unwrap() >= sent);
                prop_assert!(seen.insert(fill.spot().unwrap()));
                let part = recipe[usize::try_from(fill.spot().unwrap()).unwrap()].chunk.unwrap();
                prop_assert_eq!(part.location.container, step.container);
                prop_assert_eq!(part, fill.part);
            }
            prop_assert!(step.filled_below >= sent);
            sent = step.filled_below;
            for number in 0..sent {
                let is_zeros = recipe[usize::try_from(number).unwrap()].chunk.is_none();
                prop_assert!(is_zeros || seen.contains(&number));
            }
        }
        prop_assert_eq!(seen.len(), recipe.iter().filter(|r| r.chunk.is_some()).count());
    }

    #[test]
    fn a_window_of_everything_reads_each_container_once(recipe in recipes()) {
        let steps = plan(&recipe, Assembly::Rolling, 1 << 30);
        let mut reads: HashMap<ContainerId, u32> = HashMap::new();
        for step in &steps {
            *reads.entry(step.container).or_default() += 1;
        }
        prop_assert!(reads.values().all(|count| *count == 1));
    }

    #[test]
    fn rolling_never_reads_more_than_fixed(recipe in recipes(), window in 1..400u64) {
        let rolling = plan(&recipe, Assembly::Rolling, window).len();
        let fixed = plan(&recipe, Assembly::Fixed, window).len();
        prop_assert!(rolling <= fixed);
    }
}

//! The cache against a plain model of the three policies, and the guarantee of each.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn print(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    let mut bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 29;
    bytes[8..16].copy_from_slice(&bits.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes());
    bytes[16..24].copy_from_slice(&n.to_be_bytes());
    Fingerprint::from_bytes(bytes)
}

/// Buckets as lists, and holders as sets, without lazy deletion.
struct Model {
    eviction: Eviction,
    buckets: Vec<Vec<(Fingerprint, u16, u32)>>,
    cached: BTreeSet<u16>,
    total: BTreeMap<u16, usize>,
    used: BTreeMap<u16, u64>,
    uses: u64,
}

impl Model {
    fn new(cache: &FingerprintCache<u16>) -> Self {
        Self {
            eviction: cache.eviction,
            buckets: vec![Vec::new(); usize::try_from(cache.buckets_max).unwrap()],
            cached: BTreeSet::new(),
            total: BTreeMap::new(),
            used: BTreeMap::new(),
            uses: 0,
        }
    }

    fn homes(&self, print: &Fingerprint) -> Vec<usize> {
        let mut homes = home(print, self.buckets.len() as u64).buckets.to_vec();
        homes.dedup();
        homes
    }

    fn touch(&mut self, key: u16) {
        self.uses += 1;
        self.used.insert(key, self.uses);
    }

    fn present(&self, key: u16) -> usize {
        self.buckets.iter().flatten().filter(|held| held.1 == key).count()
    }

    fn insert(&mut self, key: u16, prints: &[(Fingerprint, u32)]) {
        self.touch(key);
        if self.cached.insert(key) {
            self.total.insert(key, 0);
        }
        for (print, value) in prints {
            *self.total.get_mut(&key).unwrap() += 1;
            self.place(key, print, *value);
        }
        self.forget_empty();
    }

    fn place(&mut self, key: u16, print: &Fingerprint, value: u32) {
        let homes = self.homes(print);
        let same: Vec<(u16, u32)> = homes
            .iter()
            .flat_map(|bucket| &self.buckets[*bucket])
            .filter(|held| held.0 == *print)
            .map(|held| (held.1, held.2))
            .collect();
        if same.contains(&(key, value)) {
            return;
        }
        if same.len() >= SAME_MAX {
            let age = |(key, value): &&(u16, u32)| (self.used[key], *value);
            let oldest = *same.iter().min_by_key(age).unwrap();
            for bucket in homes {
                for held in &mut self.buckets[bucket] {
                    if held.0 == *print && (held.1, held.2) == oldest {
                        *held = (*print, key, value);
                    }
                }
            }
            return;
        }
        let emptiest = *homes
            .iter()
            .min_by_key(|bucket| self.buckets[**bucket].len())
            .unwrap();
        let mut bucket = emptiest;
        if self.buckets[bucket].len() == WAYS {
            match self.eviction {
                Eviction::ContainerLru => {
                    let others = homes.iter().flat_map(|bucket| &self.buckets[*bucket]);
                    let others = others.map(|held| held.1).filter(|other| *other != key);
                    let Some(oldest) = others.min_by_key(|other| self.used[other]) else {
                        return;
                    };
                    self.cached.remove(&oldest);
                    for bucket in &mut self.buckets {
                        bucket.retain(|held| held.1 != oldest);
                    }
                    bucket = *homes
                        .iter()
                        .find(|bucket| self.buckets[**bucket].len() < WAYS)
                        .unwrap();
                }
                Eviction::Threshold(percent) => {
                    bucket = homes[0];
                    while let Some(held) = self.buckets[bucket].pop() {
                        let gone = self.total[&held.1].saturating_sub(self.present(held.1));
                        if held.1 != key && gone * 100 > self.total[&held.1] * usize::from(percent) {
                            self.cached.remove(&held.1);
                        }
                    }
                }
                Eviction::Immediate => {
                    bucket = homes[0];
                    for held in std::mem::take(&mut self.buckets[bucket]) {
                        if held.1 != key {
                            self.cached.remove(&held.1);
                        }
                    }
                }
            }
        }
        self.buckets[bucket].push((*print, key, value));
    }

    fn forget_empty(&mut self) {
        for key in self.cached.clone() {
            if self.present(key) == 0 {
                self.cached.remove(&key);
            }
        }
    }

    fn find(&mut self, print: &Fingerprint) -> Vec<(u16, u32)> {
        let mut out = Vec::new();
        for bucket in self.homes(print) {
            let found = self.buckets[bucket].iter().filter(|held| held.0 == *print);
            out.extend(found.map(|held| (held.1, held.2)));
        }
        out
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Adds fingerprints `first..first + count` of a holder, some of them again.
    Insert(u16, u64, u64),
    Find(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..30_u16, 0..200_u64, 0..40_u64).prop_map(|(key, first, count)| Step::Insert(key, first, count)),
        2 => (0..240_u64).prop_map(Step::Find),
    ];
    prop::collection::vec(step, 0..80)
}

fn eviction() -> impl Strategy<Value = Eviction> {
    prop_oneof![
        Just(Eviction::ContainerLru),
        Just(Eviction::Immediate),
        (0..=100_u8).prop_map(Eviction::Threshold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn every_policy_is_that_of_a_plain_model(
        steps in steps(), eviction in eviction(), budget in 0..12_000_u64,
    ) {
        agrees_with_the_model(FingerprintCache::new(budget, eviction), steps)?;
    }

    /// As long as the budget has room, a table that grows answers like one that was large at first.
    #[test]
    fn a_growing_table_is_that_of_the_same_model(
        steps in steps(), eviction in eviction(), first in 1..9_u64,
    ) {
        let cache = FingerprintCache::beginning_with(first, 120_000, eviction);
        // At most four equal ones of 240 fingerprints.
        prop_assert!(cache.table.buckets <= first && cache.places() > 1700);
        agrees_with_the_model(cache, steps)?;
    }
}

fn agrees_with_the_model(mut cache: FingerprintCache<u16>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model::new(&cache);
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Insert(key, first, count) => {
                let of = |n: u64| (print(n), u32::try_from(n).unwrap() + 7);
                let mut prints: Vec<_> = (first..first + count).map(of).collect();
                prints.extend((first..first + count).step_by(7).map(|n| (print(n), 1)));
                cache.insert(key, prints.iter().copied());
                model.insert(key, &prints);
            }
            Step::Find(n) => {
                out.clear();
                cache.find(&print(n), &mut out);
                for (key, _) in &out {
                    model.touch(*key);
                }
                let (mut got, mut wanted) = (out.clone(), model.find(&print(n)));
                got.sort_unstable();
                wanted.sort_unstable();
                prop_assert_eq!(got, wanted);
            }
        }
        for key in 0..30 {
            prop_assert_eq!(cache.contains(key), model.cached.contains(&key), "{}", key);
        }
        let named: usize = cache.table.tags.iter().filter(|tag| **tag != 0).count();
        prop_assert!(
            cache.holders.len() <= named.max(30) + 31,
            "numbers are used again"
        );
    }
    Ok(())
}

/// One holder's equal fingerprints have the same age: the evicted one must not depend on their
/// places.
#[test]
fn of_equal_fingerprints_of_one_holder_the_least_value_is_dropped() {
    for values in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]] {
        let mut cache = FingerprintCache::new(0, Eviction::ContainerLru);
        cache.insert(0_u16, values.map(|value| (print(5), value)));
        cache.insert(1, [(print(5), 9)]);
        let mut out = Vec::new();
        cache.find(&print(5), &mut out);
        out.sort_unstable();
        assert_eq!(out, [(0, 2), (0, 3), (0, 4), (1, 9)], "{values:?}");
    }
}

/// With room for all, nothing is evicted, and the memory is that of the budget.
#[test]
fn four_fifths_of_the_places_can_be_filled() {
    let budget = 4 << 20;
    let mut cache = FingerprintCache::new(budget, Eviction::ContainerLru);
    assert!(cache.bytes() <= budget);
    let fill = cache.places() as u64 * 4 / 5;
    let of = |key: u64| (key * 2000..((key + 1) * 2000).min(fill)).map(|n| (print(n), 1));
    let keys = fill.div_ceil(2000);
    (0..keys).for_each(|key| cache.insert(u16::try_from(key).unwrap(), of(key)));
    let mut out = Vec::new();
    (0..fill).for_each(|n| cache.find(&print(n), &mut out));
    assert_eq!(
        out.len() as u64,
        fill,
        "a place is {PLACE_BYTES} bytes, and none was lost"
    );
    assert!(cache.bytes() <= budget + budget / 50);
}

/// Nothing is lost by it.
#[test]
fn a_table_grows_as_it_fills() {
    let mut cache = FingerprintCache::new(8 << 20, Eviction::ContainerLru);
    let most = cache.places() as u64;
    let first = cache.table.buckets;
    assert!(
        first <= 2048 && most > 4 * first * WAYS as u64,
        "{first} of {most}"
    );
    let of = |key: u64| (key * 1000..(key + 1) * 1000).map(|n| (print(n), 1));
    let keys = most * 7 / 10 / 1000;
    let mut sizes = vec![first];
    for key in 0..keys {
        cache.insert(u16::try_from(key).unwrap(), of(key));
        sizes.push(cache.table.buckets);
    }
    sizes.dedup();
    assert!(sizes.len() > 3, "{sizes:?}");
    let mut out = Vec::new();
    (0..keys * 1000).for_each(|n| cache.find(&print(n), &mut out));
    assert_eq!(out.len() as u64, keys * 1000);
    assert!((0..keys).all(|key| cache.contains(u16::try_from(key).unwrap())));
}

/// Used catalogs stay while unused ones are evicted.
#[test]
fn used_catalogs_outlive_unused_ones() {
    let mut cache = FingerprintCache::new(1 << 20, Eviction::ContainerLru);
    let of = |key: u64| (key * 1000..(key + 1) * 1000).map(|n| (print(n), 0));
    let mut out = Vec::new();
    cache.insert(0, of(0));
    for key in 1..200_u64 {
        cache.insert(u16::try_from(key).unwrap(), of(key));
        cache.find(&print(5), &mut out);
    }
    assert_eq!(out.len(), 199);
    assert!(cache.contains(0) && cache.contains(199) && !cache.contains(1));
}

/// After immediate eviction, a hook can load a catalog again although nearly all of it is still
/// there [Guo 3.2.3].
#[test]
fn the_rest_of_an_evicted_catalog_still_answers() {
    let mut lazy = 0;
    for eviction in [Eviction::Immediate, Eviction::ContainerLru] {
        let mut cache = FingerprintCache::new(64 << 10, eviction);
        let of = |key: u64| (key * 100..(key + 1) * 100).map(|n| (print(n), 0));
        (0..40_u64).for_each(|key| cache.insert(u16::try_from(key).unwrap(), of(key)));
        let mut out = Vec::new();
        for key in (0..40_u64)
            .filter(|key| !cache.contains(u16::try_from(*key).unwrap()))
            .collect::<Vec<_>>()
        {
            of(key).for_each(|(print, _)| cache.find(&print, &mut out));
        }
        if eviction == Eviction::Immediate {
            lazy = out.len();
        } else {
            assert!(out.is_empty(), "an evicted container is gone whole");
        }
    }
    assert!(lazy > 0);
}

//! The fingerprint cache: all fingerprints of the last prefetched catalogs, in one table [Guo
//! 3.2.1] (G3, G5).
//!
//! A hit on a hook loads a whole catalog into this cache. The cache then answers for the next
//! chunks of the stream without the index. The table has buckets of 16 places, two buckets for each
//! fingerprint, no pointers, 42 bytes for each place. Each place has a tag of 16 bits. For a new
//! chunk, the tags nearly always show that it is in neither bucket. The table doubles as it fills,
//! up to its budget, and evicts nothing before that.
//!
//! Invariant: a found entry was added with exactly this fingerprint, and was not evicted since.
//! Memory stays within the budget whatever is added (INV-7); while a table doubles, the old one is
//! held beside the new one. Answers depend only on the calls, never on their timing. For one
//! thread.

mod table;

use std::collections::HashMap;
use std::hash::Hash;

use types::Fingerprint;

use table::{Home, Table, WAYS, home, words};

/// Bytes of a place: tag, fingerprint, holder and value.
const PLACE_BYTES: u64 = 2 + Fingerprint::BYTES as u64 + 8;
/// The most equal fingerprints that are kept.
const SAME_MAX: usize = 4;
/// The least number of buckets.
const BUCKETS_MIN: u64 = 4;
/// A table begins with at most so many buckets: 1.4 MB.
const BUCKETS_FIRST: u64 = 2048;

/// What makes room if all places of a fingerprint are taken [Guo 3.2.3].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Evicts the least recently used catalog among those in the two buckets, as a whole. Loses
    /// least.
    ContainerLru,
    /// Evicts one bucket. A catalog counts as evicted once more than this share of its fingerprints
    /// is gone, in percent. Then a hook may load it again. Its other fingerprints are found until
    /// they are evicted too.
    Threshold(u8),
    /// Evicts one bucket. Each catalog with a fingerprint in it counts as evicted.
    Immediate,
}

/// The owner of fingerprints: a container, or a future one.
#[derive(Debug)]
struct Holder<K> {
    key: K,
    /// Whether it counts as prefetched.
    is_cached: bool,
    /// Whether its entries in the table are void: their places count as free.
    is_dead: bool,
    /// Places of the table with its fingerprints.
    present: u32,
    /// The number of fingerprints that were added.
    total: u32,
    /// The time when it was added or last used.
    used: u64,
}

/// Fingerprints by holder `K`, each with a value (a slot).
#[derive(Debug)]
pub struct FingerprintCache<K> {
    eviction: Eviction,
    /// What the budget allows.
    buckets_max: u64,
    table: Table,
    holders: Vec<Holder<K>>,
    numbers: HashMap<K, u32>,
    free: Vec<u32>,
    /// The number of holders with void entries.
    dead: usize,
    uses: u64,
}

impl<K: Copy + Eq + Hash> FingerprintCache<K> {
    /// An empty cache. It takes its memory as it fills.
    #[must_use]
    pub fn new(budget_bytes: u64, eviction: Eviction) -> Self {
        Self::beginning_with(BUCKETS_FIRST, budget_bytes, eviction)
    }

    /// The table begins with at most so many buckets.
    fn beginning_with(first_max: u64, budget_bytes: u64, eviction: Eviction) -> Self {
        let buckets = (budget_bytes / (PLACE_BYTES * WAYS as u64)).clamp(BUCKETS_MIN, u64::from(u32::MAX));
        let mut first = buckets;
        while first > first_max {
            first = first.div_ceil(2);
        }
        Self {
            eviction,
            buckets_max: buckets,
            table: Table::new(first),
            holders: Vec::new(),
            numbers: HashMap::new(),
            free: Vec::new(),
            dead: 0,
            uses: 0,
        }
    }

    /// The most fingerprints that fit, once the table has grown.
    #[must_use]
    pub fn places(&self) -> usize {
        usize::try_from(self.buckets_max).expect("checked against u32") * WAYS
    }

    /// Memory of the full cache, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let holder = size_of::<Holder<K>>() + size_of::<(K, u32)>() + size_of::<u32>();
        self.places() as u64 * PLACE_BYTES + (self.holders.capacity() * holder) as u64
    }

    /// Whether the holder counts as prefetched. Then a fingerprint that is not found does not
    /// belong to it, or was evicted by equal fingerprints.
    #[must_use]
    pub fn contains(&self, key: K) -> bool {
        self.numbers
            .get(&key)
            .is_some_and(|number| self.holders[*number as usize].is_cached)
    }

    /// Adds fingerprints of a holder, with their values. Its existing fingerprints stay.
    pub fn insert(&mut self, key: K, prints: impl IntoIterator<Item = (Fingerprint, u32)>) {
        let number = self.number(key);
        self.touch(number);
        let holder = &mut self.holders[number as usize];
        if !holder.is_cached {
            (holder.is_cached, holder.total) = (true, 0);
        }
        // One more than the number of places, so that the holder stays while its fingerprints are
        // added.
        holder.present += 1;
        for (print, value) in prints {
            self.holders[number as usize].total += 1;
            self.place(number, &print, value);
        }
        self.leave(number);
    }

    /// Empties the cache.
    pub fn clear(&mut self) {
        self.table.clear();
        self.holders.clear();
        self.numbers.clear();
        self.free.clear();
        self.dead = 0;
    }

    /// Adds to `out` the holders of the fingerprint, with its values. The holders count as used.
    pub fn find(&mut self, fingerprint: &Fingerprint, out: &mut Vec<(K, u32)>) {
        let home = home(fingerprint, self.table.buckets);
        let words = words(fingerprint);
        for bucket in home.distinct() {
            for place in self.table.tagged(bucket, home.tag) {
                if self.table.prints[place] == words {
                    let [number, value] = self.table.entries[place];
                    let holder = &self.holders[number as usize];
                    if !holder.is_dead {
                        out.push((holder.key, value));
                        self.touch(number);
                    }
                }
            }
        }
    }

    fn touch(&mut self, number: u32) {
        self.uses += 1;
        self.holders[number as usize].used = self.uses;
    }

    /// The number of a holder. Gives it a new one if it has none.
    fn number(&mut self, key: K) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let holder = Holder {
            key,
            is_cached: true,
            is_dead: false,
            present: 0,
            total: 0,
            used: 0,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.holders[number as usize] = holder;
                number
            }
            None => {
                self.holders.push(holder);
                u32::try_from(self.holders.len() - 1).expect("fewer holders than places, and one")
            }
        };
        self.numbers.insert(key, number);
        number
    }

    fn place(&mut self, number: u32, print: &Fingerprint, value: u32) {
        if self.table.buckets < self.buckets_max && self.table.is_nearly_full() {
            self.grow();
        }
        let home = home(print, self.table.buckets);
        let (mut free, mut same, mut oldest) = ([0; 2], 0, None::<(u64, u32, usize)>);
        let words = words(print);
        for (side, bucket) in home.distinct().enumerate() {
            free[side] = self.free_places(bucket);
            for place in self.table.tagged(bucket, home.tag) {
                if self.table.prints[place] == words && !self.is_free(place) {
                    let [held_by, held] = self.table.entries[place];
                    if [held_by, held] == [number, value] {
                        return;
                    }
                    same += 1;
                    // Of one holder's equal fingerprints the one with the least value is replaced,
                    // wherever it is.
                    let used = self.holders[held_by as usize].used;
                    if oldest.is_none_or(|(before, least, _)| (used, held) < (before, least)) {
                        oldest = Some((used, held, place));
                    }
                }
            }
        }
        let place = match oldest {
            Some((.., place)) if same >= SAME_MAX => place,
            _ => {
                // The bucket with more free places; the first one if both have as many.
                let side = usize::from(free[1] > free[0]);
                if free[side] == 0 && self.table.buckets < self.buckets_max {
                    self.grow();
                    return self.place(number, print, value);
                }
                if free[side] == 0 && !self.make_room(number, home) {
                    return;
                }
                let sides = if free[side] == 0 { [0, 1] } else { [side, 1 - side] };
                let places = sides.map(|side| home.buckets[side] * WAYS);
                let mut places = places.into_iter().flat_map(|first| first..first + WAYS);
                match places.find(|place| self.is_free(*place)) {
                    Some(place) => place,
                    None => return,
                }
            }
        };
        self.vacate(place);
        self.table.set(place, home.tag, words, [number, value]);
        self.holders[number as usize].present += 1;
    }

    /// Makes the table larger, up to the budget.
    fn grow(&mut self) {
        // Nothing is void yet: a table below its full size evicts nothing.
        debug_assert_eq!(self.dead, 0, "evicted before the table was at its full size");
        let mut buckets = self.table.buckets;
        let (larger, lost) = loop {
            buckets = (buckets * 2).min(self.buckets_max);
            let (larger, lost) = self.table_of(buckets);
            // Both buckets of a fingerprint may be full in a small table.
            if lost.is_empty() || buckets == self.buckets_max {
                break (larger, lost);
            }
        };
        self.table = larger;
        // Of an eighth of the places this does not happen by chance.
        for number in lost {
            self.holders[number as usize].is_cached = false;
            self.leave(number);
        }
    }

    /// A table with the same fingerprints, and the holders of those that find no place in it.
    fn table_of(&self, buckets: u64) -> (Table, Vec<u32>) {
        let mut table = Table::new(buckets);
        let mut lost = Vec::new();
        for place in (0..self.table.tags.len()).filter(|place| self.table.tags[*place] != 0) {
            let (words, entry) = (self.table.prints[place], self.table.entries[place]);
            if !table.add(words, entry) {
                lost.push(entry[0]);
            }
        }
        (table, lost)
    }

    fn free_places(&self, bucket: usize) -> usize {
        if self.dead == 0 {
            return self.table.tagged(bucket, 0).count();
        }
        let places = bucket * WAYS..(bucket + 1) * WAYS;
        places.filter(|place| self.is_free(*place)).count()
    }

    fn is_free(&self, place: usize) -> bool {
        self.table.tags[place] == 0
            || self.dead > 0 && self.holders[self.table.entries[place][0] as usize].is_dead
    }

    /// Empties a place.
    fn vacate(&mut self, place: usize) {
        if self.table.tags[place] == 0 {
            return;
        }
        self.table.vacate(place);
        self.leave(self.table.entries[place][0]);
    }

    /// Counts a place less of a holder. Removes a holder without places.
    fn leave(&mut self, number: u32) {
        let holder = &mut self.holders[number as usize];
        holder.present -= 1;
        if holder.present == 0 {
            // The key of a dead holder may have a new number already.
            if holder.is_dead {
                self.dead -= 1;
            } else {
                holder.is_dead = true;
                self.numbers.remove(&holder.key);
            }
            self.free.push(number);
        }
    }

    /// Makes room for a fingerprint of holder `number` whose places are all taken. Returns false if
    /// all of them are the holder's own.
    fn make_room(&mut self, number: u32, home: Home) -> bool {
        match self.eviction {
            Eviction::ContainerLru => {
                let others = home
                    .distinct()
                    .flat_map(|bucket| bucket * WAYS..(bucket + 1) * WAYS)
                    .map(|place| self.table.entries[place][0])
                    .filter(|other| *other != number);
                let Some(oldest) = others.min_by_key(|other| self.holders[*other as usize].used) else {
                    return false;
                };
                let holder = &mut self.holders[oldest as usize];
                self.dead += 1;
                holder.is_dead = true;
                holder.is_cached = false;
                self.numbers.remove(&holder.key);
            }
            Eviction::Threshold(_) | Eviction::Immediate => {
                let first = home.buckets[0] * WAYS;
                for place in first..first + WAYS {
                    let evicted = self.table.entries[place][0];
                    if evicted != number {
                        let holder = &mut self.holders[evicted as usize];
                        let gone = (u64::from(holder.total) + 1).saturating_sub(u64::from(holder.present));
                        holder.is_cached &= match self.eviction {
                            Eviction::Threshold(percent) => {
                                gone * 100 <= u64::from(holder.total) * u64::from(percent)
                            }
                            _ => false,
                        };
                    }
                    self.vacate(place);
                }
            }
        }
        true
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

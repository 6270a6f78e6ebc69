//! The content and the cost of an index, for its users. Only counts: nothing is read for them.

use crate::index::{Index, read};
use crate::kind::HookKind;
use crate::sampling::{SamplingRates, efficiency_of};
use crate::summary::KEY_BITS;
use crate::table::{LOOKUPS_PER_GIB, MemoryStats};

/// Counts; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IndexStats {
    /// Runs in use.
    pub runs: u64,
    /// Hooks in the runs.
    pub entries: u64,
    /// Hooks to nodes among them.
    pub node_entries: u64,
    /// Containers in hooks to chunks. A container counts once for each run that names it.
    pub data_containers: u64,
    /// Bytes of the runs.
    pub bytes: u64,
    /// The share of these bytes that look-ups of absent fingerprints touch.
    pub resident_bytes: u64,
    /// The rates in force: the next run is written at these.
    pub rates: SamplingRates,
    /// Hooks still in memory.
    pub pending_entries: u64,
    /// The expected number of catalogs loaded for nothing, for each GiB of new data in chunks of 8
    /// KiB. It follows from the index that look-ups use.
    pub false_loads_per_gib: f64,
    /// The share of duplicates found, if streams repeat in order [Guo, equation 2], by the index
    /// that look-ups use.
    pub predicted_efficiency: f64,
    /// Look-ups, including those that were made together with others and whose answers were not
    /// needed.
    pub lookups: u64,
    /// Leaves read. Resident summaries and tables do not count.
    pub blocks_read: u64,
    /// Counts of the hooks in memory, if they are held there.
    pub memory: Option<MemoryStats>,
}

impl Index {
    /// Counts of the index.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let rates = self.rates();
        let runs = self.runs();
        let pending = self.pending();
        let parts = || runs.iter().flat_map(|run| &run.parts);
        let data_containers = runs
            .iter()
            .map(|run| run.load().containers[HookKind::Data.number()])
            .sum();
        let hooks = |kind: HookKind| {
            runs.iter()
                .map(|run| run.load().hooks[kind.number()])
                .sum::<u64>()
        };
        let memory = self.held().map(|held| held.memory().stats());
        let data = hooks(HookKind::Data);
        IndexStats {
            runs: runs.len() as u64,
            entries: hooks(HookKind::Data) + hooks(HookKind::Node),
            node_entries: hooks(HookKind::Node),
            data_containers,
            bytes: runs.iter().map(|run| run.bytes()).sum(),
            resident_bytes: parts().map(|part| part.resident_bytes()).sum(),
            rates,
            pending_entries: pending.iter().map(|hooks| read(hooks).len() as u64).sum(),
            lookups: self.lookups(),
            blocks_read: parts().map(|part| part.leaves_read()).sum(),
            false_loads_per_gib: memory.map_or_else(|| false_loads_per_gib(data), |m| m.false_loads_per_gib),
            // The hooks in memory came from runs: the lower R counts.
            predicted_efficiency: memory
                .map_or(1.0, |memory| memory.predicted_efficiency)
                .min(efficiency_of(rates.data, data, data_containers)),
            memory,
        }
    }
}

/// Of 131,072 new chunks that are looked up: the expected number that have the key of another.
#[expect(clippy::cast_precision_loss, reason = "an expectation")]
fn false_loads_per_gib(hooks: u64) -> f64 {
    LOOKUPS_PER_GIB * hooks as f64 / (1u64 << KEY_BITS) as f64
}

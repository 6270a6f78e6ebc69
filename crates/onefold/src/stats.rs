//! The content of a store, and the layout of its backups.

use std::collections::BTreeMap;

use format::names;
use index::IndexStats;
use recipe::{NodeCache, StreamLayout, TreeRoot};
use session::ManifestEntry;
use types::{ByteLen, ContainerKind, SessionId};

use crate::error::Result;
use crate::monitor::Monitor;
use crate::reading::Reading;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// The assembly memory for which speed factors are computed.
pub const MEASURED_ASSEMBLY_BYTES: u64 = 128 << 20;

/// Objects of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStats {
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The content of a store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Backups.
    pub backups: u64,
    /// Bytes of all backups' streams together.
    pub logical_bytes: u64,
    /// Containers by kind, and everything else under `mirror`, `index`, `reserve` and `other`.
    pub kinds: BTreeMap<&'static str, KindStats>,
    /// Objects with holes that prune has made, and the bytes of the holes. Except for the lengths
    /// of the objects, no other figure counts these bytes. A copy of the store that keeps no holes
    /// needs space for them again.
    pub holes: KindStats,
    /// The index, as a backup with the same options would find it.
    pub index: IndexStats,
}

impl StoreStats {
    /// Bytes in the storage, without the reserve, which has no data.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let kinds = self.kinds.iter().filter(|(kind, _)| **kind != names::RESERVE);
        kinds.map(|(_, kind)| kind.bytes).sum()
    }

    /// Bytes of the reserve, which is deleted when the disk is full.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.kinds.get(names::RESERVE).map_or(0, |kind| kind.bytes)
    }
}

/// The layout of one backup in the store.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct BackupLayout {
    /// The backup.
    pub id: SessionId,
    /// Bytes of its streams.
    pub bytes: u64,
    /// Container reads of a restore; a container counts each time that it is read.
    pub containers_read: u64,
    /// MiB restored a container read [Lillibridge 3.1].
    #[serde(deserialize_with = "or_infinite")]
    pub speed_factor: f64,
    /// The share of the read containers' bytes that the backup uses; 1.0 is perfect.
    pub share_of_perfect: f64,
    /// How long the chain is through which it may refer forward (R2); 0: it is live.
    pub chain: usize,
}

/// JSON has no infinity.
fn or_infinite<'de, D: serde::Deserializer<'de>>(d: D) -> std::result::Result<f64, D::Error> {
    let factor = <Option<f64> as serde::Deserialize>::deserialize(d)?;
    Ok(factor.unwrap_or(f64::INFINITY))
}

impl Store {
    /// The content of the store. It lists the store once, and opens its index.
    ///
    /// # Errors
    /// Of the storage.
    pub fn stats(&self) -> Result<StoreStats> {
        let list = self.snapshots()?;
        let mut stats = StoreStats {
            backups: list.snapshots.len() as u64,
            logical_bytes: list
                .snapshots
                .iter()
                .map(|snapshot| snapshot.backup.totals.bytes_logical)
                .sum(),
            kinds: BTreeMap::new(),
            holes: KindStats::default(),
            index: self.index()?.stats(),
        };
        for object in self.env.storage.list("")? {
            let folder = object.name.parts().next().unwrap_or_default();
            let kind = ContainerKind::ALL
                .into_iter()
                .map(ContainerKind::folder)
                .find(|kind| *kind == folder);
            let kind = match (kind, folder) {
                (Some(kind), _) => kind,
                (None, "mirror") => "mirror",
                (None, "index") => "index",
                (None, names::RESERVE) => names::RESERVE,
                (None, _) => "other",
            };
            let entry = stats.kinds.entry(kind).or_default();
            entry.objects += 1;
            entry.bytes += object.space;
            if names::parse_body(&object.name).is_some() && object.space < object.len {
                stats.holes.objects += 1;
                stats.holes.bytes += object.len - object.space;
            }
        }
        Ok(stats)
    }

    /// The layout of these backups, from recipes and catalogs alone. It reads no data. A backup
    /// that was forgotten meanwhile is left out.
    ///
    /// # Errors
    /// If a recipe or catalog cannot be read; `Forgotten`, as for [`Self::restore`].
    pub fn layouts(&self, snapshots: &[Snapshot], monitor: &Monitor) -> Result<Vec<BackupLayout>> {
        let reading = Reading::begin(self, |list| {
            let are_there = list.backups().map(ManifestEntry::session);
            are_there
                .filter(|id| snapshots.iter().any(|snapshot| snapshot.id == *id))
                .collect()
        })?;
        let current = |snapshot: &Snapshot| Snapshot::of(reading.list().get(snapshot.id)?);
        let nodes = reading.nodes()?;
        let nexts = reading.nexts()?;
        let of = |snapshot: Snapshot| {
            let next = |id: &SessionId| nexts.get(id).copied();
            let chain = std::iter::successors(next(&snapshot.id), next).count();
            Ok(BackupLayout {
                chain,
                ..layout(&nodes, &snapshot, monitor)?
            })
        };
        let layouts: Result<Vec<_>> = snapshots.iter().filter_map(current).map(of).collect();
        let layouts = layouts.map_err(|error| reading.explain(error))?;
        reading.end(monitor);
        Ok(layouts)
    }
}

fn layout(nodes: &NodeCache, snapshot: &Snapshot, monitor: &Monitor) -> Result<BackupLayout> {
    let mut layout = BackupLayout {
        id: snapshot.id,
        bytes: 0,
        containers_read: 0,
        speed_factor: f64::INFINITY,
        share_of_perfect: 1.0,
        chain: 0,
    };
    let mut used = 0.0;
    for stream in &snapshot.backup.streams {
        let root = TreeRoot::from(stream);
        let of_stream = StreamLayout::measure(nodes, &root, ByteLen::new(MEASURED_ASSEMBLY_BYTES))?;
        layout.bytes += root.len;
        layout.containers_read += of_stream.container_reads;
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let weight = of_stream.container_reads as f64;
        used += of_stream.used_share() * weight;
        monitor.add_done(root.len);
    }
    if layout.containers_read > 0 {
        #[expect(clippy::cast_precision_loss, reason = "three figures are shown")]
        let (mib, containers) = (
            layout.bytes as f64 / f64::from(1 << 20),
            layout.containers_read as f64,
        );
        layout.speed_factor = mib / containers;
        layout.share_of_perfect = used / containers;
    }
    Ok(layout)
}

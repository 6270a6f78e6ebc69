//! What a store holds, and how its backups are laid out.

use std::collections::BTreeMap;
use std::sync::Arc;

use index::{Index, IndexStats};
use recipe::{StreamLayout, TreeRoot};
use types::{ByteLen, ContainerKind, SessionId};

use crate::error::Result;
use crate::monitor::Monitor;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// Memory for assembly that speed factors are computed for.
pub const MEASURED_ASSEMBLY_BYTES: u64 = 128 << 20;

/// Objects of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindStats {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a store holds.
#[derive(Debug, Clone, Default)]
pub struct StoreStats {
    /// Backups.
    pub backups: u64,
    /// Bytes of all backups' streams together.
    pub logical_bytes: u64,
    /// Containers by kind, and everything else under `other` and `mirror`.
    pub kinds: BTreeMap<&'static str, KindStats>,
    /// The index, as a backup with the same options would find it.
    pub index: IndexStats,
}

impl StoreStats {
    /// Bytes in the storage.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.kinds.values().map(|kind| kind.bytes).sum()
    }
}

/// How one backup lies in the store.
#[derive(Debug, Clone)]
pub struct BackupLayout {
    /// The backup.
    pub id: SessionId,
    /// Bytes of its streams.
    pub bytes: u64,
    /// Containers that restoring it reads, each as often as it is read.
    pub containers_read: u64,
    /// MiB restored a container read [Lillibridge 3.1].
    pub speed_factor: f64,
    /// That, as a share of what the containers hold: 1.0 is perfect.
    pub share_of_perfect: f64,
}

impl Store {
    /// What the store holds. Lists it once, and opens its index.
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
            index: Index::open(Arc::clone(&self.env.storage), self.id(), self.index_options())?.stats(),
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
                (None, _) => "other",
            };
            let entry = stats.kinds.entry(kind).or_default();
            entry.objects += 1;
            entry.bytes += object.len;
        }
        Ok(stats)
    }

    /// How a backup lies in the store: from recipes and catalogs alone, no data is read.
    ///
    /// # Errors
    /// Where a recipe or catalog cannot be read.
    pub fn layout(&self, snapshot: &Snapshot, monitor: &Monitor) -> Result<BackupLayout> {
        let nodes = self.nodes();
        let mut layout = BackupLayout {
            id: snapshot.id,
            bytes: 0,
            containers_read: 0,
            speed_factor: f64::INFINITY,
            share_of_perfect: 1.0,
        };
        let mut used = 0.0;
        for stream in &snapshot.backup.streams {
            let root = TreeRoot::from(stream);
            let of_stream = StreamLayout::measure(&nodes, &root, ByteLen::new(MEASURED_ASSEMBLY_BYTES))?;
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
}

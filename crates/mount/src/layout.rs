//! The folders above the backups: `ids`, `snapshots`, `hosts` and `tags`. Values only.

use std::collections::BTreeMap;

use onefold::{Snapshot, UnixNanos};
use types::SessionId;

/// The name of the link to the latest backup of a folder.
const LATEST: &[u8] = b"latest";
/// The folder of all backups by number.
pub(crate) const IDS: &[u8] = b"ids";

/// An entry of the folders above the backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Top {
    Folder(BTreeMap<Vec<u8>, Top>),
    /// A symbolic link to a neighbour.
    Link(Vec<u8>),
    Backup(SessionId),
}

/// All folders above the backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    top: Top,
    /// The backups in it.
    pub(crate) snapshots: BTreeMap<SessionId, Snapshot>,
}

impl Layout {
    /// The folders for these backups, which come oldest first. `name_of` gives the name for a time.
    pub(crate) fn of(snapshots: Vec<Snapshot>, name_of: &dyn Fn(UnixNanos) -> String) -> Self {
        let mut ids = BTreeMap::new();
        let mut by_time = Times::default();
        let (mut hosts, mut tags) = (BTreeMap::<_, Times>::new(), BTreeMap::<_, Times>::new());
        for snapshot in &snapshots {
            let (id, backup) = (snapshot.id, &snapshot.backup);
            let time = backup.source_time;
            let name = name_of(time).into_bytes();
            ids.insert(id.to_string().into_bytes(), Top::Backup(id));
            by_time.add(&name, time, id);
            let host = hosts.entry(as_name(&backup.series.host)).or_default();
            host.add(&name, time, id);
            let mut names: Vec<Vec<u8>> = backup.tags.iter().map(|tag| as_name(tag.as_bytes())).collect();
            names.sort();
            names.dedup();
            for tag in names {
                tags.entry(tag).or_default().add(&name, time, id);
            }
        }
        let folders = |of: BTreeMap<Vec<u8>, Times>| {
            let folders = of.into_iter().map(|(name, times)| (name, times.folder()));
            Top::Folder(folders.collect())
        };
        let top = [
            ("ids", Top::Folder(ids)),
            ("snapshots", by_time.folder()),
            ("hosts", folders(hosts)),
            ("tags", folders(tags)),
        ];
        let top = top.map(|(name, top)| (name.as_bytes().to_vec(), top));
        Self {
            top: Top::Folder(top.into()),
            snapshots: snapshots.into_iter().map(|one| (one.id, one)).collect(),
        }
    }

    /// The entry at a path without leading slash; the empty path is the top.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Top> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut at = &self.top;
        for name in names {
            let Top::Folder(entries) = at else { return None };
            at = entries.get(name)?;
        }
        Some(at)
    }
}

/// Backups by time.
#[derive(Debug, Default)]
struct Times {
    entries: BTreeMap<Vec<u8>, Top>,
    latest: Option<(UnixNanos, Vec<u8>)>,
}

impl Times {
    fn add(&mut self, name: &[u8], time: UnixNanos, id: SessionId) {
        let mut free = name.to_vec();
        for number in 1_u64.. {
            if !self.entries.contains_key(&free) {
                break;
            }
            free = [name, format!("-{number}").as_bytes()].concat();
        }
        // Of two backups of one moment the one that was committed later is the latest.
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest <= time) {
            self.latest = Some((time, free.clone()));
        }
        self.entries.insert(free, Top::Backup(id));
    }

    fn folder(mut self) -> Top {
        if let Some((_, latest)) = self.latest {
            self.entries.insert(LATEST.to_vec(), Top::Link(latest));
        }
        Top::Folder(self.entries)
    }
}

/// A host or tag as the name of a folder.
fn as_name(text: &[u8]) -> Vec<u8> {
    match text {
        b"" | b"." | b".." => [b"_", text].concat(),
        text => {
            let with = |byte: &u8| if matches!(byte, b'/' | 0) { b'_' } else { *byte };
            text.iter().map(with).collect()
        }
    }
}

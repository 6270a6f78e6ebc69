//! The inodes that the kernel knows. The kernel says how often it was told of each, and when it has
//! forgotten it; then it is dropped here. So the memory is bounded by the kernel's cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold::Snapshot;

use crate::identity::hash_of;
use crate::item::{Body, Item};

/// The number of the top folder.
pub(crate) const TOP: u64 = 1;

/// A backup at one of its places.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path of the backup's folder in the file system.
    pub(crate) at: Vec<u8>,
    pub(crate) snapshot: Snapshot,
}

/// What an inode is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A folder or link above the backups, at this path.
    Top(Vec<u8>),
    /// An entry of a backup.
    In(Arc<Root>, Arc<Item>),
}

impl Place {
    /// Whether it is the top folder of a backup, which may be known better than before.
    fn is_top_of_backup(&self) -> bool {
        matches!(self, Self::In(_, item) if item.path == b"/")
    }

    /// Two hashes that name the inode.
    ///
    /// A file is one inode at all places of its backup, so that the page cache has it once. A
    /// folder is another inode at each place: the kernel wants one name for each folder.
    fn identity(&self) -> (u64, u64) {
        let of = |salt: u8| match self {
            Self::Top(path) => hash_of((salt, 0_u8, path)),
            Self::In(root, item) if item.body == Body::Folder => {
                hash_of((salt, 1_u8, &root.at, root.snapshot.id, &item.path))
            }
            Self::In(root, item) => hash_of((salt, 2_u8, root.snapshot.id, item.identity())),
        };
        (of(0), of(1))
    }
}

#[derive(Debug)]
struct Known {
    place: Place,
    /// Tells inodes apart whose numbers would be the same.
    check: u64,
    looked_up: u64,
}

/// The known inodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    known: Mutex<HashMap<u64, Known>>,
}

impl Nodes {
    /// With the top folder, which stays.
    pub(crate) fn new() -> Self {
        let top = Known {
            place: Place::Top(Vec::new()),
            check: 0,
            looked_up: 1,
        };
        Self {
            known: Mutex::new(HashMap::from([(TOP, top)])),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the inode is; `None` if it was forgotten.
    pub(crate) fn get(&self, number: u64) -> Option<Place> {
        self.known().get(&number).map(|known| known.place.clone())
    }

    /// The number of an inode, without telling the kernel of it.
    pub(crate) fn number(&self, place: &Place) -> u64 {
        let (number, check) = place.identity();
        free(&self.known(), number, check)
    }

    /// The number of an inode that the kernel is told of.
    pub(crate) fn tell(&self, place: Place) -> u64 {
        let (number, check) = place.identity();
        let newer = place.is_top_of_backup().then(|| place.clone());
        let mut known = self.known();
        let number = free(&known, number, check);
        let entry = known.entry(number).or_insert_with(|| Known {
            place,
            check,
            looked_up: 0,
        });
        entry.looked_up += 1;
        if let Some(newer) = newer {
            entry.place = newer;
        }
        number
    }

    /// The kernel forgets that it was told of an inode so often.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut known = self.known();
        let Some(entry) = known.get_mut(&number).filter(|_| number != TOP) else {
            return;
        };
        entry.looked_up = entry.looked_up.saturating_sub(times);
        if entry.looked_up == 0 {
            known.remove(&number);
        }
    }
}

/// The number of this inode, or the next one that is free.
fn free(known: &HashMap<u64, Known>, number: u64, check: u64) -> u64 {
    let mut number = number.max(TOP + 1);
    while known.get(&number).is_some_and(|known| known.check != check) {
        number = number.wrapping_add(1).max(TOP + 1);
    }
    number
}

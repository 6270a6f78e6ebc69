//! Tests of sessions on a storage that loses bytes under no barrier. The tests move the clocks by
//! hand.

mod adoption;
mod claims;
mod commits;
mod crashes;
mod epochs;
mod leases;
mod leftovers;
mod manifests;
mod reclaimer;
mod rules;
mod side_by_side;
mod silence;
mod together;
mod views;

use std::sync::Arc;
use std::time::Duration;

use crypto::EncryptionKey;
use env::fault::FaultStorage;
use env::{Env, ManualClock, SeededEntropy, Storage};
use format::manifest::{Backup, BackupTotals, ContainerSpan, SeriesName, StreamRole, StreamRoot};
use format::names;
use format::reclaim::{Condemned, ContainerSlots, Removed};
use object::Sealer;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Epoch, Fingerprint, Level, SequenceNumber, SeriesId,
    SessionId, Slot, SlotRange, StoreId, UnixNanos,
};

use crate::objects::{Objects, Put};
use crate::{Begin, Draft, Session, SessionError, SessionPolicy};

/// `T` of the default policy, and a little.
const LONG: Duration = Duration::from_secs(31 * 60);

/// One process: its handle of the storage, and its clock.
#[derive(Clone)]
struct Host {
    storage: FaultStorage,
    clock: ManualClock,
    sealer: Sealer,
}

impl Host {
    /// The first process of a new machine.
    fn new() -> Self {
        Self::of(FaultStorage::new(), ManualClock::default())
    }

    fn of(storage: FaultStorage, clock: ManualClock) -> Self {
        let sealer = sealer(Arc::new(storage.clone()), &clock);
        Self {
            storage,
            clock,
            sealer,
        }
    }

    /// Another process on the same host, which sees locks.
    fn beside(&self) -> Self {
        Self::of(self.storage.handle(), self.clock.clone())
    }

    /// A process on another host, with a clock of its own, which sees heartbeats only.
    fn elsewhere(&self) -> Self {
        Self::of(self.storage.handle_elsewhere(), ManualClock::default())
    }

    fn objects(&self) -> Objects {
        Objects::new(&self.sealer)
    }

    fn try_begin(&self, series: u8) -> Result<Session, SessionError> {
        Session::begin(&self.sealer, begin(series))
    }

    fn begin(&self, series: u8) -> Session {
        self.try_begin(series).expect("nothing fails here")
    }

    fn begin_read(&self) -> Session {
        Session::begin_read(&self.sealer, 1, SessionPolicy::default()).expect("nothing fails here")
    }

    fn condemn(&self, epoch_number: u64, slots: Vec<ContainerSlots>) {
        let list = Condemned {
            epoch: epoch(epoch_number),
            marks: Vec::new(),
            slots,
        };
        let put = self
            .objects()
            .put_durably(&names::condemned(list.epoch), &list)
            .unwrap();
        assert_eq!(put, Put::Created);
    }

    fn remove(&self, epoch_number: u64, slots: Vec<ContainerSlots>) {
        let list = Removed {
            epoch: epoch(epoch_number),
            slots,
            marks: Vec::new(),
            left: Vec::new(),
            gone: Vec::new(),
            stored_bytes: 0,
        };
        let put = self
            .objects()
            .put_durably(&names::removed(list.epoch), &list)
            .unwrap();
        assert_eq!(put, Put::Created);
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.storage
            .list(folder)
            .unwrap()
            .into_iter()
            .map(|meta| meta.name.to_string())
            .collect()
    }
}

fn sealer(storage: Arc<dyn Storage>, clock: &ManualClock) -> Sealer {
    // Seeds differ between processes, so no two have the same stream of randomness.
    static SEED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let seed = SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let env = Env {
        storage,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(seed)),
    };
    Sealer::new(
        env,
        StoreId::from_bytes([1; 16]),
        EncryptionKey::from_bytes([2; 32]),
    )
}

fn begin(series_number: u8) -> Begin {
    Begin {
        series: series(series_number),
        name: series_name(series_number),
        process: 1,
        policy: SessionPolicy::default(),
    }
}

fn series(n: u8) -> SeriesId {
    SeriesId::from_bytes([n; 16])
}

fn series_name(n: u8) -> SeriesName {
    SeriesName {
        host: format!("host{n}").into_bytes(),
        paths: vec![b"/etc".to_vec(), b"/home".to_vec()],
    }
}

fn id(n: u64) -> SessionId {
    SessionId::new(n).unwrap()
}

fn epoch(n: u64) -> Epoch {
    Epoch::new(n).unwrap()
}

fn container(session: SessionId, kind: ContainerKind, sequence: u32) -> ContainerId {
    ContainerId {
        session,
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

fn data(session: SessionId, sequence: u32) -> ContainerId {
    container(session, ContainerKind::Data, sequence)
}

fn at(container: ContainerId, slot: u32) -> ChunkLocation {
    ChunkLocation {
        container,
        slot: Slot::new(slot).unwrap(),
    }
}

fn range(first: u32, count: u32) -> SlotRange {
    SlotRange::new(Slot::new(first).unwrap(), count).unwrap()
}

fn slots(container: ContainerId, ranges: &[(u32, u32)]) -> ContainerSlots {
    let ranges = ranges
        .iter()
        .map(|(first, count)| range(*first, *count))
        .collect();
    ContainerSlots {
        container,
        slots: Some(ranges),
    }
}

fn whole(container: ContainerId) -> ContainerSlots {
    ContainerSlots {
        container,
        slots: None,
    }
}

fn span(first: u32, count: u32) -> ContainerSpan {
    ContainerSpan {
        kind: ContainerKind::Data,
        first: SequenceNumber::new(first).unwrap(),
        count,
    }
}

fn draft(containers: u32) -> Draft {
    let containers = if containers == 0 {
        Vec::new()
    } else {
        vec![span(0, containers)]
    };
    Draft {
        containers,
        references: Vec::new(),
        streams: Vec::new(),
    }
}

fn checkpoint(session: &Session, draft: Draft) -> u32 {
    session.begin_checkpoint().unwrap().write(draft).unwrap()
}

fn backup_of(session: &Session, containers: u32) -> Backup {
    let mut backup = plain_backup(1);
    backup.series = session.series_name().clone();
    backup.containers = draft(containers).containers;
    backup
}

fn plain_backup(series_number: u8) -> Backup {
    Backup {
        series: series_name(series_number),
        source_time: UnixNanos::new(0),
        elapsed_nanos: 1,
        user: b"root".to_vec(),
        program: "onefold 0.1.0".to_owned(),
        tags: Vec::new(),
        hold_until: None,
        streams: vec![StreamRoot {
            role: StreamRole::Whole,
            location: at(container(id(1), ContainerKind::Recipe, 1), 0),
            level: Level::new(1).unwrap(),
            fingerprint: Fingerprint::from_bytes([7; 32]),
            len: 5,
        }],
        containers: Vec::new(),
        adopted: Vec::new(),
        parents: Vec::new(),
        origin: None,
        next: None,
        rewritten: None,
        totals: BackupTotals::default(),
    }
}

/// The newest checkpoint of a session.
fn newest(host: &Host, info: &crate::SessionInfo) -> Option<format::session::Checkpoint> {
    crate::SessionTable::checkpoints(&host.sealer, info)
        .unwrap()
        .pop()
}

//! Containers of chunks without bytes.

use container::FingerprintTable;
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

use crate::error::SimulateError;

/// A chunk without its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) fingerprint: Fingerprint,
    pub(super) len: u32,
    /// The number of references to it.
    pub(super) uses: u32,
}

/// A container's chunks, by slot.
#[derive(Debug, Default)]
pub(super) struct Container {
    pub(super) chunks: Vec<Held>,
    /// Bytes of chunks with a reference.
    pub(super) bytes: u64,
    /// For finding chunks, once the container is full, and only if it is wanted.
    pub(super) table: Option<FingerprintTable>,
}

/// The place of a chunk: the container's number, and the chunk's number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) container: u32,
    pub(super) slot: u32,
}

/// All containers, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Containers {
    all: Vec<Container>,
    ids: Ids,
    bytes: u64,
}

/// Maps numbers to ids. Every backup is a session, and numbers its containers from 0.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The number of each session's first container.
    firsts: Vec<u32>,
}

impl Ids {
    /// Begins the next session with this container number.
    pub(super) fn begin(&mut self, first: u32) {
        self.firsts.push(first);
    }

    /// The last session that began.
    pub(super) fn session(&self) -> Result<SessionId, SimulateError> {
        SessionId::new(self.firsts.len() as u64).map_err(|_| {
            SimulateError::Settings("the workload has more backups than a store has sessions".to_owned())
        })
    }

    /// # Panics
    /// If no session has begun, or if a session has more containers than there are numbers.
    /// [`Containers::push`] refuses the latter.
    pub(super) fn id(&self, kind: ContainerKind, number: u32) -> ContainerId {
        let session = self.firsts.partition_point(|first| *first <= number);
        let sequence = number - self.firsts[session - 1];
        ContainerId {
            session: SessionId::new(session as u64).expect("checked when the session began"),
            kind,
            sequence: SequenceNumber::new(sequence).expect("checked when it was added"),
        }
    }

    pub(super) fn number(&self, id: ContainerId) -> Option<u32> {
        let session = usize::try_from(id.session.get()).ok()?.checked_sub(1)?;
        let number = self.firsts.get(session)?.checked_add(id.sequence.get())?;
        let end = self.firsts.get(session + 1).copied().unwrap_or(u32::MAX);
        (number < end).then_some(number)
    }
}

impl Containers {
    /// Begins the next session. Containers that are added from now on belong to it.
    pub(super) fn begin_session(&mut self) -> Result<SessionId, SimulateError> {
        self.ids.begin(self.next()?);
        self.ids.session()
    }

    fn next(&self) -> Result<u32, SimulateError> {
        let number = u32::try_from(self.all.len())
            .ok()
            .filter(|number| *number < u32::MAX);
        number.ok_or_else(|| {
            SimulateError::Settings("the workload has more containers than there are numbers".to_owned())
        })
    }

    /// Adds a container and returns its number.
    pub(super) fn push(&mut self, container: Container) -> Result<u32, SimulateError> {
        let number = self.next()?;
        let first = self.ids.firsts.last().copied().unwrap_or(0);
        SequenceNumber::new(number - first).map_err(|_| {
            SimulateError::Settings("one backup has more containers than there are numbers".to_owned())
        })?;
        self.all.push(container);
        Ok(number)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Container> {
        self.all.last_mut()
    }

    /// Adds a chunk to the last container.
    ///
    /// # Panics
    /// If there is no container, or if it has no free slot; the caller checks.
    pub(super) fn push_chunk(&mut self, held: Held) -> At {
        let container = u32::try_from(self.all.len() - 1).expect("checked when it was added");
        let chunks = &mut self.all[container as usize].chunks;
        let slot = u32::try_from(chunks.len()).expect("below the greatest slot");
        chunks.push(held);
        At { container, slot }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Container> {
        self.all.get(number as usize)
    }

    /// # Panics
    /// If the container never existed or was removed.
    pub(super) fn held(&self, at: At) -> &Held {
        &self.all[at.container as usize].chunks[at.slot as usize]
    }

    /// Whether a chunk has a reference. Chunks without one are gone.
    pub(super) fn is_there(&self, at: At) -> bool {
        let held = self
            .get(at.container)
            .and_then(|container| container.chunks.get(at.slot as usize));
        held.is_some_and(|held| held.uses > 0)
    }

    pub(super) fn name(&mut self, at: At) {
        let container = &mut self.all[at.container as usize];
        let held = &mut container.chunks[at.slot as usize];
        if held.uses == 0 {
            container.bytes += u64::from(held.len);
            self.bytes += u64::from(held.len);
        }
        held.uses += 1;
    }

    /// Removes a reference. Returns the chunk if that was the last one. A container without chunks
    /// frees its memory.
    pub(super) fn unname(&mut self, at: At) -> Option<Held> {
        let container = &mut self.all[at.container as usize];
        let held = &mut container.chunks[at.slot as usize];
        held.uses -= 1;
        if held.uses > 0 {
            return None;
        }
        let gone = *held;
        container.bytes -= u64::from(gone.len);
        self.bytes -= u64::from(gone.len);
        if container.bytes == 0 {
            *container = Container::default();
        }
        Some(gone)
    }

    pub(super) fn id(&self, number: u32) -> ContainerId {
        self.ids.id(ContainerKind::Data, number)
    }

    pub(super) fn number(&self, id: ContainerId) -> Option<u32> {
        self.ids.number(id)
    }

    /// Whether a container has any chunk left.
    pub(super) fn is_any_of(&self, id: ContainerId) -> bool {
        let container = self.number(id).and_then(|number| self.get(number));
        container.is_some_and(|container| container.bytes > 0)
    }

    pub(super) fn location(&self, at: At) -> ChunkLocation {
        ChunkLocation {
            container: self.id(at.container),
            slot: Slot::new(at.slot).expect("checked when it was stored"),
        }
    }

    pub(super) fn at(&self, location: ChunkLocation) -> Option<At> {
        Some(At {
            container: self.number(location.container)?,
            slot: location.slot.get(),
        })
    }

    /// Bytes of all chunks with a reference.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of containers that have any chunk.
    pub(super) fn count(&self) -> u64 {
        self.all.iter().filter(|container| container.bytes > 0).count() as u64
    }
}

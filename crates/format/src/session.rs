//! The objects of a running session (docs/format.md, "Session objects").

use types::{ChunkLocation, Epoch, Fingerprint, Level, Revision, SeriesId, SessionId};

use crate::error::Result;
use crate::manifest::{ContainerSpan, STREAMS_MAX, SeriesName};
use crate::manifest::{read_adopted, read_series_name, read_span, series_name_rules, span_rules};
use crate::manifest::{write_adopted, write_series_name, write_span};
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// `sessions/<session>/claim`: claims the number, and names the only manifest that can end the
/// session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The series' folder. A read session has the reserved series [`READ_SERIES`].
    pub series: SeriesId,
    /// The series' name (empty for a read session).
    pub name: SeriesName,
    /// Process id on the host, for messages only.
    pub process: u32,
    /// Whether the process holds a lock of the same name on this host during the session.
    pub has_lock: bool,
}

/// The reserved series of read sessions.
pub const READ_SERIES: SeriesId = SeriesId::from_bytes([0; 16]);
/// The reserved series of sessions that rewrite backups as archival ones (R2). No command shows
/// their commits. They are removed once they have become a revision of the rewritten backup.
pub const ARCHIVAL_SERIES: SeriesId = SeriesId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// `sessions/<session>/heartbeat.<counter>`: the session is alive, and has answered these epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Counts up from 0. A watcher compares it with its earlier value, never with a clock.
    pub counter: u64,
    /// The highest epoch that the session honours. It has answered all epochs up to this one.
    /// `None`: there was none.
    pub answered: Option<Epoch>,
    /// The checkpoint with the answer, once it exists.
    pub checkpoint: Option<u32>,
}

/// `sessions/<session>/checkpoint.<n>`: the session's durable containers and its references. A
/// crashed backup resumes from it, and reclamation keeps what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts up from 0.
    pub number: u32,
    /// The highest epoch that all following fields honour.
    pub answered: Option<Epoch>,
    /// Sealed and durable containers of this session.
    pub containers: Vec<ContainerSpan>,
    /// References into sealed containers of any session, as slot ranges. They belong to nodes that
    /// are only in memory or in open containers.
    pub references: Vec<(types::ContainerId, types::SlotRange)>,
    /// Declared parents, each with the revision in use.
    pub parents: Vec<(SeriesId, SessionId, Revision)>,
    /// Sessions adopted so far, and at which checkpoint.
    pub adopted: Vec<(SessionId, Option<u32>)>,
    /// The streams in progress, by position in the manifest: how much of each is stored. Empty if
    /// the session does not record this.
    pub streams: Vec<OpenStream>,
}

/// How much of a stream is durably stored, and the nodes from which its tree continues (B6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenStream {
    /// Bytes of each chunk, if chunks have a fixed length; 0 if the content defines them.
    pub fixed_chunk_bytes: u32,
    /// Bytes of the stream that the spine covers.
    pub len: u64,
    /// The children of the tree's open nodes, lower levels first. Each level is in the order of the
    /// stream.
    pub spine: Vec<SpineNode>,
}

/// A stored node that no stored node refers to yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpineNode {
    /// Its level, at least 1.
    pub level: Level,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Bytes of the stream below it.
    pub len: u64,
    /// Its location.
    pub location: ChunkLocation,
    /// Its own bound of the distinct data containers below it.
    pub containers_max: u32,
}

/// `lease/<what>.<n>`: the holder of a lease. The highest claim is never deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The holder.
    pub holder: SessionId,
    /// Set in the claim that releases the lease.
    pub released: bool,
}

payload!(Claim);
payload!(Heartbeat);
payload!(Checkpoint);
payload!(Lease);

impl Payload for Claim {
    const WHAT: &'static str = "claim";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.series(self.series);
        write_series_name(w, &self.name);
        w.varint32(self.process);
        w.flag(self.has_lock);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            series: r.series()?,
            name: read_series_name(r)?,
            process: r.varint32()?,
            has_lock: r.flag()?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        series_name_rules(&self.name)
    }
}

impl Payload for Heartbeat {
    const WHAT: &'static str = "heartbeat";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.varint(self.counter);
        w.option(self.answered, Writer::epoch);
        w.option(self.checkpoint, Writer::varint32);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            counter: r.varint()?,
            answered: r.option(Reader::epoch)?,
            checkpoint: r.option(Reader::varint32)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

impl Payload for Checkpoint {
    const WHAT: &'static str = "checkpoint";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.varint32(self.number);
        w.option(self.answered, Writer::epoch);
        w.list(&self.containers, write_span);
        w.list(&self.references, |w, &(container, slots)| {
            w.container(container);
            w.slot_range(slots);
        });
        w.list(&self.parents, |w, &(series, session, revision)| {
            w.series(series);
            w.session(session);
            w.revision(revision);
        });
        w.list(&self.adopted, write_adopted);
        w.list(&self.streams, |w, stream| {
            w.varint32(stream.fixed_chunk_bytes);
            w.varint(stream.len);
            w.list(&stream.spine, |w, node| {
                w.level(node.level);
                w.fingerprint(node.fingerprint);
                w.varint(node.len);
                w.container(node.location.container);
                w.slot(node.location.slot);
                w.varint32(node.containers_max);
            });
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            number: r.varint32()?,
            answered: r.option(Reader::epoch)?,
            containers: r.list(3, read_span)?,
            references: r.list(10, |r| Ok((r.container()?, r.slot_range()?)))?,
            parents: r.list(18, |r| Ok((r.series()?, r.session()?, r.revision()?)))?,
            adopted: r.list(2, read_adopted)?,
            streams: r.list(3, |r| {
                Ok(OpenStream {
                    fixed_chunk_bytes: r.varint32()?,
                    len: r.varint()?,
                    spine: r.list(44, |r| {
                        Ok(SpineNode {
                            level: r.level()?,
                            fingerprint: r.fingerprint()?,
                            len: r.varint()?,
                            location: ChunkLocation {
                                container: r.container()?,
                                slot: r.slot()?,
                            },
                            containers_max: r.varint32()?,
                        })
                    })?,
                })
            })?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        self.containers.iter().try_for_each(span_rules)?;
        rule(self.streams.len() <= STREAMS_MAX, "too many streams")?;
        self.streams.iter().try_for_each(OpenStream::rules)
    }
}

impl OpenStream {
    fn rules(&self) -> Result<(), &'static str> {
        let chunk = |node: &SpineNode| node.level.get() == 0 || node.len == 0;
        rule(
            !self.spine.iter().any(chunk),
            "a spine has empty nodes, or chunks",
        )?;
        rule(
            self.spine.is_sorted_by_key(|node| node.level),
            "a spine is not in order",
        )?;
        let mut lens = self.spine.iter().map(|node| node.len);
        let len = lens.try_fold(0, u64::checked_add);
        rule(len == Some(self.len), "a spine is not as long as its stream")
    }
}

impl Payload for Lease {
    const WHAT: &'static str = "lease";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.session(self.holder);
        w.flag(self.released);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            holder: r.session()?,
            released: r.flag()?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

//! The beginning and the end of a backup.

use crypto::Fingerprinter;
use format::config::Settings;
use format::manifest::{
    Backup, BackupTotals, ContainerSpan, Manifest, Origin, SeriesName, StreamRole, StreamRoot,
};
use format::wire::{Reader, Writer};
use index::ResolverStats;
use ingest::{About, Committed, Granularity, IngestError, ResumedStream, Stream, Terms, VerifiedKnown};
use recipe::TreeRoot;
use types::{ContainerKind, Revision, SeriesId, SessionId};

use crate::children::KnownStream;
use crate::codec::{Result, TEXT_BYTES_MAX, Wire};
use crate::frame::FRAME_BYTES_MAX;
use crate::offer::{lane, write_lane};

/// The backups from which a backup may take ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parents {
    /// The newest of the series that has a listing, if there is one.
    LatestTree,
    /// These.
    Named(Vec<SessionId>),
}

/// A backup replaces so many attempts at most.
pub const REPLACED_MAX: usize = 256;

/// How a backup begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Host and paths. The server puts the namespace before the host.
    pub name: SeriesName,
    /// Its streams, in order.
    pub streams: Vec<Stream>,
    /// From which backups it may take ranges.
    pub parents: Parents,
    /// Data of the parent has rotted: the client must check what it takes.
    pub is_suspect: bool,
    /// An unreadable chunk of the parent ends the backup.
    pub insists: bool,
    /// Continue any interrupted backup of the series, if there is one.
    pub resumes: bool,
    /// Continue one of these, if it was interrupted: earlier attempts of the same operation.
    pub continues: Vec<SessionId>,
    /// The client's number of this attempt, chosen at random.
    pub attempt: u64,
    /// Attempts that lost their connection. The server ends them first. At most
    /// [`REPLACED_MAX`](crate::REPLACED_MAX).
    pub replaces: Vec<u64>,
}

/// Asks whether a backup was committed whose client lost its connection meanwhile.
#[derive(Debug, Clone)]
pub struct Sought {
    /// The attempt. The server ends it first.
    pub attempt: u64,
    /// The backup's number. Another process of the server may still commit it.
    pub session: SessionId,
    /// What the client sent with the commit.
    pub about: About,
}

/// A backup that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The backup's number, if it is committed.
    pub session: SessionId,
    /// What the client needs to know. Has secret keys: only for those who may write.
    pub terms: Terms,
    /// The chosen parents.
    pub parents: Vec<SentManifest>,
    /// Streams of theirs from which the backup may copy. The client asks for what is missing here.
    pub streams: Vec<KnownStream>,
    /// What went wrong without preventing the backup.
    pub warnings: Vec<String>,
}

/// A backup's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentManifest {
    /// The backup's number.
    pub session: SessionId,
    /// Its series.
    pub series: SeriesId,
    /// The revision that counts.
    pub revision: Revision,
    /// The backup. The host is without its namespace.
    pub backup: Backup,
}

/// A backup that is durable and visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedBackup {
    /// Its number.
    pub session: SessionId,
    /// The source is as in this backup, and none was made.
    pub same_as: Option<SessionId>,
    /// Its streams.
    pub streams: Vec<StreamRoot>,
    /// The counts of both ends.
    pub totals: BackupTotals,
    /// The containers that the server put.
    pub containers: Vec<ContainerSpan>,
    /// The sessions whose data it took over, and whether each had a checkpoint.
    pub adopted: Vec<(SessionId, bool)>,
    /// What went wrong after the backup was durable.
    pub warnings: Vec<String>,
}

impl From<Committed> for CommittedBackup {
    fn from(made: Committed) -> Self {
        Self {
            session: made.session,
            same_as: made.same_as,
            streams: made.streams,
            totals: made.totals,
            containers: made.containers,
            adopted: made.adopted,
            warnings: made.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<CommittedBackup> for Committed {
    /// The store keeps the statistics of its half.
    fn from(made: CommittedBackup) -> Self {
        Self {
            session: made.session,
            same_as: made.same_as,
            streams: made.streams,
            totals: made.totals,
            containers: made.containers,
            adopted: made.adopted,
            warnings: made.warnings.into_iter().map(IngestError::Elsewhere).collect(),
            lookups: ResolverStats::default(),
            verified: VerifiedKnown::default(),
            queues: Vec::new(),
            stages: Vec::new(),
        }
    }
}

impl Wire for SeriesName {
    fn write(&self, w: &mut Writer<'_>) {
        self.host.write(w);
        self.paths.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let name = Self {
            host: Wire::read(r)?,
            paths: Wire::read(r)?,
        };
        name.check().map(|()| name)
    }
}

impl Wire for Stream {
    fn write(&self, w: &mut Writer<'_>) {
        w.u8(self.role.number());
        write_lane(w, self.lane);
        w.option(self.fixed_chunk_bytes, Writer::u32);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let role = StreamRole::from_number(r.u8()?);
        Ok(Self {
            role: role.ok_or_else(|| r.fault("no role of a stream"))?,
            lane: lane(r)?,
            fixed_chunk_bytes: r.option(Reader::u32)?,
        })
    }
}

impl Wire for Begin {
    fn write(&self, w: &mut Writer<'_>) {
        self.name.write(w);
        self.streams.write(w);
        match &self.parents {
            Parents::LatestTree => w.u8(0),
            Parents::Named(named) => {
                w.u8(1);
                named.write(w);
            }
        }
        w.flag(self.is_suspect);
        w.flag(self.insists);
        w.flag(self.resumes);
        self.continues.write(w);
        w.u64(self.attempt);
        w.list(&self.replaces, |w, attempt| w.u64(*attempt));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: Wire::read(r)?,
            streams: Wire::read(r)?,
            parents: match r.u8()? {
                0 => Parents::LatestTree,
                1 => Parents::Named(Wire::read(r)?),
                _ => return Err(r.fault("no choice of parents")),
            },
            is_suspect: r.flag()?,
            insists: r.flag()?,
            resumes: r.flag()?,
            continues: Wire::read(r)?,
            attempt: r.u64()?,
            replaces: {
                let replaces = r.list(8, Reader::u64)?;
                if replaces.len() > REPLACED_MAX {
                    return Err(r.fault("more attempts than a client has"));
                }
                replaces
            },
        })
    }
}

impl Wire for Sought {
    fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.attempt);
        self.session.write(w);
        self.about.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            attempt: r.u64()?,
            session: Wire::read(r)?,
            about: Wire::read(r)?,
        })
    }
}

impl Wire for Terms {
    fn write(&self, w: &mut Writer<'_>) {
        w.put(&*self.fingerprinter.derived_keys());
        w.bytes(&self.settings.to_bytes());
        match self.granularity {
            Granularity::Chunk => w.option(None, Writer::u32),
            Granularity::Segment { avg_bytes } => w.option(Some(avg_bytes), Writer::u32),
        }
        w.flag(self.is_suspect);
        w.flag(self.has_previous);
        w.list(&self.resumed, |w, stream| {
            w.u64(stream.len);
            w.option(stream.last, |w, root| root.write(w));
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let fingerprinter = Fingerprinter::from_derived_keys(&r.array()?);
        let settings = Settings::decode(r.bytes(TEXT_BYTES_MAX)?)?;
        Ok(Self {
            fingerprinter,
            settings,
            granularity: match r.option(Reader::u32)? {
                None => Granularity::Chunk,
                Some(avg_bytes) => Granularity::Segment { avg_bytes },
            },
            is_suspect: r.flag()?,
            has_previous: r.flag()?,
            resumed: r.list(9, |r| {
                Ok(ResumedStream {
                    len: r.u64()?,
                    last: r.option(TreeRoot::read)?,
                })
            })?,
        })
    }
}

impl Wire for SentManifest {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(self.session);
        w.series(self.series);
        w.u32(self.revision.get());
        w.bytes(&Manifest::Commit(self.backup.clone()).to_bytes());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let (session, series, revision) = (r.session()?, r.series()?, Revision::new(r.u32()?));
        let revision = revision.map_err(|_| r.fault("no revision"))?;
        let manifest = Manifest::decode(r.bytes(FRAME_BYTES_MAX)?)?;
        let Manifest::Commit(backup) = manifest else {
            return Err(r.fault("the manifest of no backup"));
        };
        Ok(Self {
            session,
            series,
            revision,
            backup,
        })
    }
}

impl Wire for Begun {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(self.session);
        self.terms.write(w);
        self.parents.write(w);
        self.streams.write(w);
        self.warnings.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            session: r.session()?,
            terms: Wire::read(r)?,
            parents: Wire::read(r)?,
            streams: Wire::read(r)?,
            warnings: Wire::read(r)?,
        })
    }
}

impl Wire for BackupTotals {
    fn write(&self, w: &mut Writer<'_>) {
        for number in numbers(&mut self.clone()) {
            w.varint(*number);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let mut totals = Self::default();
        for number in numbers(&mut totals) {
            *number = r.varint()?;
        }
        Ok(totals)
    }
}

fn numbers(totals: &mut BackupTotals) -> [&mut u64; 15] {
    [
        &mut totals.files,
        &mut totals.folders,
        &mut totals.others,
        &mut totals.files_new,
        &mut totals.files_changed,
        &mut totals.files_unchanged,
        &mut totals.files_failed,
        &mut totals.bytes_logical,
        &mut totals.bytes_read,
        &mut totals.bytes_new,
        &mut totals.bytes_stored,
        &mut totals.chunks,
        &mut totals.chunks_new,
        &mut totals.segments,
        &mut totals.segments_known,
    ]
}

impl Wire for About {
    fn write(&self, w: &mut Writer<'_>) {
        self.name.write(w);
        w.nanos(self.source_time);
        w.u64(self.elapsed_nanos);
        w.bytes(&self.user);
        w.text(&self.program);
        self.tags.write(w);
        w.flag(self.only_if_changed);
        w.option(self.hold_until, Writer::nanos);
        w.option(self.origin, |w, origin| {
            w.store(origin.store);
            w.session(origin.backup);
        });
        self.counted.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: Wire::read(r)?,
            source_time: r.nanos()?,
            elapsed_nanos: r.u64()?,
            user: Wire::read(r)?,
            program: Wire::read(r)?,
            tags: Wire::read(r)?,
            only_if_changed: r.flag()?,
            hold_until: r.option(Reader::nanos)?,
            origin: r.option(|r| {
                Ok(Origin {
                    store: r.store()?,
                    backup: r.session()?,
                })
            })?,
            counted: Wire::read(r)?,
        })
    }
}

impl Wire for CommittedBackup {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(self.session);
        w.option(self.same_as, Writer::session);
        w.list(&self.streams, |w, stream| {
            w.u8(stream.role.number());
            TreeRoot::from(stream).write(w);
        });
        self.totals.write(w);
        w.list(&self.containers, |w, span| {
            w.u8(span.kind.number());
            w.sequence(span.first);
            w.u32(span.count);
        });
        w.list(&self.adopted, |w, (session, has_checkpoint)| {
            w.session(*session);
            w.flag(*has_checkpoint);
        });
        self.warnings.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            session: r.session()?,
            same_as: r.option(Reader::session)?,
            streams: r.list(1, |r| {
                let role = StreamRole::from_number(r.u8()?);
                let root = TreeRoot::read(r)?;
                Ok(StreamRoot {
                    role: role.ok_or_else(|| r.fault("no role of a stream"))?,
                    location: root.location,
                    level: root.level,
                    fingerprint: root.fingerprint,
                    len: root.len,
                })
            })?,
            totals: Wire::read(r)?,
            containers: r.list(1, |r| {
                let kind = ContainerKind::from_number(r.u8()?);
                Ok(ContainerSpan {
                    kind: kind.ok_or_else(|| r.fault("no kind"))?,
                    first: r.sequence()?,
                    count: r.u32()?,
                })
            })?,
            adopted: r.list(1, |r| Ok((r.session()?, r.flag()?)))?,
            warnings: Wire::read(r)?,
        })
    }
}

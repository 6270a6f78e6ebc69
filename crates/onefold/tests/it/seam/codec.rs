//! The messages of both ends as bytes.

use container::{CatalogView, CompressedRegion, PlainRegion};
use format::FormatError;
use format::container::{Catalog, Codec, decode_rows, encode_rows};
use format::manifest::{BackupTotals, ContainerSpan, SeriesName, StreamRole, StreamRoot};
use format::wire::{Reader, Writer};
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{About, Offer, OfferedChild, OfferedPlace, OfferedSegment, StoredRegion, Verdict, Wanted};
use recipe::{KnownNode, StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, ContainerId, ContainerKind, Generation, RegionIndex, SessionId};

type Result<T> = std::result::Result<T, FormatError>;

/// Bytes of a list or text, at most.
const MAX: usize = 64 << 20;

/// A value that can be sent.
pub(crate) trait Wire: Sized {
    fn write(&self, w: &mut Writer<'_>);
    fn read(r: &mut Reader<'_>) -> Result<Self>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut Writer::new(&mut out));
        out
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("message", bytes);
        let value = Self::read(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn write(&self, w: &mut Writer<'_>) {
        w.list(self, |w, each| each.write(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.list(1, T::read)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn write(&self, w: &mut Writer<'_>) {
        self.0.write(w);
        self.1.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok((A::read(r)?, B::read(r)?))
    }
}

impl Wire for Vec<u8> {
    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.bytes(MAX)?.to_vec())
    }
}

impl Wire for String {
    fn write(&self, w: &mut Writer<'_>) {
        w.text(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.text(MAX)
    }
}

impl Wire for SessionId {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.session()
    }
}

impl Wire for ContainerId {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.container()
    }
}

impl Wire for ChunkLocation {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.container);
        w.slot(self.slot);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            container: r.container()?,
            slot: r.slot()?,
        })
    }
}

impl Wire for ByteRange {
    fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.offset);
        w.u64(self.len);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            offset: r.u64()?,
            len: r.u64()?,
        })
    }
}

impl Wire for TreeRoot {
    fn write(&self, w: &mut Writer<'_>) {
        self.location.write(w);
        w.level(self.level);
        w.fingerprint(self.fingerprint);
        w.u64(self.len);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            location: Wire::read(r)?,
            level: r.level()?,
            fingerprint: r.fingerprint()?,
            len: r.u64()?,
        })
    }
}

impl Wire for StreamName {
    fn write(&self, w: &mut Writer<'_>) {
        w.series(self.series);
        w.session(self.backup);
        w.u16(self.stream);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            series: r.series()?,
            backup: r.session()?,
            stream: r.u16()?,
        })
    }
}

fn lane(r: &mut Reader<'_>) -> Result<Lane> {
    Ok(if r.flag()? { Lane::Metadata } else { Lane::Content })
}

fn write_lane(w: &mut Writer<'_>, lane: Lane) {
    w.flag(lane == Lane::Metadata);
}

impl Wire for OfferedChild {
    fn write(&self, w: &mut Writer<'_>) {
        w.fingerprint(self.fingerprint);
        w.varint(self.len);
        match self.place {
            OfferedPlace::Client => w.u8(0),
            OfferedPlace::Zeros => w.u8(1),
            OfferedPlace::Stored(at) => {
                w.u8(2);
                at.write(w);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            fingerprint: r.fingerprint()?,
            len: r.varint()?,
            place: match r.u8()? {
                0 => OfferedPlace::Client,
                1 => OfferedPlace::Zeros,
                2 => OfferedPlace::Stored(Wire::read(r)?),
                _ => return Err(r.fault("no place")),
            },
        })
    }
}

/// An offer in the form to send: a region by its stored bytes.
pub(crate) enum Sent {
    Offer(Offer),
    Region(StoredRegion),
}

impl Wire for Sent {
    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Offer(Offer::Segment { stream, segment }) => {
                w.u8(0);
                w.u16(stream.0);
                w.fingerprint(segment.fingerprint);
                w.varint(segment.len);
                segment.children.write(w);
            }
            Self::Offer(Offer::Copy {
                stream,
                fingerprint,
                len,
                node,
            }) => {
                w.u8(1);
                w.u16(stream.0);
                w.fingerprint(*fingerprint);
                w.varint(*len);
                node.location.write(w);
                w.u32(node.containers_max);
            }
            Self::Offer(Offer::End(stream)) => {
                w.u8(2);
                w.u16(stream.0);
            }
            Self::Offer(Offer::Region(_)) => unreachable!("a region travels by its stored bytes"),
            Self::Region(region) => {
                w.u8(3);
                write_lane(w, region.lane);
                w.varint(region.first);
                w.list(&region.chunks, |w, (fingerprint, len)| {
                    w.fingerprint(*fingerprint);
                    w.varint32(*len);
                });
                w.flag(region.bytes.codec() == Codec::Zstd);
                w.varint(region.bytes.plain_len() as u64);
                w.bytes(region.bytes.bytes());
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let kind = r.u8()?;
        if kind == 3 {
            let (lane, first) = (lane(r)?, r.varint()?);
            let chunks = r.list(33, |r| Ok((r.fingerprint()?, r.varint32()?)))?;
            let (is_packed, plain_len) = (r.flag()?, r.varint()?);
            let bytes = r.bytes(MAX)?;
            return Ok(Self::Region(StoredRegion {
                lane,
                first,
                chunks,
                bytes: match is_packed {
                    true => CompressedRegion::as_read(bytes, usize::try_from(plain_len).unwrap_or(0)),
                    false => CompressedRegion::raw(bytes.to_vec()),
                },
            }));
        }
        let stream = StreamIndex(r.u16()?);
        Ok(Self::Offer(match kind {
            0 => Offer::Segment {
                stream,
                segment: OfferedSegment {
                    fingerprint: r.fingerprint()?,
                    len: r.varint()?,
                    children: Wire::read(r)?,
                },
            },
            1 => Offer::Copy {
                stream,
                fingerprint: r.fingerprint()?,
                len: r.varint()?,
                node: KnownNode {
                    location: Wire::read(r)?,
                    containers_max: r.u32()?,
                },
            },
            2 => Offer::End(stream),
            _ => return Err(r.fault("no offer")),
        }))
    }
}

impl Wire for Verdict {
    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Segment { stream, wanted } => {
                w.u8(0);
                w.u16(stream.0);
                w.list(wanted, |w, wanted| {
                    w.varint32(wanted.child);
                    write_lane(w, wanted.new.lane);
                    w.varint(wanted.new.ordinal);
                });
            }
            Self::Flush(lane) => {
                w.u8(1);
                w.option(*lane, write_lane);
            }
            Self::Done => w.u8(2),
            Self::Waits(stream) => {
                w.u8(3);
                w.u16(stream.0);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            0 => Self::Segment {
                stream: StreamIndex(r.u16()?),
                wanted: r.list(3, |r| {
                    Ok(Wanted {
                        child: r.varint32()?,
                        new: NewChunk {
                            lane: lane(r)?,
                            ordinal: r.varint()?,
                        },
                    })
                })?,
            },
            1 => Self::Flush(r.option(lane)?),
            2 => Self::Done,
            3 => Self::Waits(StreamIndex(r.u16()?)),
            _ => return Err(r.fault("no verdict")),
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
        w.bytes(&self.name.host);
        self.name.paths.write(w);
        w.nanos(self.source_time);
        w.u64(self.elapsed_nanos);
        w.bytes(&self.user);
        w.text(&self.program);
        self.tags.write(w);
        self.counted.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: SeriesName {
                host: Wire::read(r)?,
                paths: Wire::read(r)?,
            },
            source_time: r.nanos()?,
            elapsed_nanos: r.u64()?,
            user: Wire::read(r)?,
            program: Wire::read(r)?,
            tags: Wire::read(r)?,
            counted: Wire::read(r)?,
        })
    }
}

/// The answer to a commit.
pub(crate) struct Answer {
    pub(crate) session: SessionId,
    pub(crate) streams: Vec<StreamRoot>,
    pub(crate) totals: BackupTotals,
    pub(crate) containers: Vec<ContainerSpan>,
    pub(crate) adopted: Vec<(SessionId, bool)>,
}

const ROLES: [StreamRole; 4] = [
    StreamRole::Content,
    StreamRole::Listing,
    StreamRole::Fences,
    StreamRole::Whole,
];

impl Wire for Answer {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(self.session);
        w.list(&self.streams, |w, stream| {
            let role = ROLES.iter().position(|role| *role == stream.role);
            w.u8(u8::try_from(role.unwrap()).unwrap());
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
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            session: r.session()?,
            streams: r.list(1, |r| {
                let role = usize::from(r.u8()?);
                let root = TreeRoot::read(r)?;
                Ok(StreamRoot {
                    role: *ROLES.get(role).ok_or_else(|| r.fault("no role"))?,
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
        })
    }
}

/// A catalog in the form to send.
pub(crate) struct SentCatalog {
    id: ContainerId,
    generation: Generation,
    catalog: Catalog,
    rows: Vec<u8>,
}

impl SentCatalog {
    pub(crate) fn of(view: &CatalogView) -> Self {
        Self {
            id: view.id(),
            generation: view.generation(),
            catalog: Catalog {
                entries: view.entries().to_vec(),
            },
            rows: encode_rows(view.rows()),
        }
    }

    pub(crate) fn view(self) -> Result<CatalogView> {
        CatalogView::from_rows(
            self.id,
            self.generation,
            self.catalog.entries,
            decode_rows(&self.rows)?,
        )
    }
}

impl Wire for SentCatalog {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.id);
        w.generation(self.generation);
        w.bytes(&self.catalog.to_bytes());
        w.bytes(&self.rows);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: r.container()?,
            generation: r.generation()?,
            catalog: Catalog::decode(r.bytes(MAX)?)?,
            rows: Wire::read(r)?,
        })
    }
}

/// Regions that a client asks for.
pub(crate) struct AskedRegions {
    pub(crate) container: ContainerId,
    pub(crate) generation: Generation,
    pub(crate) regions: Vec<RegionIndex>,
}

impl Wire for AskedRegions {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.container);
        w.generation(self.generation);
        w.list(&self.regions, |w, region| w.u32(region.get()));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            container: r.container()?,
            generation: r.generation()?,
            regions: r.list(4, |r| {
                let index = RegionIndex::new(r.u32()?);
                index.map_err(|_| r.fault("no region"))
            })?,
        })
    }
}

/// A region in the form to send.
pub(crate) struct SentRegion {
    pub(crate) catalog: SentCatalog,
    pub(crate) index: RegionIndex,
    pub(crate) bytes: Vec<u8>,
}

impl SentRegion {
    pub(crate) fn region(self) -> Result<(CatalogView, PlainRegion)> {
        let region = PlainRegion::from_sent(self.index, self.bytes);
        Ok((self.catalog.view()?, region))
    }
}

impl Wire for SentRegion {
    fn write(&self, w: &mut Writer<'_>) {
        self.catalog.write(w);
        w.u32(self.index.get());
        w.bytes(&self.bytes);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let catalog = Wire::read(r)?;
        let index = RegionIndex::new(r.u32()?);
        Ok(Self {
            catalog,
            index: index.map_err(|_| r.fault("no region"))?,
            bytes: Wire::read(r)?,
        })
    }
}

//! Offers, regions and verdicts of a running backup.

use container::CompressedRegion;
use crypto::Fingerprinter;
use format::container::Codec;
use format::wire::{Reader, Writer};
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    CopiedRun, IngestError, Offer, OfferedChild, OfferedPlace, OfferedSegment, OpenRun, SendableRegion,
    StoredRegion, Verdict, Wanted,
};
use types::Fingerprint;

use crate::codec::{Result, Wire};
use crate::frame::FRAME_BYTES_MAX;

pub(crate) fn lane(r: &mut Reader<'_>) -> Result<Lane> {
    Ok(if r.flag()? { Lane::Metadata } else { Lane::Content })
}

pub(crate) fn write_lane(w: &mut Writer<'_>, lane: Lane) {
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

/// What comes before the bytes of a region, for a sender that has the bytes in parts.
#[derive(Debug, Clone, Copy)]
pub struct RegionHead {
    /// Whether the region is compressed.
    pub is_packed: bool,
    /// Bytes of the plain region.
    pub plain_len: usize,
}

impl RegionHead {
    /// What comes before a list of so many regions.
    #[must_use]
    pub fn count(regions: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Writer::new(&mut out).varint(regions as u64);
        out
    }

    /// Appends what comes before so many bytes of a region.
    pub fn append_to(self, len: usize, out: &mut Vec<u8>) {
        self.write(len, &mut Writer::new(out));
    }

    fn write(self, len: usize, w: &mut Writer<'_>) {
        w.flag(self.is_packed);
        w.varint(self.plain_len as u64);
        w.varint(len as u64);
    }
}

/// Its [`RegionHead`], and its bytes.
impl Wire for CompressedRegion {
    fn write(&self, w: &mut Writer<'_>) {
        let head = RegionHead {
            is_packed: self.codec() == Codec::Zstd,
            plain_len: self.plain_len(),
        };
        head.write(self.bytes().len(), w);
        w.put(self.bytes());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let (is_packed, plain_len) = (r.flag()?, r.varint()?);
        let bytes = r.bytes(FRAME_BYTES_MAX)?;
        if !is_packed {
            return Ok(Self::raw(bytes.to_vec()));
        }
        let plain_len = usize::try_from(plain_len).ok();
        let plain_len = plain_len.filter(|len| *len <= FRAME_BYTES_MAX);
        let plain_len = plain_len.ok_or_else(|| r.fault("a region is too long"))?;
        Ok(Self::as_read(bytes, plain_len))
    }
}

/// A region's fields before its bytes.
fn write_head(
    w: &mut Writer<'_>,
    of: Lane,
    first: u64,
    chunks: impl ExactSizeIterator<Item = (Fingerprint, u32)>,
) {
    w.u8(REGION);
    write_lane(w, of);
    w.varint(first);
    w.count(chunks.len());
    for (fingerprint, len) in chunks {
        w.fingerprint(fingerprint);
        w.varint32(len);
    }
}

/// An offer that a client sends. It arrives as [`Sent`].
#[derive(Debug)]
pub enum Sendable {
    /// Any offer but a region, or one that copies.
    Offer(Offer),
    /// Copies.
    Copies(CopiedRun),
    /// A region.
    Region(SendableRegion),
}

impl Sendable {
    /// These offers in the form to send. Waits until workers have compressed the regions.
    ///
    /// # Errors
    /// If the backup was given up meanwhile.
    pub fn all(offers: Vec<Offer>, printer: &Fingerprinter) -> std::result::Result<Vec<Self>, IngestError> {
        let mut all = Vec::with_capacity(offers.len());
        let mut open: Option<OpenRun> = None;
        for offer in offers {
            let added = match &mut open {
                Some(run) => run.add(offer),
                None => Err(offer),
            };
            let Err(other) = added else { continue };
            all.extend(open.take().map(|run| Self::Copies(run.close(printer))));
            match OpenRun::begin(other) {
                Ok(run) => open = Some(run),
                Err(Offer::Region(region)) => all.push(Self::Region(region.into_sendable()?)),
                Err(other) => all.push(Self::Offer(other)),
            }
        }
        all.extend(open.map(|run| Self::Copies(run.close(printer))));
        Ok(all)
    }

    /// Appends these offers, as a list of [`Sent`].
    pub fn append_all(all: &[Self], out: &mut Vec<u8>) {
        Writer::new(out).list(all, |w, one| match one {
            Self::Offer(offer) => write_offer(w, offer),
            Self::Copies(run) => write_copies(w, run),
            Self::Region(region) => {
                write_head(w, region.lane(), region.first(), region.chunks());
                w.flag(region.codec() == Codec::Zstd);
                w.varint(region.plain_len() as u64);
                w.count(region.stored_len());
                region.pieces().for_each(|piece| w.put(piece));
            }
        });
    }
}

/// An offer as it arrives: a region by its stored bytes, and copies in runs.
#[derive(Debug)]
pub enum Sent {
    /// Any offer but a region, or one that copies.
    Offer(Offer),
    /// Copies.
    Copies(CopiedRun),
    /// A region.
    Region(StoredRegion),
}

/// The kind of a run of copies among offers.
const COPIES: u8 = 1;
/// The kind of a region.
const REGION: u8 = 3;

fn write_copies(w: &mut Writer<'_>, run: &CopiedRun) {
    w.u8(COPIES);
    w.u16(run.stream.0);
    run.first.write(w);
    w.varint32(run.count);
    w.fingerprint(run.proof);
}

fn write_offer(w: &mut Writer<'_>, offer: &Offer) {
    match offer {
        Offer::Segment { stream, segment } => {
            w.u8(0);
            w.u16(stream.0);
            w.fingerprint(segment.fingerprint);
            w.varint(segment.len);
            segment.children.write(w);
        }
        Offer::End(stream) => {
            w.u8(2);
            w.u16(stream.0);
        }
        Offer::Brief {
            stream,
            fingerprint,
            len,
        } => {
            w.u8(4);
            w.u16(stream.0);
            w.fingerprint(*fingerprint);
            w.varint(*len);
        }
        Offer::Children { stream, children } => {
            w.u8(5);
            w.u16(stream.0);
            children.write(w);
        }
        Offer::Copy { .. } => unreachable!("copies travel in runs"),
        Offer::Region(_) => unreachable!("a region travels by its stored bytes"),
    }
}

impl Wire for Sent {
    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Offer(offer) => write_offer(w, offer),
            Self::Copies(run) => write_copies(w, run),
            Self::Region(region) => {
                write_head(w, region.lane, region.first, region.chunks.iter().copied());
                region.bytes.write(w);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let kind = r.u8()?;
        if kind == REGION {
            let (lane, first) = (lane(r)?, r.varint()?);
            let chunks = r.list(33, |r| Ok((r.fingerprint()?, r.varint32()?)))?;
            return Ok(Self::Region(StoredRegion {
                lane,
                first,
                chunks,
                bytes: Wire::read(r)?,
            }));
        }
        let stream = StreamIndex(r.u16()?);
        if kind == COPIES {
            return Ok(Self::Copies(CopiedRun {
                stream,
                first: Wire::read(r)?,
                count: r.varint32()?,
                proof: r.fingerprint()?,
            }));
        }
        Ok(Self::Offer(match kind {
            0 => Offer::Segment {
                stream,
                segment: OfferedSegment {
                    fingerprint: r.fingerprint()?,
                    len: r.varint()?,
                    children: Wire::read(r)?,
                },
            },
            2 => Offer::End(stream),
            4 => Offer::Brief {
                stream,
                fingerprint: r.fingerprint()?,
                len: r.varint()?,
            },
            5 => Offer::Children {
                stream,
                children: Wire::read(r)?,
            },
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
            Self::Unknown(stream) => {
                w.u8(4);
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
                        chunk: None,
                    })
                })?,
            },
            1 => Self::Flush(r.option(lane)?),
            2 => Self::Done,
            3 => Self::Waits(StreamIndex(r.u16()?)),
            4 => Self::Unknown(StreamIndex(r.u16()?)),
            _ => return Err(r.fault("no verdict")),
        })
    }
}

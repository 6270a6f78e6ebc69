//! Offers, regions and verdicts of a running backup.

use container::CompressedRegion;
use format::container::Codec;
use format::wire::{Reader, Writer};
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    Offer, OfferedChild, OfferedPlace, OfferedSegment, SendableRegion, StoredRegion, Verdict, Wanted,
};
use recipe::KnownNode;
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

/// Whether it is compressed, its plain length, and its bytes.
impl Wire for CompressedRegion {
    fn write(&self, w: &mut Writer<'_>) {
        w.flag(self.codec() == Codec::Zstd);
        w.varint(self.plain_len() as u64);
        w.bytes(self.bytes());
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

/// What [`Sent`] is, at its sender.
#[derive(Debug)]
pub enum Sendable {
    /// Any offer but a region.
    Offer(Offer),
    /// A region.
    Region(SendableRegion),
}

impl Sendable {
    /// Appends these offers, as a list of [`Sent`].
    pub fn append_all(all: &[Self], out: &mut Vec<u8>) {
        Writer::new(out).list(all, |w, one| match one {
            Self::Offer(offer) => write_offer(w, offer),
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

/// An offer as it arrives: a region by its stored bytes.
#[derive(Debug)]
pub enum Sent {
    /// Any offer but a region.
    Offer(Offer),
    /// A region.
    Region(StoredRegion),
}

/// The kind of a region among offers.
const REGION: u8 = 3;

fn write_offer(w: &mut Writer<'_>, offer: &Offer) {
    match offer {
        Offer::Segment { stream, segment } => {
            w.u8(0);
            w.u16(stream.0);
            w.fingerprint(segment.fingerprint);
            w.varint(segment.len);
            segment.children.write(w);
        }
        Offer::Copy {
            stream,
            fingerprint,
            len,
            node,
        } => {
            w.u8(1);
            w.u16(stream.0);
            w.fingerprint(*fingerprint);
            w.varint(*len);
            node.location.write(w);
            w.u32(node.containers_max);
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
        Offer::Region(_) => unreachable!("a region travels by its stored bytes"),
    }
}

impl Wire for Sent {
    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Offer(offer) => write_offer(w, offer),
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

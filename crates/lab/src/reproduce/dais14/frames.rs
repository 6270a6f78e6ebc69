//! Requests to a duplicates index of another process, and answers, as frames: a length of four
//! bytes, and as many bytes. A peer's bytes never cause a panic.

use std::io::{self, Read, Write};

use ddi::{Bucket, Operation, Outcome};
use format::FormatError;
use format::pool::frame::PoolId;
use format::wire::{Reader, Writer};
use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

/// The longest frame. A batch has at most 2^18 operations.
const FRAME_BYTES_MAX: u32 = 32 << 20;
const TEXT_BYTES_MAX: usize = 1 << 16;

/// What a host asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    /// A batch (`DuplicatesIndex::apply`).
    Apply {
        bucket: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: Vec<Operation>,
    },
    /// The last batch of a client (`DuplicatesIndex::client`).
    Client { bucket: Bucket, client: VolumeId },
    /// Whether the index is that of this pool (`DuplicatesIndex::check_pool`).
    Pool { pool: PoolId },
    /// The size of a bucket.
    Size { bucket: Bucket },
}

/// What the index answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Outcomes(Vec<Outcome>),
    Last(Option<BatchSequence>),
    /// The index is that of the pool.
    Same,
    Size {
        rows: u64,
        references: u64,
        disk_bytes: u64,
    },
    /// The index's error.
    Failed(String),
}

type Decoded<T> = Result<T, FormatError>;

impl Request {
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        match self {
            Self::Apply {
                bucket,
                client,
                sequence,
                operations,
            } => {
                w.u8(0);
                w.u16(bucket.get());
                w.u32(client.get());
                w.u64(sequence.get());
                w.list(operations, put_operation);
            }
            Self::Client { bucket, client } => {
                w.u8(1);
                w.u16(bucket.get());
                w.u32(client.get());
            }
            Self::Size { bucket } => {
                w.u8(2);
                w.u16(bucket.get());
            }
            Self::Pool { pool } => {
                w.u8(3);
                w.put(pool);
            }
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut r = Reader::new("a request to the index", bytes);
        let request = match r.u8()? {
            0 => Self::Apply {
                bucket: bucket(&mut r)?,
                client: volume(&mut r)?,
                sequence: sequence(&mut r)?,
                operations: r.list(45, operation)?,
            },
            1 => Self::Client {
                bucket: bucket(&mut r)?,
                client: volume(&mut r)?,
            },
            2 => Self::Size {
                bucket: bucket(&mut r)?,
            },
            3 => Self::Pool { pool: r.array()? },
            _ => return Err(r.fault("no such request")),
        };
        r.finish()?;
        Ok(request)
    }
}

impl Answer {
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        match self {
            Self::Outcomes(outcomes) => {
                w.u8(0);
                w.list(outcomes, put_outcome);
            }
            Self::Last(last) => {
                w.u8(1);
                w.option(*last, |w, last| w.u64(last.get()));
            }
            Self::Size {
                rows,
                references,
                disk_bytes,
            } => {
                w.u8(2);
                w.u64(*rows);
                w.u64(*references);
                w.u64(*disk_bytes);
            }
            Self::Same => w.u8(4),
            Self::Failed(why) => {
                w.u8(3);
                // The beginning of a long message says enough.
                w.text(why.get(..TEXT_BYTES_MAX).unwrap_or(why));
            }
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut r = Reader::new("an answer of the index", bytes);
        let answer = match r.u8()? {
            0 => Self::Outcomes(r.list(1, outcome)?),
            1 => Self::Last(r.option(sequence)?),
            2 => Self::Size {
                rows: r.u64()?,
                references: r.u64()?,
                disk_bytes: r.u64()?,
            },
            3 => Self::Failed(r.text(TEXT_BYTES_MAX)?),
            4 => Self::Same,
            _ => return Err(r.fault("no such answer")),
        };
        r.finish()?;
        Ok(answer)
    }
}

fn bucket(r: &mut Reader<'_>) -> Decoded<Bucket> {
    let number = r.u16()?;
    Bucket::new(number).ok_or(r.fault("no such bucket"))
}

fn volume(r: &mut Reader<'_>) -> Decoded<VolumeId> {
    let number = r.u32()?;
    VolumeId::new(number).map_err(|_| r.fault("no such volume"))
}

fn sequence(r: &mut Reader<'_>) -> Decoded<BatchSequence> {
    let number = r.u64()?;
    BatchSequence::new(number).map_err(|_| r.fault("no such batch"))
}

fn block(r: &mut Reader<'_>) -> Decoded<BlockNumber> {
    let number = r.u64()?;
    BlockNumber::new(number).map_err(|_| r.fault("no such block"))
}

fn put_operation(w: &mut Writer<'_>, operation: &Operation) {
    let (kind, block) = match operation {
        Operation::Increment { block, .. } => (0, block),
        Operation::Decrement { block, .. } => (1, block),
    };
    w.u8(kind);
    w.put(operation.fingerprint().as_bytes());
    w.u64(block.get());
    w.u32(operation.count());
}

fn operation(r: &mut Reader<'_>) -> Decoded<Operation> {
    let kind = r.u8()?;
    let fingerprint = Fingerprint::from_bytes(r.array()?);
    let (block, count) = (block(r)?, r.u32()?);
    match kind {
        0 => Ok(Operation::Increment {
            fingerprint,
            block,
            count,
        }),
        1 => Ok(Operation::Decrement {
            fingerprint,
            block,
            count,
        }),
        _ => Err(r.fault("no such operation")),
    }
}

fn put_outcome(w: &mut Writer<'_>, outcome: &Outcome) {
    match outcome {
        Outcome::Registered => w.u8(0),
        Outcome::Hit { block } => {
            w.u8(1);
            w.u64(block.get());
        }
        Outcome::Remaining(left) => {
            w.u8(2);
            w.u64(*left);
        }
        Outcome::Freed => w.u8(3),
        Outcome::Unknown => w.u8(4),
    }
}

fn outcome(r: &mut Reader<'_>) -> Decoded<Outcome> {
    match r.u8()? {
        0 => Ok(Outcome::Registered),
        1 => Ok(Outcome::Hit { block: block(r)? }),
        2 => Ok(Outcome::Remaining(r.u64()?)),
        3 => Ok(Outcome::Freed),
        4 => Ok(Outcome::Unknown),
        _ => Err(r.fault("no such outcome")),
    }
}

/// Sends a frame.
///
/// # Errors
/// If it is too long, or the peer has gone.
pub(super) fn send(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len())
        .ok()
        .filter(|len| *len <= FRAME_BYTES_MAX);
    let len = len.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a frame is too long"))?;
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend_from_slice(bytes);
    to.write_all(&frame)
}

/// Receives a frame; `None` if the peer has closed the connection before it.
///
/// # Errors
/// If the frame is too long or cut off, or the connection failed.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

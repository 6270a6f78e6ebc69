//! Keys and values of the index on disk: `docs/volumes-index.md` has them as tables.
//!
//! Keys are big-endian, so that the database's order is the order of buckets and fingerprints.
//! Values are as in `docs/format.md`. A decoder takes any bytes without panicking, and accepts
//! exactly what the encoder writes (INV-8).

use format::FormatError;
use format::wire::{Reader, Writer};
use types::{BatchSequence, BlockNumber, VolumeId};

use crate::client::{AppliedBatch, ClientRow};
use crate::rules::{Counted, OPERATIONS_MAX};
use crate::{Bucket, BucketStatistics, Outcome, RowKey};

type Result<T> = std::result::Result<T, FormatError>;

/// The first bytes of keys that are not rows: the number after the last bucket.
const NOT_A_ROW: [u8; 2] = u16::MAX.to_be_bytes();
const CLIENT: u8 = 0;
const SUMS: u8 = 1;

/// Bytes of a row's key: the bucket and the content's key.
pub(crate) const ROW_KEY_BYTES: usize = 2 + RowKey::BYTES;

pub(crate) fn row_key(bucket: Bucket, key: &RowKey) -> [u8; ROW_KEY_BYTES] {
    let mut bytes = [0; ROW_KEY_BYTES];
    bytes[..2].copy_from_slice(&bucket.get().to_be_bytes());
    bytes[2..].copy_from_slice(key.as_bytes());
    bytes
}

pub(crate) fn bucket_prefix(bucket: Bucket) -> [u8; 2] {
    bucket.get().to_be_bytes()
}

pub(crate) fn read_row_key(bytes: &[u8]) -> Result<RowKey> {
    let mut reader = Reader::new("a row's key", bytes);
    reader.take(2)?;
    let key = RowKey::from_bytes(reader.array()?);
    reader.finish()?;
    Ok(key)
}

/// The prefix of the rows of all clients.
pub(crate) fn clients_prefix() -> [u8; 3] {
    [NOT_A_ROW[0], NOT_A_ROW[1], CLIENT]
}

pub(crate) fn read_client_key(bytes: &[u8]) -> Result<(VolumeId, Bucket)> {
    let mut reader = Reader::new("a client's key", bytes);
    reader.take(3)?;
    let client = VolumeId::new(u32::from_be_bytes(reader.array()?));
    let client = client.map_err(|_| reader.fault("no such volume"))?;
    let number = u16::from_be_bytes(reader.array()?);
    let bucket = Bucket::new(number).ok_or(reader.fault("no such bucket"))?;
    reader.finish()?;
    Ok((client, bucket))
}

/// The prefix of a client's rows in all buckets.
pub(crate) fn client_prefix(client: VolumeId) -> Vec<u8> {
    let mut bytes = clients_prefix().to_vec();
    bytes.extend_from_slice(&client.get().to_be_bytes());
    bytes
}

pub(crate) fn client_key(bucket: Bucket, client: VolumeId) -> Vec<u8> {
    let mut bytes = client_prefix(client);
    bytes.extend_from_slice(&bucket.get().to_be_bytes());
    bytes
}

/// The prefix of the sums of all buckets.
pub(crate) fn sums_prefix() -> [u8; 3] {
    [NOT_A_ROW[0], NOT_A_ROW[1], SUMS]
}

pub(crate) fn sums_key(bucket: Bucket) -> Vec<u8> {
    let mut bytes = sums_prefix().to_vec();
    bytes.extend_from_slice(&bucket.get().to_be_bytes());
    bytes
}

pub(crate) fn read_sums_key(bytes: &[u8]) -> Result<Bucket> {
    let mut reader = Reader::new("a key of sums", bytes);
    reader.take(3)?;
    let number = u16::from_be_bytes(reader.array()?);
    let bucket = Bucket::new(number).ok_or(reader.fault("no such bucket"))?;
    reader.finish()?;
    Ok(bucket)
}

pub(crate) fn encode_row(row: &Counted) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(7);
    put_block(&mut bytes, row.block);
    Writer::new(&mut bytes).varint(row.references);
    bytes
}

pub(crate) fn decode_row(bytes: &[u8]) -> Result<Counted> {
    let mut reader = Reader::new("a row", bytes);
    let block = read_block(&mut reader)?;
    let references = reader.varint()?;
    if references == 0 {
        return Err(reader.fault("a row has no reference"));
    }
    reader.finish()?;
    Ok(Counted { block, references })
}

pub(crate) fn encode_sums(sums: &BucketStatistics) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.varint(sums.rows);
    writer.varint(sums.references);
    bytes
}

pub(crate) fn decode_sums(bucket: Bucket, bytes: &[u8]) -> Result<BucketStatistics> {
    let mut reader = Reader::new("sums of a bucket", bytes);
    let sums = BucketStatistics {
        bucket,
        rows: reader.varint()?,
        references: reader.varint()?,
    };
    reader.finish()?;
    Ok(sums)
}

pub(crate) fn encode_client(row: &ClientRow) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.u64(row.last.get());
    writer.flag(row.batch.is_some());
    if let Some(batch) = &row.batch {
        writer.put(&batch.digest);
        writer.count(batch.outcomes.len());
        for outcome in &batch.outcomes {
            encode_outcome(&mut bytes, outcome);
        }
    }
    bytes
}

pub(crate) fn decode_client(bytes: &[u8]) -> Result<ClientRow> {
    let mut reader = Reader::new("a client's row", bytes);
    let last = reader.u64()?;
    let last = BatchSequence::new(last).map_err(|_| reader.fault("no such batch"))?;
    let batch = if reader.flag()? {
        let digest = reader.array()?;
        let outcomes = reader.list(1, decode_outcome)?;
        if outcomes.len() > OPERATIONS_MAX {
            return Err(reader.fault("a batch has too many outcomes"));
        }
        Some(AppliedBatch { digest, outcomes })
    } else {
        None
    };
    reader.finish()?;
    Ok(ClientRow { last, batch })
}

/// The last sequence of a client's row, without its outcomes.
pub(crate) fn decode_last_sequence(bytes: &[u8]) -> Result<BatchSequence> {
    let mut reader = Reader::new("a client's row", bytes);
    let last = reader.u64()?;
    BatchSequence::new(last).map_err(|_| reader.fault("no such batch"))
}

fn encode_outcome(bytes: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Registered => bytes.push(0),
        Outcome::Hit { block } => {
            bytes.push(1);
            put_block(bytes, *block);
        }
        Outcome::Remaining(references) => {
            bytes.push(2);
            Writer::new(bytes).varint(*references);
        }
        Outcome::Freed => bytes.push(3),
        Outcome::Unknown => bytes.push(4),
    }
}

fn decode_outcome(reader: &mut Reader<'_>) -> Result<Outcome> {
    let unknown = reader.fault("unknown outcome");
    match reader.u8()? {
        0 => Ok(Outcome::Registered),
        1 => Ok(Outcome::Hit {
            block: read_block(reader)?,
        }),
        2 => match reader.varint()? {
            0 => Err(unknown),
            references => Ok(Outcome::Remaining(references)),
        },
        3 => Ok(Outcome::Freed),
        4 => Ok(Outcome::Unknown),
        _ => Err(unknown),
    }
}

/// A block's number in 5 bytes.
fn put_block(bytes: &mut Vec<u8>, block: BlockNumber) {
    bytes.extend_from_slice(&block.get().to_le_bytes()[..5]);
}

fn read_block(reader: &mut Reader<'_>) -> Result<BlockNumber> {
    let mut number = [0; 8];
    number[..5].copy_from_slice(reader.take(5)?);
    BlockNumber::new(u64::from_le_bytes(number)).map_err(|_| reader.fault("no such block"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(number: u64) -> BlockNumber {
        BlockNumber::new(number).unwrap()
    }

    #[test]
    fn rows_have_the_bytes_of_the_page() {
        let row = Counted {
            block: block(0x01_0203_0405),
            references: 300,
        };
        assert_eq!(encode_row(&row), [5, 4, 3, 2, 1, 0xac, 2]);
        let bucket = Bucket::new(0x0102).unwrap();
        let key = row_key(bucket, &RowKey::from_bytes([9; RowKey::BYTES]));
        assert_eq!(key[..2], [1, 2]);
        assert_eq!(key[2..], [9; 18]);
        let client = VolumeId::new(0x0a0b_0c0d).unwrap();
        assert_eq!(
            client_key(bucket, client),
            [255, 255, 0, 0x0a, 0x0b, 0x0c, 0x0d, 1, 2]
        );
        assert_eq!(sums_key(bucket), [255, 255, 1, 1, 2]);
    }

    #[test]
    fn a_client_row_has_the_bytes_of_the_page() {
        let outcomes = vec![
            Outcome::Registered,
            Outcome::Hit { block: block(7) },
            Outcome::Remaining(200),
            Outcome::Freed,
            Outcome::Unknown,
        ];
        let row = ClientRow {
            last: BatchSequence::new(3).unwrap(),
            batch: Some(AppliedBatch {
                digest: [8; 16],
                outcomes,
            }),
        };
        let mut wanted = vec![3, 0, 0, 0, 0, 0, 0, 0, 1];
        wanted.extend([8; 16]);
        wanted.extend([5, 0, 1, 7, 0, 0, 0, 0, 2, 200, 1, 3, 4]);
        assert_eq!(encode_client(&row), wanted);
        assert_eq!(decode_client(&wanted).unwrap(), row);
        assert_eq!(decode_last_sequence(&wanted).unwrap(), row.last);
    }

    #[test]
    fn a_row_without_references_is_refused() {
        assert!(decode_row(&[1, 0, 0, 0, 0, 0]).is_err());
        assert!(decode_row(&[1, 0, 0, 0, 0, 1, 0]).is_err());
        assert!(decode_row(&[1, 0, 0, 0, 0, 1]).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_decoded_is_encoded_again(bytes in proptest::collection::vec(0u8..6, 0..60)) {
            if let Ok(row) = decode_row(&bytes) {
                prop_assert_eq!(encode_row(&row), bytes.clone());
            }
            if let Ok(row) = decode_client(&bytes) {
                prop_assert_eq!(encode_client(&row), bytes.clone());
            }
            if let Ok(sums) = decode_sums(Bucket::FIRST, &bytes) {
                prop_assert_eq!(encode_sums(&sums), bytes);
            }
        }
    }
}

//! How fast a place is: the median of small operations, and the rates of large objects.

use std::time::Duration;

use env::{Clock, Storage, StorageError};
use types::ByteLen;

use super::named::name;
use super::noise::noise;

/// Times that each small operation is made.
const ROUNDS: usize = 9;
const SMALL_BYTES: usize = 1 << 10;
const LARGE_BYTES: usize = 8 << 20;

/// The time of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaceSpeed {
    /// A stable word: `create`, `sync`, `read`, `list`, `look_up`, `delete` of objects of 1 KiB,
    /// `write_large` and `read_large` of one of 8 MiB.
    pub operation: &'static str,
    /// How often it was made.
    pub count: u64,
    /// The median of how long it took.
    pub median: Duration,
    /// Bytes that it moved.
    pub bytes: u64,
}

impl PlaceSpeed {
    /// Bytes a second, of a large object.
    #[must_use]
    pub fn rate(&self) -> u64 {
        let nanos = self.median.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// Measures, and leaves one large object.
///
/// # Errors
/// Those of the storage.
pub(super) fn measure(
    storage: &dyn Storage,
    clock: &dyn Clock,
) -> std::result::Result<Vec<PlaceSpeed>, StorageError> {
    let mut speeds = Vec::new();
    let mut timed = |operation, count: usize, bytes: usize, make: &mut dyn FnMut(usize) -> _| {
        let mut times = Vec::with_capacity(count);
        for round in 0..count {
            let began = clock.monotonic();
            let done: std::result::Result<(), StorageError> = make(round);
            done?;
            times.push(clock.monotonic().saturating_sub(began));
        }
        times.sort_unstable();
        speeds.push(PlaceSpeed {
            operation,
            count: count as u64,
            median: times[count / 2],
            bytes: bytes as u64,
        });
        Ok::<_, StorageError>(())
    };
    let object = |round: usize| name(&format!("speed/{round}"));
    let small = noise(20, SMALL_BYTES);
    timed("create", ROUNDS, SMALL_BYTES, &mut |round| {
        storage.put(&object(round), &[&small])
    })?;
    timed("sync", ROUNDS, SMALL_BYTES, &mut |round| {
        storage.put(&name(&format!("speed-sync/{round}")), &[&small])?;
        storage.barrier()
    })?;
    timed("read", ROUNDS, SMALL_BYTES, &mut |round| {
        storage.get(&object(round)).map(drop)
    })?;
    timed("look_up", ROUNDS, 0, &mut |round| {
        storage.head(&object(round)).map(drop)
    })?;
    timed("list", ROUNDS, 0, &mut |_| storage.list("speed").map(drop))?;
    timed("delete", ROUNDS, 0, &mut |round| storage.delete(&object(round)))?;
    let large = noise(21, LARGE_BYTES);
    timed("write_large", 1, LARGE_BYTES, &mut |_| {
        storage.put(&name("speed-large/0"), &[&large])?;
        storage.barrier()
    })?;
    timed("read_large", 1, LARGE_BYTES, &mut |_| {
        storage.get(&name("speed-large/0")).map(drop)
    })?;
    Ok(speeds)
}

/// A line of all.
pub(super) fn in_words(speeds: &[PlaceSpeed]) -> String {
    let one = |speed: &PlaceSpeed| {
        if speed.operation.ends_with("_large") {
            let verb = speed.operation.trim_end_matches("_large");
            return format!("{verb} {}/s", ByteLen::new(speed.rate()));
        }
        let millis = speed.median.as_secs_f64() * 1e3;
        format!("{} {millis:.2} ms", speed.operation.replace('_', " "))
    };
    let all: Vec<String> = speeds.iter().map(one).collect();
    all.join(", ")
}

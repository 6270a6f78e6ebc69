//! Memory: patterns are written, and read twice through the hash.
//!
//! Each core has a share of the memory, so that every core is used. A second pass writes the
//! complement, so that each bit is once 0 and once 1.

use std::num::NonZero;
use std::thread;

use crypto::{DomainKey, Fingerprinter};
use types::{ByteLen, Fingerprint};

use super::noise::fill;
use super::{Done, MEMORY, Stop};
use crate::monitor::Monitor;

const BLOCK_BYTES: usize = 1 << 20;

/// Is called with the number of a read and the memory before it. A test damages the memory here.
pub(super) type Between<'a> = dyn Fn(usize, &mut [u8]) + Sync + 'a;

/// Tests so much memory, at least a block for each core.
///
/// # Errors
/// What was read is not what was written; the memory is not to be had; somebody asked to stop.
pub(super) fn check(bytes: u64, monitor: &Monitor, between: &Between<'_>) -> Done {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = usize::try_from(bytes).unwrap_or(usize::MAX) / cores / BLOCK_BYTES * BLOCK_BYTES;
    let share = share.max(BLOCK_BYTES);
    let shares = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || check_share(core, share, monitor, between)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    shares
        .into_iter()
        .collect::<std::result::Result<Vec<()>, Stop>>()?;
    let on = match cores {
        1 => "one core".to_owned(),
        cores => format!("{cores} cores"),
    };
    Ok(format!(
        "2 patterns in {}, each read twice, on {on}",
        ByteLen::new((share * cores) as u64)
    ))
}

fn check_share(
    core: usize,
    len: usize,
    monitor: &Monitor,
    between: &Between<'_>,
) -> std::result::Result<(), Stop> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(len).is_err() {
        let why = format!("{} are not to be had", ByteLen::new(len as u64));
        return Err(Stop::failed(why, "name less with --memory"));
    }
    memory.resize(len, 0_u8);
    let printer = Fingerprinter::new(&DomainKey::from_bytes([1; 32]));
    let mut expected = vec![0; BLOCK_BYTES];
    let seed = |block: usize| (core as u64) << 40 | block as u64;
    for mask in [0, u64::MAX] {
        let mut prints: Vec<Fingerprint> = Vec::new();
        for (number, block) in memory.chunks_mut(BLOCK_BYTES).enumerate() {
            fill(seed(number), mask, block);
            fill(seed(number), mask, &mut expected);
            prints.push(printer.chunk(&expected));
            if monitor.is_cancelled() {
                return Err(Stop::Interrupted);
            }
        }
        for read in 0..2 {
            between(read, &mut memory);
            for (number, block) in memory.chunks(BLOCK_BYTES).enumerate() {
                if monitor.is_cancelled() {
                    return Err(Stop::Interrupted);
                }
                if printer.chunk(block) == prints[number] {
                    continue;
                }
                fill(seed(number), mask, &mut expected);
                return Err(unlike(number, block, &expected));
            }
        }
    }
    Ok(())
}

/// Says where a block is not as it was written.
fn unlike(number: usize, found: &[u8], expected: &[u8]) -> Stop {
    let at = found.iter().zip(expected).position(|(found, was)| found != was);
    let what = match at {
        Some(at) => format!(
            "byte {} reads as {:02x}, and {:02x} was written",
            number * BLOCK_BYTES + at,
            found[at],
            expected[at]
        ),
        None => format!("block {number} was hashed wrong once, and reads as it was written now"),
    };
    Stop::failed(what, MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_memory_passes_and_each_flipped_bit_is_named() {
        let monitor = Monitor::default();
        let done = check(3 << 20, &monitor, &|_, _| {}).unwrap();
        assert!(done.contains("each read twice"), "{done}");
        for (in_read, at, bit) in [(0, 0, 1), (1, BLOCK_BYTES - 1, 0x80)] {
            let flip = |read: usize, memory: &mut [u8]| {
                if read == in_read {
                    memory[at] ^= bit;
                }
            };
            match check(1 << 20, &monitor, &flip) {
                Err(Stop::Failed { what, advice }) => {
                    assert!(what.starts_with(&format!("byte {at} reads as")), "{what}");
                    assert_eq!(advice, MEMORY);
                }
                done => panic!("{done:?}"),
            }
        }
    }

    #[test]
    fn a_hash_that_was_wrong_once_is_told_as_such() {
        match unlike(3, &[1, 2], &[1, 2]) {
            Stop::Failed { what, .. } => assert!(what.contains("block 3"), "{what}"),
            stop => panic!("{stop:?}"),
        }
    }
}

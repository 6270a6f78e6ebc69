//! Reading ahead: small reads of an object, one after another, become few requests.
//!
//! A read that begins where the last one of the object ended, or a little after, takes more bytes
//! than it was asked for: twice as many each time. The next reads are answered from these. Objects
//! are created once and never changed, so the bytes stay right while the object exists. They are
//! kept for some seconds only, so that an object that is deleted is missed soon.
//!
//! Large reads pass: their callers read ahead themselves. Many threads may call everything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use types::{ByteRange, ObjectName};

/// Longer reads pass.
const SMALL_BYTES_MAX: u64 = 128 << 10;
/// Bytes between two reads that still follow each other.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// The bytes of the first read that goes ahead, and of the longest.
const AHEAD_BYTES: [u64; 2] = [256 << 10, 2 << 20];
/// Objects that are followed at once. Each may hold the bytes of the longest read (INV-7).
const OBJECTS_MAX: usize = 8;
/// How long bytes count.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Bytes that were read ahead.
#[derive(Debug, Clone)]
struct Window {
    offset: u64,
    bytes: Arc<Vec<u8>>,
    read_at: Instant,
}

#[derive(Debug)]
struct Followed {
    name: ObjectName,
    /// Where the next read is expected.
    next: u64,
    /// How much it then takes.
    ahead: u64,
    window: Option<Window>,
}

/// The answer to a read.
#[derive(Debug)]
pub(super) enum Step {
    /// The bytes are here.
    Kept(Vec<u8>),
    /// Read at least the range, and up to so many bytes from its begin. More than the range is for
    /// [`Ahead::keep`].
    Read(u64),
}

/// The objects that are being read.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The last one is the latest.
    followed: Mutex<Vec<Followed>>,
}

impl Ahead {
    fn followed(&self) -> MutexGuard<'_, Vec<Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do for this read.
    pub(super) fn step(&self, name: &ObjectName, range: ByteRange) -> Step {
        let Some(end) = range.offset.checked_add(range.len) else {
            return Step::Read(range.len);
        };
        if range.len == 0 || range.len > SMALL_BYTES_MAX {
            return Step::Read(range.len);
        }
        let mut followed = self.followed();
        let known = followed.iter().position(|one| one.name == *name);
        let mut one = match known {
            Some(at) => followed.remove(at),
            None => Followed {
                name: name.clone(),
                next: u64::MAX,
                ahead: AHEAD_BYTES[0],
                window: None,
            },
        };
        let kept = one.window.as_ref().and_then(|window| window.bytes_of(range));
        let follows = range
            .offset
            .checked_sub(one.next)
            .is_some_and(|gap| gap <= GAP_BYTES_MAX);
        let step = if let Some(kept) = kept {
            Step::Kept(kept)
        } else if follows {
            let wanted = one.ahead.max(range.len);
            one.ahead = (one.ahead * 2).min(AHEAD_BYTES[1]);
            Step::Read(wanted)
        } else {
            (one.ahead, one.window) = (AHEAD_BYTES[0], None);
            Step::Read(range.len)
        };
        one.next = end;
        if followed.len() >= OBJECTS_MAX {
            followed.remove(0);
        }
        followed.push(one);
        step
    }

    /// Keeps what was read from `offset` on.
    pub(super) fn keep(&self, name: &ObjectName, offset: u64, bytes: Arc<Vec<u8>>) {
        if let Some(one) = self.followed().iter_mut().find(|one| one.name == *name) {
            one.window = Some(Window {
                offset,
                bytes,
                read_at: Instant::now(),
            });
        }
    }

    /// Drops what is kept of an object. Returns whether there was anything.
    pub(super) fn forget(&self, name: &ObjectName) -> bool {
        let mut followed = self.followed();
        let known = followed.iter().position(|one| one.name == *name);
        known.is_some_and(|at| followed.remove(at).window.is_some())
    }
}

impl Window {
    fn bytes_of(&self, range: ByteRange) -> Option<Vec<u8>> {
        if self.read_at.elapsed() > KEPT_FOR {
            return None;
        }
        let begin = usize::try_from(range.offset.checked_sub(self.offset)?).ok()?;
        let end = begin.checked_add(usize::try_from(range.len).ok()?)?;
        Some(self.bytes.get(begin..end)?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, len: u64) -> ByteRange {
        ByteRange { offset, len }
    }

    fn to_read(step: Step) -> Option<u64> {
        match step {
            Step::Read(bytes) => Some(bytes),
            Step::Kept(_) => None,
        }
    }

    #[test]
    fn reads_that_follow_each_other_go_further_each_time() {
        let (ahead, name) = (Ahead::default(), ObjectName::new("data/1").unwrap());
        let object: Vec<u8> = (0..8 << 18).flat_map(|word: u32| word.to_le_bytes()).collect();
        let from = |begin: u64, len: u64| {
            let begin = usize::try_from(begin).unwrap();
            &object[begin..object.len().min(begin + usize::try_from(len).unwrap())]
        };
        let (mut requests, mut at) = (Vec::new(), 72);
        while at + 30_000 <= object.len() as u64 {
            let read = range(at, 30_000);
            match ahead.step(&name, read) {
                Step::Kept(bytes) => assert_eq!(bytes, from(at, 30_000)),
                Step::Read(bytes) => {
                    requests.push(bytes);
                    ahead.keep(&name, at, Arc::new(from(at, bytes).to_vec()));
                }
            }
            at += 30_000;
        }
        let kib = |kib: u64| kib << 10;
        assert_eq!(requests[..5], [30_000, kib(256), kib(512), kib(1024), kib(2048)]);
        assert!(requests.len() <= 8, "{requests:?}");
    }

    #[test]
    fn other_reads_take_what_they_ask_for() {
        let (ahead, name) = (Ahead::default(), ObjectName::new("data/1").unwrap());
        assert_eq!(to_read(ahead.step(&name, range(0, 4096))), Some(4096));
        // Not in order, or too large, or of another object.
        assert_eq!(to_read(ahead.step(&name, range(1 << 20, 4096))), Some(4096));
        assert_eq!(
            to_read(ahead.step(&name, range((1 << 20) + 4096, 1 << 20))),
            Some(1 << 20)
        );
        let other = ObjectName::new("data/2").unwrap();
        assert_eq!(to_read(ahead.step(&other, range((1 << 20) + 4096, 10))), Some(10));
        assert_eq!(
            to_read(ahead.step(&name, range((1 << 20) + 4096, 10))),
            Some(256 << 10)
        );
    }

    #[test]
    fn what_is_forgotten_is_read_again() {
        let (ahead, name) = (Ahead::default(), ObjectName::new("data/1").unwrap());
        ahead.step(&name, range(0, 10));
        assert_eq!(to_read(ahead.step(&name, range(10, 10))), Some(256 << 10));
        ahead.keep(&name, 10, Arc::new(vec![1; 100]));
        assert_eq!(to_read(ahead.step(&name, range(20, 10))), None);
        assert!(ahead.forget(&name) && !ahead.forget(&name));
        assert_eq!(to_read(ahead.step(&name, range(30, 10))), Some(10));
    }
}

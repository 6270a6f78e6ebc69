//! A workload of edits, of one kind or several. It tests chunking.
//!
//! The first backup is a stream of new bytes. Each further backup is the edited stream. The share
//! of each kind of edit is in percent of the stream's bytes. Lengths of edits are exponentially
//! distributed, and their places are uniform. Bytes around an edit stay unchanged.

use simulate::{BackupHead, Extent, SimulateError};

use super::lengths::{Lengths, Maker};
use super::rope::{Edit, Insert, Rope};
use super::{Parts, Workload, check_chunk_bytes, check_percent, check_some};
use crate::generate::files::Share;
use crate::rng::Rng;

/// The workload. Shares are in percent of the bytes of the previous stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Edits {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Bytes of the first backup, without its repetitions.
    pub stream_bytes: u64,
    /// Backups, each of the whole stream.
    pub backups: u32,
    /// Bytes of a chunk on average.
    pub chunk_bytes: u32,
    /// Bytes of an edit on average.
    pub edit_bytes: u64,
    /// Share of newly inserted bytes.
    pub inserted: f64,
    /// Share of deleted bytes.
    pub deleted: f64,
    /// Share of bytes that are overwritten by as many new ones.
    pub overwritten: f64,
    /// Share of bytes that move to another place.
    pub relocated: f64,
    /// Share of bytes that are copied to another place of the stream, in the first backup too.
    pub repeated: f64,
    /// Share of bytes that are overwritten by zeros.
    pub zeroed: f64,
}

impl Default for Edits {
    fn default() -> Self {
        Self {
            seed: 1,
            stream_bytes: 256 << 20,
            backups: 10,
            chunk_bytes: 8192,
            edit_bytes: 64 << 10,
            inserted: 1.0,
            deleted: 2.0,
            overwritten: 1.0,
            relocated: 1.0,
            repeated: 1.0,
            zeroed: 1.0,
        }
    }
}

impl Edits {
    fn check(&self) -> Result<(), SimulateError> {
        check_some(self.stream_bytes, "bytes of the stream")?;
        check_some(self.backups.into(), "backups")?;
        check_some(self.edit_bytes, "bytes of an edit")?;
        check_chunk_bytes(self.chunk_bytes)?;
        check_percent(self.inserted, "share that is inserted")?;
        check_percent(self.deleted, "share that is deleted")?;
        check_percent(self.overwritten, "share that is overwritten")?;
        check_percent(self.relocated, "share that is relocated")?;
        check_percent(self.repeated, "share that is repeated")?;
        check_percent(self.zeroed, "share that is zeroed")
    }

    /// Draws edits up to a share of the stream. `made` receives the place and the length of each
    /// edit.
    fn draw(&self, percent: f64, len: u64, rng: &mut Rng, mut made: impl FnMut(&mut Rng, u64, u64)) {
        let mut left = Share::percent(percent).of(len);
        while left > 0 {
            let bytes = rng.exponential(self.edit_bytes).clamp(1, left);
            left -= bytes;
            let at = rng.below(len - bytes + 1);
            made(rng, at, bytes);
        }
    }

    fn repeat(&self, len: u64, rng: &mut Rng, edits: &mut Vec<Edit>) {
        self.draw(self.repeated, len, rng, |rng, from, bytes| {
            edits.push(Edit {
                at: rng.below(len + 1),
                delete: 0,
                insert: Insert::Copy(from, bytes),
            });
        });
    }

    fn edits(&self, len: u64, rng: &mut Rng) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut push = |at, delete, insert| edits.push(Edit { at, delete, insert });
        self.draw(self.inserted, len, rng, |_, at, bytes| {
            push(at, 0, Insert::New(bytes));
        });
        self.draw(self.deleted, len, rng, |_, at, bytes| {
            push(at, bytes, Insert::Nothing);
        });
        self.draw(self.overwritten, len, rng, |_, at, bytes| {
            push(at, bytes, Insert::New(bytes));
        });
        self.draw(self.zeroed, len, rng, |_, at, bytes| {
            push(at, bytes, Insert::Zeros(bytes));
        });
        self.draw(self.relocated, len, rng, |rng, from, bytes| {
            push(from, bytes, Insert::Nothing);
            push(rng.below(len + 1), 0, Insert::Copy(from, bytes));
        });
        self.repeat(len, rng, &mut edits);
        edits
    }
}

impl Workload for Edits {
    fn name(&self) -> &'static str {
        "edits"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        self.check()?;
        let mut maker = Maker::new(Lengths::Content(self.chunk_bytes), Rng::new(self.seed, 2), 0);
        let mut rng = Rng::new(self.seed, 3);
        let mut rope = Rope::new(self.stream_bytes, &mut maker);
        for n in 1..=self.backups {
            let mut edits = Vec::new();
            if n == 1 {
                self.repeat(rope.len(), &mut rng, &mut edits);
            } else {
                edits = self.edits(rope.len(), &mut rng);
            }
            rope.edit(&mut edits, &mut maker);
            out.begin(&BackupHead {
                name: format!("{}-{n:03}", self.name()),
                extent: Extent::Full,
            })?;
            rope.say(self.chunk_bytes / 4, 4 * self.chunk_bytes, out)?;
            out.end()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::generate::tests::Seen;
    use simulate::Chunk;

    const BYTES: u64 = 40_000_000;

    fn none() -> Edits {
        Edits {
            seed: 9,
            stream_bytes: BYTES,
            backups: 2,
            inserted: 0.0,
            deleted: 0.0,
            overwritten: 0.0,
            relocated: 0.0,
            repeated: 0.0,
            zeroed: 0.0,
            ..Edits::default()
        }
    }

    fn bytes<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> u64 {
        chunks.into_iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    struct Change {
        first: Vec<Chunk>,
        second: Vec<Chunk>,
        /// Bytes of the second backup that the first does not have.
        new: u64,
    }

    fn change(mut workload: Edits) -> Change {
        let mut seen = Seen::of(&mut workload).0.into_iter().map(|(_, chunks)| chunks);
        let (first, second) = (seen.next().unwrap(), seen.next().unwrap());
        let known: HashSet<_> = first.iter().map(|chunk| chunk.fingerprint).collect();
        let new = second.iter().filter(|chunk| !known.contains(&chunk.fingerprint));
        let new = bytes(new);
        Change { first, second, new }
    }

    /// New bytes of edits with a share of 5 %, each of which cuts so many chunks: the rest of a cut
    /// chunk is new. A cut chunk is longer than average: 12,800 bytes where the mean of all is
    /// 8192.
    fn edges(chunks: u64) -> u64 {
        BYTES / 20 / none().edit_bytes * chunks * 12_800
    }

    #[track_caller]
    fn assert_near(found: u64, expected: u64) {
        assert!(found.abs_diff(expected) < expected / 5, "{found}, not {expected}");
    }

    #[test]
    fn nothing_changes_without_edits() {
        let change = change(none());
        assert_eq!(change.first, change.second);
        let mean = BYTES / change.first.len() as u64;
        assert!((7000..8800).contains(&mean), "{mean}");
    }

    #[test]
    fn insertions_and_deletions_have_their_shares() {
        let inserted = change(Edits {
            inserted: 5.0,
            ..none()
        });
        assert_eq!(bytes(&inserted.second), BYTES / 20 * 21);
        assert_near(inserted.new, BYTES / 20 + edges(1));
        let deleted = change(Edits {
            deleted: 5.0,
            ..none()
        });
        assert_near(BYTES - bytes(&deleted.second), BYTES / 20);
        assert_near(deleted.new, edges(1));
    }

    #[test]
    fn overwriting_and_zeroing_keep_the_length() {
        let overwritten = change(Edits {
            overwritten: 5.0,
            ..none()
        });
        assert_near(overwritten.new, BYTES / 20 + edges(1));
        let zeroed = change(Edits {
            zeroed: 5.0,
            ..none()
        });
        let zeros = zeroed.second.iter().filter(|chunk| chunk.fingerprint.is_none());
        // Zeros in a chunk with other data do not count.
        let zeros = bytes(zeros);
        assert!((BYTES / 40..BYTES / 20).contains(&zeros), "{zeros}");
        for change in [overwritten, zeroed] {
            // Overlapping edits take effect one after another.
            assert!(bytes(&change.second).abs_diff(BYTES) < BYTES / 200);
        }
    }

    #[test]
    fn relocated_data_appears_at_another_place() {
        let change = change(Edits {
            relocated: 5.0,
            ..none()
        });
        assert!(bytes(&change.second).abs_diff(BYTES) < BYTES / 200);
        assert_near(change.new, edges(3));
        let places: HashMap<_, _> = (change.first.iter().enumerate())
            .map(|(n, chunk)| (chunk.fingerprint, n))
            .collect();
        let places: Vec<_> = (change.second.iter())
            .filter_map(|chunk| places.get(&chunk.fingerprint))
            .collect();
        let back = places.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
        // The order of chunks jumps to the moved bytes, and back from them. One of both jumps goes
        // backwards.
        assert_near(back, BYTES / 20 / none().edit_bytes);
    }

    #[test]
    fn repeated_data_is_in_each_backup_twice() {
        let change = change(Edits {
            repeated: 5.0,
            ..none()
        });
        for (chunks, share) in [(&change.first, 1), (&change.second, 2)] {
            let mut known = HashSet::new();
            let again = chunks.iter().filter(|chunk| !known.insert(chunk.fingerprint));
            let again = bytes(again);
            let all = BYTES / 20 * share;
            assert!((all * 7 / 10..all * 11 / 10).contains(&again), "{again} of {all}");
        }
    }

    #[test]
    fn a_stream_can_shrink_to_nothing_and_shares_are_percentages() {
        let gone = Seen::of(&mut Edits {
            stream_bytes: 1,
            deleted: 100.0,
            backups: 3,
            ..none()
        });
        let lens: Vec<_> = gone.0.iter().map(|(_, chunks)| bytes(chunks)).collect();
        assert_eq!(lens, [1, 0, 0]);
        let replay = |edits: Edits| Workload::replay(&edits, &mut Seen::default());
        for wrong in [
            Edits {
                inserted: 101.0,
                ..none()
            },
            Edits {
                zeroed: f64::NAN,
                ..none()
            },
            Edits { backups: 0, ..none() },
        ] {
            assert!(matches!(replay(wrong), Err(SimulateError::Settings(_))));
        }
    }
}

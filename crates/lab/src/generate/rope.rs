//! A stream under edits. An insertion, deletion or move leaves the bytes around it unchanged.
//!
//! Its chunks are those that content-defined chunking would find. A content that ends a chunk does
//! so wherever it is moved to, unless the chunk is too short there or the content's last bytes are
//! gone. So an edit changes the chunk that it hits, and sometimes the next one.

use simulate::SimulateError;

use super::Parts;
use super::content::Slice;
use super::lengths::Maker;

/// The bytes before a boundary that decide it: the window of the gear hash.
const WINDOW_BYTES: u32 = 64;
/// The longest slice of zeros, so that sums of lengths fit into 31 bits.
const ZEROS_BYTES_MAX: u32 = 1 << 20;

/// The bytes that an edit inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    /// Nothing.
    Nothing,
    /// So many new bytes.
    New(u64),
    /// So many zeros.
    Zeros(u64),
    /// Bytes of the stream as it was before the round of edits: the start, and the length.
    Copy(u64, u64),
}

/// An edit: at a place, it deletes some bytes and inserts others. Places refer to the stream before
/// all edits of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The place.
    pub(crate) at: u64,
    /// The number of deleted bytes.
    pub(crate) delete: u64,
    /// The inserted bytes.
    pub(crate) insert: Insert,
}

/// The current stream.
#[derive(Debug, Default)]
pub(crate) struct Rope {
    slices: Vec<Slice>,
    /// The end of each slice.
    ends: Vec<u64>,
}

impl Rope {
    /// A stream of new bytes.
    pub(crate) fn new(bytes: u64, maker: &mut Maker) -> Self {
        let mut slices = Vec::new();
        maker.insert(bytes, &mut slices);
        let mut rope = Self::default();
        slices.into_iter().for_each(|slice| rope.push(slice));
        rope
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn push(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.ends.push(self.len() + u64::from(slice.len()));
            self.slices.push(slice);
        }
    }

    /// Appends a range of another stream.
    fn copy(&mut self, from: &Self, begin: u64, end: u64) {
        let end = end.min(from.len());
        let (mut at, mut n) = (begin, from.ends.partition_point(|end| *end <= begin));
        while at < end {
            let slice = from.slices[n];
            let first = from.ends[n] - u64::from(slice.len());
            let until = end.min(from.ends[n]);
            let within = |place: u64| u32::try_from(place - first).expect("it lies in the slice");
            self.push(slice.part(within(at)..within(until)));
            (at, n) = (until, n + 1);
        }
    }

    /// Makes a round of edits. Where several edits overlap, each does what the earlier ones left.
    pub(crate) fn edit(&mut self, edits: &mut [Edit], maker: &mut Maker) {
        edits.sort_by_key(|edit| edit.at);
        let mut next = Self {
            slices: Vec::with_capacity(self.slices.len() + 3 * edits.len()),
            ends: Vec::with_capacity(self.slices.len() + 3 * edits.len()),
        };
        let mut made = Vec::new();
        let mut at = 0;
        for edit in edits {
            if edit.at > at {
                next.copy(self, at, edit.at);
                at = edit.at;
            }
            match edit.insert {
                Insert::Nothing => {}
                Insert::New(bytes) => {
                    maker.insert(bytes, &mut made);
                    made.drain(..).for_each(|slice| next.push(slice));
                }
                Insert::Zeros(bytes) => {
                    let mut left = bytes;
                    while left > 0 {
                        let len = left.min(u64::from(ZEROS_BYTES_MAX));
                        next.push(Slice::zeros(u32::try_from(len).expect("at most a megabyte")));
                        left -= len;
                    }
                }
                Insert::Copy(from, len) => next.copy(self, from, from + len),
            }
            at = at.max(edit.at + edit.delete).min(self.len());
        }
        next.copy(self, at, self.len());
        *self = next;
    }

    /// Passes the stream on as chunks of at least `least` and at most `most` bytes. The last one
    /// may be shorter.
    pub(crate) fn say(&self, least: u32, most: u32, out: &mut dyn Parts) -> Result<(), SimulateError> {
        let mut held: Vec<Slice> = Vec::new();
        let mut bytes = 0;
        let cut = |held: &mut Vec<Slice>, out: &mut dyn Parts| {
            let said = match held.as_slice() {
                [] => Ok(()),
                several => out.chunk(several),
            };
            held.clear();
            said
        };
        for slice in &self.slices {
            let mut slice = *slice;
            while bytes + slice.len() >= most {
                let (first, rest) = (slice.part(0..most - bytes), slice.part(most - bytes..slice.len()));
                held.push(first);
                cut(&mut held, out)?;
                (slice, bytes) = (rest, 0);
            }
            if slice.is_empty() {
                continue;
            }
            held.push(slice);
            bytes += slice.len();
            if slice.ends() && slice.len() >= WINDOW_BYTES && bytes >= least {
                cut(&mut held, out)?;
                bytes = 0;
            }
        }
        cut(&mut held, out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generate::lengths::Lengths;
    use crate::generate::{Compression, Workload, write};
    use crate::rng::Rng;
    use simulate::{BackupHead, Extent};

    const LEN: u64 = 5000;

    fn maker() -> Maker {
        Maker::new(Lengths::Content(256), Rng::new(1, 1), 0)
    }

    /// A workload of one backup: an edited rope.
    struct Edited(Vec<Vec<Edit>>);

    impl Workload for Edited {
        fn name(&self) -> &'static str {
            "edited"
        }
        fn seed(&self) -> u64 {
            1
        }
        fn compression(&self) -> Compression {
            Compression::None
        }
        fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
            let mut maker = maker();
            let mut rope = Rope::new(LEN, &mut maker);
            for round in &self.0 {
                rope.edit(&mut round.clone(), &mut maker);
            }
            out.begin(&BackupHead {
                name: "edited".to_owned(),
                extent: Extent::Full,
            })?;
            rope.say(64, 1024, out)?;
            out.end()
        }
    }

    fn bytes(rounds: &[Vec<Edit>]) -> Vec<u8> {
        let (written, mut lens) = (crate::test_output::TestOutput::default(), Vec::new());
        let told = |len| {
            lens.push(len);
            Ok(())
        };
        write(&Edited(rounds.to_vec()), |_| Ok(written.open()), told).unwrap();
        let last = lens.pop().unwrap_or(1);
        assert!(lens.iter().all(|len| (64..=1024).contains(len)), "{lens:?}");
        assert!((1..=1024).contains(&last));
        written.into_each().remove(0)
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let insert = prop_oneof![
            Just(Insert::Nothing),
            (0..900_u64).prop_map(Insert::Zeros),
            (0..LEN, 0..900_u64).prop_map(|(from, len)| Insert::Copy(from, len)),
        ];
        let edit =
            (0..LEN + 100, 0..900_u64, insert).prop_map(|(at, delete, insert)| Edit { at, delete, insert });
        prop::collection::vec(edit, 0..6)
    }

    /// The same edits on plain bytes.
    fn edited(old: &[u8], edits: &[Edit]) -> Vec<u8> {
        let range = |from: u64, until: u64| {
            let end = usize::try_from(until).unwrap().min(old.len());
            &old[usize::try_from(from).unwrap().min(end)..end]
        };
        let mut sorted = edits.to_vec();
        sorted.sort_by_key(|edit| edit.at);
        let (mut new, mut at) = (Vec::new(), 0);
        for edit in sorted {
            new.extend_from_slice(range(at, edit.at.max(at)));
            at = at.max(edit.at);
            match edit.insert {
                Insert::Nothing | Insert::New(_) => {}
                Insert::Zeros(len) => new.resize(new.len() + usize::try_from(len).unwrap(), 0),
                Insert::Copy(from, len) => new.extend_from_slice(range(from, from + len)),
            }
            at = at.max(edit.at + edit.delete);
        }
        new.extend_from_slice(range(at, u64::MAX));
        new
    }

    proptest! {
        #[test]
        fn edits_are_those_of_bytes(first in edits(), second in edits()) {
            let old = bytes(&[]);
            prop_assert_eq!(old.len() as u64, LEN);
            let once = edited(&old, &first);
            prop_assert!(bytes(std::slice::from_ref(&first)) == once);
            prop_assert!(bytes(&[first, second.clone()]) == edited(&once, &second));
        }
    }

    #[test]
    fn inserted_bytes_are_new() {
        let edit = |insert| {
            vec![Edit {
                at: 1000,
                delete: 500,
                insert,
            }]
        };
        let (old, new) = (bytes(&[]), bytes(&[edit(Insert::New(700))]));
        assert_eq!(new.len() as u64, LEN + 200);
        assert!(new[..1000] == old[..1000] && new[1700..] == old[1500..]);
        assert!(
            new[1000..1700]
                .windows(8)
                .all(|some| !old.windows(8).any(|other| other == some))
        );
    }
}

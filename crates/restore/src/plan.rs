//! Which containers to read, in which order, for which chunks: a pure function of the recipe and a
//! budget.
//!
//! The forward assembly area [Lillibridge 3.3, L5]: the next `window` bytes of the stream are laid
//! out as *spots*; the earliest unfilled one names the container to read, and every spot of the
//! window that needs a chunk of it is filled at once. *Rolling*: filled spots at the front are
//! sent, and as much of the recipe enters behind; a container is read at most once a window.
//! *Fixed*: a window is filled and sent as a whole before the next begins.
//!
//! Other assemblers: [`crate::lru`] keeps whole containers and drops the least recently used one;
//! [`crate::belady`] keeps single chunks and drops the one that is needed last.
//!
//! No I/O, no clocks; the same references and window give the same steps.

use std::collections::{HashMap, VecDeque};

use types::{ChunkLocation, ContainerId, Fingerprint, Slot};

/// What a spot costs to keep, whatever its length: a window of the chunks of tiny files holds no
/// more spots than memory for it.
pub(crate) const SPOT_BYTES: u64 = 256;
/// So many spots are always held.
const SPOTS_MIN: u64 = 1024;

/// One reference of a stream: where its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The chunk; `None` for a run of zeros.
    pub chunk: Option<ChunkPart>,
    /// Bytes of the stream, at least 1.
    pub len: u64,
}

/// A chunk, of which `len` bytes from `skip` on are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// Where the chunk lies.
    pub location: ChunkLocation,
    /// What its fingerprint must be.
    pub fingerprint: Fingerprint,
    /// The whole chunk's length.
    pub chunk_len: u64,
    /// Where in the chunk the wanted bytes begin.
    pub skip: u64,
}

/// How the assembly area moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assembly {
    /// As a ring: space that is sent out is laid out anew at once.
    Rolling,
    /// A window at a time.
    Fixed,
    /// No area: whole containers are kept, and the least recently used one is dropped first
    /// [Lillibridge 4, the baseline; L2].
    Lru,
    /// No area: chunks are kept for their next use, which the recipe tells [`crate::belady`; L9].
    LookAhead,
}

/// Says which container is read next, and what is filled from it. What it promises: every reference
/// is a spot, in order and once; every spot that needs a chunk is filled once, by a step or from a
/// kept chunk, and the spots that came before are filled when [`Step::filled_below`] says so.
pub trait Assembler {
    /// What the references fail with.
    type Error;

    /// The next spots or step; `None` at the end.
    ///
    /// # Errors
    /// Those of the references: the recipe is damaged from there on.
    fn next_action(&mut self) -> Result<Option<Next>, Self::Error>;
}

/// Where a step's chunks come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// The container is read, as far as it is needed.
    Storage,
    /// The whole container is read and kept; those that go for it are named.
    StorageToKeep {
        /// Not needed before they are read again.
        evicted: Vec<ContainerId>,
    },
    /// It is kept since an earlier step.
    Kept,
}

/// Takes chunks from one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The container.
    pub container: ContainerId,
    /// Whether it is read for that.
    pub from: From,
    /// The chunks to take from it and the spots they fill, in stream order; a chunk that fills
    /// several spots stands several times. Those to keep come after.
    pub fills: Vec<Fill>,
    /// All spots below this number are filled once this step is done: they can be sent out.
    pub filled_below: u64,
}

/// What a chunk is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The spot of that number, counted from the stream's beginning.
    Spot(u64),
    /// Spots later on: the whole chunk is kept by that number.
    Kept(u64),
}

/// A place and what fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// The place.
    pub place: Place,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes, from `part.skip` on.
    pub len: u64,
}

/// Spots that kept chunks fill, and chunks that go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// In stream order. What keeps the chunk may be a step that is told after them.
    pub uses: Vec<Use>,
    /// Numbers of kept chunks that go before their next use, after all their uses that were told so
    /// far.
    pub evicted: Vec<u64>,
}

/// A spot that a kept chunk fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The spot's number.
    pub spot: u64,
    /// What the chunk is kept by.
    pub number: u64,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes, from `part.skip` on.
    pub len: u64,
    /// The chunk is dropped after it.
    pub is_last: bool,
}

impl Fill {
    /// The spot's number, where it is for one.
    #[must_use]
    pub const fn spot(&self) -> Option<u64> {
        match self.place {
            Place::Spot(spot) => Some(spot),
            Place::Kept(_) => None,
        }
    }

    /// The chunk's slot.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        self.part.location.slot
    }
}

impl Step {
    /// Whether the container is read.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.from != From::Kept
    }
}

/// The forward assembly area: plans step by step, reading references only as far as the window
/// reaches.
#[derive(Debug)]
pub struct Planner<I> {
    references: I,
    assembly: Assembly,
    window_bytes: u64,
    spots: VecDeque<Spot>,
    first_spot: u64,
    laid_out_bytes: u64,
    by_container: HashMap<ContainerId, VecDeque<u64>>,
}

#[derive(Debug)]
struct Spot {
    reference: Reference,
    filled: bool,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A container to read. The spots' references came with [`Next::Spots`] before.
    Step(Step),
    /// Spots that entered the area, in order from the number of those before.
    Spots(Vec<Reference>),
    /// Spots, told before, that kept chunks fill.
    Uses(Uses),
}

impl<I, E> Planner<I>
where
    I: Iterator<Item = Result<Reference, E>>,
{
    /// Plans the restore of a stream with an area of `window_bytes`.
    pub fn new(references: I, assembly: Assembly, window_bytes: u64) -> Self {
        Self {
            references,
            assembly,
            window_bytes: window_bytes.max(1),
            spots: VecDeque::new(),
            first_spot: 0,
            laid_out_bytes: 0,
            by_container: HashMap::new(),
        }
    }

    fn lay_out(&mut self) -> Result<Vec<Reference>, E> {
        let mut entered = Vec::new();
        let spots_max = (self.window_bytes / SPOT_BYTES).max(SPOTS_MIN);
        while self.laid_out_bytes < self.window_bytes && (self.spots.len() as u64) < spots_max {
            let Some(reference) = self.references.next().transpose()? else {
                break;
            };
            let number = self.first_spot + self.spots.len() as u64;
            if let Some(part) = reference.chunk {
                // Zeros take no room: nothing is assembled for them.
                self.laid_out_bytes += reference.len;
                self.by_container
                    .entry(part.location.container)
                    .or_default()
                    .push_back(number);
            }
            self.spots.push_back(Spot {
                reference,
                filled: reference.chunk.is_none(),
            });
            entered.push(reference);
        }
        Ok(entered)
    }

    fn step(&mut self, container: ContainerId) -> Step {
        let numbers = self.by_container.remove(&container).unwrap_or_default();
        let mut fills = Vec::with_capacity(numbers.len());
        for number in numbers {
            let index = usize::try_from(number - self.first_spot).expect("a spot of the window");
            let spot = &mut self.spots[index];
            let part = spot.reference.chunk.expect("only chunks are listed");
            spot.filled = true;
            fills.push(Fill {
                place: Place::Spot(number),
                part,
                len: spot.reference.len,
            });
        }
        self.retire();
        Step {
            container,
            from: From::Storage,
            fills,
            filled_below: self.first_spot,
        }
    }

    /// Filled spots leave at the front.
    fn retire(&mut self) {
        while self.spots.front().is_some_and(|spot| spot.filled) {
            let spot = self.spots.pop_front().expect("there is one in front");
            self.first_spot += 1;
            if spot.reference.chunk.is_some() {
                self.laid_out_bytes -= spot.reference.len;
            }
        }
    }
}

impl<I, E> Assembler for Planner<I>
where
    I: Iterator<Item = Result<Reference, E>>,
{
    type Error = E;

    fn next_action(&mut self) -> Result<Option<Next>, E> {
        // Zeros alone may have used up the spots.
        self.retire();
        let may_enter = self.assembly == Assembly::Rolling || self.spots.is_empty();
        if may_enter {
            let entered = self.lay_out()?;
            if !entered.is_empty() {
                return Ok(Some(Next::Spots(entered)));
            }
        }
        self.retire();
        let Some(front) = self.spots.front() else {
            return Ok(None);
        };
        let part = front
            .reference
            .chunk
            .expect("retiring leaves an unfilled chunk in front");
        Ok(Some(Next::Step(self.step(part.location.container))))
    }
}

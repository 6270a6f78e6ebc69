//! Capping: which containers a window of a stream may refer to, or how many [Lillibridge 3.2, 5]
//! (L3, L8, L9).
//!
//! A window is a run of whole segments of at least a given length, or with so many chunks that wait
//! ([`super::waiting`]). Pure: the accounts of one stream, which change only in the order of its
//! segments. Chunks that this session has just stored are not charged, because they are near the
//! window's new chunks.

use std::collections::{HashMap, VecDeque};

use types::ContainerId;

use super::session_chunks::Batch;

/// Windows that an adaptive cap looks back on.
const ADAPTIVE_WINDOWS: usize = 8;

/// How many containers a window may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// Any number.
    None,
    /// This many.
    Fixed(u32),
    /// This many on average over the last windows: a window that needs few leaves the rest to the
    /// next ones, which have up to four times as many [Lillibridge 5].
    Adaptive(u32),
    /// Any number of containers, if each holds at least so many bytes of the window; for a shorter
    /// window, proportionally fewer. A container that holds fewer is not worth its read, and its
    /// chunks are stored again. An unchanged window stays as it is stored.
    Least(u64),
}

/// The bound on fragmentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capping {
    /// The cap.
    pub cap: Cap,
    /// How many earlier windows are remembered: a container that one of them referred to is not
    /// charged again, because a restore still has it in memory [Lillibridge 5].
    pub remembered_windows: u32,
    /// A window's least length. A window of very many tiny chunks is shorter.
    pub window_bytes: u64,
}

impl Capping {
    /// No cap: no found chunk is stored again.
    pub const NONE: Self = Self {
        cap: Cap::None,
        remembered_windows: 0,
        window_bytes: 20_000_000,
    };

    /// For a cap, with the best number of remembered windows: some for a cap by bytes. With fixed
    /// and adaptive caps, remembering costs more than it gains.
    #[must_use]
    pub const fn of(cap: Cap) -> Self {
        let remembered_windows = match cap {
            Cap::Least(_) => 3,
            Cap::None | Cap::Fixed(_) | Cap::Adaptive(_) => 0,
        };
        Self {
            cap,
            remembered_windows,
            ..Self::NONE
        }
    }
}

/// `docs/results/capping-beyond.md` has the figures for this choice: it costs at most 8 % of the
/// deduplication factor.
impl Default for Capping {
    fn default() -> Self {
        Self::of(Cap::Least(56 << 10))
    }
}

/// The target of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// A container from before this session.
    Container(ContainerId),
    /// Chunks of this session, in whichever container.
    Own(Batch),
}

/// The accounts of one stream.
#[derive(Debug)]
pub(crate) struct Accounts {
    capping: Capping,
    /// This window's number.
    window: u64,
    /// Its bytes that were decided, or that wait for its end.
    bytes: u64,
    level: usize,
    charged: usize,
    /// For each holder, the last window that referred to it.
    used: HashMap<Holder, u64>,
    /// The charges of earlier windows.
    before: VecDeque<usize>,
}

impl Accounts {
    pub(crate) fn new(capping: Capping) -> Self {
        let mut accounts = Self {
            capping,
            window: 0,
            bytes: 0,
            level: 0,
            charged: 0,
            used: HashMap::new(),
            before: VecDeque::new(),
        };
        accounts.level = accounts.next_level();
        accounts
    }

    /// Whether there is a cap.
    pub(crate) fn is_capped(&self) -> bool {
        self.capping.cap != Cap::None
    }

    /// How many more containers the window may be charged.
    pub(crate) fn left(&self) -> usize {
        if self.level == usize::MAX {
            return usize::MAX;
        }
        self.level.saturating_sub(self.charged)
    }

    /// How many bytes of the window, whatever its length, a charged container must hold to be
    /// referred to.
    pub(crate) fn least(&self) -> u64 {
        match self.capping.cap {
            Cap::Least(bytes) => bytes,
            Cap::None | Cap::Fixed(_) | Cap::Adaptive(_) => 0,
        }
    }

    /// Like [`Self::least`], when the window's length is known: for a short window at the end of a
    /// stream, it is less.
    pub(crate) fn least_at_end(&self) -> u64 {
        let (bytes, window_bytes) = (self.bytes, self.capping.window_bytes.max(1));
        let share = u128::from(self.least()) * u128::from(bytes.min(window_bytes)) / u128::from(window_bytes);
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Like [`Self::left`], but at most the window's share so far, including a segment of `len`
    /// bytes. A segment may use this much before the rest of its window is known.
    pub(crate) fn left_so_far(&self, len: u64) -> usize {
        if self.level == usize::MAX {
            return usize::MAX;
        }
        let bytes = self.bytes.saturating_add(len).min(self.capping.window_bytes);
        let share =
            (self.level as u128 * u128::from(bytes)).div_ceil(u128::from(self.capping.window_bytes.max(1)));
        usize::try_from(share)
            .unwrap_or(usize::MAX)
            .saturating_sub(self.charged)
    }

    /// Whether a reference to it is free: this window refers to it already, or a remembered one
    /// did.
    pub(crate) fn is_free(&self, holder: Holder) -> bool {
        let remembered = u64::from(self.capping.remembered_windows);
        self.used
            .get(&holder)
            .is_some_and(|window| self.window - window <= remembered)
    }

    /// Records a reference to it.
    pub(crate) fn refer(&mut self, holder: Holder) {
        if !self.is_capped() {
            return;
        }
        if !self.is_free(holder) {
            self.charged += 1;
        }
        self.used.insert(holder, self.window);
    }

    /// Records references to so many unknown containers.
    pub(crate) fn refer_to_some(&mut self, count: usize) {
        self.charged += count;
    }

    /// Adds a segment to the window. Returns whether the window ends with it.
    pub(crate) fn add(&mut self, len: u64) -> bool {
        self.bytes = self.bytes.saturating_add(len);
        self.bytes >= self.capping.window_bytes
    }

    /// Begins the next window.
    pub(crate) fn end_window(&mut self) {
        self.before.push_back(self.charged);
        if self.before.len() > ADAPTIVE_WINDOWS {
            self.before.pop_front();
        }
        self.window += 1;
        (self.bytes, self.charged) = (0, 0);
        let (window, remembered) = (self.window, u64::from(self.capping.remembered_windows));
        self.used.retain(|_, last| window - *last <= remembered);
        self.level = self.next_level();
    }

    fn next_level(&self) -> usize {
        match self.capping.cap {
            Cap::None | Cap::Least(_) => usize::MAX,
            Cap::Fixed(cap) => cap as usize,
            Cap::Adaptive(cap) => {
                let cap = cap as usize;
                let used: usize = self.before.iter().sum();
                let allowed = cap.saturating_mul(self.before.len() + 1).saturating_sub(used);
                allowed.clamp(cap.min(1), cap.saturating_mul(4))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    fn holder(n: u32) -> Holder {
        Holder::Container(ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n).unwrap(),
        })
    }

    fn accounts(cap: Cap, remembered_windows: u32) -> Accounts {
        Accounts::new(Capping {
            cap,
            remembered_windows,
            window_bytes: 100,
        })
    }

    #[test]
    fn a_segment_gets_its_share_and_the_rest_of_others() {
        let mut accounts = accounts(Cap::Fixed(10), 0);
        assert_eq!(accounts.left_so_far(20), 2);
        accounts.refer(holder(1));
        accounts.refer(holder(1));
        assert!(!accounts.add(20));
        assert_eq!((accounts.left_so_far(20), accounts.left()), (3, 9));
        assert!(accounts.is_free(holder(1)));
        assert!(accounts.add(90));
        assert_eq!(accounts.left_so_far(500), 9);
        accounts.end_window();
        assert!(!accounts.is_free(holder(1)));
        assert_eq!((accounts.left(), accounts.left_so_far(1)), (10, 1));
        assert_eq!(super::tests::accounts(Cap::None, 0).left_so_far(1), usize::MAX);
    }

    #[test]
    fn remembered_windows_are_free() {
        let mut accounts = accounts(Cap::Fixed(10), 2);
        accounts.refer(holder(1));
        for _ in 0..2 {
            accounts.end_window();
            assert!(accounts.is_free(holder(1)));
        }
        accounts.end_window();
        assert!(!accounts.is_free(holder(1)) && accounts.used.is_empty());
    }

    #[test]
    fn a_short_window_asks_for_less() {
        let mut accounts = accounts(Cap::Least(40), 1);
        assert_eq!(
            (accounts.least(), accounts.left_so_far(1), accounts.left()),
            (40, usize::MAX, usize::MAX)
        );
        accounts.refer(holder(1));
        assert_eq!(accounts.left(), usize::MAX);
        assert!(!accounts.add(50));
        assert_eq!(accounts.least_at_end(), 20);
        assert!(accounts.add(70));
        assert_eq!(accounts.least_at_end(), 40);
        accounts.end_window();
        assert!(accounts.is_free(holder(1)));
        accounts.end_window();
        assert!(!accounts.is_free(holder(1)));
        assert_eq!(super::tests::accounts(Cap::Fixed(3), 0).least(), 0);
    }

    proptest! {
        /// The average over any nine windows in a row, of which each takes as much as it may, or
        /// less.
        #[test]
        fn an_adaptive_cap_is_kept_on_average(cap in 1..30_u32, wishes in prop::collection::vec(0..200_usize, 1..60)) {
            let mut accounts = accounts(Cap::Adaptive(cap), 0);
            let mut taken = Vec::new();
            for wish in wishes {
                let count = wish.min(accounts.left());
                prop_assert!(accounts.left() >= 1 && accounts.left() <= 4 * cap as usize);
                accounts.refer_to_some(count);
                taken.push(count);
                accounts.end_window();
            }
            for windows in taken.windows(ADAPTIVE_WINDOWS + 1) {
                let sum: usize = windows.iter().sum();
                // One more for each window, because no window is left without any.
                prop_assert!(sum <= (cap as usize + 1) * (ADAPTIVE_WINDOWS + 1), "{:?}", windows);
            }
        }
    }
}

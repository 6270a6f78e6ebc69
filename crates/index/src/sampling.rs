//! Chooses the hooks that the index keeps if it cannot keep all: the sampling rate R [Guo 3.2] (G3,
//! G4).
//!
//! R is a power of two, `2^-k`: a fingerprint is sampled if the lowest k of its sample bits are
//! zero. Those bits have no other use ([`Fingerprint::sample_bits`]), so the kept hooks are spread
//! evenly over the buckets of every index. Hooks to chunks and hooks to nodes each have their own
//! R. That of nodes falls last.
//!
//! Invariant: a hook that stays at some R stays at every greater one, so halving only drops hooks.
//! The fingerprint and its container's catalog alone decide, so every process and every rebuild
//! decides alike. Each container keeps one hook of each of its kinds at every R, its
//! [anchor](Anchors). Values only; nothing here fails.

use types::Fingerprint;

use crate::kind::HookKind;

/// How often R can be halved, from 1, until a fingerprint is no longer sampled: the number of its
/// lowest sample bits that are zero. Half of all fingerprints have level 0, a quarter level 1, and
/// so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleLevel(u8);

impl SampleLevel {
    /// The highest level. R never falls below it.
    pub const MAX: Self = Self(31);

    /// The level of a fingerprint.
    #[must_use]
    pub fn of(fingerprint: &Fingerprint) -> Self {
        let zeros = fingerprint.sample_bits().trailing_zeros();
        u8::try_from(zeros).map_or(Self::MAX, |level| Self(level.min(Self::MAX.0)))
    }

    /// The number, 0 to 31.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// R, the share of fingerprints that are kept: `2^-halvings`. Rates are ordered by this share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SamplingRate(u8);

impl SamplingRate {
    /// The rate that keeps every fingerprint.
    pub const ONE: Self = Self(0);
    /// The least rate, 2^-31.
    pub const MIN: Self = Self(SampleLevel::MAX.0);

    /// `2^-halvings`; `None` below [`Self::MIN`].
    #[must_use]
    pub const fn new(halvings: u8) -> Option<Self> {
        if halvings <= Self::MIN.0 {
            Some(Self(halvings))
        } else {
            None
        }
    }

    /// How often it was halved.
    #[must_use]
    pub const fn halvings(self) -> u8 {
        self.0
    }

    /// T = 1 / R: one fingerprint in so many is kept.
    #[must_use]
    pub const fn period(self) -> u64 {
        1 << self.0
    }

    /// Half of this rate; `None` at [`Self::MIN`].
    #[must_use]
    pub const fn halved(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// Whether fingerprints of this level are kept.
    #[must_use]
    pub const fn samples(self, level: SampleLevel) -> bool {
        level.0 >= self.0
    }
}

impl PartialOrd for SamplingRate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SamplingRate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl std::fmt::Display for SamplingRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.period() {
            1 => f.write_str("1"),
            period => write!(f, "1/{period}"),
        }
    }
}

/// How long a hook stays while R falls: its level, and whether it is its container's anchor. Six
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    /// The level of its fingerprint.
    pub level: SampleLevel,
    /// An anchor stays at every R.
    pub is_anchor: bool,
}

impl Standing {
    /// Bits that [`Self::to_bits`] uses.
    pub const BITS: u32 = 6;
    const ANCHOR: u8 = 1 << 5;

    /// Whether the hook is kept at a rate.
    #[must_use]
    pub const fn stays_at(self, rate: SamplingRate) -> bool {
        self.is_anchor || rate.samples(self.level)
    }

    /// Level in the lower five bits, anchor in the sixth.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.level.0 | if self.is_anchor { Self::ANCHOR } else { 0 }
    }

    /// The inverse of [`Self::to_bits`]. Higher bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self {
            level: SampleLevel(bits & SampleLevel::MAX.0),
            is_anchor: bits & Self::ANCHOR != 0,
        }
    }
}

/// Finds a container's anchors, one for each kind: the fingerprint whose sample bits, read from the
/// lowest, are the smallest. It is among those of the highest level. So it is usually a hook
/// anyway, and R would drop it last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anchors([Option<(u32, Fingerprint)>; 2]);

impl Anchors {
    /// The anchors of all entries of a catalog.
    pub fn of<'a>(entries: impl IntoIterator<Item = (HookKind, &'a Fingerprint)>) -> Self {
        let mut anchors = Self::default();
        for (kind, fingerprint) in entries {
            anchors.add(kind, fingerprint);
        }
        anchors
    }

    /// Takes another fingerprint into account.
    pub fn add(&mut self, kind: HookKind, fingerprint: &Fingerprint) {
        let order = fingerprint.sample_bits().reverse_bits();
        let held = &mut self.0[kind.number()];
        if held.is_none_or(|held| (order, fingerprint) < (held.0, &held.1)) {
            *held = Some((order, *fingerprint));
        }
    }

    /// The standing of one of these fingerprints.
    #[must_use]
    pub fn standing(&self, kind: HookKind, fingerprint: &Fingerprint) -> Standing {
        Standing {
            level: SampleLevel::of(fingerprint),
            is_anchor: self.0[kind.number()].is_some_and(|held| held.1 == *fingerprint),
        }
    }
}

/// The two rates in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SamplingRates {
    /// For hooks to chunks.
    pub data: SamplingRate,
    /// For hooks to nodes.
    pub node: SamplingRate,
}

impl Default for SamplingRates {
    fn default() -> Self {
        Self {
            data: SamplingRate::ONE,
            node: SamplingRate::ONE,
        }
    }
}

impl SamplingRates {
    /// For hooks of a kind.
    #[must_use]
    pub const fn of(self, kind: HookKind) -> SamplingRate {
        match kind {
            HookKind::Data => self.data,
            HookKind::Node => self.node,
        }
    }

    /// The smaller rate of each kind: two merged indexes have these.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            data: self.data.min(other.data),
            node: self.node.min(other.node),
        }
    }

    /// The next rates of an index that must shrink, and the kind whose hooks it drops. The
    /// arguments are its hooks of each kind that are not anchors. A hook to a node stands for some
    /// 500 chunks, so hooks to chunks are dropped first, until they are fewer. `None` if only
    /// anchors are left.
    #[must_use]
    pub fn halved(self, spare_data: u64, spare_nodes: u64) -> Option<(Self, HookKind)> {
        let data = || {
            let data = self.data.halved().filter(|_| spare_data > 0)?;
            Some((Self { data, ..self }, HookKind::Data))
        };
        let node = || {
            let node = self.node.halved().filter(|_| spare_nodes > 0)?;
            Some((Self { node, ..self }, HookKind::Node))
        };
        if spare_data >= spare_nodes {
            data().or_else(node)
        } else {
            node().or_else(data)
        }
    }
}

/// The rate at which so much memory indexes so much data, at most 1: `R = M S / (E C)` [Guo,
/// equation 1]. All in bytes: `memory` M, `entry` E, `chunk` S, `stored` C.
#[must_use]
pub fn rate_that_fits(memory: f64, entry: f64, chunk: f64, stored: f64) -> f64 {
    let rate = memory * chunk / (entry * stored);
    if rate < 1.0 { rate } else { 1.0 }
}

/// The share of duplicates that are found if one fingerprint in `period` is a hook and a container
/// holds `container_chunks` of them: `1 - (T - 1) / Tmin` [Guo, equation 2]. It assumes that the
/// cache loses each container's catalog once, after which the chunks before the next hook are
/// missed, and that streams repeat in the order in which they were stored. 0 to 1.
#[must_use]
pub fn predicted_efficiency(period: f64, container_chunks: f64) -> f64 {
    // At least one hook of a container stays: at most all chunks but one are missed.
    let missed = (period - 1.0).min(container_chunks - 1.0).max(0.0);
    if container_chunks > 0.0 {
        1.0 - missed / container_chunks
    } else {
        1.0
    }
}

/// [`predicted_efficiency`] of an index of so many hooks to chunks, in so many containers. A
/// container's anchor is the hook that would be dropped last. So if a container keeps more than one
/// hook, the anchor is sampled too.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a share of a few figures")]
pub fn efficiency_of(rate: SamplingRate, hooks: u64, containers: u64) -> f64 {
    let period = rate.period() as f64;
    predicted_efficiency(period, hooks as f64 * period / containers.max(1) as f64)
}

//! Hooks: the fingerprints of a catalog that the index keeps. And the interface of every index.

use container::CatalogView;
use format::container::CatalogEntry;
use types::{ContainerId, ContainerKind, Fingerprint, SessionId};

use crate::candidates::age_order;
use crate::kind::HookKind;
use crate::lists::CandidateLists;
use crate::sampling::{Anchors, Standing};

/// One sampled fingerprint and the container whose catalog has it [Guo 3.2].
///
/// Hooks are ordered by kind, then by fingerprint bits, then the newer container first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hook {
    /// The kind of its target.
    pub kind: HookKind,
    /// [`Fingerprint::index_bits`].
    pub bits: u64,
    /// The container.
    pub container: ContainerId,
    /// How long it stays while R falls.
    pub standing: Standing,
}

/// Kind, bits, and the container, newer ones first.
pub(crate) type HookOrder = (HookKind, u64, std::cmp::Reverse<u64>);

impl Hook {
    /// The hook of a fingerprint in a container with these anchors.
    #[must_use]
    pub fn of(kind: HookKind, fingerprint: &Fingerprint, container: ContainerId, anchors: &Anchors) -> Self {
        Self {
            kind,
            bits: fingerprint.index_bits(),
            container,
            standing: anchors.standing(kind, fingerprint),
        }
    }

    pub(crate) fn order(&self) -> HookOrder {
        (self.kind, self.bits, std::cmp::Reverse(age_order(self.container)))
    }
}

/// The hooks of a catalog: every chunk and node of data, recipe and small containers (R = 1), each
/// with its [`Standing`]. Archive and catalog containers give none.
pub fn hooks_of(view: &CatalogView) -> impl Iterator<Item = Hook> {
    let container = view.id();
    let hooked = !matches!(container.kind, ContainerKind::Archive | ContainerKind::Catalog);
    let entries = if hooked { view.entries() } else { &[] };
    let anchors = Anchors::of(entries.iter().map(|entry| (kind_of(entry), &entry.fingerprint)));
    entries
        .iter()
        .map(move |entry| Hook::of(kind_of(entry), &entry.fingerprint, container, &anchors))
}

fn kind_of(entry: &CatalogEntry) -> HookKind {
    if entry.level.get() == 0 {
        HookKind::Data
    } else {
        HookKind::Node
    }
}

/// Names the catalogs to load for a fingerprint. An index may forget and may be wrong. The catalog
/// has the truth.
///
/// Every implementation passes [`crate::conformance`].
pub trait HookIndex: Send + Sync {
    /// The containers that may have the fingerprint: newest first, each once, at most
    /// [`crate::CANDIDATES_MAX`]. Clears `out` first.
    fn candidates(&self, fingerprint: &Fingerprint, kind: HookKind, out: &mut Vec<ContainerId>) {
        self.candidates_without(None, fingerprint, kind, out);
    }

    /// Like [`Self::candidates`], as if a session had no containers. However many it has, they do
    /// not displace others.
    fn candidates_without(
        &self,
        apart: Option<SessionId>,
        fingerprint: &Fingerprint,
        kind: HookKind,
        out: &mut Vec<ContainerId>,
    );

    /// How many look-ups should be made together, even if not all answers will be needed. At least
    /// one; more only if a look-up mostly waits for memory.
    fn lookups_together(&self) -> usize {
        1
    }

    /// Like [`Self::candidates_without`], for several fingerprints in order. Look-ups made together
    /// wait for memory together.
    fn candidates_together(
        &self,
        apart: Option<SessionId>,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut CandidateLists,
    ) {
        self.candidates_one_by_one(apart, fingerprints, kind, out);
    }

    /// [`Self::candidates_together`] for indexes that gain nothing from it.
    fn candidates_one_by_one(
        &self,
        apart: Option<SessionId>,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut CandidateLists,
    ) {
        out.clear();
        for fingerprint in fingerprints {
            out.push(|one| self.candidates_without(apart, fingerprint, kind, one));
        }
    }
}

//! The conformance suite of [`HookIndex`]: call [`check`] from a test.

use std::collections::{BTreeMap, BTreeSet};

use types::{ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId};

use crate::candidates::{CANDIDATES_MAX, age_order};
use crate::hook::{Hook, HookIndex};
use crate::kind::HookKind;
use crate::lists::CandidateLists;
use crate::sampling::Anchors;

/// What the index under test guarantees, beyond never answering wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Every hook is found (R = 1).
    Exact,
    /// The index may forget hooks, but keeps at least one of each container.
    Sampled,
}

/// Builds indexes of known hooks with `make`, and looks hooks up.
///
/// # Panics
/// If an answer breaks the trait's contract or the promise.
pub fn check<I: HookIndex>(promise: Promise, mut make: impl FnMut(&[Hook]) -> I) {
    for (count, containers) in [(0, 1), (1, 1), (339, 3), (340, 7), (5_000, 40)] {
        let hooks = sample(count, containers);
        check_one(promise, &make(&hooks), &hooks);
    }
    let crowd: Vec<Hook> = (0..50)
        .map(|n| Hook {
            bits: 77,
            ..sample_hook(0, n)
        })
        .collect();
    let crowd = with_anchors(crowd);
    check_one(promise, &make(&crowd), &crowd);
}

fn check_one(promise: Promise, index: &impl HookIndex, hooks: &[Hook]) {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    // Look-ups made together have the same answers as single ones: known and unknown, many, and
    // none.
    let (mut lists, mut alone) = (CandidateLists::default(), CandidateLists::default());
    for kind in HookKind::ALL {
        let known = hooks.iter().filter(|hook| hook.kind == kind);
        let asked: Vec<Fingerprint> = known
            .flat_map(|hook| [fingerprint(hook.bits), fingerprint(!hook.bits)])
            .collect();
        for count in [0, 1, 2, 15, 16, 17, 64, 127, 128, 129, 300, asked.len()] {
            let asked = &asked[..count.min(asked.len())];
            for apart in [None, hooks.first().map(|hook| hook.container.session)] {
                index.candidates_together(apart, asked, kind, &mut lists);
                index.candidates_one_by_one(apart, asked, kind, &mut alone);
                assert_eq!(lists, alone, "together as one by one");
                assert_eq!(lists.len(), asked.len());
            }
        }
    }
    for hook in hooks {
        index.candidates(&fingerprint(hook.bits), hook.kind, &mut out);
        let mut expected: Vec<ContainerId> = hooks
            .iter()
            .filter(|other| (other.kind, other.bits) == (hook.kind, hook.bits))
            .map(|other| other.container)
            .collect();
        expected.sort_by_key(|id| std::cmp::Reverse(age_order(*id)));
        expected.dedup();
        expected.truncate(CANDIDATES_MAX);
        match promise {
            Promise::Exact => assert_eq!(out, expected, "an exact index finds every hook, newest first"),
            Promise::Sampled => {
                assert!(out.iter().all(|id| expected.contains(id)), "nothing is made up");
                assert!(
                    out.is_sorted_by_key(|id| std::cmp::Reverse(age_order(*id))),
                    "newest first"
                );
            }
        }
        seen.extend(out.iter().copied());
        index.candidates(&fingerprint(!hook.bits), hook.kind, &mut out);
        assert!(out.is_empty(), "what was never added is not found");
    }
    let all: BTreeSet<ContainerId> = hooks.iter().map(|hook| hook.container).collect();
    let crowded = hooks.len() > CANDIDATES_MAX && hooks.iter().all(|hook| hook.bits == hooks[0].bits);
    assert!(
        crowded || seen == all,
        "at least one hook of each container is kept"
    );
}

fn sample(count: u32, containers: u32) -> Vec<Hook> {
    with_anchors((0..count).map(|n| sample_hook(n, n % containers)).collect())
}

/// The hooks of whole containers, each with its [`Standing`](crate::sampling::Standing).
#[must_use]
pub fn with_anchors(hooks: Vec<Hook>) -> Vec<Hook> {
    let mut anchors: BTreeMap<ContainerId, Anchors> = BTreeMap::new();
    for hook in &hooks {
        let of_container = anchors.entry(hook.container).or_default();
        of_container.add(hook.kind, &fingerprint(hook.bits));
    }
    let hooks = hooks.into_iter().map(|hook| {
        let anchors = &anchors[&hook.container];
        Hook::of(hook.kind, &fingerprint(hook.bits), hook.container, anchors)
    });
    hooks.collect()
}

/// A hook with bits below half, so that the complements of the bits are unused.
fn sample_hook(n: u32, container: u32) -> Hook {
    let mut bits = u64::from(n).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 31;
    let kind = if n.is_multiple_of(5) {
        HookKind::Node
    } else {
        HookKind::Data
    };
    let container = ContainerId {
        session: SessionId::new(u64::from(container % 3) + 1).expect("small"),
        kind: if kind == HookKind::Node {
            ContainerKind::Recipe
        } else {
            ContainerKind::Data
        },
        sequence: SequenceNumber::new(container).expect("small"),
    };
    hook(kind, bits >> 1, container)
}

/// A hook with these index bits, which is not an anchor.
#[must_use]
pub fn hook(kind: HookKind, bits: u64, container: ContainerId) -> Hook {
    Hook::of(kind, &fingerprint(bits), container, &Anchors::default())
}

/// A fingerprint with these index bits. Its sample bits follow from them.
#[must_use]
pub fn fingerprint(bits: u64) -> Fingerprint {
    let mixed = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut bytes = [0; 32];
    bytes[4..8].copy_from_slice(&mixed.to_be_bytes()[..4]);
    bytes[8..16].copy_from_slice(&bits.to_be_bytes());
    Fingerprint::from_bytes(bytes)
}

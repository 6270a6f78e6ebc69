//! Decides which dead slots are removed and which stay. Pure.
//!
//! A dead node that stays keeps everything that it reaches. So either all dead nodes are removed,
//! or nothing is. If little is dead, and removing it would copy much for each byte freed,
//! everything waits for more. Otherwise whole containers are deleted. Then come data containers
//! that are dead in part: first those that need no copy, if the storage can give back parts of an
//! object; then those that copy least for each byte freed. The choice ends when no more of the
//! store stays dead than the user allows.

use std::collections::BTreeMap;

use types::ContainerId;

use crate::slots::SlotSet;

/// A data container that is dead in part.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    pub(crate) container: ContainerId,
    pub(crate) dead: SlotSet,
    /// Stored bytes of the dead slots, with their share of catalogs and seals.
    pub(crate) dead_bytes: u64,
    /// Stored bytes that a new generation would have.
    pub(crate) live_bytes: u64,
    /// An earlier epoch left it in place, and its catalog was not read since.
    pub(crate) is_left: bool,
}

/// The part of a container that is removed without a copy: whole regions.
#[derive(Debug, Clone)]
pub(crate) struct Trimmable {
    pub(crate) dead: SlotSet,
    /// Bytes that are given back.
    pub(crate) bytes: u64,
    /// Bytes that are written for it.
    pub(crate) copied: u64,
}

/// How much of the store may stay dead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unused {
    /// This share of all stored bytes, from 0 to 1.
    Share(f64),
    /// This many bytes.
    Bytes(u64),
    /// Any amount: prune copies nothing.
    Unlimited,
}

/// How much may stay dead, and how much may be copied.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How much may stay dead.
    pub unused_max: Unused,
    /// The most bytes to copy.
    pub repack_bytes_max: u64,
}

types::setters!(Limits {
    unused_max: Unused,
    repack_bytes_max: u64,
});

impl Limits {
    /// Remove everything dead, whatever must be copied for it.
    pub(crate) const NOTHING_STAYS: Self = Self {
        unused_max: Unused::Bytes(0),
        repack_bytes_max: u64::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unused_max: Unused::Share(0.05),
            repack_bytes_max: u64::MAX,
        }
    }
}

/// The choice stops after so many containers in a row that earlier epochs left and that need a
/// copy.
const LEFT_IN_VAIN_MAX: usize = 32;

/// Which containers are compacted, and the sum of their bytes.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) trimmed: Vec<(Partial, Trimmable)>,
    pub(crate) compacted: Vec<Partial>,
    pub(crate) left: Vec<Partial>,
}

/// Chooses. `stored_bytes` is the size of the store without the removed whole containers.
/// `trimmable` gives the part of a container that is removed without a copy; it is asked only while
/// more has to be removed.
///
/// # Errors
/// Those of `trimmable`.
pub(crate) fn choose<E>(
    mut partials: Vec<Partial>,
    stored_bytes: u64,
    limits: Limits,
    mut trimmable: impl FnMut(&Partial) -> Result<Option<Trimmable>, E>,
) -> Result<Choice, E> {
    let mut dead: u64 = partials.iter().map(|partial| partial.dead_bytes).sum();
    let mut stored = stored_bytes.max(dead);
    partials.sort_by(|a, b| {
        let of = |partial: &Partial| {
            (
                partial.is_left,
                std::cmp::Reverse(partial.dead_bytes),
                partial.container,
            )
        };
        of(a).cmp(&of(b))
    });
    // Regions that need no copy are removed first; other dead slots of these containers may still
    // need one.
    let mut trimmed: BTreeMap<ContainerId, Trimmable> = BTreeMap::new();
    let mut in_vain = 0;
    for partial in &partials {
        if !is_above(dead, stored, limits.unused_max) || in_vain >= LEFT_IN_VAIN_MAX {
            break;
        }
        let part = trimmable(partial)?;
        if partial.is_left {
            // Containers that earlier epochs left mostly have dead slots in regions with live ones.
            // Each look costs a catalog.
            in_vain = if part.is_some() { 0 } else { in_vain + 1 };
        }
        if let Some(part) = part {
            let bytes = part.bytes.min(partial.dead_bytes);
            dead -= bytes;
            stored -= bytes;
            trimmed.insert(partial.container, Trimmable { bytes, ..part });
        }
    }
    let rest = |partial: &Partial| {
        let gone = trimmed.get(&partial.container).map_or(0, |part| part.bytes);
        partial.dead_bytes - gone
    };
    // Least copied for each byte freed comes first. The order is total, so that every process
    // decides alike.
    partials.sort_by(|a, b| {
        let cost = |of: &Partial, other: &Partial| u128::from(of.live_bytes) * u128::from(rest(other));
        cost(a, b).cmp(&cost(b, a)).then(a.container.cmp(&b.container))
    });
    let mut copied = 0u64;
    let mut choice = Choice::default();
    for partial in partials {
        let fits = copied.saturating_add(partial.live_bytes) <= limits.repack_bytes_max;
        let rest = rest(&partial);
        if is_above(dead, stored, limits.unused_max) && fits && rest > 0 {
            dead -= rest;
            stored -= rest;
            copied += partial.live_bytes;
            choice.compacted.push(partial);
        } else if let Some(part) = trimmed.get(&partial.container) {
            choice.trimmed.push((partial, part.clone()));
        } else {
            choice.left.push(partial);
        }
    }
    Ok(choice)
}

/// What an epoch would copy and free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price {
    /// Bytes to copy in order to remove dead nodes.
    pub(crate) copied_for_nodes: u64,
    pub(crate) copied: u64,
    pub(crate) freed: u64,
    /// All dead bytes, whether they would be removed or not.
    pub(crate) dead: u64,
}

/// Whether to remove nothing for now.
pub(crate) fn can_wait(price: &Price, stored_bytes: u64, limits: Limits) -> bool {
    if price.copied_for_nodes == 0 {
        return false;
    }
    let is_dear = price.copied > price.freed / 2;
    let is_little = !is_above(price.dead, stored_bytes, limits.unused_max);
    is_dear && is_little
}

/// Whether more is dead than may stay.
#[expect(clippy::cast_precision_loss, reason = "a share of bytes")]
pub(crate) fn is_above(dead: u64, stored: u64, max: Unused) -> bool {
    match max {
        Unused::Share(share) => dead as f64 > stored as f64 * share,
        Unused::Bytes(bytes) => dead > bytes,
        Unused::Unlimited => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    fn choose(partials: Vec<Partial>, stored_bytes: u64, limits: Limits) -> Choice {
        let none = |_: &Partial| Ok::<_, std::convert::Infallible>(None);
        let Ok(choice) = super::choose(partials, stored_bytes, limits, none);
        choice
    }

    fn partial(n: u32, dead_bytes: u64, live_bytes: u64) -> Partial {
        Partial {
            container: ContainerId {
                session: SessionId::new(1).unwrap(),
                kind: ContainerKind::Data,
                sequence: SequenceNumber::new(n).unwrap(),
            },
            dead: SlotSet::default(),
            dead_bytes,
            live_bytes,
            is_left: false,
        }
    }

    #[test]
    fn the_cheapest_containers_are_chosen_until_little_enough_stays() {
        let partials = vec![
            partial(0, 10, 90),
            partial(1, 90, 10),
            partial(2, 50, 50),
            partial(3, 1, 99),
        ];
        let choice = choose(partials.clone(), 1000, Limits::default());
        let chosen: Vec<u32> = choice
            .compacted
            .iter()
            .map(|p| p.container.sequence.get())
            .collect();
        assert_eq!(chosen, [1, 2]);
        let none = choose(partials.clone(), 10_000, Limits::default());
        assert!(none.compacted.is_empty(), "151 of 10,000 may stay");
        let all = Limits {
            unused_max: Unused::Share(0.0),
            ..Limits::default()
        };
        assert_eq!(choose(partials.clone(), 1000, all).left.len(), 0);
        let few = Limits {
            repack_bytes_max: 30,
            ..all
        };
        assert_eq!(choose(partials, 1000, few).compacted.len(), 1);
    }

    #[test]
    fn containers_that_need_no_copy_are_chosen_first_and_no_more_than_necessary() {
        let partials = vec![
            partial(0, 300, 100),
            partial(1, 200, 100),
            partial(2, 100, 10),
            partial(3, 50, 10),
        ];
        let mut asked = Vec::new();
        let halves = |partial: &Partial| {
            asked.push(partial.container.sequence.get());
            Ok::<_, std::convert::Infallible>(Some(Trimmable {
                dead: SlotSet::default(),
                bytes: partial.dead_bytes / 2,
                copied: 1,
            }))
        };
        let limits = Limits {
            unused_max: Unused::Bytes(420),
            ..Limits::default()
        };
        let Ok(choice) = super::choose(partials.clone(), 1000, limits, halves);
        assert_eq!(
            asked,
            [0, 1],
            "650 dead; 500 after the first, 400 after the second"
        );
        assert_eq!(
            (choice.trimmed.len(), choice.compacted.len(), choice.left.len()),
            (2, 0, 2)
        );

        let none = Limits {
            unused_max: Unused::Bytes(0),
            ..limits
        };
        let halves = |partial: &Partial| {
            Ok::<_, std::convert::Infallible>(Some(Trimmable {
                dead: SlotSet::default(),
                bytes: partial.dead_bytes / 2,
                copied: 1,
            }))
        };
        let Ok(choice) = super::choose(partials, 1000, none, halves);
        assert_eq!(
            choice.compacted.len(),
            4,
            "what is left of each has to be copied away"
        );
    }

    #[test]
    fn expensive_removals_of_little_data_wait() {
        let price = |copied_for_nodes, copied, freed, dead| Price {
            copied_for_nodes,
            copied,
            freed,
            dead,
        };
        let limits = Limits::default();
        assert!(can_wait(&price(10, 10, 15, 40), 1000, limits));
        assert!(!can_wait(&price(10, 10, 20, 40), 1000, limits), "it is cheap");
        assert!(
            !can_wait(&price(10, 10, 15, 60), 1000, limits),
            "it is more than may stay"
        );
        assert!(!can_wait(&price(0, 10, 15, 40), 1000, limits), "no nodes wait");
        let none = Limits {
            repack_bytes_max: 9,
            ..limits
        };
        assert!(
            !can_wait(&price(10, 10, 1000, 500), 1000, none),
            "what may be copied is file data: nodes are copied in any case"
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_limit_is_kept(
            sizes in proptest::collection::vec((1..1000u64, 0..1000u64), 0..40),
            share in 0.0..0.5f64,
        ) {
            let partials: Vec<_> = (0u32..).zip(&sizes).map(|(n, (dead, live))| partial(n, *dead, *live)).collect();
            let stored: u64 = sizes.iter().map(|(dead, live)| dead + live).sum();
            let limits = Limits { unused_max: Unused::Share(share), ..Limits::default() };
            let choice = choose(partials, stored, limits);
            prop_assert_eq!(choice.compacted.len() + choice.left.len(), sizes.len());
            let dead: u64 = choice.left.iter().map(|p| p.dead_bytes).sum();
            let freed: u64 = choice.compacted.iter().map(|p| p.dead_bytes).sum();
            prop_assert!(dead as f64 <= (stored - freed) as f64 * share);
        }
    }
}

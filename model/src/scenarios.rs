//! The scenarios: each the smallest store and the fewest processes that its clauses need.
//!
//! Session 0, and 1 where the text says so, are old backups; the others run.

mod archival;
mod archival_large;
mod epochs;
mod large;
mod sessions;
mod store;

use crate::scenario::Scenario;
use crate::slots::Numbers;
use crate::state::SESSIONS;

fn numbers(members: &[usize]) -> Numbers {
    members
        .iter()
        .fold(Numbers::NONE, |all, n| all.with(Numbers::one(*n)))
}

/// What is said of the first sessions, and nothing of the others.
fn by_session<T: Default, const N: usize>(first: [T; N]) -> [T; SESSIONS] {
    let mut first = first.into_iter();
    std::array::from_fn(|_| first.next().unwrap_or_default())
}

/// Scenarios small enough for every run of the tests.
#[must_use]
pub fn small() -> Vec<Scenario> {
    vec![
        sessions::look_ups(),
        sessions::uncovered(),
        sessions::adoption(),
        sessions::adopted_containers(),
        sessions::adoption_chain(),
        sessions::mutual_adoption(),
        sessions::parents(),
        epochs::leftovers(),
        epochs::marks(),
        epochs::first_marks(),
        epochs::exact_marks(),
        epochs::epoch_numbers(),
        epochs::stale_reclaimer(),
        epochs::leases(),
        epochs::missing_marks(),
        epochs::late_puts(),
        sessions::rewriting(),
        sessions::releases(),
        sessions::slow_listing(),
        store::old_caches(),
        store::hooks(),
        store::late_writer(),
        store::dropped_manifests(),
        store::dropped_endings(),
        store::power_cut(),
        store::power_cut_nodes(),
        store::power_cut_reclaim(),
        archival::optimizing(),
        archival::two_optimizers(),
        archival::neighbours(),
        archival::neighbours_dropped(),
        archival::archival_chain(),
        archival::forgotten_middle(),
        archival::forgotten_chain(),
        archival::archival_housekeeping(),
        archival::archival_look_ups(),
        archival::archival_marks(),
        archival::archival_decisions(),
        archival::archival_alone(),
        archival::archival_tags(),
        archival::archival_unread(),
        archival::archival_parents(),
        archival::archival_power(),
        archival::archival_power_fresh(),
        archival::archival_power_middle(),
    ]
}

/// Every scenario, those too large for every run of the tests included.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = small();
    all.extend(large::large());
    all.extend(archival_large::large());
    all
}

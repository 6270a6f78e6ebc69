//! Containers of unique chunks that are never stored. Only their fingerprints exist, drawn at
//! random.

use index::sampling::{Anchors, SamplingRate};
use index::{Hook, HookKind};
use types::{ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId};

use crate::rng::{drawn, mixed};

/// Chunks of a container: 16 MiB in chunks of 4 KiB, as in the paper.
pub(super) const CONTAINER_CHUNKS: u64 = 4096;
/// Containers of a session.
const SESSION_CONTAINERS: u64 = 1 << 20;

/// The first 8 bytes of a fingerprint. Node boundaries and sampling depend on them.
const fn first_word(seed: u64, chunk: u64) -> u64 {
    drawn(seed, chunk)
}

/// The fingerprint of a chunk, as random as a keyed hash.
pub(super) fn fingerprint(seed: u64, chunk: u64) -> Fingerprint {
    let mut bytes = [0; Fingerprint::BYTES];
    let mut word = first_word(seed, chunk);
    for out in bytes.as_chunks_mut::<8>().0 {
        *out = word.to_le_bytes();
        word = mixed(word);
    }
    Fingerprint::from_bytes(bytes)
}

/// The container with this number. Numbers are in the order of sealing.
pub(super) fn container(n: u64) -> ContainerId {
    let sequence = u32::try_from(n % SESSION_CONTAINERS).expect("less than the containers of a session");
    ContainerId {
        session: SessionId::new(n / SESSION_CONTAINERS + 1).expect("a few thousand sessions"),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(sequence).expect("a session has so many"),
    }
}

/// The number of a [`container`].
pub(super) fn number_of(container: ContainerId) -> u64 {
    (container.session.get() - 1) * SESSION_CONTAINERS + u64::from(container.sequence.get())
}

/// Appends those fingerprints of a container that are hooks at this rate. It draws and checks the
/// fingerprint of every chunk. If none is sampled, the anchor is the container's only hook.
pub(super) fn sampled(seed: u64, n: u64, rate: SamplingRate, out: &mut Vec<Fingerprint>) {
    let chunks = n * CONTAINER_CHUNKS..(n + 1) * CONTAINER_CHUNKS;
    let before = out.len();
    // The sample bits are the upper half. The bits below do not count, as in `SampleLevel::of`.
    let mask = (rate.period() - 1) << 32;
    let sampling = chunks
        .clone()
        .filter(|chunk| first_word(seed, *chunk) & mask == 0);
    out.extend(sampling.map(|chunk| fingerprint(seed, chunk)));
    if out.len() == before {
        let order = |chunk: &u64| fingerprint(seed, *chunk).sample_bits().reverse_bits();
        let anchor = chunks.min_by_key(order).expect("a container has chunks");
        out.push(fingerprint(seed, anchor));
    }
}

/// A random fingerprint of the first `containers` containers that is sampled at this rate. Some
/// must be.
pub(super) fn one_sampled(seed: u64, containers: u64, rate: SamplingRate, drawing: &mut u64) -> Fingerprint {
    let mask = (rate.period() - 1) << 32;
    loop {
        let chunk = drawn(seed + 1, *drawing) % (containers * CONTAINER_CHUNKS);
        *drawing += 1;
        if first_word(seed, chunk) & mask == 0 {
            return fingerprint(seed, chunk);
        }
    }
}

/// The hooks of a container with these [`sampled`] fingerprints. The anchor has the highest level,
/// so it is among them.
pub(super) fn hooks(n: u64, sampled: &[Fingerprint]) -> impl Iterator<Item = Hook> {
    let anchors = Anchors::of(sampled.iter().map(|print| (HookKind::Data, print)));
    sampled
        .iter()
        .map(move |print| Hook::of(HookKind::Data, print, container(n), &anchors))
}

#[cfg(test)]
mod tests {
    use index::sampling::SampleLevel;

    use super::*;

    #[test]
    fn containers_have_their_numbers_back() {
        for n in [
            0,
            1,
            SESSION_CONTAINERS - 1,
            SESSION_CONTAINERS,
            5 * SESSION_CONTAINERS + 7,
        ] {
            assert_eq!(number_of(container(n)), n);
        }
    }

    /// Each drawn fingerprint is a hook of one of the containers, and nearly all hooks are drawn.
    #[test]
    fn one_sampled_is_of_the_hooks_of_any_container() {
        let (rate, containers) = (SamplingRate::new(7).unwrap(), 50);
        let mut all = Vec::new();
        for n in 0..containers {
            sampled(3, n, rate, &mut all);
        }
        let mut drawing = 0;
        let drawn: std::collections::BTreeSet<Fingerprint> = (0..2000)
            .map(|_| one_sampled(3, containers, rate, &mut drawing))
            .collect();
        assert!(drawn.iter().all(|print| all.contains(print)));
        // 2,000 draws with replacement hit 71 % of 1,600 hooks.
        assert!(
            drawn.len() > all.len() * 6 / 10,
            "{} of {}",
            drawn.len(),
            all.len()
        );
    }

    /// The hooks drawn for a rate are those that the engine would keep of all.
    #[test]
    fn hooks_of_a_rate_are_those_of_all_that_stay_at_it() {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for halvings in [1, 4, 7, 10, 13] {
            let rate = SamplingRate::new(halvings).unwrap();
            for n in 0..40 {
                all.clear();
                some.clear();
                sampled(9, n, SamplingRate::ONE, &mut all);
                sampled(9, n, rate, &mut some);
                assert_eq!(all.len(), 4096);
                let kept: Vec<Hook> = hooks(n, &all)
                    .filter(|hook| hook.standing.stays_at(rate))
                    .collect();
                assert_eq!(
                    hooks(n, &some).collect::<Vec<_>>(),
                    kept,
                    "container {n} at {rate}"
                );
                assert_eq!(kept.iter().filter(|hook| hook.standing.is_anchor).count(), 1);
            }
        }
        let levels = all
            .iter()
            .filter(|print| SampleLevel::of(print).get() >= 1)
            .count();
        assert!((1850..2250).contains(&levels), "{levels}");
    }

    #[test]
    fn no_two_chunks_have_a_fingerprint() {
        let mut prints = Vec::new();
        for n in 0..30 {
            sampled(1, n, SamplingRate::ONE, &mut prints);
            sampled(2, n, SamplingRate::ONE, &mut prints);
        }
        let count = prints.len();
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), count);
        assert_ne!(container(SESSION_CONTAINERS), container(0));
    }
}

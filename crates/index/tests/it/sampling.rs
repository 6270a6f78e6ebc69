//! Sampling, anchors, and the two equations of the paper.

use index::HookKind;
use index::conformance::fingerprint;
use index::sampling::{
    Anchors, SampleLevel, SamplingRate, SamplingRates, Standing, predicted_efficiency, rate_that_fits,
};
use proptest::prelude::*;
use types::Fingerprint;

use crate::store::bits;

const GB: f64 = (1u64 << 30) as f64;
const TB: f64 = 1024.0 * GB;

/// The longest period that finds this share of duplicates: `T = Tmin (1 - f) + 1` [Guo, equation
/// 2].
fn period_for(efficiency: f64, container_chunks: f64) -> f64 {
    container_chunks * (1.0 - efficiency) + 1.0
}

/// The memory that finds this share of duplicates: `M = E C / (S T)` [Guo, equation 2]. In bytes.
fn memory_for(efficiency: f64, container_chunks: f64, entry: f64, chunk: f64, stored: f64) -> f64 {
    entry * stored / (chunk * period_for(efficiency, container_chunks))
}

fn any_fingerprint() -> impl Strategy<Value = Fingerprint> {
    // The sample bits end in few different values, so that ties and high levels occur.
    (any::<[u8; 32]>(), 0u8..4).prop_map(|(mut bytes, few)| {
        if few == 0 {
            bytes[4..7].fill(0);
        }
        Fingerprint::from_bytes(bytes)
    })
}

fn any_rate() -> impl Strategy<Value = SamplingRate> {
    (0u8..32).prop_map(|halvings| SamplingRate::new(halvings).unwrap())
}

proptest! {
    #[test]
    fn a_fingerprint_samples_when_its_lowest_sample_bits_are_zero(print in any_fingerprint(), rate in any_rate()) {
        let level = SampleLevel::of(&print);
        prop_assert_eq!(rate.samples(level), u64::from(print.sample_bits()) % rate.period() == 0);
        prop_assert!(SamplingRate::ONE.samples(level));
        if let Some(half) = rate.halved() {
            prop_assert!(half < rate && half.period() == rate.period() * 2);
            prop_assert!(!half.samples(level) || rate.samples(level), "halving only drops");
        } else {
            prop_assert_eq!(rate, SamplingRate::MIN);
        }
    }

    #[test]
    fn bits_that_serve_others_do_not_decide(print in any_fingerprint(), other in any::<[u8; 32]>()) {
        let mut bytes = other;
        bytes[4..8].copy_from_slice(&print.as_bytes()[4..8]);
        prop_assert_eq!(SampleLevel::of(&print), SampleLevel::of(&Fingerprint::from_bytes(bytes)));
    }

    #[test]
    fn standing_fits_six_bits(level in 0u8..32, is_anchor in any::<bool>(), above in 0u8..4, rate in any_rate()) {
        let bits = level | (u8::from(is_anchor) << 5);
        let standing = Standing::from_bits(bits | (above << 6));
        prop_assert_eq!(standing.to_bits(), bits);
        prop_assert_eq!((standing.level.get(), standing.is_anchor), (level, is_anchor));
        prop_assert_eq!(standing.stays_at(rate), is_anchor || level >= rate.halvings());
    }

    #[test]
    fn one_hook_of_each_kind_stays_in_every_order(
        prints in proptest::collection::vec((any::<bool>(), any_fingerprint()), 1..60),
        rotate in 0usize..60,
    ) {
        let entries: Vec<_> = prints
            .iter()
            .map(|(node, print)| (if *node { HookKind::Node } else { HookKind::Data }, *print))
            .collect();
        let anchors = Anchors::of(entries.iter().map(|(kind, print)| (*kind, print)));
        for kind in HookKind::ALL {
            let of_kind: Vec<_> = entries.iter().filter(|entry| entry.0 == kind).map(|entry| entry.1).collect();
            let anchored: Vec<_> =
                of_kind.iter().filter(|print| anchors.standing(kind, print).is_anchor).collect();
            prop_assert_eq!(anchored.is_empty(), of_kind.is_empty());
            prop_assert!(anchored.windows(2).all(|pair| pair[0] == pair[1]), "one fingerprint of a kind");
            let highest = of_kind.iter().map(SampleLevel::of).max();
            prop_assert_eq!(anchored.first().map(|print| SampleLevel::of(print)), highest);
        }
        let mut rotated = entries.clone();
        rotated.rotate_left(rotate % entries.len());
        let again = Anchors::of(rotated.iter().map(|(kind, print)| (*kind, print)));
        for (kind, print) in &entries {
            prop_assert_eq!(anchors.standing(*kind, print), again.standing(*kind, print));
        }
    }

    #[test]
    fn nodes_fall_last(mut data in 0u64..1_000_000, mut nodes in 0u64..5_000) {
        let mut rates = SamplingRates::default();
        while let Some((next, dropped)) = rates.halved(data, nodes) {
            prop_assert_eq!(next.min(rates), next, "halving only drops");
            prop_assert_ne!(next, rates);
            match dropped {
                HookKind::Data => {
                    prop_assert!(data >= nodes);
                    prop_assert_eq!(next.node, rates.node);
                    data /= 2;
                }
                HookKind::Node => {
                    prop_assert!(nodes > data);
                    prop_assert_eq!(next.data, rates.data);
                    nodes /= 2;
                }
            }
            rates = next;
        }
        prop_assert_eq!((data, nodes), (0, 0), "only anchors are left");
    }

    #[test]
    fn the_equations_agree_with_each_other(
        memory in 0.001..1000.0f64, entry in 6.0..30.0f64, chunk in 1024.0..65536.0f64,
        stored in 0.01..5000.0f64, container_chunks in 1.0..10_000.0f64, efficiency in 0.0..1.0f64,
    ) {
        let rate = rate_that_fits(memory * GB, entry, chunk, stored * TB);
        prop_assert!(rate > 0.0 && rate <= 1.0);
        prop_assert!(rate <= rate_that_fits(memory * 2.0 * GB, entry, chunk, stored * TB));
        prop_assert!(rate >= rate_that_fits(memory * GB, entry, chunk, stored * 2.0 * TB));
        let found = predicted_efficiency(1.0 / rate, container_chunks);
        prop_assert!((0.0..=1.0).contains(&found));
        prop_assert!(found <= predicted_efficiency(0.5 / rate, container_chunks), "more hooks find more");
        // The period of equation 2 and the rate of equation 1 agree.
        let period = period_for(efficiency, container_chunks);
        let needed = memory_for(efficiency, container_chunks, entry, chunk, stored * TB);
        let fits = rate_that_fits(needed, entry, chunk, stored * TB);
        prop_assert!((fits * period - 1.0).abs() < 1e-9);
        let reached = predicted_efficiency(period, container_chunks);
        // At least one hook of a container stays.
        prop_assert!((reached - efficiency.max(1.0 / container_chunks)).abs() < 1e-9);
    }
}

#[test]
fn the_example_of_the_paper() {
    let rate = rate_that_fits(64.0 * GB, 22.0, 4096.0, 1000.0 * TB);
    assert!(
        (1.0 / rate - 86.0).abs() < 0.5,
        "one out of 86, not {}",
        1.0 / rate
    );
    let found = predicted_efficiency(1.0 / rate, 4096.0);
    assert!((found - 0.979).abs() < 5e-4, "{found}");
    let memory = memory_for(0.95, 4096.0, 22.0, 4096.0, 1000.0 * TB) / GB;
    assert!((memory - 26.7).abs() < 0.1, "{memory}");
}

#[test]
fn each_halving_drops_half() {
    let prints: Vec<_> = (0..1 << 16).map(|n| fingerprint(bits(n))).collect();
    for halvings in 0..8 {
        let rate = SamplingRate::new(halvings).unwrap();
        let kept = prints
            .iter()
            .filter(|print| rate.samples(SampleLevel::of(print)))
            .count();
        let expected = prints.len() >> halvings;
        assert!(
            kept.abs_diff(expected) * 20 < expected,
            "{kept} at R = {rate}, not some {expected}"
        );
    }
}

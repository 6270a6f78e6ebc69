use super::*;

fn run(hooks: [u64; 2], containers: [u64; 2], rates: SamplingRates) -> Load {
    Load {
        bytes: hooks.iter().sum::<u64>() * 6,
        rates,
        hooks,
        containers,
    }
}

fn rates(data: u8, node: u8) -> SamplingRates {
    SamplingRates {
        data: SamplingRate::new(data).unwrap(),
        node: SamplingRate::new(node).unwrap(),
    }
}

#[test]
fn all_is_kept_while_it_fits() {
    let one = run([1000, 2], [1, 1], rates(0, 0));
    assert_eq!(in_force(&[], 0), rates(0, 0));
    assert_eq!(in_force(&[one], 6012), rates(0, 0));
    assert_eq!(in_force(&[one], 6011), rates(1, 0));
    assert!(too_large(&[one], rates(1, 0), 6012).is_empty());
    assert_eq!(too_large(&[one], rates(1, 0), 6011), [0]);
}

#[test]
fn the_lowest_rate_is_everybodys() {
    let (old, new) = (
        run([10, 1], [1, 1], rates(3, 1)),
        run([10, 1], [1, 1], rates(0, 2)),
    );
    assert_eq!(in_force(&[old, new], 1 << 20), rates(3, 2));
    assert_eq!(too_large(&[old, new], rates(3, 2), 100), [0, 1]);
    assert_eq!(too_large(&[old, new], rates(3, 1), 100), [1]);
}

#[test]
fn hooks_to_chunks_are_dropped_first_and_one_a_container_stays() {
    // 1,000 containers of 2,000 chunks, and their nodes: 4 for each.
    let full = run([2_000_000, 4000], [1000, 8], rates(0, 0));
    assert_eq!(in_force(&[full], 6 << 20), rates(1, 0));
    // A sixteenth of the hooks to chunks.
    assert_eq!(in_force(&[full], 6 * 131_000), rates(4, 0));
    // The remaining hooks take 6,048 of 12 million bytes. Below that the rates do not fall further.
    let least = in_force(&[full], 6 * 1009);
    assert!(
        least.data.period() >= 2000 && least.node.period() > 1,
        "{least:?}"
    );
    assert_eq!(in_force(&[full], 0), in_force(&[full], 6 * 1008));
}

#[test]
fn sampled_hooks_are_not_counted_twice() {
    let sampled = run([1000, 0], [0, 0], rates(4, 0));
    assert_eq!(in_force(&[sampled], 6000), rates(4, 0));
    assert_eq!(in_force(&[sampled], 3000), rates(5, 0));
    let exact = run([16_000, 0], [0, 0], rates(0, 0));
    assert_eq!(in_force(&[sampled, exact], 12_000), rates(4, 0));
}

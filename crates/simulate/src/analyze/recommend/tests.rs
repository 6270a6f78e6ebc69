use super::*;

const DEFAULT: Cap = Cap::Least(56 << 10);
const MEMORY: u64 = 96 << 20;

/// With more memory than the default, the order of speeds is reversed: a test fails if caps are
/// judged with that memory.
fn given(cap: Cap, factor: f64, with_default: f64) -> Given {
    Given {
        chunk_bytes: Tried::CHUNK_BYTES,
        cap,
        chunks_stored: 0,
        bytes_stored: 0,
        factor,
        speeds: vec![(MEMORY, with_default), (2 * MEMORY, 1.0 / with_default)],
    }
}

/// Without a cap, the factor is 10 and the speed is 1.
fn capped(usual: (f64, f64), others: &[(Cap, f64, f64)], backups: usize) -> (Cap, String) {
    let mut all = vec![given(Cap::None, 10.0, 1.0), given(DEFAULT, usual.0, usual.1)];
    all.extend(
        others
            .iter()
            .map(|(cap, factor, speed)| given(*cap, *factor, *speed)),
    );
    cap(&all, backups, MEMORY)
}

const STRONG: Cap = Cap::Least(128 << 10);

#[test]
fn the_default_is_these() {
    assert_eq!(Capping::default().cap, DEFAULT);
    assert_eq!(Tried::around_defaults(false).memory, MEMORY);
}

#[test]
fn the_default_stays_where_it_gains_and_costs_at_most_so_much() {
    let (cap, why) = capped((9.21, 1.4), &[], 3);
    assert_eq!(cap, DEFAULT);
    assert!(why.contains("1.40 times") && why.contains("7.9 %"), "{why}");
    let (cap, why) = capped((9.19, 1.4), &[], 3);
    assert_eq!(cap, Cap::None);
    assert!(
        why.contains("least:56K, costs 8.1 %") && why.contains("more than 8 %"),
        "{why}"
    );
}

#[test]
fn a_cap_that_gains_no_more_than_it_costs_is_not_recommended() {
    assert_eq!(capped((10.0, 1.02), &[], 3).0, DEFAULT);
    let (cap, why) = capped((10.0, 1.0), &[], 3);
    assert_eq!(cap, Cap::None);
    assert!(why.contains("nothing is gained"), "{why}");
    // Restores are 5 % faster, and deduplication is 5 % worse.
    assert_eq!(capped((9.5, 1.05), &[], 3).0, Cap::None);
    assert_eq!(capped((9.5, 1.08), &[], 3).0, DEFAULT);
}

#[test]
fn another_cap_replaces_the_default_if_it_pays_beside_it() {
    let with = |factor, speed| capped((9.8, 1.5), &[(STRONG, factor, speed)], 3).0;
    assert_eq!(with(9.6, 1.73), STRONG);
    assert_eq!(
        with(9.6, 1.71),
        DEFAULT,
        "not 1.15 times as fast as with the default"
    );
    assert_eq!(with(9.49, 3.0), DEFAULT, "more than 3 % more");
    let (cap, why) = capped(
        (9.8, 1.5),
        &[
            (Cap::Fixed(20), 9.7, 1.9),
            (STRONG, 9.6, 2.2),
            (Cap::Fixed(5), 8.0, 9.0),
        ],
        3,
    );
    assert_eq!(cap, STRONG, "the fastest of those that pay");
    assert!(
        why.contains("2.20 times as fast as without a cap, for 4.0 %") && why.contains("least:56K, restores"),
        "{why}"
    );
    // Within 3 % of the default, but more than 8 % below the factor without a cap.
    assert_eq!(capped((9.3, 1.5), &[(STRONG, 9.1, 9.0)], 3).0, DEFAULT);
}

#[test]
fn where_the_default_is_not_to_be_had_another_may_pay_beside_none() {
    let mild = Cap::Least(32 << 10);
    assert_eq!(capped((9.0, 2.0), &[(mild, 9.75, 1.2)], 3).0, mild);
    assert_eq!(capped((9.0, 2.0), &[(mild, 9.6, 1.2)], 3).0, Cap::None);
    assert_eq!(capped((9.0, 2.0), &[(mild, 9.9, 1.1)], 3).0, Cap::None);
    let (cap, why) = capped((10.0, 1.0), &[(STRONG, 9.8, 1.3)], 3);
    assert_eq!(cap, STRONG);
    assert!(why.contains("nothing is gained"), "{why}");
}

#[test]
fn a_single_backup_argues_against_the_default_only_by_its_cost() {
    let (cap, why) = capped((10.0, 1.0), &[(STRONG, 10.0, 9.0)], 1);
    assert_eq!(cap, DEFAULT);
    assert!(why.contains("several versions"), "{why}");
    assert_eq!(capped((9.0, 1.0), &[], 1).0, Cap::None);
}

#[test]
fn without_restores_the_default_stays() {
    let mut all = [given(Cap::None, 10.0, 1.0), given(DEFAULT, 10.0, 1.0)];
    all.iter_mut().for_each(|given| given.speeds.clear());
    assert_eq!(cap(&all, 3, MEMORY).0, DEFAULT);
    assert_eq!(memory(Some(&all[1]), MEMORY).0, None);
}

fn memory_of(speeds: [f64; 3]) -> (Option<u64>, String) {
    let sizes = [32, 96, 256].map(|mib: u64| mib << 20);
    let given = Given {
        speeds: sizes.into_iter().zip(speeds).collect(),
        ..given(Cap::None, 1.0, 1.0)
    };
    memory(Some(&given), MEMORY)
}

#[test]
fn the_default_memory_stays_where_neither_less_nor_more_is_better() {
    let (bytes, why) = memory_of([7.0, 9.1, 10.0]);
    assert_eq!(bytes, Some(MEMORY));
    assert!(why.contains("9.10 MiB for each container"), "{why}");
    let (bytes, why) = memory_of([7.0, 8.9, 10.0]);
    assert_eq!(bytes, Some(256 << 20));
    assert!(why.contains("the default, 96M, gives 8.90"), "{why}");
    let (bytes, why) = memory_of([9.05, 9.1, 10.0]);
    assert_eq!(bytes, Some(32 << 20));
    assert!(why.contains("no more than 1 % more"), "{why}");
    assert_eq!(memory_of([8.95, 9.1, 10.0]).0, Some(MEMORY));
}

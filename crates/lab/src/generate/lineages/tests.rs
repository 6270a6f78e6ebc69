//! What a generation of a lineage changes, and which generations are written.

use std::collections::HashSet;

use super::*;
use crate::generate::tests::Seen;
use simulate::Chunk;

const BYTES: u64 = 200_000_000;

fn seen(clusters: Clusters, lineages: u32, generations: u32) -> Vec<(BackupHead, Vec<Chunk>)> {
    let mut workload = Lineages {
        file_bytes: BYTES / u64::from(lineages),
        lineages,
        generations,
        clusters,
        ..Lineages::default()
    };
    Seen::of(&mut workload).0
}

fn bytes<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> u64 {
    chunks.into_iter().map(|chunk| u64::from(chunk.len)).sum()
}

/// Bytes of the second list that the first does not have, and the number of alternating runs of
/// known and new chunks.
fn new(first: &[Chunk], second: &[Chunk]) -> (u64, usize) {
    let known: HashSet<_> = first.iter().map(|chunk| chunk.fingerprint).collect();
    let is_new = |chunk: &&Chunk| !known.contains(&chunk.fingerprint);
    let places = second.chunk_by(|a, b| is_new(&a) == is_new(&b)).count();
    (bytes(second.iter().filter(is_new)), places)
}

#[test]
fn generations_are_written_as_the_paper_does() {
    let seen = seen(Clusters::Normal, 2, 11);
    let names: Vec<_> = seen.iter().map(|(head, _)| head.name.as_str()).collect();
    let expected = [
        "lineages-01-gen-00",
        "lineages-02-gen-00",
        "lineages-01-gen-01",
        "lineages-02-gen-01",
        "lineages-01-gen-05",
        "lineages-02-gen-05",
        "lineages-01-gen-10",
        "lineages-02-gen-10",
        "lineages-01-gen-11",
        "lineages-02-gen-11",
    ];
    assert_eq!(names, expected);
    let of = |lineage: usize| {
        let each = seen.iter().skip(lineage).step_by(2);
        let prints = each.flat_map(|(_, chunks)| chunks.iter().map(|chunk| chunk.fingerprint));
        prints.collect::<HashSet<_>>()
    };
    assert!(of(0).is_disjoint(&of(1)), "nothing is shared across lineages");
}

/// A generation is the same, whichever others are written.
#[test]
fn some_generations_are_written() {
    let only = |only: &[u32]| {
        let mut workload = Lineages {
            file_bytes: 1 << 20,
            lineages: 1,
            generations: 6,
            only: only.to_vec(),
            ..Lineages::default()
        };
        Seen::of(&mut workload).0
    };
    let all = only(&[]);
    assert_eq!(all.len(), 4);
    assert!(only(&[5]) == all[2..3]);
    assert!(only(&[6, 0]) == [all[0].clone(), all[3].clone()]);
    let beyond = Lineages {
        generations: 6,
        only: vec![7],
        ..Lineages::default()
    };
    assert!(beyond.replay(&mut Seen::default()).is_err());
}

#[test]
fn a_generation_adds_deletes_and_moves_as_much_as_the_paper_says() {
    let normal = seen(Clusters::Normal, 1, 1);
    let uniform = seen(Clusters::Uniform, 1, 1);
    let mut places = Vec::new();
    for seen in [normal, uniform] {
        let (first, second) = (&seen[0].1, &seen[1].1);
        assert_eq!(bytes(first), BYTES);
        // Additions and deletions cancel, except where two updates delete or move the same
        // bytes.
        assert!(bytes(second).abs_diff(BYTES) < BYTES / 200, "{}", bytes(second));
        let (new, runs) = new(first, second);
        // 1 %, and the chunks that updates cut: compressed to half, this is near what the paper
        // transfers.
        let share = new * 1000 / BYTES;
        assert!((60..130).contains(&share), "{share}");
        places.push(runs);
    }
    assert!(
        places[0] * 10 < places[1] * 9,
        "changes stand together: {places:?}"
    );
}

/// Blocks stay where they are, and one in twenty is new.
#[test]
fn blocks_are_overwritten_in_place() {
    const BLOCK: u32 = 8192;
    let mut places = Vec::new();
    for clusters in [Clusters::Normal, Clusters::Uniform] {
        let mut workload = Lineages {
            // The last block is shorter.
            file_bytes: BYTES + 1000,
            lineages: 1,
            generations: 1,
            clusters,
            block_bytes: Some(BLOCK),
            ..Lineages::default()
        };
        let seen = Seen::of(&mut workload).0;
        let (first, second) = (&seen[0].1, &seen[1].1);
        let lens = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.len).collect::<Vec<_>>();
        assert_eq!(lens(first), lens(second));
        assert!(
            lens(first)
                .split_last()
                .unwrap()
                .1
                .iter()
                .all(|len| *len == BLOCK)
        );
        let stays = first.iter().zip(second).filter(|(a, b)| a == b).count();
        let changed = (first.len() - stays) * 1000 / first.len();
        assert!((49..=50).contains(&changed), "{changed}");
        let (share, runs) = new(first, second);
        // Nothing has moved.
        assert!(share * 1000 / BYTES >= changed as u64 - 1, "{share}");
        places.push(runs);
    }
    assert!(places[0] <= 9 && places[1] > 500, "{places:?}");
}

#[test]
fn moved_data_is_not_lost() {
    // Each cluster is one update, so that few chunks are cut.
    let mut workload = Lineages {
        file_bytes: BYTES,
        lineages: 1,
        generations: 1,
        clusters: Clusters::Uniform,
        update_bytes: 16 << 20,
        ..Lineages::default()
    };
    let seen = Seen::of(&mut workload).0;
    let (first, second) = (&seen[0].1, &seen[1].1);
    for (a, b) in [(first, second), (second, first)] {
        // 1 %, and the edges of 80 updates. If moved data were different data, it would be 3 %
        // more.
        let share = new(a, b).0 * 1000 / BYTES;
        assert!((13..27).contains(&share), "{share}");
    }
}

#[test]
fn centres_follow_each_other_as_far_as_the_paper_says() {
    let mut rng = Rng::new(1, 1);
    let len = 1_000_000_000_u64;
    let mut near = 0;
    for _ in 0..10_000 {
        let next = next_centre(len / 2, len, &mut rng);
        near += u64::from(next.abs_diff(len / 2) <= len / 100);
    }
    assert!((4900..5400).contains(&near), "{near}");
}

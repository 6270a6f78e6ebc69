use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::distribution::Drawn;
use super::*;
use crate::error::LabError;
use crate::rng::Rng;

fn traffic(access: Access, seed: u64) -> Traffic {
    Traffic {
        contents: Arc::new(Distribution::high_performance()),
        access,
        seed,
    }
}

/// A disk in memory that counts flushes.
#[derive(Default)]
struct Memory {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    flushes: AtomicU64,
}

impl Disk for Memory {
    fn read(&self, offset: u64, block: &mut [u8]) -> Result<(), LabError> {
        if let Some(written) = self.blocks.lock().unwrap().get(&offset) {
            block.copy_from_slice(written);
        }
        Ok(())
    }
    fn write(&self, offset: u64, block: &[u8]) -> Result<(), LabError> {
        self.blocks.lock().unwrap().insert(offset, block.to_vec());
        Ok(())
    }
    fn flush(&self) -> Result<(), LabError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_text_gives_each_content_its_share() {
    let contents = Distribution::parse("two.txt", "0 50\n\n9 3\n 19\t1 \n").unwrap();
    let mut rng = Rng::new(1, 1);
    let (mut unique, mut counts) = (0_u32, HashMap::<u64, u32>::new());
    for _ in 0..100_000 {
        match contents.draw(&mut rng) {
            Drawn::Unique => unique += 1,
            Drawn::Shared(number) => *counts.entry(number).or_default() += 1,
        }
    }
    assert!((49_000..51_000).contains(&unique), "{unique}");
    let mut all: Vec<(u64, u32)> = counts.into_iter().collect();
    all.sort_unstable();
    let [a, b, c, d] = all[..] else { panic!("{all:?}") };
    assert_eq!([a.0, b.0, c.0, d.0], [50, 51, 52, 53]);
    for (_, of_ten) in [a, b, c] {
        assert!((9_500..10_500).contains(&of_ten), "{all:?}");
    }
    assert!((19_500..20_500).contains(&d.1), "{all:?}");
}

#[test]
fn a_text_that_is_no_distribution_is_refused() {
    for (text, why) in [
        ("0 5\n3\n", "d.txt, line 2: expected two numbers"),
        ("0 5 7", "line 1"),
        ("-1 5", "line 1"),
        ("3 0\n", "d.txt: there is no block in it"),
        ("18446744073709551615 1", "does not fit 64 bits"),
        ("4294967296 4294967296", "does not fit 64 bits"),
    ] {
        let error = Distribution::parse("d.txt", text).unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
}

/// 16.3 % of 256 MiB written by the original distribution are duplicates; 16 % have one content.
#[test]
fn the_built_in_distribution_has_the_duplicates_of_the_original() {
    let blocks = 65_536_u32;
    let mut process = Process::new(traffic(Access::Sequential, 3), 0, 0..u64::from(blocks)).unwrap();
    let mut counts = HashMap::<_, u32>::new();
    for _ in 0..blocks {
        *counts.entry(process.next_content()).or_default() += 1;
    }
    let distinct = u32::try_from(counts.len()).unwrap();
    let duplicates = 100.0 * f64::from(blocks - distinct) / f64::from(blocks);
    assert!(
        (15.9..16.8).contains(&duplicates),
        "{duplicates} % are duplicates"
    );
    let most = 100.0 * f64::from(*counts.values().max().unwrap()) / f64::from(blocks);
    assert!((15.6..16.5).contains(&most), "{most} % have one content");
}

/// 102,400 hotspot writes of the original benchmark touch 16,852 of 32,768 blocks, and write one of
/// them 306 times.
#[test]
fn hotspots_are_as_hot_as_those_of_the_original() {
    let touched = |access| {
        let mut process = Process::new(traffic(access, 5), 0, 0..32_768).unwrap();
        let mut counts = HashMap::<u64, u32>::new();
        for _ in 0..102_400 {
            *counts.entry(process.next_offset()).or_default() += 1;
        }
        assert!(
            counts
                .keys()
                .all(|at| at % BLOCK_BYTES == 0 && *at < 32_768 * BLOCK_BYTES)
        );
        (counts.len(), *counts.values().max().unwrap())
    };
    let (blocks, hottest) = touched(Access::Hotspots);
    assert!((16_300..17_300).contains(&blocks), "{blocks} blocks");
    assert!((230..380).contains(&hottest), "{hottest} times");
    let (blocks, hottest) = touched(Access::Uniform);
    assert!(
        blocks > 30_500 && hottest < 20,
        "{blocks} blocks, {hottest} times"
    );
    assert_eq!(touched(Access::Sequential), (32_768, 4));
}

#[test]
fn a_load_follows_from_its_seed_and_flushes_each_write() {
    let written = |seed| {
        let disk = Memory::default();
        let processes = Process::side_by_side(&traffic(Access::Hotspots, seed), 0, 3, 100).unwrap();
        assert_eq!(processes.iter().map(Process::len_blocks).sum::<u64>(), 100);
        let mut workers: Vec<Worker> = processes
            .into_iter()
            .map(|process| Worker {
                process,
                kind: Kind::FlushedWrites,
                per_s: None,
            })
            .collect();
        let done = run(&disk, &mut workers, Until::Operations(200), &|_| Ok(())).unwrap();
        assert!(done.iter().all(|one| one.operations() == 200));
        assert_eq!(disk.flushes.into_inner(), 600);
        disk.blocks.into_inner().unwrap()
    };
    let first = written(1);
    assert_eq!(first, written(1));
    assert_ne!(first, written(2));
    let zeros = vec![0; 4096];
    assert!(first.values().all(|block| *block != zeros));
    let contents: HashSet<&Vec<u8>> = first.values().collect();
    assert!(contents.len() < first.len(), "no content occurs twice");
    assert!(contents.len() > first.len() / 2);
}

#[test]
fn a_pace_is_kept_and_an_error_ends_all_workers() {
    let disk = Memory::default();
    let workers = || -> Vec<Worker> {
        let processes = Process::side_by_side(&traffic(Access::Uniform, 1), 0, 2, 64).unwrap();
        let kinds = [(Kind::Reads, 200.0), (Kind::Writes, 100.0)];
        let both = processes.into_iter().zip(kinds);
        both.map(|(process, (kind, per_s))| Worker {
            process,
            kind,
            per_s: Some(per_s),
        })
        .collect()
    };
    let time = std::time::Duration::from_millis(300);
    let done = run(&disk, &mut workers(), Until::Time(time), &|_| Ok(())).unwrap();
    // A busy machine may be late, never early.
    assert!((1..=60).contains(&done[0].operations()), "{done:?}");
    assert!((1..=30).contains(&done[1].operations()), "{done:?}");
    assert_eq!(disk.flushes.load(Ordering::Relaxed), 0);
    let all = done[0].clone().beside(&done[1]);
    assert_eq!(all.operations(), done[0].operations() + done[1].operations());

    let failing = |_| Err(LabError::settings("enough"));
    let endless = Until::Operations(u64::MAX);
    let error = run(&disk, &mut workers(), endless, &failing).unwrap_err();
    assert!(error.to_string().contains("enough"));
}

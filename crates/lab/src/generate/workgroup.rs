//! Workgroup-like [Lillibridge 4.2, L10]: the desktop machines of a group of engineers.
//!
//! The paper's collection is not available. This workload has what the paper says of it: 20
//! machines; four months (91 days with backups); 154 full backups of 3 to 56 GB, 21 GB on average;
//! 392 incremental ones; 3.8 TB in all. A machine's first backup is full. Each week's last backup
//! is replaced by a *synthetic full*: the last full with the week's incremental ones applied. Files
//! are never deleted, since the collection does not have their deletion. The backups of one day are
//! one backup.
//!
//! The paper does not say what the backups hold. Here a machine is used in 37 % of the weeks and on
//! 81.5 % of their days, and is backed up on each of these. 80 % of its first full are files of the
//! group (operating system, programs, sources). The first of these files are on all machines. Later
//! ones are on two of three machines that have room for them. On a day of use, 18 % of a machine's
//! own files change, each by 5 % of its bytes at a random offset; directories are visited as in
//! [`super::Images`]. New files are 0.3 % of its first full. Every fourth week 2 % of the group's
//! files are updated, on all machines alike. Files are as long as those of '2year'.
//!
//! A file begins with its tar header, which changes with it. Memory: 16 to 32 bytes for each chunk
//! of all machines' files.

use simulate::{BackupHead, Extent, SimulateError};

use super::files::{Files, Pick, Shape, Share};
use super::lengths::{Lengths, Maker};
use super::{Parts, Workload, check_chunk_bytes, check_percent, check_some};
use crate::rng::Rng;

const DAYS_A_WEEK: u32 = 5;
/// A machine is used in so many of a million weeks, and on so many of a million of their days.
const WEEKS_USED: u64 = 370_000;
const DAYS_USED: u64 = 815_000;
/// The least and the greatest full backup, as fractions of their mean: 3 and 56 of 21 GB.
const LEAST: (u64, u64) = (3, 21);
const MOST: (u64, u64) = (56, 21);
const SIZE_SIGMA: f64 = 0.7;
/// So many percent of the group's files are on all machines.
const ON_ALL: u64 = 20;
/// A machine takes so many of a million of the other files.
const ON_MANY: u64 = 666_667;
/// Files that a machine takes together.
const PACKAGE: usize = 32;
/// Percent of its own files, and of each file, that change; percent of its first full that new
/// files are.
const FILES_CHANGED: f64 = 18.0;
const BYTES_CHANGED: f64 = 5.0;
const NEW: f64 = 0.3;
/// Percent of the group's files that are updated, and weeks between updates.
const UPDATED: f64 = 2.0;
const UPDATE_WEEKS: u32 = 4;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Workgroup {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Number of machines; the paper has 20.
    pub machines: u32,
    /// Bytes of a machine's first full backup on average; the paper's fulls have 21 GB.
    pub machine_bytes: u64,
    /// Number of weeks; the paper's 91 days are 18.
    pub weeks: u32,
    /// Percent of a machine's first full backup that are files of the group.
    pub shared: f64,
    /// Bytes of a chunk on average; the paper has 4 KiB.
    pub chunk_bytes: u32,
}

impl Default for Workgroup {
    fn default() -> Self {
        Self {
            seed: 1,
            machines: 20,
            machine_bytes: 21_000_000_000,
            weeks: 18,
            shared: 80.0,
            chunk_bytes: 4096,
        }
    }
}

struct Machine {
    /// The group's files that it has.
    shared: Vec<usize>,
    own: Files,
    new_bytes: u64,
    rng: Rng,
    /// The day of its last backup.
    backed_up: Option<u32>,
}

/// A machine's part of a day's backup.
#[derive(Debug, Clone, Copy)]
struct Part {
    machine: usize,
    /// The part has files that changed after this day. `None`: all files, for a full backup.
    since: Option<u32>,
}

impl Workgroup {
    fn check(&self) -> Result<(), SimulateError> {
        check_some(self.machines.into(), "machines")?;
        check_some(self.machine_bytes, "bytes of a machine")?;
        check_some(self.weeks.into(), "weeks")?;
        check_percent(self.shared, "share that machines have in common")?;
        check_chunk_bytes(self.chunk_bytes)
    }

    fn files(&self, number: u64) -> Files {
        let rng = |n| Rng::new(self.seed, 4 * number + n);
        let maker = Maker::new(Lengths::Content(self.chunk_bytes), rng(2), number);
        Files::new(Shape::IN_TAR, rng(1), rng(3), maker)
    }

    /// The group's files, and machines with some of them.
    fn machines(&self) -> (Files, Vec<Machine>) {
        let share = |(part, whole): (u64, u64)| {
            let wide = u128::from(self.machine_bytes) * u128::from(part) / u128::from(whole);
            u64::try_from(wide).unwrap_or(u64::MAX)
        };
        let (least, most) = (share(LEAST), share(MOST));
        let mut sizes = Rng::new(self.seed, 0);
        let draw = |_| {
            sizes
                .log_normal(self.machine_bytes, SIZE_SIGMA)
                .clamp(least.max(1), most.max(1))
        };
        let sizes: Vec<u64> = (0..self.machines).map(draw).collect();
        // Scales the sizes to their given mean.
        let all: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
        let wanted = u128::from(self.machine_bytes) * u128::from(self.machines);
        let scaled = |size: &u64| {
            let size = u128::from(*size) * wanted / all;
            u64::try_from(size)
                .unwrap_or(u64::MAX)
                .clamp(least.max(1), most.max(1))
        };
        let sizes: Vec<u64> = sizes.iter().map(scaled).collect();
        let of_group = Share::percent(self.shared);
        let mut group = self.files(0);
        let largest = sizes.iter().max().copied().unwrap_or(0);
        if self.shared > 0.0 {
            group.add(of_group.of(largest), 0);
        }
        let base = u64::try_from(u128::from(group.bytes()) * u128::from(ON_ALL) / 100).unwrap_or(u64::MAX);
        let machines = sizes.iter().zip(1..).map(|(size, number)| {
            let mut rng = Rng::new(self.seed, 4 * number);
            let wanted = of_group.of(*size);
            let (mut shared, mut held, mut passed) = (Vec::new(), 0, 0);
            for (n, package) in group.files.chunks(PACKAGE).enumerate() {
                let takes = passed < base || rng.happens(ON_MANY);
                for (m, file) in package.iter().enumerate() {
                    passed += file.len();
                    if takes && held < wanted {
                        held += file.len();
                        shared.push(n * PACKAGE + m);
                    }
                }
            }
            let mut own = self.files(number);
            own.add(size.saturating_sub(held), 0);
            Machine {
                shared,
                own,
                new_bytes: Share::percent(NEW).of(*size),
                rng,
                backed_up: None,
            }
        });
        let machines = machines.collect();
        (group, machines)
    }
}

impl Machine {
    /// The days of a week on which the machine is used. `first` is the number of the week's first
    /// day.
    fn days(&mut self, first: u32) -> Vec<u32> {
        if !self.rng.happens(WEEKS_USED) {
            return Vec::new();
        }
        let days = first..first + DAYS_A_WEEK;
        days.filter(|_| self.rng.happens(DAYS_USED)).collect()
    }

    fn work(&mut self, day: u32) {
        let (files, bytes) = (Share::percent(FILES_CHANGED), Share::percent(BYTES_CHANGED));
        self.own.change(0, files, bytes, Pick::Walking, day);
        self.own.add(self.new_bytes, day);
    }

    fn say(&self, group: &Files, since: Option<u32>, out: &mut dyn Parts) -> Result<(), SimulateError> {
        let shared = self.shared.iter().map(|n| &group.files[*n]);
        let is_in = |day: u32| since.is_none_or(|since| day > since);
        for file in shared.chain(&self.own.files).filter(|file| is_in(file.day)) {
            out.chunks(&file.slices)?;
        }
        Ok(())
    }
}

impl Workload for Workgroup {
    fn name(&self) -> &'static str {
        "workgroup"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        self.check()?;
        let (mut group, mut machines) = self.machines();
        let mut number = 0;
        for week in 0..self.weeks {
            let monday = week * DAYS_A_WEEK + 1;
            let mut used: Vec<Vec<u32>> = machines.iter_mut().map(|machine| machine.days(monday)).collect();
            if week == 0 && used.iter().all(Vec::is_empty) {
                // At least one machine is backed up first.
                used[0] = vec![monday];
            }
            if week > 0 && week.is_multiple_of(UPDATE_WEEKS) {
                let all = Share::percent(100.0);
                group.change(0, Share::percent(UPDATED), all, Pick::Evenly, monday);
            }
            for day in monday..monday + DAYS_A_WEEK {
                let mut parts = Vec::new();
                for (n, machine) in machines.iter_mut().enumerate() {
                    if !used[n].contains(&day) {
                        continue;
                    }
                    if machine.backed_up.is_some() {
                        machine.work(day);
                    }
                    // The last backup of a machine's week is a synthetic full: it has all files in
                    // their current state.
                    let is_last = used[n].last() == Some(&day);
                    let since = if is_last { None } else { machine.backed_up };
                    machine.backed_up = Some(day);
                    parts.push(Part { machine: n, since });
                }
                if parts.is_empty() {
                    continue;
                }
                number += 1;
                out.begin(&BackupHead {
                    name: format!("{}-{number:03}", self.name()),
                    extent: if parts.iter().all(|part| part.since.is_none()) {
                        Extent::Full
                    } else {
                        Extent::Incremental
                    },
                })?;
                for part in parts {
                    machines[part.machine].say(&group, part.since, out)?;
                }
                out.end()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::generate::tests::Seen;
    use simulate::Chunk;

    const MACHINE: u64 = 40_000_000;

    fn small() -> Workgroup {
        Workgroup {
            machine_bytes: MACHINE,
            ..Workgroup::default()
        }
    }

    fn bytes<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> u64 {
        chunks.into_iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    #[test]
    fn the_workgroup_is_as_large_as_the_papers_and_saves_about_as_much() {
        let seen = Seen::of(&mut small()).0;
        assert!((85..=90).contains(&seen.len()), "{}", seen.len());
        let all: u64 = seen.iter().map(|(_, chunks)| bytes(chunks)).sum();
        // 3.8 TB, in fulls of machines of 21 GB.
        let machines = all / MACHINE;
        assert!((155..210).contains(&machines), "{machines}");
        // The factor of the last 30 backups: the curves of the paper's figures 4 and 7 begin at 6.
        let kept = &seen[seen.len() - 30..];
        let mut known = HashSet::new();
        let chunks = || kept.iter().flat_map(|(_, chunks)| chunks);
        let stored = bytes(chunks().filter(|chunk| known.insert(chunk.fingerprint)));
        let factor = bytes(chunks()) * 10 / stored;
        assert!((60..120).contains(&factor), "{factor}");
    }

    #[test]
    fn machines_share_the_set_percentage() {
        let share = |shared| {
            let workload = Workgroup { shared, ..small() };
            let (group, machines) = workload.machines();
            let held: u64 = (machines.iter())
                .flat_map(|machine| machine.shared.iter().map(|n| group.files[*n].len()))
                .sum();
            held * 100 / (MACHINE * 20)
        };
        assert_eq!(share(0.0), 0);
        assert!((45..60).contains(&share(50.0)), "{}", share(50.0));
        assert!((70..90).contains(&share(80.0)), "{}", share(80.0));
    }

    #[test]
    fn sizes_are_within_the_papers() {
        let (group, machines) = Workgroup {
            machine_bytes: 2_100_000,
            ..small()
        }
        .machines();
        let size = |machine: &Machine| {
            let shared: u64 = machine.shared.iter().map(|n| group.files[*n].len()).sum();
            shared + machine.own.bytes()
        };
        let sizes: Vec<u64> = machines.iter().map(size).collect();
        // Sizes include tar headers.
        assert!(
            sizes.iter().all(|size| (300_000..5_800_000).contains(size)),
            "{sizes:?}"
        );
        let mean = sizes.iter().sum::<u64>() / 20;
        assert!((1_900_000..2_300_000).contains(&mean), "{mean}");
        assert!(sizes.iter().max().unwrap() > &(2 * sizes.iter().min().unwrap()));
    }

    #[test]
    fn one_machine_is_full_at_the_end_of_its_weeks() {
        let seen = Seen::of(&mut Workgroup {
            machines: 1,
            weeks: 30,
            ..small()
        });
        let (mut files, mut fulls): (HashMap<_, _>, Vec<&Vec<Chunk>>) = Default::default();
        for (n, (head, chunks)) in seen.0.iter().enumerate() {
            let new: HashSet<_> = chunks.iter().map(|chunk| chunk.fingerprint).collect();
            if head.extent == Extent::Full {
                // The full backup has what the week's incremental ones brought, except what changed
                // again.
                let last: HashSet<_> = files.drain().map(|(print, _)| print).collect();
                if !last.is_empty() {
                    let held = last.intersection(&new).count();
                    assert!(held * 10 > last.len() * 5, "{held} of {}", last.len());
                }
                fulls.push(chunks);
            } else {
                files.extend(chunks.iter().map(|chunk| (chunk.fingerprint, n)));
                assert!(bytes(chunks) * 3 < bytes(fulls[0]), "{n}");
            }
        }
        assert_eq!(seen.0[0].0.extent, Extent::Full);
        // Files are never deleted.
        assert!(fulls.is_sorted_by_key(|chunks| bytes(*chunks)));
        let incrementals = seen.0.len() - fulls.len();
        let ratio = incrementals * 10 / fulls.len();
        // The paper has 392 to 154. Its fulls begin 20 series.
        assert!((20..=35).contains(&ratio), "{incrementals} to {}", fulls.len());
    }
}

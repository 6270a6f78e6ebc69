//! Paulo and Pereira, "Efficient Deduplication in a Distributed Primary Storage Infrastructure"
//! (DEDIS), DAIS 2014: the experiments of section 3 on this project's volumes.
//!
//! All three measure times, so they depend on the machine. Volumes are in files of the run's
//! folder. The load is `crate::disk`'s: writers of blocks, each flushed (D10).

mod bed;
mod far_index;
mod figure_3;
mod frames;
mod host;
mod table_1;
mod table_2;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use host::serve_host;

use super::{DiskOptions, Extent, Paper, Part, Run};
use crate::disk::{Distribution, Traffic};
use crate::error::LabError;

/// The experiments of the paper.
pub(super) const PAPER: Paper = Paper {
    name: "dais14",
    title: "Paulo and Pereira, 'Efficient Deduplication in a Distributed Primary Storage Infrastructure', DAIS 2014.",
    extents: [
        "Volumes of 4 GiB; 90 minutes of load and 30 without (table 1), five modes of 30 minutes each (table 2), \
         30 minutes for each number of hosts (figure 3). 5 minutes between iterations of the finder (tables 1 and 2), \
         or two and a half (figure 3). In all, some eleven hours and 60 GiB.",
        "Volumes of 128 MiB; a minute of load (table 1, and each mode of table 2); 12 seconds for each number of \
         hosts (figure 3). 4 seconds between iterations of the finder (tables 1 and 2), or a second (figure 3).",
    ],
    parts: &[TABLE_1, TABLE_2, FIGURE_3],
    with_versions: &[],
    with_disk_options: true,
    with_hosts: &[FIGURE_3],
    run,
};

/// Space saved, and the finder's throughput.
const TABLE_1: Part = Part("table-1");
/// What deduplication costs the load.
const TABLE_2: Part = Part("table-2");
/// Several hosts.
const FIGURE_3: Part = Part("figure-3");

/// Writers of tables 1 and 2.
const PROCESSES: u64 = 4;

/// How much is measured.
#[derive(Debug, Clone, PartialEq)]
struct Scale {
    /// Bytes of a volume in tables 1 and 2.
    volume_bytes: u64,
    /// The load of table 1.
    load_1: Duration,
    /// The load of a mode of table 2, in all rounds.
    load_2: Duration,
    /// The rounds of table 2.
    rounds: u32,
    /// The load of a number of hosts of figure 3.
    load_3: Duration,
    /// Bytes of the volume of a host.
    host_bytes: u64,
    /// The numbers of hosts.
    hosts: Vec<u16>,
    /// Seconds between two iterations of the finder in tables 1 and 2.
    interval_s: u32,
    /// Seconds between two iterations of a host's finder in figure 3.
    interval_3_s: u32,
}

impl Scale {
    fn of(extent: Extent, options: &DiskOptions<'_>) -> Self {
        let seconds = Duration::from_secs;
        let mut scale = match extent {
            Extent::Quick => Self {
                volume_bytes: 128 << 20,
                load_1: seconds(60),
                load_2: seconds(60),
                rounds: 3,
                load_3: seconds(12),
                host_bytes: 32 << 20,
                hosts: vec![1, 2, 5, 10, 15, 20],
                interval_s: 4,
                interval_3_s: 0,
            },
            Extent::Full => Self {
                volume_bytes: 4 << 30,
                load_1: seconds(90 * 60),
                load_2: seconds(32 * 60),
                rounds: 2,
                load_3: seconds(30 * 60),
                host_bytes: 512 << 20,
                hosts: vec![1, 2, 5, 10, 15, 20],
                interval_s: 300,
                interval_3_s: 0,
            },
        };
        if let Some(load) = options.load {
            (scale.load_1, scale.load_2, scale.load_3) = (load, load, load);
        }
        scale.interval_3_s = interval_beside(scale.load_3);
        if let Some(interval_s) = options.interval_s {
            (scale.interval_s, scale.interval_3_s) = (interval_s, interval_s);
        }
        if !options.hosts.is_empty() {
            scale.hosts = options.hosts.to_vec();
        }
        scale
    }
}

/// The interval of a finder that works beside a load of this length: a twelfth of it.
///
/// The finder examines a block for the first time in its third iteration after a write. The
/// collector shares the finder's limit, and a host may drop more references in a second than that
/// allows. So an iteration may be longer than the one before. In the worst case the third begins
/// after eight intervals.
fn interval_beside(load: Duration) -> u32 {
    u32::try_from(load.as_secs() / 12).unwrap_or(u32::MAX)
}

/// What all experiments share.
struct Setting<'a> {
    scale: Scale,
    traffic: Traffic,
    options: DiskOptions<'a>,
}

impl Setting<'_> {
    /// The load and the finder's pace, for an experiment's setup.
    fn load_words(&self, interval_s: u32) -> String {
        format!(
            "Writers flush each block of 4 KiB; {} access; contents of {}. The finder begins an iteration every {} s. \
             Times are of this machine, while the run had it to itself or not.",
            self.traffic.access,
            self.options.distribution.map_or_else(
                || "the built-in distribution".to_owned(),
                |file| file.display().to_string()
            ),
            interval_s
        )
    }
}

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    let scale = Scale::of(run.extent, &run.disk);
    run_at(run, scale)
}

fn run_at(run: &mut Run<'_>, scale: Scale) -> Result<(), LabError> {
    let options = run.disk;
    let setting = Setting {
        traffic: Traffic {
            contents: Arc::new(contents(&options)?),
            access: options.access.unwrap_or_default(),
            seed: 1,
        },
        scale,
        options,
    };
    if run.wants(TABLE_1) {
        table_1::run(run, &setting)?;
    }
    if run.wants(TABLE_2) {
        table_2::run(run, &setting)?;
    }
    if run.wants(FIGURE_3) {
        figure_3::run(run, &setting)?;
    }
    Ok(())
}

fn contents(options: &DiskOptions<'_>) -> Result<Distribution, LabError> {
    let Some(file) = options.distribution else {
        return Ok(Distribution::high_performance());
    };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|source| LabError::io(&name, source))?;
    Distribution::parse(&name, &text)
}

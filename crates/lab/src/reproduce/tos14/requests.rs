//! Restores with more or fewer concurrent requests, from storages with high latency. The paper has
//! no such figure.

use onefold::AssembleOptions;

use super::weeks::{Stores, data_words};
use super::{Size, cores, megabytes_a_second, setup};
use crate::error::LabError;
use crate::reproduce::stores::array::Disks;
use crate::reproduce::{Experiment, Row, Run};

/// Storages that this machine does not have.
const STORAGES: [(&str, Disks); 2] = [
    ("the paper's array of 8 disks", Disks::PAPERS),
    ("256 disks with seeks of 30 ms", Disks::FAR),
];

/// Restores of each layout from each storage.
const WAYS: usize = 3;

/// Restores of the newest backup.
pub(super) const RESTORES: usize = STORAGES.len() * 2 * WAYS;

/// Three ways: fetching threads for the cores alone and no prefetch threads; the default; 32
/// requests at once.
fn ways() -> [(String, AssembleOptions); WAYS] {
    let default = AssembleOptions::for_cores(cores());
    let few = default.with_requests(cores() + 2).prefetch_threads(0);
    let many = default.with_requests(32);
    [few, default, many].map(|options| {
        (
            format!("{} and {}", options.workers, options.prefetch_threads),
            options,
        )
    })
}

/// Restores the newest backup of both layouts in each way.
pub(super) fn run(size: &Size, stores: &Stores, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("requests");
    let ways = ways();
    let names = ways.each_ref().map(|(name, _)| name.as_str()).join(", ");
    let bytes = stores.weeks.last().map_or(0, |week| week.bytes);
    let mut rows = Vec::new();
    for (storage, disks) in STORAGES {
        for (layout, engine) in [("conventional", &stores.conventional), ("hybrid", &stores.hybrid)] {
            let Some(newest) = engine.backups()?.last().copied() else {
                continue;
            };
            let mut rates = [0.0; WAYS];
            for ((_, options), rate) in ways.iter().zip(&mut rates) {
                let (took, _) = engine.restore_from(disks, newest, *options)?;
                *rate = megabytes_a_second(bytes, took);
                run.progress.advance(bytes)?;
            }
            let [few, default, many] = rates;
            rows.push(
                Row::new(
                    format!("{storage}, modelled, {layout}: restore of the newest, requests of regions and of recipes: {names}"),
                    "",
                    format!("{few:.0}, {default:.0}, {many:.0} MB/s; the default is {:.2} times the first", default / few.max(1e-9)),
                )
                .value(default / few.max(1e-9)),
            );
        }
    }
    run.report(Experiment {
        name: "requests".to_owned(),
        title: "Requests at once".to_owned(),
        seeds: vec!["R7"],
        setup: format!(
            "{} {} One run each, of the same stores as figure 6, 96 MiB of memory. Both storages are models under them: of a disk, requests are served one after another, after a seek each that does not go on where \
             the last one ended; the second kind takes {} ms for that, reads {} MB/s a disk, and has stripes of 1 MiB.",
            setup(size),
            data_words(size, stores),
            Disks::FAR.seek.as_millis(),
            Disks::FAR.bytes_a_second / 1_000_000,
        ),
        rows,
        plots: Vec::new(),
    })
}

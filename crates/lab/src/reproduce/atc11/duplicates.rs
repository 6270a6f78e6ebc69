//! Duplicates that whole backups find with a sampled index and a small cache: table 4, section 4.2.

use super::chunks::CONTAINER_CHUNKS;
use super::efficiency::{self, Backed, Cache, Order, Repeated};
use super::engine::{CHUNK_BYTES, cores};
use super::{Size, number, percent, share};
use crate::error::LabError;
use crate::reproduce::{Axis, Experiment, Part, Plot, Row, Run, Series};

/// T: R = 1/128.
const PERIOD: u64 = 128;
/// The cache has room for one in so many of all unique blocks of the images; the second value makes
/// it far too small.
const CACHED: u64 = 2;
const HARDLY_CACHED: u64 = 8;
/// Blocks of a turn when two streams return interleaved. No segment, of 512 blocks on average, is
/// the same as before.
const TURN: u64 = 256;
/// The least efficiency of each image.
const EFFICIENCY: f64 = 0.97;
/// The least share of synthetic duplicates that is found.
const FOUND: f64 = 0.975;

/// Section 4.2: duplicates of synthetic data.
pub(super) const STREAMS: Part = Part("duplicates");
/// Table 4: four images of a virtual machine's disk.
pub(super) const IMAGES: Part = Part("table-4");

/// Bytes of all backups.
pub(super) fn bytes(size: &Size, run: &Run<'_>) -> u64 {
    let images = 4 * efficiency::bytes_of_images(size.image_divisor);
    run.bytes_of(IMAGES, images) + run.bytes_of(STREAMS, 4 * size.stream_bytes)
}

/// Runs all of these experiments.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    if run.wants(STREAMS) {
        streams(size, run)?;
    }
    if run.wants(IMAGES) {
        images(size, run)?;
    }
    Ok(())
}

fn streams(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("duplicates of streams");
    let [same, woven] = [Order::Same, Order::Woven(TURN)]
        .map(|order| efficiency::back_up_again(size.stream_bytes, order, PERIOD, cores(), run.progress));
    run.report(synthetic(&same?, &woven?))
}

fn images(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("images");
    let at = |cached, period| {
        efficiency::back_up_images(size.image_divisor, cached, period, cores(), run.progress)
    };
    let (cache, sampled) = at(CACHED, PERIOD)?;
    let mut others = Vec::new();
    for (cached, period) in [(HARDLY_CACHED, PERIOD), (HARDLY_CACHED, PERIOD / 2), (CACHED, 1)] {
        let (cache, backed) = at(cached, period)?;
        others.push((cache, backed));
    }
    run.report(table_4(cache, &sampled, &others, size.image_divisor))
}

fn synthetic(same: &Repeated, woven: &Repeated) -> Experiment {
    let row = |what: &str, one: &Repeated| {
        Row::new(
            what,
            "no less than 97 %; 97.6 % by equation 2, at 1/101",
            format!(
                "{} at 1/{}, {} catalogs loaded",
                percent(one.found),
                one.period,
                one.catalog_loads
            ),
        )
        .value(one.found)
        .met(one.period == PERIOD && one.found >= FOUND, "fewer are found")
    };
    Experiment {
        name: "duplicates".to_owned(),
        title: "section 4.2: duplicates of synthetic data".to_owned(),
        seeds: vec!["G3", "G4"],
        setup: format!(
            "Two streams of unique data, {:.2} GB in all, {} containers, backed up and then once more at R = 1/{}, with a cache that has \
             room for {} of {} fingerprints. In the same order segments are known whole, by one look-up each. Woven into each other, \
             {TURN} blocks of each by turns, none is known, and chunks are looked up a segment at a time. Equation 2, which counts on \
             look-ups chunk by chunk, has 96.90 % for 1/128.",
            number(same.chunks * u64::from(CHUNK_BYTES)) / 1e9,
            same.chunks / CONTAINER_CHUNKS,
            same.period,
            same.cache.places,
            same.chunks
        ),
        rows: vec![
            row("found, streams in the same order", same),
            row("found, streams woven into each other", woven),
        ],
        plots: Vec::new(),
    }
}

fn table_4(cache: Cache, sampled: &[Backed], others: &[(Cache, Vec<Backed>)], divisor: u64) -> Experiment {
    let paper = [
        "96 %: 2,211 MB for 2,123",
        "96 %: 3,938 MB for 3,775",
        "96 %: 5,085 MB for 4,871",
        "97 %: 6,860 MB for 6,621",
    ];
    let megabytes = |bytes: u64| number(bytes) / 1e6;
    let mut rows: Vec<Row> = sampled
        .iter()
        .zip(paper)
        .enumerate()
        .map(|(n, (one, paper))| {
            Row::new(
                format!("VM{n}: real size for ideal, all images so far"),
                paper,
                format!(
                    "{}: {:.1} MB for {:.1}, R = 1/{}, {} catalogs loaded",
                    percent(one.efficiency()),
                    megabytes(one.real_bytes),
                    megabytes(one.ideal_bytes()),
                    one.period,
                    one.catalog_loads
                ),
            )
            .value(one.efficiency())
            .met(
                one.efficiency() >= EFFICIENCY && (n == 0 || one.period == PERIOD),
                "duplicates in short stretches have no hook of their own",
            )
        })
        .collect();
    let again: u64 = sampled.iter().map(|one| one.again_bytes).sum();
    let all: u64 = sampled.iter().map(|one| one.bytes).sum();
    let found = 1.0 - share(again, all);
    rows.push(
        Row::new("each image once more: duplicates found", "100 %", percent(found))
            .value(found)
            .met(found >= 0.9995, "some are stored again"),
    );
    for (cache, backed) in others {
        if let Some(one) = backed.last() {
            rows.push(
                Row::new(
                    format!(
                        "VM3 at R = 1/{}, with room for {} fingerprints",
                        one.period, cache.places
                    ),
                    "",
                    format!(
                        "{}, {} catalogs loaded",
                        percent(one.efficiency()),
                        one.catalog_loads
                    ),
                )
                .value(one.efficiency()),
            );
        }
    }
    let points = |backed: &[Backed]| -> Vec<(f64, f64)> {
        let each = backed
            .iter()
            .map(|one| (megabytes(one.ideal_bytes()), 100.0 * one.efficiency()));
        each.collect()
    };
    let name = |cache: Cache, backed: &[Backed]| {
        let period = backed.last().map_or(1, |one| one.period);
        format!("R = 1/{period}, cache {:.1} MB", megabytes(cache.bytes))
    };
    let mut series = vec![Series::new(name(cache, sampled), points(sampled))];
    series.extend(
        others
            .iter()
            .map(|(cache, backed)| Series::new(name(*cache, backed), points(backed))),
    );
    let sizes = [
        (2123.0, 2211.0),
        (3775.0, 3938.0),
        (4871.0, 5085.0),
        (6621.0, 6860.0),
    ];
    let sizes = sizes.map(|(ideal, real)| (ideal / number(divisor), 100.0 * ideal / real));
    series.push(Series::new("the paper, R = 1/101", sizes.to_vec()));
    let scale = if divisor == 1 {
        "as many blocks as the paper's".to_owned()
    } else {
        format!("an {divisor}th of the paper's blocks")
    };
    let logical: u64 = sampled.iter().map(|one| one.bytes).sum();
    Experiment {
        name: "table-4".to_owned(),
        title: "table 4: four images of a virtual machine's disk".to_owned(),
        seeds: vec!["G3"],
        setup: format!(
            "Four images, {:.2} GB in all with free blocks and copies, {scale}: as many unique ones in each, and shared with those before, as \
             table 4 has. What it does not say is chosen: files are log-normal with a mean of 128 KiB, an update deletes some, drawn at \
             random, and puts new ones into their places and behind the rest. Blocks of 4 KiB, containers of 16 MiB, each image a series \
             of its own, R = 1/{PERIOD}; the cache has room for {} fingerprints ({:.1} MB), one in {CACHED} of all unique blocks; the \
             paper's has 256 MB, which at its 18 bytes an entry would be room for all.",
            number(logical) / 1e9,
            cache.places,
            megabytes(cache.bytes)
        ),
        rows,
        plots: vec![Plot {
            name: "table-4".to_owned(),
            title: "Ideal to real size of four images".to_owned(),
            subtitle: format!("{scale}, containers of 16 MiB, blocks of 4 KiB"),
            x: Axis::linear("ideal size of all images so far, MB"),
            y: Axis::linear("ideal to real size, %"),
            series,
        }],
    }
}

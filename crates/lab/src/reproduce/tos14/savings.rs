//! Savings: figure 4.

use super::data::data_bytes;
use super::layout::StoreLayout;
use super::{Size, megabytes, mib, percent, setup, share};
use crate::error::LabError;
use crate::generate::{ImageChunks, Images};
use crate::reproduce::stores::cold::Folder;
use crate::reproduce::stores::content;
use crate::reproduce::stores::engine::{Engine, Stored};
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// The least savings in the paper, and the most percentage points that conventional deduplication
/// saves more.
const SAVED_MIN: f64 = 0.936;
const POINTS_MAX: f64 = 0.03;
/// Stores of images of this size do not fit into memory.
const LARGE_BYTES: u64 = 2_000_000_000;

/// A data set, and its figures in the paper.
struct Data {
    images: Images,
    paper: &'static str,
    paper_alone: &'static str,
    saved_min: f64,
}

/// The savings of a layout on a data set.
#[derive(Debug, Clone, Copy)]
struct Saved {
    layout: StoreLayout,
    /// Before reverse deduplication.
    alone: f64,
    /// At the end, with catalogs in containers counted.
    all: f64,
    /// At the end, with everything in the store counted.
    whole: f64,
}

fn data_sets(size: &Size) -> Vec<Data> {
    let ([most, last], weeks) = size.savings;
    let synthetic = |images| Data {
        images,
        paper: "93.6 to 97.0 %",
        paper_alone: "56.5 to 68.9 % with segments of 8 MB",
        saved_min: SAVED_MIN,
    };
    let group = |images: Images, of: (u64, u32, u32)| Images {
        series: of.1,
        weeks: of.2,
        ..images.scaled(of.0)
    };
    let each = (1..=5).zip([most, most, most, most, last]);
    let each = each.filter_map(|(number, bytes)| Some(Images::sg(number)?.scaled(bytes)));
    let each = each.map(|images| synthetic(Images { weeks, ..images }));
    let mut all: Vec<Data> = each.collect();
    all.push(Data {
        paper_alone: "no figure",
        ..synthetic(group(Images::gp(), size.groups[0]))
    });
    all.push(Data {
        images: group(Images::students(), size.groups[1]),
        paper: "96.3 to 97.1 %",
        paper_alone: "at least 90 %",
        saved_min: 0.963,
    });
    all
}

/// The layouts to compare. With large images there are shorter segments instead of longer ones, and
/// the stores are on disk, one after another.
fn layouts(size: &Size, images: &Images) -> (Vec<StoreLayout>, bool) {
    let [short, default, long] = size.segments;
    let hybrid = |segment_bytes| StoreLayout::Hybrid {
        segment_bytes,
        live: 1,
        repair: 0,
    };
    let is_large = images.image_bytes >= LARGE_BYTES;
    let other = hybrid(if is_large { short } else { long });
    (vec![StoreLayout::Conventional, hybrid(default), other], is_large)
}

/// Bytes of all backups.
pub(super) fn bytes(size: &Size) -> u64 {
    let each = data_sets(size).into_iter();
    let bytes = |images: &Images| layouts(size, images).0.len() as u64 * data_bytes(images);
    each.map(|data| bytes(&data.images)).sum()
}

/// Runs all data sets.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for data in data_sets(size) {
        run.progress.begin(format!("figure 4, {}", data.images.name));
        let saved = measure(size, &data.images, run)?;
        rows.extend(rows_of(&data, &saved));
        points.push((data.images.name, saved));
    }
    run.report(experiment(size, rows, &points))
}

fn measure(size: &Size, images: &Images, run: &Run<'_>) -> Result<Vec<Saved>, LabError> {
    let (layouts, is_large) = layouts(size, images);
    if !is_large {
        let engines = layouts
            .into_iter()
            .map(|layout| Ok((layout.store(None, size.container_bytes)?, layout, 0)));
        return measure_with(images, engines.collect::<Result<_, LabError>>()?, run);
    }
    let mut all = Vec::new();
    for layout in layouts {
        let folder = Folder::new(run.folder.join("stores"))?;
        let engine = layout.store(Some(&folder.join("store")), size.container_bytes)?;
        all.extend(measure_with(images, vec![(engine, layout, 0)], run)?);
    }
    Ok(all)
}

/// Measures the savings of these engines. Each has its layout, and the bytes that it stored newly.
fn measure_with(
    images: &Images,
    mut engines: Vec<(Engine, StoreLayout, u64)>,
    run: &Run<'_>,
) -> Result<Vec<Saved>, LabError> {
    let is_in_blocks = images.chunks == ImageChunks::Blocks;
    let mut bytes = 0;
    content::each(images, |content| {
        bytes += content.data_bytes();
        for (engine, layout, new) in &mut engines {
            let (_, report) = engine.back_up(content, is_in_blocks)?;
            *new += report.totals.bytes_new;
            if *layout != StoreLayout::Conventional {
                engine.optimize()?;
            }
            run.progress.advance(content.data_bytes())?;
        }
        Ok(())
    })?;
    let saved = |stored| 1.0 - share(stored, bytes);
    let of_engine = |(engine, layout, new): &(Engine, StoreLayout, u64)| {
        let Stored { chunks, all } = engine.stored()?;
        Ok(Saved {
            layout: *layout,
            alone: saved(*new),
            all: saved(chunks),
            whole: saved(all),
        })
    };
    engines.iter().map(of_engine).collect()
}

fn rows_of(data: &Data, saved: &[Saved]) -> Vec<Row> {
    let name = data.images.name;
    let Some((conventional, hybrid)) = saved.split_first() else {
        return Vec::new();
    };
    let mut rows = vec![
        Row::new(
            format!("{name}: saved, conventional"),
            if name == "vm-series" {
                "98.3 %"
            } else {
                "comparable to the next"
            },
            format!(
                "{}, and {} of all that is stored counts",
                percent(conventional.all),
                percent(conventional.whole)
            ),
        )
        .value(conventional.all),
    ];
    for one in hybrid {
        let StoreLayout::Hybrid { segment_bytes, .. } = one.layout else {
            continue;
        };
        let behind = conventional.all - one.all;
        let why = if conventional.all < data.saved_min {
            format!(
                "conventional deduplication saves {} of these data",
                percent(conventional.all)
            )
        } else {
            format!(
                "the newest backup of each series, one in {} of all backups, shares only whole segments, and a changed file makes it store its segment \
                 again; whole segments alone save {}",
                data.images.weeks,
                percent(one.alone)
            )
        };
        let row = Row::new(
            format!("{name}: saved, segments of {} MiB", mib(segment_bytes.into())),
            data.paper,
            format!(
                "{}, {:.2} points less than conventional; {} if all that is stored counts",
                percent(one.all),
                100.0 * behind,
                percent(one.whole)
            ),
        );
        rows.push(
            row.value(one.all)
                .met(one.all >= data.saved_min && behind <= POINTS_MAX, why),
        );
        rows.push(
            Row::new(
                format!(
                    "{name}: saved by whole segments alone, of {} MiB",
                    mib(segment_bytes.into())
                ),
                data.paper_alone,
                percent(one.alone),
            )
            .value(one.alone),
        );
    }
    rows
}

fn experiment(size: &Size, rows: Vec<Row>, points: &[(&str, Vec<Saved>)]) -> Experiment {
    let ([most, last], weeks) = size.savings;
    let [gp, machines] = size.groups;
    let segment = |one: &Saved| match one.layout {
        StoreLayout::Hybrid { segment_bytes, .. } => mib(segment_bytes.into()),
        StoreLayout::Conventional => f64::NAN,
    };
    let of = |saved: &[Saved], value: fn(&Saved) -> f64| -> Vec<(f64, f64)> {
        let each = saved.iter().filter(|one| one.layout != StoreLayout::Conventional);
        each.map(|one| (segment(one), 100.0 * value(one))).collect()
    };
    let mut series = Vec::new();
    for (name, saved) in points {
        series.push(Series::new(*name, of(saved, |one| one.all)));
        series.push(Series::new(
            format!("{name}, segments alone"),
            of(saved, |one| one.alone),
        ));
    }
    Experiment {
        name: "figure-4".to_owned(),
        title: "figure 4: what is saved".to_owned(),
        seeds: vec!["R1", "R2", "R8"],
        setup: format!(
            "{} Saved is of the bytes of all backups that are no zeros; containers of chunks count with their catalogs, as the engine would \
             store them; the paper leaves metadata out. In memory, or on disk with images of 2 GB and more. SG1 to SG4 with images of {}, SG5 of {}, {weeks} weeks; GP {} series of {}, {} weeks; virtual machines {} \
             series of {}, {} weeks, blocks of 4 KiB.",
            setup(size),
            megabytes(most),
            megabytes(last),
            gp.1,
            megabytes(gp.0),
            gp.2,
            machines.1,
            megabytes(machines.0),
            machines.2
        ),
        rows,
        plots: vec![Plot {
            name: "figure-4".to_owned(),
            title: "What is saved, with segments of several lengths".to_owned(),
            subtitle: format!("containers of {} MiB", mib(size.container_bytes.into())),
            x: Axis::doubling("segment, MiB"),
            y: Axis::linear("saved, %"),
            series,
        }],
    }
}

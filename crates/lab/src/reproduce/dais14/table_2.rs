//! Table 2: what deduplication costs the load: operations a second, latency, copies-on-write (D1,
//! D6, D7).
//!
//! Each mode has a pool of its own. The modes take turns: a first round warms them up, and rounds
//! that are measured follow. Each round has the modes in another order. So whatever disturbs the
//! machine disturbs all modes, and ratios within a round remain.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use volume::VolumeSettings;

use super::bed::{Bed, Folder, Step, fill, writers};
use super::{PROCESSES, Setting};
use crate::disk::{self, Disk, Measured, Until, Worker};
use crate::error::LabError;
use crate::reproduce::figures::{median, mib, percent, share};
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// A mode, as the table's columns, and a file without a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    File,
    Without,
    Hotspots,
    Hash,
    Byte,
}

const MODES: [Mode; 5] = [Mode::File, Mode::Without, Mode::Hotspots, Mode::Hash, Mode::Byte];

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "file without a volume",
            Self::Without => "volume without deduplication",
            Self::Hotspots => "no hotspot avoidance",
            Self::Hash => "hash",
            Self::Byte => "byte",
        }
    }

    /// The paper's operations a second, latency in ms, and share of copies avoided.
    const fn paper(self) -> [&'static str; 3] {
        match self {
            Self::File => ["720.5", "5.575 ms", "-"],
            Self::Without => ["not measured", "not measured", "-"],
            Self::Hotspots => ["636.0", "6.470 ms", "0"],
            Self::Hash => ["688.8", "5.850 ms", "73.33 %"],
            Self::Byte => ["662.9", "6.094 ms", "72.89 %"],
        }
    }

    /// The paper's ratios to its disk without DEDIS: operations a second, latency.
    const fn paper_ratios(self) -> Option<[f64; 2]> {
        match self {
            Self::File | Self::Without => None,
            Self::Hotspots => Some([0.883, 1.161]),
            Self::Hash => Some([0.956, 1.049]),
            Self::Byte => Some([0.920, 1.093]),
        }
    }

    fn settings(self, interval_s: u32) -> VolumeSettings {
        let all = VolumeSettings {
            interval_s,
            ..VolumeSettings::default()
        };
        VolumeSettings {
            deduplicate: self != Self::Without,
            compare_bytes: self == Self::Byte,
            quiet_intervals: if self == Self::Hotspots {
                0
            } else {
                all.quiet_intervals
            },
            ..all
        }
    }
}

/// A file without a volume: what the paper's blktap driver writes to.
#[derive(Debug)]
struct Plain {
    file: File,
    name: String,
    _folder: Folder,
}

impl Plain {
    fn create(folder: &Path) -> Result<Self, LabError> {
        let folder = Folder::create(folder.to_owned())?;
        let path = folder.0.join("file");
        let name = path.display().to_string();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        Ok(Self {
            file: file.map_err(|source| LabError::io(&name, source))?,
            name,
            _folder: folder,
        })
    }
}

impl Disk for Plain {
    fn read(&self, offset: u64, block: &mut [u8]) -> Result<(), LabError> {
        let read = self.file.read_exact_at(block, offset);
        read.map_err(|source| LabError::io(&self.name, source))
    }
    fn write(&self, offset: u64, block: &[u8]) -> Result<(), LabError> {
        let written = self.file.write_all_at(block, offset);
        written.map_err(|source| LabError::io(&self.name, source))
    }
    fn flush(&self) -> Result<(), LabError> {
        self.file
            .sync_data()
            .map_err(|source| LabError::io(&self.name, source))
    }
}

#[derive(Debug)]
enum Place {
    File(Plain),
    Volume(Bed),
}

/// A mode, its place, its writers, and its measured rounds.
struct Column {
    mode: Mode,
    place: Place,
    workers: Vec<Worker>,
    rounds: Vec<Measured>,
    copied: u64,
    written: u64,
}

impl Column {
    fn create(mode: Mode, folder: &Path, setting: &Setting<'_>, step: Step<'_>) -> Result<Self, LabError> {
        let bytes = setting.scale.volume_bytes;
        let folder = folder.join(format!("{mode:?}").to_lowercase());
        let place = if mode == Mode::File {
            let plain = Plain::create(&folder)?;
            fill(&plain, bytes, &setting.traffic, step)?;
            Place::File(plain)
        } else {
            let bed = Bed::create(&folder, bytes, mode.settings(setting.scale.interval_s))?;
            bed.fill(&setting.traffic, step)?;
            Place::Volume(bed)
        };
        Ok(Self {
            mode,
            place,
            workers: writers(&setting.traffic, PROCESSES, bytes)?,
            rounds: Vec::new(),
            copied: 0,
            written: 0,
        })
    }

    fn round(&mut self, until: Until, is_measured: bool, step: Step<'_>) -> Result<(), LabError> {
        let counts = |place: &Place| match place {
            Place::File(_) => (0, 0),
            Place::Volume(bed) => {
                let counts = bed.volume.counts();
                (counts.blocks_copied, counts.written_bytes / disk::BLOCK_BYTES)
            }
        };
        let before = counts(&self.place);
        if let Place::Volume(bed) = &mut self.place {
            bed.start()?;
        }
        let disk: &dyn Disk = match &self.place {
            Place::File(plain) => plain,
            Place::Volume(bed) => bed,
        };
        let done = disk::run(disk, &mut self.workers, until, step)?;
        if let Place::Volume(bed) = &mut self.place {
            bed.stop();
        }
        if is_measured {
            let after = counts(&self.place);
            self.copied += after.0 - before.0;
            self.written += after.1 - before.1;
            let all = done.iter().fold(Measured::default(), |all, one| all.beside(one));
            self.rounds.push(all);
        }
        Ok(())
    }

    fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(&mut self.rounds.iter().map(of).collect::<Vec<f64>>())
    }

    /// The median of the rounds' ratios to another mode.
    fn ratio(&self, to: &Self, of: impl Fn(&Measured) -> f64) -> f64 {
        let pairs = self.rounds.iter().zip(&to.rounds);
        let ratios = pairs.map(|(mine, other)| of(mine) / of(other).max(1e-12));
        median(&mut ratios.collect::<Vec<f64>>())
    }

    /// Copies-on-write for each written block.
    fn copies(&self) -> f64 {
        share(self.copied, self.written)
    }
}

pub(super) fn run(run: &mut Run<'_>, setting: &Setting<'_>) -> Result<(), LabError> {
    let (scale, progress) = (&setting.scale, run.progress);
    let step: Step<'_> = &|bytes| progress.advance(bytes);
    // Columns are dropped before it.
    let pools = Folder::create(run.folder.join("pools"))?;
    let mut columns = Vec::new();
    for mode in MODES {
        progress.begin(format!("table 2, filling: {}", mode.name()));
        columns.push(Column::create(mode, &pools.0, setting, step)?);
    }
    let until = Until::Time(scale.load_2 / scale.rounds);
    for round in 0..=scale.rounds {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.rotate_left(round as usize % columns.len());
        for at in order {
            let name = columns[at].mode.name();
            progress.begin(format!("table 2, round {round} of {}: {name}", scale.rounds));
            columns[at].round(until, round > 0, step)?;
        }
    }
    run.report(Experiment {
        name: "table-2".to_owned(),
        title: "table 2: what deduplication costs the load".to_owned(),
        seeds: vec!["D1", "D6", "D7", "D10"],
        setup: format!(
            "Volumes of {} MiB, filled before; {PROCESSES} writers; after a round to warm up, {} rounds of {:.1} s \
             for each mode, in turn. Figures are medians of rounds. The paper's ratios are to a disk without DEDIS, \
             so the ratios to a file are judged. {}",
            mib(scale.volume_bytes),
            scale.rounds,
            scale.load_2.as_secs_f64() / f64::from(scale.rounds),
            setting.load_words(scale.interval_s)
        ),
        rows: rows(&columns),
        plots: vec![plot(&columns)],
    })
}

fn rows(columns: &[Column]) -> Vec<Row> {
    let of = |mode| {
        columns
            .iter()
            .find(|one| one.mode == mode)
            .expect("all modes ran")
    };
    let hotspots = of(Mode::Hotspots);
    let mut rows = Vec::new();
    for column in columns {
        let (name, paper) = (column.mode.name(), column.mode.paper());
        let per_s = column.median(Measured::per_s);
        rows.push(
            Row::new(
                format!("writes a second, {name}"),
                paper[0],
                format!("{per_s:.0}"),
            )
            .value(per_s),
        );
        let (mean, p99) = (column.median(Measured::mean_ms), column.median(Measured::p99_ms));
        let ours = format!("{mean:.3} ms, 99 % within {p99:.3} ms");
        rows.push(Row::new(format!("mean latency, {name}"), paper[1], ours).value(mean));
    }
    for column in columns {
        rows.extend(ratios(column, of(Mode::File), of(Mode::Without)));
    }
    let file = of(Mode::Without).ratio(of(Mode::File), Measured::per_s);
    let words = "writes a second, a volume without deduplication, of a file's";
    rows.push(Row::new(words, "not measured", format!("{file:.3}")).value(file));
    for column in [of(Mode::Hash), of(Mode::Byte)] {
        let avoided = 1.0 - column.copies() / hotspots.copies().max(1e-12);
        rows.push(
            Row::new(
                format!("copies-on-write avoided, {}: at least 70 %", column.mode.name()),
                column.mode.paper()[2],
                format!(
                    "{} ({:.4} copies for a write, {:.4} without hotspot avoidance)",
                    percent(avoided),
                    column.copies(),
                    hotspots.copies()
                ),
            )
            .value(avoided)
            .met(avoided >= 0.7, "blocks are written again at other times"),
        );
    }
    rows
}

/// Ratios of a mode with deduplication. The paper's are to a disk without DEDIS, so those to a file
/// are judged. Those to a volume without deduplication have no figure in the paper.
fn ratios(column: &Column, file: &Column, without: &Column) -> Vec<Row> {
    let Some([per_s_paper, latency_paper]) = column.mode.paper_ratios() else {
        return Vec::new();
    };
    let name = column.mode.name();
    // The paper's claim, for which it needs hotspot avoidance: less than 10 % (section 3.2).
    let (least, most) = if column.mode == Mode::Hotspots {
        (0.88, 1.16)
    } else {
        (0.9, 1.1)
    };
    let cost = "a volume with deduplication costs more than the paper's driver";
    let per_s = |to| column.ratio(to, Measured::per_s);
    let latency = |to| column.ratio(to, Measured::mean_ms);
    let words = |to| {
        let p99 = column.ratio(to, Measured::p99_ms);
        format!("{:.3}; 99 % within {p99:.3} times", latency(to))
    };
    vec![
        Row::new(
            format!("writes a second, {name}, of those of a file: at least {least}"),
            per_s_paper.to_string(),
            format!("{:.3}", per_s(file)),
        )
        .value(per_s(file))
        .met(per_s(file) >= least, cost),
        Row::new(
            format!("latency, {name}, of that of a file: at most {most}"),
            latency_paper.to_string(),
            words(file),
        )
        .value(latency(file))
        .met(latency(file) <= most, cost),
        Row::new(
            format!("writes a second, {name}, of those of a volume without deduplication"),
            "not measured",
            format!("{:.3}", per_s(without)),
        )
        .value(per_s(without)),
        Row::new(
            format!("latency, {name}, of that of a volume without deduplication"),
            "not measured",
            words(without),
        )
        .value(latency(without)),
    ]
}

fn plot(columns: &[Column]) -> Plot {
    let series = columns.iter().map(|column| {
        let rounds = (1_u32..).map(f64::from).zip(&column.rounds);
        let points = rounds.map(|(round, measured)| (round, measured.per_s()));
        Series::new(column.mode.name(), points.collect())
    });
    Plot {
        name: "table-2-rounds".to_owned(),
        title: "Table 2: writes a second in each round".to_owned(),
        subtitle: format!("{PROCESSES} writers, each write flushed"),
        x: Axis::linear("round"),
        y: Axis::linear("writes/s"),
        series: series.collect(),
    }
}

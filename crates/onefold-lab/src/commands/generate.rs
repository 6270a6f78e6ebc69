//! `onefold-lab generate`

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, bail};
use cli_support::progress;
use cli_support::{Code, Output};
use lab::generate;
use simulate::{BackupHead, SimulateError};

use super::folder::{Folder, to_destor};
use super::{Generated, beside_trace, status, to_trace};
use crate::args::generate::{self as given, Clusters, Generate, Image, To, Workload};

type Made = Box<dyn generate::Workload>;

pub(super) fn run(args: &Generate, output: Output) -> Result<Code> {
    let (workload, to) = workload(&args.workload);
    let output = beside_trace(to.trace.as_deref(), output)?;
    let (cancelled, done) = (cli_support::watch()?, AtomicU64::new(0));
    let made = progress::beside(output, "generate", &|| status(&done), || {
        match (&to.trace, &to.destor, &to.files) {
            (Some(file), ..) => to_trace(file, &cancelled, &done, |_, sink| workload.replay(sink)),
            (None, Some(folder), _) => {
                let name = |head: &BackupHead| head.name.clone();
                to_destor(folder, name, &cancelled, &done, |sink| workload.replay(sink))
            }
            (None, None, Some(folder)) => to_files(&workload, folder, &cancelled, &done),
            (None, None, None) => bail!("name the output with --trace, --destor or --files"),
        }
    })?;
    made.tell(output)
}

/// The workload that the arguments describe, and its destination.
fn workload(args: &Workload) -> (Made, &To) {
    let sg = |number, args: &given::Sg| {
        let sg = generate::Images::sg(number).expect("there are five");
        image(sg, &args.image, args.to.seed, Some(args.chunks.chunk_bytes))
    };
    match args {
        Workload::TwoYear(args) => two_year(args),
        Workload::Workgroup(args) => workgroup(args),
        Workload::Sg1(args) => (sg(1, args), &args.to),
        Workload::Sg2(args) => (sg(2, args), &args.to),
        Workload::Sg3(args) => (sg(3, args), &args.to),
        Workload::Sg4(args) => (sg(4, args), &args.to),
        Workload::Sg5(args) => (sg(5, args), &args.to),
        Workload::Gp(args) => {
            let series = generate::Images {
                series: args.series,
                ..generate::Images::gp()
            };
            let chunk_bytes = Some(args.chunks.chunk_bytes);
            (image(series, &args.image, args.to.seed, chunk_bytes), &args.to)
        }
        Workload::VmSeries(args) => {
            let series = generate::Images {
                series: args.series,
                ..generate::Images::students()
            };
            (image(series, &args.image, args.to.seed, None), &args.to)
        }
        Workload::Lineages(args) => lineages(args),
        Workload::Unique(args) => unique(args),
        Workload::Vm(args) => vm(args),
        Workload::Edits(args) => edits(args),
    }
}

fn two_year(args: &given::TwoYear) -> (Made, &To) {
    // The default length, or shorter if the data are too small for it. `check` refuses data that
    // are too small for any file.
    let usual = generate::TwoYear::default().file_bytes;
    let workload = generate::TwoYear {
        seed: args.to.seed,
        snapshot_bytes: args.size,
        weeks: args.weeks,
        file_bytes: args
            .file_bytes
            .unwrap_or_else(|| usual.min(args.size.max(generate::TwoYear::FILE_BYTES_MIN))),
        chunk_bytes: args.chunk_bytes,
    };
    (Box::new(workload), &args.to)
}

fn workgroup(args: &given::Workgroup) -> (Made, &To) {
    let workload = generate::Workgroup {
        seed: args.to.seed,
        machines: args.machines,
        machine_bytes: args.size,
        weeks: args.weeks,
        shared: args.shared,
        chunk_bytes: args.chunks.chunk_bytes,
    };
    (Box::new(workload), &args.to)
}

fn image(images: generate::Images, args: &Image, seed: u64, chunk_bytes: Option<u32>) -> Made {
    let scaled = images.scaled(args.size);
    Box::new(generate::Images {
        seed,
        weeks: args.weeks.unwrap_or(scaled.weeks),
        files_changed: args.files_changed.unwrap_or(scaled.files_changed),
        bytes_changed: args.bytes_changed.unwrap_or(scaled.bytes_changed),
        new_bytes: args.new.unwrap_or(scaled.new_bytes),
        chunks: chunk_bytes.map_or(scaled.chunks, generate::ImageChunks::Content),
        ..scaled
    })
}

fn lineages(args: &given::Lineages) -> (Made, &To) {
    let workload = generate::Lineages {
        seed: args.to.seed,
        file_bytes: args.size,
        lineages: args.lineages,
        generations: args.generations,
        clusters: match args.clusters {
            Clusters::Normal => generate::Clusters::Normal,
            Clusters::Uniform => generate::Clusters::Uniform,
        },
        update_bytes: args.update,
        chunk_bytes: args.chunks.chunk_bytes,
        block_bytes: args.block_bytes,
        only: args.only.clone(),
    };
    (Box::new(workload), &args.to)
}

fn unique(args: &given::Unique) -> (Made, &To) {
    let workload = generate::Unique {
        seed: args.to.seed,
        stream_bytes: args.size,
        streams: args.streams,
        rounds: args.rounds,
        chunk_bytes: args.chunks.chunk_bytes,
    };
    (Box::new(workload), &args.to)
}

fn vm(args: &given::Vm) -> (Made, &To) {
    let workload = generate::Vm {
        seed: args.to.seed,
        unique_bytes: args.size,
        versions: args.versions,
    };
    (Box::new(workload), &args.to)
}

fn edits(args: &given::Edits) -> (Made, &To) {
    let workload = generate::Edits {
        seed: args.to.seed,
        stream_bytes: args.size,
        backups: args.backups,
        chunk_bytes: args.chunks.chunk_bytes,
        edit_bytes: args.edit,
        inserted: args.insert,
        deleted: args.delete,
        overwritten: args.overwrite,
        relocated: args.relocate,
        repeated: args.repeat,
        zeroed: args.zero,
    };
    (Box::new(workload), &args.to)
}

fn to_files(workload: &Made, folder: &Path, cancelled: &AtomicBool, done: &AtomicU64) -> Result<Generated> {
    let folder = Folder::new(folder)?;
    let mut chunks = 0;
    let written = generate::write(
        workload,
        |head| folder.open(&head.name),
        |len| {
            chunks += 1;
            done.fetch_add(len, Ordering::Relaxed);
            if cancelled.load(Ordering::Relaxed) {
                Err(SimulateError::Interrupted)
            } else {
                Ok(())
            }
        },
    );
    folder.told(written)?;
    Ok(Generated {
        message_type: "lab_generated",
        backups: folder.complete(),
        chunks,
        bytes: done.load(Ordering::Relaxed),
    })
}

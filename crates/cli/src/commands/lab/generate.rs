//! `onefold lab generate`

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use lab::generate;
use lab::{BackupHead, DestorWriter, LabError, Source};

use super::{Counted, Generated, status, to_trace};
use crate::args::generate::{self as given, Clusters, Generate, Image, To, Workload};
use crate::exit::Code;
use crate::output::{Output, count};
use crate::progress;

type Made = Box<dyn generate::Workload>;

pub(super) fn run(args: &Generate, output: Output) -> Result<Code> {
    let (mut workload, to) = workload(&args.workload);
    let (cancelled, done) = (crate::commands::cancel_flag()?, AtomicU64::new(0));
    let made = progress::beside(output, "generate", &|| status(&done), || {
        match (&to.trace, &to.destor, &to.files) {
            (Some(file), ..) => to_trace(file, &cancelled, &done, |sink| workload.replay(sink)),
            (None, Some(folder), _) => to_destor(&mut workload, folder, &cancelled, &done),
            (None, None, Some(folder)) => to_files(&workload, folder, &cancelled, &done),
            (None, None, None) => bail!("nothing says where to write to: --trace, --destor or --files"),
        }
    })?;
    made.tell(output)
}

/// What the arguments describe, and where it goes.
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
    let workload = generate::TwoYear {
        seed: args.to.seed,
        snapshot_bytes: args.size,
        weeks: args.weeks,
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

/// Where backups are written to, each to a file of its own. Those that are complete stay when it fails or is stopped.
struct Folder<'a> {
    path: &'a Path,
    was_there: bool,
    complete: Rc<Cell<u64>>,
}

/// A backup that is being written. Its flush is its end; without it the file goes.
struct Backup {
    path: PathBuf,
    file: BufWriter<File>,
    is_complete: bool,
    complete: Rc<Cell<u64>>,
}

impl<'a> Folder<'a> {
    /// Makes the folder, or takes an empty one.
    fn new(path: &'a Path) -> Result<Self> {
        let place = || path.display().to_string();
        let was_there = path.exists();
        fs::create_dir_all(path).with_context(place)?;
        if fs::read_dir(path).with_context(place)?.next().is_some() {
            bail!("{}: is not empty; name a folder that is", place());
        }
        Ok(Self {
            path,
            was_there,
            complete: Rc::default(),
        })
    }

    fn open(&self, head: &BackupHead) -> Result<Backup, LabError> {
        let path = self.path.join(&head.name);
        let file = File::create_new(&path).map_err(|source| LabError::Io {
            what: path.display().to_string(),
            source,
        })?;
        Ok(Backup {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            is_complete: false,
            complete: Rc::clone(&self.complete),
        })
    }

    /// What is left of it, if it failed: what was being written is gone by now.
    fn told<T>(&self, made: Result<T, LabError>) -> Result<T> {
        let complete = self.complete.get();
        if made.is_err() && complete == 0 && !self.was_there {
            drop(fs::remove_dir(self.path));
        }
        made.with_context(|| {
            let kept = match complete {
                0 => "no backup was complete, and none is kept".to_owned(),
                some => format!("kept are {}", count(some, "complete backup", "complete backups")),
            };
            format!("{}: {kept}", self.path.display())
        })
    }
}

impl Write for Backup {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        self.is_complete = true;
        self.complete.set(self.complete.get() + 1);
        Ok(())
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.is_complete {
            // There is nobody left to tell when even this fails.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn to_destor(
    workload: &mut Made,
    folder: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
) -> Result<Generated> {
    let folder = Folder::new(folder)?;
    let mut sink = Counted::new(DestorWriter::new(|head| folder.open(head)), cancelled, done);
    let replayed = workload.replay(&mut sink);
    let made = sink.generated();
    drop(sink);
    folder.told(replayed)?;
    Ok(made)
}

fn to_files(workload: &Made, folder: &Path, cancelled: &AtomicBool, done: &AtomicU64) -> Result<Generated> {
    let folder = Folder::new(folder)?;
    let mut chunks = 0;
    let written = generate::write(
        workload,
        |head| folder.open(head),
        |len| {
            chunks += 1;
            done.fetch_add(len, Ordering::Relaxed);
            if cancelled.load(Ordering::Relaxed) {
                Err(LabError::Interrupted)
            } else {
                Ok(())
            }
        },
    );
    folder.told(written)?;
    Ok(Generated {
        message_type: "lab_generated",
        backups: folder.complete.get(),
        chunks,
        bytes: done.load(Ordering::Relaxed),
    })
}

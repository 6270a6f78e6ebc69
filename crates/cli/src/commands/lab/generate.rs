//! `onefold lab generate`

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use lab::generate::TwoYear;
use lab::{BackupHead, DestorWriter, LabError, Source};

use super::{Counted, Generated, status, to_trace};
use crate::args::{Generate, Workload};
use crate::exit::Code;
use crate::output::Output;
use crate::progress;

pub(super) fn run(args: &Generate, output: Output) -> Result<Code> {
    let Workload::TwoYear = args.workload;
    let mut workload = TwoYear {
        seed: args.seed,
        snapshot_bytes: args.size,
        weeks: args.weeks,
        ..TwoYear::default()
    };
    let (cancelled, done) = (crate::commands::cancel_flag()?, AtomicU64::new(0));
    let made = progress::beside(output, "generate", &|| status(&done), || {
        match (&args.trace, &args.destor, &args.files) {
            (Some(file), ..) => to_trace(file, &cancelled, &done, |sink| workload.replay(sink)),
            (None, Some(folder), _) => to_destor(&mut workload, folder, &cancelled, &done),
            (None, None, Some(folder)) => to_files(&workload, folder, &cancelled, &done),
            (None, None, None) => bail!("nothing says where to write to: --trace, --destor or --files"),
        }
    })?;
    made.tell(output)
}

fn to_destor(
    workload: &mut TwoYear,
    folder: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
) -> Result<Generated> {
    ensure_empty(folder)?;
    let mut sink = Counted::new(DestorWriter::new(|head| create(folder, head)), cancelled, done);
    workload.replay(&mut sink)?;
    Ok(sink.generated())
}

/// Makes the folder, or takes an empty one.
fn ensure_empty(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(place)?;
    if fs::read_dir(folder).with_context(place)?.next().is_some() {
        bail!("{}: is not empty; name a folder that is", place());
    }
    Ok(())
}

fn create(folder: &Path, head: &BackupHead) -> Result<BufWriter<File>, LabError> {
    let path = folder.join(&head.name);
    let file = File::create_new(&path).map_err(|source| LabError::Io {
        what: path.display().to_string(),
        source,
    })?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn to_files(
    workload: &TwoYear,
    folder: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
) -> Result<Generated> {
    ensure_empty(folder)?;
    let mut made = Generated {
        message_type: "lab_generated",
        backups: 0,
        chunks: 0,
        bytes: 0,
    };
    workload.write(
        |head| {
            made.backups += 1;
            create(folder, head)
        },
        |len| {
            made.chunks += 1;
            done.fetch_add(len, Ordering::Relaxed);
            if cancelled.load(Ordering::Relaxed) {
                Err(LabError::Interrupted)
            } else {
                Ok(())
            }
        },
    )?;
    made.bytes = done.load(Ordering::Relaxed);
    Ok(made)
}

//! `onefold lab trace`

use std::sync::atomic::AtomicU64;

use anyhow::Result;
use lab::{Cutter, Cutting};

use super::{status, to_trace};
use crate::args::Trace;
use crate::exit::Code;
use crate::output::Output;
use crate::progress;

pub(super) fn run(args: &Trace, output: Output) -> Result<Code> {
    let mut cutter = Cutter::new(match args.image_kib {
        Some(kib) => Cutting::Fixed(kib << 10),
        None => Cutting::Content(args.chunk_kib << 10),
    })?;
    let (cancelled, done) = (crate::commands::cancel_flag()?, AtomicU64::new(0));
    let made = progress::beside(output, "trace", &|| status(&done), || {
        to_trace(&args.output, &cancelled, &done, |sink| {
            cutter.leave_out(&args.output)?;
            args.paths.iter().try_for_each(|path| cutter.backup(path, sink))
        })
    })?;
    made.tell(output)
}

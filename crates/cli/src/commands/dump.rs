//! `onefold dump`

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use cli_support::{Code, Output};
use onefold::Monitor;

use crate::args::{Dump, Global};

/// Shorter pieces are gathered. Longer ones are written directly.
const GATHERED_BYTES: usize = 64 << 10;
static ZEROS: [u8; GATHERED_BYTES] = [0; GATHERED_BYTES];

/// Standard output, without the line buffer that the library puts before it.
struct Stdout(io::BufWriter<File>);

impl onefold::StreamOutput for Stdout {
    fn shown(&self) -> String {
        "standard output".to_owned()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn skip_zeros(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let now = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
            self.0.write_all(&ZEROS[..now])?;
            len -= now as u64;
        }
        Ok(())
    }
}

pub(crate) fn run(global: &Global, args: &Dump, messages: Output) -> Result<Code> {
    if io::stdout().is_terminal() {
        bail!("standard output is a terminal; send it to a file or a program");
    }
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let file = match (&args.id.path, &args.file) {
        (Some(_), Some(_)) => bail!("the file is named twice: write ID:PATH, or ID PATH"),
        (first, second) => first.as_ref().or(second.as_ref()),
    };
    let snapshot = store.find(&args.id.id, &super::filter(&args.filter)?)?;
    let path = match file {
        None => None,
        // The name of a stream is not a path of this machine.
        Some(name) if snapshot.single_stream().is_some() => {
            use std::os::unix::ffi::OsStrExt;
            Some(name.as_os_str().as_bytes().to_vec())
        }
        Some(path) => super::absolute(std::slice::from_ref(path))?.pop(),
    };
    let monitor = Monitor::new(super::cancel_flag()?);
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut output = Stdout(io::BufWriter::with_capacity(GATHERED_BYTES, file));
    let assembling = args.assembling.options();
    let path = path.as_deref();
    onefold::operations::dump(store, &snapshot, path, &mut output, assembling, &monitor)?;
    output.0.flush().context("writing to standard output failed")?;
    super::tell_notes(&monitor, messages)?;
    Ok(Code::Success)
}

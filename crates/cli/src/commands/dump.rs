//! `onefold dump`

use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cli_support::output::count;
use cli_support::progress::{self, Status};
use cli_support::{Code, Output};
use onefold::repository::Repository;
use onefold::{ArchiveFault, ArchiveFormat, ArchiveRequest, Monitor, Snapshot, WholeFile};

use crate::args::{ArchiveMode, Dump, Global};

/// Shorter pieces are gathered. Longer ones are written directly.
const GATHERED_BYTES: usize = 64 << 10;
/// A file system leaves out whole blocks. Fewer zeros are written.
const HOLE_BYTES_MIN: u64 = 4096;
static ZEROS: [u8; GATHERED_BYTES] = [0; GATHERED_BYTES];

/// Standard output without the line buffer that the library puts before it, or a file.
struct Target {
    out: io::BufWriter<File>,
    /// A file that gets its name when it is whole. `None`: standard output, a pipe or a device.
    whole: Option<(WholeFile, PathBuf)>,
}

impl Target {
    fn open(named: Option<&Path>) -> Result<Self> {
        let Some(path) = named else {
            if io::stdout().is_terminal() {
                bail!(
                    "standard output is a terminal; send it to a file or a program, or name a file with --target"
                );
            }
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self::new(file, None));
        };
        super::typed::ensure_expanded(path)?;
        let shown = || path.display().to_string();
        // A pipe or a device is written as it is.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).with_context(shown)?;
            return Ok(Self::new(file, None));
        }
        let whole = WholeFile::create_at(path)?;
        let file = whole.file().try_clone().with_context(shown)?;
        Ok(Self::new(file, Some((whole, path.to_owned()))))
    }

    fn new(file: File, whole: Option<(WholeFile, PathBuf)>) -> Self {
        let out = io::BufWriter::with_capacity(GATHERED_BYTES, file);
        Self { out, whole }
    }

    /// Writes what is gathered, and gives the file its name. A new file may end in a hole, and gets
    /// its length.
    fn finish(mut self) -> Result<()> {
        let shown = self.shown();
        self.complete().with_context(|| format!("writing to {shown}"))
    }

    fn complete(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some((whole, _)) = self.whole.take() else {
            return Ok(());
        };
        whole.finish(self.out.stream_position()?)
    }

    fn shown(&self) -> String {
        match &self.whole {
            Some((_, path)) => path.display().to_string(),
            None => "standard output".to_owned(),
        }
    }
}

impl onefold::StreamOutput for Target {
    fn shown(&self) -> String {
        Target::shown(self)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Leaves a hole in a new file, as a restore of a stream does.
    fn skip_zeros(&mut self, mut len: u64) -> io::Result<()> {
        if self.whole.is_some() && len >= HOLE_BYTES_MIN {
            let len = i64::try_from(len).map_err(io::Error::other)?;
            return self.out.seek(SeekFrom::Current(len)).map(drop);
        }
        while len > 0 {
            let now = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
            self.out.write_all(&ZEROS[..now])?;
            len -= now as u64;
        }
        Ok(())
    }
}

pub(crate) fn run(global: &Global, args: &Dump, messages: Output) -> Result<Code> {
    let mut target = Target::open(args.target.as_deref())?;
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let file = match (&args.id.path, &args.file) {
        (Some(_), Some(_)) => bail!("the path is named twice: write ID:PATH, or ID PATH"),
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
    let code = match args.archive {
        Some(mode) => {
            let request = ArchiveRequest::default()
                .path(path.unwrap_or_default())
                .is_base(args.id.path.is_some())
                .format(match mode {
                    ArchiveMode::Tar => ArchiveFormat::Tar,
                    ArchiveMode::Zip => ArchiveFormat::Zip,
                })
                .assembling(args.assembling.options());
            archive(store, &snapshot, &request, &mut target, &monitor, messages)?
        }
        None => {
            let assembling = args.assembling.options();
            let path = path.as_deref();
            onefold::operations::dump(store, &snapshot, path, &mut target, assembling, &monitor)?;
            Code::Success
        }
    };
    target.finish()?;
    super::tell_notes(&monitor, messages)?;
    Ok(code)
}

fn archive(
    store: &dyn Repository,
    snapshot: &Snapshot,
    request: &ArchiveRequest,
    target: &mut Target,
    monitor: &Monitor,
    messages: Output,
) -> Result<Code> {
    let counters = &monitor.restore;
    let status = || Status {
        done: counters.bytes.load(std::sync::atomic::Ordering::Relaxed),
        ..Status::of(monitor)
    };
    let mut faults = |fault: &ArchiveFault| {
        // Standard error is closed: nobody can be told.
        drop(messages.warn(format!("error: {fault}")));
    };
    // What comes to standard output is the archive, and no line about it.
    let quiet = Output {
        json: false,
        ..messages
    };
    let report = progress::beside(quiet, "dump", &status, || {
        let out = &mut target.out;
        onefold::operations::dump_archive(store, snapshot, request, out, monitor, &mut faults)
    })?;
    if report.sockets > 0 {
        let sockets = count(report.sockets, "socket is", "sockets are");
        messages.warn(format!("warning: {sockets} not in the archive"))?;
    }
    Ok(match report.faults {
        0 => Code::Success,
        _ => Code::Failure,
    })
}

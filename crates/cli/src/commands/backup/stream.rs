//! Standard input, or the output of a command, as the source of a backup.
//!
//! An empty source has usually failed before it wrote anything, as in
//! `dump-all | onefold backup --stdin`. So it makes no backup unless `--stdin-allow-empty` is
//! given. When the output of a command ends, the backup waits for the command before it commits. If
//! the command failed, there is no backup.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use onefold::errors::IngestError;
use onefold::{Error, StreamPiece, StreamSource};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::args::Backup;

/// More than a pipe returns at once.
const FIRST_BYTES: usize = 64 << 10;

/// How often the backup looks whether its user has asked to stop, while nothing comes.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// The source: bytes that were read before the backup began, and the rest.
pub(super) struct Stream {
    first: Vec<u8>,
    given: usize,
    rest: Rest,
    stop: Arc<AtomicBool>,
}

enum Rest {
    Stdin(io::Stdin),
    Command(Running),
}

/// A running command. Dropping this value kills the command if nobody has waited for its end.
struct Running {
    /// Without its arguments, which may be secrets.
    program: String,
    child: Child,
    out: ChildStdout,
    ended: Option<ExitStatus>,
}

impl Stream {
    /// Begins to read the source that the arguments name. `stop` ends it with an error, also while
    /// it gives nothing.
    pub(super) fn open(args: &Backup, stop: &Arc<AtomicBool>) -> Result<Self> {
        let rest = if args.stdin_from_command {
            Rest::Command(Running::start(args)?)
        } else {
            Rest::Stdin(io::stdin())
        };
        let mut stream = Self {
            first: vec![0; FIRST_BYTES],
            given: 0,
            rest,
            stop: Arc::clone(stop),
        };
        let read =
            read_some(&mut stream.rest, &mut stream.first, stop).with_context(|| stream.rest.name())?;
        stream.first.truncate(read);
        if read == 0 && !args.stdin_allow_empty {
            bail!(
                "{} is empty, so no backup was made; if that is meant, say --stdin-allow-empty",
                stream.rest.name()
            );
        }
        Ok(stream)
    }
}

impl Rest {
    fn name(&self) -> String {
        match self {
            Self::Stdin(_) => "standard input".to_owned(),
            Self::Command(running) => format!("what `{}` wrote", running.program),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Stdin(stdin) => rustix::io::read(stdin, buffer),
            Self::Command(running) => rustix::io::read(&running.out, buffer),
        }
    }
}

impl AsFd for Rest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdin(stdin) => stdin.as_fd(),
            Self::Command(running) => running.out.as_fd(),
        }
    }
}

impl Running {
    fn start(args: &Backup) -> Result<Self> {
        let [program, words @ ..] = args.paths.as_slice() else {
            bail!("which command? Name it behind `--`");
        };
        let shown = program.display().to_string();
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::inherit())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("`{shown}` could not be run, so no backup was made"))?;
        let out = child.stdout.take().context("the command's output is lost")?;
        Ok(Self {
            program: shown,
            child,
            out,
            ended: None,
        })
    }

    /// Waits for the command after its output has ended. An error if the command failed, each time
    /// that it is asked.
    fn end(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut wait = Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let status = loop {
            let ended = match self.ended {
                Some(status) => Some(status),
                None => self.child.try_wait()?,
            };
            match ended {
                Some(status) => break status,
                None if stop.load(Ordering::Relaxed) => return Err(interrupted()),
                None => drop(poll(&mut [], Some(&wait))),
            }
            wait.tv_nsec = (wait.tv_nsec * 2).min(LOOK.tv_nsec);
        };
        self.ended = Some(status);
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "`{}` failed ({status}), so no backup was made",
            self.program
        )))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // The command may have ended by itself, which is as good.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn interrupted() -> io::Error {
    io::Error::other("interrupted")
}

/// Reads some bytes. Returns 0 at the end, for a command only if it succeeded.
fn read_some(from: &mut Rest, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<usize> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        // A silent source must not keep a signal waiting.
        match poll(&mut [PollFd::new(&*from, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        match (from.read(buffer), &mut *from) {
            (Err(Errno::INTR | Errno::AGAIN), _) => {}
            (Ok(0), Rest::Command(running)) => return running.end(stop).map(|()| 0),
            (read, _) => return Ok(read?),
        }
    }
}

/// Whether a stream could not be read.
pub(super) fn is_of_source(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        None | Some(Error::Ingest(IngestError::Source { .. }))
    )
}

impl StreamSource for Stream {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        let first = &self.first[self.given..];
        let len = if first.is_empty() {
            read_some(&mut self.rest, buffer, &self.stop)?
        } else {
            let len = first.len().min(buffer.len());
            buffer[..len].copy_from_slice(&first[..len]);
            self.given += len;
            len
        };
        Ok(match len {
            0 => StreamPiece::End,
            len => StreamPiece::Data(len),
        })
    }
}

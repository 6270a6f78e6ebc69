//! Standard input, or the output of a command, as the source of a backup.
//!
//! An empty source has usually failed before it wrote anything, as in
//! `dump-all | onefold backup --stdin`. So it makes no backup unless `--stdin-allow-empty` is
//! given. When the output of a command ends, the backup waits for the command before it commits. If
//! the command failed, there is no backup.

use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use onefold::{StreamPiece, StreamSource};

use crate::args::Backup;

/// More than a pipe returns at once.
const FIRST_BYTES: usize = 64 << 10;

/// The source: bytes that were read before the backup began, and the rest.
pub(super) struct Stream {
    first: Vec<u8>,
    given: usize,
    rest: Rest,
}

enum Rest {
    Stdin(io::Stdin),
    Command(Running),
}

/// A running command. Dropping this value kills the command if nobody has waited for its end.
struct Running {
    words: String,
    child: Child,
    out: ChildStdout,
    is_over: bool,
}

impl Stream {
    /// Begins to read the source that the arguments name.
    pub(super) fn open(args: &Backup) -> Result<Self> {
        let rest = if args.stdin_from_command {
            Rest::Command(Running::start(args)?)
        } else {
            Rest::Stdin(io::stdin())
        };
        let mut stream = Self {
            first: vec![0; FIRST_BYTES],
            given: 0,
            rest,
        };
        let read = read_some(&mut stream.rest, &mut stream.first).with_context(|| stream.rest.name())?;
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
            Self::Command(running) => format!("what `{}` wrote", running.words),
        }
    }
}

impl Running {
    fn start(args: &Backup) -> Result<Self> {
        let [program, words @ ..] = args.paths.as_slice() else {
            bail!("which command? Name it behind `--`");
        };
        let shown: Vec<_> = args.paths.iter().map(|word| word.display().to_string()).collect();
        let shown = shown.join(" ");
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::inherit())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("`{shown}` could not be run, so no backup was made"))?;
        let out = child.stdout.take().context("the command's output is lost")?;
        Ok(Self {
            words: shown,
            child,
            out,
            is_over: false,
        })
    }

    /// Waits for the command after its output has ended. An error if the command failed.
    fn end(&mut self) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        let status = self.child.wait()?;
        self.is_over = true;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "`{}` failed ({status}), so no backup was made",
            self.words
        )))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            // The command may have ended by itself, which is as good.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Reads some bytes. Returns 0 at the end, for a command only if it succeeded.
fn read_some(from: &mut Rest, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let read = match from {
            Rest::Stdin(stdin) => stdin.lock().read(buffer),
            Rest::Command(running) => running.out.read(buffer),
        };
        match (read, &mut *from) {
            (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
            (Ok(0), Rest::Command(running)) => return running.end().map(|()| 0),
            (read, _) => return read,
        }
    }
}

impl StreamSource for Stream {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        let first = &self.first[self.given..];
        let len = if first.is_empty() {
            read_some(&mut self.rest, buffer)?
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

//! Runs the program as processes. They start with drawn arguments, and are stopped, continued and
//! killed at drawn moments. The runner watches each until it ends. Their output goes to files, so
//! that no pipe blocks them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::watch::{Watch, pause_ms, pause_us};

/// A process without rivals that runs longer than this hangs.
const PATIENCE_SECONDS: f64 = 150.0;
/// On one host no process may wait this long for a dead one.
const WAITING_SECONDS: f64 = 20.0;

/// The moment of a signal, counted from the one before it, or from the start.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    After {
        ms: u64,
    },
    /// When the number of objects in a folder of the store has changed this many times.
    Mark {
        folder: &'static str,
        changes: u32,
    },
}

/// A signal that is sent to a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shot {
    pub(super) when: When,
    pub(super) signal: Signal,
}

/// A process to start.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) args: Vec<OsString>,
    pub(super) stdin: Option<PathBuf>,
    /// The shift of its clock, in the notation of `libfaketime`: `+40d`.
    pub(super) clock: Option<String>,
    pub(super) start_ms: u64,
    pub(super) shots: Vec<Shot>,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) out: PathBuf,
    pub(super) err: String,
    pub(super) seconds: f64,
    /// Signals that reached it, each with the milliseconds since its start.
    pub(super) shots: Vec<(u64, Signal)>,
    /// The process did not end, and the runner killed it.
    pub(super) hung: bool,
    /// The process said that it waits, and waited too long while nothing else ran.
    pub(super) waited: bool,
}

impl Ended {
    /// The JSON lines that it printed.
    pub(super) fn lines(&self) -> Vec<Value> {
        let text = fs::read(&self.out).unwrap_or_default();
        text.split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    /// The first line of a type.
    pub(super) fn line(&self, message_type: &str) -> Option<Value> {
        self.lines()
            .into_iter()
            .find(|line| line["message_type"] == message_type)
    }

    pub(super) fn was_shot(&self) -> bool {
        !self.shots.is_empty()
    }
}

/// The program, and where it runs.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) binary: PathBuf,
    pub(super) store: PathBuf,
    pub(super) folder: PathBuf,
    /// The library that shifts the clock of a process, if it is installed.
    pub(super) faketime: Option<PathBuf>,
    /// Processes started so far.
    pub(super) started: AtomicUsize,
    running: AtomicUsize,
}

impl Program {
    pub(super) fn new(binary: PathBuf, store: PathBuf, folder: PathBuf) -> Self {
        let (started, running) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self {
            binary,
            store,
            folder,
            faketime: faketime(),
            started,
            running,
        }
    }

    /// Runs one process without rivals and disturbances.
    pub(super) fn run(&self, args: Vec<OsString>) -> Result<Ended> {
        self.watch(&Call {
            args,
            ..Call::default()
        })
    }

    /// Runs all at once, and returns when the last has ended; `meanwhile` runs beside them.
    pub(super) fn run_all(
        &self,
        calls: &[Call],
        meanwhile: impl FnOnce() -> Result<()> + Send,
    ) -> Result<Vec<Ended>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = calls
                .iter()
                .map(|call| scope.spawn(|| self.watch(call)))
                .collect();
            let beside = scope.spawn(meanwhile);
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread of the runner panics"));
            let ended = ended.collect::<Result<Vec<_>>>();
            beside.join().expect("no thread of the runner panics")?;
            ended
        })
    }

    fn command(&self, call: &Call, number: usize) -> Result<(Command, PathBuf, PathBuf)> {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ONEFOLD_") {
                command.env_remove(name);
            }
        }
        if let (Some(clock), Some(library)) = (&call.clock, &self.faketime) {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", clock)
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
        }
        let out = self.folder.join(format!("out.{number}"));
        let err = self.folder.join(format!("err.{number}"));
        let stdin = match &call.stdin {
            Some(path) => Stdio::from(File::open(path)?),
            None => Stdio::null(),
        };
        command
            .env("ONEFOLD_REPOSITORY", &self.store)
            .env("TZ", "UTC")
            .current_dir(&self.folder)
            .stdin(stdin)
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        // A command without an index refuses these options, and ignores the variables.
        let mut args = call.args.iter();
        while let Some(arg) = args.next() {
            let variable = match arg.to_str() {
                Some("--index-mib") => "ONEFOLD_INDEX_MIB",
                Some("--index-memory-mib") => "ONEFOLD_INDEX_MEMORY_MIB",
                _ => {
                    command.arg(arg);
                    continue;
                }
            };
            command.envs(args.next().map(|value| (variable, value)));
        }
        Ok((command, out, err))
    }

    fn watch(&self, call: &Call) -> Result<Ended> {
        pause_ms(call.start_ms);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let (mut command, out, err) = self.command(call, number)?;
        self.running.fetch_add(1, Ordering::SeqCst);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()));
        let ended = child.and_then(|child| self.wait(child, call, out));
        self.running.fetch_sub(1, Ordering::SeqCst);
        let mut ended = ended?;
        ended.err = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
        fs::remove_file(&err)?;
        Ok(ended)
    }

    /// Waits for the end of a process, and sends due signals.
    fn wait(&self, mut child: Child, call: &Call, out: PathBuf) -> Result<Ended> {
        let pid = Pid::from_child(&child);
        let watch = Watch::start();
        let mut shots = call.shots.iter().peekable();
        let mut sent = Vec::new();
        let (mut since, mut mark) = (0, Mark::default());
        let (mut alone_since, mut hung, mut waited) = (0.0, false, false);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let now = watch.ms();
            if let Some(shot) = shots.peek() {
                let is_due = match shot.when {
                    When::After { ms } => now >= since + ms,
                    // If a mark never comes, the runner waits no longer than for any delay.
                    When::Mark { folder, changes } => {
                        mark.has_come(&self.store.join(folder), changes) || now >= since + 5000
                    }
                };
                if is_due {
                    // The process is not reaped yet, so no other has its number.
                    kill_process(pid, shot.signal)?;
                    sent.push((now, shot.signal));
                    shots.next();
                    (since, mark) = (now, Mark::default());
                }
                pause_us(200);
                continue;
            }
            if self.running.load(Ordering::SeqCst) > 1 {
                alone_since = watch.seconds();
            }
            let alone = watch.seconds() - alone_since;
            waited = alone > WAITING_SECONDS && says_waiting(&out);
            hung = alone > PATIENCE_SECONDS;
            if waited || hung {
                child.kill()?;
                break child.wait()?;
            }
            pause_ms(3);
        };
        Ok(Ended {
            code: status.code(),
            signal: status.signal(),
            out,
            err: String::new(),
            seconds: watch.seconds(),
            shots: sent,
            hung,
            waited,
        })
    }
}

/// The state of a folder of the store at the last look.
#[derive(Debug, Default)]
struct Mark {
    objects: Option<usize>,
    changes: u32,
}

impl Mark {
    fn has_come(&mut self, folder: &Path, changes: u32) -> bool {
        let now = count(folder);
        if self.objects.is_some_and(|was| was != now) {
            self.changes += 1;
        }
        self.objects = Some(now);
        self.changes >= changes
    }
}

fn count(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let one = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|sort| sort.is_dir());
        if is_folder { 1 + count(&entry.path()) } else { 1 }
    };
    entries.flatten().map(one).sum()
}

fn says_waiting(out: &Path) -> bool {
    fs::read(out).is_ok_and(|text| String::from_utf8_lossy(&text).contains("\"message_type\":\"waiting\""))
}

/// Where distributions put `libfaketime`.
fn faketime() -> Option<PathBuf> {
    let folders = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    folders
        .iter()
        .map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.exists())
}

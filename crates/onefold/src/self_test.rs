//! The self-test: does this program work right on this machine, and with this place?
//!
//! 1. Known answers (`answers`): fingerprints, cipher, key derivation, digests, chunker and
//!    compression give what they always gave, fingerprints and chunker by every code path for this
//!    processor; part of a store of format 1 is read (`golden`).
//! 2. Memory (`memory`): patterns are written, and read twice.
//! 3. Of a place, whether it keeps the promises of [`Storage`] (`promises`), and how fast it is
//!    (`speed`).
//! 4. The main job (`job`) on generated files: back up, change, back up again, check, restore,
//!    prune, restore, and a damaged container is noticed. The store is at the place, or else in the
//!    work folder.
//!
//! A check that fails does not end the test. What depends on it is left out. Everything is written
//! below one work folder and one fresh part of the place, which nobody else uses. What was written
//! at the place is deleted at the end, also after a failure or an interruption. One thread calls.

mod answers;
mod golden;
mod job;
mod memory;
mod named;
mod noise;
mod picture;
mod plant;
mod promises;
mod scratch;
mod speed;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Entropy, Env, Storage, StorageError};
use restore::RestoreError;

use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Monitor, WorkUnit};

pub use scratch::Scratch;
pub use speed::PlaceSpeed;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All was as it must be.
    Passed {
        /// What was found, for people.
        what: String,
    },
    /// Something was not.
    Failed {
        /// What, and where.
        what: String,
        /// What to do next.
        advice: &'static str,
    },
    /// It was not made.
    Skipped {
        /// Why not.
        why: String,
    },
}

/// A check that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// A stable word for it, such as `second_backup`.
    pub name: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took.
    pub elapsed: Duration,
}

/// A step of the test, told as it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum SelfTestStep<'a> {
    /// A check of this name begins.
    Begins(&'static str),
    /// It ended.
    Checked(&'a Checked),
    /// An operation of the place was timed.
    Measured(&'a PlaceSpeed),
}

/// Opens a part of a place, by its name.
pub type OpenPart<'a> = dyn Fn(&str) -> std::result::Result<Arc<dyn Storage>, StorageError> + Sync + 'a;

/// A place that is tested.
pub struct TestedPlace<'a> {
    /// The fresh part of the place that is used, for people.
    pub shown: String,
    /// Opens a part of it anew: a folder or prefix of this name, which the test alone uses.
    pub open: &'a OpenPart<'a>,
    /// A further probe, whether the place creates each object once.
    pub probe: Option<&'a dyn Fn() -> std::result::Result<(), StorageError>>,
}

impl std::fmt::Debug for TestedPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestedPlace")
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}

/// What is tested.
#[derive(Debug)]
pub struct SelfTest<'a> {
    /// An empty folder on this machine for files and, without a place, for the store.
    pub folder: &'a Path,
    /// A place to test.
    pub place: Option<TestedPlace<'a>>,
    /// Bytes of memory to test.
    pub memory_bytes: u64,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// The result of a self-test.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SelfTestReport {
    /// All checks, in order.
    pub checks: Vec<Checked>,
    /// Objects of the place that were deleted at the end.
    pub deleted: u64,
    /// Objects of the place that could not be deleted.
    pub left: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

impl SelfTestReport {
    /// Whether no check failed.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.failed() == 0
    }

    /// How many checks passed.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.count(|verdict| matches!(verdict, Verdict::Passed { .. }))
    }

    /// How many checks failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.count(|verdict| matches!(verdict, Verdict::Failed { .. }))
    }

    /// How many checks were not made.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.count(|verdict| matches!(verdict, Verdict::Skipped { .. }))
    }

    fn count(&self, of: impl Fn(&Verdict) -> bool) -> u64 {
        self.checks.iter().filter(|checked| of(&checked.verdict)).count() as u64
    }
}

/// What to do about a processor or memory that computes wrong results.
const MACHINE: &str = "this processor, or its memory, may compute wrong results: test the machine (memtest86+) before you make \
                       more backups with it; if it happens on other machines too, report it";
/// What to do about memory that does not keep its content.
const MEMORY: &str = "the memory or the processor is faulty: test the machine (memtest86+) before you make more backups with it";
/// What to do about a place that breaks a promise.
const PLACE: &str = "keep no store here: look for a setting or a newer version of the server that changes this, or take another place";
/// What to do about an operation that failed.
const OPERATION: &str = "remove the cause that the message names, and run the self-test again; if it fails again, run it with \
                         --log FILE, and look at what the log says";

/// What to do about a place that does not answer.
const AWAY: &str = "make the place reachable, and run the self-test again";

/// Why a check did not pass.
#[derive(Debug)]
enum Stop {
    Failed {
        what: String,
        advice: &'static str,
    },
    Skipped(String),
    /// The place does not answer, or is gone.
    Away(String),
    Interrupted,
}

impl Stop {
    fn failed(what: impl Into<String>, advice: &'static str) -> Self {
        let what = what.into();
        Self::Failed { what, advice }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::failed(error.to_string(), OPERATION),
        }
    }
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        let is_refused = matches!(error, StorageError::Denied { .. } | StorageError::NoRight { .. });
        if error.is_outage() && !is_refused {
            return Self::Away(error.to_string());
        }
        Self::failed(error.to_string(), OPERATION)
    }
}

/// What a check found, in words.
type Done = std::result::Result<String, Stop>;

/// Makes checks one after another, and tells of each.
struct Runner<'a> {
    clock: &'a dyn Clock,
    monitor: &'a Monitor,
    told: &'a mut dyn FnMut(SelfTestStep<'_>),
    report: SelfTestReport,
    /// The place does not answer any more.
    is_away: bool,
}

impl Runner<'_> {
    /// Makes a check. Returns whether it passed.
    ///
    /// # Errors
    /// If somebody asked to stop.
    fn check(&mut self, name: &'static str, make: impl FnOnce() -> Done) -> Result<bool> {
        self.ensure_going()?;
        (self.told)(SelfTestStep::Begins(name));
        let began = self.clock.monotonic();
        let verdict = match make() {
            Ok(what) => Verdict::Passed { what },
            Err(Stop::Failed { what, advice }) => Verdict::Failed { what, advice },
            Err(Stop::Away(what)) => {
                self.is_away = true;
                Verdict::Failed { what, advice: AWAY }
            }
            Err(Stop::Skipped(why)) => Verdict::Skipped { why },
            Err(Stop::Interrupted) => return Err(interrupted()),
        };
        let is_passed = matches!(verdict, Verdict::Passed { .. });
        self.tell(Checked {
            name,
            verdict,
            elapsed: self.clock.monotonic().saturating_sub(began),
        });
        Ok(is_passed)
    }

    /// Says that checks are not made, because one before them did not pass.
    fn leave_out(&mut self, names: &[&'static str], failed: &str) {
        for name in names {
            let why = format!("it needs what `{}` did not do", failed.replace('_', " "));
            self.tell(Checked {
                name,
                verdict: Verdict::Skipped { why },
                elapsed: Duration::ZERO,
            });
        }
    }

    fn tell(&mut self, checked: Checked) {
        (self.told)(SelfTestStep::Checked(&checked));
        self.report.checks.push(checked);
        self.monitor.add_done(1);
    }

    fn ensure_going(&self) -> Result<()> {
        if self.monitor.is_cancelled() {
            return Err(interrupted());
        }
        Ok(())
    }
}

fn interrupted() -> Error {
    Error::Restore(RestoreError::Interrupted)
}

/// Makes all checks. A check that fails is no error: it is in the report.
///
/// # Errors
/// If the caller asks to stop; if the place cannot be opened. What was written at the place is
/// deleted before, and the last check that is told, `clean_up`, names what is left.
pub fn self_test(
    test: &SelfTest<'_>,
    monitor: &Monitor,
    told: &mut dyn FnMut(SelfTestStep<'_>),
) -> Result<SelfTestReport> {
    let began = test.clock.monotonic();
    // Open the place first: a slip in its name is told at once.
    let opened = test.place.as_ref().map(|place| (place.open)(promises::PART));
    let opened = opened.transpose()?;
    let mut total = answers::NAMES.len() + 2 + job::NAMES.len();
    if test.place.is_some() {
        total += promises::NAMES.len() + 2;
    }
    monitor.begin_part(WorkUnit::Checks, total as u64);
    let mut runner = Runner {
        clock: &*test.clock,
        monitor,
        told,
        report: SelfTestReport::default(),
        is_away: false,
    };
    let made = checks(test, opened, &mut runner);
    if let Some(place) = &test.place {
        clear(place, &mut runner);
    }
    made?;
    runner.report.elapsed = test.clock.monotonic().saturating_sub(began);
    Ok(runner.report)
}

fn checks(test: &SelfTest<'_>, opened: Option<Arc<dyn Storage>>, runner: &mut Runner<'_>) -> Result<()> {
    answers::check(runner)?;
    runner.check("golden_store", golden::read)?;
    let monitor = runner.monitor;
    runner.check("memory", || memory::check(test.memory_bytes, monitor, &|_, _| {}))?;
    let storage = match (&test.place, opened) {
        (Some(place), Some(storage)) => {
            if let Some(failed) = promises::check(place, storage, runner)? {
                runner.leave_out(&job::NAMES, failed);
                return Ok(());
            }
            (place.open)(job::PART)?
        }
        _ => Arc::new(env::LocalStorage::create(test.folder.join(job::PART))?),
    };
    let env = Env {
        storage,
        clock: Arc::clone(&test.clock),
        entropy: Arc::clone(&test.entropy),
    };
    job::check(&env, test.folder, runner)
}

/// Deletes what was written at the place, and says what is left.
fn clear(place: &TestedPlace<'_>, runner: &mut Runner<'_>) {
    let began = runner.clock.monotonic();
    let mut cleared = Cleared::default();
    for part in [promises::PART, job::PART] {
        if let Err(error) = cleared.clear(place, part) {
            cleared.left.push(part.to_owned());
            cleared.why.get_or_insert(error.to_string());
        }
    }
    let Cleared { deleted, left, why } = cleared;
    let shown = &place.shown;
    let verdict = match left.first() {
        None => Verdict::Passed {
            what: format!("all {deleted} objects below {shown} are deleted again"),
        },
        Some(first) => Verdict::Failed {
            what: format!(
                "{} below {shown} could not be deleted, such as {first}: {}",
                left.len(),
                why.as_deref()
                    .unwrap_or("the place says that it deleted them, and still lists them")
            ),
            advice: "delete all below that name by other means; a store here needs the right to delete, or `prune` frees nothing",
        },
    };
    runner.report.deleted = deleted;
    runner.report.left = left;
    let elapsed = runner.clock.monotonic().saturating_sub(began);
    runner.tell(Checked {
        name: "clean_up",
        verdict,
        elapsed,
    });
}

/// What became of the objects of a place.
#[derive(Default)]
struct Cleared {
    deleted: u64,
    left: Vec<String>,
    /// The first error.
    why: Option<String>,
}

impl Cleared {
    /// Deletes the objects of a part, and lists it once more.
    fn clear(&mut self, place: &TestedPlace<'_>, part: &str) -> std::result::Result<(), StorageError> {
        let storage = (place.open)(part)?;
        let objects = storage.list("")?;
        for meta in &objects {
            match storage.delete(&meta.name) {
                Ok(()) | Err(StorageError::NotFound { .. }) => {}
                Err(error) => {
                    self.why.get_or_insert(error.to_string());
                }
            }
        }
        let still = storage.list("")?;
        self.deleted += objects.len().saturating_sub(still.len()) as u64;
        self.left
            .extend(still.iter().map(|meta| format!("{part}/{}", meta.name)));
        Ok(())
    }
}

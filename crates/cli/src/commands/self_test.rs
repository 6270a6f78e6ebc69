//! `onefold self-test`

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use cli_support::Code;
use cli_support::output::{Output, count};
use cli_support::progress::{self, Screen, Status};
use onefold::self_test::{
    Checked, OpenPart, PlaceSpeed, Scratch, SelfTestReport, SelfTestStep, TestedPlace, Verdict, self_test,
};
use onefold::{
    LocalStorage, Monitor, ObjectStoreLocation, ObjectStoreStorage, SystemClock, SystemEntropy,
    errors::StorageError,
};
use serde::Serialize;

use super::place::{Place, place_of};
use crate::args::{Global, SelfTest};

#[derive(Serialize)]
struct CheckLine<'a> {
    message_type: &'static str,
    name: &'static str,
    outcome: &'static str,
    what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    seconds: f64,
}

#[derive(Serialize)]
struct SpeedLine {
    message_type: &'static str,
    operation: &'static str,
    count: u64,
    bytes: u64,
    median_seconds: f64,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    passed: u64,
    failed: u64,
    skipped: u64,
    place: Option<String>,
    deleted: u64,
    left: Vec<String>,
    total_duration: f64,
}

/// A place that was opened, and how to open its parts again.
struct Opened {
    shown: String,
    open: Box<OpenPart<'static>>,
    probe: Option<Box<dyn Fn() -> Result<(), StorageError>>>,
    /// The folder at a place that is one.
    folder: Option<Scratch>,
}

pub(crate) fn run(global: &Global, args: &SelfTest, output: Output) -> Result<Code> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let temporary = std::env::temp_dir();
    let scratch = Scratch::new(&temporary, &SystemEntropy).with_context(|| {
        format!(
            "{}: a folder for the test; TMPDIR names another",
            temporary.display()
        )
    })?;
    let place = args
        .place
        .as_deref()
        .map(|named| open(global, named))
        .transpose()?;
    let current = Mutex::new("");
    let status = || Status {
        current: current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace('_', " ")
            .into_bytes(),
        ..Status::of(&monitor)
    };
    let test = onefold::self_test::SelfTest {
        folder: scratch.path(),
        place: place.as_ref().map(|place| TestedPlace {
            shown: place.shown.clone(),
            open: &*place.open,
            probe: place.probe.as_deref(),
        }),
        memory_bytes: args.memory,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
    };
    let made = progress::around(output, "self-test", &status, |screen| {
        let mut said = Ok(());
        let report = self_test(&test, &monitor, &mut |step| {
            if let SelfTestStep::Begins(name) = step {
                *current.lock().unwrap_or_else(PoisonError::into_inner) = name;
            } else if said.is_ok() {
                said = say(&step, screen, output);
            }
        })?;
        said?;
        Ok::<_, anyhow::Error>(report)
    });
    let shown = place.as_ref().map(|place| place.shown.clone());
    let mut left = Vec::new();
    for folder in [place.and_then(|place| place.folder), Some(scratch)]
        .into_iter()
        .flatten()
    {
        let path = folder.path().display().to_string();
        if let Err(error) = folder.remove() {
            output.warn(format!(
                "error: {path} is left of the test: {error}; delete it by other means"
            ))?;
            left.push(path);
        }
    }
    tell(&made?, shown, left, output)
}

/// Opens a fresh part of the place.
fn open(global: &Global, named: &Path) -> Result<Opened> {
    match place_of(named)? {
        Place::Folder(folder) => {
            let made = Scratch::new(&folder, &SystemEntropy);
            let scratch = made.map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => onefold::Error::from(StorageError::NoFolder {
                    folder: folder.display().to_string(),
                })
                .into(),
                _ => anyhow::Error::from(error).context(folder.display().to_string()),
            })?;
            let root = scratch.path().to_owned();
            Ok(Opened {
                shown: root.display().to_string(),
                open: Box::new(move |part| Ok(Arc::new(LocalStorage::create(root.join(part))?))),
                probe: None,
                folder: Some(scratch),
            })
        }
        Place::ObjectStore(location) => {
            let fresh = format!("{location}/{}", Scratch::fresh_name(&SystemEntropy));
            let options = global.far.options(&location)?;
            let at = |location: &str| -> Result<ObjectStoreLocation> { Ok(location.parse()?) };
            at(&fresh)?;
            let root = fresh.clone();
            let open_part = move |part: &str| {
                let location = format!("{root}/{part}");
                let location: ObjectStoreLocation =
                    location
                        .parse()
                        .map_err(|error: onefold::LocationError| StorageError::Unusable {
                            place: location.clone(),
                            why: error.to_string(),
                        })?;
                ObjectStoreStorage::open(&location, &options)
            };
            let open_part = Arc::new(open_part);
            let probed = Arc::clone(&open_part);
            Ok(Opened {
                shown: fresh,
                open: Box::new(move |part| Ok(Arc::new(open_part(part)?))),
                probe: Some(Box::new(move || probed("creates")?.probe_creates())),
                folder: None,
            })
        }
        place @ (Place::Server(_) | Place::Tunnel(_)) => {
            bail!(
                "{place} is on a server: run the self-test there, with the folder or object store that it uses"
            )
        }
    }
}

/// Prints a line for a check.
fn say(step: &SelfTestStep<'_>, screen: &Screen, output: Output) -> Result<()> {
    screen.print(|| match step {
        SelfTestStep::Checked(checked) => say_checked(checked, output),
        SelfTestStep::Measured(speed) => Ok(output.object(&speed_line(speed))?),
        _ => Ok(()),
    })
}

fn speed_line(speed: &PlaceSpeed) -> SpeedLine {
    SpeedLine {
        message_type: "self_test_speed",
        operation: speed.operation,
        count: speed.count,
        bytes: speed.bytes,
        median_seconds: speed.median.as_secs_f64(),
    }
}

fn say_checked(checked: &Checked, output: Output) -> Result<()> {
    let name = checked.name.replace('_', " ");
    let (outcome, what, advice) = match &checked.verdict {
        Verdict::Passed { what } => {
            output.line(format!("ok      {name}: {what}"))?;
            ("ok", what, None)
        }
        Verdict::Failed { what, advice } => {
            output.result(format!("FAILED  {name}: {what}. What to do: {advice}"))?;
            ("failed", what, Some(*advice))
        }
        Verdict::Skipped { why } => {
            output.result(format!("skipped {name}: {why}"))?;
            ("skipped", why, None)
        }
    };
    output.object(&CheckLine {
        message_type: "self_test_check",
        name: checked.name,
        outcome,
        what,
        advice,
        seconds: checked.elapsed.as_secs_f64(),
    })?;
    Ok(())
}

/// Prints the result of all, and returns the exit code.
fn tell(
    report: &SelfTestReport,
    place: Option<String>,
    mut left: Vec<String>,
    output: Output,
) -> Result<Code> {
    let seconds = report.elapsed.as_secs_f64();
    let is_passed = report.is_passed() && left.is_empty();
    left.extend(report.left.iter().cloned());
    let made = report.checks.len() as u64;
    let tested = match &place {
        None => "this program works right on this machine".to_owned(),
        Some(place) => format!(
            "this program works right on this machine and with {}",
            above(place)
        ),
    };
    let took = cli_support::output::duration(seconds);
    output.line(if is_passed {
        let checks = count(report.passed(), "check", "checks");
        format!("all {checks} passed in {took}: {tested}")
    } else if report.is_passed() {
        let checks = count(report.passed(), "check", "checks");
        let place = left.first().map_or("", String::as_str);
        format!("all {checks} passed in {took}, but {place} is left: delete it")
    } else {
        format!(
            "{} of {made} checks failed, and {} were left out, in {took}",
            report.failed(),
            report.skipped()
        )
    })?;
    output.object(&Summary {
        message_type: "summary",
        passed: report.passed(),
        failed: report.failed(),
        skipped: report.skipped(),
        place,
        deleted: report.deleted,
        left,
        total_duration: seconds,
    })?;
    Ok(if is_passed { Code::Success } else { Code::Failure })
}

/// The place without the fresh name below it.
fn above(place: &str) -> &str {
    match place.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((above, _)) => above,
        None => place,
    }
}

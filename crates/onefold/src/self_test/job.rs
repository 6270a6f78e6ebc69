//! The main job: generated files into a store and back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crypto::Argon2Cost;
use env::{Env, StorageError};
use format::names;
use restore::AssembleOptions;
use session::Filter;
use types::{ByteLen, SessionId};

use super::picture::Picture;
use super::plant;
use super::{Done, OPERATION, Runner, Stop};
use crate::backup_options::{BackupOptions, TreeOptions};
use crate::backup_report::BackupReport;
use crate::check::{CheckReport, ReadData};
use crate::credential::Credential;
use crate::error::Result;
use crate::forget::ForgetRequest;
use crate::monitor::Monitor;
use crate::prune::{PruneLimits, PruneOptions, PruneUnused};
use crate::restore_request::RestoreRequest;
use crate::store::{InitOptions, OpenOptions, Store};

/// The part of the place, or of the work folder, with the store.
pub(super) const PART: &str = "store";

/// The names of the checks, each of which needs those before it.
pub(super) const NAMES: [&str; 8] = [
    "init",
    "backup",
    "second_backup",
    "check",
    "restore",
    "forget_and_prune",
    "restore_after_prune",
    "damage",
];

/// What to do if restored files differ.
const WRONG_FILES: &str = "do not trust this program on this machine, or this place, with backups: run the self-test without \
                           --place and on another disk (TMPDIR) to learn which of them it is, and report it";

type Step<T> = std::result::Result<T, Stop>;

/// Makes the checks. After one that does not pass, the others are left out.
///
/// # Errors
/// If somebody asked to stop.
pub(super) fn check(env: &Env, folder: &Path, runner: &mut Runner<'_>) -> Result<()> {
    let cancel = runner.monitor.cancel_handle();
    let mut job = Job {
        env,
        source: folder.join("source"),
        folder,
        monitor: &move || Monitor::new(Arc::clone(&cancel)),
        made: Vec::new(),
    };
    for (at, name) in NAMES.into_iter().enumerate() {
        let is_passed = runner.check(name, || match name {
            "init" => job.init(),
            "backup" => job.backup(),
            "second_backup" => job.second_backup(),
            "check" => job.check(),
            "restore" => job.restore(),
            "forget_and_prune" => job.forget_and_prune(),
            "restore_after_prune" => job.restore_after_prune(),
            _ => job.damage(),
        })?;
        if !is_passed {
            runner.leave_out(&NAMES[at + 1..], name);
            break;
        }
    }
    Ok(())
}

struct Job<'a> {
    env: &'a Env,
    folder: &'a Path,
    source: PathBuf,
    monitor: &'a dyn Fn() -> Monitor,
    /// The backups, with what the source held.
    made: Vec<(SessionId, Picture)>,
}

fn of_files(error: io::Error) -> Stop {
    Stop::failed(format!("the files of the test: {error}"), OPERATION)
}

fn sound(report: &CheckReport) -> Step<()> {
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(Stop::failed(
            format!("{}: {}", finding.object, finding.what),
            WRONG_FILES,
        )),
    }
}

impl Job<'_> {
    fn credential() -> Credential {
        Credential::password("self-test")
    }

    /// A handle that remembers nothing.
    fn store(&self) -> Result<Store> {
        Store::open(self.env, &Self::credential(), &OpenOptions::default())
    }

    fn init(&self) -> Done {
        let cost = Argon2Cost {
            memory_kib: 1024,
            passes: 1,
            lanes: 1,
        };
        let options = InitOptions::default().container_bytes(1 << 20).cost(cost);
        Store::init(self.env, &Self::credential(), &options, None)?;
        let wrong = Credential::password("another");
        if Store::open(self.env, &wrong, &OpenOptions::default()).is_ok() {
            return Err(Stop::failed("a wrong password opens the store", WRONG_FILES));
        }
        Ok("a store with a password".to_owned())
    }

    fn back_up(&mut self) -> Step<BackupReport> {
        let picture = Picture::of(&self.source).map_err(of_files)?;
        let mut fault = None;
        let report = self.store()?.backup_tree(
            &BackupOptions::default().host("self-test"),
            &TreeOptions::new([&self.source]),
            &(self.monitor)(),
            &mut |found| {
                fault.get_or_insert(found.to_string());
            },
        )?;
        let fault = fault.or_else(|| report.warnings.first().map(ToString::to_string));
        if let Some(fault) = fault {
            return Err(Stop::failed(fault, OPERATION));
        }
        self.made.push((report.id, picture));
        Ok(report)
    }

    fn backup(&mut self) -> Done {
        fs::create_dir(&self.source).map_err(of_files)?;
        let has_bytes = plant::plant(&self.source).map_err(of_files)?;
        let report = self.back_up()?;
        let picture = &self.made[0].1;
        let names = if has_bytes {
            ""
        } else {
            "; this file system refuses names that are not UTF-8"
        };
        Ok(format!(
            "{} files, folders and links with {}, of which {} were stored{names}",
            picture.len(),
            ByteLen::new(picture.bytes()),
            ByteLen::new(report.totals.bytes_stored),
        ))
    }

    fn second_backup(&mut self) -> Done {
        plant::change(&self.source).map_err(of_files)?;
        let first = self.made[0].0;
        let totals = self.back_up().and_then(|report| {
            if report.parent == Some(first) {
                return Ok(report.totals);
            }
            Err(Stop::failed(
                "the second backup did not find the first one",
                OPERATION,
            ))
        })?;
        // 730 KB are new, and each change is cut out of larger segments.
        if totals.bytes_new > 3 << 20 {
            return Err(Stop::failed(
                format!(
                    "{} were stored again of which the first backup has most",
                    ByteLen::new(totals.bytes_new)
                ),
                OPERATION,
            ));
        }
        Ok(format!(
            "after changes, {} of {} were new",
            ByteLen::new(totals.bytes_new),
            ByteLen::new(totals.bytes_logical)
        ))
    }

    fn read_all(&self) -> Step<CheckReport> {
        Ok(self.store()?.check(ReadData::Share(1.0), &(self.monitor)())?)
    }

    fn check(&self) -> Done {
        let report = self.read_all()?;
        sound(&report)?;
        Ok(format!(
            "every stored byte was read ({})",
            ByteLen::new(report.bytes_read)
        ))
    }

    /// Restores one of the backups into a fresh folder, and compares all.
    fn compare(&self, at: usize, target: &str) -> Step<()> {
        let (id, expected) = &self.made[at];
        let (store, target) = (self.store()?, self.folder.join(target));
        let snapshot = store.find(&id.to_string(), &Filter::default())?;
        let mut fault = None;
        store.restore(
            &snapshot,
            &target,
            &RestoreRequest::new(AssembleOptions::default()),
            &(self.monitor)(),
            &mut |found| {
                fault.get_or_insert(found.to_string());
            },
        )?;
        if let Some(fault) = fault {
            return Err(Stop::failed(format!("backup {id}: {fault}"), WRONG_FILES));
        }
        let restored = target.join(self.source.strip_prefix("/").unwrap_or(&self.source));
        let found = Picture::of(&restored).map_err(of_files)?;
        if let Some(difference) = expected.difference(&found) {
            return Err(Stop::failed(
                format!("backup {id}, restored: {difference}"),
                WRONG_FILES,
            ));
        }
        fs::remove_dir_all(&target).map_err(of_files)
    }

    fn restore(&self) -> Done {
        self.compare(0, "first")?;
        self.compare(1, "second")?;
        let bytes = self.made.iter().map(|(_, picture)| picture.bytes()).sum();
        Ok(format!(
            "both backups are as the files were ({}), with modes, owners, times and links",
            ByteLen::new(bytes)
        ))
    }

    fn forget_and_prune(&self) -> Done {
        let store = self.store()?;
        let first = self.made[0].0.to_string();
        store.forget(&ForgetRequest::named([first]), &(self.monitor)())?;
        let limits = PruneLimits::default().unused_max(PruneUnused::Bytes(0));
        let options = PruneOptions::default().limits(limits);
        let (report, warnings) = store.prune(&options, &(self.monitor)())?;
        if let Some(warning) = warnings.first() {
            return Err(Stop::failed(warning.to_string(), OPERATION));
        }
        // The first backup alone has a file of 3 MiB.
        if report.bytes_deleted < 2 << 20 {
            return Err(Stop::failed(
                format!(
                    "prune deleted {}, and some 3 MiB are needed by no backup",
                    ByteLen::new(report.bytes_deleted)
                ),
                OPERATION,
            ));
        }
        Ok(format!(
            "the first backup is forgotten, and {} are deleted",
            ByteLen::new(report.bytes_deleted)
        ))
    }

    fn restore_after_prune(&self) -> Done {
        sound(&self.read_all()?)?;
        self.compare(1, "third")?;
        Ok("the second backup is whole, and as the files were".to_owned())
    }

    /// Flips a bit of a container, and looks whether a check finds it.
    fn damage(&self) -> Done {
        let storage = &self.env.storage;
        let containers = storage.list("data")?;
        let Some(largest) = containers.into_iter().max_by_key(|meta| meta.len) else {
            return Err(Stop::failed("the store lists no containers", OPERATION));
        };
        let mut bytes = storage.get(&largest.name)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        match storage.delete(&largest.name) {
            Err(error @ (StorageError::Denied { .. } | StorageError::NoRight { .. })) => {
                return Err(Stop::Skipped(format!("no object can be damaged here: {error}")));
            }
            deleted => deleted?,
        }
        storage.put(&largest.name, &[&bytes])?;
        storage.barrier()?;
        let report = self.read_all()?;
        let id = self.made[1].0;
        let container = names::parse_container(&largest.name).map(|(id, _)| id);
        let is_named = container.is_some_and(|id| report.damaged_containers.contains(&id));
        if report.is_sound() || !report.damaged_backups.contains(&id) {
            return Err(Stop::failed(
                format!("a flipped bit in {} went unnoticed", largest.name),
                WRONG_FILES,
            ));
        }
        if !is_named {
            return Err(Stop::failed(
                format!("a flipped bit in {} was found elsewhere", largest.name),
                WRONG_FILES,
            ));
        }
        Ok("a flipped bit in a container is found by a check".to_owned())
    }
}

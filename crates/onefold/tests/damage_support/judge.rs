//! What must hold for a damaged store, whatever the damage.

use std::collections::BTreeSet;
use std::path::PathBuf;

use onefold::{
    AssembleOptions, CheckReport, Credential, Error, Fault, Monitor, OpenOptions, ReadData, RestoreReport,
    RestoreRequest, SessionId, Snapshot, Store,
};
use types::ObjectName;

use super::fixture::{Fixture, below, container_of};
use super::tree::{self, Entry, Tree};
use super::{Objects, backup_options, env_on, storage_of, tree_options};

/// A damaged store, opened.
pub(crate) struct Damaged {
    /// The store.
    pub(crate) store: Store,
    /// The report of a check of every byte.
    pub(crate) report: CheckReport,
}

/// Opens a store in memory.
pub(crate) fn open(objects: &Objects) -> Result<Store, Error> {
    let env = env_on(storage_of(objects), 77);
    Store::open(&env, &Credential::None, &OpenOptions::default())
}

/// Opens and checks.
pub(crate) fn check(objects: &Objects) -> Damaged {
    let store = open(objects).unwrap();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    Damaged { store, report }
}

impl Damaged {
    /// Whether the report names the object, or the container that it is a copy of.
    pub(crate) fn names(&self, name: &ObjectName) -> bool {
        let container = container_of(name).map(|id| id.to_string());
        let is_it = |object: &str| {
            object.starts_with(name.as_str()) || container.as_ref().is_some_and(|id| object.starts_with(id))
        };
        self.report
            .findings
            .iter()
            .chain(&self.report.leftovers)
            .any(|finding| is_it(&finding.object))
    }

    /// Restores every backup. Backups that do not need the object are identical. For the others no
    /// wrong byte is restored, and the check has named everything that is missing.
    pub(crate) fn judge_restores(&self, fixture: &Fixture, touched: &BTreeSet<SessionId>, what: &str) {
        let list = self.store.snapshots().unwrap();
        let seen: BTreeSet<SessionId> = list.snapshots.iter().map(|snapshot| snapshot.id).collect();
        for (id, expected) in &fixture.trees {
            if !seen.contains(id) {
                assert!(touched.contains(id), "{what}: backup {id} has vanished");
                assert!(
                    self.report.damaged_backups.contains(id),
                    "{what}: nobody told of {id}"
                );
                continue;
            }
            let snapshot = list.snapshots.iter().find(|snapshot| snapshot.id == *id).unwrap();
            let restored = restore(&self.store, snapshot);
            let is_whole = restored.is_whole();
            assert!(
                is_whole || touched.contains(id),
                "{what}: backup {id} does not need it, and: {restored:?}"
            );
            assert!(
                is_whole || self.report.damaged_backups.contains(id),
                "{what}: check foretold nothing of backup {id}: {restored:?} {:?}",
                self.report.findings
            );
            if is_whole {
                assert_eq!(restored.tree, *expected, "{what}: backup {id}");
                continue;
            }
            for (path, entry) in &restored.tree {
                let is_part = path.to_string_lossy().contains(".onefold");
                assert!(
                    is_part || matches!(entry, Entry::Folder) || expected.get(path) == Some(entry),
                    "{what}: backup {id}: wrong bytes in {}",
                    path.display()
                );
            }
            restored.names_a_place(what);
            let foretold = self.report.damaged_files.get(id);
            for path in &restored.lost {
                assert!(
                    foretold.is_some_and(|files| files.contains(path)),
                    "{what}: check did not name {}",
                    String::from_utf8_lossy(path)
                );
            }
        }
    }

    /// The next backup of the source stores the lost chunks again, and restores whole.
    pub(crate) fn judge_healing(&self, fixture: &Fixture, what: &str) {
        let made = self.store.backup_tree(
            &backup_options("host", 0),
            &tree_options(&fixture.source, true),
            &Monitor::default(),
            &mut |fault| panic!("{what}: {fault}"),
        );
        let made = made.unwrap_or_else(|error| panic!("{what}: the next backup: {error}"));
        let list = self.store.snapshots().unwrap();
        let snapshot = list
            .snapshots
            .iter()
            .find(|snapshot| snapshot.id == made.id)
            .unwrap();
        let restored = restore(&self.store, snapshot);
        assert!(restored.is_whole(), "{what}: the next backup: {restored:?}");
        let inside: PathBuf = fixture.source.strip_prefix("/").unwrap().to_path_buf();
        let expected = below(&inside, tree::read(&fixture.source));
        assert_eq!(restored.tree, expected, "{what}: the next backup");
        let again = self
            .store
            .check(ReadData::Share(1.0), &Monitor::default())
            .unwrap();
        assert!(
            !again.damaged_backups.contains(&made.id),
            "{what}: the next backup rests on damage: {:?}",
            again.findings
        );
    }
}

/// The result of a restore.
#[derive(Debug)]
pub(crate) struct Restored {
    outcome: Result<RestoreReport, Error>,
    faults: Vec<String>,
    /// Files whose bytes could not be read.
    lost: Vec<Vec<u8>>,
    tree: Tree,
}

impl Restored {
    /// Fails unless all is as expected.
    pub(crate) fn judge(&self, expected: &Tree, what: &str) {
        assert!(self.is_whole(), "{what}: {self:?}");
        assert_eq!(self.tree, *expected, "{what}");
    }

    /// Fails unless only these files are lost.
    pub(crate) fn judge_lost(&self, foretold: &[Vec<u8>], what: &str) {
        for path in &self.lost {
            let shown = String::from_utf8_lossy(path);
            assert!(foretold.contains(path), "{what}: nobody named {shown}");
        }
    }

    fn is_whole(&self) -> bool {
        self.outcome.is_ok() && self.faults.is_empty()
    }

    /// Fails unless each error or fault names a container, node or object.
    fn names_a_place(&self, what: &str) {
        let told: Vec<String> = match &self.outcome {
            Ok(_) => self.faults.clone(),
            Err(error) => vec![error.to_string()],
        };
        for text in told {
            assert!(text.contains('/'), "{what}: names no place: {text}");
        }
    }
}

/// Restores into a folder of its own and reads it back.
pub(crate) fn restore(store: &Store, snapshot: &Snapshot) -> Restored {
    let target = crate::common::tree::scratch();
    let request = RestoreRequest::new(AssembleOptions::for_cores(1));
    let (mut faults, mut lost) = (Vec::new(), Vec::new());
    let outcome = store.restore(
        snapshot,
        target.path(),
        &request,
        &Monitor::default(),
        &mut |fault| {
            faults.push(match fault {
                Fault::Lost { path, error } => {
                    lost.push(path.clone());
                    format!("{}: {error}", String::from_utf8_lossy(path))
                }
                other => other.to_string(),
            });
        },
    );
    let tree = tree::read(target.path());
    Restored {
        outcome,
        faults,
        lost,
        tree,
    }
}

//! The next of a numbered series of objects: manifests, lease claims, lists of damaged slots.
//!
//! Nothing is overwritten: a change is a new object under the next number. Create-only put decides
//! which creator gets a number. The loser reads the winner's object and decides again. The creator
//! of a number may delete lower numbers, but never the highest one. So a slow creator may get a
//! number that was used and deleted. It lists after creating, finds the higher number, and decides
//! again. So `decide` must accept that its change was made already.
//!
//! Any number of processes may do this at once. A crash leaves the new revision whole, torn or
//! absent; nothing is durable before the caller's barrier.

use env::StorageError;
use format::frame::ObjectKind;
use types::{ObjectName, Revision};

use crate::{ObjectError, Sealer};

/// How often a number may be lost before giving up. Every loss is somebody else's progress.
const ATTEMPTS_MAX: u32 = 100;

type Name<'a> = dyn Fn(Revision) -> ObjectName + 'a;
type Parse<'a> = dyn Fn(&ObjectName) -> Option<Revision> + 'a;

/// One numbered series of objects of a kind, in one folder.
pub struct Revisions<'a> {
    sealer: &'a Sealer,
    kind: ObjectKind,
    folder: String,
    name: Box<Name<'a>>,
    parse: Box<Parse<'a>>,
}

/// The highest revision as it was read.
#[derive(Debug)]
pub struct Head {
    /// Its number.
    pub revision: Revision,
    /// What it holds, or how it is damaged ([`ObjectError::is_damage`] or `Newer`). Whether a torn
    /// one counts is for the caller to decide: it may be all that a crash left of an unfinished
    /// write, or rot of what was acknowledged long ago.
    pub plain: Result<Vec<u8>, ObjectError>,
}

/// What to do, given the highest revision.
#[derive(Debug)]
pub enum Next {
    /// Create the next one with this content.
    Create(Vec<u8>),
    /// Leave it at that: it is done already, or not to be done.
    Stop,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This revision was created, and was the highest when listed after.
    Created(Revision),
    /// [`Next::Stop`] was decided.
    Stopped,
}

impl<'a> Revisions<'a> {
    /// The series of objects in `folder` whose names `parse` accepts; `name` is its inverse.
    pub fn new(
        sealer: &'a Sealer,
        kind: ObjectKind,
        folder: impl Into<String>,
        name: impl Fn(Revision) -> ObjectName + 'a,
        parse: impl Fn(&ObjectName) -> Option<Revision> + 'a,
    ) -> Self {
        Self {
            sealer,
            kind,
            folder: folder.into(),
            name: Box::new(name),
            parse: Box::new(parse),
        }
    }

    /// The numbers that exist, lowest first.
    ///
    /// # Errors
    /// Of the storage.
    pub fn list(&self) -> Result<Vec<Revision>, ObjectError> {
        let listed = self.sealer.list(&self.folder, &self.parse)?;
        let mut numbers: Vec<Revision> = listed.into_iter().map(|(revision, _)| revision).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The highest revision; `None` when there is none.
    ///
    /// # Errors
    /// Of the storage; `Contended` when each one listed is gone before it is read.
    pub fn head(&self) -> Result<Option<Head>, ObjectError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(revision) = self.list()?.last().copied() else {
                return Ok(None);
            };
            match self.sealer.get(&(self.name)(revision), self.kind) {
                Err(ObjectError::Storage(StorageError::NotFound { .. })) => {}
                Err(failed @ ObjectError::Storage(_)) => return Err(failed),
                plain => return Ok(Some(Head { revision, plain })),
            }
        }
        Err(self.contended())
    }

    /// Creates the revision that follows the highest, as `decide` wants it after seeing that one.
    ///
    /// `decide` is asked again whenever a rival was first, and also when a rival has gone on from
    /// the revision just created (which looks the same as having created a void one): it must
    /// recognise that what it wanted is done, and stop. Not durable before a barrier, stopped or
    /// not.
    ///
    /// # Errors
    /// Whatever `decide` returns; of the storage; `Contended`; `Exhausted`.
    pub fn create_next<E: From<ObjectError>>(
        &self,
        mut decide: impl FnMut(Option<&Head>) -> Result<Next, E>,
    ) -> Result<Outcome, E> {
        for _ in 0..ATTEMPTS_MAX {
            let head = self.head()?;
            let Next::Create(plain) = decide(head.as_ref())? else {
                return Ok(Outcome::Stopped);
            };
            let revision = next_number(head.map(|head| head.revision), &self.folder)?;
            match self.sealer.put(&(self.name)(revision), self.kind, &plain) {
                Ok(()) => {}
                Err(taken) if taken.is_already_exists() => continue,
                Err(failed) => return Err(failed.into()),
            }
            if self.list()?.last() == Some(&revision) {
                return Ok(Outcome::Created(revision));
            }
        }
        Err(self.contended().into())
    }

    fn contended(&self) -> ObjectError {
        ObjectError::Contended {
            what: self.folder.clone(),
            attempts: ATTEMPTS_MAX,
        }
    }
}

/// The number after the highest; names come from the storage, so the last number is an error, no
/// panic.
pub(crate) fn next_number(highest: Option<Revision>, what: &str) -> Result<Revision, ObjectError> {
    let Some(highest) = highest else {
        return Ok(Revision::FIRST);
    };
    let exhausted = || ObjectError::Exhausted {
        what: what.to_owned(),
        highest,
    };
    let next = highest.get().checked_add(1).ok_or_else(exhausted)?;
    Revision::new(next).map_err(|_| exhausted())
}

impl std::fmt::Debug for Revisions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revisions")
            .field("folder", &self.folder)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

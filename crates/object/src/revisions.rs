//! Creates the next of a numbered series of objects: manifests, lease claims, lists of damaged
//! slots.
//!
//! Nothing is overwritten: a change is a new object under the next number. A create-only put
//! decides which creator gets a number. The loser reads the winner's object and decides again. The
//! creator of a number may delete lower numbers, but never the highest one. So a slow creator may
//! get a number that was used and deleted. It lists after creating, finds the higher number, and
//! decides again. So `decide` must accept that its change was made already.
//!
//! Any number of processes may do this at once. A crash leaves the new revision whole, torn or
//! absent. Nothing is durable before the caller's barrier.

use env::StorageError;
use format::frame::ObjectKind;
use types::{ObjectName, Revision};

use crate::{ObjectError, Sealer};

/// The most attempts to get a number. With every loss another process makes progress.
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

/// The highest revision, as read.
#[derive(Debug)]
pub struct Head {
    /// Its number.
    pub revision: Revision,
    /// Its content, or its damage ([`ObjectError::is_damage`] or `Newer`). The caller decides
    /// whether a torn one counts: a crash may have left it of an unfinished write, or it may be rot
    /// of an old revision that counts.
    pub plain: Result<Vec<u8>, ObjectError>,
}

/// The decision, given the highest revision.
#[derive(Debug)]
pub enum Next {
    /// Creates the next revision with this content.
    Create(Vec<u8>),
    /// Creates nothing: the change is already made, or not wanted.
    Stop,
}

/// The result of a creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This revision was created, and was the highest in the listing afterwards.
    Created(Revision),
    /// `decide` returned [`Next::Stop`].
    Stopped,
}

impl<'a> Revisions<'a> {
    /// The series of objects in `folder` whose names `parse` accepts. `name` is its inverse.
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
    /// Errors of the storage.
    pub fn list(&self) -> Result<Vec<Revision>, ObjectError> {
        let listed = self.sealer.list(&self.folder, &self.parse)?;
        let mut numbers: Vec<Revision> = listed.into_iter().map(|(revision, _)| revision).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The highest revision; `None` if there is none.
    ///
    /// # Errors
    /// Errors of the storage; `Contended` if each listed revision is gone before it is read.
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

    /// Creates the revision after the highest one. `decide` sees the highest one and returns the
    /// content.
    ///
    /// `decide` is called again whenever a rival was first. It is also called again when a rival
    /// has continued from the new revision, which looks the same as a void one. So it must
    /// recognise that its change is made, and stop. The result is not durable before a barrier,
    /// even after a stop.
    ///
    /// # Errors
    /// Errors of `decide` and of the storage; `Contended`; `Exhausted`.
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

/// The number after the highest. Names come from the storage, so there being no further number is
/// an error, not a panic.
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

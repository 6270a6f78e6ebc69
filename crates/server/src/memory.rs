//! The server's memory: what clients may have of it at once (B7, B9).
//!
//! | part | for |
//! |---|---|
//! | a quarter, at least 81 MiB | the bodies of messages, from before they are read until they are processed |
//! | a sixteenth, at least [`ANSWERS_BYTES_MIN`] | content for readers and of vaults, until it is sent |
//! | [`BASE_BYTES`] | stores: indexes, caches |
//! | the rest | running backups, [`BACKUP_BYTES`] each |
//!
//! A client whose message finds no memory waits in its own socket: the server reads nothing from
//! it, and TCP stops the client. A backup that finds no place waits, and is refused as "busy" after
//! [`PATIENCE`]; its client tries again.
//!
//! Operations on backups have places too: each of those that work long has threads and windows of
//! its own, and each of the others has the decoded call and a list of backups. They wait like a
//! backup.
//!
//! A client keeps the memory of an answer for as long as it does not read. So an answer that finds
//! none waits only for a moment: then it goes on with little, which is not counted.

use std::time::Duration;

use format::manifest::SeriesName;
use wire::{Refusal, RefusalKind};

use crate::gate::{Gate, Permit};

/// The least memory with which a server runs.
pub(crate) const MEMORY_BYTES_MIN: u64 = 288 << 20;
/// Memory that does not depend on the number of clients.
const BASE_BYTES: u64 = 96 << 20;
/// Memory for answers, at least: an owner has half of it, in which a long region fits.
const ANSWERS_BYTES_MIN: u64 = 24 << 20;
/// Memory of one running backup.
const BACKUP_BYTES: u64 = 40 << 20;
/// Shorter bodies are not counted: [`crate::guests`] limits the number of connections.
const SMALL_BYTES: usize = 64 << 10;
/// Names of backups that wait, of all owners and of one. The longest takes some 13 MiB.
const NAMES_BYTES: (u64, u64) = (64 << 20, 32 << 20);
/// The least that a path takes in memory.
const PATH_BYTES: usize = 40;
/// Operations that work long, at once. One owner has one.
const LONG_CALLS: u64 = 2;
/// Other operations, at once, and those of one owner.
const SHORT_CALLS: (u64, u64) = (8, 2);
/// How long a backup or an operation waits for its place.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a thread that waits looks whether the server is ending.
const LOOK: Duration = Duration::from_secs(1);

/// What clients share.
#[derive(Debug)]
pub(crate) struct Memory {
    bodies: Gate,
    answers: Gate,
    backups: Gate,
    names: Gate,
    long_calls: Gate,
    short_calls: Gate,
}

/// How long an operation on backups works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// It reads data, or all nodes of backups.
    Long,
    /// It reads and writes manifests.
    Short,
}

impl Memory {
    /// So much.
    pub(crate) fn new(bytes: u64) -> Self {
        let bytes = bytes.max(MEMORY_BYTES_MIN);
        // A client that sends half of the longest message and stops leaves room for another one.
        let longest = 2 * wire::FRAME_BYTES_MAX as u64;
        let bodies = (bytes / 4).max(2 * longest + longest / 4);
        let answers = (bytes / 16).max(ANSWERS_BYTES_MIN);
        let backups = ((bytes - bodies - answers).saturating_sub(BASE_BYTES) / BACKUP_BYTES).max(1);
        Self {
            bodies: Gate::new(bodies, (bodies / 2).max(longest)),
            answers: Gate::new(answers, answers / 2),
            // One owner leaves a place to others.
            backups: Gate::new(backups, (backups - backups / 4).min(backups - 1).max(1)),
            names: Gate::new(NAMES_BYTES.0, NAMES_BYTES.1),
            long_calls: Gate::new(LONG_CALLS, 1),
            short_calls: Gate::new(SHORT_CALLS.0, SHORT_CALLS.1),
        }
    }

    /// Memory for a body of so many bytes, and for the message that is decoded from it. Waits for
    /// it. `None` if it is short, or the server is ending.
    pub(crate) fn body(&self, owner: &str, len: usize, is_ending: &dyn Fn() -> bool) -> Option<Permit> {
        let is_long = len > SMALL_BYTES && !is_ending();
        is_long
            .then(|| self.bodies.take_unless(owner, 2 * len as u64, LOOK, is_ending))
            .flatten()
    }

    /// Memory for so many bytes of an answer. Waits a moment for it: `None` if there is none, as
    /// those who have it may never give it back.
    pub(crate) fn answer(&self, owner: &str, bytes: u64, patience: Duration) -> Option<Permit> {
        self.answers.take(owner, bytes, patience)
    }

    /// The memory that bodies of messages have.
    #[cfg(test)]
    pub(crate) fn of_bodies(&self) -> u64 {
        self.bodies.held()
    }

    /// The memory that answers have.
    #[cfg(test)]
    pub(crate) fn of_answers(&self) -> u64 {
        self.answers.held()
    }

    /// A place for an operation on backups, whose message has so many bytes and is not decoded. A
    /// long message does not wait with its memory: its client tries again.
    pub(crate) fn call(&self, owner: &str, work: Work, len: usize) -> Result<Permit, Refusal> {
        let gate = match work {
            Work::Long => &self.long_calls,
            Work::Short => &self.short_calls,
        };
        let patience = if len > SMALL_BYTES {
            Duration::ZERO
        } else {
            PATIENCE
        };
        gate.take(owner, 1, patience).ok_or_else(|| {
            Refusal::new(
                RefusalKind::Busy,
                "the server runs as many operations on backups as it can at once; try again later",
            )
        })
    }

    /// The memory of a backup's name while the backup waits for its place, or for its end. A short
    /// one is not counted.
    pub(crate) fn name(&self, owner: &str, name: &SeriesName) -> Result<Option<Permit>, Refusal> {
        let bytes: usize = name.paths.iter().map(|path| path.len() + PATH_BYTES).sum();
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let permit = self
            .names
            .take(owner, bytes as u64, Duration::ZERO)
            .ok_or_else(|| {
                Refusal::new(
                    RefusalKind::Busy,
                    "too many backups with long lists of paths wait at the same time; try again later",
                )
            })?;
        Ok(Some(permit))
    }

    /// A place for a running backup.
    pub(crate) fn backup(&self, owner: &str) -> Result<Permit, Refusal> {
        self.backups.take(owner, 1, PATIENCE).ok_or_else(|| {
            Refusal::new(
                RefusalKind::Busy,
                "the server runs as many backups as its memory allows; try again later",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may send a list of paths for each of many connections, and all wait for long.
    #[test]
    fn few_backups_with_long_names_wait_at_once() {
        let memory = Memory::new(0);
        let name = |paths: usize| SeriesName {
            host: b"host".to_vec(),
            paths: (0..paths).map(|n| n.to_string().into_bytes()).collect(),
        };
        let (short, long) = (name(1000), name(131_072));
        assert!(memory.name("one", &short).unwrap().is_none());
        let held: Vec<_> = (0..100).map_while(|_| memory.name("one", &long).ok()).collect();
        assert_eq!(held.len(), 5);
        assert!(memory.name("one", &long).is_err());
        assert!(memory.name("other", &long).unwrap().is_some());
        drop(held);
        assert!(memory.name("one", &long).unwrap().is_some());
    }

    #[test]
    fn each_amount_of_memory_has_room_for_a_backup_and_a_message() {
        for mib in [0, 288, 289, 512, 4096] {
            let memory = Memory::new(mib << 20);
            let backup = memory.backup("one").unwrap();
            let body = memory.body("one", wire::FRAME_BYTES_MAX, &|| false);
            assert!(body.is_some());
            drop((backup, body));
        }
        assert!(Memory::new(0).body("one", SMALL_BYTES, &|| false).is_none());
    }
}

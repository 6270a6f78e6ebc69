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
//! A client keeps the memory of an answer for as long as it does not read. So an answer that finds
//! none waits only for a moment: then it goes on with little, which is not counted.

use std::time::Duration;

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
/// Shorter bodies are not counted: [`crate::accepting`] limits the number of connections.
const SMALL_BYTES: usize = 64 << 10;
/// How long a backup waits for its place.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a thread that waits looks whether the server is ending.
const LOOK: Duration = Duration::from_secs(1);

/// What clients share.
#[derive(Debug)]
pub(crate) struct Memory {
    bodies: Gate,
    answers: Gate,
    backups: Gate,
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

    /// The memory that answers have.
    #[cfg(test)]
    pub(crate) fn of_answers(&self) -> u64 {
        self.answers.held()
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

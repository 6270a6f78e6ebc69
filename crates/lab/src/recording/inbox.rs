//! What a server has sent to a replay, and what was not compared yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::{Clock, SystemClock};
use ingest::Verdict;
use transport::{FrameReader, TransportError};
use wire::{FRAME_BYTES_MAX, Refusal, Wire, reply};

use super::file::Frame;

/// How long one wait lasts, before the player looks whether the user asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Messages of a server on one connection.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Mail {
    /// Verdicts that decide something.
    verdicts: VecDeque<Verdict>,
    answers: BTreeMap<u32, Answer>,
    /// Why nothing more can be expected.
    ended: Option<String>,
}

/// An answer, or why there is none.
pub(super) type Answer = Result<Vec<u8>, Refusal>;

/// Why a wait has ended without a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The connection has ended, or the running backup cannot go on.
    Ended(String),
    /// Nothing came in time.
    Late,
    /// The replay is to stop.
    Stopped,
}

/// Why a replay should stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop<'a> {
    /// The user asked for it.
    pub(super) cancelled: &'a AtomicBool,
    /// Another stream has failed.
    pub(super) failed: &'a AtomicBool,
}

impl Stop<'_> {
    pub(super) fn is_asked(self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}

/// Whether a verdict is a decision. The others depend on the time at which messages come.
pub(super) fn is_decision(verdict: &Verdict) -> bool {
    !matches!(verdict, Verdict::Waits(_) | Verdict::Flush(_))
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what comes, until nothing comes any more.
    pub(super) fn fill(&self, reader: &mut FrameReader) {
        loop {
            let next = reader
                .next(FRAME_BYTES_MAX)
                .and_then(|frame| frame.ok_or(TransportError::Closed));
            let taken = match next {
                Ok((head, body)) => self.lock().take(Frame {
                    kind: head.kind,
                    number: head.number,
                    body,
                }),
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = taken {
                self.lock().ended.get_or_insert(why);
                self.changed.notify_all();
                return;
            }
            self.changed.notify_all();
        }
    }

    /// Waits for the next decision.
    pub(super) fn decision(&self, patience: Duration, stop: Stop<'_>) -> Result<Verdict, Missing> {
        self.wait(patience, stop, |mail| mail.verdicts.pop_front())
    }

    /// Waits for the answer to a request.
    pub(super) fn answer(&self, number: u32, patience: Duration, stop: Stop<'_>) -> Result<Answer, Missing> {
        self.wait(patience, stop, |mail| mail.answers.remove(&number))
    }

    /// Why the connection cannot go on, if the server has said it.
    pub(super) fn ended(&self) -> Option<String> {
        self.lock().ended.clone()
    }

    /// The number of decisions that nobody has waited for.
    pub(super) fn decisions_left(&self) -> usize {
        self.lock().verdicts.len()
    }

    fn wait<T>(
        &self,
        patience: Duration,
        stop: Stop<'_>,
        mut take: impl FnMut(&mut Mail) -> Option<T>,
    ) -> Result<T, Missing> {
        let until = SystemClock.monotonic() + patience;
        let mut mail = self.lock();
        loop {
            if let Some(taken) = take(&mut mail) {
                return Ok(taken);
            }
            if let Some(why) = &mail.ended {
                return Err(Missing::Ended(why.clone()));
            }
            if stop.is_asked() {
                return Err(Missing::Stopped);
            }
            let left = until.saturating_sub(SystemClock.monotonic());
            if left.is_zero() {
                return Err(Missing::Late);
            }
            let waited = self.changed.wait_timeout(mail, left.min(LOOK));
            (mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Mail {
    /// Takes a message. An error says why nothing more can be expected.
    fn take(&mut self, frame: Frame) -> Result<(), String> {
        let refusal = |body: &[u8]| Refusal::from_bytes(body).map_err(|error| error.to_string());
        match frame.kind {
            reply::VERDICTS => {
                let verdicts = Vec::<Verdict>::from_bytes(&frame.body).map_err(|error| error.to_string())?;
                self.verdicts.extend(verdicts.into_iter().filter(is_decision));
            }
            reply::ANSWER => drop(self.answers.insert(frame.number, Ok(frame.body))),
            reply::REFUSAL => drop(self.answers.insert(frame.number, Err(refusal(&frame.body)?))),
            reply::FAILED => return Err(refusal(&frame.body)?.to_string()),
            // How far an operation is.
            _ => {}
        }
        Ok(())
    }
}

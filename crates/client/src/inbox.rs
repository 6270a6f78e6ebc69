//! What has come from the server and was not taken.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ingest::Verdict;
use transport::{FrameReader, TransportError};
use wire::{ANSWER_BYTES_MAX, FRAME_BYTES_MAX, Head, Progress, Refusal, Wire, reply};

use crate::error::ClientError;

/// Messages of a server, for the threads that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Mail {
    verdicts: VecDeque<Verdict>,
    answers: BTreeMap<u32, Result<Vec<u8>, Refusal>>,
    /// Answers of which more parts come.
    parts: BTreeMap<u32, Vec<u8>>,
    /// How far the server is with an operation that it runs for this connection.
    progress: Option<Progress>,
    /// The durable position of the running backup's stream.
    durable: u64,
    /// Why the running backup cannot go on.
    failed: Option<Refusal>,
    /// Why nothing comes any more.
    ended: Option<ClientError>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what comes, until nothing comes any more.
    pub(crate) fn fill(&self, reader: &mut FrameReader) {
        loop {
            let mut is_part = false;
            let taken = match reader.next(FRAME_BYTES_MAX) {
                Ok(Some((head, body))) => {
                    is_part = head.kind == reply::PART;
                    self.take(head, body)
                }
                Ok(None) => Err(TransportError::Closed.into()),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = taken {
                self.lock().ended.get_or_insert(error);
                self.changed.notify_all();
                return;
            }
            // Nobody waits for a part alone.
            if !is_part {
                self.changed.notify_all();
            }
        }
    }

    fn take(&self, head: Head, body: Vec<u8>) -> Result<(), ClientError> {
        let refusal = |body: &[u8]| Refusal::from_bytes(body).map_err(|error| ClientError::protocol(&error));
        match head.kind {
            reply::VERDICTS => {
                let verdicts =
                    Vec::<Verdict>::from_bytes(&body).map_err(|error| ClientError::protocol(&error))?;
                self.lock().verdicts.extend(verdicts);
            }
            reply::FAILED => {
                let refusal = refusal(&body)?;
                self.lock().failed.get_or_insert(refusal);
            }
            reply::PROGRESS => {
                let told = Progress::from_bytes(&body).map_err(|error| ClientError::protocol(&error))?;
                self.lock().progress = Some(told);
            }
            reply::DURABLE => {
                let position = u64::from_bytes(&body).map_err(|error| ClientError::protocol(&error))?;
                let mut mail = self.lock();
                mail.durable = mail.durable.max(position);
            }
            reply::PART => {
                let mut mail = self.lock();
                let parts = mail.parts.entry(head.number).or_default();
                if parts.len() + body.len() > ANSWER_BYTES_MAX {
                    return Err(ClientError::Protocol("an answer without an end".to_owned()));
                }
                parts.extend_from_slice(&body);
            }
            reply::ANSWER => {
                let mut mail = self.lock();
                let whole = match mail.parts.remove(&head.number) {
                    None => body,
                    Some(mut parts) => {
                        parts.extend_from_slice(&body);
                        parts
                    }
                };
                mail.answers.insert(head.number, Ok(whole));
            }
            reply::REFUSAL => {
                let refusal = refusal(&body)?;
                let mut mail = self.lock();
                mail.parts.remove(&head.number);
                mail.answers.insert(head.number, Err(refusal));
            }
            kind => return Err(ClientError::Protocol(format!("a message of kind {kind}"))),
        }
        Ok(())
    }

    /// Waits for the answer with this number.
    pub(crate) fn answer(&self, number: u32) -> Result<Vec<u8>, ClientError> {
        let mut mail = self.lock();
        loop {
            if let Some(answer) = mail.answer(number) {
                return answer;
            }
            mail = self.changed.wait(mail).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The answer with this number, if it comes within this time.
    pub(crate) fn answer_in(&self, number: u32, patience: Duration) -> Option<Result<Vec<u8>, ClientError>> {
        let is_missing = |mail: &mut Mail| mail.ended.is_none() && !mail.answers.contains_key(&number);
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_missing);
        let (mut mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
        mail.answer(number)
    }

    /// The answer with this number, if it comes within `wait`, and how far the server is.
    pub(crate) fn answer_within(
        &self,
        number: u32,
        wait: Duration,
    ) -> (Option<Result<Vec<u8>, ClientError>>, Option<Progress>) {
        let mut mail = self.lock();
        let mut answer = mail.answer(number);
        if answer.is_none() {
            let waited = self.changed.wait_timeout(mail, wait);
            (mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
            answer = mail.answer(number);
        }
        (answer, mail.progress.take())
    }

    /// Why the running backup cannot go on, if it cannot.
    pub(crate) fn failure(&self) -> Option<ClientError> {
        self.lock().failure()
    }

    /// The verdicts that have come; none if none comes within `wait`.
    pub(crate) fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, ClientError> {
        let mut mail = self.lock();
        if mail.verdicts.is_empty() && mail.failure().is_none() {
            let waited = self.changed.wait_timeout(mail, wait);
            (mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match mail.failure() {
            Some(why) if mail.verdicts.is_empty() => Err(why),
            _ => Ok(mail.verdicts.drain(..).collect()),
        }
    }

    /// The durable position. If it is `known`, waits up to `wait` for a later one.
    pub(crate) fn durable(&self, known: u64, wait: Duration) -> Result<u64, ClientError> {
        let mut mail = self.lock();
        if mail.durable <= known && mail.failure().is_none() && !wait.is_zero() {
            let waited = self.changed.wait_timeout(mail, wait);
            (mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match mail.failure() {
            Some(why) if mail.durable <= known && !wait.is_zero() => Err(why),
            _ => Ok(mail.durable),
        }
    }

    /// Forgets what belonged to a backup that has ended.
    pub(crate) fn clear(&self) {
        let mut mail = self.lock();
        mail.durable = 0;
        mail.verdicts.clear();
        mail.failed = None;
    }
}

impl Mail {
    fn answer(&mut self, number: u32) -> Option<Result<Vec<u8>, ClientError>> {
        let answer = self.answers.remove(&number);
        let answer = answer.map(|answer| answer.map_err(ClientError::Refused));
        answer.or_else(|| self.ended.clone().map(Err))
    }

    fn failure(&self) -> Option<ClientError> {
        let failed = self.failed.clone().map(ClientError::Refused);
        failed.or_else(|| self.ended.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_have_several_frames() {
        let inbox = Inbox::default();
        let frame = |kind, number, body: &[u8]| {
            let len = body.len();
            inbox.take(Head { kind, number, len }, body.to_vec()).unwrap();
        };
        frame(reply::PART, 1, b"a long ");
        frame(reply::PART, 2, b"another");
        frame(reply::PART, 1, b"answer ");
        frame(reply::ANSWER, 1, b"ends");
        frame(reply::ANSWER, 2, b"");
        assert_eq!(inbox.answer(1).unwrap(), b"a long answer ends");
        assert_eq!(inbox.answer(2).unwrap(), b"another");
    }
}

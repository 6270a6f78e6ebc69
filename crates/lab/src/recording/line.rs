//! A replayed connection: it sends the client's frames, and compares what comes back.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ingest::Verdict;
use simulate::SimulateError;
use transport::{Channel, Closer, FrameReader, FrameWriter, Traffic, TransportError};
use wire::{Begun, CommittedBackup, ReadBegun, Refusal, Wire, reply, request};

use super::file::Frame;
use super::inbox::{Inbox, Missing, Stop, is_decision};
use crate::error::LabError;

/// A connection to the server.
pub(super) struct Line<'a> {
    place: Place<'a>,
    writer: FrameWriter,
    inbox: Arc<Inbox>,
    closer: Closer,
    thread: Option<JoinHandle<()>>,
    /// The kind of each request without a compared answer.
    asked: BTreeMap<u32, u8>,
    /// Decisions that were compared.
    decisions: u64,
    /// Bytes of the backups that were committed or read, before deduplication.
    pub(super) bytes_logical: u64,
}

/// Where a connection belongs, and how long it waits.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The recording, for errors.
    pub(super) what: &'a str,
    /// The number of the connection in it.
    pub(super) connection: u32,
    pub(super) patience: Duration,
    pub(super) stop: Stop<'a>,
}

impl Place<'_> {
    pub(super) fn diverged(&self, why: impl Into<String>) -> LabError {
        LabError::Diverged {
            what: self.what.to_owned(),
            connection: self.connection,
            why: why.into(),
        }
    }

    /// A recorded message that cannot be read.
    pub(super) fn unreadable(&self, error: &format::FormatError) -> LabError {
        LabError::Diverged {
            what: self.what.to_owned(),
            connection: self.connection,
            why: format!("a recorded message cannot be read: {error}"),
        }
    }
}

impl<'a> Line<'a> {
    /// Connects to a server's socket. Its bytes are counted.
    pub(super) fn open(place: Place<'a>, to: &Path, traffic: &Traffic) -> Result<Self, LabError> {
        let unreachable = |source| TransportError::Unreachable {
            place: to.display().to_string(),
            source,
        };
        let socket = UnixStream::connect(to).map_err(unreachable)?;
        // A server that takes nothing must not stop the replay for ever.
        socket
            .set_write_timeout(Some(place.patience))
            .map_err(unreachable)?;
        let channel = Channel::from(socket);
        let inbox = Arc::new(Inbox::default());
        let filled = Arc::clone(&inbox);
        let mut reader = FrameReader::new(channel.input, traffic.clone());
        let thread = thread::Builder::new()
            .name("replayed".to_owned())
            .spawn(move || filled.fill(&mut reader))
            .map_err(|source| LabError::io("a thread", source))?;
        Ok(Self {
            place,
            writer: FrameWriter::new(channel.output, traffic.clone()),
            inbox,
            closer: channel.closer,
            thread: Some(thread),
            asked: BTreeMap::new(),
            decisions: 0,
            bytes_logical: 0,
        })
    }

    /// Sends a frame of the client.
    pub(super) fn send(&mut self, frame: &Frame) -> Result<(), LabError> {
        if let Some(why) = self.inbox.ended() {
            return Err(self.place.diverged(why));
        }
        if frame.number != 0 {
            self.asked.insert(frame.number, frame.kind);
        }
        let sent = self.writer.send(frame.kind, frame.number, &frame.body);
        // The server may have said why before it closed.
        sent.map_err(|error| match self.inbox.ended() {
            Some(why) => self.place.diverged(why),
            None => self
                .place
                .diverged(format!("the server takes no more messages: {error}")),
        })
    }

    /// Waits for what the server sent in the recording, and compares it.
    pub(super) fn expect(&mut self, frame: &Frame) -> Result<(), LabError> {
        match frame.kind {
            reply::VERDICTS => {
                let recorded = Vec::<Verdict>::from_bytes(&frame.body);
                let recorded = recorded.map_err(|error| self.place.unreadable(&error))?;
                let mut decisions = recorded.into_iter().filter(is_decision);
                decisions.try_for_each(|verdict| self.expect_decision(&verdict))
            }
            reply::ANSWER | reply::REFUSAL => self.expect_answer(frame),
            reply::FAILED => Err(self.place.diverged("the recorded backup failed; record it again")),
            _ => Ok(()),
        }
    }

    fn expect_decision(&mut self, recorded: &Verdict) -> Result<(), LabError> {
        let Place { patience, stop, .. } = self.place;
        let came = self.inbox.decision(patience, stop);
        let came = came.map_err(|missing| self.missing(missing, "a verdict"))?;
        self.decisions += 1;
        if came == *recorded {
            return Ok(());
        }
        Err(self.place.diverged(format!(
            "decision {} is {}; when recorded it was {}. Is the server's folder a copy from before the recording?",
            self.decisions,
            shown(&came),
            shown(recorded)
        )))
    }

    fn expect_answer(&mut self, frame: &Frame) -> Result<(), LabError> {
        let Place { patience, stop, .. } = self.place;
        let came = self.inbox.answer(frame.number, patience, stop);
        let came = came.map_err(|missing| self.missing(missing, "an answer"))?;
        let kind = self.asked.remove(&frame.number).unwrap_or_default();
        match (came, frame.kind == reply::ANSWER) {
            (Ok(body), true) => self.compare(kind, &frame.body, &body),
            (Err(_), false) => Ok(()),
            (Err(refusal), true) => Err(self.place.diverged(format!(
                "the server refuses a request of kind {kind}, which it answered when recorded: {refusal}"
            ))),
            (Ok(_), false) => {
                let recorded = Refusal::from_bytes(&frame.body).map(|refusal| refusal.to_string());
                Err(self.place.diverged(format!(
                    "the server answers a request of kind {kind}, which it refused when recorded: {}",
                    recorded.unwrap_or_default()
                )))
            }
        }
    }

    /// Compares the answers to the requests that begin and end a backup or its reading.
    fn compare(&mut self, kind: u8, recorded: &[u8], came: &[u8]) -> Result<(), LabError> {
        match kind {
            request::BEGIN => {
                // A copy of a stream may be the first one of its series. The client sends what it
                // sent.
                let terms = |bytes| {
                    let mut terms = Begun::from_bytes(bytes)?.terms;
                    terms.has_previous = false;
                    Ok::<_, format::FormatError>(terms.to_bytes())
                };
                match (terms(recorded), terms(came)) {
                    (Ok(recorded), Ok(came)) if recorded == came => Ok(()),
                    (Ok(_), Ok(_)) => Err(self.place.diverged(
                        "the server's store has other keys or settings, or goes on with an interrupted backup. Is its folder a copy from before the recording?",
                    )),
                    (Err(error), _) | (_, Err(error)) => Err(self.place.unreadable(&error)),
                }
            }
            request::COMMIT => {
                let made =
                    CommittedBackup::from_bytes(came).map_err(|error| self.place.unreadable(&error))?;
                self.bytes_logical += made.totals.bytes_logical;
                Ok(())
            }
            request::READ => {
                let begun = ReadBegun::from_bytes(came).map_err(|error| self.place.unreadable(&error))?;
                let bytes = begun.backups.iter().map(|one| one.backup.totals.bytes_logical);
                self.bytes_logical += bytes.sum::<u64>();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn missing(&self, missing: Missing, what: &str) -> LabError {
        match missing {
            Missing::Ended(why) => self.place.diverged(format!("{what} is missing: {why}")),
            Missing::Late => self.place.diverged(format!(
                "{what} did not come within {} seconds",
                self.place.patience.as_secs()
            )),
            Missing::Stopped => SimulateError::Interrupted.into(),
        }
    }

    /// Closes the connection, as the client did.
    pub(super) fn close(mut self) -> Result<u64, LabError> {
        self.end();
        match self.inbox.decisions_left() {
            0 => Ok(self.bytes_logical),
            left => Err(self.place.diverged(format!(
                "the server made {left} more decisions than it did when recorded"
            ))),
        }
    }

    fn end(&mut self) {
        self.closer.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A decision, for people.
fn shown(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Segment { stream, wanted } if wanted.is_empty() => {
            format!("to want no chunk of a segment of stream {}", stream.0)
        }
        Verdict::Segment { stream, wanted } => {
            let first = &wanted[0];
            format!(
                "to want {} chunks of a segment of stream {}, first chunk {} as number {}",
                wanted.len(),
                stream.0,
                first.child,
                first.new.ordinal
            )
        }
        Verdict::Unknown(stream) => format!("to ask for the chunks of a segment of stream {}", stream.0),
        other => format!("{other:?}"),
    }
}

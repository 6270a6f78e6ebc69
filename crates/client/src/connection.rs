//! A connection to a server, for any number of threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transport::{Channel, Closer, FrameReader, FrameWriter, Traffic, TransportError};
use wire::Wire;

use crate::error::ClientError;
use crate::inbox::Inbox;

/// A connection. Requests have numbers, so many may be open at once.
pub(crate) struct Connection {
    writer: Option<FrameWriter>,
    pub(crate) inbox: Arc<Inbox>,
    next: AtomicU32,
    closer: Closer,
    traffic: Traffic,
    thread: Option<JoinHandle<()>>,
}

impl Connection {
    /// Uses this channel. Its bytes are counted.
    pub(crate) fn new(channel: Channel, traffic: &Traffic) -> Result<Self, ClientError> {
        let inbox = Arc::new(Inbox::default());
        let filled = Arc::clone(&inbox);
        let ending = channel.closer.clone();
        let mut reader = FrameReader::new(channel.input, traffic.clone());
        let thread = thread::Builder::new()
            .name("inbox".to_owned())
            .spawn(move || {
                filled.fill(&mut reader);
                // A server that broke the protocol must not wait until this end takes more.
                ending.close();
            })
            .map_err(|error| ClientError::Connection(format!("no thread for the connection: {error}")))?;
        Ok(Self {
            writer: Some(FrameWriter::new(channel.output, traffic.clone())),
            inbox,
            next: AtomicU32::new(1),
            closer: channel.closer,
            traffic: traffic.clone(),
            thread: Some(thread),
        })
    }

    /// Sends a message that has no answer.
    pub(crate) fn tell(&self, kind: u8, body: &impl Wire) -> Result<(), ClientError> {
        self.send(|writer| writer.send_value(kind, 0, body))
    }

    /// Sends a message that has no answer, and whose body this function appends.
    pub(crate) fn tell_with(&self, kind: u8, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), ClientError> {
        self.send(|writer| writer.send_with(kind, 0, append))
    }

    fn send(&self, send: impl FnOnce(&FrameWriter) -> Result<(), TransportError>) -> Result<(), ClientError> {
        let closed = || ClientError::Connection("the connection is closed".to_owned());
        let sent = send(self.writer.as_ref().ok_or_else(closed)?);
        // The server may have said why before it closed.
        sent.map_err(|error| self.inbox.failure().unwrap_or_else(|| error.into()))
    }

    /// Sends a request. Its number is for [`Self::wait`].
    pub(crate) fn begin(&self, kind: u8, body: &impl Wire) -> Result<u32, ClientError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(|writer| writer.send_value(kind, number, body))?;
        Ok(number)
    }

    /// Like [`Self::begin`], with an encoded body.
    pub(crate) fn begin_with(&self, kind: u8, body: &[u8]) -> Result<u32, ClientError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(|writer| writer.send(kind, number, body))?;
        Ok(number)
    }

    /// Waits for the answer to a request.
    pub(crate) fn wait(&self, number: u32) -> Result<Vec<u8>, ClientError> {
        self.inbox.answer(number)
    }

    /// Like [`Self::wait`]. A server that takes longer counts as gone.
    pub(crate) fn wait_for(&self, number: u32, patience: Duration) -> Result<Vec<u8>, ClientError> {
        self.inbox.answer_in(number, patience).unwrap_or_else(|| {
            let seconds = patience.as_secs();
            Err(ClientError::Connection(format!(
                "the server has not answered for {seconds} s; see whether it runs"
            )))
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<T>(
        &self,
        kind: u8,
        body: &impl Wire,
        decode: impl FnOnce(&[u8]) -> Result<T, format::FormatError>,
    ) -> Result<T, ClientError> {
        let answer = self.begin(kind, body).and_then(|number| self.wait(number))?;
        decode(&answer).map_err(|error| ClientError::protocol(&error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Says goodbye, and then ends the thread that waits for messages.
        drop(self.writer.take());
        self.closer.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("traffic", &self.traffic)
            .finish_non_exhaustive()
    }
}

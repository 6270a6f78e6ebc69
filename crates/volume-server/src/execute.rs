//! Doing requests, and answering them.
//!
//! A [`Worker`] is the memory of one thread. It answers a read with its data in one send. It
//! divides longer reads and writes into pieces, so that its memory is bounded, and so that the
//! client receives the first piece while the second one is read. If the protocol wants a longer
//! read in one chunk, the thread holds the output until all pieces are sent.

mod several;

use std::io::IoSlice;
use std::time::Duration;

use env::AlignedBuffer;
use nbd::reply::transmission as reply;
use nbd::{Command, CommandFlags, Errno, Request};

use crate::connection::Connection;
use crate::error::{Broken, TARGET};
use crate::export::{ExportError, Runs, Zeroing};
use crate::holes::Holes;
use crate::input::Input;
use crate::output::{PIECE_BYTES, ReadChunks, Replies};
use crate::pace::Patience;
use crate::shared::lock;

/// Replies are sent when they have so many bytes, so that the client can begin.
const SENT_BYTES: usize = 128 << 10;
/// A quick read is sent in pieces of so many bytes, which fit into a processor's cache.
const QUICK_PIECE_BYTES: usize = 256 << 10;
/// A quick write of more bytes is done in pieces of at least so many, while it is received.
const WRITTEN_BYTES_MIN: usize = 64 << 10;
/// Runs in the status of a range. A longer answer would keep the thread from other requests.
const RUNS_MAX: usize = 8 << 10;

/// What a thread does after it served the input.
pub(crate) enum Next {
    /// This request, without the input. Its payload, or the reads that are done with it, are in the
    /// worker's memory.
    Slow(Request),
    /// Nothing: the connection is over.
    Over,
}

/// The memory of one thread of a connection.
pub(crate) struct Worker<'a> {
    connection: &'a Connection<'a>,
    replies: Replies,
    payload: AlignedBuffer,
    /// Reads that are done together with the next slow one.
    others: Vec<Request>,
    text: Vec<u8>,
    /// When the last request was done, or the next one began.
    now: Duration,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(connection: &'a Connection<'a>) -> Self {
        Self {
            connection,
            replies: Replies::new(),
            payload: AlignedBuffer::with_capacity(0),
            others: Vec::new(),
            text: Vec::new(),
            now: Duration::ZERO,
        }
    }

    /// Does requests until one is slow or none follows.
    pub(crate) fn serve(&mut self, input: &mut Input, patience: &mut Patience) -> Result<Next, Broken> {
        self.now = self.connection.now();
        loop {
            if !input.has_request() {
                self.send()?;
                if !self.wait(input, patience)? {
                    return Ok(Next::Over);
                }
            }
            let request = input.take_request()?;
            if request.command == Command::Disconnect {
                self.send()?;
                return Ok(Next::Over);
            }
            let len = request.payload_bytes();
            if len > self.connection.rules.payload_max {
                return Err(Broken::LongWrite { bytes: len });
            }
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let checked = if self.connection.shared.is_stopping() {
                Err(Errno::ShuttingDown)
            } else {
                self.connection.rules.check(&request)
            };
            if let Err(errno) = checked {
                input.skip(len)?;
                self.now = self.connection.now();
                self.connection.counters.refused();
                self.fail(&request, errno, "the request was refused", None)?;
                continue;
            }
            if request.len > 0 && self.connection.pace.is_slow(&request) && len <= PIECE_BYTES {
                self.send()?;
                if len > 0 {
                    self.payload.grow_to(len);
                    input.take_into(&mut self.payload)?;
                }
                self.gather(&request, input)?;
                return Ok(Next::Slow(request));
            }
            if request.command == Command::Write {
                self.write(&request, input)?;
            } else {
                self.other(&request, QUICK_PIECE_BYTES)?;
            }
            if self.replies.bytes() >= SENT_BYTES {
                self.send()?;
                // A client that receives slowly does not make the device slow.
                self.now = self.connection.now();
            }
        }
    }

    /// Waits for a request. Returns false if none follows.
    fn wait(&mut self, input: &mut Input, patience: &mut Patience) -> Result<bool, Broken> {
        let began = self.connection.now();
        let mut filled = input.fill(false)?;
        if filled.is_none() {
            let shared = self.connection.shared;
            let limits = (began, patience.time());
            let found = shared
                .spinners
                .spin(limits, &*shared.clock, || input.fill(false).transpose());
            filled = found.transpose()?;
        }
        let filled = match filled {
            Some(filled) => filled,
            None => input.fill(true)?.unwrap_or(false),
        };
        self.now = self.connection.now();
        patience.learn(self.now - began);
        Ok(filled)
    }

    /// Does a request whose payload was received, while another thread receives.
    pub(crate) fn slow(&mut self, request: &Request) -> Result<(), Broken> {
        // What it took to receive the payload and to give the input away is not the device's doing.
        // If it counted, quick requests that once were slow would stay slow.
        self.now = self.connection.now();
        if request.command == Command::Write {
            let is_durable = request.flags.has(CommandFlags::FUA);
            let payload = std::mem::replace(&mut self.payload, AlignedBuffer::with_capacity(0));
            let done = self.connection.export.write(request.offset, &payload, is_durable);
            self.payload = payload;
            self.payload.clear();
            self.answer(request, done)?;
        } else if !self.others.is_empty() {
            self.read_several(request)?;
        } else {
            self.other(request, PIECE_BYTES)?;
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Broken> {
        if !self.replies.is_empty() {
            self.replies.send(&lock(&self.connection.output))?;
        }
        Ok(())
    }

    /// Learns and counts how long the export needed.
    fn measure(&mut self, request: &Request, is_ok: bool) {
        let now = self.connection.now();
        let time = now.saturating_sub(self.now);
        self.now = now;
        self.connection.pace.learn(request, time);
        self.connection
            .counters
            .count(request.command, request.len, time, is_ok);
    }

    /// Writes a payload, in pieces if it is long, while it is received.
    fn write(&mut self, request: &Request, input: &mut Input) -> Result<(), Broken> {
        let len = usize::try_from(request.len).unwrap_or(usize::MAX);
        let is_durable = request.flags.has(CommandFlags::FUA);
        let export = &*self.connection.export;
        if len == 0 {
            return self.answer(request, Ok(()));
        }
        if let Some(payload) = input.take_in_place(len) {
            let done = export.write(request.offset, payload, is_durable);
            return self.answer(request, done);
        }
        let (mut offset, mut left, mut done) = (request.offset, len, Ok(()));
        let mut time = Duration::ZERO;
        let mut is_one = false;
        while left > 0 {
            let piece = input.take_piece(left, WRITTEN_BYTES_MIN)?;
            is_one = piece.len() == len;
            if done.is_ok() {
                let began = self.connection.now();
                done = export.write(offset, piece, is_durable && is_one);
                time += self.connection.now() - began;
            }
            offset += piece.len() as u64;
            left -= piece.len();
        }
        if is_durable && !is_one && done.is_ok() {
            let began = self.connection.now();
            done = export.flush();
            time += self.connection.now() - began;
        }
        // Without the time in which the client was sending.
        self.now = self.connection.now() - time;
        self.answer(request, done)
    }

    /// Does a request without a payload.
    fn other(&mut self, request: &Request, piece: usize) -> Result<(), Broken> {
        let export = &*self.connection.export;
        let (offset, len) = (request.offset, u64::from(request.len));
        let is_durable = request.flags.has(CommandFlags::FUA);
        let done = match request.command {
            Command::Read => return self.read(request, piece),
            Command::BlockStatus => return self.status(request),
            Command::Flush => export.flush(),
            _ if len == 0 => Ok(()),
            Command::Trim => export.trim(offset, len, is_durable),
            Command::Cache => export.cache(offset, len),
            Command::WriteZeroes => {
                let how = Zeroing {
                    may_trim: !request.flags.has(CommandFlags::NO_HOLE),
                    is_fast: request.flags.has(CommandFlags::FAST_ZERO),
                };
                export.write_zeroes(offset, len, how, is_durable)
            }
            Command::Write | Command::Disconnect | Command::Unknown(_) => {
                unreachable!("these requests are handled before")
            }
        };
        self.answer(request, done)
    }

    fn read(&mut self, request: &Request, piece: usize) -> Result<(), Broken> {
        let len = usize::try_from(request.len).unwrap_or(usize::MAX);
        let is_structured = self.connection.transmission.is_structured;
        if len == 0 {
            return self.answer(request, Ok(()));
        }
        if len > piece {
            return if is_structured && !request.flags.has(CommandFlags::DF) {
                self.read_in_chunks(request, piece)
            } else {
                self.read_in_one(request, piece)
            };
        }
        if self.replies.room(len).is_none() {
            self.send()?;
        }
        let room = self.replies.room(len).expect("nothing waits, so a piece fits");
        let mut holes = Holes::default();
        let done = self.connection.export.read(request.offset, room, &mut holes);
        self.measure(request, done.is_ok());
        match done {
            Ok(()) => self.add_read(request, len, holes),
            Err(error) => self.failed(request, &error, None),
        }
    }

    /// Adds a read whose data was put into its room: all of its reply.
    fn add_read(&mut self, request: &Request, len: usize, holes: Holes) -> Result<(), Broken> {
        if !self.connection.transmission.is_structured {
            self.replies.add_read(&reply::simple(request.cookie, Ok(())), len);
            return Ok(());
        }
        let read = ReadChunks {
            cookie: request.cookie,
            is_last: true,
            offset: request.offset,
            len,
        };
        self.add_chunks(request, &read, holes)
    }

    /// Sends a chunk for each piece.
    fn read_in_chunks(&mut self, request: &Request, piece: usize) -> Result<(), Broken> {
        let (mut offset, end) = (request.offset, request.offset + u64::from(request.len));
        while offset < end {
            self.send()?;
            let now = usize::try_from(end - offset).unwrap_or(usize::MAX).min(piece);
            let room = self.replies.room(now).expect("nothing waits, so a piece fits");
            let mut holes = Holes::default();
            if let Err(error) = self.connection.export.read(offset, room, &mut holes) {
                self.measure(request, false);
                return self.failed(request, &error, Some(offset));
            }
            let read = ReadChunks {
                cookie: request.cookie,
                is_last: offset + now as u64 == end,
                offset,
                len: now,
            };
            self.add_chunks(request, &read, holes)?;
            offset += now as u64;
        }
        self.measure(request, true);
        self.send()
    }

    /// Adds what was read: as data, and as holes if the client allows several chunks.
    fn add_chunks(&mut self, request: &Request, read: &ReadChunks, mut holes: Holes) -> Result<(), Broken> {
        if request.flags.has(CommandFlags::DF) {
            holes = Holes::default();
        }
        if holes.are_all(read.len) {
            let len = u32::try_from(read.len).expect("a piece is shorter than 4 GiB");
            return self.add(&reply::offset_hole(read.cookie, read.is_last, read.offset, len));
        }
        self.replies.add_chunks(read, &mut holes);
        Ok(())
    }

    /// Sends one head and then the pieces.
    fn read_in_one(&mut self, request: &Request, piece: usize) -> Result<(), Broken> {
        let connection = self.connection;
        let is_structured = connection.transmission.is_structured;
        let (mut offset, end) = (request.offset, request.offset + u64::from(request.len));
        self.send()?;
        let room = self.replies.room(piece).expect("nothing waits, so a piece fits");
        // Holes are of no use: the client wants one chunk, or knows no holes.
        let read = |offset, room: &mut [u8]| connection.export.read(offset, room, &mut Holes::default());
        if let Err(error) = read(offset, room) {
            self.measure(request, false);
            return self.failed(request, &error, None);
        }
        if is_structured {
            let head = reply::offset_data(request.cookie, false, offset, request.len);
            self.replies.add_read(&head, piece);
        } else {
            self.replies
                .add_read(&reply::simple(request.cookie, Ok(())), piece);
        }
        let output = lock(&connection.output);
        let mut failed = None;
        loop {
            self.replies.send(&output)?;
            offset += piece as u64;
            if offset >= end {
                break;
            }
            let now = usize::try_from(end - offset).unwrap_or(usize::MAX).min(piece);
            let room = self.replies.room(now).expect("nothing waits, so a piece fits");
            if failed.is_none() {
                failed = read(offset, room).err();
            }
            if let Some(error) = &failed {
                log(request, error);
                if !is_structured {
                    return Err(Broken::HalfRead);
                }
                room.fill(0);
            }
            self.replies.add_read(&[], now);
        }
        self.text.clear();
        match &failed {
            None if is_structured => self.text.extend_from_slice(&reply::none(request.cookie)),
            None => {}
            Some(error) => reply::error(&mut self.text, request.cookie, error.errno(), &error.to_string()),
        }
        output.send(&mut [IoSlice::new(&self.text)])?;
        drop(output);
        self.measure(request, failed.is_none());
        Ok(())
    }

    fn status(&mut self, request: &Request) -> Result<(), Broken> {
        let is_one = request.flags.has(CommandFlags::REQ_ONE);
        let connection = self.connection;
        self.text.clear();
        let count = connection.transmission.contexts.len();
        for (context, number) in connection.transmission.contexts.iter().zip(1..) {
            let mut runs = Runs::new(if is_one { 1 } else { RUNS_MAX }, request.len.into());
            let (offset, len) = (request.offset, request.len.into());
            let done = connection.export.status(&context.name, offset, len, &mut runs);
            let done = done.and_then(|()| {
                let detail = "the export told no status".to_owned();
                if runs.as_slice().is_empty() {
                    Err(ExportError::Failed { detail })
                } else {
                    Ok(())
                }
            });
            if let Err(error) = done {
                self.measure(request, false);
                return self.failed(request, &error, None);
            }
            let is_last = number == count;
            reply::block_status(
                &mut self.text,
                request.cookie,
                is_last,
                context.id,
                runs.as_slice(),
            );
        }
        self.measure(request, true);
        if !self.replies.add(&self.text) {
            self.send()?;
            let output = lock(&connection.output);
            output.send(&mut [IoSlice::new(&self.text)])?;
        }
        Ok(())
    }

    /// Answers a request without data.
    fn answer(&mut self, request: &Request, done: Result<(), ExportError>) -> Result<(), Broken> {
        self.measure(request, done.is_ok());
        match done {
            Ok(()) if self.connection.transmission.is_structured && request.command == Command::Read => {
                self.add(&reply::none(request.cookie))
            }
            Ok(()) => self.add(&reply::simple(request.cookie, Ok(()))),
            Err(error) => self.failed(request, &error, None),
        }
    }

    fn failed(&mut self, request: &Request, error: &ExportError, offset: Option<u64>) -> Result<(), Broken> {
        log(request, error);
        // The detail names the server's devices, which are not the client's business.
        self.fail(
            request,
            error.errno(),
            "the request failed; the server's log says why",
            offset,
        )
    }

    fn fail(
        &mut self,
        request: &Request,
        errno: Errno,
        text: &str,
        offset: Option<u64>,
    ) -> Result<(), Broken> {
        if !self.connection.transmission.is_structured {
            return self.add(&reply::simple(request.cookie, Err(errno)));
        }
        let mut bytes = std::mem::take(&mut self.text);
        bytes.clear();
        match offset {
            None => reply::error(&mut bytes, request.cookie, errno, text),
            Some(offset) => reply::error_offset(&mut bytes, request.cookie, errno, text, offset),
        }
        let added = self.add(&bytes);
        self.text = bytes;
        added
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if !self.replies.add(bytes) {
            self.send()?;
            assert!(self.replies.add(bytes), "a small reply fits where nothing waits");
        }
        Ok(())
    }
}

fn log(request: &Request, error: &ExportError) {
    let Request {
        command, offset, len, ..
    } = request;
    match error {
        ExportError::NotSupported | ExportError::ShuttingDown => {
            tracing::debug!(target: TARGET, ?command, offset, len, %error, "a request failed");
        }
        _ => tracing::warn!(target: TARGET, ?command, offset, len, %error, "a request failed"),
    }
}

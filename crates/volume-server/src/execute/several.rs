//! Reads that arrived together, done together.
//!
//! A device that does several reads at once needs one thread for them, which sleeps and is woken
//! once, and sends their replies at once. Each has its place in the thread's memory of replies, so
//! nothing is copied. A read that fails is answered with its error behind the others.

use nbd::{Command, Request};

use super::{QUICK_PIECE_BYTES, Worker};
use crate::error::Broken;
use crate::export::ExportRead;
use crate::holes::Holes;
use crate::input::Input;
use crate::output::Replies;

/// So many reads are done together. More would leave the device nothing to do while they are
/// answered.
const TOGETHER_MAX: usize = 8;
/// Reads that are done together have at most so many bytes, so that the client begins early.
const TOGETHER_BYTES: usize = QUICK_PIECE_BYTES;

fn len_of(request: &Request) -> usize {
    usize::try_from(request.len).unwrap_or(usize::MAX)
}

impl Worker<'_> {
    /// Takes reads that have arrived behind this one, if they can be done together. Nothing waits
    /// to be sent.
    pub(super) fn gather(&mut self, first: &Request, input: &mut Input) -> Result<(), Broken> {
        let connection = self.connection;
        let reads_max = connection.export.reads_at_once().min(TOGETHER_MAX);
        if first.command != Command::Read || reads_max == 1 {
            return Ok(());
        }
        let mut end = Replies::span(0, len_of(first)).end;
        while self.others.len() + 1 < reads_max
            && let Some(next) = input.next_request()
        {
            end = Replies::span(end, len_of(&next)).end;
            let is_read = next.command == Command::Read && next.len > 0;
            if !is_read || end > TOGETHER_BYTES || connection.rules.check(&next).is_err() {
                break;
            }
            self.others.push(input.take_request()?);
        }
        Ok(())
    }

    /// Does this read and the gathered ones.
    pub(super) fn read_several(&mut self, first: &Request) -> Result<(), Broken> {
        let requests: Vec<Request> = [*first].into_iter().chain(self.others.drain(..)).collect();
        let rooms = self.replies.rooms(requests.iter().map(len_of));
        let of_room = |(into, request): (_, &Request)| ExportRead {
            offset: request.offset,
            into,
            holes: Holes::default(),
            done: Ok(()),
        };
        let mut reads: Vec<_> = rooms.into_iter().zip(&requests).map(of_room).collect();
        self.connection.export.read_many(&mut reads);
        let ends: Vec<_> = reads.into_iter().map(|read| (read.holes, read.done)).collect();
        self.measure_several(requests.iter().zip(ends.iter().map(|(_, done)| done.is_ok())));
        let (mut start, mut failed) = (0, Vec::new());
        for (request, (holes, done)) in requests.iter().zip(ends) {
            let len = len_of(request);
            match done {
                Ok(()) => {
                    if !self.replies.has_parts() {
                        self.send()?;
                    }
                    self.replies.go_on_at(start);
                    self.add_read(request, len, holes)?;
                }
                Err(error) => failed.push((request, error)),
            }
            start = Replies::span(start, len).end;
        }
        self.replies.go_on_at(start);
        for (request, error) in failed {
            self.failed(request, &error, None)?;
        }
        Ok(())
    }

    /// Learns and counts: each took as long as all together.
    fn measure_several<'r>(&mut self, requests: impl Iterator<Item = (&'r Request, bool)>) {
        let connection = self.connection;
        let now = connection.now();
        let time = now.saturating_sub(self.now);
        self.now = now;
        for (request, is_ok) in requests {
            connection.pace.learn(request, time);
            connection
                .counters
                .count(request.command, request.len, time, is_ok);
        }
    }
}

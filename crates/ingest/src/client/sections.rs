//! Large files, read ahead of the chunker by threads of their own, several sections at a time.
//!
//! Each section is read into a buffer that is passed to the chunker without a copy. If a section
//! cannot be read in full, the caller reads the rest itself from the file's position. Memory: one
//! buffer more than threads.

use std::collections::VecDeque;

use tree::{FileReader, Section};

use crate::buffer::Buffer;
use crate::client::source_input::{Ops, SourceInput};
use crate::dedup::StreamIndex;
use crate::error::Halt;
use crate::workers::Ticket;

/// How many threads read sections, of the readers of the backup. A disk needs some requests at a
/// time to be busy.
pub(crate) const fn threads(readers: usize) -> usize {
    if readers > 1 { readers - 1 } else { 1 }
}

/// Where a section's bytes will be.
enum Coming {
    /// The buffer; without one, the section could not be read in full.
    Data(Ticket<(Section, Option<Buffer>)>),
    Hole(Section),
}

/// Feeds a file as far as it can be read in sections; usually the whole file. It reads nothing of a
/// file that is not large.
pub(crate) fn feed(
    input: &mut SourceInput<'_>,
    stream: StreamIndex,
    reader: &mut FileReader,
) -> Result<(), Halt> {
    let Some(mut sections) = reader.sections() else {
        return Ok(());
    };
    let threads = threads(input.around().readers);
    // One section waits to be taken up in order.
    let in_flight_max = threads + 1;
    let (counters, readers) = (input.counters(), input.readers(threads)?);
    let mut coming = VecDeque::new();
    loop {
        while coming.len() < in_flight_max {
            let mut buffer = input.pool().take();
            let room = buffer.spare_mut().len();
            match sections.next(room) {
                Some(Section::Data(data)) => {
                    let ticket = readers.submit(move || {
                        let whole = data.read(buffer.spare_mut());
                        buffer.advance(if whole { data.len() } else { 0 });
                        (Section::Data(data), whole.then_some(buffer))
                    })?;
                    coming.push_back(Coming::Data(ticket));
                }
                Some(hole) => coming.push_back(Coming::Hole(hole)),
                None => break,
            }
        }
        let section = match coming.pop_front() {
            None => return Ok(()),
            Some(Coming::Hole(section)) => section,
            Some(Coming::Data(ticket)) => {
                let (section, buffer) = ticket.wait()?;
                // The other sections in flight are useless, because the caller reads the file from
                // here.
                let Some(buffer) = buffer else { return Ok(()) };
                let mut ops = Ops::default();
                ops.bytes(buffer.filled().len());
                input.whole(stream, buffer, ops)?;
                section
            }
        };
        match &section {
            Section::Hole(len) => {
                input.zeros(stream, *len)?;
                counters.bytes_logical.add(*len);
            }
            Section::Data(data) => counters.bytes_logical.add(data.len() as u64),
        }
        reader.passed(&section);
    }
}

//! Large files, read ahead of the chunker by threads of their own, several sections at a time.
//!
//! Each section is read into a buffer that is passed to the chunker without a copy. If a section
//! cannot be read in full, the caller reads the rest itself from the file's position. Memory:
//! [`IN_FLIGHT_MAX`] buffers.

use std::collections::VecDeque;

use tree::{FileReader, Section};

use crate::buffer::Buffer;
use crate::client::source_input::{Ops, SourceInput};
use crate::dedup::StreamIndex;
use crate::error::Halt;
use crate::workers::Ticket;

/// Threads that read; a disk needs some requests at a time to be busy.
pub(crate) const READERS: usize = 3;
/// Sections that are being read, or wait to be taken up in order.
const IN_FLIGHT_MAX: usize = 4;

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
    let (counters, readers) = (input.counters(), input.readers(READERS)?);
    let mut coming = VecDeque::new();
    loop {
        while coming.len() < IN_FLIGHT_MAX {
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

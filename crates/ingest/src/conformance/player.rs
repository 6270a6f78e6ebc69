//! Building blocks of cases: bytes, sources of pieces, and a client that sends a stream and
//! commits.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use env::{Clock, SystemClock};
use recipe::TreeRoot;
use types::{ByteRange, SessionId};

use super::{Begun, Host, Made};
use crate::backup::{backup_stream, single_stream};
use crate::backup_session::Committed;
use crate::client::pools::ClientPools;
use crate::client::run::Client;
use crate::client::stream_source::{StreamPiece, StreamSource, StreamSpec};
use crate::counters::Counters;
use crate::error::IngestError;

/// Bytes that no two seeds share.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state.to_le_bytes())
    };
    std::iter::from_fn(word).flatten().take(len).collect()
}

/// A step of a source.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Bytes(Vec<u8>),
    Zeros(u64),
    Copy { parent: usize, range: ByteRange },
}

/// Steps as a source, in pieces that no chunk's length divides.
pub(super) struct Steps(VecDeque<Step>);

impl Steps {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl StreamSource for Steps {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        Ok(match self.0.front_mut() {
            None => StreamPiece::End,
            Some(Step::Bytes(bytes)) if bytes.is_empty() => {
                self.0.pop_front();
                return self.next(buffer);
            }
            Some(Step::Bytes(bytes)) => {
                let len = bytes.len().min(buffer.len()).min(7919);
                buffer[..len].copy_from_slice(&bytes[..len]);
                bytes.drain(..len);
                StreamPiece::Data(len)
            }
            Some(Step::Zeros(len)) => {
                let len = *len;
                self.0.pop_front();
                StreamPiece::Zeros(len)
            }
            Some(Step::Copy { parent, range }) => {
                let (parent, range) = (*parent, *range);
                self.0.pop_front();
                StreamPiece::Copy { parent, range }
            }
        })
    }
}

/// Sends one stream of these steps through a session, and does not commit it.
pub(super) fn send(host: &dyn Host, begun: &dyn Begun, steps: Vec<Step>) -> Result<Counters, IngestError> {
    let counters = Counters::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let parents: Vec<TreeRoot> = begun.parents().iter().map(|streams| streams[0]).collect();
    let client = Client {
        session: begun.session(),
        pools: &ClientPools::new(&clock),
        options: &host.options(),
        counters: &counters,
        cancel: &AtomicBool::new(false),
        clock: &clock,
    };
    let spec = StreamSpec {
        name: "the suite's stream",
        fixed_chunk_bytes: None,
        parents: &parents,
    };
    backup_stream(client, spec, &mut Steps::new(steps))?;
    Ok(counters)
}

/// Makes a backup of one stream of these steps, which must read as `expected`.
pub(super) fn back_up(
    host: &dyn Host,
    steps: Vec<Step>,
    upon: &[SessionId],
    expected: &[u8],
) -> Result<(SessionId, Made), IngestError> {
    let begun = host.begin(single_stream(None), upon)?;
    let counters = send(host, &*begun, steps)?;
    let committed = begun.session().commit(host.about(counters.of_client()))?;
    drop(begun);
    Ok((committed.session, checked(host, &committed, &[expected])))
}

/// The committed backup, after a check that it is visible and has these bytes.
pub(super) fn checked(host: &dyn Host, committed: &Committed, expected: &[&[u8]]) -> Made {
    let id = committed.session;
    assert_eq!(
        host.backups().last(),
        Some(&id),
        "the newest visible backup is the one made"
    );
    assert_eq!(committed.streams.len(), expected.len());
    for (number, bytes) in expected.iter().enumerate() {
        let read = host.read(id, number);
        assert!(
            read == *bytes,
            "stream {number} of {id} has other bytes than were sent"
        );
    }
    Made::of(committed)
}

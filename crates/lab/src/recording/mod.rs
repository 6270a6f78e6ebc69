//! Recordings of what clients and a server say to each other, and their replay (B12).
//!
//! A relay ([`record`]) stands between clients and a server, and writes every frame of both
//! directions to a file. A replay ([`replay()`]) plays the client's side again: it sends the same
//! frames to another server. It neither chunks nor compresses, so two cores can load a server with
//! many streams.
//!
//! A replay sends a frame once everything has come that the server had sent before it when it was
//! recorded. It counts verdicts and answers, not frames: a server may batch verdicts differently.
//!
//! Fingerprints depend on the store's keys, and verdicts on what the store has. So the other server
//! needs a copy of the server's folder, taken before the recording. A server that decides
//! otherwise than recorded ends the replay with [`LabError::Diverged`]. So does a server that does
//! not answer in time.
//!
//! A recording is a stream of records, each with a tag of one byte. Numbers are little-endian.
//!
//! | record | fields |
//! |---|---|
//! | beginning | `onerec01` |
//! | `O` | 4: number of a connection, which a client opened |
//! | `C` | 4: connection; a frame that the client sent, as it was on the wire |
//! | `S` | 4: connection; a frame that the server sent |
//! | `X` | 4: connection, which the client closed |
//! | `Z` | 8: number of frames; nothing follows |

mod file;
mod inbox;
mod line;
mod player;
mod relay;
mod rewrite;
#[cfg(test)]
mod tests;

pub use file::{Event, Frame, Record, RecordingReader, RecordingWriter, Side};
pub use player::{Replay, Replayed, replay};
pub use relay::{Recorded, record};

#[cfg(doc)]
use crate::LabError;

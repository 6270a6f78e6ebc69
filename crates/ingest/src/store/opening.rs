//! The chunks of a segment that a client has offered without them, as the store has them.
//!
//! The store needs them if it knows the segment, and decides on it with the rest of its window. The
//! segment's node and the catalogs of its containers have their fingerprints and lengths. So the
//! store need not ask the client. The bytes still come from the client, if a chunk must be stored
//! again: it has them in memory, whatever becomes of the stored ones.
//!
//! What must hold: a client may name only a segment that the store would refer to, by fingerprint
//! and length (INV-9), and the chunks are those of this fingerprint (INV-5). The look-ups have a
//! cache of their own. Otherwise the decisions would depend on which segments were offered briefly.
//! One thread.

use index::{HookKind, Index, Resolver, ResolverOptions};
use recipe::{Child, SEGMENT_LEVEL, TreeRoot, open_node};
use types::{ChunkLocation, Fingerprint};

use crate::dedup::{Holdings, LookupMemory};
use crate::error::IngestError;
use crate::store::session::StoreSession;

/// Finds segments, and reads their chunks' fingerprints.
pub(crate) struct Opening {
    segments: Resolver<Index>,
}

impl Opening {
    pub(crate) fn new(session: &StoreSession, memory: &LookupMemory) -> Self {
        let options = ResolverOptions {
            cache_bytes: memory.node_bytes,
            eviction: memory.eviction,
        };
        Self {
            segments: session.resolver(HookKind::Node, options),
        }
    }

    /// The chunks of the segment with this fingerprint and length, whose node is at this place, if
    /// that is known. `None`: the store does not have the segment, or cannot read its node, for
    /// whatever reason. Then the client is asked for the chunks, so the backup goes on.
    ///
    /// # Errors
    /// If the storage does not answer the look-up.
    pub(crate) fn chunks(
        &mut self,
        session: &StoreSession,
        (fingerprint, len): (Fingerprint, u64),
        at: Option<ChunkLocation>,
    ) -> Result<Option<Vec<Child>>, IngestError> {
        let holdings = session.look_up();
        let at = match at {
            Some(at) => Some(at),
            None => {
                let found = holdings.find_segment(&mut self.segments, &fingerprint)?;
                found.map(|(known, _)| known.location)
            }
        };
        let Some(location) = at else {
            return Ok(None);
        };
        let root = TreeRoot {
            location,
            level: SEGMENT_LEVEL,
            fingerprint,
            len,
        };
        Ok(open_node(&session.nodes, &root).ok())
    }
}

//! One function for all decoders of messages, for fuzzing and for the tests that feed it
//! pseudo-random bytes.

use env::ObjectMeta;
use ingest::{About, Terms, Verdict};
use recipe::{StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, SessionId};

use crate::{
    AskedRegions, Begin, Begun, CommittedBackup, FRAME_BYTES_MAX, HEAD_BYTES, Head, Hello, Joined, Joining,
    KnownStream, LoggedIn, Login, Manifests, Progress, PutPart, ReadBegun, Refusal, Sent, SentCatalog,
    SentChildren, Sought, StorageRequest, Welcome, Wire,
};

/// Reads the bytes behind the first as the message that the first one names, and as a frame's head.
/// It panics only if a decoder is wrong: if it panics, or reads a message that differs from its own
/// encoding.
///
/// # Panics
/// See above.
pub fn message(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    if let Some(head) = body.first_chunk::<HEAD_BYTES>() {
        let head = Head::decode(*head, FRAME_BYTES_MAX);
        assert!(head.is_ok_and(|head| head.len <= FRAME_BYTES_MAX) || head.is_err());
    }
    let read: [fn(&[u8]); 27] = [
        again::<Hello>,
        again::<Welcome>,
        again::<Joining>,
        again::<Joined>,
        again::<Login>,
        again::<Manifests>,
        again::<ReadBegun>,
        again::<Begin>,
        again::<Begun>,
        again::<Terms>,
        again::<About>,
        again::<Vec<CommittedBackup>>,
        again::<Sought>,
        again::<Vec<Sent>>,
        again::<Vec<Verdict>>,
        again::<AskedRegions>,
        again::<Vec<SentChildren>>,
        again::<Vec<KnownStream>>,
        again::<Refusal>,
        again::<Progress>,
        again::<(TreeRoot, ByteRange)>,
        again::<((ChunkLocation, StreamName), Vec<SessionId>)>,
        again::<LoggedIn>,
        again::<PutPart<'_>>,
        again::<StorageRequest>,
        again::<Vec<ObjectMeta>>,
        again::<(bool, Vec<String>)>,
    ];
    match read.get(usize::from(*kind) % (read.len() + 1)) {
        Some(read) => read(body),
        None => {
            if let Ok(sent) = SentCatalog::from_bytes(body) {
                drop(sent.view());
            }
        }
    }
}

/// A message that can be read is written in a form that is read as the same.
fn again<T: Wire>(bytes: &[u8]) {
    if let Ok(message) = T::from_bytes(bytes) {
        let written = message.to_bytes();
        let again = T::from_bytes(&written).map(|message| message.to_bytes());
        assert!(again.is_ok_and(|again| again == written), "a message changes");
    }
}

//! The store's end: a session of a store here, driven by messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use container::{CompressedRegion, RegionBuffer};
use ingest::{About, BackupSession, IngestError, Offer, Verdict};
use onefold::HostedBackup;
use recipe::{RecipeError, StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, ContainerId};
use wire::{AskedRegions, CommittedBackup, Sent, SentCatalog, Wire};

use super::pipe::{Broken, Input, Output};

/// Requests of a client. An answer has the number of its request.
pub(crate) const SUBMIT: u8 = 0;
pub(crate) const COMMIT: u8 = 1;
pub(crate) const UNSOUND: u8 = 2;
pub(crate) const NODE: u8 = 3;
pub(crate) const CATALOG: u8 = 4;
pub(crate) const STREAM: u8 = 5;
pub(crate) const CHUNK: u8 = 7;
pub(crate) const REGIONS: u8 = 8;
pub(crate) const NEWER: u8 = 9;

/// Messages of a store.
pub(crate) const VERDICTS: u8 = 0;
pub(crate) const FAILED: u8 = 1;
pub(crate) const ANSWER: u8 = 2;
pub(crate) const REFUSAL: u8 = 3;

/// Serves one session until its client is gone.
pub(crate) fn serve(hosted: HostedBackup, input: &Input, output: &Output) {
    let session = hosted.session();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send_verdicts(session, output, &is_over));
        while let Ok(message) = input.recv() {
            if answer(session, &message, output).is_err() {
                break;
            }
        }
        is_over.store(true, Ordering::Release);
    });
}

fn send_verdicts(session: &dyn BackupSession, output: &Output, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        match session.verdicts(Duration::from_millis(10)) {
            Ok(verdicts) if verdicts.is_empty() => {}
            Ok(verdicts) => {
                let is_done = verdicts.contains(&Verdict::Done);
                let message = [vec![VERDICTS], verdicts.to_bytes()].concat();
                // If the pipe is cut, still take verdicts: the store waits for that, and the thread
                // that sends offers waits for the store.
                drop(output.send(message));
                if is_done {
                    return;
                }
            }
            Err(error) => return failed(output, &error),
        }
    }
}

fn failed(output: &Output, error: &IngestError) {
    let message = [vec![FAILED], error.to_string().to_bytes()].concat();
    // If the client is gone, it needs no answer.
    drop(output.send(message));
}

fn answer(session: &dyn BackupSession, message: &[u8], output: &Output) -> Result<(), Broken> {
    let (kind, body) = (message[0], &message[9..]);
    if kind == SUBMIT {
        if let Err(error) = submit(session, body) {
            failed(output, &error);
        }
        return Ok(());
    }
    let (said, bytes) = match reply(session, kind, body) {
        Ok(bytes) => (ANSWER, bytes),
        Err(refused) => (
            REFUSAL,
            [&[u8::from(refused.is_gone)], &refused.why.to_bytes()[..]].concat(),
        ),
    };
    output.send([&[said], &message[1..9], &bytes].concat())
}

fn submit(session: &dyn BackupSession, body: &[u8]) -> Result<(), IngestError> {
    let refused = |why: &str| IngestError::Connection(why.to_owned().into());
    let sent = Vec::<Sent>::from_bytes(body).map_err(|error| refused(&error.to_string()))?;
    let printer = &session.terms().fingerprinter;
    let mut offers = Vec::with_capacity(sent.len());
    for each in sent {
        offers.push(match each {
            Sent::Offer(offer) => offer,
            Sent::Copies(run) => {
                let copies = run.offers(session.reader());
                let copies = copies.map_err(|error| refused(&error.to_string()))?;
                offers.extend(copies.ok_or_else(|| refused("copies of segments that nobody has"))?);
                continue;
            }
            Sent::Region(region) if region.is_genuine(printer) => Offer::Region(region.into()),
            Sent::Region(_) => return Err(refused("a chunk has another fingerprint than its bytes")),
        });
    }
    session.submit(offers)
}

/// Why a request has no answer.
struct Refused {
    /// The data cannot be read, but other data may be.
    is_gone: bool,
    why: String,
}

impl<E: std::error::Error> From<E> for Refused {
    fn from(error: E) -> Self {
        Self {
            is_gone: false,
            why: error.to_string(),
        }
    }
}

fn unread(error: RecipeError) -> Refused {
    Refused {
        is_gone: error.is_gone(),
        why: error.to_string(),
    }
}

fn reply(session: &dyn BackupSession, kind: u8, body: &[u8]) -> Result<Vec<u8>, Refused> {
    let reader = session.reader();
    Ok(match kind {
        COMMIT => {
            let made = session.commit(About::from_bytes(body)?)?;
            CommittedBackup::from(made).to_bytes()
        }
        UNSOUND => {
            let (root, range) = <(TreeRoot, ByteRange)>::from_bytes(body)?;
            session.unsound(&root, range)?.to_bytes()
        }
        NODE => {
            let node = reader.node(Wire::from_bytes(body)?);
            node.map_err(unread)?.to_bytes()
        }
        CATALOG => {
            let catalog = reader.catalog(ContainerId::from_bytes(body)?);
            SentCatalog::of(&*catalog.map_err(unread)?).to_bytes()
        }
        STREAM => {
            let (node, name) = <(ChunkLocation, StreamName)>::from_bytes(body)?;
            reader.stream(node, name).map_err(unread)?.to_bytes()
        }
        CHUNK => {
            let chunk = reader.chunk(Wire::from_bytes(body)?);
            chunk.map_err(unread)?.to_bytes()
        }
        REGIONS => regions(session, &AskedRegions::from_bytes(body)?)?.to_bytes(),
        NEWER => {
            let view = SentCatalog::from_bytes(body)?.view()?;
            let newer = reader.newer_catalog(&view).map_err(unread)?;
            let newer: Vec<_> = newer.iter().map(|view| SentCatalog::of(view)).collect();
            newer.to_bytes()
        }
        other => {
            return Err(Refused {
                is_gone: false,
                why: format!("no message of kind {other}"),
            });
        }
    })
}

/// Each region that the client asks for, compressed if the store has it so.
fn regions(session: &dyn BackupSession, asked: &AskedRegions) -> Result<Vec<CompressedRegion>, Refused> {
    let reader = session.reader();
    let view = reader.catalog(asked.container).map_err(unread)?;
    if view.generation() != asked.generation {
        return Err(Refused {
            is_gone: true,
            why: format!("{} has another generation now", asked.container),
        });
    }
    let mut buffer = RegionBuffer::default();
    reader
        .read_regions_into(&view, &asked.regions, &mut buffer)
        .map_err(unread)?;
    let sent = |(index, plain): (_, &[u8])| match buffer.packed(index) {
        Some(packed) => CompressedRegion::as_read(packed, plain.len()),
        None => CompressedRegion::raw(plain.to_vec()),
    };
    Ok(buffer.regions().map(sent).collect())
}

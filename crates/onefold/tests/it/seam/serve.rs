//! The store's end: a session of a store here, driven by messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use container::RegionBuffer;
use ingest::{About, BackupSession, IngestError, Offer, Verdict};
use onefold::HostedBackup;
use recipe::{StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, ContainerId};

use super::codec::{Answer, AskedRegions, Sent, SentCatalog, SentRegion, Wire};
use super::pipe::{Broken, Input, Output};

/// Requests of a client. An answer has the number of its request.
pub(crate) const SUBMIT: u8 = 0;
pub(crate) const COMMIT: u8 = 1;
pub(crate) const UNSOUND: u8 = 2;
pub(crate) const NODE: u8 = 3;
pub(crate) const CATALOG: u8 = 4;
pub(crate) const STREAM: u8 = 5;
pub(crate) const REGION: u8 = 6;
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
        Err(why) => (REFUSAL, why.to_bytes()),
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
            Sent::Region(region) if region.is_genuine(printer) => Offer::Region(region.into()),
            Sent::Region(_) => return Err(refused("a chunk has another fingerprint than its bytes")),
        });
    }
    session.submit(offers)
}

fn reply(session: &dyn BackupSession, kind: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    fn read<T: Wire>(body: &[u8]) -> Result<T, String> {
        T::from_bytes(body).map_err(|error| error.to_string())
    }
    let failed = |error: recipe::RecipeError| error.to_string();
    let reader = session.reader();
    Ok(match kind {
        COMMIT => {
            let about: About = read(body)?;
            let made = session.commit(about).map_err(|error| error.to_string())?;
            let answer = Answer {
                session: made.session,
                streams: made.streams,
                totals: made.totals,
                containers: made.containers,
                adopted: made.adopted,
            };
            answer.to_bytes()
        }
        UNSOUND => {
            let (root, range): (TreeRoot, ByteRange) = read(body)?;
            let unsound = session.unsound(&root, range);
            unsound.map_err(|error| error.to_string())?.to_bytes()
        }
        NODE => reader.node(read(body)?).map_err(failed)?.to_bytes(),
        CATALOG => {
            let container: ContainerId = read(body)?;
            SentCatalog::of(&*reader.catalog(container).map_err(failed)?).to_bytes()
        }
        STREAM => {
            let (node, name): (ChunkLocation, StreamName) = read(body)?;
            reader.stream(node, name).map_err(failed)?.to_bytes()
        }
        REGION => {
            let (view, region) = reader.region(read(body)?).map_err(failed)?;
            let sent = SentRegion {
                catalog: SentCatalog::of(&view),
                index: region.index(),
                bytes: region.into_bytes(),
            };
            sent.to_bytes()
        }
        CHUNK => reader.chunk(read(body)?).map_err(failed)?.to_bytes(),
        REGIONS => {
            let AskedRegions { catalog, regions } = read(body)?;
            let view = catalog.view().map_err(|error| error.to_string())?;
            let mut buffer = RegionBuffer::default();
            reader
                .read_regions_into(&view, &regions, &mut buffer)
                .map_err(failed)?;
            let plain: Vec<Vec<u8>> = buffer.regions().map(|(_, bytes)| bytes.to_vec()).collect();
            plain.to_bytes()
        }
        NEWER => {
            let catalog: SentCatalog = read(body)?;
            let view = catalog.view().map_err(|error| error.to_string())?;
            let newer = reader.newer_catalog(&view).map_err(failed)?;
            let newer: Vec<_> = newer.iter().map(|view| SentCatalog::of(view)).collect();
            newer.to_bytes()
        }
        other => return Err(format!("no message of kind {other}")),
    })
}

//! The client's half beside a session that does not keep its promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crypto::{DomainKey, Fingerprinter};
use env::{Clock, SystemClock};
use format::config::Settings;
use recipe::{StoreReader, TreeRoot};
use types::ByteRange;

use crate::backup::backup_stream;
use crate::backup_session::{About, BackupSession, Committed, Terms};
use crate::client::pools::ClientPools;
use crate::client::run::{Client, Sent};
use crate::client::stream_source::{ReaderSource, StreamSpec};
use crate::counters::Counters;
use crate::dedup::{Granularity, Lane, NewChunk, StreamIndex};
use crate::error::IngestError;
use crate::message::{Offer, Verdict, Wanted};
use crate::options::IngestOptions;

/// A promise that the session breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    /// It panics when something is offered.
    Submit,
    /// It panics when it is asked for verdicts.
    Verdicts,
    /// It wants a chunk that it was not offered.
    Wants,
    /// As before, right after it asked for the open regions.
    WantsBehindFlush,
}

struct Broken {
    terms: Terms,
    breaks: Breaks,
    /// Whether a region was offered.
    has_region: Arc<AtomicBool>,
}

impl BackupSession for Broken {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn reader(&self) -> &dyn StoreReader {
        unreachable!("nothing is copied here")
    }

    fn unsound(&self, _: &TreeRoot, _: ByteRange) -> Result<Vec<ByteRange>, IngestError> {
        Ok(Vec::new())
    }

    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError> {
        assert_ne!(self.breaks, Breaks::Submit, "a test");
        let is_region = |offer: &Offer| matches!(offer, Offer::Region(_));
        self.has_region
            .fetch_or(offers.iter().any(is_region), Ordering::SeqCst);
        Ok(())
    }

    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError> {
        assert_ne!(self.breaks, Breaks::Verdicts, "a test");
        SystemClock.sleep(wait);
        let (stream, lane) = (StreamIndex(0), Lane::Content);
        let new = NewChunk { lane, ordinal: 0 };
        let wants = |child| Verdict::Segment {
            stream,
            wanted: vec![Wanted {
                child,
                new,
                chunk: None,
            }],
        };
        Ok(match self.breaks {
            Breaks::Wants => vec![wants(u32::MAX)],
            Breaks::WantsBehindFlush => vec![wants(0), Verdict::Flush(None), wants(u32::MAX)],
            Breaks::Submit | Breaks::Verdicts => Vec::new(),
        })
    }

    fn durable(&self, _: u64, _: Duration) -> Result<u64, IngestError> {
        Ok(0)
    }

    fn request_durable(&self) -> Result<(), IngestError> {
        Ok(())
    }

    fn commit(&self, _: About) -> Result<Committed, IngestError> {
        unreachable!("nothing is committed here")
    }
}

/// Sends 64 MiB, which end within a minute. Returns also whether a region was sent.
fn send(breaks: Breaks) -> (Result<Sent, IngestError>, bool) {
    let printer = Fingerprinter::new(&DomainKey::from_bytes([5; 32]));
    let settings = Settings {
        chunk_min_bytes: 4096,
        chunk_avg_bytes: 8192,
        chunk_max_bytes: 65536,
        node_avg_children: 64,
        region_bytes: 128 << 10,
        container_bytes: 16 << 20,
    };
    let terms = Terms {
        fingerprinter: printer,
        settings,
        granularity: Granularity::Chunk,
        is_suspect: false,
        has_previous: false,
        resumed: Vec::new(),
    };
    let (told, heard) = mpsc::channel();
    let has_region = Arc::new(AtomicBool::new(false));
    let offered = Arc::clone(&has_region);
    thread::spawn(move || {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let bytes: Vec<u8> = (0..8_u32 << 20)
            .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
            .collect();
        let client = Client {
            session: &Broken {
                terms,
                breaks,
                has_region: Arc::clone(&offered),
            },
            pools: &ClientPools::new(&clock),
            options: &IngestOptions::for_cores(2),
            counters: &Counters::default(),
            cancel: &AtomicBool::new(false),
            clock: &clock,
        };
        let spec = StreamSpec {
            name: "stream",
            fixed_chunk_bytes: None,
            parents: &[],
        };
        told.send(backup_stream(client, spec, &mut ReaderSource(&bytes[..])))
    });
    let ended = heard.recv_timeout(Duration::from_secs(60));
    (ended.expect("the backup ends"), has_region.load(Ordering::SeqCst))
}

#[test]
fn a_panic_of_any_stage_ends_the_backup() {
    for breaks in [Breaks::Submit, Breaks::Verdicts] {
        let error = send(breaks).0.unwrap_err();
        assert!(
            matches!(error, IngestError::Internal(why) if why.contains("panicked")),
            "{breaks:?}: {error}"
        );
    }
}

#[test]
fn a_wrong_verdict_ends_the_backup() {
    let error = send(Breaks::Wants).0.unwrap_err();
    assert!(
        matches!(error, IngestError::Internal(why) if why.contains("out of order")),
        "{error}"
    );
}

/// The store keeps all that follows in memory until the open regions have come.
#[test]
fn open_regions_are_sent_as_soon_as_the_store_asks_for_them() {
    let (ended, has_region) = send(Breaks::WantsBehindFlush);
    assert!(ended.is_err() && has_region);
}

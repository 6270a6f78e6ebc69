//! A running backup in a store that a server has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::Clock;
use ingest::brief::{BriefOffers, Noted};
use ingest::{About, BackupSession, Committed, Distance, IngestError, Offer, Terms, Verdict};
use recipe::{StoreReader, TreeRoot};
use types::{ByteRange, ChunkLocation};
use wire::{CommittedBackup, FRAME_BYTES_MAX, KnownStream, Sendable, Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;
use crate::line::Line;
use crate::link::Link;
use crate::listings::SeriesListings;
use crate::reader::RemoteReader;

/// The client asks for unsound parts in so many bytes of a stream at once. A stream of which the
/// server tells when the backup begins is no longer.
const WINDOW_BYTES: u64 = 64 << 30;

/// A message of offers is sent once it has so many bytes.
const MESSAGE_BYTES: usize = FRAME_BYTES_MAX / 8;

/// A session of a server's store.
#[derive(Debug)]
pub(crate) struct RemoteSession {
    pub(crate) terms: Terms,
    pub(crate) reader: RemoteReader,
    brief: BriefOffers,
    /// The listings of this series that this machine keeps.
    pub(crate) listings: Option<SeriesListings>,
    /// The unsound parts of streams, by their roots and the offsets of windows.
    unsound: Mutex<HashMap<(ChunkLocation, u64), Vec<ByteRange>>>,
    line: Line,
}

impl RemoteSession {
    /// A session with these terms. The server has told of `streams`.
    pub(crate) fn new(
        terms: Terms,
        link: Link,
        listings: Option<SeriesListings>,
        streams: Vec<KnownStream>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let reader = RemoteReader::of_fingerprints(link, terms.fingerprinter.clone());
        let mut unsound = HashMap::new();
        for stream in streams {
            unsound.insert((stream.root.location, 0), stream.unsound);
            if !stream.children.is_empty() {
                reader.keep_children(stream.root.location, stream.children);
            }
        }
        Self {
            brief: BriefOffers::default().hopeful(terms.has_previous),
            terms,
            reader,
            listings,
            unsound: Mutex::new(unsound),
            line: Line::new(clock),
        }
    }

    fn connection(&self) -> Arc<Connection> {
        self.reader.link.connection()
    }

    /// The unsound parts of a window of a stream, which begins at `offset`.
    fn unsound_in(&self, stream: &TreeRoot, offset: u64) -> Result<Vec<ByteRange>, IngestError> {
        let mut known = self.unsound.lock().unwrap_or_else(PoisonError::into_inner);
        match known.entry((stream.location, offset)) {
            Entry::Occupied(kept) => Ok(kept.get().clone()),
            Entry::Vacant(place) => {
                let len = WINDOW_BYTES.min(stream.len - offset);
                let asked = (*stream, ByteRange { offset, len });
                let answer = self
                    .connection()
                    .ask(request::UNSOUND, &asked, Vec::<ByteRange>::from_bytes);
                Ok(place.insert(answer?).clone())
            }
        }
    }

    fn send(&self, offers: &[Sendable]) -> Result<(), IngestError> {
        let append = |body: &mut Vec<u8>| Sendable::append_all(offers, body);
        let bytes = offers.iter().map(bytes_of).sum();
        let send = || self.connection().tell_with(request::SUBMIT, append);
        Ok(self.line.sent(bytes, send)?)
    }
}

impl BackupSession for RemoteSession {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn distance(&self) -> Distance {
        Distance::Far {
            is_slow: self.line.is_slow(),
        }
    }

    fn reader(&self) -> &dyn StoreReader {
        &self.reader
    }

    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError> {
        let mut all: Vec<ByteRange> = Vec::new();
        let mut at = range.offset;
        while at < range.end().min(stream.len) {
            let offset = at - at % WINDOW_BYTES;
            at = offset.saturating_add(WINDOW_BYTES);
            let of_window = self.unsound_in(stream, offset)?;
            let within = |bad: &ByteRange| bad.offset < range.end() && range.offset < bad.end();
            // A segment on the edge of two windows is in both.
            let is_new = |bad: &ByteRange| all.last().is_none_or(|last| last.offset < bad.offset);
            let new: Vec<ByteRange> = of_window
                .into_iter()
                .filter(|bad| within(bad) && is_new(bad))
                .collect();
            all.extend(new);
        }
        Ok(all)
    }

    fn kept_listing(&self, listing: &TreeRoot) -> Option<Box<dyn Read + Send + '_>> {
        let kept = self.listings.as_ref()?.find(listing)?;
        Some(Box::new(kept))
    }

    fn keep_listing(&self, bytes: &[u8]) {
        if let Some(listings) = &self.listings {
            listings.push(bytes);
        }
    }

    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError> {
        if let Some(why) = self.connection().inbox.failure() {
            return Err(why.into());
        }
        let has_segments = offers.iter().any(|offer| !matches!(offer, Offer::Region(_)));
        while has_segments && !self.brief.wait() {
            if let Some(why) = self.connection().inbox.failure() {
                return Err(why.into());
            }
        }
        // Many long segments may not fit into one message.
        let mut sent: Vec<Sendable> = Vec::new();
        let mut bytes = 0;
        let offers = offers.into_iter().map(|offer| self.brief.offer(offer)).collect();
        for one in Sendable::all(offers, &self.terms.fingerprinter)? {
            bytes += bytes_of(&one);
            sent.push(one);
            if bytes >= MESSAGE_BYTES {
                self.send(&sent)?;
                sent.clear();
                bytes = 0;
            }
        }
        if !sent.is_empty() {
            self.send(&sent)?;
        }
        Ok(())
    }

    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError> {
        let came = self.connection().inbox.verdicts(wait)?;
        let mut verdicts = Vec::with_capacity(came.len());
        for verdict in came {
            let send = |children| self.send(&[Sendable::Offer(children)]);
            match self.brief.note(verdict, send)? {
                Noted::Verdict(verdict) => verdicts.push(verdict),
                Noted::Answered => {}
                Noted::Unasked => {
                    let why = "it asks for chunks that it has".to_owned();
                    return Err(ClientError::Protocol(why).into());
                }
            }
        }
        Ok(verdicts)
    }

    fn durable(&self, known: u64, wait: Duration) -> Result<u64, IngestError> {
        Ok(self.connection().inbox.durable(known, wait)?)
    }

    fn request_durable(&self) -> Result<(), IngestError> {
        Ok(self.connection().tell(request::SYNC, &())?)
    }

    fn commit(&self, about: About) -> Result<Committed, IngestError> {
        let connection = self.connection();
        let made = connection.ask(request::COMMIT, &about, CommittedBackup::from_bytes);
        // If the store refused something before, that is the reason.
        let made = made.map_err(|error| connection.inbox.failure().unwrap_or(error))?;
        connection.inbox.clear();
        Ok(made.into())
    }
}

/// About how many bytes a message has.
fn bytes_of(sent: &Sendable) -> usize {
    match sent {
        Sendable::Offer(Offer::Segment { segment, .. }) => 64 + segment.children.len() * 56,
        Sendable::Offer(_) | Sendable::Copies(_) => 128,
        Sendable::Region(region) => 64 + region.chunks().len() * 40 + region.stored_len(),
    }
}

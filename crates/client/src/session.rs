//! A running backup in a store that a server has.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ingest::brief::{BriefOffers, Noted};
use ingest::{About, BackupSession, Committed, IngestError, Offer, Terms, Verdict};
use recipe::{StoreReader, TreeRoot};
use types::ByteRange;
use wire::{CommittedBackup, FRAME_BYTES_MAX, Sent, Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;
use crate::listings::SeriesListings;
use crate::reader::RemoteReader;

/// A message of offers is sent once it has so many bytes.
const MESSAGE_BYTES: usize = FRAME_BYTES_MAX / 8;

/// A session of a server's store.
#[derive(Debug)]
pub(crate) struct RemoteSession {
    pub(crate) terms: Terms,
    pub(crate) reader: RemoteReader,
    pub(crate) brief: BriefOffers,
    /// The listings of this series that this machine keeps.
    pub(crate) listings: Option<SeriesListings>,
}

impl RemoteSession {
    fn connection(&self) -> Arc<Connection> {
        self.reader.link.connection()
    }
}

impl BackupSession for RemoteSession {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn reader(&self) -> &dyn StoreReader {
        &self.reader
    }

    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError> {
        let asked = (*stream, range);
        let ranges = self
            .connection()
            .ask(request::UNSOUND, &asked, Vec::<ByteRange>::from_bytes);
        Ok(ranges?)
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
        let mut sent: Vec<Sent> = Vec::new();
        let mut bytes = 0;
        for offer in offers {
            let one = match offer {
                Offer::Region(region) => Sent::Region(region.into_stored()?),
                other => Sent::Offer(self.brief.offer(other)),
            };
            bytes += bytes_of(&one);
            sent.push(one);
            if bytes >= MESSAGE_BYTES {
                self.connection().tell(request::SUBMIT, &sent)?;
                sent.clear();
                bytes = 0;
            }
        }
        if !sent.is_empty() {
            self.connection().tell(request::SUBMIT, &sent)?;
        }
        Ok(())
    }

    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError> {
        let came = self.connection().inbox.verdicts(wait)?;
        let mut verdicts = Vec::with_capacity(came.len());
        for verdict in came {
            match self.brief.note(verdict) {
                Some(Noted::Verdict(verdict)) => verdicts.push(verdict),
                Some(Noted::Asked(children)) => {
                    let sent = vec![Sent::Offer(children)];
                    self.connection().tell(request::SUBMIT, &sent)?;
                }
                None => {
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
        let made = connection.ask(request::COMMIT, &about, CommittedBackup::from_bytes)?;
        connection.inbox.clear();
        Ok(made.into())
    }
}

/// About how many bytes a message has.
fn bytes_of(sent: &Sent) -> usize {
    match sent {
        Sent::Offer(Offer::Segment { segment, .. }) => 64 + segment.children.len() * 56,
        Sent::Offer(_) => 128,
        Sent::Region(region) => 64 + region.chunks.len() * 40 + region.bytes.bytes().len(),
    }
}

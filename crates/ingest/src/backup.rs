//! A backup's streams, from a source to a session.

use chunking::{Cdc, CdcSizes, Chunker, Fixed};
use format::config::Settings;
use format::manifest::StreamRole;
use tree::WalkOptions;

use crate::backup_session::Stream;
use crate::client::directory::{self, Faults};
use crate::client::fed::StreamFeed;
use crate::client::run::{self, Client, Sent, StreamCutter};
use crate::client::stream;
use crate::client::stream_source::{StreamSource, StreamSpec};
use crate::dedup::Lane;
use crate::error::IngestError;
use crate::parent::ParentTree;

/// The streams of a directory tree, by index.
#[must_use]
pub fn tree_streams() -> Vec<Stream> {
    let stream = |(role, lane)| Stream {
        role,
        lane,
        fixed_chunk_bytes: None,
    };
    let streams = [
        (StreamRole::Content, Lane::Content),
        (StreamRole::Listing, Lane::Metadata),
        (StreamRole::Fences, Lane::Metadata),
    ];
    streams.map(stream).to_vec()
}

/// The stream of a backup that has one alone.
#[must_use]
pub fn single_stream(fixed_chunk_bytes: Option<u32>) -> Vec<Stream> {
    vec![Stream {
        role: StreamRole::Whole,
        lane: Lane::Content,
        fixed_chunk_bytes,
    }]
}

/// Sends a directory tree.
///
/// # Errors
/// Of the store, or [`IngestError::Interrupted`]. Faults of single entries go to `faults`.
pub fn backup_tree(
    client: Client<'_>,
    walk: WalkOptions,
    parent: Option<&ParentTree>,
    faults: &mut Faults<'_>,
) -> Result<Sent, IngestError> {
    let cutters = (0..tree_streams().len()).map(|_| client.cdc());
    let cutters = cutters.collect::<Result<_, _>>()?;
    run::run(client, cutters, |input| {
        directory::feed(input, walk, client.session, parent, faults)
    })
}

/// Sends a single stream.
///
/// # Errors
/// Of the store or of the source, or [`IngestError::Interrupted`].
pub fn backup_stream(
    client: Client<'_>,
    spec: StreamSpec<'_>,
    source: &mut dyn StreamSource,
) -> Result<Sent, IngestError> {
    let cutter = match spec.fixed_chunk_bytes {
        Some(bytes) => client.cutter(Box::new(Fixed::new(bytes)?), bytes),
        None => client.cdc()?,
    };
    run::run(client, vec![cutter], |input| {
        stream::feed(input, client.session, spec, source)
    })
}

/// Sends the streams of a backup as the caller pushes their bytes. `fixed_chunk_bytes` of each
/// stream, in order: cuts fixed chunks of this length; otherwise content-defined ones.
///
/// # Errors
/// Of the store or of `feed`, or [`IngestError::Interrupted`].
pub fn backup_fed(
    client: Client<'_>,
    fixed_chunk_bytes: &[Option<u32>],
    feed: impl FnOnce(&mut StreamFeed<'_, '_>) -> Result<(), IngestError>,
) -> Result<Sent, IngestError> {
    let cutter = |fixed: &Option<u32>| match *fixed {
        Some(bytes) => Ok(client.cutter(Box::new(Fixed::new(bytes)?), bytes)),
        None => client.cdc(),
    };
    let cutters = fixed_chunk_bytes.iter().map(cutter).collect::<Result<_, _>>()?;
    run::run(client, cutters, |input| {
        feed(&mut StreamFeed { input }).map_err(Into::into)
    })
}

impl Client<'_> {
    fn cdc(&self) -> Result<StreamCutter, IngestError> {
        let terms = self.session.terms();
        let Settings {
            chunk_min_bytes: min,
            chunk_avg_bytes: avg,
            chunk_max_bytes: max,
            ..
        } = terms.settings;
        let chunker = Cdc::new(CdcSizes { min, avg, max }, &terms.fingerprinter.gear_table())?;
        Ok(self.cutter(Box::new(chunker), avg))
    }

    fn cutter(&self, chunker: Box<dyn Chunker>, chunk_bytes: u32) -> StreamCutter {
        let terms = self.session.terms();
        let children_avg = terms.settings.node_avg_children;
        StreamCutter {
            chunker,
            segment_children: terms.granularity.segment_children(chunk_bytes, children_avg),
        }
    }
}

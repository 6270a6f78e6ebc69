//! Requests of a client that reads the store.

use container::RegionBuffer;
use recipe::{RecipeError, StoreReader, StreamName};
use types::{ChunkLocation, ContainerId};
use wire::{AskedRegions, Refusal, RefusalKind, SentCatalog, Wire, request};

/// Bytes that a client may ask for at once, of regions.
const ASKED_REGIONS_MAX: usize = 120;

fn unread(error: RecipeError) -> Refusal {
    let kind = if error.is_gone() {
        RefusalKind::Unreadable
    } else {
        RefusalKind::Failed
    };
    Refusal::new(kind, error.to_string())
}

/// The answer to a request, or `None` if the kind is of no such request.
pub(crate) fn answer(reader: &dyn StoreReader, kind: u8, body: &[u8]) -> Option<Result<Vec<u8>, Refusal>> {
    let is_known = matches!(
        kind,
        request::NODE
            | request::CATALOG
            | request::STREAM
            | request::CHUNK
            | request::REGIONS
            | request::NEWER
    );
    is_known.then(|| read(reader, kind, body))
}

fn read(reader: &dyn StoreReader, kind: u8, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    Ok(match kind {
        request::NODE => {
            let node = reader.node(Wire::from_bytes(body)?);
            node.map_err(unread)?.to_bytes()
        }
        request::CATALOG => {
            let catalog = reader.catalog(ContainerId::from_bytes(body)?);
            SentCatalog::of(&*catalog.map_err(unread)?).to_bytes()
        }
        request::STREAM => {
            let (node, name) = <(ChunkLocation, StreamName)>::from_bytes(body)?;
            reader.stream(node, name).map_err(unread)?.to_bytes()
        }
        request::CHUNK => {
            let chunk = reader.chunk(Wire::from_bytes(body)?);
            chunk.map_err(unread)?.to_bytes()
        }
        request::REGIONS => regions(reader, &AskedRegions::from_bytes(body)?)?.to_bytes(),
        _ => {
            let view = SentCatalog::from_bytes(body)?.view()?;
            let newer = reader.newer_catalog(&view).map_err(unread)?;
            let newer: Vec<_> = newer.iter().map(|view| SentCatalog::of(view)).collect();
            newer.to_bytes()
        }
    })
}

/// The bytes of each region that the client asks for.
fn regions(reader: &dyn StoreReader, asked: &AskedRegions) -> Result<Vec<Vec<u8>>, Refusal> {
    let is_ascending = asked.regions.is_sorted_by(|a, b| a < b);
    if asked.regions.len() > ASKED_REGIONS_MAX || !is_ascending {
        return Err(Refusal::new(
            RefusalKind::Malformed,
            format!("at most {ASKED_REGIONS_MAX} regions at once, in ascending order"),
        ));
    }
    let view = reader.catalog(asked.container).map_err(unread)?;
    if view.generation() != asked.generation {
        return Err(Refusal::new(
            RefusalKind::Unreadable,
            format!("{} has another generation now", asked.container),
        ));
    }
    let mut buffer = RegionBuffer::default();
    reader
        .read_regions_into(&view, &asked.regions, &mut buffer)
        .map_err(unread)?;
    Ok(buffer.regions().map(|(_, bytes)| bytes.to_vec()).collect())
}

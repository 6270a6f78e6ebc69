//! What the negotiation tells about an export.

use crate::flags::TransmissionFlags;
use crate::{PAYLOAD_BYTES_MAX, bytes};

/// The metadata context that the protocol defines: which ranges are allocated, and which are zeros.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

/// An export, as the negotiation describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportDetails {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What it can do. [`TransmissionFlags::HAS_FLAGS`] and [`TransmissionFlags::SEND_DF`] are set
    /// by the negotiation.
    pub flags: TransmissionFlags,
    /// Text for people. May be empty.
    pub description: String,
    /// The sizes of requests.
    pub block_sizes: BlockSizes,
    /// Names of metadata contexts. A name has the form `NAMESPACE:LEAF`.
    pub contexts: Vec<String>,
}

/// The sizes of requests ("Size constraints").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it.
    pub min: u32,
    /// Requests that are made of such blocks are fast.
    pub preferred: u32,
    /// The longest payload.
    pub payload_max: u32,
}

impl Default for BlockSizes {
    /// The sizes that the protocol recommends.
    fn default() -> Self {
        Self {
            min: 1,
            preferred: 4096,
            payload_max: PAYLOAD_BYTES_MAX,
        }
    }
}

/// A metadata context that a client selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedContext {
    /// The number that replies name it by.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// Whether a query selects a context ("Metadata querying"). In a listing, a query that ends in a
/// colon selects all contexts that begin so.
pub(crate) fn is_selected(context: &str, query: &str, is_listing: bool) -> bool {
    context == query || is_listing && query.ends_with(':') && context.starts_with(query)
}

/// A description as it is sent.
pub(crate) fn shown(description: &str) -> &str {
    bytes::cut(description, crate::STRING_BYTES_MAX)
}

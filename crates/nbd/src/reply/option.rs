//! Replies to options ("Option reply types").

use crate::bytes::{cut, length_of, put_string};
use crate::export::{ExportDetails, shown};
use crate::flags::TransmissionFlags;
use crate::numbers::{OPTION_REPLY_MAGIC, info, option_reply};
use crate::option::Wants;

/// Bytes of a reply before its data.
pub const HEAD_BYTES: usize = 20;
/// Bytes of the text that explains an error.
const TEXT_BYTES_MAX: usize = 256;

fn head(out: &mut Vec<u8>, option: u32, kind: u32, len: usize) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length_of(len).to_be_bytes());
}

/// Success, and the end of the replies to an option.
pub fn ack(out: &mut Vec<u8>, option: u32) {
    head(out, option, option_reply::ACK, 0);
}

/// A failure, with text for people.
pub fn error(out: &mut Vec<u8>, option: u32, kind: u32, text: &str) {
    let text = cut(text, TEXT_BYTES_MAX);
    head(out, option, kind, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// An export of the listing.
pub fn server(out: &mut Vec<u8>, option: u32, name: &str) {
    head(out, option, option_reply::SERVER, 4 + name.len());
    put_string(out, name);
}

/// A metadata context.
pub fn meta_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    head(out, option, option_reply::META_CONTEXT, 4 + name.len());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
}

/// The answer to `EXPORT_NAME`, without zeros after it.
pub fn export_name(out: &mut Vec<u8>, size_bytes: u64, flags: TransmissionFlags) {
    out.extend_from_slice(&size_bytes.to_be_bytes());
    out.extend_from_slice(&flags.0.to_be_bytes());
}

/// The items of information that a client wants, and the size and flags.
pub fn information(
    out: &mut Vec<u8>,
    option: u32,
    name: &str,
    details: &ExportDetails,
    flags: TransmissionFlags,
    wants: Wants,
) {
    head(out, option, option_reply::INFO, 12);
    out.extend_from_slice(&info::EXPORT.to_be_bytes());
    export_name(out, details.size_bytes, flags);
    if wants.name {
        text(out, option, info::NAME, name);
    }
    if wants.description && !details.description.is_empty() {
        text(out, option, info::DESCRIPTION, shown(&details.description));
    }
    if wants.block_size {
        let sizes = details.block_sizes;
        head(out, option, option_reply::INFO, 14);
        out.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        for size in [sizes.min, sizes.preferred, sizes.payload_max] {
            out.extend_from_slice(&size.to_be_bytes());
        }
    }
}

fn text(out: &mut Vec<u8>, option: u32, item: u16, text: &str) {
    head(out, option, option_reply::INFO, 2 + text.len());
    out.extend_from_slice(&item.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

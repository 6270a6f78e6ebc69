//! Replies to requests ("Simple reply message", "Structured reply chunk message").
//!
//! A server sends the payload of a read after the returned bytes, so that it copies nothing.

use crate::bytes::{cut, length_of};
use crate::numbers::{CHUNK_MAGIC, Errno, SIMPLE_REPLY_MAGIC, chunk};

/// Bytes of a simple reply before its data.
pub const SIMPLE_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
pub const CHUNK_BYTES: usize = 20;
/// Bytes of a chunk of data before the data.
pub const DATA_CHUNK_BYTES: usize = CHUNK_BYTES + 8;
/// Text with an error has at most so many bytes.
const TEXT_BYTES_MAX: usize = 256;

/// A simple reply. The data of a successful read follows.
#[must_use]
pub fn simple(cookie: u64, result: Result<(), Errno>) -> [u8; SIMPLE_BYTES] {
    let code = result.map_or_else(Errno::code, |()| 0);
    let mut out = [0; SIMPLE_BYTES];
    out[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&code.to_be_bytes());
    out[8..].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// The head of a chunk with a payload of `len` bytes.
#[must_use]
pub fn head(cookie: u64, kind: u16, is_last: bool, len: u32) -> [u8; CHUNK_BYTES] {
    let flags = if is_last { chunk::FLAG_DONE } else { 0 };
    let mut out = [0; CHUNK_BYTES];
    out[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..].copy_from_slice(&len.to_be_bytes());
    out
}

/// The end of a structured reply without content.
#[must_use]
pub fn none(cookie: u64) -> [u8; CHUNK_BYTES] {
    head(cookie, chunk::NONE, true, 0)
}

/// The head of a chunk of `len` bytes of the export, which follow. `len` is not 0.
///
/// # Panics
/// If `len` is within 8 bytes of 4 GiB.
#[must_use]
pub fn offset_data(cookie: u64, is_last: bool, offset: u64, len: u32) -> [u8; DATA_CHUNK_BYTES] {
    let payload = len.checked_add(8).expect("a chunk is far shorter than 4 GiB");
    let mut out = [0; DATA_CHUNK_BYTES];
    out[..CHUNK_BYTES].copy_from_slice(&head(cookie, chunk::OFFSET_DATA, is_last, payload));
    out[CHUNK_BYTES..].copy_from_slice(&offset.to_be_bytes());
    out
}

/// A chunk that says that a range of the export has zeros. `len` is not 0.
#[must_use]
pub fn offset_hole(cookie: u64, is_last: bool, offset: u64, len: u32) -> [u8; CHUNK_BYTES + 12] {
    let mut out = [0; CHUNK_BYTES + 12];
    out[..CHUNK_BYTES].copy_from_slice(&head(cookie, chunk::OFFSET_HOLE, is_last, 12));
    out[CHUNK_BYTES..CHUNK_BYTES + 8].copy_from_slice(&offset.to_be_bytes());
    out[CHUNK_BYTES + 8..].copy_from_slice(&len.to_be_bytes());
    out
}

/// Appends a chunk that says why a request failed, with text for people.
pub fn error(out: &mut Vec<u8>, cookie: u64, error: Errno, text: &str) {
    failure(out, cookie, chunk::ERROR, error, text, &[]);
}

/// Appends a chunk that says why and at which offset a request failed, with text for people.
pub fn error_offset(out: &mut Vec<u8>, cookie: u64, error: Errno, text: &str, offset: u64) {
    failure(
        out,
        cookie,
        chunk::ERROR_OFFSET,
        error,
        text,
        &offset.to_be_bytes(),
    );
}

/// A failure is always the last chunk.
fn failure(out: &mut Vec<u8>, cookie: u64, kind: u16, error: Errno, text: &str, rest: &[u8]) {
    let text = cut(text, TEXT_BYTES_MAX);
    let len = u16::try_from(text.len()).expect("the text was cut");
    out.extend_from_slice(&head(cookie, kind, true, length_of(6 + text.len() + rest.len())));
    out.extend_from_slice(&error.code().to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(rest);
}

/// Appends the status of ranges in a metadata context: the length of each in bytes, not 0, and its
/// flags.
pub fn block_status(out: &mut Vec<u8>, cookie: u64, is_last: bool, context: u32, ranges: &[(u32, u32)]) {
    let len = length_of(4 + 8 * ranges.len());
    out.extend_from_slice(&head(cookie, chunk::BLOCK_STATUS, is_last, len));
    out.extend_from_slice(&context.to_be_bytes());
    for (len, flags) in ranges {
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }
}

//! One function for each decoder, for fuzzing and for the tests that feed it pseudo-random bytes.
//!
//! Each function takes any bytes. It panics only if the code is wrong: a decoder panics, or accepts
//! bytes that differ from the encoding of the decoded value (INV-8). Where a digest guards a
//! structure, the function also tries the bytes with the right digest, so that it reaches the code
//! behind it.

use crate::config::{Config, Settings};
use crate::container::{
    Catalog, CatalogCopy, ContainerHeader, ContainerTail, FOOTER_BYTES, HEADER_BYTES, REGION_ROW_BYTES,
    TailParse,
};
use crate::frame::{DIGEST_BYTES, FRAME_HEADER_BYTES, Frame, append_digest};
use crate::listing::{FencePage, ListingEntry};
use crate::manifest::Manifest;
use crate::names;
use crate::node::Node;
use crate::reclaim::{Condemned, Damaged, Marks, Removed};
use crate::series::SeriesSettings;
use crate::session::{Checkpoint, Claim, Heartbeat, Lease};
use crate::wire::digest;

/// A function that feeds its argument to a decoder.
pub type Probe = fn(&[u8]);

/// Every probe by name; the fuzz targets have the same names.
pub const ALL: [(&str, Probe); 15] = [
    ("container_tail", container_tail),
    ("catalog", catalog),
    ("node", node),
    ("manifest", manifest),
    ("session_objects", session_objects),
    ("reclaim_objects", reclaim_objects),
    ("series_settings", series_settings),
    ("config", config),
    ("listing", listing),
    ("names", names_of_objects),
    ("frame", frame),
    ("container_header", container_header),
    ("pool_blocks", pool_blocks),
    ("log_block", log_block),
    ("volume_state", volume_state),
];

macro_rules! same_bytes {
    ($type:ty, $bytes:expr) => {
        if let Ok(value) = <$type>::decode($bytes) {
            let bytes: &[u8] = $bytes;
            assert_eq!(value.to_bytes(), bytes, "accepted another encoding of {value:?}");
        }
    };
}

// Below the macro, which it uses.
mod pool;

pub use pool::{log_block, pool_blocks, volume_state};

/// [`Catalog`] and [`CatalogCopy`].
pub fn catalog(bytes: &[u8]) {
    same_bytes!(Catalog, bytes);
    same_bytes!(CatalogCopy, bytes);
}

/// [`Node`].
pub fn node(bytes: &[u8]) {
    same_bytes!(Node, bytes);
}

/// [`Manifest`].
pub fn manifest(bytes: &[u8]) {
    same_bytes!(Manifest, bytes);
}

/// [`Claim`], [`Heartbeat`], [`Checkpoint`], [`Lease`].
pub fn session_objects(bytes: &[u8]) {
    same_bytes!(Claim, bytes);
    same_bytes!(Heartbeat, bytes);
    same_bytes!(Checkpoint, bytes);
    same_bytes!(Lease, bytes);
}

/// [`Condemned`], [`Removed`], [`Marks`], [`Damaged`].
pub fn reclaim_objects(bytes: &[u8]) {
    same_bytes!(Condemned, bytes);
    same_bytes!(Removed, bytes);
    same_bytes!(Marks, bytes);
    same_bytes!(Damaged, bytes);
}

/// [`SeriesSettings`].
pub fn series_settings(bytes: &[u8]) {
    same_bytes!(SeriesSettings, bytes);
}

/// [`Config`], with the given and with the right digest, and [`Settings`].
pub fn config(bytes: &[u8]) {
    same_bytes!(Config, bytes);
    same_bytes!(Config, &with_digest(bytes));
    same_bytes!(Settings, bytes);
}

/// [`ListingEntry`] and [`FencePage`], record after record.
pub fn listing(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((entry, len))) = ListingEntry::decode_one(rest) {
        assert_eq!(
            Some(entry.to_bytes().as_slice()),
            rest.get(..len),
            "another encoding of {entry:?}"
        );
        rest = rest.get(len..).unwrap_or_default();
    }
    let mut rest = bytes;
    while let Ok(Some((page, len))) = FencePage::decode_one(rest) {
        assert_eq!(
            Some(page.to_bytes().as_slice()),
            rest.get(..len),
            "another encoding of {page:?}"
        );
        rest = rest.get(len..).unwrap_or_default();
    }
}

/// Every parser of [`names`].
pub fn names_of_objects(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let built =
        |name: types::ObjectName| assert_eq!(name.as_str(), text, "parsed a name that is written otherwise");
    let Ok(name) = types::ObjectName::new(text) else {
        return;
    };
    if let Some((revision, copy)) = names::parse_config(&name) {
        built(names::config(revision, copy));
    }
    if let Some((id, generation)) = names::parse_container(&name) {
        built(names::container(id, generation));
    }
    if let Some((id, generation)) = names::parse_body(&name) {
        built(names::body(id, generation));
    }
    if let Some(m) = names::parse_mirror(&name) {
        let kind = types::ContainerKind::Recipe;
        let id = types::ContainerId {
            session: m.session,
            kind,
            sequence: m.sequence,
        };
        built(names::mirror(id, m.generation).expect("recipe containers have mirrors"));
    }
    if let Some((series, session, revision)) = names::parse_manifest(&name) {
        built(names::manifest(series, session, revision));
    }
    if let Some((session, object)) = names::parse_session_object(&name) {
        built(names::session_object(session, object));
    }
    if let Some((group, revision)) = names::parse_marks(&name) {
        built(names::marks(group, revision));
    }
    if let Some(epoch) = names::parse_condemned(&name) {
        built(names::condemned(epoch));
    }
    if let Some(epoch) = names::parse_removed(&name) {
        built(names::removed(epoch));
    }
    if let Some((id, number)) = names::parse_damaged(&name) {
        built(names::damaged(id, number));
    }
    if let Some((role, number)) = names::parse_lease(&name) {
        built(names::lease(role, number));
    }
    if let Some((series, revision)) = names::parse_settings(&name) {
        built(names::settings(series, revision));
    }
    if let Some(run) = names::parse_index_run(&name) {
        built(names::index_run(run));
    }
    if let Some(number) = names::parse_index_image(&name) {
        built(names::index_image(number));
    }
    if let Some(number) = names::parse_index_unread(&name) {
        built(names::index_unread(number));
    }
}

/// [`Frame`], with the given and with the right digest.
pub fn frame(bytes: &[u8]) {
    for object in [bytes.to_vec(), with_digest(bytes)] {
        if let Ok(frame) = Frame::split(&object) {
            let mut again = frame.header.encode().to_vec();
            assert_eq!(frame.header_bytes, again.as_slice());
            assert_eq!(again.len(), FRAME_HEADER_BYTES);
            again.extend_from_slice(frame.sealed);
            append_digest(&mut again);
            assert_eq!(again, object);
        }
    }
}

/// [`ContainerHeader`].
pub fn container_header(bytes: &[u8]) {
    if let Ok(header) = ContainerHeader::decode(bytes) {
        assert_eq!(header.encode().as_slice(), bytes);
    }
}

/// [`ContainerTail`] of an object of just these bytes, and of one that ends with them, with the
/// given and with the right digest.
pub fn container_tail(bytes: &[u8]) {
    let repaired = with_footer_digest(bytes);
    for object in [bytes, repaired.as_slice()] {
        let len = object.len() as u64;
        for object_len in [
            len,
            len.saturating_add(HEADER_BYTES as u64),
            len.saturating_mul(1000),
        ] {
            match ContainerTail::parse(object, object_len) {
                Ok(TailParse::Whole(tail)) => assert!(object.ends_with(&tail.encode_plain())),
                Ok(TailParse::Need { tail_bytes }) => assert!(len < tail_bytes && tail_bytes <= object_len),
                Err(_) => {}
            }
        }
    }
}

fn with_digest(bytes: &[u8]) -> Vec<u8> {
    let mut object = bytes.to_vec();
    object.truncate(bytes.len().saturating_sub(DIGEST_BYTES));
    append_digest(&mut object);
    object
}

/// The bytes with the digest that a container's footer would have, if its row count were right.
fn with_footer_digest(bytes: &[u8]) -> Vec<u8> {
    let mut object = bytes.to_vec();
    let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return object;
    };
    // Rows offset, catalog offset and catalog length are between the header and the row count.
    let count_at = footer + HEADER_BYTES + 8 + 8 + 4;
    let count = bytes
        .get(count_at..count_at + 4)
        .and_then(|b| <[u8; 4]>::try_from(b).ok())
        .unwrap_or_default();
    let rows = (u32::from_le_bytes(count) as usize).saturating_mul(REGION_ROW_BYTES);
    let Some(begin) = footer.checked_sub(rows) else {
        return object;
    };
    object.truncate(bytes.len() - DIGEST_BYTES);
    let value = digest(object.get(begin..).unwrap_or_default());
    object.extend_from_slice(&value.to_le_bytes());
    object
}

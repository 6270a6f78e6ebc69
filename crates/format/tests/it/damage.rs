//! Rot and tears of structures with a digest: each one is detected, and attributed to the damaged
//! part.

use format::FormatError;
use format::config::Config;
use format::container::{ContainerTail, FOOTER_BYTES, HEADER_BYTES, TailParse};
use format::frame::Frame;
use format::wire::digest;

use crate::samples;

#[derive(Debug, PartialEq, Eq)]
enum Noticed {
    Header,
    Region(usize),
    Catalog,
    Trailer,
}

/// The result of a scrub of a container without a key.
fn scrub(object: &[u8]) -> Option<Noticed> {
    let Ok(TailParse::Whole(tail)) = ContainerTail::parse(object, object.len() as u64) else {
        return Some(Noticed::Trailer);
    };
    if object[..HEADER_BYTES] != tail.header.encode() {
        return Some(Noticed::Header);
    }
    for (n, row) in tail.rows.iter().enumerate() {
        let begin = row.offset as usize;
        if digest(&object[begin..begin + row.stored_len as usize]) != row.digest {
            return Some(Noticed::Region(n));
        }
    }
    tail.sealed_catalog().err().map(|_| Noticed::Catalog)
}

#[test]
fn every_flipped_bit_of_a_container_is_noticed_where_it_is() {
    let whole = samples::container();
    assert_eq!(scrub(&whole), None);
    for bit in 0..whole.len() * 8 {
        let mut object = whole.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            at if at < HEADER_BYTES => Noticed::Header,
            at if at < HEADER_BYTES + 60 => Noticed::Region(0),
            at if at < HEADER_BYTES + 77 => Noticed::Region(1),
            at if at < HEADER_BYTES + 167 => Noticed::Catalog,
            _ => Noticed::Trailer,
        };
        assert_eq!(scrub(&object), Some(expected), "bit {bit}");
    }
}

#[test]
fn every_changed_byte_of_header_rows_and_footer_is_noticed() {
    let whole = samples::container();
    let plain = (0..HEADER_BYTES).chain(whole.len() - FOOTER_BYTES - 2 * 40..whole.len());
    for at in plain {
        for value in 0..=255 {
            let mut object = whole.clone();
            if object[at] != value {
                object[at] = value;
                assert!(scrub(&object).is_some(), "byte {at} as {value}");
            }
        }
    }
}

#[test]
fn rot_and_tears_do_not_pass_for_a_later_version() {
    let whole = samples::container();
    let is_newer = |object: &[u8]| {
        let parsed = ContainerTail::parse(object, object.len() as u64);
        matches!(parsed, Err(FormatError::NewerVersion { .. }))
    };
    for bit in 0..whole.len() * 8 {
        let mut object = whole.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_newer(&object), "bit {bit}");
        assert!(!is_newer(&whole[..bit / 8]), "torn at {}", bit / 8);
    }
    let mut later = whole.clone();
    let footer = whole.len() - FOOTER_BYTES;
    for version in [footer + 8, footer + 100] {
        later[version] = 2;
    }
    assert!(is_newer(&later));
}

#[test]
fn every_torn_container_is_noticed() {
    let whole = samples::container();
    for len in 0..whole.len() {
        assert!(scrub(&whole[..len]).is_some(), "torn at {len}");
        let mut zeros = whole.clone();
        zeros[len..].fill(0);
        assert!(scrub(&zeros).is_some(), "zeros from {len}");
    }
    assert!(scrub(&[whole.as_slice(), &[0]].concat()).is_some(), "a byte more");
}

#[test]
fn every_flipped_bit_of_a_frame_is_noticed() {
    let whole = samples::frame();
    for bit in 0..whole.len() * 8 {
        let mut object = whole.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        assert!(Frame::split(&object).is_err(), "bit {bit}");
        assert!(Frame::split(&whole[..bit / 8]).is_err(), "torn at {}", bit / 8);
    }
}

#[test]
fn every_flipped_bit_of_a_config_is_damage_and_not_another_version() {
    let whole = samples::config().to_bytes();
    for bit in 0..whole.len() * 8 {
        let mut object = whole.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        match Config::decode(&object) {
            Err(FormatError::NotAStore) => assert!(bit < 64, "bit {bit}"),
            Err(FormatError::DigestMismatch { .. }) => assert!(bit >= 64, "bit {bit}"),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn a_rotten_header_costs_nothing() {
    let mut object = samples::container();
    object[..HEADER_BYTES].fill(0);
    let parsed = ContainerTail::parse(&object, object.len() as u64).unwrap();
    let TailParse::Whole(tail) = parsed else {
        panic!("all bytes are there")
    };
    assert_eq!(
        tail.header,
        samples::header(),
        "id and salt stand in the footer too"
    );
}

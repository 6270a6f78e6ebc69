//! Every value decodes to itself. Leftover or missing bytes and later versions are refused.

use format::FormatError;
use format::config::{Config, Settings};
use format::container::{Catalog, CatalogCopy, ContainerHeader, ContainerTail, TailParse, encode_trailer};
use format::container::{FOOTER_BYTES, HEADER_BYTES};
use format::frame::{Frame, FrameHeader, ObjectKind, append_digest};
use format::listing::{FencePage, ListingEntry};
use format::manifest::Manifest;
use format::node::Node;
use format::reclaim::{Condemned, Damaged, Marks, Removed};
use format::series::SeriesSettings;
use format::session::{Checkpoint, Claim, Heartbeat, Lease};
use proptest::prelude::*;

use crate::{samples, strategies as s};

macro_rules! payloads {
    ($($test:ident: $type:ty = $strategy:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $test(value in $strategy, cut: prop::sample::Index) {
                    value.check().unwrap();
                    let bytes = value.to_bytes();
                    prop_assert_eq!(&<$type>::decode(&bytes).unwrap(), &value);
                    prop_assert!(<$type>::decode(&bytes[..cut.index(bytes.len())]).is_err(), "cut off");
                    let longer = [bytes.as_slice(), &[0]].concat();
                    prop_assert!(<$type>::decode(&longer).is_err(), "left over");
                }
            )*
        }

        /// The version byte comes first in every payload.
        #[test]
        fn later_versions_are_named() {
            $(
                let later = FormatError::NewerVersion { what: "", found: 2, known: 1 };
                let Err(FormatError::NewerVersion { found, known, .. }) = <$type>::decode(&[2, 0, 0]) else {
                    panic!("{} is not {later}", stringify!($type));
                };
                assert_eq!((found, known), (2, 1));
                assert!(<$type>::decode(&[0, 0, 0]).is_err());
                assert!(<$type>::decode(&[]).is_err());
            )*
        }
    };
}

payloads! {
    catalog: Catalog = s::catalog();
    catalog_copy: CatalogCopy = s::catalog_copy();
    node: Node = s::node();
    settings: Settings = s::settings();
    manifest: Manifest = s::manifest();
    claim: Claim = s::claim();
    heartbeat: Heartbeat = s::heartbeat();
    checkpoint: Checkpoint = s::checkpoint();
    lease: Lease = s::lease();
    series_settings: SeriesSettings = s::series_settings();
    condemned: Condemned = s::condemned();
    removed: Removed = s::removed();
    marks: Marks = s::marks();
    damaged: Damaged = s::damaged();
}

proptest! {
    #[test]
    fn config(value in s::config()) {
        value.check().unwrap();
        let bytes = value.to_bytes();
        prop_assert_eq!(&Config::decode(&bytes).unwrap(), &value);
        prop_assert!(bytes.starts_with(&value.aad()));
        prop_assert!(bytes[value.aad().len()..].starts_with(&value.sealed_settings));
        let blank = Config { sealed_settings: Vec::new(), ..value.clone() };
        prop_assert_eq!(blank.aad(), value.aad(), "what is sealed does not enter its associated data");
    }

    #[test]
    fn header(value in s::header()) {
        prop_assert_eq!(ContainerHeader::decode(&value.encode()).unwrap(), value);
    }

    #[test]
    fn trailer(header in s::header(), (rows, footer) in s::trailer(), len: prop::sample::Index) {
        let mut object = vec![0xee; footer.rows_offset as usize];
        let row_bytes = encode_trailer(None, &rows);
        object.extend_from_slice(&row_bytes);
        object.extend_from_slice(&footer.encode(&header, &row_bytes));
        let object_len = object.len() as u64;

        let whole = ContainerTail::parse(&object, object_len).unwrap();
        let TailParse::Whole(tail) = whole else { panic!("all bytes are there") };
        prop_assert_eq!(&tail.rows, &rows);
        prop_assert_eq!((tail.header, tail.footer), (header, footer));

        // Any length of the end is either enough, or leads in at most two steps to enough.
        let mut tail_len = len.index(object.len());
        for _ in 0..2 {
            let end = &object[object.len() - tail_len..];
            match ContainerTail::parse(end, object_len).unwrap() {
                TailParse::Need { tail_bytes } => {
                    prop_assert!(tail_bytes > tail_len as u64);
                    tail_len = tail_bytes as usize;
                }
                TailParse::Whole(_) => break,
            }
        }
        let end = &object[object.len() - tail_len..];
        prop_assert_eq!(ContainerTail::parse(end, object_len).unwrap(), TailParse::Whole(tail));
    }

    #[test]
    fn frame(kind in prop::sample::select(ObjectKind::ALL.to_vec()), salt: [u8; 32], sealed in prop::collection::vec(any::<u8>(), 16..200)) {
        let header = FrameHeader { kind, salt };
        let mut object = header.encode().to_vec();
        object.extend_from_slice(&sealed);
        append_digest(&mut object);
        let frame = Frame::split(&object).unwrap();
        prop_assert_eq!(frame.header, header);
        prop_assert!(frame.header_bytes == header.encode().as_slice());
        prop_assert_eq!(frame.sealed, sealed.as_slice());
    }

    #[test]
    fn listing(entries in prop::collection::vec(s::entry(), 0..6), cut: prop::sample::Index) {
        let mut stream = Vec::new();
        for entry in &entries {
            entry.check().unwrap();
            let at = stream.len();
            entry.encode(&mut stream);
            let shorter = &stream[at..at + cut.index(stream.len() - at)];
            prop_assert_eq!(ListingEntry::decode_one(shorter).unwrap(), None, "more is to be read");
        }
        let mut rest = stream.as_slice();
        for entry in &entries {
            let (decoded, len) = ListingEntry::decode_one(rest).unwrap().unwrap();
            prop_assert_eq!(&decoded, entry);
            rest = &rest[len..];
        }
        prop_assert_eq!(ListingEntry::decode_one(rest).unwrap(), None);
    }

    #[test]
    fn fence_page(page in s::fence_page()) {
        let bytes = page.to_bytes();
        prop_assert_eq!(FencePage::decode_one(&bytes).unwrap(), Some((page, bytes.len())));
    }
}

#[test]
fn the_sample_container_matches_its_description() {
    let object = samples::container();
    let parsed = ContainerTail::parse(&object, object.len() as u64).unwrap();
    let TailParse::Whole(tail) = parsed else {
        panic!("all bytes are there")
    };
    assert_eq!(object[..HEADER_BYTES], tail.header.encode());
    assert_eq!(tail.sealed_catalog().unwrap(), samples::bytes::<90>(3));
    assert_eq!(tail.header, samples::header());
    assert_eq!(object.len(), HEADER_BYTES + 60 + 17 + 90 + 2 * 40 + FOOTER_BYTES);
}

#[test]
fn the_sample_of_a_trimmed_generation_matches_its_description() {
    let object = samples::trimmed_container();
    let parsed = ContainerTail::parse(&object, object.len() as u64).unwrap();
    let TailParse::Whole(tail) = parsed else {
        panic!("all bytes are there")
    };
    let body = tail.body.unwrap();
    assert_eq!(body.generation, samples::header().generation);
    assert_eq!(body.salt, samples::header().salt);
    assert_eq!(body.len, samples::container().len() as u64);
    assert_eq!(
        tail.rows.iter().map(|row| row.entry_count).collect::<Vec<_>>(),
        [3, 0]
    );
    assert!(object.ends_with(&tail.encode_plain()));
    // A too short end says how many bytes are needed, the body's record included.
    for len in 0..object.len() {
        match ContainerTail::parse(&object[object.len() - len..], object.len() as u64).unwrap() {
            TailParse::Need { tail_bytes } => assert!(tail_bytes > len as u64),
            TailParse::Whole(again) => assert_eq!(again, tail),
        }
    }
}

#[test]
fn a_config_error_names_its_reason() {
    let redigest = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 16);
        append_digest(&mut bytes);
        bytes
    };
    let bytes = samples::config().to_bytes();

    let mut newer = bytes.clone();
    newer[8..10].copy_from_slice(&7u16.to_le_bytes());
    let what = "config";
    assert_eq!(
        Config::decode(&redigest(newer)),
        Err(FormatError::NewerVersion {
            what,
            found: 7,
            known: 1
        })
    );

    let mut needs = bytes.clone();
    needs[12..20].copy_from_slice(&0x30u64.to_le_bytes());
    assert_eq!(
        Config::decode(&redigest(needs)),
        Err(FormatError::UnknownFeatures { unknown: 0x30 })
    );

    assert_eq!(Config::decode(b"#!/bin/sh\n"), Err(FormatError::NotAStore));
    assert_eq!(Config::decode(b""), Err(FormatError::NotAStore));
    assert_eq!(samples::config().features.unknown_to_write(), 1 << 40);

    let mut rotten = bytes;
    rotten[30] ^= 1;
    assert!(matches!(
        Config::decode(&rotten),
        Err(FormatError::DigestMismatch { .. })
    ));
}

//! Whatever byte is changed, length is cut, or object is swapped: reads give an error or the right
//! bytes, never wrong ones.

use container::{Compression, ContainerError, Part};
use env::Storage;
use env::fault::FaultStorage;
use format::container::{Codec, ContainerTail, HEADER_BYTES, RegionRow, TailParse};
use proptest::prelude::*;

use crate::store::*;

/// Reads everything. If that succeeds, it must be `expected`.
fn read_or_error(store: &mut Store, expected: &[Vec<u8>]) -> Option<ContainerError> {
    store.reopen();
    match store.read_all(data(1)) {
        Ok(chunks) => {
            assert_eq!(chunks, expected, "a wrong byte");
            None
        }
        Err(error) => Some(error),
    }
}

#[test]
fn every_flipped_byte_is_found() {
    let mut store = Store::new();
    let sealed = store.put(data(1), &sample());
    let (len, expected) = (sealed.bytes().len(), sample().concat());
    for at in 0..len {
        store.damage(&name(data(1), 0), |bytes| bytes[at] ^= 1 << (at % 8));
        let error = read_or_error(&mut store, &expected);
        if at >= HEADER_BYTES {
            let error = error.unwrap_or_else(|| panic!("byte {at} of {len} flipped and nothing said"));
            assert!(
                error.is_damage() || matches!(error, ContainerError::Incompatible { .. }),
                "{at}: {error}"
            );
        }
        let deep = store.containers.verify(data(1), container::Depth::Full).unwrap();
        assert!(!deep.is_sound(), "byte {at}: the deep check finds it");
        let keyless = container::verify_digests(&store.storage, &name(data(1), 0)).unwrap();
        assert!(!keyless.is_sound(), "byte {at}: digests alone find it");
        store.damage(&name(data(1), 0), |bytes| bytes[at] ^= 1 << (at % 8));
    }
    assert!(read_or_error(&mut store, &expected).is_none());
}

#[test]
fn every_truncation_is_torn() {
    let mut store = Store::new();
    let whole = store.put(data(1), &sample()).bytes().to_vec();
    for len in 0..whole.len() {
        store.damage(&name(data(1), 0), |bytes| bytes.truncate(len));
        let error = read_or_error(&mut store, &[]).expect("a torn object does not read");
        let is_torn = matches!(error, ContainerError::Torn { container, .. } if container == data(1));
        assert!(is_torn, "cut to {len} of {}: {error}", whole.len());
        store.damage(&name(data(1), 0), |bytes| bytes.clone_from(&whole));
    }
    store.damage(&name(data(1), 0), |bytes| bytes.push(0));
    assert!(
        matches!(read_or_error(&mut store, &[]), Some(ContainerError::Torn { .. })),
        "a byte too many"
    );
}

#[test]
fn zeros_are_torn() {
    let mut store = Store::new();
    let len = store.put(data(1), &sample()).bytes().len();
    for zeros in [0, 1, len, 300_000] {
        store.damage(&name(data(1), 0), |bytes| *bytes = vec![0; zeros]);
        assert!(
            matches!(read_or_error(&mut store, &[]), Some(ContainerError::Torn { .. })),
            "{zeros} zeros"
        );
    }
    // A crash left blocks of zeros in the middle.
    let store = Store::new();
    let sealed = store.put(data(1), &sample());
    let row = sealed.catalog().rows()[1];
    let at = usize::try_from(row.offset).unwrap();
    store.damage(&name(data(1), 0), |bytes| bytes[at..at + 20].fill(0));
    assert!(store.read(data(1), 0).is_ok(), "the other region is whole");
    let error = store.read(data(1), 3).unwrap_err();
    let expected_part = Part::Region(types::RegionIndex::new(1).unwrap());
    match error {
        ContainerError::DigestMismatch {
            container,
            part,
            offset,
            expected,
            ..
        } => {
            assert_eq!((container, part, offset), (data(1), expected_part, row.offset));
            assert_eq!(expected, row.digest);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn swapped_containers_are_noticed() {
    let mut store = Store::new();
    let one = store.put(data(1), &sample()).bytes().to_vec();
    let two = store.put(data(2), &[vec![noise(9, 10)]]).bytes().to_vec();
    store.damage(&name(data(1), 0), |bytes| *bytes = two);
    store.damage(&name(data(2), 0), |bytes| *bytes = one);
    store.reopen();
    for id in [data(1), data(2)] {
        let error = store.read_all(id).unwrap_err();
        assert!(
            matches!(error, ContainerError::WrongIdentity { container, .. } if container == id),
            "{error}"
        );
        assert!(
            !container::verify_digests(&store.storage, &name(id, 0))
                .unwrap()
                .is_sound()
        );
    }
}

#[test]
fn an_older_generation_does_not_pass_for_a_newer() {
    let mut store = Store::new();
    let old = store.put(data(1), &sample()).bytes().to_vec();
    store.put_survivors(data(1), 1, &[(4, &[7; 300])]);
    store.storage.delete(&name(data(1), 0)).unwrap();
    store.damage(&name(data(1), 1), |bytes| *bytes = old);
    store.reopen();
    assert!(matches!(
        store.read(data(1), 4),
        Err(ContainerError::WrongIdentity { .. })
    ));
}

#[test]
fn the_wrong_key_and_the_wrong_store_are_refused() {
    let storage = FaultStorage::new();
    let store = Store::on(storage.clone(), store_id(1), &keys(1));
    store.put(data(1), &sample());
    let stranger = Store::on(storage.clone(), store_id(1), &keys(9));
    let error = stranger.read(data(1), 0).unwrap_err();
    assert!(
        matches!(
            error,
            ContainerError::Forged {
                part: Part::Catalog,
                ..
            }
        ),
        "{error}"
    );
    let elsewhere = Store::on(storage, store_id(2), &keys(1));
    assert!(matches!(
        elsewhere.read(data(1), 0),
        Err(ContainerError::WrongIdentity { .. })
    ));
}

#[test]
fn another_domain_finds_no_chunk_to_be_its_own() {
    let storage = FaultStorage::new();
    Store::on(storage.clone(), store_id(1), &keys(1)).put(data(1), &sample());
    let mixed = crypto::MasterKeys {
        domain: keys(9).domain,
        encryption: keys(1).encryption,
    };
    let other = Store::on(storage, store_id(1), &mixed);
    let error = other.read(data(1), 1).unwrap_err();
    assert!(
        matches!(error, ContainerError::FingerprintMismatch { slot: at, .. } if at == slot(1)),
        "{error}"
    );
}

/// An attacker who can write to the storage can make digests right, but cannot make seals.
fn forge(whole: &[u8], change: impl FnOnce(&mut Vec<RegionRow>, &mut Vec<u8>)) -> Vec<u8> {
    let Ok(TailParse::Whole(mut tail)) = ContainerTail::parse(whole, whole.len() as u64) else {
        panic!("a whole container")
    };
    let mut body = whole[..usize::try_from(tail.footer.rows_offset).unwrap()].to_vec();
    change(&mut tail.rows, &mut body);
    for row in &mut tail.rows {
        let at = usize::try_from(row.offset).unwrap();
        if let Some(stored) = body.get(at..at + row.stored_len as usize) {
            row.digest = format::wire::digest(stored);
        }
    }
    let at = usize::try_from(tail.footer.catalog_offset).unwrap();
    tail.footer.catalog_digest = format::wire::digest(&body[at..]);
    body.extend_from_slice(&tail.encode_plain());
    body
}

#[test]
fn forged_bytes_with_right_digests_are_found() {
    let mut store = Store::new();
    let regions = vec![vec![noise(1, 64), noise(2, 64)], vec![noise(3, 64), noise(4, 64)]];
    let sealed = store.seal(data(1), 0, &regions, Compression::Off);
    store.containers.put(&sealed).unwrap();
    let whole = sealed.bytes().to_vec();
    let rows = sealed.catalog().rows().to_vec();
    let offset = |n: usize| usize::try_from(rows[n].offset).unwrap();

    let in_region = forge(&whole, |_, body| body[offset(1)] ^= 1);
    let in_catalog = forge(&whole, |_, body| *body.last_mut().unwrap() ^= 1);
    let swapped = forge(&whole, |_, body| {
        let (one, two) = (offset(0)..offset(0) + 144, offset(1)..offset(1) + 144);
        let first = body[one.clone()].to_vec();
        body.copy_within(two.clone(), one.start);
        body[two].copy_from_slice(&first);
    });
    let codec = forge(&whole, |rows, _| rows[0].codec = Codec::Zstd);
    let shifted = forge(&whole, |rows, _| {
        rows[0].entry_count = 1;
        rows[1].first_entry = 1;
        rows[1].entry_count = 3;
    });
    for (what, forged) in [
        ("region", in_region),
        ("catalog", in_catalog),
        ("swap", swapped),
        ("codec", codec),
        ("rows", shifted),
    ] {
        store.damage(&name(data(1), 0), |bytes| *bytes = forged);
        assert!(
            container::verify_digests(&store.storage, &name(data(1), 0))
                .unwrap()
                .is_sound(),
            "{what}"
        );
        let error =
            read_or_error(&mut store, &regions.concat()).unwrap_or_else(|| panic!("{what} unnoticed"));
        let kind = matches!(
            error,
            ContainerError::Forged { .. }
                | ContainerError::Decompress { .. }
                | ContainerError::Inconsistent { .. }
        );
        assert!(kind, "{what}: {error}");
        assert!(
            !store
                .containers
                .verify(data(1), container::Depth::Full)
                .unwrap()
                .is_sound(),
            "{what}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn any_bytes_under_the_name_are_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        keep_footer in any::<bool>(),
    ) {
        let mut store = Store::new();
        let whole = store.put(data(1), &sample()).bytes().to_vec();
        let mut bytes = bytes;
        if keep_footer {
            bytes.extend_from_slice(&whole[whole.len() - 144..]);
        }
        store.damage(&name(data(1), 0), |held| *held = bytes);
        prop_assert!(read_or_error(&mut store, &[]).is_some());
        container::verify_digests(&store.storage, &name(data(1), 0)).unwrap();
    }

    #[test]
    fn any_splice_is_an_error_or_the_right_bytes(
        at in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 1..64),
        digests in any::<bool>(),
    ) {
        let mut store = Store::new();
        let whole = store.put(data(1), &sample()).bytes().to_vec();
        let splice = |bytes: &mut Vec<u8>, from: usize| {
            let at = from + at.index(bytes.len() - from);
            for (byte, new) in bytes[at..].iter_mut().zip(&with) {
                *byte = *new;
            }
        };
        let changed = if digests {
            forge(&whole, |_, body| splice(body, HEADER_BYTES))
        } else {
            let mut bytes = whole;
            splice(&mut bytes, 0);
            bytes
        };
        store.damage(&name(data(1), 0), |held| *held = changed);
        read_or_error(&mut store, &sample().concat());
    }
}

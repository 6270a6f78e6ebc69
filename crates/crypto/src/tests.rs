//! Known answers, domain separation, tampering, and hostile slots.

use proptest::prelude::*;
use types::{Fingerprint, Level};

use crate::keys::derive;
use crate::lanes::{LaneWidth, keyed_hashes};
use crate::*;

fn domain() -> DomainKey {
    DomainKey::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

fn encryption() -> EncryptionKey {
    EncryptionKey::from_bytes(std::array::from_fn(|i| 0x80 + u8::try_from(i).unwrap()))
}

fn keys() -> MasterKeys {
    MasterKeys {
        domain: domain(),
        encryption: encryption(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

const TINY: Argon2Cost = Argon2Cost {
    memory_kib: 8,
    passes: 1,
    lanes: 1,
};

fn slot() -> SlotDerivation {
    SlotDerivation::Argon2id {
        salt: [7; 32],
        cost: TINY,
    }
}

/// Every stored byte depends on these: a change of one of them is a new format version. Other
/// implementations of BLAKE3, AES-GCM and Argon2id computed them a second time (except for the long
/// chunk and the gear table).
#[test]
fn known_answers_do_not_change() {
    let f = Fingerprinter::new(&domain());
    let mut node = f.node_hasher(Level::new(1).unwrap());
    node.push(&f.chunk(b"a"), 1);
    node.push(&f.zeros(4096), 4096);
    let gear = f.gear_table();
    let mut sealed = b"plain".to_vec();
    encryption()
        .seal_key("object", &[9; 32])
        .seal(3, b"name", &mut sealed, 0);
    let open = SlotDerivation::NoPassword { salt: [7; 32] };
    let found = [
        ("empty chunk", f.chunk(b"").to_string()),
        ("short chunk", f.chunk(b"onefold").to_string()),
        ("long chunk", f.chunk(&vec![0x5a; 70_000]).to_string()),
        ("zeros", f.zeros(0x1_0000_0001).to_string()),
        ("node", node.finish().to_string()),
        ("gear", format!("{:04x} {:04x}", gear[0], gear[75])),
        ("series", encryption().series_id(b"host\0/home").to_string()),
        ("sealed", hex(&sealed)),
        (
            "slot",
            hex(&wrap(Credential::Password(b"secret"), &slot(), b"slot", &keys()).unwrap()),
        ),
        (
            "open slot",
            hex(&wrap(Credential::NoPassword, &open, b"slot", &keys()).unwrap()),
        ),
    ];
    for ((what, found), expected) in found.iter().zip(GOLDEN) {
        assert_eq!(found, expected, "{what}");
    }
}

/// Each way to get threads gives the same keys: repeatedly on one thread, and on new threads.
#[test]
fn lanes_are_the_same_on_many_threads_on_one_and_where_there_are_none_to_be_had() {
    use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

    type PoolOf = fn(usize) -> Result<ThreadPool, ThreadPoolBuildError>;
    let scarce: PoolOf = |threads| {
        let none = |_| Err(std::io::Error::from(std::io::ErrorKind::WouldBlock));
        let pool = ThreadPoolBuilder::new().num_threads(threads);
        pool.spawn_handler(none).build()
    };
    let many: PoolOf = |threads| ThreadPoolBuilder::new().num_threads(threads).build();
    let hash = |lanes, pool_of| {
        let params = argon2::Params::new(64, 2, lanes, Some(32)).unwrap();
        let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        let mut out = [0; 32];
        let (hashed, threads) = crate::slot::on_threads(lanes, pool_of, || {
            let hashed = argon2.hash_password_into(b"secret", &[7; 32], &mut out);
            (hashed, rayon::current_num_threads())
        });
        hashed.unwrap();
        (hex(&out), threads)
    };
    let each = || {
        for _ in 0..2 {
            for (lanes, known) in LANES {
                let (found, threads) = hash(lanes, many);
                assert_eq!(found, known, "{lanes} lanes");
                assert!(threads <= usize::try_from(lanes).unwrap(), "{threads} threads");
                assert_eq!(
                    hash(lanes, scarce),
                    (known.to_owned(), 1),
                    "{lanes} lanes, no threads"
                );
            }
        }
    };
    each();
    std::thread::scope(|scope| scope.spawn(each).join().unwrap());
}

/// Computed by the reference implementation of Argon2.
const LANES: [(u32, &str); 2] = [
    (
        1,
        "6449334afa8ef97acf06a5c0466eba587e8060d9a2e561147d6416105660e693",
    ),
    (
        4,
        "557ea892eded926272541b0bcff576bdae6952d293655438395ba8e386f05025",
    ),
];

const GOLDEN: [&str; 10] = [
    "e71081430c93c609fb2b0576a4cfc109039af016caef616253a4f637cda94552",
    "8e76c871128e878109e8bf380757342dfb62c5d00d98da2598982b51bd7027bd",
    "407dc98bc80355d29312ddc0b3cbf9c059de2b6fa23b48616ce4f0d500116045",
    "0b7193d4dae8ad5ace9b6a8f1909792a19ba2ef9a5460f1762e6d7d0ce3cfcd4",
    "451c61c0ef9f0818a85820475fb94b0956cd1267b922d431e77e7384beb4da5d",
    "2ab7 db00",
    "f8933e3a4b10bccd43d6ed54f78849f8",
    "f5c68f77861877050d9856788181ea48bcce312659",
    "ba0b9a98fb20bd2e01c267fcec8feb4f2931c82ee72bf88e0390a375e41fe7ca206a71baeed4edaa64cafc9be4d27e69d6f8751448ab633d4a6c5c1c85469c543a33d13d76f663b2a80741ed36700aa0",
    "228dd8950887a4973cb829fa1cfa60bbe2047e3277349a353c04a717ca204300afe76310921aac29fa928279e6812df9185bc23f1e8806050bfd8cf646786f4bc64ed884d4abb0d49147f7503dbc9b9d",
];

/// The definitions of docs/format.md, written out a second time over the plain primitives.
#[test]
fn derivations_are_as_documented() {
    let kdf = |key: &[u8; 32], purpose: &str, salt: [u8; 32]| {
        let mut input = (purpose.len() as u64).to_le_bytes().to_vec();
        input.extend_from_slice(purpose.as_bytes());
        input.extend_from_slice(&salt);
        *blake3::keyed_hash(key, &input).as_bytes()
    };
    assert_eq!(*derive(&[3; 32], "p", &[4; 32]), kdf(&[3; 32], "p", [4; 32]));
    let f = Fingerprinter::new(&domain());
    let chunk = blake3::keyed_hash(&kdf(domain().as_bytes(), "chunk", [0; 32]), b"abc");
    assert_eq!(f.chunk(b"abc").as_bytes(), chunk.as_bytes());
    let mut children = vec![2u8];
    children.extend_from_slice(f.chunk(b"abc").as_bytes());
    children.extend_from_slice(&77u64.to_le_bytes());
    let node = blake3::keyed_hash(&kdf(domain().as_bytes(), "node", [0; 32]), &children);
    let mut hasher = f.node_hasher(Level::new(2).unwrap());
    hasher.push(&f.chunk(b"abc"), 77);
    assert_eq!(hasher.finish().as_bytes(), node.as_bytes());
}

/// AES-256-GCM test case 14 of McGrew and Viega's specification: key, nonce and plaintext all zero.
#[test]
fn sealing_is_aes_256_gcm() {
    let key = SealKey::new(&[0; 32]);
    let mut buf = vec![0; 16];
    key.seal(0, b"", &mut buf, 0);
    assert_eq!(
        hex(&buf),
        "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"
    );
}

#[test]
fn every_use_has_its_own_key() {
    let f = Fingerprinter::new(&domain());
    let len = 4096u64.to_le_bytes();
    let mut as_child_list = vec![1u8];
    as_child_list.extend_from_slice(f.chunk(b"x").as_bytes());
    as_child_list.extend_from_slice(&1u64.to_le_bytes());
    let node = |level| {
        let mut n = f.node_hasher(Level::new(level).unwrap());
        n.push(&f.chunk(b"x"), 1);
        n.finish()
    };
    let all: Vec<Fingerprint> = vec![
        f.chunk(&len),
        f.zeros(4096),
        f.zeros(4097),
        f.chunk(&[0; 4096]),
        f.chunk(&as_child_list),
        node(1),
        node(2),
        Fingerprinter::new(&DomainKey::from_bytes([1; 32])).chunk(&len),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());

    // A purpose never runs into its salt, and purposes do not share keys.
    let derived = [
        *derive(&[1; 32], "ab", &[b'c'; 32]),
        *derive(&[1; 32], "abc", &[b'c'; 32]),
        *derive(&[1; 32], "", &[b'c'; 32]),
        *derive(&[1; 32], "ab", &[b'd'; 32]),
        *derive(&[2; 32], "ab", &[b'c'; 32]),
    ];
    let distinct: std::collections::BTreeSet<_> = derived.iter().collect();
    assert_eq!(distinct.len(), derived.len());
}

#[test]
fn the_hash_of_a_node_covers_its_childrens_lengths_order_and_number() {
    let f = Fingerprinter::new(&domain());
    let (a, b) = (f.chunk(b"a"), f.chunk(b"b"));
    let of = |children: &[(Fingerprint, u64)]| {
        let mut n = f.node_hasher(Level::new(1).unwrap());
        children.iter().for_each(|(fp, len)| n.push(fp, *len));
        n.finish()
    };
    let all = [
        of(&[]),
        of(&[(a, 1)]),
        of(&[(a, 2)]),
        of(&[(a, 1), (b, 1)]),
        of(&[(b, 1), (a, 1)]),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn the_gear_table_is_of_random_words_and_follows_the_domain() {
    let table = Fingerprinter::new(&domain()).gear_table();
    let distinct: std::collections::BTreeSet<_> = table.iter().collect();
    assert!(distinct.len() > 70, "{} distinct words", distinct.len());
    assert_ne!(
        table,
        Fingerprinter::new(&DomainKey::from_bytes([1; 32])).gear_table()
    );
}

#[test]
fn nothing_prints_key_bytes() {
    let (salt, credential) = ([9; 32], Credential::Password(b"hunter2"));
    let mut node = Fingerprinter::new(&domain()).node_hasher(Level::new(1).unwrap());
    node.push(&Fingerprint::from_bytes([1; 32]), 1);
    let shown = format!(
        "{:?} {:?} {:?} {:?} {node:?} {credential:?}",
        keys(),
        Fingerprinter::new(&domain()),
        encryption().seal_key("object", &salt),
        encryption(),
    );
    assert_eq!(
        shown,
        "MasterKeys { domain: DomainKey(..), encryption: EncryptionKey(..) } Fingerprinter(..) SealKey(..) \
         EncryptionKey(..) NodeHasher(..) Password(..)"
    );
}

#[test]
fn the_wrong_password_store_or_slot_does_not_open() {
    let wrapped = wrap(
        Credential::Password(b"secret"),
        &slot(),
        b"store 1 slot 1",
        &keys(),
    )
    .unwrap();
    let open = |password: &'static [u8], derivation: &SlotDerivation, aad: &[u8]| {
        unwrap(Credential::Password(password), derivation, aad, &wrapped)
    };
    let opened = open(b"secret", &slot(), b"store 1 slot 1").unwrap();
    assert_eq!(opened.domain.as_bytes(), domain().as_bytes());
    assert_eq!(opened.encryption.as_bytes(), encryption().as_bytes());

    let other_salt = SlotDerivation::Argon2id {
        salt: [8; 32],
        cost: TINY,
    };
    let other_cost = SlotDerivation::Argon2id {
        salt: [7; 32],
        cost: Argon2Cost { passes: 2, ..TINY },
    };
    for (password, derivation, aad) in [
        (&b"Secret"[..], slot(), &b"store 1 slot 1"[..]),
        (b"", slot(), b"store 1 slot 1"),
        (b"secret", slot(), b"store 2 slot 1"),
        (b"secret", other_salt, b"store 1 slot 1"),
        (b"secret", other_cost, b"store 1 slot 1"),
    ] {
        let refused = unwrap(Credential::Password(password), &derivation, aad, &wrapped);
        assert_eq!(refused.err(), Some(CryptoError::WrongPassword));
    }
}

#[test]
fn a_slot_is_opened_only_by_its_own_kind_of_credential() {
    let without = SlotDerivation::NoPassword { salt: [7; 32] };
    let planted = wrap(Credential::NoPassword, &without, b"", &keys()).unwrap();
    assert!(unwrap(Credential::NoPassword, &without, b"", &planted).is_ok());
    let refused = unwrap(Credential::Password(b"secret"), &without, b"", &planted);
    assert_eq!(refused.err(), Some(CryptoError::OtherCredential));
    let refused = unwrap(Credential::NoPassword, &slot(), b"", &planted);
    assert_eq!(refused.err(), Some(CryptoError::OtherCredential));
}

#[test]
fn a_hostile_slot_cannot_ask_for_the_moon() {
    for cost in [
        Argon2Cost {
            memory_kib: MEMORY_KIB_MAX + 1,
            ..TINY
        },
        Argon2Cost {
            memory_kib: u32::MAX,
            passes: u32::MAX,
            lanes: u32::MAX,
        },
        Argon2Cost {
            memory_kib: 7,
            ..TINY
        },
        Argon2Cost {
            memory_kib: 0,
            passes: 0,
            lanes: 0,
        },
        Argon2Cost {
            memory_kib: 15,
            passes: 1,
            lanes: 2,
        },
        Argon2Cost {
            passes: PASSES_MAX + 1,
            ..TINY
        },
        Argon2Cost { passes: 0, ..TINY },
        Argon2Cost {
            memory_kib: 1024,
            passes: 1,
            lanes: LANES_MAX + 1,
        },
        Argon2Cost { lanes: 0, ..TINY },
    ] {
        let derivation = SlotDerivation::Argon2id { salt: [0; 32], cost };
        let refused = unwrap(Credential::Password(b"p"), &derivation, b"", &[0; 80]).err();
        assert!(
            matches!(refused, Some(CryptoError::CostOutOfRange { .. })),
            "{cost:?}: {refused:?}"
        );
    }
    let most = Argon2Cost {
        memory_kib: MEMORY_KIB_MAX,
        passes: PASSES_MAX,
        lanes: LANES_MAX,
    };
    assert_eq!(most.check(), Ok(()));
    assert_eq!(Argon2Cost::default().check(), Ok(()));
}

#[test]
fn wrapped_keys_of_any_length_are_refused_quietly() {
    for len in [0, 1, 15, 16, 17, 48, 79, 81, 200] {
        let refused = unwrap(Credential::Password(b"p"), &slot(), b"", &vec![0; len]).err();
        assert_eq!(refused, Some(CryptoError::WrongPassword));
    }
    // Sealed under the right key, but with a wrong length inside.
    for len in [0, 31, 63, 65] {
        let salt = [7; 32];
        let key = SealKey::new(&derive(&[0; 32], "no password", &salt));
        let mut buf = vec![1; len];
        key.seal(0, b"", &mut buf, 0);
        let refused = unwrap(
            Credential::NoPassword,
            &SlotDerivation::NoPassword { salt },
            b"",
            &buf,
        )
        .err();
        assert_eq!(refused, Some(CryptoError::WrongPassword));
    }
}

proptest! {
    #[test]
    fn only_sealed_bytes_open(
        plain in proptest::collection::vec(any::<u8>(), 0..300),
        head in proptest::collection::vec(any::<u8>(), 0..20),
        nonce in any::<u64>(),
        aad in proptest::collection::vec(any::<u8>(), 0..40),
        flip in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let key = encryption().seal_key("object", &[1; 32]);
        let mut buf = head.clone();
        buf.extend_from_slice(&plain);
        key.seal(nonce, &aad, &mut buf, head.len());
        prop_assert_eq!(&buf[..head.len()], &head[..]);
        prop_assert_eq!(buf.len(), head.len() + plain.len() + TAG_BYTES);
        let sealed = buf[head.len()..].to_vec();

        let mut opened = sealed.clone();
        prop_assert_eq!(&*key.open(nonce, &aad, &mut opened).unwrap(), &plain[..]);

        let refuses = |key: &SealKey, nonce: u64, aad: &[u8], mut bytes: Vec<u8>| {
            key.open(nonce, aad, &mut bytes).err() == Some(CryptoError::NotAuthentic)
        };
        let mut changed = sealed.clone();
        changed[flip.index(sealed.len())] ^= 1 << bit;
        prop_assert!(refuses(&key, nonce, &aad, changed));
        prop_assert!(refuses(&key, nonce, &aad, sealed[..flip.index(sealed.len())].to_vec()));
        prop_assert!(refuses(&key, nonce ^ (1 << 63), &aad, sealed.clone()));
        prop_assert!(refuses(&key, nonce, &[&aad[..], b"x"].concat(), sealed.clone()));
        prop_assert!(refuses(&encryption().seal_key("object", &[2; 32]), nonce, &aad, sealed.clone()));
        prop_assert!(refuses(&encryption().seal_key("region", &[1; 32]), nonce, &aad, sealed.clone()));
    }

    #[test]
    fn hostile_slots_never_panic(
        wrapped in proptest::collection::vec(any::<u8>(), 0..120),
        memory_kib in prop_oneof![0..64u32, (MEMORY_KIB_MAX + 1)..u32::MAX],
        passes in prop_oneof![0..3u32, (PASSES_MAX + 1)..u32::MAX],
        lanes in any::<u32>(),
        salt in any::<[u8; 32]>(),
    ) {
        let cost = Argon2Cost { memory_kib, passes, lanes: if lanes % 2 == 0 { lanes % 4 } else { lanes } };
        let derivation = SlotDerivation::Argon2id { salt, cost };
        prop_assert!(unwrap(Credential::Password(b"p"), &derivation, b"", &wrapped).is_err());
    }
}

/// Different inputs of these lengths.
fn inputs(lens: &[usize]) -> Vec<Vec<u8>> {
    let all = lens.iter().enumerate();
    all.map(|(n, &len)| {
        (0..len)
            .map(|i| (i * 31 + i / 251 + n * 17).to_le_bytes()[0])
            .collect()
    })
    .collect()
}

/// The hashes equal those of BLAKE3's own library, for every width of lanes.
fn hashes_are_right(lens: &[usize]) {
    let inputs = inputs(lens);
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let key = [0x42; 32];
    let expected: Vec<[u8; 32]> = inputs
        .iter()
        .map(|input| *blake3::keyed_hash(&key, input).as_bytes())
        .collect();
    for width in LaneWidth::available() {
        let mut found = Vec::new();
        keyed_hashes(width, &key, &inputs, |hash| found.push(hash));
        assert_eq!(found.len(), expected.len());
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{width:?}, {} bytes of {lens:?}", lens[n]);
        }
    }
}

#[test]
fn side_by_side_hashes_are_those_of_blake3_at_every_length() {
    let lens: Vec<usize> = (0..2200).collect();
    hashes_are_right(&lens);
    for len in 0..200 {
        hashes_are_right(&[len, 17 << 10, len]);
    }
    // Every shape of tree up to 70 leaves, whole and with a last leaf of one byte.
    let lens: Vec<usize> = (1..70usize).flat_map(|n| [n << 10, (n << 10) + 1]).collect();
    hashes_are_right(&lens);
    hashes_are_right(&[1 << 20, 0, 0, 1, (1 << 20) + 77]);
    hashes_are_right(&[]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]
    #[test]
    fn side_by_side_hashes_are_those_of_blake3(lens in prop::collection::vec(
        prop_oneof![4 => 0..70_000usize, 2 => 0..3000usize, 1 => (0..40usize).prop_map(|n| n << 10)], 0..40,
    )) {
        hashes_are_right(&lens);
    }
}

#[test]
fn fingerprints_of_many_chunks_are_those_of_each() {
    let f = Fingerprinter::new(&domain());
    let chunks = inputs(&[9000, 100, 0, 65_536, 4096, 5000, 12_345]);
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let mut found = vec![f.chunk(b"before")];
    f.chunks(&chunks, &mut found);
    let expected: Vec<Fingerprint> = std::iter::once(f.chunk(b"before"))
        .chain(chunks.iter().map(|chunk| f.chunk(chunk)))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(Fingerprinter::lane_counts()[0], 1);
    for lanes in Fingerprinter::lane_counts() {
        let mut found = Vec::new();
        f.chunks_by(lanes, &chunks, &mut found);
        assert_eq!(found, expected[1..], "{lanes} lanes");
    }
}

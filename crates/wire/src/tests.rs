//! Messages are read as they were written, and other bytes are refused.

use std::borrow::Cow;

use crypto::{DomainKey, Fingerprinter};
use env::ObjectMeta;
use format::config::Settings;
use format::manifest::{SeriesName, StreamRole};
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    CopiedRun, Granularity, Offer, OfferedChild, OfferedPlace, OfferedSegment, ResumedStream, Stream, Terms,
};
use ingest::{Verdict, Wanted};
use proptest::prelude::*;
use recipe::{Child, Place, TreeRoot};
use types::{ByteRange, ChunkLocation, Fingerprint, Level, ObjectName, SessionId, UnixNanos};

use crate::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn again<T: Wire>(value: &T) -> T {
    T::from_bytes(&value.to_bytes()).unwrap()
}

fn begin() -> Begin {
    Begin {
        name: SeriesName {
            host: b"host".to_vec(),
            paths: vec![b"/etc".to_vec(), b"/home".to_vec()],
        },
        streams: vec![Stream {
            role: StreamRole::Whole,
            lane: Lane::Content,
            fixed_chunk_bytes: Some(65_536),
        }],
        parents: Parents::Named(vec![SessionId::new(7).unwrap()]),
        is_suspect: false,
        insists: true,
        resumes: false,
        continues: vec![SessionId::new(6).unwrap()],
        attempt: 0x0807_0605_0403_0201,
        replaces: vec![9],
    }
}

#[test]
fn messages_have_their_golden_bytes() {
    let hello = Hello {
        versions: (1, 1),
        program: "onefold 0.1.0".to_owned(),
    };
    assert_eq!(
        hex(&hello.to_bytes()),
        "6f6e65666f6c6431010001000d6f6e65666f6c6420302e312e30"
    );
    assert_eq!(again(&hello), hello);
    assert_eq!(
        hex(&begin().to_bytes()),
        "04686f737402042f657463052f686f6d65010300010000010001010700010001060102030405060708010900000000000000"
    );
    assert_eq!(again(&begin()), begin());
    let brief = vec![
        Sent::Offer(Offer::Brief {
            stream: StreamIndex(1),
            fingerprint: Fingerprint::from_bytes([0xab; 32]),
            len: 4 << 20,
        }),
        Sent::Offer(Offer::Children {
            stream: StreamIndex(1),
            children: vec![OfferedChild {
                fingerprint: Fingerprint::from_bytes([0xcd; 32]),
                len: 300,
                place: OfferedPlace::Client,
            }],
        }),
    ];
    let copies = vec![Sent::Copies(CopiedRun {
        stream: StreamIndex(1),
        first: location(),
        count: 300,
        proof: Fingerprint::from_bytes([0xef; 32]),
    })];
    let expected = ["01", "010100", "020000210000000008", "ac02", &"ef".repeat(32)].concat();
    assert_eq!(hex(&copies.to_bytes()), expected);
    assert_eq!(hex(&again(&copies).to_bytes()), expected);
    let expected = [
        "02",
        "040100",
        &"ab".repeat(32),
        "80808002",
        "05010001",
        &"cd".repeat(32),
        "ac0200",
    ];
    assert_eq!(hex(&brief.to_bytes()), expected.concat());
    assert_eq!(hex(&again(&brief).to_bytes()), expected.concat());
    let refusal = Refusal::new(RefusalKind::NotAllowed, "no");
    assert_eq!(hex(&refusal.to_bytes()), "02026e6f");
    assert_eq!(again(&refusal), refusal);
}

#[test]
fn children_have_their_golden_bytes() {
    let child = |number: u8, at: ChunkLocation, len| Child {
        fingerprint: Fingerprint::from_bytes([number; 32]),
        logical_len: len,
        level: Level::new(1).unwrap(),
        place: Place::At(at),
        containers_max: 5,
    };
    let next = ChunkLocation {
        slot: types::Slot::new(9).unwrap(),
        ..location()
    };
    let nodes = SentChildren {
        node: location(),
        children: vec![
            child(0xab, location(), 300),
            child(0xcd, next, 1),
            child(0xef, location(), 2),
        ],
    };
    let at = "020000210000000008";
    let expected = [
        at,
        "01",
        "03",
        "02",
        at,
        &"ab".repeat(32),
        "ac0205",
        "01",
        &"cd".repeat(32),
        "0105",
        "02",
        at,
        &"ef".repeat(32),
        "0205",
    ];
    assert_eq!(hex(&nodes.to_bytes()), expected.concat());
    assert_eq!(again(&nodes), nodes);
    let chunks = SentChildren {
        node: location(),
        children: vec![
            Child::chunk(Fingerprint::from_bytes([1; 32]), 7, location()),
            Child::zeros(Fingerprint::from_bytes([2; 32]), 1 << 20),
            Child::chunk(Fingerprint::from_bytes([3; 32]), 9, next),
        ],
    };
    assert_eq!(again(&chunks), chunks);
    // The first child has nothing before it, and zeros are above no chunk.
    for (at, wrong) in [(11, 1), (11, 0), (11, 3), (9, 0xff)] {
        let mut bytes = nodes.to_bytes();
        bytes[at] = wrong;
        assert!(SentChildren::from_bytes(&bytes).is_err(), "{at}: {wrong}");
    }
}

#[test]
fn messages_for_vaults_have_their_golden_bytes() {
    let name = |text: &str| ObjectName::new(text).unwrap();
    let range = |offset, len| ByteRange { offset, len };
    let told = LoggedIn {
        vault: Some([7; 16]),
        rights: "write".to_owned(),
    };
    assert_eq!(
        hex(&told.to_bytes()),
        ["01", &"07".repeat(16), "057772697465"].concat()
    );
    assert_eq!(again(&told), told);
    let part = PutPart {
        name: name("data/x"),
        upload: 3,
        offset: 300,
        is_again: true,
        is_last: false,
        bytes: Cow::Borrowed(&[1, 2]),
    };
    assert_eq!(hex(&part.to_bytes()), "06646174612f7803000000ac020100020102");
    assert_eq!(again(&part), part);
    let requests = [
        (StorageRequest::Get(name("a"), WantedBytes::All), "00016100"),
        (
            StorageRequest::Get(name("a"), WantedBytes::Range(range(1, 2))),
            "0001610101000000000000000200000000000000",
        ),
        (
            StorageRequest::Get(name("a"), WantedBytes::Tail(5)),
            "000161020500000000000000",
        ),
        (StorageRequest::Head(name("a")), "010161"),
        (StorageRequest::List(String::new()), "0200"),
        (
            StorageRequest::ListIn("s".to_owned(), vec!["1".to_owned()]),
            "030173010131",
        ),
        (StorageRequest::ListFolders("s".to_owned()), "040173"),
        (StorageRequest::Delete(name("a")), "050161"),
        (StorageRequest::CanTrim(name("a")), "060161"),
        (
            StorageRequest::Trim(name("a"), name("b"), vec![range(0, 1)]),
            "07016101620100000000000000000100000000000000",
        ),
        (StorageRequest::DropFolder("s".to_owned()), "080173"),
        (StorageRequest::Barrier, "09"),
    ];
    for (request, golden) in requests {
        assert_eq!(hex(&request.to_bytes()), golden, "{request:?}");
        assert_eq!(again(&request), request);
    }
    let listed = vec![ObjectMeta {
        name: name("a"),
        len: 300,
        space: 200,
        put_at: UnixNanos::new(5),
    }];
    assert_eq!(hex(&listed.to_bytes()), "010161ac02c8010500000000000000");
    assert_eq!(again(&listed), listed);
}

/// The largest part of an object fits into a frame, and so does the longest listing.
#[test]
fn parts_of_vaults_fit_into_frames() {
    let name = ObjectName::new("n".repeat(types::OBJECT_NAME_BYTES_MAX)).unwrap();
    let part = PutPart {
        name: name.clone(),
        upload: u32::MAX,
        offset: u64::MAX,
        is_again: true,
        is_last: true,
        bytes: Cow::Owned(vec![0; PUT_BYTES_MAX]),
    };
    assert!(part.to_bytes().len() <= FRAME_BYTES_MAX);
    const { assert!(GOT_BYTES_MAX + 8 <= FRAME_BYTES_MAX) };
    let meta = ObjectMeta {
        name,
        len: u64::MAX,
        space: u64::MAX,
        put_at: UnixNanos::new(i64::MAX),
    };
    let listed = vec![meta; LISTED_MAX];
    let bytes = listed.to_bytes();
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    assert_eq!(Vec::<ObjectMeta>::from_bytes(&bytes).unwrap().len(), LISTED_MAX);
}

#[test]
fn the_newest_common_version_is_spoken() {
    let of = |oldest, newest| {
        let hello = Hello {
            versions: (oldest, newest),
            program: String::new(),
        };
        hello.common_version()
    };
    assert_eq!(of(0, 1), Some(1));
    assert_eq!(of(1, 9), Some(1));
    assert_eq!(of(2, 9), None, "a client that no longer speaks our version");
    assert_eq!(of(0, 0), None);
    assert_eq!(of(9, 1), None, "a client that contradicts itself");
    let mut other = Hello::new("x").to_bytes();
    other[0] ^= 1;
    assert!(
        Hello::from_bytes(&other).is_err(),
        "the first bytes of another protocol"
    );
}

#[test]
fn keys_arrive_and_compute_the_same_fingerprints() {
    let fingerprinter = Fingerprinter::new(&DomainKey::from_bytes([9; 32]));
    let root = TreeRoot {
        location: location(),
        level: Level::new(2).unwrap(),
        fingerprint: Fingerprint::from_bytes([3; 32]),
        len: 1 << 33,
    };
    let terms = Terms {
        fingerprinter: fingerprinter.clone(),
        settings: settings(),
        granularity: Granularity::Segment { avg_bytes: 1 << 20 },
        is_suspect: true,
        has_previous: true,
        resumed: vec![ResumedStream {
            len: 5,
            last: Some(root),
        }],
    };
    let got = again(&terms);
    assert_eq!(got.fingerprinter.chunk(b"x"), fingerprinter.chunk(b"x"));
    assert_eq!(got.fingerprinter.zeros(9), fingerprinter.zeros(9));
    assert_eq!(got.fingerprinter.gear_table(), fingerprinter.gear_table());
    let node = |printer: &Fingerprinter| {
        let mut hasher = printer.node_hasher(Level::new(1).unwrap());
        hasher.push(&Fingerprint::from_bytes([1; 32]), 77);
        hasher.finish()
    };
    assert_eq!(node(&got.fingerprinter), node(&fingerprinter));
    assert_eq!(
        (got.settings, got.granularity),
        (terms.settings, terms.granularity)
    );
    assert_eq!((got.is_suspect, got.has_previous), (true, true));
    assert_eq!(got.resumed, terms.resumed);
}

fn settings() -> Settings {
    Settings {
        chunk_avg_bytes: 8 << 10,
        chunk_min_bytes: 2 << 10,
        chunk_max_bytes: 64 << 10,
        node_avg_children: 512,
        region_bytes: 128 << 10,
        container_bytes: 16 << 20,
    }
}

fn location() -> ChunkLocation {
    ChunkLocation {
        container: types::ContainerId {
            session: SessionId::new(4).unwrap(),
            kind: types::ContainerKind::Recipe,
            sequence: types::SequenceNumber::new(2).unwrap(),
        },
        slot: types::Slot::new(8).unwrap(),
    }
}

fn child() -> impl Strategy<Value = OfferedChild> {
    let place = prop_oneof![
        Just(OfferedPlace::Client),
        Just(OfferedPlace::Zeros),
        Just(OfferedPlace::Stored(location())),
    ];
    (any::<[u8; 32]>(), any::<u64>(), place).prop_map(|(fingerprint, len, place)| OfferedChild {
        fingerprint: Fingerprint::from_bytes(fingerprint),
        len,
        place,
    })
}

proptest! {
    #[test]
    fn segments_are_read_as_they_were_written(
        children in prop::collection::vec(child(), 0..20), fingerprint: [u8; 32], len: u64, stream: u16,
    ) {
        let segment = OfferedSegment { fingerprint: Fingerprint::from_bytes(fingerprint), len, children };
        let sent = Sent::Offer(Offer::Segment { stream: StreamIndex(stream), segment: segment.clone() });
        match again(&sent) {
            Sent::Offer(Offer::Segment { stream: of, segment: got }) => {
                prop_assert_eq!((of, got), (StreamIndex(stream), segment));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn verdicts_are_read_as_they_were_written(
        wanted in prop::collection::vec((any::<u32>(), any::<bool>(), any::<u64>()), 0..20), stream: u16,
    ) {
        let lane = |is_metadata| if is_metadata { Lane::Metadata } else { Lane::Content };
        let wanted = wanted.into_iter().map(|(child, is_metadata, ordinal)| Wanted {
            child,
            new: NewChunk { lane: lane(is_metadata), ordinal },
            chunk: None,
        });
        let stream = StreamIndex(stream);
        let verdicts = vec![
            Verdict::Segment { stream, wanted: wanted.collect() },
            Verdict::Waits(stream),
            Verdict::Unknown(stream),
            Verdict::Flush(None),
            Verdict::Flush(Some(Lane::Metadata)),
            Verdict::Done,
        ];
        prop_assert_eq!(again(&verdicts), verdicts);
    }

    /// Hostile bytes are refused, or are a message. They never cause a panic, and never allocate
    /// more than a small multiple of their own length.
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn changed_messages_are_messages_or_errors(at in 0..200_usize, byte: u8, kind in 0..4_usize) {
        let terms = Terms {
            fingerprinter: Fingerprinter::new(&DomainKey::from_bytes([9; 32])),
            settings: settings(),
            granularity: Granularity::Chunk,
            is_suspect: false,
            has_previous: false,
            resumed: Vec::new(),
        };
        let mut bytes = match kind {
            0 => begin().to_bytes(),
            1 => terms.to_bytes(),
            2 => Hello::new("onefold").to_bytes(),
            _ => (location(), ByteRange { offset: 1, len: 2 }).to_bytes(),
        };
        let at = at % bytes.len();
        bytes[at] = byte;
        read_all(&bytes);
        read_all(&bytes[..at]);
    }
}

/// As each kind of message.
fn read_all(bytes: &[u8]) {
    for kind in 0..=24 {
        crate::probe::message(&[&[kind], bytes].concat());
    }
}

/// A short message cannot take much memory: each element is larger in memory than encoded.
#[test]
fn a_list_takes_a_bounded_amount_of_memory() {
    let list = |count: usize| {
        let mut bytes = Vec::new();
        let none = vec![(); count];
        format::wire::Writer::new(&mut bytes).list(&none, |w, ()| w.u8(0));
        Vec::<String>::from_bytes(&bytes)
    };
    let max = 4 * FRAME_BYTES_MAX / size_of::<String>();
    assert_eq!(list(max).unwrap().len(), max);
    assert!(list(max + 1).is_err());
}

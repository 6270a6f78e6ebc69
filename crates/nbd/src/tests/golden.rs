//! The bytes of each message, written by hand from the protocol's document.

use super::*;
use crate::client::{Content, OptionReply, Parsed, Reply, greeting};
use crate::numbers::Errno;
use crate::reply::transmission as reply;
use crate::{Command, CommandFlags, GREETING, MetaQuery, Request, TlsMode, Transmission, Wants};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.as_chunks::<2>().0;
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn a_server_greets() {
    assert_eq!(GREETING[..], hex("4e42444d41474943 49484156454f5054 0003"));
    assert_eq!(greeting(&GREETING), Ok(3));
}

#[test]
fn options() {
    let wants = Wants {
        name: false,
        description: true,
        block_size: true,
    };
    let query = |queries: &[&str]| MetaQuery {
        export: "disk".to_owned(),
        queries: queries.iter().map(|&query| query.to_owned()).collect(),
    };
    let cases = [
        (
            ClientOption::ExportName("disk".to_owned()),
            "00000001 00000004 6469736b",
        ),
        (ClientOption::Abort, "00000002 00000000"),
        (ClientOption::List, "00000003 00000000"),
        (ClientOption::StartTls, "00000005 00000000"),
        (
            ClientOption::Info("disk".to_owned(), Wants::default()),
            "00000006 0000000a 00000004 6469736b 0000",
        ),
        (
            ClientOption::Go("disk".to_owned(), wants),
            "00000007 0000000e 00000004 6469736b 0002 0002 0003",
        ),
        (ClientOption::StructuredReply, "00000008 00000000"),
        (
            ClientOption::ListMetaContext(query(&[])),
            "00000009 0000000c 00000004 6469736b 00000000",
        ),
        (
            ClientOption::SetMetaContext(query(&["base:"])),
            "0000000a 00000015 00000004 6469736b 00000001 00000005 626173653a",
        ),
        (ClientOption::Unknown(0x63), "00000063 00000000"),
    ];
    for (option, text) in cases {
        let bytes = hex(&format!("49484156454f5054 {text}"));
        assert_eq!(encoded(&option), bytes, "{option:?}");
        assert_eq!(
            ClientOption::decode(option.number(), &bytes[16..]).as_ref(),
            Ok(&option)
        );
    }
}

/// All of a negotiation, byte by byte.
#[test]
fn a_negotiation() {
    let mut machine = ServerHaggle::new(TlsMode::Off);
    let (step, sent) = play(&mut machine, &FLAGS);
    assert_eq!((step, sent), (Step::More, vec![]));
    let head = "0003e889045565a9";
    let info = format!(
        "{head} 00000006 00000003 0000000c 0000 0000000012345000 0105
         {head} 00000006 00000003 00000006 0001 6469736b
         {head} 00000006 00000003 00000008 0002 61206469736b
         {head} 00000006 00000003 0000000e 0003 00000001 00001000 02000000
         {head} 00000006 00000001 00000000"
    );
    let wants = Wants {
        name: true,
        description: true,
        block_size: true,
    };
    let contexts = MetaQuery {
        export: "disk".to_owned(),
        queries: vec!["base:allocation".to_owned()],
    };
    let cases = [
        (
            ClientOption::List,
            format!(
                "{head} 00000003 00000002 00000008 00000004 6469736b
                 {head} 00000003 00000002 00000009 00000005 6f74686572
                 {head} 00000003 00000001 00000000"
            ),
        ),
        (ClientOption::Info("disk".to_owned(), wants), info),
        (
            ClientOption::StructuredReply,
            format!("{head} 00000008 00000001 00000000"),
        ),
        (
            ClientOption::SetMetaContext(contexts),
            format!(
                "{head} 0000000a 00000004 00000013 00000001 626173653a616c6c6f636174696f6e
                 {head} 0000000a 00000001 00000000"
            ),
        ),
        (
            ClientOption::Unknown(11),
            format!("{head} 0000000b 80000001 00000017 746865206f7074696f6e206973206e6f74206b6e6f776e"),
        ),
    ];
    for (option, text) in cases {
        let (step, sent) = play(&mut machine, &encoded(&option));
        assert_eq!((step, sent), (Step::More, hex(&text)), "{option:?}");
    }
    let (step, sent) = play(
        &mut machine,
        &encoded(&ClientOption::Go("disk".to_owned(), Wants::default())),
    );
    let go = format!(
        "{head} 00000007 00000003 0000000c 0000 0000000012345000 0185 {head} 00000007 00000001 00000000"
    );
    assert_eq!(sent, hex(&go));
    let Step::Transmit(Transmission {
        export,
        is_structured: true,
        contexts,
        ..
    }) = step
    else {
        panic!("{step:?}");
    };
    assert_eq!(
        (export.as_str(), contexts[0].id, contexts[0].name.as_str()),
        ("disk", 1, ALLOCATION_CONTEXT)
    );
}

#[test]
fn the_old_way_has_zeros_unless_the_client_wants_none() {
    for (flags, zeros) in [([0, 0, 0, 3], 0), ([0, 0, 0, 1], 124), ([0, 0, 0, 0], 124)] {
        let mut bytes = flags.to_vec();
        bytes.extend(encoded(&ClientOption::ExportName("disk".to_owned())));
        let (step, sent) = play(&mut ServerHaggle::new(TlsMode::Off), &bytes);
        assert!(matches!(step, Step::Transmit(_)), "{step:?}");
        let mut expected = hex("0000000012345000 0105");
        expected.resize(10 + zeros, 0);
        assert_eq!(sent, expected);
    }
}

#[test]
fn requests() {
    let request = Request {
        flags: CommandFlags::FUA | CommandFlags::NO_HOLE,
        command: Command::WriteZeroes,
        cookie: 0x1122_3344_5566_7788,
        offset: 0x1_0000_0000,
        len: 0x2000,
    };
    let bytes = hex("25609513 0003 0006 1122334455667788 0000000100000000 00002000");
    assert_eq!(request.encode()[..], bytes);
    assert_eq!(Request::decode(bytes[..].try_into().unwrap()), Ok(request));
    let mut wrong: [u8; 28] = bytes[..].try_into().unwrap();
    wrong[3] ^= 1;
    assert_eq!(Request::decode(&wrong).unwrap_err().found, 0x2560_9512);
}

#[test]
fn replies() {
    let cookie = 0x1122_3344_5566_7788;
    let head = |flags_and_kind: &str| format!("668e33ef {flags_and_kind} 1122334455667788");
    let with = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let ranges = [(0x1000, 3), (0x2000, 0)];
    let cases = [
        (
            reply::simple(cookie, Ok(())).to_vec(),
            "67446698 00000000 1122334455667788".to_owned(),
            true,
            Content::Simple(None),
        ),
        (
            reply::simple(cookie, Err(Errno::NoSpace)).to_vec(),
            "67446698 0000001c 1122334455667788".to_owned(),
            true,
            Content::Simple(Some(Errno::NoSpace)),
        ),
        (
            reply::none(cookie).to_vec(),
            format!("{} 00000000", head("0001 0000")),
            true,
            Content::None,
        ),
        (
            reply::offset_data(cookie, false, 0x3000, 0x1000).to_vec(),
            format!("{} 00001008 0000000000003000", head("0000 0001")),
            false,
            Content::Data(0x3000, 0x1000),
        ),
        (
            reply::offset_hole(cookie, true, 0x3000, 0x1000).to_vec(),
            format!("{} 0000000c 0000000000003000 00001000", head("0001 0002")),
            true,
            Content::Hole(0x3000, 0x1000),
        ),
        (
            with(&|out| reply::block_status(out, cookie, true, 7, &ranges)),
            format!(
                "{} 00000014 00000007 00001000 00000003 00002000 00000000",
                head("0001 0005")
            ),
            true,
            Content::Status(7, ranges.to_vec()),
        ),
        (
            with(&|out| reply::error(out, cookie, Errno::Io, "no")),
            format!("{} 00000008 00000005 0002 6e6f", head("0001 8001")),
            true,
            Content::Error(Errno::Io, "no".to_owned(), None),
        ),
        (
            with(&|out| reply::error_offset(out, cookie, Errno::Io, "no", 0x3000)),
            format!(
                "{} 00000010 00000005 0002 6e6f 0000000000003000",
                head("0001 8002")
            ),
            true,
            Content::Error(Errno::Io, "no".to_owned(), Some(0x3000)),
        ),
    ];
    for (bytes, text, is_last, content) in cases {
        assert_eq!(bytes, hex(&text), "{content:?}");
        let parsed = Parsed::Whole(
            Reply {
                cookie,
                is_last,
                content,
            },
            bytes.len(),
        );
        assert_eq!(Reply::parse(&bytes).as_ref(), Ok(&parsed));
        for len in 0..bytes.len() {
            assert!(
                matches!(Reply::parse(&bytes[..len]), Ok(Parsed::Short(_))),
                "{parsed:?} {len}"
            );
        }
    }
}

#[test]
fn a_client_reads_replies_to_options() {
    let head = "0003e889045565a9";
    let cases = [
        (
            "00000003 00000002 00000008 00000004 6469736b",
            OptionReply::Server("disk".to_owned()),
        ),
        (
            "00000006 00000003 00000006 0001 6469736b",
            OptionReply::Name("disk".to_owned()),
        ),
        (
            "00000006 00000003 0000000e 0003 00000001 00001000 02000000",
            OptionReply::BlockSize(1, 4096, 1 << 25),
        ),
        ("00000006 00000003 00000003 0063 00", OptionReply::Unknown),
        (
            "00000009 00000004 00000007 00000002 613a62",
            OptionReply::MetaContext(2, "a:b".to_owned()),
        ),
        (
            "00000009 80000003 00000002 6e6f",
            OptionReply::Error(option_reply::ERR_INVALID, "no".to_owned()),
        ),
    ];
    for (text, reply) in cases {
        let bytes = hex(&format!("{head} {text}"));
        let option = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
        assert_eq!(
            OptionReply::parse(&bytes),
            Ok(Parsed::Whole((option, reply), bytes.len()))
        );
    }
}

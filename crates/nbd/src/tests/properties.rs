//! Properties of all bytes and all values.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::client::{Content, OptionReply, Parsed, Reply};
use crate::numbers::Errno;
use crate::reply::transmission as reply;
use crate::{Command, CommandFlags, MetaQuery, Request, TlsMode, Wants, probe};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["", "b", "[a-zé:]{0,40}"]
}

fn wants() -> impl Strategy<Value = Wants> {
    any::<[bool; 3]>().prop_map(|[name, description, block_size]| Wants {
        name,
        description,
        block_size,
    })
}

fn meta() -> impl Strategy<Value = MetaQuery> {
    let one = prop_oneof![
        "base:",
        "base:allocation",
        "qemu:[a-z:-]{0,20}",
        "[a-z]{1,5}:[a-z]{0,5}"
    ];
    (text(), vec(one, 0..5)).prop_map(|(export, queries)| MetaQuery { export, queries })
}

fn option() -> impl Strategy<Value = ClientOption> {
    prop_oneof![
        1 => text().prop_map(ClientOption::ExportName),
        1 => Just(ClientOption::Abort),
        4 => Just(ClientOption::List),
        2 => Just(ClientOption::StartTls),
        4 => (text(), wants()).prop_map(|(name, wants)| ClientOption::Info(name, wants)),
        2 => (text(), wants()).prop_map(|(name, wants)| ClientOption::Go(name, wants)),
        4 => Just(ClientOption::StructuredReply),
        4 => meta().prop_map(ClientOption::ListMetaContext),
        4 => meta().prop_map(ClientOption::SetMetaContext),
        1 => (11..100_u32).prop_map(ClientOption::Unknown),
    ]
}

fn tls() -> impl Strategy<Value = TlsMode> {
    prop_oneof![
        Just(TlsMode::Off),
        Just(TlsMode::Offered),
        Just(TlsMode::Required)
    ]
}

proptest! {
    #[test]
    fn an_option_is_read_as_it_was_written(option in option()) {
        let bytes = encoded(&option);
        prop_assert_eq!(ClientOption::decode(option.number(), &bytes[16..]), Ok(option));
    }

    #[test]
    fn the_split_of_a_clients_bytes_makes_no_difference(
        tls in tls(),
        options in vec(option(), 0..12),
        damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
        piece in 1..60_usize,
    ) {
        let mut bytes = FLAGS.to_vec();
        options.iter().for_each(|option| option.encode(&mut bytes));
        if let Some((place, byte)) = damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let whole = probe::haggle(tls, &bytes, usize::MAX);
        let pieces = probe::haggle(tls, &bytes, piece);
        if !whole.0.contains(&Step::StartTls) && !pieces.0.contains(&Step::StartTls) {
            prop_assert_eq!(whole, pieces);
        }
    }

    /// Every option of an undamaged session has replies that a client can read, the last one last.
    #[test]
    fn each_option_has_replies(tls in tls(), options in vec(option(), 1..12)) {
        let mut machine = ServerHaggle::new(tls);
        play(&mut machine, &FLAGS);
        for option in options {
            let (step, sent) = play(&mut machine, &encoded(&option));
            let over = matches!(step, Step::Transmit(_) | Step::Close(_));
            if matches!(option, ClientOption::ExportName(_)) {
                prop_assert!(over);
                return Ok(());
            }
            let (mut rest, mut last) = (&sent[..], false);
            while !rest.is_empty() {
                prop_assert!(!last, "a reply after the last one");
                let parsed = OptionReply::parse(rest);
                let Ok(Parsed::Whole((number, reply), len)) = parsed else {
                    return Err(TestCaseError::fail(format!("{parsed:?}")));
                };
                prop_assert_eq!(number, option.number());
                last = reply.is_last();
                rest = &rest[len..];
            }
            prop_assert!(last, "no last reply to {:?}", option);
            if over {
                return Ok(());
            }
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_written(
        (flags, number, cookie, offset, len) in any::<(u16, u16, u64, u64, u32)>()
    ) {
        let commands = [
            Command::Read, Command::Write, Command::Disconnect, Command::Flush, Command::Trim, Command::Cache,
            Command::WriteZeroes, Command::BlockStatus, Command::Unknown(number.max(8)),
        ];
        for command in commands {
            let request = Request { flags: CommandFlags(flags), command, cookie, offset, len };
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn a_status_is_read_as_it_was_written(
        cookie in any::<u64>(),
        is_last in any::<bool>(),
        context in any::<u32>(),
        ranges in vec((1..u32::MAX, any::<u32>()), 1..50),
        error in "[a-zé]{0,300}",
        offset in any::<u64>(),
    ) {
        let mut bytes = Vec::new();
        reply::block_status(&mut bytes, cookie, is_last, context, &ranges);
        let len = bytes.len();
        reply::error_offset(&mut bytes, cookie, Errno::NoSpace, &error, offset);
        let content = Content::Status(context, ranges);
        prop_assert_eq!(Reply::parse(&bytes), Ok(Parsed::Whole(Reply { cookie, is_last, content }, len)));
        let Ok(Parsed::Whole(second, rest)) = Reply::parse(&bytes[len..]) else {
            return Err(TestCaseError::fail("no error"));
        };
        prop_assert_eq!(len + rest, bytes.len());
        let Content::Error(Errno::NoSpace, text, Some(found)) = second.content else {
            return Err(TestCaseError::fail("another error"));
        };
        prop_assert!(found == offset && error.starts_with(&text) && text.len() + 2 > error.len().min(256));
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..400)) {
        probe::nbd(&bytes);
        for magic in [&b"\0\0\0\x03IHAVEOPT\0\0\0"[..], b"\x25\x60\x95\x13\0", b"\x66\x8e\x33\xef\0", b"\0\x03\xe8\x89\x04\x55\x65\xa9"] {
            let mut longer = vec![bytes.first().copied().unwrap_or(0)];
            longer.extend(magic);
            longer.extend(&bytes);
            probe::nbd(&longer);
        }
    }
}

//! What the server's side of the negotiation does with well-behaved and with other clients.

use super::*;
use crate::numbers::OPTION_MAGIC;
use crate::numbers::option_reply::{
    ERR_INVALID, ERR_POLICY, ERR_SHUTDOWN, ERR_TLS_REQD, ERR_TOO_BIG, ERR_UNKNOWN, ERR_UNSUP, INFO,
    META_CONTEXT,
};
use crate::{CloseReason, MetaQuery, OPTION_BYTES_MAX, TlsMode, Transmission, Wants};

fn started(tls: TlsMode) -> ServerHaggle {
    let mut machine = ServerHaggle::new(tls);
    assert_eq!(play(&mut machine, &FLAGS), (Step::More, vec![]));
    machine
}

fn go(name: &str) -> ClientOption {
    ClientOption::Go(name.to_owned(), Wants::default())
}

fn query(export: &str, queries: &[&str]) -> MetaQuery {
    let queries = queries.iter().map(|&query| query.to_owned()).collect();
    MetaQuery {
        export: export.to_owned(),
        queries,
    }
}

fn raw(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn closes(machine: &mut ServerHaggle, bytes: &[u8]) -> CloseReason {
    match play(machine, bytes) {
        (Step::Close(why), _) => why,
        (step, _) => panic!("{step:?}"),
    }
}

#[test]
fn flags_that_nobody_offered_end_the_session() {
    let why = closes(&mut ServerHaggle::new(TlsMode::Off), &[0, 0, 0, 7]);
    assert_eq!(why, CloseReason::UnknownFlags { flags: 7 });
}

#[test]
fn without_fixed_newstyle_only_the_old_way_is_served() {
    let mut machine = ServerHaggle::new(TlsMode::Off);
    play(&mut machine, &[0, 0, 0, 0]);
    let why = closes(&mut machine, &encoded(&ClientOption::List));
    assert_eq!(why, CloseReason::NotFixed { option: 3 });
}

#[test]
fn other_bytes_end_the_session() {
    let why = closes(&mut started(TlsMode::Off), b"GET / HTTP/1.1\r\n");
    assert!(matches!(why, CloseReason::NoOption { .. }));
}

#[test]
fn an_unknown_export_is_refused_and_the_client_may_ask_for_another() {
    let mut machine = started(TlsMode::Off);
    assert_eq!(ask(&mut machine, &go("nothing")), [ERR_UNKNOWN]);
    assert_eq!(
        ask(
            &mut machine,
            &ClientOption::Info("disk".to_owned(), Wants::default())
        ),
        [INFO, ACK]
    );
    assert!(matches!(
        play(&mut machine, &encoded(&go("disk"))).0,
        Step::Transmit(_)
    ));
    let why = closes(
        &mut started(TlsMode::Off),
        &encoded(&ClientOption::ExportName("nothing".to_owned())),
    );
    assert!(matches!(why, CloseReason::ExportName { .. }));
}

#[test]
fn malformed_options_are_refused_and_the_next_one_is_served() {
    let long = vec![b'x'; 4097];
    let mut long_name = 4097_u32.to_be_bytes().to_vec();
    long_name.extend(&long);
    long_name.extend([0, 0]);
    let mut many = vec![0, 0, 0, 0];
    many.extend(1025_u32.to_be_bytes());
    let cases: [(u32, &[u8], u32); 13] = [
        (3, b"x", ERR_INVALID),
        (5, b"x", ERR_INVALID),
        (8, b"x", ERR_INVALID),
        (6, b"", ERR_INVALID),
        (6, b"\0\0\0\x02a", ERR_INVALID),
        (7, b"\xff\xff\xff\xff\0\0", ERR_INVALID),
        (7, b"\0\0\0\x01a\0\x01", ERR_INVALID),
        (7, b"\0\0\0\x01\xff\0\0", ERR_INVALID),
        (7, b"\0\0\0\x01\0\0\0", ERR_INVALID),
        (7, b"\0\0\0\x01a\0\0x", ERR_INVALID),
        (7, &long_name, ERR_TOO_BIG),
        (9, &many, ERR_TOO_BIG),
        (10, b"\0\0\0\0\0\0\0\x01\0\0\0\x03abc", ERR_INVALID),
    ];
    let mut machine = started(TlsMode::Offered);
    for (option, data, kind) in cases {
        let (step, sent) = play(&mut machine, &raw(option, data));
        assert_eq!(
            (step, kinds(&sent)),
            (Step::More, vec![kind]),
            "{option} {data:?}"
        );
    }
    assert_eq!(ask(&mut machine, &ClientOption::Unknown(4)), [ERR_UNSUP]);
    assert_eq!(ask(&mut machine, &ClientOption::StructuredReply), [ACK]);
}

#[test]
fn the_data_of_an_option_that_is_too_long_is_skipped_and_not_stored() {
    let mut machine = started(TlsMode::Off);
    let mut head = raw(7, b"");
    head[12..].copy_from_slice(&(10_u32 << 20).to_be_bytes());
    let (step, sent) = play(&mut machine, &head);
    assert_eq!((step, kinds(&sent)), (Step::More, vec![ERR_TOO_BIG]));
    let piece = vec![7; 1 << 20];
    for _ in 0..10 {
        assert_eq!(play(&mut machine, &piece), (Step::More, vec![]));
        assert!(machine.stored_bytes() <= OPTION_BYTES_MAX);
    }
    assert_eq!(ask(&mut machine, &ClientOption::StructuredReply), [ACK]);
    let why = closes(&mut started(TlsMode::Off), &raw(1, &[b'x'; 4097]));
    assert!(matches!(why, CloseReason::ExportName { .. }));
}

#[test]
fn a_session_has_a_bounded_number_of_options() {
    let mut machine = started(TlsMode::Off);
    for _ in 0..1024 {
        assert_eq!(ask(&mut machine, &ClientOption::Unknown(99)), [ERR_UNSUP]);
    }
    assert_eq!(
        closes(&mut machine, &encoded(&ClientOption::List)),
        CloseReason::ManyOptions
    );
}

#[test]
fn an_end_is_acknowledged() {
    let (step, sent) = play(&mut started(TlsMode::Required), &raw(2, b"ignored"));
    assert_eq!(
        (step, kinds(&sent)),
        (Step::Close(CloseReason::Aborted), vec![ACK])
    );
}

#[test]
fn contexts_are_selected_by_name_and_listed_by_namespace() {
    let mut machine = started(TlsMode::Off);
    let mut listed = |queries: &[&str]| {
        let option = ClientOption::ListMetaContext(query("disk", queries));
        ask(&mut machine, &option).len() - 1
    };
    assert_eq!(listed(&[]), 3);
    assert_eq!(listed(&["base:"]), 1);
    assert_eq!(listed(&["qemu:"]), 2);
    assert_eq!(listed(&["qemu:dirty-bitmap:"]), 2);
    assert_eq!(listed(&["qemu:dirty-bitmap:monday", "base:"]), 2);
    assert_eq!(listed(&["qemu:dirty-bitmap:mon", "base:alloc", "x-none:"]), 0);

    let set = |machine: &mut ServerHaggle, export: &str, queries: &[&str]| {
        ask(machine, &ClientOption::SetMetaContext(query(export, queries)))
    };
    assert_eq!(
        set(&mut machine, "disk", &["base:allocation"]),
        [ERR_INVALID],
        "before structured replies"
    );
    ask(&mut machine, &ClientOption::StructuredReply);
    assert_eq!(
        set(&mut machine, "disk", &["base:", "qemu:"]),
        [ACK],
        "wildcards select nothing"
    );
    assert_eq!(set(&mut machine, "none", &["base:allocation"]), [ERR_UNKNOWN]);
    let two = ["qemu:dirty-bitmap:tuesday", "base:allocation"];
    assert_eq!(set(&mut machine, "disk", &two), [META_CONTEXT, META_CONTEXT, ACK]);
    let (step, _) = play(&mut machine, &encoded(&go("disk")));
    let Step::Transmit(Transmission { contexts, .. }) = step else {
        panic!("{step:?}");
    };
    let found: Vec<_> = contexts.iter().map(|one| (one.id, one.name.as_str())).collect();
    assert_eq!(found, [(1, two[1]), (3, two[0])]);
}

/// The contexts that a client uses after it did this.
fn used_after(options: &[ClientOption]) -> usize {
    let mut machine = started(TlsMode::Offered);
    ask(&mut machine, &ClientOption::StructuredReply);
    ask(
        &mut machine,
        &ClientOption::SetMetaContext(query("disk", &["base:allocation"])),
    );
    for option in options {
        ask(&mut machine, option);
    }
    match play(&mut machine, &encoded(&go("disk"))).0 {
        Step::Transmit(transmission) => transmission.contexts.len(),
        step => panic!("{step:?}"),
    }
}

#[test]
fn only_the_last_selection_counts_and_only_for_its_export() {
    assert_eq!(used_after(&[]), 1);
    assert_eq!(used_after(&[ClientOption::List]), 1);
    assert_eq!(used_after(&[ClientOption::SetMetaContext(query("disk", &[]))]), 0);
    assert_eq!(
        used_after(&[ClientOption::SetMetaContext(query("none", &["base:allocation"]))]),
        0
    );
    assert_eq!(
        used_after(&[ClientOption::SetMetaContext(query("disk", &["no namespace"]))]),
        0
    );
    assert_eq!(used_after(&[ClientOption::StartTls]), 0);
}

#[test]
fn chunks_need_not_be_whole_without_structured_replies() {
    let flags = |options: &[ClientOption]| {
        let mut machine = started(TlsMode::Offered);
        for option in options {
            ask(&mut machine, option);
        }
        match play(&mut machine, &encoded(&go("disk"))).0 {
            Step::Transmit(transmission) => {
                assert_eq!(
                    transmission.is_structured,
                    transmission.flags.has(TransmissionFlags::SEND_DF)
                );
                transmission.is_structured
            }
            step => panic!("{step:?}"),
        }
    };
    assert!(!flags(&[]));
    assert!(flags(&[ClientOption::StructuredReply]));
    assert!(
        !flags(&[ClientOption::StructuredReply, ClientOption::StartTls]),
        "TLS begins anew"
    );
    assert!(flags(&[ClientOption::StartTls, ClientOption::StructuredReply]));
}

#[test]
fn tls_is_refused_offered_or_required() {
    let tls = ClientOption::StartTls;
    assert_eq!(ask(&mut started(TlsMode::Off), &tls), [ERR_POLICY]);
    for mode in [TlsMode::Offered, TlsMode::Required] {
        let mut machine = started(mode);
        let (step, sent) = play(&mut machine, &encoded(&tls));
        assert_eq!((step, kinds(&sent)), (Step::StartTls, vec![ACK]));
        assert_eq!(ask(&mut machine, &tls), [ERR_INVALID], "twice");
        assert!(matches!(
            play(&mut machine, &encoded(&go("disk"))).0,
            Step::Transmit(_)
        ));
    }
    let mut machine = started(TlsMode::Required);
    let refused = [
        ClientOption::List,
        go("disk"),
        go("nothing"),
        ClientOption::Info("disk".to_owned(), Wants::default()),
        ClientOption::StructuredReply,
        ClientOption::Unknown(77),
        ClientOption::ListMetaContext(query("disk", &[])),
        ClientOption::SetMetaContext(query("disk", &[])),
    ];
    for option in refused {
        assert_eq!(ask(&mut machine, &option), [ERR_TLS_REQD], "{option:?}");
    }
    assert_eq!(
        kinds(&play(&mut machine, &raw(7, b"")).1),
        [ERR_TLS_REQD],
        "malformed"
    );
    let why = closes(
        &mut machine,
        &encoded(&ClientOption::ExportName("disk".to_owned())),
    );
    assert!(matches!(why, CloseReason::ExportName { .. }));
}

/// Bytes that follow STARTTLS unencrypted may be of somebody in between.
#[test]
fn bytes_before_tls_end_the_session() {
    let mut bytes = encoded(&ClientOption::StartTls);
    bytes.extend(encoded(&go("disk")));
    let (step, sent) = play(&mut started(TlsMode::Offered), &bytes);
    assert_eq!((step, sent), (Step::Close(CloseReason::BytesBeforeTls), vec![]));
}

#[test]
fn a_server_that_is_being_stopped_refuses_exports() {
    for (option, kind) in [(go("disk"), ERR_SHUTDOWN), (ClientOption::List, ERR_SHUTDOWN)] {
        let (mut machine, mut sent) = (started(TlsMode::Off), Vec::new());
        let step = machine.step(&mut &encoded(&option)[..], &mut sent);
        assert!(matches!(step, Step::Find(_) | Step::List));
        assert_eq!(machine.shutting_down(&mut sent), Step::More);
        assert_eq!(kinds(&sent), [kind]);
    }
}

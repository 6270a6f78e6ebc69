//! A server over real sockets, against a plain model.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use crate::common::{BLOCK, MemoryExport, Served, eventually, pattern, serve};
use nbd::{Command, CommandFlags, Errno, TransmissionFlags};
use proptest::collection::vec;
use proptest::prelude::*;
use volume_server::client::{Answer, Client, ClientError, Wish};
use volume_server::{Place, ServeError, Server, ServerSettings};

const SIZE: usize = 3 << 20;
const NONE: CommandFlags = CommandFlags(0);

#[derive(Debug, Clone)]
enum Op {
    Read(usize, usize, bool),
    Write(usize, usize, bool),
    Trim(usize, usize),
    Zeroes(usize, usize, bool, bool),
    Flush,
    Cache(usize, usize),
    Status(usize, usize, bool),
}

fn ranges() -> impl Strategy<Value = (usize, usize)> {
    let len = prop_oneof![6 => 1..9000_usize, 2 => Just(BLOCK), 1 => 60_000..300_000_usize, 1 => 900_000..2_500_000_usize];
    let place = prop_oneof![
        any::<usize>(),
        any::<usize>().prop_map(|place| place & !(BLOCK - 1))
    ];
    (place, len).prop_map(|(place, len)| {
        let len = len.min(SIZE);
        (place % (SIZE - len + 1), len)
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (ranges(), any::<bool>()).prop_map(|((at, len), flag)| Op::Read(at, len, flag)),
        4 => (ranges(), any::<bool>()).prop_map(|((at, len), flag)| Op::Write(at, len, flag)),
        1 => ranges().prop_map(|(at, len)| Op::Trim(at, len)),
        1 => (ranges(), any::<bool>(), any::<bool>()).prop_map(|((at, len), a, b)| Op::Zeroes(at, len, a, b)),
        1 => Just(Op::Flush),
        1 => ranges().prop_map(|(at, len)| Op::Cache(at, len)),
        1 => (ranges(), any::<bool>()).prop_map(|((at, len), one)| Op::Status(at, len, one)),
    ]
}

/// A model of the device: its bytes, and which are known to be durable.
struct Model {
    bytes: Vec<u8>,
    durable: Vec<Option<u8>>,
}

impl Model {
    fn write(&mut self, at: usize, bytes: &[u8], fua: bool) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        for (durable, byte) in self.durable[at..].iter_mut().zip(bytes) {
            *durable = Some(*byte).filter(|_| fua);
        }
    }

    fn flush(&mut self) {
        self.durable = self.bytes.iter().copied().map(Some).collect();
    }

    fn check_durable(&self, export: &MemoryExport) {
        let found = export.durable();
        let differs = self
            .durable
            .iter()
            .zip(&found)
            .any(|(one, found)| one.is_some_and(|one| one != *found));
        assert!(!differs, "answered as durable, and not");
    }
}

fn wide(at: usize, len: usize) -> (u64, u32) {
    (at as u64, u32::try_from(len).unwrap())
}

fn check_status(answer: &Answer, len: usize, is_one: bool) {
    assert_eq!(answer.status.len(), 2);
    for (_, ranges) in &answer.status {
        let sum: u64 = ranges.iter().map(|(len, _)| u64::from(*len)).sum();
        assert!(sum <= len as u64 && (is_one || sum == len as u64));
        assert!(!is_one || ranges.len() == 1);
        assert!(
            ranges.windows(2).all(|two| two[0].1 != two[1].1),
            "neighbours are joined"
        );
    }
}

/// Runs operations one by one; the device takes some time for each.
fn one_by_one(ops: &[Op], is_structured: bool, micros: u64) {
    let served = serve(SIZE, |_| {});
    served.export.micros.store(micros, Ordering::SeqCst);
    let mut client = served.client(is_structured);
    let mut model = Model {
        bytes: vec![0; SIZE],
        durable: vec![Some(0); SIZE],
    };
    for (number, op) in ops.iter().enumerate() {
        match *op {
            Op::Read(at, len, whole) => {
                let flags = if whole && is_structured {
                    CommandFlags::DF
                } else {
                    NONE
                };
                let answer = client.call(Command::Read, flags, wide(at, len), &[]).unwrap();
                assert!(answer.data == model.bytes[at..at + len], "{op:?}");
            }
            Op::Write(at, len, fua) => {
                let bytes = pattern(number as u64, len);
                let flags = if fua { CommandFlags::FUA } else { NONE };
                client.write(at as u64, &bytes, flags).unwrap();
                model.write(at, &bytes, fua);
            }
            Op::Trim(at, len) => {
                client.call(Command::Trim, NONE, wide(at, len), &[]).unwrap();
                model.write(at, &vec![0; len], false);
            }
            Op::Zeroes(at, len, no_hole, fast) => {
                let mut flags = CommandFlags::FUA;
                if no_hole {
                    flags = flags | CommandFlags::NO_HOLE;
                }
                if fast {
                    flags = flags | CommandFlags::FAST_ZERO;
                }
                let done = client.call(Command::WriteZeroes, flags, wide(at, len), &[]);
                if no_hole && fast {
                    assert!(matches!(done, Err(ClientError::Failed(Errno::NotSupported))));
                } else {
                    done.unwrap();
                    model.write(at, &vec![0; len], true);
                }
            }
            Op::Flush => {
                client.flush().unwrap();
                model.flush();
            }
            Op::Cache(at, len) => {
                client.call(Command::Cache, NONE, wide(at, len), &[]).unwrap();
            }
            Op::Status(at, len, one) if is_structured => {
                let flags = if one { CommandFlags::REQ_ONE } else { NONE };
                let answer = client
                    .call(Command::BlockStatus, flags, wide(at, len), &[])
                    .unwrap();
                check_status(&answer, len, one);
            }
            Op::Status(at, len, _) => {
                let refused = client.call(Command::BlockStatus, NONE, wide(at, len), &[]);
                assert!(matches!(refused, Err(ClientError::Failed(Errno::Invalid))));
            }
        }
        model.check_durable(&served.export);
    }
    assert!(served.export.bytes() == model.bytes);
    client.close().unwrap();
}

/// Sends all operations at once, each to a part of its own, and takes the answers in any order.
fn all_at_once(ops: &[Op], is_structured: bool, (micros, at_once): (u64, usize)) {
    const PART: usize = 96 << 10;
    let served = serve(PART * ops.len(), |_| {});
    served.export.micros.store(micros, Ordering::SeqCst);
    served.export.at_once.store(at_once, Ordering::SeqCst);
    let mut client = served.client(is_structured);
    let mut expected = vec![0; PART * ops.len()];
    let mut reader = Client::open(
        served.connect(),
        &Wish {
            is_structured,
            ..Wish::default()
        },
    )
    .unwrap();
    let mut cookies = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let (Op::Read(at, len, _)
        | Op::Write(at, len, _)
        | Op::Trim(at, len)
        | Op::Zeroes(at, len, ..)
        | Op::Cache(at, len)
        | Op::Status(at, len, _)) = *op
        else {
            cookies.push(client.send(Command::Flush, NONE, (0, 0), &[]).unwrap());
            continue;
        };
        let (inside, len) = (at % 4096, len.min(PART - 4096));
        let at = number * PART + inside;
        cookies.push(match op {
            Op::Write(..) => {
                let bytes = pattern(number as u64, len);
                expected[at..at + len].copy_from_slice(&bytes);
                client.send(Command::Write, NONE, wide(at, len), &bytes).unwrap()
            }
            Op::Trim(..) => client.send(Command::Trim, NONE, wide(at, len), &[]).unwrap(),
            _ => client.send(Command::Read, NONE, wide(at, len), &[]).unwrap(),
        });
    }
    let mut answered = Vec::new();
    for _ in &cookies {
        let answer = client.receive().unwrap();
        assert_eq!(answer.error, None);
        assert!(answer.data.iter().all(|byte| *byte == 0));
        answered.push(answer.cookie);
    }
    answered.sort_unstable();
    assert_eq!(answered, cookies, "each is answered once");
    assert!(reader.read(0, u32::try_from(expected.len()).unwrap()).unwrap() == expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn operations_one_by_one(ops in vec(op(), 1..30), is_structured in any::<bool>()) {
        one_by_one(&ops, is_structured, 0);
    }

    #[test]
    fn operations_one_by_one_on_a_slow_device(ops in vec(op(), 20..40), is_structured in any::<bool>()) {
        one_by_one(&ops, is_structured, 300);
    }

    #[test]
    fn operations_all_at_once(ops in vec(op(), 1..60), is_structured in any::<bool>()) {
        all_at_once(&ops, is_structured, (0, 1));
    }

    #[test]
    fn operations_all_at_once_on_a_slow_device(
        ops in vec(op(), 1..60),
        is_structured in any::<bool>(),
        at_once in 1..9_usize,
    ) {
        all_at_once(&ops, is_structured, (300, at_once));
    }
}

#[test]
fn holes_of_a_read_are_told_and_not_sent() {
    let served = serve(SIZE, |_| {});
    let (first, second) = (BLOCK..2 * BLOCK, 600_000..1_700_000);
    let mut client = served.client(true);
    for data in [&first, &second] {
        client
            .write(data.start as u64, &pattern(9, data.len()), NONE)
            .unwrap();
    }
    let blocks_of = |data: &std::ops::Range<usize>| data.end.div_ceil(BLOCK) - data.start / BLOCK;
    let holes = (SIZE - BLOCK * (blocks_of(&first) + blocks_of(&second))) as u64;
    let expected = served.export.bytes();
    let mut read = |flags, at: usize, len: usize| {
        let answer = client.call(Command::Read, flags, wide(at, len), &[]).unwrap();
        assert!(answer.data == expected[at..at + len], "{at}, {len}");
        answer.hole_bytes
    };
    for micros in [0, 2000] {
        // A device that is known to be slow is read in longer pieces.
        served.export.micros.store(micros, Ordering::SeqCst);
        for _ in 0..100 {
            assert_eq!(read(NONE, BLOCK, BLOCK), 0);
        }
        assert_eq!(read(NONE, 0, SIZE), holes);
        assert_eq!(read(CommandFlags::DF, 0, SIZE), 0);
        assert_eq!(read(NONE, 0, 3 * BLOCK), 2 * BLOCK as u64);
        assert_eq!(read(CommandFlags::DF, 0, 3 * BLOCK), 0);
        assert_eq!(read(NONE, 2 * BLOCK, BLOCK), BLOCK as u64);
        assert_eq!(read(CommandFlags::DF, 2 * BLOCK, BLOCK), 0);
        // The whole answer, however short; else a short one is sent as data.
        assert_eq!(read(NONE, 100, 512), 512);
        assert_eq!(read(NONE, BLOCK - 100, 200), 0);
    }
    let mut simple = served.client(false);
    let answer = simple.call(Command::Read, NONE, wide(0, SIZE), &[]).unwrap();
    assert!(answer.data == expected && answer.hole_bytes == 0);
}

#[test]
fn requests_to_a_slow_device_run_at_once_and_a_quick_one_needs_one_thread() {
    let served = serve(SIZE, |settings| settings.threads_of_connection_max = 6);
    let mut client = served.client(true);
    let mut run = |count: usize| {
        for number in 0..count {
            client
                .send(Command::Read, NONE, ((number * BLOCK) as u64, 4096), &[])
                .unwrap();
        }
        (0..count).for_each(|_| assert_eq!(client.receive().unwrap().error, None));
    };
    run(200);
    assert_eq!(served.export.busiest.load(Ordering::SeqCst), 1);
    served.export.micros.store(2000, Ordering::SeqCst);
    run(100);
    assert_eq!(served.export.busiest.load(Ordering::SeqCst), 6);
    // It learns that the device is quick again.
    served.export.micros.store(0, Ordering::SeqCst);
    run(300);
    served.export.busiest.store(0, Ordering::SeqCst);
    run(20);
    assert_eq!(served.export.busiest.load(Ordering::SeqCst), 1);
}

/// A connection that found none free gets one later.
#[test]
fn helpers_that_become_free_help_others() {
    let served = serve(SIZE, |settings| {
        (settings.threads_of_connection_max, settings.helpers_max) = (6, 1);
    });
    served.export.micros.store(2000, Ordering::SeqCst);
    let run = |client: &mut Client<UnixStream>, count: usize| {
        for number in 0..count {
            let at = (number * BLOCK) as u64;
            client.send(Command::Read, NONE, (at, 4096), &[]).unwrap();
        }
        (0..count).for_each(|_| assert_eq!(client.receive().unwrap().error, None));
    };
    let mut first = served.client(true);
    run(&mut first, 20);
    let mut second = served.client(true);
    run(&mut second, 60);
    drop(first);
    served.export.busiest.store(0, Ordering::SeqCst);
    eventually("two requests of a connection are served at once", || {
        run(&mut second, 8);
        served.export.busiest.load(Ordering::SeqCst) > 1
    });
}

/// Direct writes need aligned memory. Only while the server learns that the device is slow, writes
/// that arrive together may have other memory.
#[test]
fn a_slow_device_is_given_aligned_memory() {
    let served = serve(SIZE, |_| {});
    served.export.micros.store(1000, Ordering::SeqCst);
    let mut client = served.client(true);
    for number in 0..100 {
        client
            .send(Command::Write, NONE, (number * 4096, 4096), &[1; 4096])
            .unwrap();
    }
    (0..100).for_each(|_| assert_eq!(client.receive().unwrap().error, None));
    assert!(served.export.unaligned.load(Ordering::SeqCst) < 10);
}

fn refused(done: Result<Answer, ClientError>) -> Errno {
    match done {
        Err(ClientError::Failed(errno)) => errno,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_requests_are_refused_and_the_connection_serves_on() {
    for is_structured in [false, true] {
        let served = serve(SIZE, |_| {});
        let mut client = served.client(is_structured);
        let end = SIZE as u64;
        let block = vec![1; 4096];
        let mut call =
            |command, flags, range, payload: &[u8]| refused(client.call(command, flags, range, payload));
        assert_eq!(call(Command::Read, NONE, (end, 1), &[]), Errno::Invalid);
        assert_eq!(
            call(Command::Read, NONE, (u64::MAX, u32::MAX), &[]),
            Errno::Invalid
        );
        assert_eq!(
            call(Command::Write, NONE, (end - 1, 4096), &block),
            Errno::NoSpace
        );
        assert_eq!(
            call(Command::Write, CommandFlags::DF, (0, 4096), &block),
            Errno::Invalid
        );
        assert_eq!(call(Command::Trim, NONE, (end - 1, 2), &[]), Errno::Invalid);
        assert_eq!(
            call(Command::WriteZeroes, NONE, (end - 1, 2), &[]),
            Errno::NoSpace
        );
        assert_eq!(call(Command::Unknown(50), NONE, (0, 0), &[]), Errno::Invalid);
        client.call(Command::Read, NONE, (0, 0), &[]).unwrap();
        client.call(Command::Write, NONE, (0, 0), &[]).unwrap();
        assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096]);
        served.export.is_read_only.store(true, Ordering::SeqCst);
        let mut reader = served.client(is_structured);
        assert!(reader.flags.has(TransmissionFlags::READ_ONLY));
        let write = reader.call(Command::Write, NONE, (0, 4096), &block);
        assert_eq!(refused(write), Errno::NotPermitted);
        assert_eq!(reader.read(0, 4096).unwrap(), vec![0; 4096]);
    }
}

#[test]
fn a_failed_read_is_told_and_shows_no_bytes() {
    let served = serve(SIZE, |_| {});
    let mut structured = served.client(true);
    structured.write(0, &pattern(1, SIZE), NONE).unwrap();
    served.export.fails_at.store(2 << 20, Ordering::SeqCst);
    let whole = (0, u32::try_from(SIZE).unwrap());
    for flags in [NONE, CommandFlags::DF] {
        structured.send(Command::Read, flags, whole, &[]).unwrap();
        let answer = structured.receive().unwrap();
        assert_eq!(answer.error, Some(Errno::Io));
        if flags == CommandFlags::DF {
            assert!(answer.data[2 << 20..].iter().all(|byte| *byte == 0));
        }
    }
    assert_eq!(structured.read(0, 4096).unwrap(), pattern(1, 4096));
    // A simple reply can fail only before its first byte is sent.
    let mut simple = served.client(false);
    simple.send(Command::Read, NONE, (2 << 20, 4096), &[]).unwrap();
    assert_eq!(simple.receive().unwrap().error, Some(Errno::Io));
    assert_eq!(simple.read(0, 4096).unwrap(), pattern(1, 4096));
    simple.send(Command::Read, NONE, whole, &[]).unwrap();
    assert!(matches!(simple.receive(), Err(ClientError::Io(_))));
}

#[test]
fn the_status_of_ranges_is_told_in_each_context() {
    let served = serve(SIZE, |_| {});
    let mut client = served.client(true);
    client.write(2 * BLOCK as u64, &vec![1; 3 * BLOCK], NONE).unwrap();
    let answer = client
        .call(Command::BlockStatus, NONE, (BLOCK as u64, 10 * 4096), &[])
        .unwrap();
    assert_eq!(
        answer.status,
        [
            (1, vec![(4096, 3), (3 * 4096, 0), (6 * 4096, 3)]),
            (2, vec![(4096, 0), (3 * 4096, 1), (6 * 4096, 0)])
        ]
    );
    let one = client
        .call(Command::BlockStatus, CommandFlags::REQ_ONE, (100, 10 * 4096), &[])
        .unwrap();
    assert_eq!(
        one.status,
        [(1, vec![(2 * 4096 - 100, 3)]), (2, vec![(2 * 4096 - 100, 0)])]
    );
}

#[test]
fn a_status_has_a_bounded_number_of_runs() {
    let served = serve(40_000 * BLOCK, |_| {});
    for block in (0..40_000).step_by(2) {
        volume_server::Export::write(&*served.export, (block * BLOCK) as u64, &[1], false).unwrap();
    }
    let mut client = served.client(true);
    let len = u32::try_from(40_000 * BLOCK).unwrap();
    let answer = client.call(Command::BlockStatus, NONE, (0, len), &[]).unwrap();
    assert_eq!(answer.status[0].1.len(), 8192);
}

/// A flush on one connection covers what was answered on another.
#[test]
fn connections_see_each_others_writes_and_flushes() {
    let served = serve(SIZE, |_| {});
    let (mut one, mut other) = (served.client(true), served.client(false));
    assert!(one.flags.has(TransmissionFlags::CAN_MULTI_CONN));
    let bytes = pattern(7, 10_000);
    one.write(5, &bytes, NONE).unwrap();
    assert!(served.export.durable()[5..10_005] != bytes);
    assert_eq!(other.read(5, 10_000).unwrap(), bytes);
    other.flush().unwrap();
    assert!(served.export.durable()[5..10_005] == bytes);
}

#[test]
fn exports_come_and_go_while_connections_keep_theirs() {
    let served = serve(SIZE, |_| {});
    let mut old = served.client(true);
    let wish = Wish {
        export: "new".to_owned(),
        ..Wish::default()
    };
    assert!(matches!(
        Client::open(served.connect(), &wish),
        Err(ClientError::Refused { .. })
    ));
    let mut exports = served.exports.0.lock().unwrap();
    exports.remove("");
    exports.insert("new".to_owned(), MemoryExport::new(BLOCK));
    drop(exports);
    assert_eq!(Client::open(served.connect(), &wish).unwrap().size_bytes, 4096);
    assert!(matches!(
        Client::open(served.connect(), &Wish::default()),
        Err(ClientError::Refused { .. })
    ));
    old.write(0, &[1], NONE).unwrap();
    assert_eq!(old.read(0, 1).unwrap(), [1]);
}

#[test]
fn requests_are_counted() {
    let served = serve(SIZE, |_| {});
    let mut client = served.client(true);
    client.write(0, &[1; 5000], NONE).unwrap();
    client.read(0, 3000).unwrap();
    client.read(0, 3000).unwrap();
    client.flush().unwrap();
    refused(client.call(Command::Read, NONE, (u64::MAX, 1), &[]));
    let stats = served.server.stats()[""];
    assert_eq!(
        (stats.reads, stats.read_bytes, stats.writes, stats.written_bytes),
        (2, 6000, 1, 5000)
    );
    assert_eq!((stats.flushes, stats.errors, stats.connections), (1, 1, 1));
    assert!(stats.p50 <= stats.p99 && stats.p99 <= stats.p999 && !stats.p50.is_zero());
    client.close().unwrap();
    eventually("the connection ended", || {
        served.server.stats()[""].connections == 0
    });
}

#[test]
fn a_server_listens_on_several_places() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    let Served { server, exports, .. } = serve(SIZE, |settings| {
        settings.places = paths.iter().map(|path| crate::common::place(path)).collect();
        settings.places.push(Place::Tcp("127.0.0.1:0".to_owned()));
    });
    for path in &paths {
        let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        Client::open(stream, &Wish::default())
            .unwrap()
            .write(3, &[3], NONE)
            .unwrap();
    }
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    assert_eq!(
        Client::open(stream, &Wish::default())
            .unwrap()
            .read(3, 1)
            .unwrap(),
        [3]
    );

    // A living server's socket is not taken; a dead one's is replaced; a file is left alone.
    let settings = |path: &std::path::Path| ServerSettings::at(vec![crate::common::place(path)]);
    let exports = exports as std::sync::Arc<dyn volume_server::Exports>;
    let start = |path: &std::path::Path| {
        Server::start(
            settings(path),
            std::sync::Arc::clone(&exports),
            crate::common::clock(),
        )
    };
    assert!(matches!(start(&paths[0]), Err(ServeError::InUse { .. })));
    let stale = folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let other = start(&stale).unwrap();
    Client::open(
        std::os::unix::net::UnixStream::connect(&stale).unwrap(),
        &Wish::default(),
    )
    .unwrap();
    drop(other);
    assert!(!stale.exists(), "it removes its socket");
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(matches!(start(&file), Err(ServeError::NoSocket { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

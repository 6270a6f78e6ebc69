//! Clients that break the rules, and a server that is stopped while others work.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Served, clock, eventually, pattern, serve};
use nbd::{ClientOption, Command, CommandFlags, Errno, REQUEST_BYTES, Request, Wants};
use proptest::collection::vec;
use proptest::prelude::*;
use volume_server::client::{Client, ClientError, Wish};

const SIZE: usize = 1 << 20;
const NONE: CommandFlags = CommandFlags(0);

/// Whether the server ends the connection, whatever it sent before.
fn is_closed(stream: &mut UnixStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn serves(served: &Served) {
    let mut client = served.client(true);
    client.write(0, &[1, 2, 3], NONE).unwrap();
    assert_eq!(client.read(0, 3).unwrap(), [1, 2, 3]);
    client.close().unwrap();
}

pub(crate) fn head(command: Command, offset: u64, len: u32) -> [u8; REQUEST_BYTES] {
    let request = Request {
        flags: NONE,
        command,
        cookie: 9,
        offset,
        len,
    };
    request.encode()
}

/// Whether this process runs the test alone. If not, runs it in a process of its own, whose memory
/// no other test changes.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "ONEFOLD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let test = format!("hostile::{test}");
    let mut command = std::process::Command::new(program);
    let done = command.args([&test, "--exact"]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// Memory of this process in bytes, which has the server in it.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn garbage_ends_a_connection_and_nothing_else(
        bytes in vec(any::<u8>(), 0..3000),
        negotiates in any::<bool>(),
        damage in any::<proptest::sample::Index>(),
    ) {
        let served = serve(SIZE, |_| {});
        let mut stream = if negotiates {
            let mut client = served.client(true);
            client.stream().try_clone().unwrap()
        } else {
            served.connect()
        };
        let mut sent = if negotiates { head(Command::Read, 0, 4096).to_vec() } else { b"\0\0\0\x03IHAVEOPT".to_vec() };
        sent.extend(&bytes);
        let place = damage.index(sent.len());
        sent[place] = 0xff;
        // The server may end the connection before it has received all.
        stream.write_all(&sent).ok();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        prop_assert!(is_closed(&mut stream));
        serves(&served);
    }
}

#[test]
fn a_request_that_is_cut_off_ends_the_connection() {
    let served = serve(SIZE, |_| {});
    for cut in [1, 27, 28, 29, 28 + 4095] {
        let mut client = served.client(true);
        let mut bytes = head(Command::Write, 0, 4096).to_vec();
        bytes.extend([7; 4096]);
        let stream = client.stream();
        stream.write_all(&bytes[..cut]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(stream));
    }
    assert_eq!(
        served.export.bytes(),
        vec![0; SIZE],
        "half a payload is never written"
    );
    serves(&served);
}

/// A client says that it sends 32 MiB, on many connections, and sends nothing.
#[test]
fn lengths_alone_cost_no_memory() {
    if !is_alone("lengths_alone_cost_no_memory") {
        return;
    }
    let served = serve(64 << 20, |_| {});
    let before = memory();
    let mut clients = Vec::new();
    for _ in 0..64 {
        let mut client = served.client(true);
        client
            .stream()
            .write_all(&head(Command::Write, 0, 32 << 20))
            .unwrap();
        clients.push(client);
    }
    let mut options = Vec::new();
    for _ in 0..64 {
        let mut client = Client::greet(served.connect()).unwrap();
        client
            .stream()
            .write_all(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff")
            .unwrap();
        options.push(client);
    }
    serves(&served);
    let more = memory().saturating_sub(before);
    assert!(more < 64 << 20, "{more} bytes for 128 idle connections");
}

#[test]
fn a_write_that_is_too_long_ends_the_connection_and_a_long_read_fails() {
    let served = serve(SIZE, |_| {});
    let mut client = served.client(true);
    client
        .stream()
        .write_all(&head(Command::Write, 0, u32::MAX))
        .unwrap();
    assert!(is_closed(client.stream()));
    let mut client = served.client(true);
    let read = client.call(Command::Read, NONE, (0, u32::MAX), &[]);
    assert!(matches!(read, Err(ClientError::Failed(Errno::Invalid))));
    assert_eq!(client.read(0, 1).unwrap(), [0]);
}

/// A client that sends requests and never reads holds its own connection up, and nothing else.
#[test]
fn a_client_that_never_reads_costs_bounded_memory() {
    if !is_alone("a_client_that_never_reads_costs_bounded_memory") {
        return;
    }
    let served = serve(8 << 20, |_| {});
    for micros in [0, 200] {
        served.export.micros.store(micros, Ordering::SeqCst);
        let before = memory();
        let mut client = served.client(true);
        let stream = client.stream();
        stream
            .set_write_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let request = head(Command::Read, 0, 1 << 20);
        while stream.write_all(&request).is_ok() {}
        serves(&served);
        let more = memory().saturating_sub(before);
        assert!(more < 64 << 20, "{more} bytes");
    }
}

#[test]
fn thousands_of_options_end_the_connection() {
    let served = serve(SIZE, |_| {});
    let mut client = Client::greet(served.connect()).unwrap();
    let mut asked = 0;
    while client
        .option(&ClientOption::Info(String::new(), Wants::default()))
        .is_ok()
    {
        asked += 1;
        assert!(asked < 5000);
    }
    serves(&served);
}

#[test]
fn a_flood_of_connections_is_refused_and_passes() {
    let served = serve(SIZE, |settings| settings.connections_max = 20);
    let mut flood: Vec<UnixStream> = (0..100).map(|_| served.connect()).collect();
    let mut greeted = 0;
    for stream in &mut flood {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        greeted += usize::from(stream.read_exact(&mut [0; 18]).is_ok());
    }
    assert_eq!(greeted, 20);
    drop(flood);
    eventually("there is room again", || {
        served.connect().read_exact(&mut [0; 18]).is_ok()
    });
}

#[test]
fn a_client_that_does_not_negotiate_is_sent_away() {
    let served = serve(SIZE, |settings| {
        settings.handshake_time = Duration::from_millis(200)
    });
    let mut silent = served.connect();
    assert!(is_closed(&mut silent));
    // Neither do bytes now and then extend the time.
    let mut slow = served.connect();
    slow.write_all(&[0, 0, 0, 3]).unwrap();
    let mut sent = 0;
    while slow.write_all(b"I").is_ok() {
        clock().sleep(Duration::from_millis(20));
        sent += 1;
        assert!(sent < 500);
    }
    // A client that has negotiated may be silent.
    let mut client = served.client(true);
    clock().sleep(Duration::from_millis(500));
    assert_eq!(client.read(0, 1).unwrap(), [0]);
}

/// Whatever was answered before or while the server was stopped is durable.
#[test]
fn stopping_under_load_loses_nothing_that_was_answered() {
    for micros in [0, 300] {
        let served = serve(4 << 20, |_| {});
        served.export.micros.store(micros, Ordering::SeqCst);
        let threads: Vec<_> = (0..4_u64)
            .map(|part| {
                let mut client = served.client(part % 2 == 0);
                std::thread::spawn(move || {
                    let mut answered = Vec::new();
                    let mut sent = std::collections::BTreeMap::new();
                    let mut number = 0;
                    'all: loop {
                        while sent.len() < 8 {
                            let slot = number % 256;
                            let offset = (part << 20) + slot * 4096;
                            let bytes = pattern(part * 1_000_000 + number + 1, 4096);
                            let Ok(cookie) = client.send(Command::Write, NONE, (offset, 4096), &bytes) else {
                                break 'all;
                            };
                            sent.insert(cookie, number);
                            number += 1;
                        }
                        let Ok(answer) = client.receive() else {
                            break;
                        };
                        let number = sent.remove(&answer.cookie).unwrap();
                        match answer.error {
                            None => answered.push(number),
                            Some(error) => {
                                assert_eq!(error, Errno::ShuttingDown);
                                break;
                            }
                        }
                    }
                    (part, answered, number)
                })
            })
            .collect();
        clock().sleep(Duration::from_millis(100));
        let export = Arc::clone(&served.export);
        assert!(served.server.stop(Duration::from_secs(20)));
        let durable = export.durable();
        for thread in threads {
            let (part, answered, sent) = thread.join().unwrap();
            assert!(!answered.is_empty());
            for slot in 0..256_u64 {
                let Some(last) = answered.iter().filter(|number| *number % 256 == slot).max() else {
                    continue;
                };
                let at = usize::try_from((part << 20) + slot * 4096).unwrap();
                let found = &durable[at..at + 4096];
                // The answered write, or a later one to the same place that has no answer.
                let is_so = (*last..sent)
                    .step_by(256)
                    .any(|number| found == pattern(part * 1_000_000 + number + 1, 4096));
                assert!(is_so, "the answered write {last} of client {part} is lost");
            }
        }
    }
}

#[test]
fn a_stopped_server_says_so_and_cuts_clients_that_never_read() {
    let served = serve(8 << 20, |_| {});
    let mut client = served.client(true);
    let mut deaf = served.client(true);
    deaf.stream()
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    while deaf.stream().write_all(&head(Command::Read, 0, 1 << 20)).is_ok() {}
    let server = served.server;
    let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(1)));
    // Requests fail from some moment on, and then the connection ends.
    let mut said = false;
    loop {
        match client.read(0, 1) {
            Ok(_) => {}
            Err(ClientError::Failed(error)) => {
                assert_eq!(error, Errno::ShuttingDown);
                said = true;
            }
            Err(_) => break,
        }
    }
    assert!(said);
    assert!(!stopping.join().unwrap(), "one client was cut");
    assert!(!served.socket.exists());
    assert!(is_closed(deaf.stream()));
}

#[test]
fn wishes_for_unknown_exports_leave_no_trace() {
    let served = serve(SIZE, |_| {});
    for number in 0..100 {
        let wish = Wish {
            export: format!("none {number}"),
            ..Wish::default()
        };
        assert!(matches!(
            Client::open(served.connect(), &wish),
            Err(ClientError::Refused { .. })
        ));
    }
    assert!(served.server.stats().is_empty());
}

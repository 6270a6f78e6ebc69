//! Frames over real sockets, with and without TLS.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use env::{Clock, ManualClock, SystemClock};
use types::UnixNanos;

use crate::*;

/// Both ends of a channel with TLS. The client expects this pin.
fn ends(
    authority: Authority,
    pin: Pin,
    clock: &Arc<dyn Clock>,
) -> (Result<Channel, TransportError>, Result<Channel, TransportError>) {
    let (one, other) = UnixStream::pair().unwrap();
    let acceptor = Acceptor::new(authority, clock).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)));
    let connector = Connector::new(pin, clock).unwrap();
    let client = connector.connect(Channel::from(one));
    (client, server.join().unwrap())
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

#[test]
fn both_directions_carry_much_at_once() {
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    let (client, server) = ends(authority, pin, &clock());
    let (client, server) = (client.unwrap(), server.unwrap());
    let carry = |channel: Channel, seed: u8| {
        let traffic = Traffic::default();
        let mut reader = FrameReader::new(channel.input, traffic.clone());
        let writer = FrameWriter::new(channel.output, traffic.clone());
        let bodies: Vec<Vec<u8>> = (0..20_usize).map(|n| vec![seed ^ 1; n * n * 5000]).collect();
        let sending = thread::spawn(move || {
            for n in 0..20_usize {
                writer
                    .send(7, u32::try_from(n).unwrap(), &vec![seed; n * n * 5000])
                    .unwrap();
            }
            writer
        });
        for (n, body) in bodies.iter().enumerate() {
            let (head, received) = reader.next(wire::FRAME_BYTES_MAX).unwrap().unwrap();
            assert_eq!((head.kind, head.number as usize), (7, n));
            assert!(received == *body, "frame {n}");
        }
        drop(sending.join().unwrap());
        assert!(reader.next(1).unwrap().is_none(), "an orderly end");
        assert_eq!(traffic.sent(), traffic.received());
    };
    let other = thread::spawn(move || carry(server, 1));
    carry(client, 0);
    other.join().unwrap();
}

/// Bytes that come with the end of the handshake are not lost: the reader does not wait for more.
#[test]
fn a_first_message_beside_the_handshake_is_read() {
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    for _ in 0..50 {
        let (one, other) = UnixStream::pair().unwrap();
        other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let acceptor = Acceptor::new(Authority::from_key(authority.key()).unwrap(), &clock()).unwrap();
        let client = thread::spawn(move || {
            let connector = Connector::new(pin, &clock()).unwrap();
            let mut channel = connector.connect(Channel::from(one)).unwrap();
            channel.output.write_all(b"hello").unwrap();
            channel
        });
        let mut server = acceptor.accept(Channel::from(other)).unwrap();
        let mut read = [0; 5];
        server.input.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"hello");
        drop(client.join().unwrap());
    }
}

/// The bytes of an output that wait until a test sends them.
type Waiting = Arc<Mutex<Vec<u8>>>;

/// An output that sends its first writes, and lets all later ones wait.
struct Held {
    output: Output,
    sent: usize,
    waiting: Waiting,
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.sent > 0 {
            self.sent -= 1;
            return self.output.write(bytes);
        }
        self.waiting.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.output.flush()
    }
}

/// The server's end of a connection whose client has sent, in one write, the end of its handshake,
/// a message, its goodbye, and these bytes after it. Also returns the client's socket.
fn said_goodbye(message: &[u8], after: &[u8]) -> (Channel, UnixStream) {
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    let (mut one, other) = UnixStream::pair().unwrap();
    other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let acceptor = Acceptor::new(authority, &clock()).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)));
    let waiting = Waiting::default();
    let plain = Channel::from(one.try_clone().unwrap());
    let held = Held {
        output: plain.output,
        // The client's hello.
        sent: 1,
        waiting: Arc::clone(&waiting),
    };
    let plain = Channel {
        output: Box::new(held),
        ..plain
    };
    let connector = Connector::new(pin, &clock()).unwrap();
    let mut client = connector.connect(plain).unwrap();
    client.output.write_all(message).unwrap();
    drop(client.output);
    let mut bytes = std::mem::take(&mut *waiting.lock().unwrap());
    bytes.extend_from_slice(after);
    one.write_all(&bytes).unwrap();
    (server.join().unwrap().unwrap(), one)
}

/// Everything that a channel receives, and how it ends.
fn received(channel: Channel) -> std::io::Result<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // All of it: an output that is dropped says goodbye, and waits for a reader that spins.
        let mut channel = channel;
        let mut all = Vec::new();
        let end = channel.input.read_to_end(&mut all);
        tell.send(end.map(|_| all)).ok();
    });
    told.recv_timeout(Duration::from_secs(20)).expect("an end")
}

/// RFC 8446, 6.1: an end ignores what follows the other one's goodbye. TLS takes none of it.
#[test]
fn bytes_after_a_goodbye_are_ignored() {
    let after = vec![7; 64 << 10];
    let (server, _client) = said_goodbye(b"hello", &after);
    assert_eq!(received(server).unwrap(), b"hello");

    // The server has its whole handshake behind it.
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    let (mut one, other) = UnixStream::pair().unwrap();
    let acceptor = Acceptor::new(authority, &clock()).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)));
    let connector = Connector::new(pin, &clock()).unwrap();
    let client = connector.connect(Channel::from(one.try_clone().unwrap()));
    let mut client = client.unwrap();
    let server = server.join().unwrap().unwrap();
    client.output.write_all(b"hello").unwrap();
    drop(client.output);
    one.write_all(&after).unwrap();
    assert_eq!(received(server).unwrap(), b"hello");
}

/// The client keeps its socket open: nothing more comes, and the server does not wait for it.
#[test]
fn a_goodbye_beside_the_handshake_is_heard() {
    let (server, _client) = said_goodbye(b"", b"");
    assert_eq!(received(server).unwrap(), b"");
    let (server, _client) = said_goodbye(b"", &[7; 64 << 10]);
    assert_eq!(received(server).unwrap(), b"");
}

/// A server has one descriptor for each client, so that clients use up fewer of them.
#[test]
fn both_directions_and_the_closer_share_a_socket() {
    let (one, mut other) = UnixStream::pair().unwrap();
    let socket = Arc::new(one);
    let mut channel = Channel::from(Arc::clone(&socket));
    assert_eq!(Arc::strong_count(&socket), 4);
    channel.output.write_all(b"out").unwrap();
    other.write_all(b"in").unwrap();
    let (mut out, mut back) = ([0; 3], [0; 2]);
    other.read_exact(&mut out).unwrap();
    channel.input.read_exact(&mut back).unwrap();
    assert_eq!((&out, &back), (b"out", b"in"));
    channel.closer.close();
    assert_eq!(other.read(&mut out).unwrap(), 0);
}

#[test]
fn only_a_server_of_the_pinned_authority_is_trusted() {
    let other = Authority::generate().unwrap().pin().unwrap();
    let (client, server) = ends(Authority::generate().unwrap(), other, &clock());
    assert!(matches!(client, Err(TransportError::Untrusted(_))), "{client:?}");
    assert!(server.is_err());
}

#[test]
fn an_authority_is_known_again_by_its_key() {
    let authority = Authority::generate().unwrap();
    let again = Authority::from_key(authority.key()).unwrap();
    let pin = authority.pin().unwrap();
    assert_eq!(pin, again.pin().unwrap());
    assert_eq!(pin.to_string().parse(), Ok(pin));
    let (client, server) = ends(again, pin, &clock());
    assert!(client.is_ok() && server.is_ok(), "{client:?} {server:?}");
    assert!(Authority::from_key(b"no key").is_err());
}

/// The client's clock is a hundred days ahead: the certificate has expired.
#[test]
fn a_certificate_expires() {
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let (then, later) = (at(0), at(100));
    let acceptor = Acceptor::new(authority, &then).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)).is_ok());
    let connector = Connector::new(pin, &later).unwrap();
    let client = connector.connect(Channel::from(one));
    assert!(matches!(client, Err(TransportError::Untrusted(_))), "{client:?}");
    assert!(!server.join().unwrap());
}

#[test]
fn a_cut_is_no_orderly_end() {
    let authority = Authority::generate().unwrap();
    let pin = authority.pin().unwrap();
    let (client, server) = ends(authority, pin, &clock());
    let (mut client, server) = (client.unwrap(), server.unwrap());
    client.output.write_all(b"half").unwrap();
    server.closer.close();
    let mut reader = FrameReader::new(client.input, Traffic::default());
    assert!(reader.next(100).is_err());
}

#[test]
fn a_client_without_tls_is_refused() {
    let (mut one, other) = UnixStream::pair().unwrap();
    let acceptor = Acceptor::new(Authority::generate().unwrap(), &clock()).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)).is_err());
    one.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(one.read_to_end(&mut answer));
    assert!(server.join().unwrap());
}

/// A hello of TLS 1.2, as somebody between the ends may make of one of TLS 1.3.
#[test]
fn a_client_of_an_older_tls_is_refused() {
    let (mut one, other) = UnixStream::pair().unwrap();
    let acceptor = Acceptor::new(Authority::generate().unwrap(), &clock()).unwrap();
    let server = thread::spawn(move || acceptor.accept(Channel::from(other)).is_err());
    let hello = [
        &[0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3][..],
        &[7; 32],
        // No session, one suite, no compression, no extensions.
        &[0, 0, 2, 0xc0, 0x2f, 1, 0, 0, 0],
    ];
    one.write_all(&hello.concat()).unwrap();
    let mut answer = Vec::new();
    drop(one.read_to_end(&mut answer));
    assert!(server.join().unwrap());
    assert_eq!(answer.first(), Some(&0x15), "an alert: {answer:?}");
}

#[test]
fn a_frame_that_ends_early_is_an_error() {
    let (mut one, other) = UnixStream::pair().unwrap();
    let mut whole = Vec::new();
    wire::frame_into(&mut whole, 1, 2, |out| out.extend_from_slice(b"body")).unwrap();
    one.write_all(&whole[..whole.len() - 1]).unwrap();
    drop(one);
    let mut reader = FrameReader::new(Box::new(other), Traffic::default());
    assert!(matches!(reader.next(100), Err(TransportError::Closed)));
}

/// A clock that stands, so many days after a day in 2026.
fn at(days: i64) -> Arc<dyn Clock> {
    let seconds = 1_780_000_000 + days * 24 * 3600;
    Arc::new(ManualClock::new(UnixNanos::new(seconds * 1_000_000_000)))
}

//! Frames over real sockets, with and without TLS.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
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
    let server = thread::spawn(move || acceptor.accept(Channel::try_from(other).unwrap()));
    let connector = Connector::new(pin, clock).unwrap();
    let client = connector.connect(Channel::try_from(one).unwrap());
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
            let mut channel = connector.connect(Channel::try_from(one).unwrap()).unwrap();
            channel.output.write_all(b"hello").unwrap();
            channel
        });
        let mut server = acceptor.accept(Channel::try_from(other).unwrap()).unwrap();
        let mut read = [0; 5];
        server.input.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"hello");
        drop(client.join().unwrap());
    }
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
    let server = thread::spawn(move || acceptor.accept(Channel::try_from(other).unwrap()).is_ok());
    let connector = Connector::new(pin, &later).unwrap();
    let client = connector.connect(Channel::try_from(one).unwrap());
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
    let server = thread::spawn(move || acceptor.accept(Channel::try_from(other).unwrap()).is_err());
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
    let server = thread::spawn(move || acceptor.accept(Channel::try_from(other).unwrap()).is_err());
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

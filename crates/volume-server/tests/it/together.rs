//! Requests at a slow device: reads that are done together, and how a server learns what is slow.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{BLOCK, clock, pattern, serve};
use crate::hostile::head;
use nbd::{Command, CommandFlags, Errno, REQUEST_BYTES};

const SIZE: usize = 4 << 20;
const NONE: CommandFlags = CommandFlags(0);

/// The bytes of the device: every sixteenth block is zeros that nobody wrote.
fn content() -> Vec<u8> {
    let mut bytes = pattern(3, SIZE);
    for block in bytes.chunks_mut(BLOCK).step_by(16) {
        block.fill(0);
    }
    bytes
}

#[test]
fn each_read_has_its_own_bytes_or_its_own_error() {
    let content = content();
    for is_structured in [true, false] {
        let served = serve(SIZE, |_| {});
        let mut client = served.client(is_structured);
        for (number, block) in content.chunks(BLOCK).enumerate() {
            if number % 16 > 0 {
                client.write((number * BLOCK) as u64, block, NONE).unwrap();
            }
        }
        let bad = 77 * BLOCK + 5;
        served.export.fails_at.store(bad as u64, Ordering::SeqCst);
        served.export.micros.store(2000, Ordering::SeqCst);
        served.export.at_once.store(7, Ordering::SeqCst);
        // Small and large ones, parts of blocks, holes, and between them requests of other kinds.
        let mut failed = 0;
        // A round's requests fit into the socket, so this client need not receive meanwhile.
        for round in 0..4 {
            let mut sent = Vec::new();
            for number in round * 100..(round + 1) * 100_usize {
                let len = [BLOCK, 1, 512, 3 * BLOCK + 7, 100_000, 1 << 20][number * 7 % 11 % 6];
                let at = (number * 13 * BLOCK + number % 3 * 100) % (SIZE - len);
                let (place, len) = (at as u64, u32::try_from(len).unwrap());
                if number % 29 == 28 {
                    let cookie = client.send(Command::Flush, NONE, (0, 0), &[]).unwrap();
                    sent.push((cookie, 0..0));
                }
                let cookie = client.send(Command::Read, NONE, (place, len), &[]).unwrap();
                sent.push((cookie, at..at + len as usize));
            }
            for _ in 0..sent.len() {
                let answer = client.receive().unwrap();
                let place = sent.iter().position(|(cookie, _)| *cookie == answer.cookie);
                let (_, range) = sent.swap_remove(place.expect("each is answered once"));
                if range.contains(&bad) {
                    assert_eq!(answer.error, Some(Errno::Io));
                    failed += 1;
                } else {
                    assert_eq!(answer.error, None);
                    assert!(answer.data == content[range.clone()], "{range:?}");
                }
            }
        }
        assert!(failed > 3);
        let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::SeqCst);
        let (calls, together) = (count(&served.export.calls), count(&served.export.together));
        assert!(
            calls > 0 && together > 2 * calls,
            "{together} reads in {calls} calls"
        );
        let stats = served.server.stats();
        assert_eq!((stats[""].reads, stats[""].errors), (400, failed), "{stats:?}");
    }
}

/// The device was slow and is quick now, but each payload comes late. So the server must measure
/// the device alone to learn that.
#[test]
fn a_late_payload_does_not_keep_a_quick_device_slow() {
    let served = serve(SIZE, |_| {});
    let mut client = served.client(false);
    served.export.micros.store(1000, Ordering::SeqCst);
    (0..100).for_each(|_| client.write(0, &[1; BLOCK], NONE).unwrap());
    let mut request = head(Command::Write, 0, 4096).to_vec();
    request.resize(REQUEST_BYTES + BLOCK, 1);
    let stream = client.stream();
    let simple_reply_bytes = 16;
    // On a busy machine some of the quick requests take long.
    for _ in 0..5 {
        served.export.micros.store(0, Ordering::SeqCst);
        for _ in 0..60 {
            stream.write_all(&request[..REQUEST_BYTES]).unwrap();
            clock().sleep(Duration::from_millis(1));
            stream.write_all(&request[REQUEST_BYTES..]).unwrap();
            stream.read_exact(&mut vec![0; simple_reply_bytes]).unwrap();
        }
        served.export.busiest.store(0, Ordering::SeqCst);
        served.export.micros.store(2000, Ordering::SeqCst);
        stream.write_all(&request.repeat(3)).unwrap();
        stream.read_exact(&mut vec![0; 3 * simple_reply_bytes]).unwrap();
        if served.export.busiest.load(Ordering::SeqCst) == 1 {
            return;
        }
    }
    panic!("a thread does slow requests one after another only while it takes them for quick ones");
}

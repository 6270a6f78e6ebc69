//! Reads that arrive together at a slow device, and are done together.

use std::sync::atomic::Ordering;

use crate::common::{BLOCK, pattern, serve};
use nbd::{Command, CommandFlags, Errno};

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

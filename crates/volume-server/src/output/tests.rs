use std::os::unix::net::UnixStream;

use nbd::client::{Content, Parsed, Reply};
use proptest::prelude::*;

use super::*;

/// Sends what waits, and returns it as the client receives it.
fn sent(replies: &mut Replies) -> Vec<u8> {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let received = scope.spawn(move || {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut &far, &mut bytes).unwrap();
            bytes
        });
        let output = Output::Plain(Arc::new(Socket::Unix(near)));
        replies.send(&output).unwrap();
        drop(output);
        received.join().unwrap()
    })
}

/// The bytes of a read as a client puts them together, how many of them were holes, and how many
/// chunks there were. Fails unless the chunks are those of the read, each byte once, and only the
/// last one says so.
fn put_together(mut bytes: &[u8], read: &ReadChunks) -> (Vec<u8>, usize, usize) {
    let (mut data, mut of_holes, mut chunks) = (Vec::new(), 0, 0);
    while !bytes.is_empty() {
        let Ok(Parsed::Whole(reply, len)) = Reply::parse(bytes) else {
            panic!("no chunk begins here")
        };
        bytes = &bytes[len..];
        assert_eq!(reply.cookie, read.cookie);
        chunks += 1;
        let at = read.offset + data.len() as u64;
        match reply.content {
            Content::Data(offset, len) => {
                assert_eq!(offset, at);
                let len = len as usize;
                data.extend_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
            }
            Content::Hole(offset, len) => {
                assert_eq!(offset, at);
                data.resize(data.len() + len as usize, 0);
                of_holes += len as usize;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(reply.is_last, read.is_last && bytes.is_empty());
    }
    (data, of_holes, chunks)
}

proptest! {
    #[test]
    fn a_client_puts_data_and_holes_together(
        runs in proptest::collection::vec((any::<bool>(), 1..3 * 4096_usize), 1..60),
        is_last in any::<bool>(),
        before in 0..3_usize,
    ) {
        let len = runs.iter().map(|(_, len)| len).sum();
        let read = ReadChunks { cookie: 77, is_last, offset: 1 << 40, len };
        let mut replies = Replies::new();
        for _ in 0..before {
            prop_assert!(replies.add(&reply::none(1)));
        }
        let room = replies.room(len).expect("it is short");
        let (mut holes, mut at, mut longest) = (Holes::default(), 0, 0);
        for (number, (is_hole, len)) in (1_u8..).zip(&runs) {
            if *is_hole {
                holes.add(at..at + len);
                longest = longest.max(*len);
            }
            room[at..at + len].fill(if *is_hole { 0 } else { number });
            at += len;
        }
        let expected = room.to_vec();
        replies.add_chunks(&read, &mut holes);
        let waiting = replies.bytes();
        let bytes = sent(&mut replies);
        prop_assert_eq!(bytes.len(), waiting);
        let (data, of_holes, chunks) = put_together(&bytes[before * 20..], &read);
        prop_assert!(data == expected);
        prop_assert!(longest < 4096 || of_holes > 0);
        prop_assert!(chunks <= 2 * HOLES_MAX + 1);
    }
}

#[test]
fn reads_with_holes_wait_together_until_no_more_fit() {
    let mut replies = Replies::new();
    let read = |cookie| ReadChunks {
        cookie,
        is_last: true,
        offset: 0,
        len: 5 * 4096,
    };
    let mut count = 0;
    while let Some(room) = replies.room(5 * 4096) {
        room.fill(9);
        let mut holes = Holes::default();
        for at in [0, 2, 4] {
            room[at * 4096..(at + 1) * 4096].fill(0);
            holes.add(at * 4096..(at + 1) * 4096);
        }
        replies.add_chunks(&read(count), &mut holes);
        count += 1;
    }
    assert!(count > 10, "{count}");
    let bytes = sent(&mut replies);
    let each = bytes.len() / usize::try_from(count).unwrap();
    assert_eq!(each, 3 * 32 + 2 * (28 + 4096));
    for (cookie, one) in (0..).zip(bytes.chunks(each)) {
        let (data, of_holes, chunks) = put_together(one, &read(cookie));
        assert_eq!((data.len(), of_holes, chunks), (5 * 4096, 3 * 4096, 5));
        assert!(data[4096..2 * 4096].iter().all(|byte| *byte == 9));
    }
}

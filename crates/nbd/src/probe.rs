//! A function for fuzzing, and for the tests that feed it pseudo-random bytes.

use crate::client::{self, OptionReply, Parsed, Reply};
use crate::{
    ALLOCATION_CONTEXT, BlockSizes, ExportDetails, OPTION_BYTES_MAX, REQUEST_BYTES, Request, Rules,
    ServerHaggle, Step, TlsMode, TransmissionFlags,
};

/// Feeds bytes to every decoder. The first byte chooses how the negotiation's bytes are split.
///
/// # Panics
/// If the code is wrong: a decoder panics, stores more than it may, or says something else when the
/// same bytes come in other pieces.
pub fn nbd(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let tls = [TlsMode::Off, TlsMode::Offered, TlsMode::Required][usize::from(choice % 3)];
    let whole = haggle(tls, bytes, usize::MAX);
    let pieces = haggle(tls, bytes, usize::from(choice / 3) % 40 + 1);
    if !whole.0.contains(&Step::StartTls) && !pieces.0.contains(&Step::StartTls) {
        assert_eq!(whole, pieces, "the split of the bytes makes a difference");
    }
    requests(bytes);
    server_messages(bytes);
}

/// Plays a server that has one export without a name. Returns all steps but `More`, what it sent,
/// and how many bytes it used.
#[must_use]
pub fn haggle(tls: TlsMode, bytes: &[u8], piece: usize) -> (Vec<Step>, Vec<u8>, usize) {
    let details = ExportDetails {
        size_bytes: 1 << 30,
        flags: TransmissionFlags::ALL,
        description: "a disk".to_owned(),
        block_sizes: BlockSizes::default(),
        contexts: vec![ALLOCATION_CONTEXT.to_owned(), "qemu:dirty-bitmap:day".to_owned()],
    };
    let mut machine = ServerHaggle::new(tls);
    let (mut steps, mut sent, mut used) = (Vec::new(), Vec::new(), 0);
    for mut part in bytes.chunks(piece.min(bytes.len().max(1))) {
        let mut before = part.len();
        loop {
            let mut step = machine.step(&mut part, &mut sent);
            used += before - part.len();
            before = part.len();
            assert!(
                machine.stored_bytes() <= 2 * OPTION_BYTES_MAX,
                "it stores too much"
            );
            if let Step::Find(name) = &step {
                steps.push(step.clone());
                step = machine.found(Some(&details).filter(|_| name.is_empty()), &mut sent);
                if step == Step::More {
                    continue;
                }
            }
            match step {
                Step::More => break,
                Step::List => machine.listed(["", "b"], &mut sent),
                Step::Transmit(_) | Step::Close(_) => {
                    steps.push(step);
                    return (steps, sent, used);
                }
                Step::StartTls | Step::Find(_) => {}
            }
            steps.push(step);
        }
    }
    (steps, sent, used)
}

fn requests(bytes: &[u8]) {
    for part in bytes.as_chunks::<REQUEST_BYTES>().0 {
        let Ok(request) = Request::decode(part) else {
            continue;
        };
        assert_eq!(request.encode(), *part);
        let rules = Rules {
            size_bytes: 1 << 40,
            flags: TransmissionFlags::ALL.without(TransmissionFlags::READ_ONLY),
            is_structured: true,
            has_contexts: true,
            payload_max: 1 << 25,
        };
        if rules.check(&request).is_ok() {
            let end = request.offset.checked_add(u64::from(request.len));
            assert!(end.is_some_and(|end| end <= rules.size_bytes) || request.command.number() == 2);
        }
    }
}

fn server_messages(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk() {
        client::greeting(first).ok();
    }
    let mut rest = bytes;
    while let Ok(Parsed::Whole(_, len)) = OptionReply::parse(rest) {
        rest = &rest[len..];
    }
    let mut rest = bytes;
    while let Ok(Parsed::Whole(_, len)) = Reply::parse(rest) {
        rest = &rest[len..];
    }
}

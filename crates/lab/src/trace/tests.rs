use proptest::prelude::*;

use super::*;
use crate::test_output::TestOutput;

/// The replayed backups.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held(Vec<(BackupHead, Vec<Chunk>, bool)>);

impl Sink for Held {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.0.push((head.clone(), Vec::new(), false));
        Ok(())
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        assert!(!chunks.is_empty());
        self.0.last_mut().unwrap().1.extend_from_slice(chunks);
        Ok(())
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        self.0.last_mut().unwrap().2 = true;
        Ok(())
    }
}

fn held() -> impl Strategy<Value = Held> {
    let print = prop::array::uniform32(1..=u8::MAX).prop_map(Fingerprint::from_bytes);
    let chunk =
        (prop::option::of(print), 1..u32::MAX).prop_map(|(fingerprint, len)| Chunk { fingerprint, len });
    let backup = (".{0,9}", any::<bool>(), prop::collection::vec(chunk, 0..30));
    let backups = prop::collection::vec(backup, 0..5);
    backups.prop_map(|backups| {
        let each = backups.into_iter().map(|(name, is_full, chunks)| {
            let extent = if is_full {
                Extent::Full
            } else {
                Extent::Incremental
            };
            (BackupHead { name, extent }, chunks, true)
        });
        Held(each.collect())
    })
}

fn written(held: &Held) -> Vec<u8> {
    let mut writer = TraceWriter::new("trace", Vec::new()).unwrap();
    for (head, chunks, _) in &held.0 {
        writer.begin(head).unwrap();
        if !chunks.is_empty() {
            writer.chunks(chunks).unwrap();
        }
        writer.end().unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Held, SimulateError> {
    let mut held = Held::default();
    TraceReader::new("trace", bytes)?.replay(&mut held)?;
    Ok(held)
}

proptest! {
    #[test]
    fn a_trace_replays_the_written_backups(held in held()) {
        prop_assert_eq!(read(&written(&held)).unwrap(), held);
    }

    #[test]
    fn a_truncated_trace_is_refused(held in held(), cut in any::<prop::sample::Index>()) {
        let bytes = written(&held);
        let error = read(&bytes[..cut.index(bytes.len())]).unwrap_err().to_string();
        prop_assert!(error.contains("ends too early"), "{}", error);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), whole in held()) {
        drop(read(&[MAGIC.as_slice(), &bytes].concat()));
        let mut mixed = written(&whole);
        for (at, byte) in bytes.iter().enumerate() {
            let len = mixed.len();
            mixed[(at * 7919 + usize::from(*byte)) % len] ^= byte;
        }
        drop(read(&mixed));
    }
}

fn as_destor(held: &Held) -> Vec<Vec<u8>> {
    let out = TestOutput::default();
    let mut writer = DestorWriter::new(|_| Ok(out.open()));
    for (head, chunks, _) in &held.0 {
        writer.begin(head).unwrap();
        writer.chunks(chunks).unwrap();
        writer.end().unwrap();
    }
    drop(writer);
    out.into_each()
}

fn read_destor(bytes: &[u8]) -> Result<Held, SimulateError> {
    let mut held = Held::default();
    open_trace("day", bytes)?.replay(&mut held)?;
    Ok(held)
}

/// Truncates fingerprints as destor does.
fn cut(chunks: &[Chunk]) -> Vec<Chunk> {
    let each = chunks.iter().map(|chunk| Chunk {
        fingerprint: chunk.fingerprint.map(|fingerprint| {
            let mut bytes = *fingerprint.as_bytes();
            bytes[20..].fill(0);
            Fingerprint::from_bytes(bytes)
        }),
        ..*chunk
    });
    each.collect()
}

proptest! {
    #[test]
    fn a_trace_of_destor_replays_the_written_backups(held in held(), at in any::<prop::sample::Index>()) {
        for ((_, chunks, _), bytes) in held.0.iter().zip(as_destor(&held)) {
            let read = read_destor(&bytes).unwrap().0;
            prop_assert_eq!(&read[0].1, &cut(chunks));
            prop_assert_eq!(read.len(), 1);
            let error = read_destor(&bytes[..at.index(bytes.len())]).unwrap_err().to_string();
            prop_assert!(error.contains("day, at byte"), "{}", error);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(file start [0-9]{0,3}\n[a-z\n]{0,9}|[0-9A-F]{40} [0-9]{0,9}\n|file end\n|stream end|.{0,9}){0,9}") {
        drop(read_destor(text.as_bytes()));
    }
}

#[test]
fn a_trace_as_destor_writes_it_is_read() {
    let text = "file start 4\na\nbc\n00112233445566778899aABBCCDDEEFF00112233 4096\nfile end\nfile start 1\nb\n\
                0000000000000000000000000000000000000000 7\nfile end\nstream end";
    let read = read_destor(text.as_bytes()).unwrap().0;
    let chunks = &read[0].1;
    let print = chunks[0].fingerprint.unwrap();
    assert_eq!(&print.as_bytes()[..4], [0, 0x11, 0x22, 0x33]);
    assert_eq!(
        (print.as_bytes()[10], print.as_bytes()[19], print.as_bytes()[20]),
        (0xaa, 0x33, 0)
    );
    assert_eq!(
        (chunks[0].len, chunks[1]),
        (
            4096,
            Chunk {
                fingerprint: None,
                len: 7
            }
        )
    );
}

#[test]
fn bytes_that_are_no_trace_are_refused() {
    let error = read(b"something else").unwrap_err().to_string();
    assert_eq!(
        error,
        "trace, at byte 0: this is no chunk trace; make the trace again"
    );
    let mut bytes = written(&Held::default());
    bytes.push(0);
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("bytes after its end"), "{error}");
}

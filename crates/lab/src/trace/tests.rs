use proptest::prelude::*;

use super::*;

/// What was replayed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held(Vec<(BackupHead, Vec<Chunk>, bool)>);

impl Sink for Held {
    fn begin(&mut self, head: &BackupHead) -> Result<(), LabError> {
        self.0.push((head.clone(), Vec::new(), false));
        Ok(())
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), LabError> {
        assert!(!chunks.is_empty());
        self.0.last_mut().unwrap().1.extend_from_slice(chunks);
        Ok(())
    }
    fn end(&mut self) -> Result<(), LabError> {
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

fn read(bytes: &[u8]) -> Result<Held, LabError> {
    let mut held = Held::default();
    TraceReader::new("trace", bytes)?.replay(&mut held)?;
    Ok(held)
}

proptest! {
    #[test]
    fn a_trace_replays_what_was_written(held in held()) {
        prop_assert_eq!(read(&written(&held)).unwrap(), held);
    }

    #[test]
    fn a_trace_that_was_cut_short_is_told(held in held(), cut in any::<prop::sample::Index>()) {
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

#[test]
fn what_is_no_trace_is_told() {
    let error = read(b"something else").unwrap_err().to_string();
    assert_eq!(
        error,
        "trace, at byte 0: this is no chunk trace; make the trace again"
    );
    let mut bytes = written(&Held::default());
    bytes.push(0);
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("something follows"), "{error}");
}

use env::MemoryStorage;
use onefold::OpenOptions;

use super::*;
use crate::reproduce::Progress;
use crate::reproduce::atc11::engine::{Engine, Payload, Unique, ingest_options};

#[test]
fn objects_other_than_data_containers_are_kept() {
    env::conformance::check(&HollowStorage::new(Arc::new(MemoryStorage::new())));
}

/// A whole data container of a store, and its name.
fn container() -> (ObjectName, Vec<u8>) {
    let progress = Progress::new(std::sync::Arc::default());
    let engine = Engine::new(Payload::Kept, &OpenOptions::default()).unwrap();
    let jobs = Unique::jobs(0..1, 3 << 20, &progress);
    engine
        .back_up(jobs, &ingest_options(1, 1 << 20), &progress)
        .unwrap();
    let storage = &engine.env().storage;
    let listed = storage.list(ContainerKind::Data.folder()).unwrap();
    let name = listed.first().unwrap().name.clone();
    let bytes = storage.get(&name).unwrap();
    (name, bytes)
}

#[test]
fn a_container_is_as_it_was_but_for_its_regions() {
    let (name, whole) = container();
    let inner = Arc::new(MemoryStorage::new());
    let hollow = HollowStorage::new(Arc::clone(&inner) as Arc<dyn Storage>);
    hollow.put(&name, &[&whole[..100], &whole[100..]]).unwrap();
    let gap = Gap::of(&name, &whole).unwrap();
    assert!(gap.len > 3 << 20 && hollow.given_up_bytes() == gap.len, "{gap:?}");
    let kept = inner.head(&name).unwrap().len;
    assert_eq!(kept, whole.len() as u64 - gap.len);
    let (begin, end) = (72, usize::try_from(gap.end()).unwrap());
    let mut expected = whole.clone();
    expected[begin..end].fill(0);
    assert_eq!(hollow.get(&name).unwrap(), expected);
    assert_eq!(hollow.head(&name).unwrap().len, whole.len() as u64);
    assert_eq!(hollow.list("").unwrap()[0].len, whole.len() as u64);
    for from in [0, 50, 72, 1000, end - 1, end, end + 7, whole.len()] {
        for until in [0, 60, 72, 73, 2000, end, end + 1, whole.len()] {
            if from <= until {
                let (offset, len) = (from as u64, (until - from) as u64);
                let read = hollow.get_range(&name, ByteRange { offset, len }).unwrap();
                assert_eq!(read, expected[from..until], "{from}..{until}");
            }
        }
        let (tail, len) = hollow.get_tail(&name, (whole.len() - from) as u64).unwrap();
        assert_eq!((tail.as_slice(), len), (&expected[from..], whole.len() as u64));
    }
    let len = whole.len() as u64 + 1;
    let past = hollow.get_range(&name, ByteRange { offset: 0, len });
    assert!(matches!(past, Err(StorageError::PastEnd { .. })));
    assert!(matches!(
        hollow.put(&name, &[b"another"]),
        Err(StorageError::AlreadyExists { .. })
    ));
    assert_eq!(hollow.get(&name).unwrap(), expected);
    let body = ObjectName::new(format!("{name}.body")).unwrap();
    hollow
        .trim(&name, &body, &[ByteRange { offset: 100, len: 10 }])
        .unwrap();
    assert_eq!(hollow.get(&body).unwrap(), expected);
    assert!(!hollow.trim(&name, &body, &[]).unwrap(), "renamed before");
    hollow.delete(&body).unwrap();
    assert_eq!(hollow.given_up_bytes(), 0);
}

#[test]
fn a_hollow_store_deduplicates_and_restores_nothing() {
    let progress = Progress::new(std::sync::Arc::default());
    let engine = Engine::new(Payload::GivenUp, &OpenOptions::default()).unwrap();
    let options = ingest_options(1, 1 << 20);
    let back_up = || {
        let ran = engine.back_up(Unique::jobs(0..1, 3 << 20, &progress), &options, &progress);
        ran.unwrap().reports.remove(0)
    };
    assert_eq!(back_up().totals.bytes_new, 3 << 20);
    let second = back_up();
    assert_eq!(second.totals.bytes_new, 0);
    let restored = engine.restore(&[second.id], onefold::AssembleOptions::for_cores(1));
    assert!(restored.is_err(), "{restored:?}");
}

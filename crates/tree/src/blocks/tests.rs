use std::io::Read;

use proptest::prelude::*;

use super::*;

fn file_of(writer: &BlockWriter) -> &File {
    match &writer.out {
        Out::Here(file) => file,
        Out::Threads { shared, .. } => &shared.file,
    }
}

/// Pieces in order with gaps between them, as a file with zeros has.
fn pieces() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let gap = prop_oneof![3 => Just(0), 1 => 1..10_000_u32, 1 => (1..40_u32).prop_map(|n| n * 4096)];
    let len = prop_oneof![2 => 1..5_000_u32, 2 => 1..300_000_u32, 1 => Just(4096), 1 => Just(5 << 20)];
    prop::collection::vec((gap, len), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(10)))]

    #[test]
    fn every_byte_is_at_its_offset(pieces in pieces(), threads in 0..=THREADS_MAX, refused in any::<bool>()) {
        let named = tempfile::NamedTempFile::new_in(".").unwrap();
        let len = threads * THREAD_BYTES_MIN;
        let mut writer = BlockWriter::new(named.as_file(), len).unwrap();
        if refused {
            file_of(&writer).refuse();
        }
        let mut model: Vec<u8> = Vec::new();
        for (number, (gap, len)) in (1_u8..).zip(&pieces) {
            model.resize(model.len() + *gap as usize, 0);
            let bytes: Vec<u8> = (0..*len).map(|n| number.wrapping_mul(31) ^ n.to_le_bytes()[0] | 1).collect();
            writer.write(model.len() as u64, &bytes).unwrap();
            model.extend_from_slice(&bytes);
        }
        writer.finish().unwrap();
        let mut found = Vec::new();
        named.reopen().unwrap().read_to_end(&mut found).unwrap();
        let beyond = found.split_off(model.len().min(found.len()));
        prop_assert!(beyond.iter().all(|byte| *byte == 0), "length alone");
        prop_assert!(found == model, "{} of {} bytes", found.len(), model.len());
    }
}

#[test]
fn an_error_is_told_at_the_latest_when_it_finishes() {
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let read_only = std::fs::File::open(named.path()).unwrap();
    for len in [0, THREAD_BYTES_MIN, THREADS_MAX * THREAD_BYTES_MIN] {
        let mut writer = BlockWriter::new(&read_only, len).unwrap();
        file_of(&writer).refuse();
        let mut told = writer.write(1, &[1; 100]);
        told = told.and_then(|()| writer.write(9 << 20, &[1; 100]));
        let finished = writer.finish();
        prop_assert_err(told.and(finished));
    }
}

fn prop_assert_err(told: Result<(), Errno>) {
    assert!(told.is_err());
}

/// A message and a write for each short stretch would leave the disk idle.
#[test]
fn short_stretches_of_a_file_with_holes_are_handed_on_together() {
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let mut writer = BlockWriter::new(named.as_file(), 0).unwrap();
    let bytes_before = || named.as_file().metadata().unwrap().len();
    for number in 0..100 {
        writer.write(number * 10_000, &[1; 5000]).unwrap();
    }
    assert_eq!((writer.gathered.stretches.len(), bytes_before()), (100, 0));
    writer.finish().unwrap();
    assert_eq!(bytes_before(), 99 * 10_000 + 5000);
}

/// Threads that lengthen a file would wait for each other. What has bytes keeps its length.
#[test]
fn a_long_file_has_its_length_before_its_bytes_where_that_costs_nothing() {
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let file = File::new(named.as_file()).unwrap();
    let is_early = file.set_len_early(1 << 40);
    let found = rustix::fs::fstat(named.as_file()).unwrap();
    if is_early {
        assert_eq!((found.st_size, found.st_blocks), (1 << 40, 0));
    }
    let len = THREADS_MAX * THREAD_BYTES_MIN;
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let writer = BlockWriter::new(named.as_file(), len).unwrap();
    let threads = match &writer.out {
        Out::Here(_) => 0,
        Out::Threads { writers, .. } => writers.len() as u64,
    };
    assert_eq!(threads, if is_early { THREADS_MAX } else { 1 });
    drop(writer);

    let with_bytes = tempfile::NamedTempFile::new_in(".").unwrap();
    std::fs::write(with_bytes.path(), "there").unwrap();
    let file = File::new(with_bytes.as_file()).unwrap();
    assert!(!file.set_len_early(len));
    let found = std::fs::read(with_bytes.path()).unwrap();
    assert!(found == b"there", "{} bytes", found.len());
}

use std::io::Read;

use proptest::prelude::*;

use super::*;

fn file_of(writer: &BlockWriter) -> &File {
    writer.out.file()
}

fn threads_of(writer: &BlockWriter) -> u64 {
    match &writer.out {
        Out::Here(_) => 0,
        Out::Threads { writers, .. } => writers.len() as u64,
    }
}

fn here() -> tempfile::NamedTempFile {
    tempfile::NamedTempFile::new_in(".").unwrap()
}

/// Pieces in order with gaps between them, like a file with holes.
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
fn a_write_error_is_reported_at_the_latest_at_the_end() {
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

/// Whichever writer fails, at whichever write, the error is reported, and no thread is left.
#[test]
fn the_error_of_any_writer_is_reported() {
    let block = vec![1; BLOCKS_BYTES];
    for len in [0, THREAD_BYTES_MIN, THREADS_MAX * THREAD_BYTES_MIN] {
        for fails_at in [0, 1, 4, 9] {
            let named = here();
            let mut writer = BlockWriter::new(named.as_file(), len).unwrap();
            file_of(&writer).fail_after(fails_at, Errno::DQUOT);
            let shared = match &writer.out {
                Out::Here(_) => None,
                Out::Threads { shared, .. } => Some(Arc::clone(shared)),
            };
            let mut told = Ok(());
            for number in 0..10 {
                told = told.and_then(|()| writer.write(number * BLOCKS_BYTES as u64, &block));
            }
            let finished = writer.finish();
            assert_eq!(
                told.and(finished),
                Err(Errno::DQUOT),
                "{len} bytes, write {fails_at}"
            );
            if let Some(shared) = shared {
                assert_eq!(Arc::strong_count(&shared), 1, "a thread is left");
            }
        }
    }
}

/// A writer that is dropped during a panic must not panic again, because that would abort the
/// process.
#[test]
fn a_writer_that_panicked_is_silent_when_it_is_dropped() {
    let named = here();
    let mut writer = BlockWriter::new(named.as_file(), THREAD_BYTES_MIN).unwrap();
    match &mut writer.out {
        Out::Threads { writers, .. } => writers.push(thread::spawn(|| panic!("a writer dies"))),
        Out::Here(_) => panic!("a long file has a thread"),
    }
    drop(writer);
}

#[test]
fn a_long_file_that_is_not_finished_has_not_its_length() {
    for beyond in [0, 1, 4096] {
        let len = THREADS_MAX * THREAD_BYTES_MIN + beyond;
        let named = here();
        let mut writer = BlockWriter::new(named.as_file(), len).unwrap();
        writer.write(0, &vec![1; BLOCKS_BYTES * 2]).unwrap();
        drop(writer);
        let left = named.as_file().metadata().unwrap().len();
        assert!(left < len, "{left} of {len} bytes");
    }
}

/// Without its end a file is shorter. Without an edge of a hole it would look whole.
#[test]
fn files_that_a_power_cut_could_damage_unseen_are_exposed() {
    let len = THREADS_MAX * THREAD_BYTES_MIN + 77;
    let block = vec![1; BLOCKS_BYTES];
    let exposed = |offsets: &[u64], last: u64| {
        let named = here();
        let mut writer = BlockWriter::new(named.as_file(), len).unwrap();
        for offset in offsets {
            writer.write(*offset, &block).unwrap();
        }
        writer
            .write(
                last,
                &block[..usize::try_from(len - last).unwrap().min(block.len())],
            )
            .unwrap();
        writer.flush().unwrap();
        writer.out.end().unwrap();
        assert!(writer.out.file().settle(len).is_ok());
        // Without direct writes, no file is longer than the bytes written so far.
        let is_direct = file_of(&writer).is_direct();
        (file_of(&writer).is_exposed(len), is_direct)
    };
    let end = len / 4096 * 4096;
    for (offsets, last, expected) in [
        (&[0, 4 << 20, 12 << 20][..], end, false),
        (&[0, (8 << 20) + 5], end, true),
        (&[0], (16 << 20) + 7, true),
        (&[1 << 20], 20 << 20, false),
    ] {
        let (is_exposed, is_direct) = exposed(offsets, last);
        assert_eq!(is_exposed, expected && is_direct, "{offsets:?} {last}");
    }
}

/// One message and one write for each short stretch would leave the disk idle.
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

/// Threads that lengthen a file would wait for each other. A file that has bytes keeps its length.
#[test]
fn a_long_file_has_its_length_before_its_bytes_where_that_costs_nothing() {
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let file = File::new(named.as_file()).unwrap();
    let is_early = file.set_len_early(1 << 40);
    let found = rustix::fs::fstat(named.as_file()).unwrap();
    if is_early {
        assert_eq!(
            (found.st_size, found.st_blocks),
            ((1 << 40) - 4096, 0),
            "but for the last block"
        );
    }
    let len = THREADS_MAX * THREAD_BYTES_MIN;
    let named = tempfile::NamedTempFile::new_in(".").unwrap();
    let writer = BlockWriter::new(named.as_file(), len).unwrap();
    assert_eq!(threads_of(&writer), if is_early { THREADS_MAX } else { 1 });
    drop(writer);

    let with_bytes = tempfile::NamedTempFile::new_in(".").unwrap();
    std::fs::write(with_bytes.path(), "there").unwrap();
    let file = File::new(with_bytes.as_file()).unwrap();
    assert!(!file.set_len_early(len));
    let found = std::fs::read(with_bytes.path()).unwrap();
    assert!(found == b"there", "{} bytes", found.len());
}

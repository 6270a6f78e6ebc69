//! Folders, locks, formats and damage.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use types::BlockNumber;

use super::store::{FORMAT_KEY, POOL_KEY, rows_name, rows_options};
use super::*;
use crate::ClientPosition;

const POOL: PoolId = [5; 16];

fn options() -> FjallOptions {
    FjallOptions {
        cache_bytes: 8 << 20,
        threads_max: 3,
    }
}

fn new_folder() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("index");
    (parent, folder)
}

fn volume() -> VolumeId {
    VolumeId::new(1).unwrap()
}

fn sequence(number: u64) -> BatchSequence {
    BatchSequence::new(number).unwrap()
}

fn content(number: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Fingerprint::from_bytes(bytes)
}

/// Registers so many contents, from the first one on.
fn increments(first: u64, count: u64) -> Vec<Operation> {
    (first..first + count)
        .map(|number| Operation::Increment {
            fingerprint: content(number),
            block: BlockNumber::new(number).unwrap(),
            count: 1,
        })
        .collect()
}

fn apply(index: &FjallIndex, number: u64, operations: &[Operation]) {
    let outcomes = index.apply(Bucket::FIRST, volume(), sequence(number), operations);
    assert_eq!(outcomes.unwrap().len(), operations.len());
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let name = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &name)?;
        } else {
            fs::copy(entry.path(), name)?;
        }
    }
    Ok(())
}

fn open_error(folder: &Path) -> DdiError {
    match FjallIndex::open(folder, options()) {
        Ok(_) => panic!("the index can be opened"),
        Err(error) => {
            let named = error.to_string().contains(&folder.display().to_string());
            assert!(named, "the message names the folder: {error}");
            error
        }
    }
}

#[test]
fn a_folder_that_is_no_index_is_named() {
    let (parent, folder) = new_folder();
    assert!(matches!(open_error(&folder), DdiError::Missing { .. }));
    assert!(!folder.exists(), "opening makes no folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), b"other").unwrap();
    assert!(matches!(open_error(&folder), DdiError::NotAnIndex { .. }));
    let created = FjallIndex::create(&folder, POOL, options());
    assert!(matches!(created, Err(DdiError::Exists { .. })));
    let orphan = FjallIndex::create(&parent.path().join("no/index"), POOL, options());
    assert!(matches!(orphan, Err(DdiError::Failed { .. })), "{orphan:?}");
    // A database of something else.
    let other = parent.path().join("other");
    drop(fjall::Database::builder(&other).open().unwrap());
    assert!(matches!(open_error(&other), DdiError::NotAnIndex { .. }));
}

#[test]
fn an_interrupted_creation_is_no_obstacle() {
    let (_parent, folder) = new_folder();
    let unfinished = PathBuf::from(format!("{}.creating", folder.display()));
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("version"), b"half").unwrap();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 3));
    assert!(!unfinished.exists());
}

#[test]
fn one_user_has_the_folder() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    assert!(matches!(open_error(&folder), DdiError::InUse { .. }));
    drop(index);
    FjallIndex::open(&folder, options()).unwrap();
}

#[test]
fn an_index_without_the_id_of_its_pool_is_damaged() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    let other = index.check_pool([6; 16]).unwrap_err();
    let text = other.to_string();
    let digits = ["05".repeat(16), "06".repeat(16)];
    assert!(matches!(other, DdiError::OtherPool { .. }), "{text}");
    for part in [
        &*folder.display().to_string(),
        &digits[0],
        &digits[1],
        "onefold volume recount",
    ] {
        assert!(text.contains(part), "{text}");
    }
    index.store.head.remove(POOL_KEY).unwrap();
    drop(index);
    assert!(matches!(open_error(&folder), DdiError::Damaged { .. }));
}

#[test]
fn a_newer_format_is_refused() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    index.store.head.insert(FORMAT_KEY, 7u32.to_le_bytes()).unwrap();
    drop(index);
    let error = open_error(&folder);
    let newer = DdiError::NewerFormat {
        folder: folder.clone(),
        found: 7,
        newest: 1,
    };
    assert_eq!(error.to_string(), newer.to_string());
    assert!(error.to_string().contains("format 7"), "{error}");
}

#[test]
fn a_missing_table_is_damage() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 5_000));
    index.store.flush(&index.current().rows).unwrap();
    let tables = index.current().rows.path().join("tables");
    drop(index);
    for table in tables.read_dir().unwrap() {
        fs::remove_file(table.unwrap().path()).unwrap();
    }
    let error = open_error(&folder);
    assert!(matches!(error, DdiError::Damaged { .. }), "{error}");
}

#[test]
fn a_broken_table_is_an_error_and_no_panic() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 5_000));
    index.store.flush(&index.current().rows).unwrap();
    let tables = index.current().rows.path().join("tables");
    drop(index);
    for table in tables.read_dir().unwrap() {
        let path = table.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let result = FjallIndex::open(&folder, options()).and_then(|index| {
        let all: Vec<_> = (0..5_000).map(content).collect();
        index.look_up(Bucket::FIRST, &all)
    });
    let error = result.unwrap_err();
    assert!(matches!(error, DdiError::Damaged { .. }), "{error}");
}

#[test]
fn a_row_that_cannot_be_decoded_is_damage() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 2));
    let key = encoding::row_key(Bucket::FIRST, &RowKey::from(&content(1)));
    index.current().rows.insert(key, [1, 2, 3]).unwrap();
    let result = index.apply(Bucket::FIRST, volume(), sequence(2), &increments(0, 2));
    assert!(matches!(result, Err(DdiError::Damaged { .. })), "{result:?}");
    let result = index.look_up(Bucket::FIRST, &[content(1)]);
    assert!(matches!(result, Err(DdiError::Damaged { .. })), "{result:?}");
    assert_eq!(index.client(Bucket::FIRST, volume()).unwrap(), Some(sequence(1)));
}

/// What an index that was killed has on disk: the folder as it is while the index is open.
fn killed(parent: &TempDir, folder: &Path) -> PathBuf {
    let killed = parent.path().join("killed");
    // The database removes files while it works: then the copy is none of one moment.
    while let Err(error) = copy(folder, &killed) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        fs::remove_dir_all(&killed).unwrap();
    }
    killed
}

fn journals(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut journals: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    journals.sort();
    journals
}

#[test]
fn a_torn_end_of_the_journal_is_a_batch_that_was_not_acknowledged() {
    let (parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    let journal = journals(&folder).pop().unwrap();
    let mut ends = Vec::new();
    for number in 1..=3 {
        apply(&index, number, &increments(number * 100, 50));
        let bytes = fs::read(&journal).unwrap();
        ends.push(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    }
    let bytes = fs::read(&journal).unwrap();
    for (number, cut) in [
        (2, ends[2] - 1),
        (2, ends[1] + 40),
        (1, ends[1] - 3),
        (3, ends[2]),
    ] {
        let killed = killed(&parent, &folder);
        let name = killed.join(journal.file_name().unwrap());
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        fs::write(name, torn).unwrap();
        let index = FjallIndex::open(&killed, options()).unwrap();
        assert_eq!(
            index.client(Bucket::FIRST, volume()).unwrap(),
            Some(sequence(number)),
            "cut at {cut}"
        );
        assert_eq!(index.statistics().unwrap().rows(), number * 50);
        if number < 3 {
            apply(&index, number + 1, &increments((number + 1) * 100, 50));
            assert_eq!(index.statistics().unwrap().rows(), number * 50 + 50);
        }
        drop(index);
        fs::remove_dir_all(killed).unwrap();
    }
}

#[test]
fn recovered_batches_are_in_tables_before_the_index_answers() {
    let (parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 100));
    let killed = killed(&parent, &folder);
    drop(FjallIndex::open(&killed, options()).unwrap());
    for journal in journals(&killed) {
        fs::write(journal, b"").unwrap();
    }
    let index = FjallIndex::open(&killed, options()).unwrap();
    assert_eq!(index.statistics().unwrap().rows(), 100);
    assert_eq!(index.client(Bucket::FIRST, volume()).unwrap(), Some(sequence(1)));
}

#[test]
fn a_broken_record_in_the_last_journal_shows_in_the_sequence() {
    let (parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    let journal = journals(&folder).pop().unwrap();
    apply(&index, 1, &increments(100, 50));
    let bytes = fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    apply(&index, 2, &increments(200, 50));
    apply(&index, 3, &increments(300, 50));
    let killed = killed(&parent, &folder);
    let name = killed.join(journal.file_name().unwrap());
    let mut bytes = fs::read(&name).unwrap();
    // An entry without its tag, as in a block of a disk that reads as zeros.
    bytes[end + 100..end + 300].fill(0);
    fs::write(name, bytes).unwrap();
    // The database does not tell; the client's row does.
    let index = FjallIndex::open(&killed, options()).unwrap();
    assert_eq!(index.client(Bucket::FIRST, volume()).unwrap(), Some(sequence(1)));
    assert_eq!(index.statistics().unwrap().rows(), 50);
    let next = index.apply(Bucket::FIRST, volume(), sequence(4), &increments(400, 50));
    assert!(
        matches!(next, Err(DdiError::SequenceAhead { last: 1, .. })),
        "{next:?}"
    );
}

#[test]
fn a_broken_record_in_a_sealed_journal_is_damage_for_good() {
    let (parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    let mut number = 0;
    // The head's changes keep the journal, and the rows' tables seal it at 64 MB. Outcomes of hits
    // are long, so they fill the journal sooner than rows do.
    index.store.head.insert("kept", [1]).unwrap();
    let hits = vec![increments(1, 1)[0]; 200_000];
    while journals(&folder).len() < 2 {
        number += 1;
        apply(&index, number, &hits);
        assert!(number < 200, "no journal is sealed");
    }
    apply(&index, number + 1, &increments(1, 10));
    let sealed = journals(&folder).remove(0);
    let killed = killed(&parent, &folder);
    drop(index);
    let intact = parent.path().join("intact");
    copy(&killed, &intact).unwrap();
    let index = FjallIndex::open(&intact, options()).unwrap();
    assert_eq!(
        index.client(Bucket::FIRST, volume()).unwrap(),
        Some(sequence(number + 1))
    );
    drop(index);

    let name = killed.join(sealed.file_name().unwrap());
    let mut bytes = fs::read(&name).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 4_000_000..end - 1_500_000].fill(0);
    fs::write(name, bytes).unwrap();
    for _ in 0..2 {
        let error = open_error(&killed);
        assert!(matches!(error, DdiError::Damaged { .. }), "{error}");
    }
}

#[test]
fn an_interrupted_rebuild_leaves_the_old_rows() {
    let (_parent, folder) = new_folder();
    let index = FjallIndex::create(&folder, POOL, options()).unwrap();
    apply(&index, 1, &increments(0, 10));
    let stray = index.store.db.keyspace(&rows_name(2), rows_options).unwrap();
    stray
        .insert(encoding::row_key(Bucket::FIRST, &RowKey::from(&content(77))), [1])
        .unwrap();
    drop(stray);
    drop(index);
    let index = FjallIndex::open(&folder, options()).unwrap();
    assert_eq!(index.statistics().unwrap().rows(), 10);
    assert!(!index.store.db.keyspace_exists(&rows_name(2)));
    let mut rebuild = index.rebuild().unwrap();
    let row = index.look_up(Bucket::FIRST, &[content(3)]).unwrap()[0].unwrap();
    rebuild.load(Bucket::FIRST, &[row]).unwrap();
    let position = ClientPosition {
        bucket: Bucket::FIRST,
        client: volume(),
        last: sequence(5),
    };
    rebuild.finish(&[position]).unwrap();
    drop(index);
    let index = FjallIndex::open(&folder, options()).unwrap();
    assert_eq!(index.statistics().unwrap().rows(), 1);
    assert_eq!(index.store.db.keyspace_count(), 2, "the old rows are deleted");
    apply(&index, 6, &increments(0, 10));
    assert_eq!(index.statistics().unwrap().rows(), 10);
}

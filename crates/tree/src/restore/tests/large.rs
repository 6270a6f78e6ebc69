//! Files that several threads write past the page cache.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use format::listing::{EntryKind, ListingEntry};
use rustix::io::Errno;

use super::{Placed, RestoreOptions, Sparse, restorer};
use crate::testing::entry;
use crate::{FileWriter, Restorer, TreeError};

const LEN: usize = 48 << 20;

fn begin(restorer: &mut Restorer, wanted: &ListingEntry) -> FileWriter {
    match restorer.place(wanted).unwrap() {
        Placed::File(file) => file,
        other => panic!("{other:?}"),
    }
}

/// Holes that neither begin nor end with a block, and what is between them.
fn with_odd_holes() -> (ListingEntry, Vec<u8>) {
    let holes = vec![(100_001, 5_000_000), (20_000_003, 77), (30_000_000, 12_345_679)];
    let mut content: Vec<u8> = (0..LEN).map(|n| n.to_le_bytes()[1] | 1).collect();
    for (at, len) in &holes {
        content[*at..at + len].fill(0);
    }
    let holes = holes.iter().map(|(at, len)| (*at as u64, *len as u64)).collect();
    let len = LEN as u64;
    (entry("/f", EntryKind::File { len, holes }), content)
}

#[test]
fn metadata_is_set_after_the_last_byte_of_a_file_with_holes() {
    let (wanted, content) = with_odd_holes();
    for sparse in [Sparse::AsSource, Sparse::Zeros, Sparse::Never] {
        let dir = tempfile::tempdir().unwrap();
        let options = RestoreOptions {
            sparse,
            ..RestoreOptions::default()
        };
        let mut restorer = restorer(dir.path(), options);
        let file = begin(&mut restorer, &wanted);
        // Long runs of zeros are skipped. Short ones are written as bytes.
        let mut at = 0;
        for (hole, len) in [(100_001, 5_000_000), (30_000_000, 12_345_679)] {
            content[at..hole].chunks(1_234_567).fold(at, |from, bytes| {
                file.write_at(from as u64, bytes).unwrap();
                from + bytes.len()
            });
            file.skip_zeros(hole as u64, len as u64).unwrap();
            at = hole + len;
        }
        file.write_at(at as u64, &content[at..]).unwrap();
        file.finish().unwrap();
        assert!(restorer.finish().is_empty());
        let path = dir.path().join("f");
        assert!(fs::read(&path).unwrap() == content, "{sparse:?}");
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.mtime(), found.mtime_nsec()),
            (wanted.mtime.seconds(), wanted.mtime.nanos().into()),
            "{sparse:?}: something was written later"
        );
    }
}

#[test]
fn a_file_of_which_a_write_failed_does_not_stay_and_replaces_nothing() {
    let (wanted, content) = with_odd_holes();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "what stood there").unwrap();
    for fails_at in [0, 3, 9] {
        let mut restorer = restorer(dir.path(), RestoreOptions::default());
        let file = begin(&mut restorer, &wanted);
        file.fail_after(fails_at, Errno::NOSPC);
        let told = file.write_at(0, &content);
        let failed = told.and_then(|()| file.finish()).unwrap_err();
        assert!(
            matches!(&failed, TreeError::System { .. }) && failed.to_string().contains("No space left"),
            "{failed}"
        );
        assert!(restorer.finish().is_empty());
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|found| found.unwrap().file_name())
            .collect();
        assert_eq!(names, ["f"], "write {fails_at}");
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"what stood there");
    }
}

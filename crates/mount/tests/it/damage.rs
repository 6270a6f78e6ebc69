//! Damaged data is no data, and everything else can be read.

use std::fs;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::bed::{Bed, noise, number, read};

#[test]
fn damaged_data_gives_an_error_and_names_the_file_once() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    for (name, seed) in [("a", 1), ("b", 2)] {
        fs::write(folder.path().join(name), noise(seed, 200_000)).unwrap();
    }
    fs::write(folder.path().join("c"), "").unwrap();
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let top = format!("ids/1{}", folder.path().display());
    let of = |name: &str| number(&files, &format!("{top}/{name}"));
    let (a, b, c) = (of("a"), of("b"), of("c"));
    // What was read before stays right.
    let whole = |file| files.read_file(file, 0, 200_000);
    assert_eq!(whole(a).unwrap(), noise(1, 200_000));
    bed.storage.is_rotten.store(true, Ordering::SeqCst);
    assert_eq!(whole(a).unwrap(), noise(1, 200_000));
    for _ in 0..3 {
        let mut right = 0;
        for offset in (0..200_000).step_by(1000) {
            match files.read_file(b, offset, 1000) {
                Ok(bytes) => {
                    right += 1;
                    let at = usize::try_from(offset).unwrap();
                    assert_eq!(bytes, noise(2, 200_000)[at..at + 1000], "no wrong byte");
                }
                Err(errno) => assert_eq!(errno, Errno::IO),
            }
        }
        assert!(right < 200);
    }
    assert_eq!(read(&files, c).unwrap(), b"");
    let path = format!("{}/b", folder.path().display());
    assert_eq!(*bed.faults.lock().unwrap(), [path.into_bytes()]);
    // Nothing wrong was kept.
    bed.storage.is_rotten.store(false, Ordering::SeqCst);
    assert_eq!(read(&files, b).unwrap(), noise(2, 200_000));
}

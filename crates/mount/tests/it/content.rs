//! Bytes of files, read by many threads at once.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::fs;
use std::sync::LazyLock;
use std::thread;

use mount::FileSystem;
use proptest::prelude::*;

use crate::bed::{Bed, noise, number, read, walk};

/// Large and small files, and zeros among them.
fn contents() -> Vec<Vec<u8>> {
    let mut contents: Vec<Vec<u8>> = (0..40_usize)
        .map(|seed| noise(seed as u64, 13 * seed * 17))
        .collect();
    let mut large = noise(100, 700_000);
    large[200_000..450_000].fill(0);
    contents.insert(20, large);
    contents.push(vec![0; 300_000]);
    contents.push(noise(101, 2_500_000));
    contents
}

/// A file system, and its files with their bytes.
type Mounted = (FileSystem, Vec<(u64, Vec<u8>)>);

fn mounted(cache_bytes: u64) -> Mounted {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    for (nth, content) in contents().iter().enumerate() {
        fs::write(folder.path().join(format!("{nth:03}")), content).unwrap();
    }
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files_with(|options| options.cache_bytes = cache_bytes);
    let numbers = walk(
        &files,
        number(&files, &format!("ids/1{}", folder.path().display())),
    );
    let of = numbers.into_iter().zip(contents()).collect();
    (files, of)
}

/// With a cache that holds all of it, and with one that holds next to nothing.
static MOUNTED: LazyLock<[Mounted; 2]> = LazyLock::new(|| [mounted(64 << 20), mounted(40_000)]);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Each read is of a file, an offset in 1/1000 of its length, and a length.
    #[test]
    fn many_threads_read_the_right_bytes(
        reads in prop::collection::vec((0..43_usize, 0..1100_u64, 1..200_000_u32), 1..60),
        threads in 1..7_usize,
        is_small: bool,
    ) {
        let (files, of) = &MOUNTED[usize::from(is_small)];
        thread::scope(|scope| {
            for thread in 0..threads {
                let reads = &reads;
                scope.spawn(move || {
                    for (file, place, len) in reads.iter().skip(thread).step_by(threads) {
                        let (number, bytes) = &of[*file];
                        let offset = bytes.len() as u64 * place / 1000;
                        let read = files.read_file(*number, offset, *len).unwrap();
                        let begin = (offset as usize).min(bytes.len());
                        let end = (begin + *len as usize).min(bytes.len());
                        assert!(read == bytes[begin..end], "file {file} from {offset}, {len} bytes");
                    }
                });
            }
        });
    }
}

#[test]
fn sequential_readers_get_the_right_bytes() {
    for (files, of) in &*MOUNTED {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for (number, bytes) in of {
                        assert!(read(files, *number).unwrap() == *bytes);
                    }
                });
            }
        });
    }
}

//! Gives the kernel the pages around a small read.
//!
//! A small read decodes a whole region, and asks for a page of it. The kernel reads nothing ahead
//! of reads in no order, so each further page of the region would cost a request. Instead, one
//! thread puts the pages of the window around the read into the page cache. That thread serves no
//! requests: it waits while the kernel has one of these pages locked for a request, which another
//! thread answers.
//!
//! The contents never change, so no page can become wrong. A window begins at a page, and its bytes
//! end at the file's end at the latest: the kernel takes a page that is not whole only there, and
//! would make the file longer by what is behind. Under pressure the kernel drops such
//! pages as any others. At most [`WAITING_MAX`] windows wait; more are left to the reads.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use fuser::{INodeNo, Notifier};

use crate::file_system::FileSystem;

/// A window in bytes: about a region.
const WINDOW_BYTES: u32 = 128 << 10;
/// Reads of at most so many bytes are small. The kernel reads ahead by larger ones.
const SMALL_BYTES_MAX: u32 = 32 << 10;
/// The most windows that wait.
const WAITING_MAX: usize = 64;
/// How many windows are remembered as given. Once there are more, all may be given again: the
/// kernel may have dropped them.
const GIVEN_MAX: usize = 1 << 14;

/// A file's number, and the number of a window in it.
type Window = (u64, u64);

/// The windows that were given, and those that wait.
#[derive(Debug)]
pub(crate) struct Warmer {
    waiting: Sender<Window>,
    given: Mutex<HashSet<Window>>,
}

/// The other end, for [`start`].
pub(crate) struct Wishes(Receiver<Window>);

impl Warmer {
    /// A warmer, whose wishes a thread fulfils.
    pub(crate) fn new() -> (Self, Wishes) {
        let (waiting, wishes) = bounded(WAITING_MAX);
        let warmer = Self {
            waiting,
            given: Mutex::default(),
        };
        (warmer, Wishes(wishes))
    }

    /// Notes a read of `size` bytes that was answered with `len` bytes.
    pub(crate) fn note(&self, file: u64, offset: u64, size: u32, len: usize) {
        // A short answer ends the file: of a small file the kernel has all.
        let has_all = len < size as usize && offset.is_multiple_of(WINDOW_BYTES.into());
        if size > SMALL_BYTES_MAX || has_all {
            return;
        }
        let window = (file, offset / u64::from(WINDOW_BYTES));
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.len() >= GIVEN_MAX {
            given.clear();
        }
        if given.insert(window) && self.waiting.try_send(window).is_err() {
            // Too many wait. A later read of the window asks again.
            given.remove(&window);
        }
    }
}

/// Fulfils wishes on a thread of its own, until the warmer is dropped.
///
/// # Errors
/// The system starts no more threads.
pub(crate) fn start(wishes: Wishes, files: Arc<FileSystem>, kernel: Notifier) -> std::io::Result<()> {
    let run = move || {
        for (file, window) in wishes.0 {
            let offset = window * u64::from(WINDOW_BYTES);
            // What cannot be read or is not wanted any more is left to reads.
            if let Ok(bytes) = files.read_around(file, offset, WINDOW_BYTES) {
                kernel.store(INodeNo(file), offset, &bytes).ok();
            }
        }
    };
    thread::Builder::new().name("warm".to_owned()).spawn(run)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_is_wished_for_once_and_large_reads_are_not() {
        let (warmer, Wishes(wishes)) = Warmer::new();
        for offset in [0, 4096, 200_000, 140_000, 8192] {
            warmer.note(7, offset, 4096, 4096);
        }
        warmer.note(7, 1 << 20, 128 << 10, 128 << 10);
        // All of a small file, and the end of a longer one.
        warmer.note(6, 0, 8192, 5000);
        warmer.note(5, 4096, 8192, 5000);
        warmer.note(8, 0, 4096, 4096);
        let wished = wishes.try_iter().collect::<Vec<_>>();
        assert_eq!(wished, [(7, 0), (7, 1), (5, 0), (8, 0)]);
        // What found no place is wished for again.
        for window in 0..100 {
            warmer.note(9, window * u64::from(WINDOW_BYTES), 4096, 4096);
        }
        assert_eq!(wishes.try_iter().count(), WAITING_MAX);
        warmer.note(9, 99 * u64::from(WINDOW_BYTES), 4096, 4096);
        assert_eq!(wishes.try_iter().collect::<Vec<_>>(), [(9, 99)]);
    }
}

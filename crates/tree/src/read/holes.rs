//! Finds the holes of a file.

use std::os::fd::OwnedFd;

use format::listing::HOLES_MAX;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::retry::retry;

/// The holes within the first `len` bytes as (offset, length), sorted and not adjacent. Empty if
/// the file system does not report holes. It returns at most [`HOLES_MAX`]; later ones are read as
/// data.
pub(super) fn find(file: &OwnedFd, len: u64) -> Vec<(u64, u64)> {
    let mut holes: Vec<(u64, u64)> = Vec::new();
    let mut position = 0;
    while position < len && holes.len() < HOLES_MAX {
        let data = match retry(|| seek(file, SeekFrom::Data(position))) {
            Ok(data) => data.clamp(position, len),
            Err(Errno::NXIO) => len,
            Err(_) => break,
        };
        if data > position {
            holes.push((position, data - position));
        }
        if data == len {
            break;
        }
        match retry(|| seek(file, SeekFrom::Hole(data))) {
            Ok(hole) if hole > data => position = hole,
            _ => break,
        }
    }
    holes
}

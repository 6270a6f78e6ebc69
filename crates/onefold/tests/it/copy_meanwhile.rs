//! Copies beside other runs, forgets and damage of what was copied before.

use std::io;
use std::time::Duration;

use onefold::operations::copy;
use onefold::{CopyStep, Monitor, StreamOptions, StreamPiece, StreamSource};
use types::ObjectName;

use crate::common::pruning::forget;
use crate::common::{How, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};
use crate::copy::{Pair, copy_all, request, try_copy};

/// Only the earlier backup needs what is lost, and has a copy already.
#[test]
fn damage_of_an_earlier_backup_keeps_no_later_one_from_being_copied() {
    for (pair, is_one_domain) in Pair::both(1600) {
        let from = pair.source.open();
        let bytes = noise(1601, 400 << 10);
        let first = back_up_bytes(&from, "/stream", &bytes, &How::plain()).unwrap();
        let changed = [noise(1602, 200 << 10), bytes[200 << 10..].to_vec()].concat();
        back_up_bytes(&from, "/stream", &changed, &How::plain()).unwrap();
        let to = pair.destination.open();
        let only_first = request().ids(vec![first.id.to_string()]);
        try_copy(&from, &to, &only_first).unwrap();
        // The first container has only what the second backup replaced.
        let of_first = format!("data/{:013}/", first.id.get());
        let mut names = pair.source.names("data");
        names.retain(|name| name.starts_with(&of_first));
        pair.source.take_away(&ObjectName::new(names[0].clone()).unwrap());
        let from = pair.source.beside(1605).open();
        let report = copy_all(&from, &to);
        assert_eq!(report.copied.len(), 1, "one domain: {is_one_domain}");
        let copy = snapshot(&to, report.copied[0].made.id);
        assert_restores_bytes(&to, &copy, "/stream", &changed, "copied");
    }
}

/// A run that began before another one made the copies.
#[test]
fn what_another_run_copies_meanwhile_is_copied_once() {
    for (pair, _) in Pair::both(1620) {
        let from = pair.source.open();
        for seed in 0..3 {
            back_up_bytes(&from, "/stream", &noise(1620 + seed, 60 << 10), &How::plain()).unwrap();
        }
        let to = pair.destination.open();
        let mut has_run = false;
        let report = copy(&from, &to, &request(), &Monitor::default(), &mut |step| {
            if let CopyStep::Begins(_) = step
                && !std::mem::replace(&mut has_run, true)
            {
                let other = pair.destination.beside(1625).open();
                let theirs = copy_all(&pair.source.beside(1626).open(), &other);
                assert_eq!(theirs.copied.len(), 3);
                pair.destination.clock.advance(Duration::from_secs(60));
            }
        });
        let report = report.unwrap();
        assert_eq!((report.copied.len(), report.skipped.len()), (0, 3), "{report:?}");
        assert_eq!(to.snapshots().unwrap().snapshots.len(), 3);
        assert_sound(&to, "two runs");
    }
}

#[test]
fn a_backup_that_is_forgotten_meanwhile_is_passed_over() {
    for (pair, _) in Pair::both(1640) {
        let from = pair.source.open();
        let backups: Vec<_> = (0..3)
            .map(|seed| {
                back_up_bytes(&from, "/stream", &noise(1640 + seed, 60 << 10), &How::plain())
                    .unwrap()
                    .id
            })
            .collect();
        let to = pair.destination.open();
        let report = copy(&from, &to, &request(), &Monitor::default(), &mut |step| {
            if let CopyStep::Begins(snapshot) = step
                && snapshot.id == backups[0]
            {
                forget(&pair.source.beside(1645).open(), backups[1]);
            }
        });
        let report = report.unwrap();
        let copied: Vec<_> = report.copied.iter().map(|one| one.from.id).collect();
        assert_eq!(copied, [backups[0], backups[2]]);
        assert_eq!(report.forgotten, [backups[1]]);
    }
}

/// Bytes, zeros that end their chunk, and the last bytes.
struct BesideZeros([Vec<u8>; 2], usize);

impl StreamSource for BesideZeros {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        self.1 += 1;
        let bytes = match self.1 {
            1 => &self.0[0],
            2 => return Ok(StreamPiece::Zeros(64 << 10)),
            3 => &self.0[1],
            _ => return Ok(StreamPiece::End),
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(StreamPiece::Data(bytes.len()))
    }
}

/// The first chunk has a length that a fixed one could have, the zeros are a multiple of it, and
/// the last chunk is shorter. But no store takes fixed chunks of that length.
#[test]
fn small_chunks_are_not_taken_for_fixed_ones() {
    let pair = Pair::across_domains(1660);
    let from = pair.source.open();
    let ends = [noise(1661, 512), noise(1662, 200)];
    let bytes = [ends[0].clone(), vec![0; 64 << 10], ends[1].clone()].concat();
    let (options, stream) = (How::plain().options(), StreamOptions::default());
    let mut source = BesideZeros(ends, 0);
    let monitor = Monitor::default();
    let made = from.backup_stream(&options, "/stream".as_ref(), &stream, &mut source, &monitor);
    assert_eq!(made.unwrap().totals.chunks, 2, "neither end is cut");
    let to = pair.destination.open();
    let report = copy_all(&from, &to);
    let copy = snapshot(&to, report.copied[0].made.id);
    assert_restores_bytes(&to, &copy, "/stream", &bytes, "copied");
}

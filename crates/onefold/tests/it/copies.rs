//! Streams made of earlier backups: virtual full backups, and images with known changes (B3).

use std::io::{self, Cursor};
use std::path::Path;
use std::time::Duration;

use env::{Clock, SystemClock};
use onefold::{
    BackupReport, ChangedBlocks, Error, Layout, Monitor, ParentStream, SessionId, Store, StreamOptions,
    StreamPiece, StreamRole, StreamSource,
};
use types::ByteRange;

use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::{
    How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot, tiny,
};

const BLOCK: u32 = 4096;

/// Gives these pieces, without bytes of its own.
struct Pieces(Vec<StreamPiece>);

impl StreamSource for Pieces {
    fn next(&mut self, _buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if self.0.is_empty() {
            Ok(StreamPiece::End)
        } else {
            Ok(self.0.remove(0))
        }
    }
}

fn upon(backup: SessionId, fixed: Option<u32>) -> StreamOptions {
    let parent = ParentStream::new(backup, StreamRole::Whole);
    StreamOptions::default()
        .fixed_chunk_bytes(fixed)
        .parents(vec![parent])
}

fn back_up(
    store: &Store,
    stream: &StreamOptions,
    source: &mut dyn StreamSource,
) -> Result<BackupReport, Error> {
    store.backup_stream(
        &How::plain().options(),
        Path::new("/disk"),
        stream,
        source,
        &Monitor::default(),
    )
}

/// Reads only the changes. The image stays aligned, so a third run finds all of it.
#[test]
fn an_image_costs_only_its_changed_blocks() {
    let machine = Process::new(860);
    machine.init();
    let store = machine.open();
    let mut image = noise(861, 2 << 20);
    let fixed = StreamOptions::fixed(BLOCK);
    let first = back_up(&store, &fixed, &mut onefold::ReaderSource(&image[..])).unwrap();
    let mut changed = Vec::new();
    for (n, at) in [(0, 5_000), (1, 700_001), (2, 2_000_000)] {
        image[at..at + 3000].copy_from_slice(&noise(870 + n, 3000));
        changed.push(ByteRange {
            offset: at as u64,
            len: 3000,
        });
    }
    let len = image.len() as u64;
    let mut source = ChangedBlocks::new(Cursor::new(&image), len, len, &changed, BLOCK);
    let to_read = source.bytes_read();
    assert!(to_read <= 3 * 8192, "{to_read}");
    let second = back_up(&store, &upon(first.id, Some(BLOCK)), &mut source).unwrap();
    assert_eq!(second.totals.bytes_read, to_read);
    assert_eq!(second.totals.bytes_new, to_read);
    assert_eq!(second.parent, Some(first.id));
    assert_restores_bytes(
        &store,
        &snapshot(&store, second.id),
        "/disk",
        &image,
        "changed blocks",
    );
    let third = back_up(&store, &fixed, &mut onefold::ReaderSource(&image[..])).unwrap();
    assert_eq!(
        third.totals.bytes_new, 0,
        "the copied image has the chunks of one that is read whole"
    );
    let root = |id| snapshot(&store, id).backup.streams[0].fingerprint;
    assert_eq!(root(third.id), root(second.id));

    // Copied data stays when the backup from which it was copied is forgotten.
    forget(&store, first.id);
    prune(&store, &everything_at_once(), "the parent goes");
    assert_restores_bytes(
        &machine.open(),
        &snapshot(&store, second.id),
        "/disk",
        &image,
        "pruned",
    );
    assert_sound(&machine.open(), "pruned");
}

#[test]
fn invalid_copies_are_refused() {
    let machine = Process::new(880);
    machine.init();
    let store = machine.open();
    let bytes = noise(881, 300_000);
    let first = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
    let copy = |parent, offset, len| StreamPiece::Copy {
        parent,
        range: ByteRange { offset, len },
    };
    let refused = |stream: &StreamOptions, pieces: Vec<StreamPiece>, why: &str| {
        let error = back_up(&store, stream, &mut Pieces(pieces)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    let stream = upon(first.id, None);
    refused(&stream, vec![copy(1, 0, 10)], "no stream number 1");
    refused(&stream, vec![copy(0, 299_999, 2)], "of a stream of 300000");
    refused(&stream, vec![copy(0, u64::MAX, 2)], "of a stream of 300000");
    let blocks = upon(first.id, Some(BLOCK));
    refused(
        &blocks,
        vec![copy(0, 10, 4096)],
        "multiples of the chunks' 4096 bytes",
    );
    let odd = vec![copy(0, 0, 5000), StreamPiece::Zeros(10)];
    refused(&blocks, odd, "multiples of the chunks' 4096 bytes");
    refused(&blocks, vec![copy(0, 0, 5000), copy(0, 8192, 10)], "multiples of");
    let listing = ParentStream::new(first.id, StreamRole::Listing);
    let listing = StreamOptions::default().parents(vec![listing]);
    refused(&listing, Vec::new(), "has no stream");
    forget(&store, first.id);
    refused(&stream, vec![copy(0, 0, 10)], "no backup");
    assert_eq!(
        store.snapshots().unwrap().snapshots.len(),
        0,
        "none of these is a backup"
    );
}

/// A backup does not refer again to a range with chunks that are known to be damaged.
#[test]
fn damage_is_not_copied() {
    let machine = Process::new(890);
    machine.init();
    let bytes = noise(891, 300_000);
    let first = back_up_bytes(&machine.open(), "/stream", &bytes, &How::plain()).unwrap();
    let victim = types::ObjectName::new(machine.names("data")[2].clone()).unwrap();
    assert!(machine.storage.damage(&victim, |bytes| bytes[5000] ^= 1));
    let store = machine.open();
    let report = store
        .check(onefold::ReadData::Share(1.0), &Monitor::default())
        .unwrap();
    assert!(!report.is_sound());
    let range = ByteRange {
        offset: 0,
        len: bytes.len() as u64,
    };
    let copy = StreamPiece::Copy { parent: 0, range };
    let error = back_up(&store, &upon(first.id, None), &mut Pieces(vec![copy])).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 1);
}

/// Copies a range, and gives new bytes until some of them are stored, or for ten seconds.
struct CopyThenNew<'a> {
    machine: &'a Process,
    copy: Option<ByteRange>,
    bytes: &'a [u8],
    containers: usize,
}

impl StreamSource for CopyThenNew<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        if let Some(range) = self.copy.take() {
            return Ok(StreamPiece::Copy { parent: 0, range });
        }
        if self.bytes.is_empty() {
            for _ in 0..1000 {
                if self.machine.names("data").len() > self.containers {
                    return Ok(StreamPiece::End);
                }
                SystemClock.sleep(Duration::from_millis(10));
            }
            return Err(io::Error::other("nothing was stored of 4 MiB"));
        }
        let len = buffer.len().min(self.bytes.len());
        buffer[..len].copy_from_slice(&self.bytes[..len]);
        self.bytes = &self.bytes[len..];
        Ok(StreamPiece::Data(len))
    }
}

/// In layout `hybrid` the store reads copied chunks again, and makes a region of them. The region
/// is packed although it is not full: new chunks behind it would fill the memory otherwise (INV-7).
#[test]
fn chunks_that_are_read_again_hold_up_no_new_ones() {
    let machine = Process::new(890);
    let mut options = tiny();
    options.series.layout = Some(Layout::Hybrid);
    options.series.segment_bytes = Some(64 << 10);
    machine.try_init(&options).unwrap();
    let store = machine.open();
    let first = back_up_bytes(&store, "/disk", &noise(891, 300_000), &How::plain()).unwrap();
    let new = noise(892, 4 << 20);
    let mut source = CopyThenNew {
        machine: &machine,
        copy: Some(ByteRange {
            offset: 10_001,
            len: 20_000,
        }),
        bytes: &new,
        containers: machine.names("data").len() + 4,
    };
    let made = back_up(&store, &upon(first.id, None), &mut source).unwrap();
    let expected = [&noise(891, 300_000)[10_001..30_001], &new].concat();
    assert_restores_bytes(&store, &snapshot(&store, made.id), "/disk", &expected, "copied");
}

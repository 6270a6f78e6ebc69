//! Memory of a volume of 10 TiB, all of it mapped, while parts of 1 TiB are written:
//! `large_map FILE` (a sparse file of 12 TiB that is made there and removed).
//!
//! The map is synthetic: its leaves are computed when they are read, and writes to data blocks,
//! which are beyond the file, are dropped. Everything else is real. Prints the peak of the resident
//! memory.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for measurements"
)]

use std::path::PathBuf;
use std::sync::Arc;

use ddi::MemoryIndex;
use env::{BLOCK_BYTES, BlockDevice, DeviceError, FileCaching, FileDevice, SystemClock, SystemEntropy};
use format::pool::entry::{MapEntry, PageReference};
use format::pool::frame::{self, BlockKind};
use format::pool::header::VolumeHeader;
use format::pool::superblock::Superblock;
use types::BlockNumber;
use volume::{MAP_CACHE_BYTES_DEFAULT, Pool, PoolOptions, VolumeSettings};

const GIB: u64 = 1 << 30;
const MAPPED_GIB: u64 = 10 << 10;
const TOUCHED_GIB: u64 = 1 << 10;
const FILE_BYTES: u64 = 12 << 40;
/// The first block of the pages above leaves; they are in the file.
const UPPER: u64 = 1 << 20;
/// The first block of leaves, which are computed.
const LEAVES: u64 = 1 << 33;
/// The first block of data, which is nowhere.
const DATA: u64 = 1 << 36;

/// A file, with computed leaves behind its end.
#[derive(Debug)]
struct Synthetic(FileDevice);

/// The leaf with this number.
fn leaf(number: u64) -> [u8; 4096] {
    let mut page = [0; 4096];
    for (index, bytes) in page.chunks_exact_mut(8).enumerate() {
        let block = BlockNumber::new(DATA + number * 512 + index as u64).unwrap();
        bytes.copy_from_slice(&MapEntry::Private { block, birth: 1 }.to_u64().to_le_bytes());
    }
    page
}

impl BlockDevice for Synthetic {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let block = offset / BLOCK_BYTES;
        if block < LEAVES {
            return self.0.read_at(offset, out);
        }
        out.copy_from_slice(&leaf(block - LEAVES));
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        if offset / BLOCK_BYTES < LEAVES {
            return self.0.write_at(offset, bytes);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len)
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.0.grow(len)
    }
}

/// Writes a page of references; returns the reference to it, and its digest.
fn write_page(device: &FileDevice, block: u64, below: &[PageReference]) -> (PageReference, u128) {
    let mut page = [0; 4096];
    for (bytes, reference) in page.chunks_exact_mut(8).zip(below) {
        bytes.copy_from_slice(&reference.to_u64().to_le_bytes());
    }
    device.write_at(block * BLOCK_BYTES, &page).unwrap();
    let reference = PageReference::to_page(BlockNumber::new(block).unwrap(), &page).unwrap();
    (reference, format::wire::digest(&page))
}

/// Writes the pages above the leaves. Returns the root.
fn write_map(device: &FileDevice) -> (BlockNumber, u128) {
    let second: Vec<PageReference> = (0..MAPPED_GIB)
        .map(|gib| {
            let leaves: Vec<PageReference> = (gib * 512..(gib + 1) * 512)
                .map(|number| {
                    PageReference::to_page(BlockNumber::new(LEAVES + number).unwrap(), &leaf(number)).unwrap()
                })
                .collect();
            write_page(device, UPPER + gib, &leaves).0
        })
        .collect();
    let third: Vec<PageReference> = (UPPER + MAPPED_GIB..)
        .zip(second.chunks(512))
        .map(|(block, below)| write_page(device, block, below).0)
        .collect();
    let (root, digest) = write_page(device, UPPER - 1, &third);
    (root.block, digest)
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).expect("a file"));
    let device = FileDevice::create(&path, FILE_BYTES, FileCaching::PageCache).unwrap();
    let options = PoolOptions {
        clock: Arc::new(SystemClock),
        map_cache_bytes: MAP_CACHE_BYTES_DEFAULT,
    };
    Pool::create(&device, &SystemEntropy, [0; 16], "").unwrap();
    let root = write_map(&device);
    // The header of the only volume is in the first extent behind the pool's own.
    let made = Arc::new(Synthetic(device));
    let pool = Pool::open(
        Arc::clone(&made) as _,
        Arc::new(MemoryIndex::new([0; 16])),
        &options,
    )
    .unwrap();
    let len = MAPPED_GIB * GIB;
    pool.create_volume("v", len, VolumeSettings::default()).unwrap();
    pool.close().unwrap();
    drop(pool);
    let mut page = [0; 4096];
    made.read_at(0, &mut page).unwrap();
    let payload = frame::open(BlockKind::Superblock, &page).unwrap();
    let id = Superblock::decode(payload).unwrap().pool;
    let found = (0..200_000).find_map(|block| {
        let mut page = [0; 4096];
        made.read_at(block * BLOCK_BYTES, &mut page).unwrap();
        let payload = frame::open_in(id, BlockKind::Header, &page).ok()?;
        Some((block, VolumeHeader::decode(payload).unwrap()))
    });
    let (block, header) = found.unwrap();
    let header = VolumeHeader {
        root: Some(root),
        counter: header.counter + 10,
        ..header
    };
    let mut page = [0; 4096];
    frame::seal_in(id, BlockKind::Header, &header.to_bytes(), &mut page);
    made.write_at(block * BLOCK_BYTES, &page).unwrap();
    println!("before it is opened: {} MiB", peak_mib());
    let pool = Pool::open(made, Arc::new(MemoryIndex::new([0; 16])), &options).unwrap();
    let volume = pool.volume("v").unwrap();
    println!("opened: {} MiB", peak_mib());
    let bytes = vec![7; 64 << 10];
    for gib in 0..TOUCHED_GIB {
        for part in 0..64 {
            volume
                .write(gib * GIB * 10 / 2 + part * (16 << 20), &bytes, false)
                .unwrap();
        }
    }
    let stats = volume.stats();
    println!(
        "written in {TOUCHED_GIB} GiB, {} blocks in place: {} MiB; map and dirty blocks {} MiB",
        stats.counts.blocks_in_place,
        peak_mib(),
        stats.memory_bytes >> 20
    );
    std::fs::remove_file(path).unwrap();
}

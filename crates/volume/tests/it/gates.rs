//! Requests that stop in the middle, by a device that holds one of them: who waits for whom, and
//! which block is left alone meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use ddi::MemoryIndex;
use env::{BlockDevice, DeviceError, MemoryDevice, SeededEntropy};
use volume::{Pool, Volume, VolumeRead, VolumeSettings};

use crate::model::{BLOCK, content, number_of};
use crate::world::{POOL, options};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

#[derive(Debug, Default)]
struct State {
    /// The request to hold: its kind, and the number that its first block says.
    armed: Option<(Kind, u64)>,
    is_held: bool,
}

/// A device in memory that holds one request until it is told to go on.
#[derive(Debug)]
struct HoldingDevice {
    inner: MemoryDevice,
    /// It does several reads at once.
    is_queue: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl HoldingDevice {
    fn new(len: u64) -> Self {
        Self {
            inner: MemoryDevice::new(len),
            is_queue: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn arm(&self, kind: Kind, number: u64) {
        self.state.lock().unwrap().armed = Some((kind, number));
    }

    /// Waits until the request is held. It goes on when the result is dropped, also by a panic.
    fn wait_until_held(&self) -> Held<'_> {
        let state = self.state.lock().unwrap();
        let _state = self.changed.wait_while(state, |state| !state.is_held).unwrap();
        Held(self)
    }

    fn release(&self) {
        let mut state = self.state.lock().unwrap();
        (state.armed, state.is_held) = (None, false);
        self.changed.notify_all();
    }

    fn pass(&self, kind: Kind, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap();
        let is_it = |armed: &(Kind, u64)| armed.0 == kind && number_of(&bytes[..512]) == Some(armed.1);
        if state.armed.as_ref().is_some_and(is_it) {
            state.is_held = true;
            self.changed.notify_all();
            let _state = self.changed.wait_while(state, |state| state.is_held).unwrap();
        }
    }
}

/// A request that is held.
struct Held<'a>(&'a HoldingDevice);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl BlockDevice for HoldingDevice {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, out)?;
        self.pass(Kind::Read, out);
        self.inner.read_at(offset, out)
    }

    fn reads_at_once(&self) -> usize {
        if self.is_queue.load(Ordering::SeqCst) {
            8
        } else {
            1
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.pass(Kind::Write, bytes);
        self.inner.write_at(offset, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len)
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.grow(len)
    }
}

fn open() -> (Arc<HoldingDevice>, Pool, Arc<Volume>) {
    let device = Arc::new(HoldingDevice::new(10 << 22));
    Pool::create(&*device, &SeededEntropy::new(1), POOL, "").unwrap();
    let index = Arc::new(MemoryIndex::new(POOL));
    let pool = Pool::open(Arc::clone(&device) as _, index, &options()).unwrap();
    let volume = pool.create_volume("a", 64 << 20, VolumeSettings::default());
    (device, pool, volume.unwrap())
}

/// A block that may be written in place.
fn settled(volume: &Volume, lba: u64, number: u64) {
    volume.write(lba * BLOCK as u64, &content(number), true).unwrap();
    volume.flush().unwrap();
}

fn read(volume: &Volume, lba: u64) -> Vec<u8> {
    let mut read = vec![0; BLOCK];
    volume.read(lba * BLOCK as u64, &mut read).unwrap();
    read
}

fn is_sound(pool: &Pool) {
    let findings = pool.check(true, &mut |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_block_that_is_written_in_place_is_not_hashed_meanwhile() {
    let (device, pool, volume) = open();
    settled(&volume, 5, 1);
    device.arm(Kind::Write, 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| volume.write(5 * BLOCK as u64, &content(2), false).unwrap());
        let held = device.wait_until_held();
        let found = volume.find(0, false, &mut |_| true).unwrap();
        assert_eq!((found.examined, found.skipped), (0, 1));
        // Who waits gets the new content.
        let finder = scope.spawn(|| volume.find(0, true, &mut |_| true).unwrap());
        drop(held);
        writer.join().unwrap();
        finder.join().unwrap();
    });
    volume.find(0, true, &mut |_| true).unwrap();
    assert_eq!(read(&volume, 5), content(2));
    is_sound(&pool);
}

#[test]
fn a_block_that_is_hashed_is_not_written_in_place_meanwhile() {
    let (device, pool, volume) = open();
    settled(&volume, 5, 1);
    device.arm(Kind::Read, 1);
    std::thread::scope(|scope| {
        let finder = scope.spawn(|| volume.find(0, true, &mut |_| true).unwrap());
        let held = device.wait_until_held();
        let before = volume.counts();
        volume.write(5 * BLOCK as u64, &content(2), false).unwrap();
        volume
            .write(5 * BLOCK as u64 + 512, &content(2)[..512], false)
            .unwrap();
        let after = volume.counts();
        assert_eq!(after.blocks_in_place, before.blocks_in_place);
        assert_eq!(after.blocks_copied - before.blocks_copied, 1);
        drop(held);
        finder.join().unwrap();
    });
    assert_eq!(read(&volume, 5), content(2));
    is_sound(&pool);
    (0..3).for_each(|_| volume.flush().unwrap());
    volume.find(0, true, &mut |_| true).unwrap();
    is_sound(&pool);
}

#[test]
fn a_block_that_is_read_is_not_used_again_meanwhile() {
    reads_and_writes(|volume| read(volume, 5), false);
}

#[test]
fn blocks_that_are_read_together_are_not_used_again_meanwhile() {
    let together = |volume: &Volume| {
        let mut memory = vec![0; 2 * BLOCK];
        let (first, second) = memory.split_at_mut(BLOCK);
        let at = 5 * BLOCK as u64;
        // The second one reads at once, and is held; the first one has found its block by then.
        let mut reads = [
            VolumeRead::new(at, second),
            VolumeRead::new(at + 7, &mut first[..99]),
        ];
        volume.read_many(&mut reads, &mut |_, hole| panic!("{hole:?}"));
        assert!(reads.iter().all(|read| read.done.is_ok()));
        assert_eq!(first[..99], second[7..106]);
        second.to_vec()
    };
    reads_and_writes(together, true);
}

fn reads_and_writes(read_it: impl Fn(&Volume) -> Vec<u8> + Sync, is_queue: bool) {
    let (device, pool, volume) = open();
    device.is_queue.store(is_queue, Ordering::SeqCst);
    volume.write(5 * BLOCK as u64, &content(1), false).unwrap();
    device.arm(Kind::Read, 1);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_it(&volume));
        let held = device.wait_until_held();
        volume.write(5 * BLOCK as u64, &content(2), false).unwrap();
        // The old block would be free now, and the first to be used.
        for _ in 0..6 {
            volume.flush().unwrap();
        }
        for lba in 100..1500 {
            volume.write(lba * BLOCK as u64, &content(3), false).unwrap();
        }
        drop(held);
        assert_eq!(reader.join().unwrap(), content(1));
    });
    // Later it is used again.
    (0..3).for_each(|_| volume.flush().unwrap());
    assert_eq!(read(&volume, 5), content(2));
    is_sound(&pool);
}

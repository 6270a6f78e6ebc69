//! What the tests share: an export in memory, and a server of it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use env::{Clock, SystemClock};
use nbd::ALLOCATION_CONTEXT;
use volume_server::client::{Client, Wish};
use volume_server::{
    Export, ExportError, ExportRead, Exports, Holes, Place, RunState, Runs, Server, ServerSettings, Zeroing,
};

pub(crate) const BLOCK: usize = 4096;

/// A device in memory that can be slow, and that can fail.
#[derive(Debug, Default)]
pub(crate) struct MemoryExport {
    bytes: RwLock<Vec<u8>>,
    /// What a power cut leaves.
    durable: Mutex<Vec<u8>>,
    /// Blocks that were written.
    mapped: Mutex<Vec<bool>>,
    pub(crate) is_read_only: AtomicBool,
    /// Each request takes so many microseconds.
    pub(crate) micros: AtomicU64,
    /// Reads that contain this byte of the device fail, if it is not 0.
    pub(crate) fails_at: AtomicU64,
    /// Requests at once now, and the most ever.
    pub(crate) busy: AtomicUsize,
    pub(crate) busiest: AtomicUsize,
    pub(crate) flushes: AtomicU64,
    /// Reads that are done together, if not 0.
    pub(crate) at_once: AtomicUsize,
    /// Calls for several reads, and their reads.
    pub(crate) calls: AtomicUsize,
    pub(crate) together: AtomicUsize,
    /// Writes from memory that is not aligned.
    pub(crate) unaligned: AtomicU64,
}

impl MemoryExport {
    pub(crate) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: RwLock::new(vec![0; len]),
            durable: Mutex::new(vec![0; len]),
            mapped: Mutex::new(vec![false; len.div_ceil(BLOCK)]),
            ..Self::default()
        })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.read().unwrap().clone()
    }

    pub(crate) fn durable(&self) -> Vec<u8> {
        self.durable.lock().unwrap().clone()
    }

    fn work(&self) -> Working<'_> {
        let now = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
        self.busiest.fetch_max(now, Ordering::SeqCst);
        let micros = self.micros.load(Ordering::SeqCst);
        if micros > 0 {
            SystemClock.sleep(Duration::from_micros(micros));
        }
        Working(self)
    }

    fn make_durable(&self, fua: bool, range: std::ops::Range<usize>) {
        if fua {
            let bytes = self.bytes.read().unwrap();
            self.durable.lock().unwrap()[range.clone()].copy_from_slice(&bytes[range]);
        }
    }
}

impl MemoryExport {
    fn get(&self, offset: u64, into: &mut [u8], holes: &mut Holes) -> Result<(), ExportError> {
        assert!(into.as_ptr().addr().is_multiple_of(env::ALIGN_BYTES) && !into.is_empty());
        let range = range(offset, into.len() as u64);
        let bad = usize::try_from(self.fails_at.load(Ordering::SeqCst)).unwrap();
        if bad > 0 && range.contains(&bad) {
            let detail = format!("byte {bad} cannot be read");
            return Err(ExportError::Failed { detail });
        }
        let mapped = self.mapped.lock().unwrap();
        for block in (range.start / BLOCK..range.end.div_ceil(BLOCK)).filter(|block| !mapped[*block]) {
            let inside = |at: usize| at.clamp(range.start, range.end) - range.start;
            holes.add(inside(block * BLOCK)..inside((block + 1) * BLOCK));
        }
        drop(mapped);
        into.copy_from_slice(&self.bytes.read().unwrap()[range]);
        Ok(())
    }
}

struct Working<'a>(&'a MemoryExport);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

fn range(offset: u64, len: u64) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + usize::try_from(len).unwrap()
}

impl Export for MemoryExport {
    fn size_bytes(&self) -> u64 {
        self.bytes.read().unwrap().len() as u64
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::SeqCst)
    }

    fn description(&self) -> String {
        "a device in memory".to_owned()
    }

    fn contexts(&self) -> Vec<String> {
        vec![ALLOCATION_CONTEXT.to_owned(), "qemu:dirty-bitmap:all".to_owned()]
    }

    fn reads_at_once(&self) -> usize {
        self.at_once.load(Ordering::SeqCst).max(1)
    }

    fn read_many(&self, reads: &mut [ExportRead<'_>]) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.together.fetch_add(reads.len(), Ordering::SeqCst);
        assert!((2..=self.reads_at_once()).contains(&reads.len()));
        let _working = self.work();
        for read in reads {
            read.done = self.get(read.offset, read.into, &mut read.holes);
        }
    }

    fn read(&self, offset: u64, into: &mut [u8], holes: &mut Holes) -> Result<(), ExportError> {
        let _working = self.work();
        self.get(offset, into, holes)
    }

    fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ExportError> {
        assert!(!bytes.is_empty());
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(env::ALIGN_BYTES);
        self.unaligned.fetch_add(u64::from(!is_aligned), Ordering::SeqCst);
        let _working = self.work();
        let range = range(offset, bytes.len() as u64);
        self.bytes.write().unwrap()[range.clone()].copy_from_slice(bytes);
        self.mapped.lock().unwrap()[range.start / BLOCK..range.end.div_ceil(BLOCK)].fill(true);
        self.make_durable(fua, range);
        Ok(())
    }

    fn flush(&self) -> Result<(), ExportError> {
        let _working = self.work();
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let bytes = self.bytes.read().unwrap();
        self.durable.lock().unwrap().copy_from_slice(&bytes);
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        let how = Zeroing {
            may_trim: true,
            is_fast: false,
        };
        self.write_zeroes(offset, len, how, fua)
    }

    fn write_zeroes(&self, offset: u64, len: u64, how: Zeroing, fua: bool) -> Result<(), ExportError> {
        assert!(len > 0);
        let _working = self.work();
        if how.is_fast && !how.may_trim {
            return Err(ExportError::NotSupported);
        }
        let range = range(offset, len);
        self.bytes.write().unwrap()[range.clone()].fill(0);
        let mut mapped = self.mapped.lock().unwrap();
        if how.may_trim {
            let (first, end) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
            if first < end {
                mapped[first..end].fill(false);
            }
        } else {
            mapped[range.start / BLOCK..range.end.div_ceil(BLOCK)].fill(true);
        }
        drop(mapped);
        self.make_durable(fua, range);
        Ok(())
    }

    fn status(&self, context: &str, offset: u64, len: u64, runs: &mut Runs) -> Result<(), ExportError> {
        let _working = self.work();
        let mapped = self.mapped.lock().unwrap();
        let range = range(offset, len);
        let mut at = range.start;
        while at < range.end {
            let end = (at / BLOCK + 1) * BLOCK;
            let state = match (context == ALLOCATION_CONTEXT, mapped[at / BLOCK]) {
                (true, true) | (false, false) => RunState::Data,
                (true, false) => RunState::Hole,
                (false, true) => RunState::Dirty,
            };
            if !runs.push((end - at) as u64, state) {
                break;
            }
            at = end;
        }
        Ok(())
    }

    fn cache(&self, _: u64, _: u64) -> Result<(), ExportError> {
        Ok(())
    }
}

/// Exports that come and go.
#[derive(Default)]
pub(crate) struct Named(pub(crate) Mutex<BTreeMap<String, Arc<MemoryExport>>>);

impl Exports for Named {
    fn list(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Export>> {
        let found = self.0.lock().unwrap().get(name).cloned();
        found.map(|export| export as Arc<dyn Export>)
    }
}

/// A server of one export without a name.
pub(crate) struct Served {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) exports: Arc<Named>,
    pub(crate) export: Arc<MemoryExport>,
    pub(crate) server: Server,
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

pub(crate) fn place(path: &std::path::Path) -> Place {
    Place::Unix {
        path: path.to_owned(),
        mode: 0o600,
    }
}

/// Serves an export of so many bytes.
pub(crate) fn serve(len: usize, change: impl FnOnce(&mut ServerSettings)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let export = MemoryExport::new(len);
    let exports = Arc::new(Named::default());
    exports
        .0
        .lock()
        .unwrap()
        .insert(String::new(), Arc::clone(&export));
    let mut settings = ServerSettings::at(vec![place(&socket)]);
    change(&mut settings);
    let server = Server::start(settings, Arc::clone(&exports) as Arc<dyn Exports>, clock()).unwrap();
    Served {
        folder,
        socket,
        exports,
        export,
        server,
    }
}

impl Served {
    pub(crate) fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    pub(crate) fn client(&self, is_structured: bool) -> Client<UnixStream> {
        let contexts = vec![ALLOCATION_CONTEXT.to_owned(), "qemu:dirty-bitmap:all".to_owned()];
        let wish = Wish {
            export: String::new(),
            is_structured,
            contexts: if is_structured { contexts } else { Vec::new() },
        };
        Client::open(self.connect(), &wish).unwrap()
    }

    /// The export without a name.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
}

/// Tries again for some seconds.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(5));
    }
    panic!("it never became true that {what}");
}

/// Bytes that differ with the seed and place.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

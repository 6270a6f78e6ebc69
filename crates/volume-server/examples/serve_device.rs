//! Serves a file or a disk by NBD as it is: what the transport alone can do.
//!
//! `serve_device FILE SOCKET [direct]` serves the existing file FILE as the export without a name
//! on the Unix socket SOCKET, until it receives SIGTERM or SIGINT. `direct` reads and writes
//! without the page cache.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::{AlignedBuffer, BLOCK_BYTES, BlockDevice, DeviceError, FileCaching, FileDevice, SystemClock};
use volume_server::{
    Export, ExportError, Exports, Holes, Place, RunState, Runs, Server, ServerSettings, Zeroing,
};

/// A device as an export.
struct Raw {
    device: FileDevice,
    /// Held while parts of blocks are written.
    parts: Mutex<()>,
}

fn failed(error: DeviceError) -> ExportError {
    let detail = error.to_string();
    match error {
        DeviceError::OutOfRange { .. } => ExportError::Invalid { detail },
        DeviceError::NoSpace { .. } => ExportError::NoSpace { detail },
        _ => ExportError::Failed { detail },
    }
}

fn is_whole(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(BLOCK_BYTES) && (bytes.len() as u64).is_multiple_of(BLOCK_BYTES)
}

impl Raw {
    /// The bytes of the blocks that contain a range, and where the range begins in them.
    fn blocks(&self, offset: u64, len: usize) -> Result<(u64, AlignedBuffer, usize), ExportError> {
        let first = offset / BLOCK_BYTES * BLOCK_BYTES;
        let end = (offset + len as u64).next_multiple_of(BLOCK_BYTES);
        let mut blocks = AlignedBuffer::with_capacity(0);
        blocks.grow_to(usize::try_from(end - first).expect("a request fits into memory"));
        self.device.read_at(first, &mut blocks).map_err(failed)?;
        let inside = usize::try_from(offset - first).expect("it is less than a block");
        Ok((first, blocks, inside))
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), ExportError> {
        if is_whole(offset, bytes) {
            return self.device.write_at(offset, bytes).map_err(failed);
        }
        let _parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, mut blocks, inside) = self.blocks(offset, bytes.len())?;
        blocks[inside..inside + bytes.len()].copy_from_slice(bytes);
        self.device.write_at(first, &blocks).map_err(failed)
    }

    fn flush_if(&self, fua: bool) -> Result<(), ExportError> {
        if fua { self.flush() } else { Ok(()) }
    }
}

impl Export for Raw {
    fn size_bytes(&self) -> u64 {
        self.device.len()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, into: &mut [u8], _: &mut Holes) -> Result<(), ExportError> {
        if is_whole(offset, into) {
            return self.device.read_at(offset, into).map_err(failed);
        }
        let (_, blocks, inside) = self.blocks(offset, into.len())?;
        into.copy_from_slice(&blocks[inside..inside + into.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ExportError> {
        self.put(offset, bytes)?;
        self.flush_if(fua)
    }

    fn flush(&self) -> Result<(), ExportError> {
        self.device.flush().map_err(failed)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        let first = offset.next_multiple_of(BLOCK_BYTES);
        let end = (offset + len) / BLOCK_BYTES * BLOCK_BYTES;
        if first < end {
            self.device.discard(first, end - first).map_err(failed)?;
        }
        self.flush_if(fua)
    }

    fn write_zeroes(&self, mut offset: u64, len: u64, how: Zeroing, fua: bool) -> Result<(), ExportError> {
        if how.is_fast {
            return Err(ExportError::NotSupported);
        }
        let zeros = vec![0; 1 << 20];
        let end = offset + len;
        while offset < end {
            let now = usize::try_from(end - offset)
                .unwrap_or(usize::MAX)
                .min(zeros.len());
            self.put(offset, &zeros[..now])?;
            offset += now as u64;
        }
        self.flush_if(fua)
    }

    fn status(&self, _: &str, _: u64, len: u64, runs: &mut Runs) -> Result<(), ExportError> {
        runs.push(len, RunState::Data);
        Ok(())
    }

    fn cache(&self, _: u64, _: u64) -> Result<(), ExportError> {
        Ok(())
    }
}

struct One(Arc<Raw>);

impl Exports for One {
    fn list(&self) -> Vec<String> {
        vec![String::new()]
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Export>> {
        name.is_empty().then(|| Arc::clone(&self.0) as Arc<dyn Export>)
    }
}

#[expect(
    clippy::print_stdout,
    reason = "a program for benchmarks, whose figures are read by people"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(socket)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_device FILE SOCKET [direct]".into());
    };
    let caching = match arguments.next().as_deref() {
        None => FileCaching::PageCache,
        Some("direct") => FileCaching::Direct,
        Some(other) => return Err(format!("{other}: the only word here is `direct`").into()),
    };
    let device = FileDevice::open(&PathBuf::from(file), caching)?;
    let place = Place::Unix {
        path: PathBuf::from(socket),
        mode: 0o600,
    };
    let exports = Arc::new(One(Arc::new(Raw {
        device,
        parts: Mutex::new(()),
    })));
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    let server = Server::start(ServerSettings::at(vec![place]), exports, Arc::new(SystemClock))?;
    signals.forever().next();
    let stats = server.stats();
    server.stop(Duration::from_secs(10));
    for (name, stats) in stats {
        println!("export {name:?}: {stats:?}");
    }
    Ok(())
}

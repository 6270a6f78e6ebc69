//! Traces of real data: files, tars and disk images are cut and fingerprinted as a backup would do
//! it.
//!
//! The key is always the same, so that separately made traces fit together. It protects nothing.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

use chunking::{Cdc, CdcSizes, Chunker, Fixed, is_zero};
use crypto::{DomainKey, Fingerprinter};

use crate::error::SimulateError;
use crate::trace::{BackupHead, Chunk, Extent, Sink};

/// The buffer is cut once it holds so many bytes: several times the longest chunk.
const CUT_BYTES: usize = 8 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// The key of the fingerprints and of the gear table of all traces.
const KEY: [u8; 32] = *b"onefold laboratory: chunk traces";

/// The fingerprinter of all traces.
#[must_use]
pub fn trace_printer() -> Fingerprinter {
    Fingerprinter::new(&DomainKey::from_bytes(KEY))
}

/// How data is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cutting {
    /// By content, with this average length in bytes.
    Content(u32),
    /// At a fixed length in bytes, as for disk images.
    Fixed(u32),
}

/// Cuts data into chunks.
pub struct Cutter {
    chunker: Box<dyn Chunker>,
    printer: Fingerprinter,
    buffer: Vec<u8>,
    lens: Vec<u32>,
    chunks: Vec<Chunk>,
    /// The device and inode number of the trace's file or folder.
    left_out: Option<(u64, u64)>,
}

impl std::fmt::Debug for Cutter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cutter")
    }
}

impl Cutter {
    /// A cutter for this way of cutting.
    ///
    /// # Errors
    /// `Settings` if no chunk can have that length.
    pub fn new(cutting: Cutting) -> Result<Self, SimulateError> {
        Self::under(trace_printer(), cutting)
    }

    /// Cuts and fingerprints as a store of some domain does. Such a trace does not fit together
    /// with any other.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn under(printer: Fingerprinter, cutting: Cutting) -> Result<Self, SimulateError> {
        let wrong = |error: chunking::ChunkingError| SimulateError::Settings(error.to_string());
        let chunker: Box<dyn Chunker> = match cutting {
            Cutting::Content(avg) => {
                Box::new(Cdc::new(CdcSizes::around(avg), &printer.gear_table()).map_err(wrong)?)
            }
            Cutting::Fixed(bytes) => Box::new(Fixed::new(bytes).map_err(wrong)?),
        };
        Ok(Self {
            chunker,
            printer,
            buffer: Vec::new(),
            lens: Vec::new(),
            chunks: Vec::new(),
            left_out: None,
        })
    }

    /// Skips this file, or this folder with everything below it, inside of folders: the trace is
    /// written there.
    pub fn leave_out(&mut self, written: &fs::Metadata) {
        self.left_out = Some((written.dev(), written.ino()));
    }

    /// Replays a path as one full backup. A file is one stream. Of a folder, each regular file
    /// below it is cut by itself, in the order of the paths. Links in the folder are not followed.
    ///
    /// # Errors
    /// `Io` names the path that cannot be read; `Settings` if the path is the one left out; errors
    /// of the sink.
    pub fn backup(&mut self, path: &Path, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        sink.begin(&BackupHead {
            name: path.display().to_string(),
            extent: Extent::Full,
        })?;
        // An earlier file may have failed halfway.
        self.buffer.clear();
        walk(path, self.left_out, &mut |bytes, is_last| {
            self.feed(bytes, is_last, sink)
        })?;
        sink.end()
    }

    /// Takes the next bytes of a file, possibly the last ones.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), SimulateError> {
        self.buffer.extend_from_slice(bytes);
        if !is_last && self.buffer.len() < CUT_BYTES {
            return Ok(());
        }
        self.lens.clear();
        let cut = self.chunker.cut_all(&self.buffer, is_last, &mut self.lens);
        let mut at = 0;
        self.chunks.clear();
        for len in &self.lens {
            let bytes = &self.buffer[at..at + *len as usize];
            at += bytes.len();
            self.chunks.push(Chunk {
                fingerprint: (!is_zero(bytes)).then(|| self.printer.chunk(bytes)),
                len: *len,
            });
        }
        if is_last {
            self.buffer.clear();
        } else {
            self.buffer.drain(..cut);
        }
        if self.chunks.is_empty() {
            return Ok(());
        }
        sink.chunks(&self.chunks)
    }
}

/// Takes the next bytes of a file. The flag says whether they are the last.
pub type Visit<'a> = dyn FnMut(&[u8], bool) -> Result<(), SimulateError> + 'a;

/// Reads the file at a path, or all regular files below a folder in the order of their paths. Calls
/// `visit` with each piece, and whether it is the last of its file. Links in the folder are not
/// followed. Skips what is left out, by device and inode number.
///
/// # Errors
/// `Settings` if the path itself is left out; `Io`; errors of `visit`.
pub fn walk(path: &Path, left_out: Option<(u64, u64)>, visit: &mut Visit<'_>) -> Result<(), SimulateError> {
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    if left_out == Some((metadata.dev(), metadata.ino())) {
        return Err(SimulateError::Settings(format!(
            "{}: this is the output of the command; name other paths to read",
            path.display()
        )));
    }
    let mut buffer = vec![0; READ_BYTES];
    if metadata.is_dir() {
        walk_folder(path, left_out, &mut buffer, visit)
    } else {
        read_file(path, &mut buffer, visit)
    }
}

fn walk_folder(
    folder: &Path,
    left_out: Option<(u64, u64)>,
    buffer: &mut [u8],
    visit: &mut Visit<'_>,
) -> Result<(), SimulateError> {
    let read = || -> std::io::Result<Vec<_>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let is_left_out = |(device, number)| -> std::io::Result<bool> {
                Ok(entry.ino() == number && entry.metadata()?.dev() == device)
            };
            if !left_out.map_or(Ok(false), is_left_out)? {
                entries.push((entry.path(), entry.file_type()?));
            }
        }
        Ok(entries)
    };
    let mut entries = read().map_err(|source| failed(folder, source))?;
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    for (path, kind) in entries {
        if kind.is_dir() {
            walk_folder(&path, left_out, buffer, visit)?;
        } else if kind.is_file() {
            read_file(&path, buffer, visit)?;
        }
    }
    Ok(())
}

fn read_file(path: &Path, buffer: &mut [u8], visit: &mut Visit<'_>) -> Result<(), SimulateError> {
    let mut file = File::open(path).map_err(|source| failed(path, source))?;
    loop {
        match file.read(buffer) {
            Ok(0) => return visit(&[], true),
            Ok(read) => visit(&buffer[..read], false)?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(failed(path, source)),
        }
    }
}

fn failed(path: &Path, source: std::io::Error) -> SimulateError {
    SimulateError::Io {
        what: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use env::{Entropy, SeededEntropy};

    use super::*;

    #[derive(Default)]
    struct Chunks(Vec<Chunk>);

    impl Sink for Chunks {
        fn begin(&mut self, _: &BackupHead) -> Result<(), SimulateError> {
            Ok(())
        }
        fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
            self.0.extend_from_slice(chunks);
            Ok(())
        }
        fn end(&mut self) -> Result<(), SimulateError> {
            Ok(())
        }
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        SeededEntropy::new(seed).fill(&mut bytes);
        bytes
    }

    fn cut(cutting: Cutting, path: &Path) -> Vec<Chunk> {
        let mut chunks = Chunks::default();
        Cutter::new(cutting).unwrap().backup(path, &mut chunks).unwrap();
        chunks.0
    }

    fn bytes(chunks: &[Chunk]) -> u64 {
        chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    #[test]
    fn the_ends_of_buffers_do_not_change_the_chunks_of_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let content = noise(1, 2 * CUT_BYTES + 12_345);
        let (whole, later) = (folder.path().join("whole"), folder.path().join("later"));
        fs::write(&whole, &content).unwrap();
        fs::write(&later, [&content[..100_000], &content].concat()).unwrap();
        let (first, second) = (
            cut(Cutting::Content(8192), &whole),
            cut(Cutting::Content(8192), &later),
        );
        assert_eq!(bytes(&first), content.len() as u64);
        assert_eq!(bytes(&second), content.len() as u64 + 100_000);
        let common = second
            .iter()
            .rev()
            .zip(first.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        assert!(common > first.len() * 9 / 10, "{common} of {}", first.len());
        let mean = content.len() / first.len();
        assert!((6000..12_000).contains(&mean), "{mean}");
    }

    #[test]
    fn an_image_is_cut_evenly_and_its_zeros_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(
            &image,
            [noise(2, 8192), vec![0; 8192], noise(2, 4096), noise(3, 100)].concat(),
        )
        .unwrap();
        let chunks = cut(Cutting::Fixed(4096), &image);
        let lens: Vec<u32> = chunks.iter().map(|chunk| chunk.len).collect();
        assert_eq!(lens, [4096, 4096, 4096, 4096, 4096, 100]);
        let are_zeros: Vec<bool> = chunks.iter().map(|chunk| chunk.fingerprint.is_none()).collect();
        assert_eq!(are_zeros, [false, false, true, true, false, false]);
        assert_eq!(chunks[0], chunks[4]);
    }

    #[test]
    fn the_output_of_the_command_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (data, trace) = (folder.path().join("data"), folder.path().join("trace"));
        fs::write(&data, noise(4, 50_000)).unwrap();
        fs::write(&trace, noise(5, 50_000)).unwrap();
        let mut cutter = Cutter::new(Cutting::Content(8192)).unwrap();
        cutter.leave_out(&fs::metadata(&trace).unwrap());
        let mut chunks = Chunks::default();
        cutter.backup(folder.path(), &mut chunks).unwrap();
        assert_eq!(bytes(&chunks.0), 50_000);
        assert_eq!(chunks.0, cut(Cutting::Content(8192), &data));
        let error = cutter.backup(&trace, &mut chunks).unwrap_err().to_string();
        assert!(error.contains("this is the output of the command"), "{error}");
        // A folder of traces, and a nested one with all its content.
        let traces = folder.path().join("deep/traces");
        fs::create_dir_all(&traces).unwrap();
        fs::rename(&trace, traces.join("1")).unwrap();
        cutter.leave_out(&fs::metadata(&traces).unwrap());
        let mut chunks = Chunks::default();
        cutter.backup(folder.path(), &mut chunks).unwrap();
        assert_eq!(chunks.0, cut(Cutting::Content(8192), &data));
    }

    #[test]
    fn a_folder_is_its_files_in_order_and_unreadable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("b")).unwrap();
        for (name, seed) in [("c", 3), ("b/x", 2), ("a", 1)] {
            fs::write(at(name), noise(seed, 3000)).unwrap();
        }
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        let chunks = cut(Cutting::Content(8192), folder.path());
        let each: Vec<_> = ["a", "b/x", "c"]
            .iter()
            .flat_map(|name| cut(Cutting::Content(8192), &at(name)))
            .collect();
        assert_eq!(chunks, each);
        let error = Cutter::new(Cutting::Content(8192))
            .unwrap()
            .backup(&at("gone"), &mut Chunks::default());
        assert!(error.unwrap_err().to_string().contains("gone: No such file"));
        assert!(Cutter::new(Cutting::Fixed(0)).is_err() && Cutter::new(Cutting::Content(1)).is_err());
    }
}

//! The store that every later version must open: how it was made, and its content.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crypto::Argon2Cost;
use env::{Env, LocalStorage, Storage};
use format::config::Settings;
use format::wire;
use object::config::{self, NewSlot};
use onefold::{
    AssembleOptions, Credential, EntryKind, Error, Monitor, OpenOptions, ReaderSource, RestoreRequest,
    Snapshot, Store, StreamPiece, StreamSource,
};
use types::{FileTime, ObjectName};

use crate::damage_support::tree::{self, Entry};
use crate::damage_support::{backup_options, env_on, noise, text, tree_options};

/// The password of the committed store.
pub(crate) const PASSWORD: &[u8] = b"correct horse";

/// So small that a few files fill containers.
pub(crate) const SMALL_CONTAINER_BYTES: u32 = 12 << 10;

/// The folder of committed test data.
pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Whether to make committed data again.
pub(crate) fn is_bless() -> bool {
    std::env::var_os("ONEFOLD_BLESS").is_some_and(|value| value == "1")
}

/// Small containers, regions and nodes.
pub(crate) fn settings() -> Settings {
    Settings {
        chunk_avg_bytes: 1 << 9,
        chunk_min_bytes: 1 << 8,
        chunk_max_bytes: 1 << 12,
        node_avg_children: 8,
        region_bytes: 4 << 10,
        container_bytes: SMALL_CONTAINER_BYTES,
    }
}

/// A guess at the password costs almost nothing.
pub(crate) fn cheap() -> Argon2Cost {
    Argon2Cost {
        memory_kib: 64,
        passes: 1,
        lanes: 1,
    }
}

/// A store with a password's slot and one without.
pub(crate) fn make_store(env: &Env, container_bytes: u32) -> Store {
    let settings = Settings {
        container_bytes,
        ..settings()
    };
    let with_password = NewSlot {
        credential: crypto::Credential::Password(PASSWORD),
        label: "with a password",
        cost: cheap(),
    };
    let without = NewSlot {
        credential: crypto::Credential::NoPassword,
        label: "without",
        cost: cheap(),
    };
    let open = config::create(env, &settings, &[with_password], None).unwrap();
    config::add_slot(env, &open, &without).unwrap();
    open_with(env, &Credential::password(PASSWORD)).unwrap()
}

/// Opens with the default options.
pub(crate) fn open_with(env: &Env, credential: &Credential) -> Result<Store, Error> {
    let options = OpenOptions::default().process(1);
    Store::open(env, credential, &options)
}

/// An image with holes that are not read.
pub(crate) struct Holed(pub(crate) Vec<StreamPart>);

/// A part of an image, in reverse order of reading.
pub(crate) enum StreamPart {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl StreamSource for Holed {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        Ok(match self.0.pop() {
            None => StreamPiece::End,
            Some(StreamPart::Zeros(len)) => StreamPiece::Zeros(len),
            Some(StreamPart::Bytes(mut bytes)) => {
                let len = bytes.len().min(buffer.len());
                let rest = bytes.split_off(len);
                buffer[..len].copy_from_slice(&bytes);
                if !rest.is_empty() {
                    self.0.push(StreamPart::Bytes(rest));
                }
                StreamPiece::Data(len)
            }
        })
    }
}

/// The image of the tests. It repeats itself block by block.
pub(crate) fn image() -> Holed {
    let block = noise(40, 4096);
    Holed(vec![
        StreamPart::Bytes(block.clone()),
        StreamPart::Zeros(1 << 20),
        StreamPart::Bytes(noise(41, 8192)),
        StreamPart::Zeros(12_288),
        StreamPart::Bytes(block),
    ])
}

/// A stream, an image, and a stream again. They contain no times or numbers of files.
pub(crate) fn back_up_streams(store: &Store) {
    let mut first = text(30, 20_000);
    first.extend(noise(31, 12_000));
    let mut second = first.clone();
    second.splice(5_000..5_003, b"inserted".iter().copied());
    let stream = |bytes: &[u8], small| {
        store
            .backup_stream(
                &backup_options("host", small),
                Path::new("/stream"),
                &onefold::StreamOptions::default(),
                &mut ReaderSource(bytes),
                &Monitor::default(),
            )
            .unwrap();
    };
    stream(&first, 0);
    stream(&second, 0);
    store
        .backup_stream(
            &backup_options("host", 0),
            Path::new("/disk.img"),
            &onefold::StreamOptions::fixed(4096),
            &mut image(),
            &Monitor::default(),
        )
        .unwrap();
    stream(&noise(32, 3_000), 1 << 20);
}

/// The committed store, which is made again first if requested.
pub(crate) fn committed() -> PathBuf {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let root = testdata().join("store-v1");
    if is_bless() {
        ONCE.call_once(|| bless(&root));
    }
    root
}

/// Makes the committed store again.
fn bless(root: &Path) {
    if root.exists() {
        fs::remove_dir_all(root).unwrap();
    }
    fs::create_dir_all(root).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::create(root).unwrap());
    let store = make_store(&env_on(storage, 1), SMALL_CONTAINER_BYTES);
    // The path is in the backup, so it is the same on every machine.
    let source = Path::new("/tmp/onefold-store-v1");
    drop(fs::remove_dir_all(source));
    for second in [false, true] {
        if second {
            let mut big = noise(1, 24_000);
            big.splice(10_000..10_010, b"changed".iter().copied());
            fs::write(source.join("big.bin"), big).unwrap();
            fs::remove_file(source.join("sub/one")).unwrap();
            fs::write(source.join("new"), noise(9, 5_000)).unwrap();
        } else {
            make_small(source);
        }
        set_times(source);
        store
            .backup_tree(
                &backup_options("host", 0),
                &tree_options(source, false),
                &Monitor::default(),
                &mut |fault| panic!("{fault}"),
            )
            .unwrap();
    }
    back_up_streams(&store);
    drop(store);
    fs::remove_dir_all(source).unwrap();
}

/// The folder of the damage matrix, with its long files cut short.
fn make_small(root: &Path) {
    tree::make_first(root);
    fs::write(root.join("big.bin"), noise(1, 24_000)).unwrap();
}

fn set_times(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            set_times(&path);
        }
        let time = UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
}

/// The content of a store, in words: its backups, their entries, and the digest of each file as
/// restored.
pub(crate) fn describe(store: &Store) -> String {
    let mut out = String::new();
    let list = store.snapshots().unwrap();
    assert!(list.damaged.is_empty());
    for snapshot in &list.snapshots {
        let backup = &snapshot.backup;
        let paths: Vec<_> = backup.series.paths.iter().map(|path| escaped(path)).collect();
        let totals = &backup.totals;
        writeln!(
            out,
            "backup {} of {} {} by {} at {}: {} files, {} bytes, {} chunks, {} segments",
            snapshot.id,
            escaped(&backup.series.host),
            paths.join(" "),
            escaped(&backup.user),
            backup.source_time.get(),
            totals.files,
            totals.bytes_logical,
            totals.chunks,
            totals.segments,
        )
        .unwrap();
        store
            .list_entries(snapshot, &[], &Monitor::default(), |entry| {
                let kind = match &entry.kind {
                    EntryKind::File { len, .. } => format!("file of {len}"),
                    EntryKind::HardLink { target } => format!("hard link to {}", escaped(target)),
                    EntryKind::Folder => "folder".to_owned(),
                    EntryKind::Symlink { target } => format!("link to {}", escaped(target)),
                    other => format!("{other:?}"),
                };
                // Links and the folders above have times of their own.
                let mtime = match entry.kind {
                    EntryKind::File { .. } => entry.mtime,
                    _ => FileTime::default(),
                };
                let (seconds, nanos) = (mtime.seconds(), mtime.nanos());
                writeln!(out, "  {} {kind} {seconds}.{nanos:09}", escaped(&entry.path)).unwrap();
                Ok::<(), Error>(())
            })
            .unwrap();
        for (path, digest) in contents(store, snapshot) {
            writeln!(out, "  {path} = {digest:032x}").unwrap();
        }
    }
    out
}

/// Restores a backup, and returns the digests of its files.
fn contents(store: &Store, snapshot: &Snapshot) -> Vec<(String, u128)> {
    use std::os::unix::ffi::OsStrExt;
    let target = tempfile::tempdir().unwrap();
    let request = RestoreRequest::new(AssembleOptions::for_cores(1));
    let mut fault = |fault: &onefold::Fault| panic!("{fault:?}");
    store
        .restore(snapshot, target.path(), &request, &Monitor::default(), &mut fault)
        .unwrap();
    let tree = tree::read(target.path());
    tree.iter()
        .filter_map(|(path, entry)| match entry {
            Entry::File(bytes) => Some((escaped(path.as_os_str().as_bytes()), wire::digest(bytes))),
            Entry::Folder | Entry::Link(_) => None,
        })
        .collect()
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The objects in a folder of files, as a local storage lays them out.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_store(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// An object's name.
pub(crate) fn name(text: &str) -> ObjectName {
    ObjectName::new(text.to_owned()).unwrap()
}

//! The cost of one path of a large backup: requests of the storage, counted. The fences show where
//! in the listing the path begins, so the cost does not grow with the tree. Without fences the
//! listing is read, and the result is the same.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::reclaimer::Reclaimer;
use crate::common::{Asked, How, Process, Request, noise, snapshot};
use format::frame::ObjectKind;
use format::manifest::{Manifest, StreamRole};
use format::names;
use onefold::{
    AssembleOptions, BackupReport, Compression, Error, Excludes, InitOptions, Monitor, RestoreReport,
    RestoreRequest, SessionId, Snapshot, Store, StreamOutput, TreeOptions,
};
use types::ContainerKind;

const FOLDERS: usize = 80;
const FILES: usize = 100;
/// The most requests for containers, for one path, with regions and containers as small as these.
/// On an idle machine it is half as many; how the threads of a backup interleave decides how many
/// containers have the chunks of a node. A scan of the listing takes more than three times as many.
const REQUESTS_MAX: usize = 40;
/// Objects that a command reads, from the opening of the store on.
const OBJECTS_MAX: usize = 40;

/// Regions and containers so small that the listing is in dozens of them, and nodes whose chunks
/// are in a few. The catalogs of all of those are read with a node.
fn small() -> InitOptions {
    InitOptions::default()
        .region_bytes(16 << 10)
        .container_bytes(32 << 10)
        .node_avg_children(32)
}

/// Names that do not compress.
fn name(folder: usize, file: usize) -> String {
    let bytes = noise((folder * FILES + file) as u64, 100);
    bytes.iter().fold(format!("{file:03}-"), |mut name, byte| {
        name.push_str(&format!("{byte:02x}"));
        name
    })
}

/// A tree of many files with long names. The content of each shows which file it is.
struct Wide {
    folder: tempfile::TempDir,
}

impl Wide {
    fn plant() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wide = Self { folder };
        for number in 0..FOLDERS {
            fs::create_dir(wide.folder(number)).unwrap();
            for file in 0..FILES {
                fs::write(wide.file(number, file), format!("file {number} {file}")).unwrap();
            }
        }
        // Its first name is far away.
        fs::hard_link(wide.file(3, 50), wide.folder(37).join("again")).unwrap();
        fs::set_permissions(wide.folder(37), fs::Permissions::from_mode(0o751)).unwrap();
        wide
    }

    fn folder(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number:03}"))
    }

    fn file(&self, number: usize, file: usize) -> PathBuf {
        self.folder(number).join(name(number, file))
    }

    fn back_up(&self, store: &Store) -> BackupReport {
        let mut how = How::plain();
        how.ingest.compression = Compression::Off;
        let options = TreeOptions::default()
            .paths(vec![self.folder.path().to_owned()])
            .current_folder(PathBuf::from("/"))
            .excludes(Excludes::default())
            .exclude_caches(false)
            .one_file_system(false)
            .leave_out(None)
            .force(false)
            .ignore_ctime(false)
            .ignore_inode(false);
        let mut faults = |fault: &_| panic!("{fault:?}");
        store
            .backup_tree(&how.options(), &options, &Monitor::default(), &mut faults)
            .unwrap()
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl StreamOutput for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.0.resize(self.0.len() + usize::try_from(len).unwrap(), 0);
        Ok(())
    }
}

/// A process of its own that reads a backup, and whose requests are counted.
struct Reader {
    process: Process,
    store: Store,
    snapshot: Snapshot,
    monitor: Monitor,
}

impl Reader {
    fn new(machine: &Process, id: SessionId, seed: u64) -> Self {
        let process = machine.beside(seed);
        let store = process.open();
        let snapshot = snapshot(&store, id);
        Self {
            process,
            store,
            snapshot,
            monitor: Monitor::default(),
        }
    }

    fn dump(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut output = Bytes::default();
        let assembling = AssembleOptions::for_cores(1);
        let path = bytes_of(path);
        self.store.dump(
            &self.snapshot,
            Some(&path),
            &mut output,
            assembling,
            &self.monitor,
        )?;
        Ok(output.0)
    }

    fn list(&self, paths: &[PathBuf]) -> Vec<Vec<u8>> {
        let paths: Vec<_> = paths.iter().map(|path| bytes_of(path)).collect();
        let mut found = Vec::new();
        let each = |entry: &onefold::ListingEntry| {
            found.push(entry.path.clone());
            Ok::<_, Error>(())
        };
        self.store
            .list_entries(&self.snapshot, &paths, &self.monitor, each)
            .unwrap();
        found
    }

    fn restore(&self, include: &[PathBuf], target: &Path) -> RestoreReport {
        let request = RestoreRequest::new(AssembleOptions::for_cores(1))
            .include(include.iter().map(|path| bytes_of(path)).collect());
        let mut faults = |fault: &_| panic!("{fault:?}");
        let restored = self
            .store
            .restore(&self.snapshot, target, &request, &self.monitor, &mut faults);
        restored.unwrap()
    }

    /// Requests about containers since the last call, and objects read.
    fn cost(&self) -> Cost {
        let requests = self.process.watched.take_requests();
        let is_of_container = |request: &&Request| {
            let mut folders = ContainerKind::ALL.map(ContainerKind::folder).into_iter();
            folders.any(|folder| request.is_in(folder)) && request.asked != Asked::Put
        };
        let is_read =
            |request: &&Request| matches!(request.asked, Asked::Whole | Asked::Tail | Asked::Range(_));
        let read: BTreeSet<&str> = requests
            .iter()
            .filter(is_read)
            .map(|request| &request.name[..])
            .collect();
        Cost {
            requests: requests.iter().filter(is_of_container).count(),
            objects: read.len(),
        }
    }

    /// Checks the cost of `paths` paths since the last call.
    fn ensure_cheap(&self, paths: usize, what: &str) {
        let Cost { requests, objects } = self.cost();
        assert!(requests <= paths * REQUESTS_MAX, "{what}: {requests} requests");
        assert!(objects <= OBJECTS_MAX, "{what}: {objects} objects");
    }
}

/// The reads of the storage.
struct Cost {
    requests: usize,
    objects: usize,
}

fn stored(seed: u64) -> (Process, Wide, SessionId) {
    let machine = Process::new(seed);
    let store = machine.try_init(&small()).unwrap();
    let wide = Wide::plant();
    let made = wide.back_up(&store);
    (machine, wide, made.id)
}

#[test]
fn one_path_costs_few_requests_in_a_tree_of_any_size() {
    let (machine, wide, id) = stored(700);
    let reader = Reader::new(&machine, id, 701);
    let all = reader.list(&[]);
    assert!(all.len() > FOLDERS * FILES);
    let scan = reader.cost();
    assert!(
        scan.requests > 3 * REQUESTS_MAX && scan.objects > OBJECTS_MAX,
        "the tree is too small: {} requests, {} objects",
        scan.requests,
        scan.objects
    );

    for (folder, file) in [(0, 0), (20, 31), (39, 99)] {
        let reader = Reader::new(&machine, id, 702);
        let found = reader.dump(&wide.file(folder, file)).unwrap();
        assert_eq!(found, format!("file {folder} {file}").as_bytes());
        reader.ensure_cheap(1, "dump");
        assert!(matches!(
            reader.dump(&wide.folder(folder).join("none")),
            Err(Error::NotFound(_))
        ));
        reader.ensure_cheap(1, "dump of nothing");

        let reader = Reader::new(&machine, id, 703);
        assert_eq!(
            reader.list(&[wide.file(folder, file)]),
            [bytes_of(&wide.file(folder, file))]
        );
        reader.ensure_cheap(1, "ls of a file");
        let prefix = bytes_of(&wide.folder(folder));
        let below: Vec<_> = all.iter().filter(|path| path.starts_with(&prefix)).collect();
        assert_eq!(
            reader.list(&[wide.folder(folder)]).iter().collect::<Vec<_>>(),
            below
        );
        reader.ensure_cheap(1, "ls of a folder");
    }
    assert!(reader.monitor.notes().is_empty(), "{:?}", reader.monitor.notes());
}

#[test]
fn paths_far_apart_are_each_found() {
    let (machine, wide, id) = stored(710);
    let reader = Reader::new(&machine, id, 711);
    let paths = [
        wide.file(30, 7),
        wide.file(5, 99),
        wide.folder(17),
        wide.file(17, 3),
        wide.file(5, 99),
    ];
    let found = reader.list(&paths);
    reader.ensure_cheap(2, "ls of paths far apart");
    let all = reader.list(&[]);
    let below = bytes_of(&wide.folder(17));
    let mut want = vec![bytes_of(&wide.file(5, 99))];
    want.extend(all.into_iter().filter(|path| path.starts_with(&below)));
    want.push(bytes_of(&wide.file(30, 7)));
    assert_eq!(found, want);
}

#[test]
fn a_restore_of_one_path_reads_neither_the_listing_nor_other_content() {
    let (machine, wide, id) = stored(720);
    let reader = Reader::new(&machine, id, 721);
    let target = tempfile::tempdir().unwrap();
    let below = |path: &Path| target.path().join(path.strip_prefix("/").unwrap());
    let file = wide.file(21, 12);
    let report = reader.restore(std::slice::from_ref(&file), target.path());
    reader.ensure_cheap(2, "restore of a file");
    assert_eq!((report.files, &report.is_included[..]), (1, &[true][..]));
    assert_eq!(fs::read(below(&file)).unwrap(), b"file 21 12");

    // A hard link whose first name is not requested, and its folder with its metadata.
    let again = wide.folder(37).join("again");
    let reader = Reader::new(&machine, id, 722);
    let report = reader.restore(&[again.clone(), wide.folder(2).join("none")], target.path());
    reader.ensure_cheap(2, "restore of a hard link");
    assert_eq!((report.files, &report.is_included[..]), (1, &[true, false][..]));
    assert_eq!(fs::read(below(&again)).unwrap(), b"file 3 50");
    let mode = fs::metadata(below(&wide.folder(37))).unwrap().mode();
    assert_eq!(mode & 0o777, 0o751, "the folder above is made as it was");
    assert!(reader.monitor.notes().is_empty(), "{:?}", reader.monitor.notes());
}

/// Makes a revision of a backup without its fences, or with other ones.
fn revise(machine: &Process, id: SessionId, fences: Option<StreamRole>) {
    let reclaimer = Reclaimer::new(machine.beside(739));
    let mut backup = reclaimer.backup(id);
    let other = backup
        .streams
        .iter()
        .find(|stream| Some(stream.role) == fences)
        .cloned();
    backup.streams.retain(|stream| stream.role != StreamRole::Fences);
    backup
        .streams
        .extend(other.map(|stream| format::manifest::StreamRoot {
            role: StreamRole::Fences,
            ..stream
        }));
    let list = reclaimer.manifests.list().unwrap();
    let entry = list.get(id).unwrap();
    let next = entry.stored.revision.next();
    let name = names::manifest(entry.series(), id, next);
    let sealer = reclaimer.sealer();
    let manifest = Manifest::Revised(backup).to_bytes();
    sealer.put(&name, ObjectKind::Manifest, &manifest).unwrap();
}

/// Losing the fences costs only time, and the user is told why.
#[test]
fn without_fences_or_with_wrong_ones_the_listing_is_read() {
    let (machine, wide, id) = stored(730);
    for wrong in [None, Some(StreamRole::Content), Some(StreamRole::Listing)] {
        revise(&machine, id, wrong);
        let reader = Reader::new(&machine, id, 731);
        assert_eq!(reader.dump(&wide.file(30, 31)).unwrap(), b"file 30 31");
        let notes = reader.monitor.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].to_string().contains("fence")
                && notes[0].to_string().contains("nothing of the backup is missing"),
            "{notes:?}"
        );
        assert_eq!(reader.list(&[wide.file(30, 31)]), [bytes_of(&wide.file(30, 31))]);
        let target = tempfile::tempdir().unwrap();
        let again = wide.folder(37).join("again");
        assert_eq!(
            reader.restore(std::slice::from_ref(&again), target.path()).files,
            1
        );
        let restored = target.path().join(again.strip_prefix("/").unwrap());
        assert_eq!(fs::read(restored).unwrap(), b"file 3 50");
        assert_eq!(reader.monitor.notes().len(), 3);
        // A request for everything needs no fences.
        reader.list(&[]);
        assert_eq!(reader.monitor.notes().len(), 3);
    }
}

/// One file of a large tree changed between two backups. `diff` and `find` read few objects for it.
#[test]
fn a_comparison_reads_what_changed_and_not_the_tree() {
    let (machine, wide, id) = stored(740);
    for folder in [7, 41] {
        fs::write(wide.file(folder, 3), format!("changed {folder} {folder}")).unwrap();
    }
    fs::remove_file(wide.file(60, 60)).unwrap();
    let second = wide.back_up(&machine.beside(741).open()).id;
    let reader = Reader::new(&machine, id, 742);
    let after = snapshot(&reader.store, second);
    reader.cost();
    let mut found = Vec::new();
    let each = |change: &onefold::Change| {
        found.push((change.modifier(), change.path.clone()));
        Ok::<_, Error>(())
    };
    let request = onefold::DiffRequest::default();
    let compared = reader
        .store
        .diff(&reader.snapshot, &after, &request, &reader.monitor, each);
    let report = compared.unwrap();
    assert_eq!(
        found,
        [
            ("M", bytes_of(&wide.file(7, 3))),
            ("M", bytes_of(&wide.file(41, 3))),
            ("-", bytes_of(&wide.file(60, 60))),
        ]
    );
    assert_eq!((report.files_changed, report.removed.files), (2, 1));
    let cost = reader.cost();
    // Each change costs about a path of both backups.
    assert!(cost.requests <= 6 * REQUESTS_MAX, "{} requests", cost.requests);
    assert!(cost.objects <= 3 * OBJECTS_MAX, "{} objects", cost.objects);

    // A search of both reads one listing, and what changed.
    let mut patterns = onefold::ExcludeBuilder::new();
    patterns.add("003-*", false).unwrap();
    let request = onefold::FindRequest::default().patterns(patterns.build().unwrap());
    let search = |backups: &[Snapshot], seed| {
        let reader = Reader::new(&machine, id, seed);
        reader.cost();
        let each = |_: &Snapshot, _: onefold::Found<'_>| Ok::<_, Error>(());
        let searched = reader
            .store
            .find_entries(backups, &request, &reader.monitor, each);
        (searched.unwrap().found, reader.cost().requests)
    };
    let first = reader.snapshot.clone();
    let (found, one) = search(std::slice::from_ref(&first), 743);
    assert_eq!(found, FOLDERS as u64);
    let (found, both) = search(&[first, after], 744);
    assert_eq!(found, 2 * FOLDERS as u64);
    assert!(
        both < one + one / 2 && both <= one + 6 * REQUESTS_MAX,
        "{one} requests for a backup, {both} for both"
    );
}

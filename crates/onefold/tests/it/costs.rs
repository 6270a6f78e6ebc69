//! What a backup and a restore ask of the storage, counted; what is deduplicated, however many
//! threads there are and whatever becomes of the index (INV-4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, How, Process, Request, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, is_long, noise, restore_within, snapshot, tiny,
};
use container::Containers;
use crypto::Credential;
use env::Storage;
use env::fault::CrashPolicy;
use format::names;
use index::{Index, IndexOptions};
use ingest::{
    About, BackupSession, Cap, Capping, Client, ClientPools, Counters, Granularity, LocalSession,
    ReaderSource, StorePools, StoreSession,
};
use object::config;
use onefold::InitOptions;
use recipe::NodeCache;
use session::{Begin, Manifests, NamedContainers, Session, SessionPolicy};
use types::{ContainerKind, Generation, ObjectName, UnixNanos};

/// Containers so large that the end of one, as it is read for its catalog, is not all of it.
fn large() -> InitOptions {
    tiny().container_bytes(1 << 20).region_bytes(32 << 10)
}

fn of_containers(requests: &[Request]) -> Vec<&Request> {
    let folders = ContainerKind::ALL.map(ContainerKind::folder);
    let is_of =
        |request: &&Request| folders.iter().any(|folder| request.is_in(folder)) || request.is_in("mirror");
    requests.iter().filter(is_of).collect()
}

/// The data containers that a backup's content lies in.
fn content_of(machine: &Process, id: onefold::SessionId) -> BTreeSet<String> {
    let reclaimer = Reclaimer::new(machine.beside(69));
    let mut backup = reclaimer.backup(id);
    backup.streams.truncate(1);
    let reached = reclaimer.reached_by(&backup).into_iter();
    let data = reached.filter(|location| location.container.kind == ContainerKind::Data);
    data.map(|location| {
        names::container(location.container, Generation::FIRST)
            .as_str()
            .to_owned()
    })
    .collect()
}

#[test]
fn an_unchanged_backup_puts_no_data_and_reads_none() {
    let machine = Process::new(61);
    machine.try_init(&large()).unwrap();
    let tree = Tree::plant(61, 3 << 20);
    let first = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    assert!(machine.names("data").len() >= 3);
    let data_before = machine.names("data");
    // The listing has the folder of temporary files in it, which other tests change: it may be
    // stored again. Content is not.
    let hows = [How::plain(), How::capped()];
    let mut latest = first.id;
    for how in hows.into_iter().flat_map(|how| [how.clone(), how.forced()]) {
        let process = machine.beside(62);
        let store = process.open();
        drop(process.watched.take_requests());
        let again = back_up(&store, &tree, &how).unwrap();
        let requests = process.watched.take_requests();
        let content = |id| snapshot(&store, id).backup.streams[0].clone();
        assert_eq!(
            content(again.id),
            content(first.id),
            "the same root, in the same place"
        );
        assert!(again.totals.bytes_stored < 16 << 10, "{:?}", again.totals);
        if !how.force {
            assert_eq!((again.parent, again.totals.bytes_read), (Some(latest), 0));
            assert_eq!(again.totals.files_unchanged, again.totals.files);
        }
        latest = again.id;
        let put: Vec<_> = machine
            .names("data")
            .into_iter()
            .filter(|name| !data_before.contains(name))
            .collect();
        let put_bytes: usize = put
            .iter()
            .map(|name| {
                machine
                    .storage
                    .get(&ObjectName::new(name).unwrap())
                    .unwrap()
                    .len()
            })
            .sum();
        assert!(put_bytes < 16 << 10, "{put:?}: {put_bytes} bytes");
        let read_data = requests.iter().filter(|request| request.is_in("data"));
        let read_data: Vec<_> = read_data.filter(|request| request.asked == Asked::Tail).collect();
        // The earlier listing is read to compare; it lies apart from content.
        let of_content: BTreeSet<String> = content_of(&machine, first.id);
        let regions = requests
            .iter()
            .filter(|request| of_content.contains(&request.name));
        let regions: Vec<_> = regions.filter(|request| request.asked != Asked::Tail).collect();
        assert!(of_content.len() >= 3 && regions.is_empty(), "{regions:?}");
        let catalogs: BTreeSet<_> = read_data.iter().map(|request| &request.name).collect();
        assert_eq!(catalogs.len(), read_data.len(), "each catalog once at most");
    }
}

#[test]
fn an_unchanged_stream_costs_no_look_at_data_containers() {
    assert_unchanged_stream_costs_no_look(&How::plain());
}

/// Nor does it where containers are to hold more of a window than each does: what did not change is
/// not stored again.
#[test]
fn an_unchanged_stream_costs_no_look_with_a_cap_in_bytes() {
    let mut how = How::plain();
    let capping = |least, window_bytes| {
        Some(Capping {
            cap: Cap::Least(least),
            remembered_windows: 0,
            window_bytes,
        })
    };
    how.ingest.capping = capping(900 << 10, 20_000_000);
    assert_unchanged_stream_costs_no_look(&how);
    // Windows end within the stream.
    how.ingest.capping = capping(300 << 10, 700_000);
    assert_unchanged_stream_costs_no_look(&how);
}

fn assert_unchanged_stream_costs_no_look(how: &How) {
    let machine = Process::new(63);
    machine.try_init(&large()).unwrap();
    let bytes = noise(63, 2 << 20);
    back_up_bytes(&machine.open(), "/stream", &bytes, how).unwrap();
    let process = machine.beside(64);
    let store = process.open();
    drop(process.watched.take_requests());
    let again = back_up_bytes(&store, "/stream", &bytes, how).unwrap();
    let requests = process.watched.take_requests();
    assert_eq!(again.totals.chunks_new, 0);
    assert_eq!(again.totals.segments, again.totals.segments_known);
    let touched: Vec<_> = of_containers(&requests);
    // One listing tells that the containers are there.
    let data: Vec<_> = touched.iter().filter(|request| request.is_in("data")).collect();
    let listings = data.iter().filter(|request| request.asked == Asked::List).count();
    assert!(
        listings <= 1 && data.len() == listings,
        "neither read nor put: {data:?}"
    );
    let puts = touched.iter().filter(|request| request.asked == Asked::Put);
    assert_eq!(puts.count(), 0, "no container of any kind");
}

/// What little lies apart is not stored again with what little is new: it would lie apart again.
#[test]
fn a_small_change_stores_nothing_again_with_a_cap_in_bytes() {
    let machine = Process::new(67);
    machine.try_init(&large()).unwrap();
    let mut how = How::plain();
    how.ingest.capping = Some(Capping {
        cap: Cap::Least(128 << 10),
        remembered_windows: 0,
        window_bytes: 2 << 20,
    });
    let mut bytes = noise(67, 2 << 20);
    for (n, at) in [300_000, 900_000, 1_500_000].into_iter().enumerate() {
        let made = back_up_bytes(&machine.open(), "/stream", &bytes, &how).unwrap();
        assert_eq!(made.chunks_capped, 0, "backup {n}");
        bytes[at..at + 5000].copy_from_slice(&noise(70 + n as u64, 5000));
    }
    let made = back_up_bytes(&machine.open(), "/stream", &bytes, &how).unwrap();
    assert!(made.totals.chunks_new > 0);
    assert_eq!(made.chunks_capped, 0);
}

/// At most one look-up in the index for each known segment: one for each container of nodes will
/// do.
#[test]
fn known_segments_cost_a_look_up_a_container() {
    let machine = Process::new(65);
    machine.init();
    let bytes = noise(65, 1 << 20);
    let first = back_up_bytes(&machine.open(), "/stream", &bytes, &How::plain()).unwrap();

    // A backup by hand, for the sake of its index' counters.
    let process = machine.beside(66);
    let opened = config::open(&process.env, Credential::NoPassword).unwrap();
    let sealer = opened.sealer(&process.env);
    let containers = Containers::new(process.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let begin = Begin {
        series: sealer.key().series_id(b"by hand"),
        name: snapshot(&machine.open(), first.id).backup.series,
        process: 1,
        policy: SessionPolicy::default(),
    };
    let session = Session::begin(&sealer, begin).unwrap();
    let manifests = Manifests::new(&sealer);
    let named = NamedContainers::load(&manifests, &manifests.list().unwrap()).unwrap();
    let storage: Arc<dyn Storage> = process.env.storage.clone();
    let index = Index::open(storage, opened.store(), IndexOptions::default()).unwrap();
    let nodes = NodeCache::new(containers, 8 << 20);
    let options = How::plain().ingest;
    let counters = Arc::new(Counters::default());
    let before = index.stats();
    let local = LocalSession::start(
        Arc::new(StoreSession::new(session, nodes, &index, named)),
        opened.settings,
        Granularity::Chunk,
        ingest::single_stream(None),
        &StorePools::new(opened.settings.container_bytes, 96 << 20, &process.env.clock),
        &options,
        &counters,
    )
    .unwrap();
    let client = Client {
        session: &local,
        pools: &ClientPools::new(&process.env.clock),
        options: &options,
        counters: &counters,
        cancel: &AtomicBool::new(false),
        clock: &process.env.clock,
    };
    ingest::backup_stream(
        client,
        ingest::StreamSpec {
            name: "stream",
            fixed_chunk_bytes: None,
            parents: &[],
        },
        &mut ReaderSource(&bytes[..]),
    )
    .unwrap();
    let about = About {
        name: snapshot(&machine.open(), first.id).backup.series,
        source_time: UnixNanos::new(1),
        elapsed_nanos: 1,
        user: Vec::new(),
        program: String::new(),
        tags: Vec::new(),
        only_if_changed: false,
        hold_until: None,
        origin: None,
        counted: counters.of_client(),
    };
    let committed = local.commit(about).unwrap();
    let after = index.stats();
    let segments = counters.segments.get();
    assert!(segments > 20 && counters.segments_known.get() == segments);
    assert_eq!(counters.chunks_new.get(), 0);
    assert!(committed.containers.is_empty());
    // Most nodes lie in a catalog that answered a moment ago, and ask the index for nothing.
    // Segments and the nodes above them are asked for by two threads, each of which asks once for a
    // container.
    let lookups = after.lookups - before.lookups;
    let recipes = machine.names("recipe").len() as u64;
    assert!(
        lookups <= 2 * recipes && lookups < segments / 2,
        "{lookups} look-ups for {segments} segments in {recipes} containers"
    );
}

/// Each container's catalog is read once, each of its regions once, neighbours together, and
/// nothing else. With memory for a part of the backup only, a region at the border of two parts is
/// read for both.
#[test]
fn a_restore_reads_each_catalog_and_each_region_once() {
    let machine = Process::new(67);
    machine.try_init(&large()).unwrap();
    let tree = Tree::plant(67, 4 << 20);
    let made = back_up(&machine.open(), &tree, &How::plain()).unwrap();
    let len_of = |name: &str| {
        let object = machine.storage.get(&ObjectName::new(name).unwrap()).unwrap();
        object.len() as u64
    };
    for (budget, borders) in [(16 << 20, 0), (1 << 20, 12)] {
        let process = machine.beside(68);
        let store = process.open();
        let backup = snapshot(&store, made.id);
        drop(process.watched.take_requests());
        let target = tempfile::tempdir().unwrap();
        restore_within(&store, &backup, target.path(), budget, "once");
        let requests = process.watched.take_requests();
        let index = requests.iter().filter(|request| request.is_in("index"));
        assert_eq!(index.count(), 0, "a restore asks no index");
        let mut ranges: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        let mut tails: BTreeMap<&str, u64> = BTreeMap::new();
        for request in of_containers(&requests) {
            match request.asked {
                Asked::Tail => *tails.entry(&request.name).or_default() += 1,
                Asked::Range(range) => ranges
                    .entry(&request.name)
                    .or_default()
                    .push((range.offset, range.end())),
                Asked::List => {}
                _ => panic!("{request:?}"),
            }
        }
        assert!(tails.len() >= 5, "{tails:?}");
        assert!(tails.values().all(|reads| *reads == 1), "{tails:?}");
        let (mut reads, mut twice) = (0, 0);
        let data: Vec<_> = ranges
            .iter_mut()
            .filter(|(name, _)| name.starts_with("data"))
            .collect();
        let containers = data.len() as u64;
        for (name, read) in data {
            read.sort_unstable();
            twice += read.windows(2).filter(|pair| pair[0].1 > pair[1].0).count() as u64;
            let sum: u64 = read.iter().map(|(from, to)| to - from).sum();
            // One file of the tree repeats another: with little memory those bytes are read for
            // each.
            let again = if borders > 0 {
                (borders * 40 + 512) << 10
            } else {
                0
            };
            assert!(sum < len_of(name) + again, "{name}: {sum} bytes read: {read:?}");
            reads += read.len() as u64;
        }
        assert!(twice <= borders, "{twice} regions were read twice");
        assert!(
            reads <= 2 * (containers + borders),
            "{reads} reads of {containers} containers"
        );
    }
}

/// Opening a store and listing its backups reads manifests alone, each once; what a backup's start
/// adds to that are the fronts of runs. No container is asked for, however many there are.
#[test]
fn opening_and_listing_read_manifests_and_runs_alone() {
    let machine = Process::new(75);
    machine.init();
    let mut bytes = noise(75, 300 << 10);
    for n in 0..12 {
        back_up_bytes(&machine.open(), "/stream", &bytes, &How::plain()).unwrap();
        bytes.extend(noise(76 + n, 20 << 10));
    }
    assert!(machine.names("data").len() + machine.names("small").len() > 12);
    let process = machine.beside(76);
    let store = process.open();
    let of_config = process.watched.take_requests();
    assert!(
        of_config
            .iter()
            .all(|request| request.name == "config" || request.is_in("config")),
        "{of_config:?}"
    );
    assert!(of_config.len() <= 4, "{of_config:?}");
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 12);
    let requests = process.watched.take_requests();
    let listings = requests.iter().filter(|request| request.asked == Asked::List);
    assert_eq!(
        listings.map(|request| request.name.as_str()).collect::<Vec<_>>(),
        ["backups"]
    );
    let reads: Vec<_> = requests
        .iter()
        .filter(|request| request.asked != Asked::List)
        .collect();
    assert!(reads.iter().all(|request| request.is_in("backups")), "{reads:?}");
    assert_eq!(reads.len(), 12);
    store.snapshots().unwrap();
    assert_eq!(process.watched.take_requests().len(), 1, "what was read is kept");

    let storage: Arc<dyn Storage> = process.env.storage.clone();
    let index = Index::open(storage, store.id(), IndexOptions::default()).unwrap();
    let requests = process.watched.take_requests();
    assert_eq!(requests.len() as u64, 1 + index.stats().runs, "{requests:?}");

    // A backup with nothing new.
    let process = machine.beside(77);
    let store = process.open();
    drop(process.watched.take_requests());
    bytes.truncate(bytes.len() - (20 << 10));
    let again = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
    assert_eq!(again.totals.chunks_new, 0);
    let requests = process.watched.take_requests();
    let of_manifests = |asked| {
        let of = |request: &&Request| request.name == "backups" || request.is_in("backups");
        requests
            .iter()
            .filter(of)
            .filter(|request| request.asked == asked)
            .count()
    };
    assert_eq!(of_manifests(Asked::Whole), 12, "each once");
    // For a free number, for who is at work, for the parent and all else, for what others left
    // behind.
    assert!(of_manifests(Asked::List) <= 4, "{requests:?}");
    let data = requests.iter().filter(|request| request.is_in("data"));
    assert!(
        data.clone().all(|request| request.asked == Asked::List),
        "{requests:?}"
    );
}

/// What a store of these backups holds: roots, and objects and bytes by kind.
fn with_workers(workers: usize, how: &How) -> (Vec<String>, BTreeMap<String, (u64, u64)>) {
    let machine = Process::new(71);
    machine.init();
    let mut how = how.clone();
    how.ingest.workers = workers;
    let store = machine.open();
    let mut bytes = noise(71, 400 << 10);
    let mut roots = Vec::new();
    for step in 0..3 {
        let made = back_up_bytes(&store, "/stream", &bytes, &how).unwrap();
        let root = snapshot(&store, made.id).backup.streams[0].clone();
        let totals = made.totals;
        roots.push(format!(
            "{:?} {:?} {} {} new chunks of {}, {} known segments of {}",
            root.fingerprint,
            root.level,
            root.len,
            totals.chunks_new,
            totals.chunks,
            totals.segments_known,
            totals.segments
        ));
        assert_restores_bytes(&store, &snapshot(&store, made.id), "/stream", &bytes, "workers");
        let middle = 100_000 * (step + 1);
        bytes.splice(middle..middle + 5, noise(step as u64, 3000));
        let repeat = bytes[..50_000].to_vec();
        bytes.extend(repeat);
    }
    let stats = store.stats().unwrap();
    let kinds = stats
        .kinds
        .iter()
        .filter(|(kind, _)| matches!(**kind, "data" | "small"));
    let kinds = kinds.map(|(kind, stats)| ((*kind).to_owned(), (stats.objects, stats.bytes)));
    (roots, kinds.collect())
}

#[test]
fn deduplication_is_the_same_with_any_number_of_workers() {
    for how in [How::plain(), How::small()] {
        let one = with_workers(1, &how);
        for workers in 2..=4 {
            for _ in 0..if is_long() { 20 } else { 2 } {
                assert_eq!(with_workers(workers, &how), one, "{workers} workers");
            }
        }
    }
}

/// Two backups of a stream and one of a tree, and an index of three runs.
fn with_index() -> (Process, Tree, Vec<u8>, Vec<onefold::BackupReport>) {
    let machine = Process::new(73);
    machine.init();
    let tree = Tree::plant(73, 60 << 10);
    let mut bytes = noise(73, 120 << 10);
    let store = machine.open();
    let mut made = vec![back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap()];
    bytes.extend(noise(74, 40 << 10));
    made.push(back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap());
    made.push(back_up(&store, &tree, &How::plain()).unwrap());
    assert_eq!(machine.names("index").len(), 3);
    (machine, tree, bytes, made)
}

/// With that index, restores are as ever, and a backup finds what is there; if not this one, then
/// the next.
fn assert_index_is_a_hint(
    (machine, tree, bytes): (&Process, &Tree, &[u8]),
    made: &[onefold::BackupReport],
    damage: &dyn Fn(&Process),
    finds_all_at_once: bool,
    when: &str,
) {
    let process = Process::on(
        machine.storage.crash(CrashPolicy::KeepAll),
        machine.clock.clone(),
        700,
    );
    damage(&process);
    let store = process.open();
    let last = made.len() - 1;
    assert_restores_bytes(&store, &snapshot(&store, made[1].id), "/stream", bytes, when);
    assert_restores(
        &store,
        &snapshot(&store, made[last].id),
        &tree.root(),
        &tree.picture(),
        when,
    );
    let again = back_up_bytes(&store, "/other", bytes, &How::plain()).unwrap();
    assert_restores_bytes(&store, &snapshot(&store, again.id), "/other", bytes, when);
    if finds_all_at_once {
        assert_eq!(again.totals.chunks_new, 0, "{when}: {:?}", again.totals);
    }
    let store = process.open();
    let next = back_up_bytes(&store, "/another", bytes, &How::plain()).unwrap();
    assert_eq!(next.totals.chunks_new, 0, "{when}: {:?}", next.totals);
    let forced = back_up(&store, tree, &How::plain().forced()).unwrap();
    if finds_all_at_once {
        // But for the listing, which has the folder of temporary files in it.
        assert!(forced.totals.chunks_new <= 2, "{when}: {:?}", forced.totals);
    }
    assert_sound(&store, when);
}

#[test]
fn the_index_may_be_lost() {
    let (machine, tree, bytes, made) = with_index();
    let runs = machine.names("index");
    let lose = |process: &Process, name: &String| {
        assert!(process.storage.lose(&ObjectName::new(name).unwrap()));
    };
    let of = (&machine, &tree, &bytes[..]);
    let all = |process: &Process| runs.iter().for_each(|run| lose(process, run));
    assert_index_is_a_hint(of, &made, &all, true, "all runs lost");
    for run in &runs {
        assert_index_is_a_hint(of, &made, &|process| lose(process, run), true, run);
    }
}

#[test]
fn any_run_of_the_index_may_be_damaged() {
    let (machine, tree, bytes, made) = with_index();
    let of = (&machine, &tree, &bytes[..]);
    for run in machine.names("index") {
        let name = ObjectName::new(&run).unwrap();
        let len = machine.storage.get(&name).unwrap().len();
        let step = if is_long() { 97 } else { len / 5 };
        for at in (0..len).step_by(step).chain([len - 1]) {
            // A block is looked at when it is needed: the front at once, the others only then.
            let flip = |process: &Process| {
                assert!(process.storage.damage(&name, |bytes| bytes[at] ^= 0x10));
            };
            assert_index_is_a_hint(of, &made, &flip, false, &format!("{run}, byte {at} flipped"));
            let cut = |process: &Process| {
                assert!(process.storage.damage(&name, |bytes| bytes.truncate(at)));
            };
            // A run that is not whole is known by its length, and is made again at once.
            assert_index_is_a_hint(of, &made, &cut, true, &format!("{run}, cut at byte {at}"));
        }
    }
}

/// After a rebuild from nothing all is found at once.
#[test]
fn a_rebuilt_index_knows_all() {
    let (machine, tree, bytes, made) = with_index();
    let of = (&machine, &tree, &bytes[..]);
    let rebuild = |process: &Process| {
        for run in process.names("index") {
            process.storage.lose(&ObjectName::new(&run).unwrap());
        }
        let report = process
            .open()
            .rebuild_index(&onefold::Monitor::default())
            .unwrap();
        assert!(report.unreadable.is_empty() && report.runs == 1, "{report:?}");
        drop(process.watched.take_requests());
    };
    assert_index_is_a_hint(of, &made, &rebuild, true, "rebuilt");
}

//! Copies of backups between stores: within a fingerprint domain and across, again, after damage
//! and after kills.

use std::collections::BTreeSet;
use std::time::Duration;

use env::fault::{Counted, FailWith, Fault, OpKind};
use format::names;
use onefold::operations::copy;
use onefold::{
    Backup, CopyReport, CopyRequest, CopyStep, Credential, EntryKind, Error, Filter, HoldEnd, InitOptions,
    Layout, ListingEntry, Monitor, Origin, SeriesName, SessionId, SettingsChange, Snapshot, Store,
    StreamOptions, TagChange, Which,
};
use types::{ObjectName, Revision};

use crate::common::pruning::forget;
use crate::common::{
    Asked, How, Process, Tree, archival, assert_restores, assert_restores_bytes, assert_sound, back_up,
    back_up_bytes, noise, snapshot, tiny,
};

/// Two stores on machines of their own.
pub(crate) struct Pair {
    pub(crate) source: Process,
    pub(crate) destination: Process,
}

impl Pair {
    /// With `options` of the destination. Within one domain it takes the parameters of the source.
    fn new(seed: u64, is_one_domain: bool, options: &InitOptions) -> Self {
        let source = Process::new(seed);
        let store = source.init();
        let destination = Process::new(seed + 1);
        let domain_of = is_one_domain.then_some(&store);
        Store::init(&destination.env, &Credential::None, options, domain_of).unwrap();
        Self { source, destination }
    }

    fn within_a_domain(seed: u64) -> Self {
        Self::new(seed, true, &tiny())
    }

    /// The stores cut differently, too.
    pub(crate) fn across_domains(seed: u64) -> Self {
        let options = tiny().chunk_avg_bytes(2 << 10);
        Self::new(seed, false, &options)
    }

    /// Stores of both kinds.
    pub(crate) fn both(seed: u64) -> [(Self, bool); 2] {
        [
            (Self::within_a_domain(seed), true),
            (Self::across_domains(seed + 10), false),
        ]
    }
}

pub(crate) fn request() -> CopyRequest {
    CopyRequest::default().ingest(How::plain().ingest)
}

pub(crate) fn try_copy(from: &Store, to: &Store, request: &CopyRequest) -> Result<CopyReport, Error> {
    copy(from, to, request, &Monitor::default(), &mut |_| {})
}

/// Copies all, without a fault.
pub(crate) fn copy_all(from: &Store, to: &Store) -> CopyReport {
    let report = try_copy(from, to, &request()).unwrap();
    assert!(report.failed.is_empty() && report.unread.is_empty(), "{report:?}");
    report
}

/// The numbers of the copies, in order.
fn made(report: &CopyReport) -> Vec<SessionId> {
    report.copied.iter().map(|copied| copied.made.id).collect()
}

/// The facts of a backup that a copy has too.
fn facts(backup: &Backup) -> impl PartialEq + std::fmt::Debug {
    let streams: Vec<_> = backup.streams.iter().map(|one| (one.role, one.len)).collect();
    let totals = backup.totals;
    (
        (backup.series.clone(), backup.source_time, backup.elapsed_nanos),
        (backup.user.clone(), backup.program.clone(), backup.tags.clone()),
        (backup.hold_until, streams),
        (totals.files, totals.folders, totals.others, totals.files_failed),
    )
}

#[test]
fn copies_restore_as_the_originals_do() {
    for (pair, is_one_domain) in Pair::both(1200) {
        let (from, to) = (pair.source.open(), pair.destination.open());
        let how = How::plain();
        let tree = Tree::plant(1201, 200 << 10);
        let first = back_up(&from, &tree, &how).unwrap();
        let before = tree.picture();
        pair.source.clock.advance(Duration::from_secs(60));
        tree.change(1);
        let second = back_up(&from, &tree, &how).unwrap();
        let bytes = noise(1202, 100 << 10);
        let stream = back_up_bytes(&from, "/stream", &bytes, &how).unwrap();
        let empty = back_up_bytes(&from, "/empty", &[], &how).unwrap();
        let mut image = noise(1203, 64 << 10);
        image.splice(8192..40960, vec![0; 32768]);
        let mut source = onefold::ReaderSource(&image[..]);
        let fixed = StreamOptions::fixed(4096);
        let imaged = from.backup_stream(
            &how.options(),
            "/image".as_ref(),
            &fixed,
            &mut source,
            &Monitor::default(),
        );
        let imaged = imaged.unwrap();
        let change = TagChange::Set(vec!["one".to_owned(), "two".to_owned()]);
        let which = Which::Named(vec![first.id.to_string()]);
        from.tag(&which, &change).unwrap();
        let end = HoldEnd::After("2d".parse().unwrap());
        from.hold(&[second.id.to_string()], Some(end)).unwrap();

        // Another clock, which must not become that of the copies.
        pair.destination.clock.advance(Duration::from_hours(5));
        let report = copy_all(&from, &to);
        let copies = made(&report);
        let originals = [first.id, second.id, stream.id, empty.id, imaged.id];
        assert_eq!(report.copied.len(), originals.len());
        for ((copied, copy), original) in report.copied.iter().zip(&copies).zip(originals) {
            assert_eq!(copied.is_within_domain, is_one_domain);
            let (original, copy) = (snapshot(&from, original), snapshot(&to, *copy));
            assert_eq!(facts(&copy.backup), facts(&original.backup));
            let origin = Origin {
                store: from.id(),
                backup: original.id,
            };
            assert_eq!(copy.backup.origin, Some(origin));
            let roots = |one: &Snapshot| -> Vec<_> {
                one.backup
                    .streams
                    .iter()
                    .map(|stream| (stream.level, stream.fingerprint))
                    .collect()
            };
            assert_eq!(roots(&original) == roots(&copy), is_one_domain, "equal nodes");
        }
        let root = tree.root();
        let when = format!("one domain: {is_one_domain}");
        assert_restores(&to, &snapshot(&to, copies[0]), &root, &before, &when);
        assert_restores(&to, &snapshot(&to, copies[1]), &root, &tree.picture(), &when);
        assert_restores_bytes(&to, &snapshot(&to, copies[2]), "/stream", &bytes, &when);
        assert_restores_bytes(&to, &snapshot(&to, copies[3]), "/empty", &[], &when);
        assert_restores_bytes(&to, &snapshot(&to, copies[4]), "/image", &image, &when);
        assert_sound(&to, &when);
        assert_sound(&from, &when);
    }
}

/// All entries of a backup.
fn entries(store: &Store, snapshot: &Snapshot) -> Vec<ListingEntry> {
    let mut all = Vec::new();
    let listed = store.list_entries(snapshot, &[], &Monitor::default(), |entry| {
        all.push(entry.clone());
        Ok::<_, Error>(())
    });
    listed.unwrap();
    all
}

/// Every recorded fact of every entry: times of change, inodes, holes, flags, attributes.
#[test]
fn entries_are_those_of_the_originals() {
    for (pair, is_one_domain) in Pair::both(1220) {
        let (from, to) = (pair.source.open(), pair.destination.open());
        let tree = Tree::plant(1221, 60 << 10);
        let file = tree.root().join("b/third");
        rustix::fs::setxattr(&file, "user.kind", b"a letter", rustix::fs::XattrFlags::empty()).unwrap();
        let made = back_up(&from, &tree, &How::plain()).unwrap();
        let report = copy_all(&from, &to);
        let original = entries(&from, &snapshot(&from, made.id));
        let copy = entries(&to, &snapshot(&to, report.copied[0].made.id));
        assert_eq!(copy, original, "one domain: {is_one_domain}");
        assert!(original.iter().any(|entry| !entry.xattrs.is_empty()));
        let is_link = |entry: &ListingEntry| matches!(entry.kind, EntryKind::HardLink { .. });
        assert!(original.iter().any(is_link));
    }
}

#[test]
fn a_second_run_copies_nothing_and_reads_manifests_alone() {
    for (pair, _) in Pair::both(1240) {
        let (from, to) = (pair.source.open(), pair.destination.open());
        for n in 0..3 {
            back_up_bytes(&from, "/stream", &noise(1241 + n, 60 << 10), &How::plain()).unwrap();
        }
        assert_eq!(copy_all(&from, &to).copied.len(), 3);
        let before = pair.destination.storage.counters().mutating();
        drop(pair.source.watched.take_requests());
        let report = copy_all(&from, &to);
        assert_eq!((report.copied.len(), report.skipped.len()), (0, 3));
        assert_eq!(pair.destination.storage.counters().mutating(), before);
        let read = pair.source.watched.take_requests();
        let others = read
            .iter()
            .filter(|one| !one.is_in("backups") && one.name != "backups");
        assert_eq!(others.count(), 0, "{read:?}");
        assert!(read.len() <= 4, "three manifests and a listing: {read:?}");
        // A new one is copied, and the others are not.
        let one = back_up_bytes(&from, "/stream", &noise(1249, 60 << 10), &How::plain()).unwrap();
        let report = copy_all(&from, &to);
        let copied: Vec<_> = report.copied.iter().map(|copied| copied.from.id).collect();
        assert_eq!(copied, [one.id]);
    }
}

/// Reads of bytes of data containers, without catalogs.
fn data_reads(process: &Process) -> Vec<String> {
    let requests = process.watched.take_requests();
    let of_data = requests.iter().filter(|one| one.is_in("data"));
    of_data
        .filter(|one| one.asked != Asked::Tail && one.asked != Asked::Other)
        .map(|one| format!("{one:?}"))
        .collect()
}

#[test]
fn a_copy_within_a_domain_reads_no_chunk_that_the_destination_has() {
    let how = How::plain();
    // The destination has a backup of the same files of its own, of another host.
    let pair = Pair::within_a_domain(1260);
    let (from, to) = (pair.source.open(), pair.destination.open());
    let tree = Tree::plant_apart(1261, 400 << 10);
    back_up(&from, &tree, &how).unwrap();
    let other = How {
        host: "other",
        ..How::plain()
    };
    back_up(&to, &tree, &other).unwrap();
    drop((from, to));
    let (from, to) = (pair.source.open(), pair.destination.open());
    drop(pair.source.watched.take_requests());
    let store = pair.source.open();
    let report = copy_all(&store, &to);
    assert_eq!(data_reads(&pair.source), [""; 0]);
    let made = &report.copied[0].made;
    assert_eq!((made.totals.bytes_read, made.totals.chunks_new), (0, 0));
    assert_restores(
        &to,
        &snapshot(&to, made.id),
        &tree.root(),
        &tree.picture(),
        "copied",
    );

    // Of a later backup only what changed is read, and nodes of what did not change are not.
    tree.change(1);
    back_up(&from, &tree, &how).unwrap();
    drop(pair.source.watched.take_requests());
    let report = copy_all(&pair.source.open(), &to);
    let [copied] = &report.copied[..] else {
        panic!("{report:?}")
    };
    let totals = copied.made.totals;
    assert!((3000..60 << 10).contains(&totals.bytes_read), "{totals:?}");
    assert_eq!(
        totals.bytes_read, totals.bytes_new,
        "each wanted chunk is read once"
    );
    let requests = pair.source.watched.take_requests();
    let catalogs = requests
        .iter()
        .filter(|one| one.is_in("data") && one.asked == Asked::Tail);
    // Two threads may read one catalog at the same time.
    let catalogs: BTreeSet<_> = catalogs.map(|one| &one.name).collect();
    let all = pair.source.names("data").len();
    assert!(
        catalogs.len() < all * 2 / 3,
        "{} of {all} data containers",
        catalogs.len()
    );
    assert_restores(
        &to,
        &snapshot(&to, copied.made.id),
        &tree.root(),
        &tree.picture(),
        "changed",
    );
    assert_sound(&to, "both");
}

#[test]
fn a_copy_across_domains_does_not_read_what_did_not_change() {
    let pair = Pair::across_domains(1280);
    let (from, to) = (pair.source.open(), pair.destination.open());
    let tree = Tree::plant(1281, 2 << 20);
    let how = How::plain();
    let first = back_up(&from, &tree, &how).unwrap();
    let image = noise(1282, 1 << 20);
    let fixed = StreamOptions::fixed(4096);
    let options = how.options();
    let back_up_image = |image: &[u8]| {
        let mut source = onefold::ReaderSource(image);
        let made = from.backup_stream(
            &options,
            "/image".as_ref(),
            &fixed,
            &mut source,
            &Monitor::default(),
        );
        made.unwrap().id
    };
    let first_image = back_up_image(&image);
    let report = copy_all(&from, &to);
    assert!(report.copied[0].bytes_read > 1 << 20);
    tree.change(1);
    back_up(&from, &tree, &how).unwrap();
    let mut changed = image;
    changed[500_000..500_100].fill(7);
    back_up_image(&changed);
    let report = copy_all(&from, &to);
    let [of_tree, of_image] = &report.copied[..] else {
        panic!("{report:?}")
    };
    assert_eq!((of_tree.upon, of_image.upon), (Some(first.id), Some(first_image)));
    // Some chunks around each change; small files beside it are read, too.
    assert!(of_tree.bytes_read < 400 << 10, "{}", of_tree.bytes_read);
    assert!(of_image.bytes_read <= 3 * 16384, "{}", of_image.bytes_read);
    assert!(
        of_tree.made.totals.bytes_new < 300 << 10,
        "{:?}",
        of_tree.made.totals
    );
    let copies = made(&report);
    assert_restores(
        &to,
        &snapshot(&to, copies[0]),
        &tree.root(),
        &tree.picture(),
        "tree",
    );
    assert_restores_bytes(&to, &snapshot(&to, copies[1]), "/image", &changed, "image");
    assert_sound(&to, "across");
    // A backup of the same files into the destination stores hardly anything: the copies were cut
    // as a backup cuts.
    let own = back_up(&to, &tree, &how.clone().forced()).unwrap();
    assert!(own.totals.bytes_new < 40 << 10, "{:?}", own.totals);
}

/// Damage of the earlier copy is not referred to, and heals.
#[test]
fn a_copy_across_domains_reads_what_the_earlier_copy_lost() {
    let pair = Pair::across_domains(1300);
    let (from, to) = (pair.source.open(), pair.destination.open());
    let bytes = noise(1301, 400 << 10);
    back_up_bytes(&from, "/stream", &bytes, &How::plain()).unwrap();
    copy_all(&from, &to);
    back_up_bytes(&from, "/stream", &bytes, &How::plain()).unwrap();
    let victim = pair.destination.names("data")[2].clone();
    let victim = ObjectName::new(victim).unwrap();
    assert!(pair.destination.storage.lose(&victim));
    let to = pair.destination.open();
    to.check(onefold::ReadData::None, &Monitor::default()).unwrap();
    let report = copy_all(&from, &to);
    let read = report.copied[0].bytes_read;
    assert!((20 << 10..200 << 10).contains(&read), "{read}");
    let copy = snapshot(&to, report.copied[0].made.id);
    assert_restores_bytes(&to, &copy, "/stream", &bytes, "copied");
}

/// The backups of damaged data are named with their files, and the others are copied.
#[test]
fn damage_of_the_source_costs_only_the_backups_that_have_it() {
    for (pair, is_one_domain) in Pair::both(1320) {
        let when = format!("one domain: {is_one_domain}");
        let from = pair.source.open();
        let tree = Tree::plant(1321, 200 << 10);
        let good = back_up_bytes(&from, "/good", &noise(1522, 60 << 10), &How::plain()).unwrap();
        let bad = back_up(&from, &tree, &How::plain()).unwrap();
        let also_good = back_up_bytes(&from, "/good", &noise(1523, 60 << 10), &How::plain()).unwrap();
        let of_bad = format!("data/{:013}/", bad.id.get());
        let mut names = pair.source.names("data");
        names.retain(|name| name.starts_with(&of_bad));
        let victim = ObjectName::new(names[1].clone()).unwrap();
        pair.source.take_away(&victim);
        let from = pair.source.beside(1325).open();
        let to = pair.destination.open();
        let mut told = Vec::new();
        let report = copy(&from, &to, &request(), &Monitor::default(), &mut |step| {
            if let CopyStep::Failed(failed) = step {
                told.push(failed.from.id);
            }
        });
        let report = report.unwrap();
        let copied: Vec<_> = report.copied.iter().map(|one| one.from.id).collect();
        assert_eq!(copied, [good.id, also_good.id], "{when}");
        assert_eq!(told, [bad.id]);
        let [failed] = &report.failed[..] else {
            panic!("{report:?}")
        };
        let root = tree.root();
        let below = |file: &Vec<u8>| file.starts_with(root.to_str().unwrap().as_bytes());
        assert!(
            !failed.files.is_empty() && failed.files.iter().all(below),
            "{when}: {failed:?}"
        );
        assert_sound(&to, &when);
        // When the disk gives it again, the rest of it is copied.
        pair.source.give_back(&victim);
        let from = pair.source.beside(1326).open();
        let report = copy_all(&from, &to);
        assert_eq!((report.copied.len(), report.skipped.len()), (1, 2), "{when}");
        let copy = snapshot(&to, report.copied[0].made.id);
        assert_restores(&to, &copy, &root, &tree.picture(), &when);
    }
}

/// A source that refuses or is gone has no damage by that: the copy ends, and the next one resumes.
#[test]
fn an_outage_of_the_source_is_no_damage() {
    for (pair, is_one_domain) in Pair::both(1380) {
        let from = pair.source.open();
        for (name, seed) in [("/one", 1381), ("/two", 1382)] {
            back_up_bytes(&from, name, &noise(seed, 300 << 10), &How::plain()).unwrap();
        }
        let mut outages = 0;
        for n in (1..120).step_by(3) {
            let (from, to) = (pair.source.open(), pair.destination.open());
            let fault = Fault::fail_from(n, FailWith::Denied).counting(Counted::Only(OpKind::Get));
            pair.source.storage.inject_here(fault);
            let ended = try_copy(&from, &to, &request());
            pair.source.storage.clear_faults();
            match ended {
                Ok(report) => assert!(report.failed.is_empty(), "{n}: {:?}", report.failed),
                Err(error @ Error::SourceOutage { .. }) => {
                    outages += 1;
                    let text = error.to_string();
                    assert!(
                        text.contains("permission denied") && text.contains("run the command again"),
                        "{text}"
                    );
                }
                // The storage refused before anything was copied.
                Err(error) => assert!(error.to_string().contains("permission denied"), "{n}: {error}"),
            }
        }
        assert!(outages > 2, "one domain: {is_one_domain}, {outages} outages");
        let to = pair.destination.open();
        let report = copy_all(&from, &to);
        assert_eq!(report.copied.len() + report.skipped.len(), 2);
        assert_sound(&to, &format!("one domain: {is_one_domain}"));
    }
}

/// An archival backup refers forward to later ones. Its copy does not need those.
#[test]
fn an_archival_backup_is_copied_alone() {
    for (n, is_one_domain) in [(0, true), (1, false)] {
        let base = archival::Base::new(1340 + n, 2);
        let from = base.machine.open();
        let first = base.ids[0];
        assert!(snapshot(&from, first).backup.next.is_some());
        let destination = Process::new(1350 + n);
        let domain_of = is_one_domain.then_some(&from);
        Store::init(&destination.env, &Credential::None, &tiny(), domain_of).unwrap();
        let to = destination.open();
        let report = try_copy(&from, &to, &request().ids(vec![first.to_string()])).unwrap();
        assert_eq!(report.copied[0].is_within_domain, is_one_domain);
        let copy = snapshot(&to, report.copied[0].made.id);
        assert_eq!(copy.backup.next, None);
        let when = format!("one domain: {is_one_domain}");
        assert_restores_bytes(&to, &copy, archival::NAME, &base.contents[&first], &when);
        // The rest, with the archival ones as earlier backups.
        let report = copy_all(&from, &to);
        assert_eq!((report.copied.len(), report.skipped.len()), (3, 1));
        for copied in &report.copied {
            let copy = snapshot(&to, copied.made.id);
            assert_restores_bytes(&to, &copy, archival::NAME, &base.contents[&copied.from.id], &when);
        }
        assert_sound(&to, &when);
    }
}

/// By way of a second store, and back.
#[test]
fn a_copy_of_a_copy_has_the_origin_of_the_copy() {
    let pair = Pair::within_a_domain(1360);
    let (first, second) = (pair.source.open(), pair.destination.open());
    let third = Process::new(1363);
    Store::init(&third.env, &Credential::None, &tiny(), None).unwrap();
    let third = third.open();
    let bytes = noise(1364, 40 << 10);
    let one = back_up_bytes(&first, "/one", &bytes, &How::plain()).unwrap();
    let two = back_up_bytes(&first, "/two", &bytes, &How::plain()).unwrap();
    copy_all(&first, &second);
    copy_all(&second, &third);
    let origins: Vec<_> = third
        .snapshots()
        .unwrap()
        .snapshots
        .iter()
        .map(|one| one.backup.origin)
        .collect();
    let of = |id| {
        Some(Origin {
            store: first.id(),
            backup: id,
        })
    };
    assert_eq!(origins, [of(one.id), of(two.id)]);
    assert_eq!(copy_all(&first, &third).skipped.len(), 2, "by another way");
    assert_eq!(copy_all(&third, &first).skipped.len(), 2, "back");
    let ids = vec![one.id.to_string()];
    forget(&first, one.id);
    let gone = try_copy(&first, &third, &request().ids(ids));
    assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
    let report = copy_all(&third, &first);
    assert_eq!((report.copied.len(), report.skipped.len()), (1, 1));
    let back = snapshot(&first, report.copied[0].made.id);
    assert_eq!(back.backup.origin, of(one.id));
    assert_restores_bytes(&first, &back, "/one", &bytes, "back");
}

#[test]
fn the_filter_and_ids_choose() {
    let pair = Pair::within_a_domain(1380);
    let (from, to) = (pair.source.open(), pair.destination.open());
    let other = How {
        host: "other",
        ..How::plain()
    };
    let ids: Vec<_> = [How::plain(), other, How::plain()]
        .iter()
        .map(|how| {
            back_up_bytes(&from, "/stream", &noise(1381, 20 << 10), how)
                .unwrap()
                .id
        })
        .collect();
    let of_other = Filter::default().hosts(vec![b"other".to_vec()]);
    let dry = try_copy(&from, &to, &request().is_dry_run(true)).unwrap();
    assert_eq!((dry.due.len(), dry.copied.len()), (3, 0));
    assert!(to.snapshots().unwrap().snapshots.is_empty());
    let report = try_copy(&from, &to, &request().filter(of_other)).unwrap();
    assert_eq!(report.copied[0].from.id, ids[1]);
    let latest = request().ids(vec!["latest".to_owned(), ids[2].to_string()]);
    let report = try_copy(&from, &to, &latest).unwrap();
    assert_eq!((report.copied.len(), report.copied[0].from.id), (1, ids[2]));
    assert_eq!(copy_all(&from, &to).copied[0].from.id, ids[0], "what is left");
}

/// The layout of a series is that of the source, unless the destination has set another one.
#[test]
fn a_new_series_is_laid_out_as_in_the_source() {
    for (pair, is_one_domain) in Pair::both(1400) {
        let (from, to) = (pair.source.open(), pair.destination.open());
        let hybrid = SettingsChange::NONE
            .layout(Some(Layout::Hybrid))
            .segment_bytes(Some(64 << 10))
            .live_window(Some(3));
        let bytes = noise(1401, 300 << 10);
        for name in ["/one", "/two"] {
            let series = SeriesName {
                host: b"host".to_vec(),
                paths: vec![name.as_bytes().to_vec()],
            };
            from.set_series_settings(&series, &hybrid).unwrap();
            back_up_bytes(&from, name, &bytes, &How::plain()).unwrap();
            back_up_bytes(&from, name, &bytes[..200 << 10], &How::plain()).unwrap();
        }
        let [one, two] = ["/one", "/two"].map(|name| SeriesName {
            host: b"host".to_vec(),
            paths: vec![name.as_bytes().to_vec()],
        });
        let inline = SettingsChange::NONE.layout(Some(Layout::Inline));
        to.set_series_settings(&two, &inline).unwrap();
        let report = copy_all(&from, &to);
        let when = format!("one domain: {is_one_domain}");
        for (copied, len) in report.copied.iter().zip([300, 200, 300, 200]) {
            let copy = snapshot(&to, copied.made.id);
            let name = String::from_utf8(copy.backup.series.paths[0].clone()).unwrap();
            assert_restores_bytes(&to, &copy, &name, &bytes[..len << 10], &when);
        }
        let (settings, _) = to.series_settings(&one).unwrap();
        assert_eq!(
            (settings.layout, settings.live_window),
            (Layout::Hybrid, 3),
            "{when}"
        );
        assert_eq!(settings.segment_bytes, 64 << 10);
        assert_eq!(to.series_settings(&two).unwrap().0.layout, Layout::Inline);
        assert_sound(&to, &when);
    }
}

/// Another program writes to the storage, or the earlier copy rots: the next one needs it not.
#[test]
fn an_earlier_copy_whose_newest_revision_is_damaged_is_not_built_upon() {
    for (pair, _) in Pair::both(1290) {
        let (from, to) = (pair.source.open(), pair.destination.open());
        back_up_bytes(&from, "/file", &noise(1291, 60 << 10), &How::plain()).unwrap();
        let copied = made(&copy_all(&from, &to))[0];
        let which = Which::Named(vec![copied.to_string()]);
        to.tag(&which, &TagChange::Set(vec!["one".to_owned()])).unwrap();
        let copy = snapshot(&to, copied);
        let newest = names::manifest(copy.series, copied, Revision::new(1).unwrap());
        let damaged = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 13);
        assert!(pair.destination.storage.damage(&newest, damaged));

        let bytes = noise(1292, 60 << 10);
        let second = back_up_bytes(&from, "/file", &bytes, &How::plain()).unwrap();
        let to = pair.destination.open();
        let request = request().ids(vec![second.id.to_string()]);
        let report = try_copy(&from, &to, &request).unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
        let made = snapshot(&to, made(&report)[0]);
        assert_restores_bytes(&to, &made, "/file", &bytes, "the second");
    }
}

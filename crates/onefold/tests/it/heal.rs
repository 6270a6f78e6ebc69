//! Losses in a store affect the files with lost bytes, and the next backup has them again.

mod costs;
mod donors;
mod generations;
mod needed;
mod partly;
mod record;
mod refused;
mod support;

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{
    Asked, How, Process, Tree, assert_restores, assert_restores_bytes, back_up, back_up_bytes, noise,
    snapshot,
};
use env::Storage;
use onefold::{AssembleOptions, Fault, Monitor, ReadData, RestoreRequest, Snapshot, Store, VerifyKnown};

/// The paths whose bytes could not be read. All others are restored.
fn lost(store: &Store, snapshot: &Snapshot, target: &Path) -> BTreeSet<Vec<u8>> {
    let request = RestoreRequest::new(AssembleOptions::for_cores(1));
    let mut lost = BTreeSet::new();
    store
        .restore(
            snapshot,
            target,
            &request,
            &Monitor::default(),
            &mut |fault| match fault {
                Fault::Lost { path, .. } => drop(lost.insert(path.clone())),
                other => panic!("{other}"),
            },
        )
        .unwrap();
    lost
}

/// Data containers of the content, in order.
fn data(process: &Process) -> Vec<String> {
    process.names("data")
}

#[test]
fn a_lost_container_costs_its_files_alone_and_is_stored_again() {
    let process = Process::new(11);
    let store = process.init();
    let tree = Tree::plant(11, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    let containers = data(&process);
    assert!(containers.len() > 8, "{containers:?}");
    let name = types::ObjectName::new(containers[containers.len() / 2].clone()).unwrap();
    process.storage.delete(&name).unwrap();

    let store = process.beside(12).open();
    let target = tempfile::tempdir().unwrap();
    let lost = lost(&store, &snapshot(&store, first.id), target.path());
    assert!(!lost.is_empty(), "something lay in {name}");
    let restored = target.path().join(tree.root().strip_prefix("/").unwrap());
    let (found, expected) = (crate::common::picture_of(&restored), tree.picture());
    assert!(
        format!("{found:?}").len() > format!("{expected:?}").len() / 2,
        "{} files lost",
        lost.len()
    );

    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!(second.parent, Some(first.id));
    assert!(second.totals.files_unchanged > 0, "{:?}", second.totals);
    assert!(second.totals.files_changed > 0, "{:?}", second.totals);
    let store = process.beside(13).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "again",
    );
}

#[test]
fn unchanged_files_on_slots_listed_as_damaged_are_read_again() {
    let process = Process::new(21);
    let store = process.init();
    let tree = Tree::plant(21, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    let containers = data(&process);
    let name = types::ObjectName::new(containers[containers.len() / 2].clone()).unwrap();
    let mut bytes = process.storage.get(&name).unwrap();
    bytes[200] ^= 1;
    process.storage.delete(&name).unwrap();
    process.storage.put(&name, &[&bytes]).unwrap();

    let store = process.beside(22).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert!(report.damaged_backups.contains(&first.id));
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert!(second.totals.files_unchanged > 0, "{:?}", second.totals);
    assert!(second.totals.files_changed > 0, "{:?}", second.totals);
    let store = process.beside(23).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "healed",
    );
}

/// Makes a sector unreadable in the middle of each object of the folder for whose number the
/// function is true.
fn make_unreadable(process: &Process, folder: &str, takes: impl Fn(usize) -> bool) -> Vec<types::ObjectName> {
    let named = process.names(folder).into_iter().enumerate();
    let taken = named.filter(|(number, _)| takes(*number));
    let names: Vec<_> = taken
        .map(|(_, name)| types::ObjectName::new(name).unwrap())
        .collect();
    for name in &names {
        let middle = process.storage.head(name).unwrap().len / 2;
        let sector = types::ByteRange {
            offset: middle,
            len: 1,
        };
        process.storage.make_unreadable(name, sector);
    }
    names
}

#[test]
fn unreadable_sectors_cost_only_data_without_a_copy_and_a_check_continues_behind_them() {
    let process = Process::new(31);
    let store = process.init();
    let tree = Tree::plant(31, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    drop(store);
    let recipes = make_unreadable(&process, "recipe", |_| true);
    assert!(!recipes.is_empty());

    let store = process.beside(32).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let names = |name: &types::ObjectName| {
        let findings = report.findings.iter();
        let mut of_name = findings.filter(|finding| finding.what.to_string().contains(name.as_str()));
        of_name
            .next()
            .is_some_and(|first| first.is_covered && of_name.all(|other| other.is_covered))
    };
    assert!(recipes.iter().all(names), "{:#?}", report.findings);
    assert!(report.damaged_backups.is_empty(), "the mirror copies are whole");
    let whole = snapshot(&store, first.id);
    assert_restores(
        &store,
        &whole,
        &tree.root(),
        &tree.picture(),
        "from the mirror copies",
    );

    let bad = make_unreadable(&process, "data", |number| number % 8 == 3);
    let store = process.beside(33).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    for name in &bad {
        let is_found = |finding: &onefold::Finding| {
            !finding.is_covered && finding.what.to_string().contains(name.as_str())
        };
        assert!(
            report.findings.iter().any(is_found),
            "{name}: {:#?}",
            report.findings
        );
    }
    let target = tempfile::tempdir().unwrap();
    let lost = lost(&store, &snapshot(&store, first.id), target.path());
    let foretold: BTreeSet<Vec<u8>> = report.damaged_files[&first.id].iter().cloned().collect();
    assert!(
        !lost.is_empty() && lost == foretold,
        "{} and {}",
        lost.len(),
        foretold.len()
    );

    let second = back_up(&store, &tree, &How::plain()).unwrap();
    let store = process.beside(34).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "stored again",
    );
}

/// A manifest on a bad sector affects its own backup. The others are listed, restored and checked,
/// and serve as parents.
#[test]
fn a_manifest_on_a_bad_sector_costs_its_own_backup() {
    let process = Process::new(61);
    let store = process.init();
    let tree = Tree::plant(61, 256 << 10);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    tree.change(1);
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    drop(store);
    let is_of = |name: &types::ObjectName, id| {
        format::names::parse_manifest(name).is_some_and(|(_, session, _)| session == id)
    };
    let folder = format::names::BACKUPS_FOLDER;
    let bad = make_unreadable(&process, folder, |number| number == 1);
    assert!(bad.len() == 1 && is_of(&bad[0], second.id), "{bad:?}");
    // As after a crash between the ending and the tidying. A torn manifest would be a leftover.
    let beat = format::names::heartbeat(second.id, 0);
    process.storage.put(&beat, &[b"anything"]).unwrap();

    let store = process.beside(62).open();
    let list = store.snapshots().unwrap();
    let listed: Vec<_> = list.snapshots.iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(listed, [first.id]);
    assert_eq!(list.damaged.len(), 1);
    assert_eq!(list.damaged[0].name, bad[0]);
    assert!(store.find("latest", &onefold::Filter::default()).is_err());
    assert!(
        store
            .find(&first.id.to_string(), &onefold::Filter::default())
            .is_ok()
    );
    let report = store.check(ReadData::None, &Monitor::default()).unwrap();
    assert!(report.unread_backups.contains(&second.id), "{report:?}");
    assert!(report.damaged_backups.is_empty(), "it may come back");

    let third = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!(third.parent, Some(first.id));
    assert!(
        third.warnings.len() == 1 && third.warnings[0].to_string().contains(bad[0].as_str()),
        "{:?}",
        third.warnings
    );
    let store = process.beside(63).open();
    store.rebuild_index(&Monitor::default()).unwrap();
    let whole = snapshot(&store, third.id);
    assert_restores(
        &store,
        &whole,
        &tree.root(),
        &tree.picture(),
        "of the older parent",
    );
}

/// Objects are lost while an open store has its catalogs and nodes in the cache.
#[test]
fn an_open_store_refers_to_no_removed_data() {
    for (kind, seed) in [("data", 31), ("recipe", 41)] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 256 << 10);
        let bytes = noise(seed, 256 << 10);
        back_up(&store, &tree, &How::plain()).unwrap();
        back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        for name in process.names(kind) {
            process
                .storage
                .delete(&types::ObjectName::new(name).unwrap())
                .unwrap();
        }

        let again = back_up(&store, &tree, &How::plain().forced()).unwrap();
        let stream = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        let store = process.beside(seed + 1).open();
        let healed = snapshot(&store, again.id);
        assert_restores(&store, &healed, &tree.root(), &tree.picture(), kind);
        assert_restores_bytes(&store, &snapshot(&store, stream.id), "/stream", &bytes, kind);
    }
}

/// A rotten catalog is noticed only when a segment must be taken apart. The files there are read
/// again.
#[test]
fn a_changed_tree_is_backed_up_with_any_rotten_catalog() {
    let mut read_again = 0;
    // Containers of the content: the listing's come last.
    for bad in 0..12 {
        let process = Process::new(51);
        let store = process.init();
        let tree = Tree::plant(51, 512 << 10);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let name = types::ObjectName::new(data(&process).swap_remove(bad)).unwrap();
        process.storage.damage(&name, |bytes| bytes.truncate(99));
        tree.change(1);

        let store = process.beside(52).open();
        let second = back_up(&store, &tree, &How::plain()).unwrap();
        assert_eq!(second.parent, Some(first.id));
        assert_eq!(second.totals.files, first.totals.files, "none is counted twice");
        if second.totals.files_changed == 1 {
            // The backup did not notice. Unnoticed rot is for `check` to find.
            continue;
        }
        read_again += 1;
        let when = format!("{name} has rotted");
        let store = process.beside(53).open();
        let healed = snapshot(&store, second.id);
        assert_restores(&store, &healed, &tree.root(), &tree.picture(), &when);
    }
    assert!(read_again > 3, "{read_again}");
}

/// Flips a byte in a region of that object.
fn rot(process: &Process, name: &str) {
    let name = types::ObjectName::new(name.to_owned()).unwrap();
    assert!(process.storage.damage(&name, |bytes| bytes[200] ^= 1));
}

/// Loses the object, or damages a byte of it.
fn spoil(process: &Process, name: &str, is_lost: bool) {
    if is_lost {
        let name = types::ObjectName::new(name.to_owned()).unwrap();
        process.storage.lose(&name);
    } else {
        rot(process, name);
    }
}

/// The lists of damage.
fn damage_lists(process: &Process) -> Vec<String> {
    process.names("damaged")
}

/// Reads all reused containers.
fn verifying(mut how: How) -> How {
    how.ingest.verify_known = VerifyKnown {
        share: 1.0,
        bytes_max: u64::MAX,
    };
    how
}

fn assert_all_whole(process: &Process, seed: u64, tree: &Tree, ids: &[onefold::SessionId], when: &str) {
    let store = process.beside(seed).open();
    for id in ids {
        let whole = snapshot(&store, *id);
        assert_restores(&store, &whole, &tree.root(), &tree.picture(), when);
    }
    assert_eq!(damage_lists(process), Vec::<String>::new(), "{when}");
    crate::common::assert_sound(&store, when);
}

/// A check has listed damage, and a backup stores the chunks again. Healing puts them back where
/// the older backup refers to them.
#[test]
fn a_backup_that_brings_a_damaged_chunk_heals_the_ones_before() {
    for (seed, is_lost) in [(71, false), (72, true)] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 1 << 20);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let containers = data(&process);
        let name = &containers[containers.len() / 2];
        spoil(&process, name, is_lost);
        let store = process.beside(seed + 100).open();
        let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        assert!(report.damaged_backups.contains(&first.id));
        // If a container is lost, the segments above it cannot be verified either.
        let listed = damage_lists(&process);
        assert!(listed[0].starts_with("damaged/data-"), "{listed:?}");

        let second = back_up(&store, &tree, &How::plain()).unwrap();
        assert!(second.totals.files_unchanged > 0, "{:?}", second.totals);
        let healed: u64 = second.healed.iter().map(|healed| healed.slots).sum();
        assert!(healed > 0 && second.healed.len() == 1, "{:?}", second.healed);
        let when = if is_lost { "lost" } else { "rotten" };
        assert_all_whole(&process, seed + 200, &tree, &[first.id, second.id], when);
    }
}

/// Without an earlier check, the backup reads the containers that it reuses, and stores bad chunks
/// again at once.
#[test]
fn a_backup_finds_rotten_chunks_that_it_would_reuse() {
    for (seed, how) in [
        (73, How::plain()),
        (74, How::capped()),
        (75, How::plain().forced()),
    ] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 1 << 20);
        let bytes = noise(seed, 300 << 10);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let stream = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        let containers = data(&process);
        let of = |id: onefold::SessionId| format!("data/{:013}/", id.get());
        let of_stream: Vec<_> = containers
            .iter()
            .filter(|name| name.starts_with(&of(stream.id)))
            .collect();
        let of_tree: Vec<_> = containers
            .iter()
            .filter(|name| name.starts_with(&of(first.id)))
            .collect();
        rot(&process, of_stream[of_stream.len() / 2]);
        rot(&process, of_tree[of_tree.len() / 2]);

        // Without the sample, the backups refer to both containers, and nobody notices. This is why
        // the sample exists.
        let blind = Process::on(
            process.storage.crash(env::fault::CrashPolicy::KeepAll),
            process.clock.clone(),
            seed + 50,
        );
        let taken = back_up_bytes(&blind.open(), "/stream", &bytes, &How::plain()).unwrap();
        let taken = snapshot(&blind.open(), taken.id);
        assert!(crate::common::try_restores_bytes(&blind.open(), &taken, "/stream", &bytes).is_err());

        let store = process.beside(seed + 100).open();
        let again = back_up(&store, &tree, &verifying(how.clone())).unwrap();
        assert!(
            again.verified.containers > 0 && again.verified.bad.len() == 1,
            "{:?}",
            again.verified
        );
        let same = back_up_bytes(&store, "/stream", &bytes, &verifying(how)).unwrap();
        assert_eq!(same.verified.bad.len(), 1, "{:?}", same.verified);
        let reader = process.beside(seed + 150).open();
        for id in [stream.id, same.id] {
            assert_restores_bytes(
                &reader,
                &snapshot(&reader, id),
                "/stream",
                &bytes,
                "of the stream",
            );
        }
        assert_all_whole(
            &process,
            seed + 200,
            &tree,
            &[first.id, again.id],
            "found by reading",
        );
    }
}

/// The sample reads no more than its budget.
#[test]
fn the_sample_of_reused_data_is_bounded() {
    let process = Process::new(76);
    let store = process.init();
    let tree = Tree::plant(76, 1 << 20);
    back_up(&store, &tree, &How::plain()).unwrap();
    let mut how = How::plain();
    how.ingest.verify_known = VerifyKnown {
        share: 1.0,
        bytes_max: 100 << 10,
    };
    let bounded = back_up(&store, &tree, &how).unwrap().verified;
    assert!((100 << 10..200 << 10).contains(&bounded.bytes), "{bounded:?}");
    let all = back_up(&store, &tree, &verifying(How::plain())).unwrap().verified;
    let without_listing = data(&process).len() as u64;
    assert!(
        all.containers > without_listing / 2 && all.bytes > 900 << 10,
        "{all:?}"
    );
    let none = back_up(&store, &tree, &How::plain()).unwrap().verified;
    assert_eq!((none.containers, none.bytes), (0, 0));
}

/// A folder may have a hundred thousand containers.
#[test]
fn the_sample_of_reused_data_lists_no_folder_for_each_container() {
    let process = Process::new(78);
    let tree = Tree::plant(78, 1 << 20);
    back_up(&process.init(), &tree, &How::plain()).unwrap();
    let other = process.beside(79);
    let store = other.open();
    drop(other.watched.take_requests());
    let verified = back_up(&store, &tree, &verifying(How::plain())).unwrap().verified;
    assert!(verified.containers > 20, "{verified:?}");
    let requests = other.watched.take_requests();
    let listed = requests.iter().filter(|request| request.asked == Asked::List);
    let of_containers = listed.filter(|request| {
        let is_in = |folder: &&str| request.is_in(folder);
        ["data", "recipe", "mirror"].iter().any(is_in)
    });
    let folders: Vec<&str> = of_containers.map(|request| request.name.as_str()).collect();
    // The backup lists the folders of its parent's containers, to see that these exist.
    let distinct: BTreeSet<&str> = folders.iter().copied().collect();
    assert_eq!(folders.len(), distinct.len(), "{folders:?}");
}

/// A restore finds the damage. The next backup does not refer to it, and heals the chunks that the
/// restore could not read.
#[test]
fn chunks_that_a_restore_could_not_read_are_healed_by_the_next_backup() {
    for (seed, is_lost) in [(77, false), (78, true)] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 1 << 20);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let containers = data(&process);
        let name = &containers[containers.len() / 3];
        spoil(&process, name, is_lost);
        let store = process.beside(seed + 100).open();
        let target = tempfile::tempdir().unwrap();
        assert!(!lost(&store, &snapshot(&store, first.id), target.path()).is_empty());
        assert_eq!(damage_lists(&process).len(), 1);
        let second = back_up(&store, &tree, &How::plain()).unwrap();
        assert_all_whole(
            &process,
            seed + 200,
            &tree,
            &[first.id, second.id],
            "met by a restore",
        );
    }
}

/// Some of the damaged files have changed in the source. The other chunks are healed, and a check
/// still reports the rest.
#[test]
fn unhealed_damage_stays_listed_and_costs_its_files_alone() {
    let process = Process::new(79);
    let store = process.init();
    let tree = Tree::plant(79, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    for name in data(&process).iter().take(20) {
        rot(&process, name);
    }
    tree.change(1);
    let store = process.beside(80).open();
    store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let target = tempfile::tempdir().unwrap();
    let lost_before = lost(&store, &snapshot(&store, first.id), target.path());
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert!(!second.healed.is_empty());
    let store = process.beside(81).open();
    let target = tempfile::tempdir().unwrap();
    let lost_after = lost(&store, &snapshot(&store, first.id), target.path());
    assert!(
        lost_after.len() < lost_before.len(),
        "{lost_after:?} of {lost_before:?}"
    );
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "the second",
    );
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert_eq!(report.is_sound(), lost_after.is_empty(), "{:#?}", report.findings);
    assert_eq!(damage_lists(&process).is_empty(), lost_after.is_empty());
    // A prune heals nothing more.
    let pruned =
        crate::common::pruning::prune(&store, &crate::common::pruning::everything(), "heals no more");
    assert!(pruned.healed.is_empty());
}

/// The power fails, or the process dies, at any operation of a backup that heals. Healed containers
/// are whole, and the next backup heals the rest.
#[test]
fn a_crash_while_healing_loses_nothing_and_the_next_backup_continues() {
    for (seed, is_lost) in [(82, false), (84, true)] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 64 << 10);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let containers = data(&process);
        let name = &containers[containers.len() / 2];
        spoil(&process, name, is_lost);
        drop(store);
        let dying = process.beside(seed + 100);
        let store = dying.open();
        store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let images = support::crash_after_commit(&dying);
        let second = back_up(&store, &tree, &How::plain()).unwrap();
        assert_eq!(second.healed.len(), 1);
        dying.watched.clear_before();
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 12, "{}", images.len());
        let mut found = 0;
        for (machine, when) in images {
            let after = Process::on(machine, process.clock.clone(), seed + 1).striding();
            let third = back_up(&after.open(), &tree, &How::plain())
                .unwrap_or_else(|error| panic!("{when}: {error}"));
            found += u64::from(!third.healed.is_empty());
            // If the lease was not free, a prune heals.
            let store = after.beside(seed + 2).striding().open();
            crate::common::pruning::prune_after_crash(&store, &crate::common::pruning::everything(), &when);
            drop(store);
            assert_eq!(damage_lists(&after), Vec::<String>::new(), "{when}");
            let store = after.beside(seed + 3).open();
            for id in [first.id, third.id] {
                assert_restores(
                    &store,
                    &snapshot(&store, id),
                    &tree.root(),
                    &tree.picture(),
                    &when,
                );
            }
            let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
            assert!(
                report.damaged_backups.is_empty(),
                "{when}: {:#?}",
                report.findings
            );
        }
        assert!(found > 2, "{found} healed after a crash");
    }
}

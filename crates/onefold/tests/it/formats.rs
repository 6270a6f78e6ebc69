//! Stores in several states: of this version as committed, of a newer one, missing, with a wrong
//! password, and with names that are not UTF-8.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::damage_support::tree::{self, Entry};
use crate::damage_support::{Objects, backup_options, env_on, objects_of, storage_of, tree_options};
use crate::formats_support::{
    PASSWORD, SMALL_CONTAINER_BYTES, back_up_streams, committed, copy_store, describe, is_bless, make_store,
    name, open_with, testdata,
};
use env::{Env, LocalStorage, MemoryStorage, Storage};
use format::names::{self, ConfigCopy};
use format::wire;
use onefold::{
    AssembleOptions, Credential, Error, ErrorKind, Monitor, ReadData, ReaderSource, RestoreRequest, Store,
};

fn compare_or_bless(path: &Path, found: &str, advice: &str) {
    if is_bless() {
        fs::write(path, found).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap();
    assert!(expected == found, "{}: {advice}\n{found}", path.display());
}

#[test]
fn the_committed_store_of_version_1_opens_checks_and_restores() {
    let folder = tempfile::tempdir().unwrap();
    copy_store(&committed(), folder.path());
    let env = env_on(Arc::new(LocalStorage::open(folder.path()).unwrap()), 5);
    for credential in [Credential::password(PASSWORD), Credential::None] {
        let store = open_with(&env, &credential).unwrap();
        let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        assert!(report.is_sound() && report.leftovers.is_empty(), "{report:#?}");
        assert!(report.backups >= 6);
        compare_or_bless(
            &testdata().join("store-v1.expected"),
            &describe(&store),
            "a store of a released version holds what it held",
        );
    }
}

#[test]
fn the_committed_store_of_version_1_is_small_and_has_every_kind_of_container() {
    let storage = LocalStorage::open(committed()).unwrap();
    let objects = objects_of(&storage);
    let total: usize = objects.values().map(Vec::len).sum();
    assert!(total < 300 << 10, "{total} bytes");
    for folder in [
        "config", "data", "recipe", "catalog", "small", "mirror", "backups", "sessions", "index",
    ] {
        assert!(
            objects.keys().any(|name| name.parts().next() == Some(folder)),
            "{folder}"
        );
    }
}

#[test]
fn a_backup_into_the_committed_store_finds_its_chunks() {
    let folder = tempfile::tempdir().unwrap();
    copy_store(&committed(), folder.path());
    let env = env_on(Arc::new(LocalStorage::open(folder.path()).unwrap()), 6);
    let store = open_with(&env, &Credential::None).unwrap();
    let report = store
        .backup_stream(
            &backup_options("host", 0),
            Path::new("/disk.img"),
            &onefold::StreamOptions::fixed(4096),
            &mut crate::formats_support::image(),
            &Monitor::default(),
        )
        .unwrap();
    assert_eq!(report.warnings, Vec::<onefold::Warning>::new());
    assert_eq!(report.totals.chunks_new, 0, "all of it is in the store");
    assert_eq!(report.totals.segments_known, report.totals.segments);
    let check = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert!(check.is_sound(), "{check:#?}");
}

/// Every object of a store of streams, made with one seed.
fn made_with(seed: u64) -> Objects {
    let storage = Arc::new(MemoryStorage::with_clock(Arc::new(
        crate::damage_support::StillClock,
    )));
    let env = env_on(Arc::clone(&storage) as Arc<dyn Storage>, seed);
    // Containers do not fill up here: otherwise the number of the container of catalog copies would
    // depend on which thread is faster.
    back_up_streams(&make_store(&env, 1 << 20));
    objects_of(&*storage)
}

fn digests(objects: &Objects) -> String {
    let mut out = String::new();
    for (name, bytes) in objects {
        writeln!(out, "{name} {} {:032x}", bytes.len(), wire::digest(bytes)).unwrap();
    }
    out
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let first = made_with(7);
    for _ in 0..5 {
        assert_eq!(
            digests(&first),
            digests(&made_with(7)),
            "what is written depends on timing"
        );
    }
    let other = made_with(8);
    assert!(digests(&first) != digests(&other), "the seed is in every salt");
    compare_or_bless(
        &testdata().join("same-seed.digests"),
        &digests(&first),
        "other bytes are written than before: if that is meant (another layout, another zstd), bless",
    );
}

/// A store in memory with one small backup.
fn some_store(seed: u64) -> Objects {
    let storage = Arc::new(MemoryStorage::new());
    let env = env_on(Arc::clone(&storage) as Arc<dyn Storage>, seed);
    let store = make_store(&env, SMALL_CONTAINER_BYTES);
    back_up(&store).unwrap();
    objects_of(&*storage)
}

fn back_up(store: &Store) -> Result<onefold::BackupReport, Error> {
    store.backup_stream(
        &backup_options("host", 0),
        Path::new("/stream"),
        &onefold::StreamOptions::default(),
        &mut ReaderSource(b"some bytes".as_slice()),
        &Monitor::default(),
    )
}

fn env_of(objects: &Objects) -> Env {
    env_on(storage_of(objects), 3)
}

fn kind_of(objects: &Objects, credential: &Credential) -> (ErrorKind, String) {
    let error = open_with(&env_of(objects), credential).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn a_wrong_password_is_an_error_of_its_own() {
    let objects = some_store(1);
    for wrong in [&b""[..], b"correct horse ", b"Correct horse", &[0xff, 0xfe]] {
        let (kind, text) = kind_of(&objects, &Credential::password(wrong));
        assert_eq!(kind, ErrorKind::WrongPassword, "{text}");
    }
    open_with(&env_of(&objects), &Credential::password(PASSWORD)).unwrap();
    open_with(&env_of(&objects), &Credential::None).unwrap();
}

#[test]
fn a_missing_or_unneeded_password_is_reported() {
    let storage = Arc::new(MemoryStorage::new());
    let env = env_on(Arc::clone(&storage) as Arc<dyn Storage>, 1);
    let options = onefold::InitOptions::default().cost(crate::formats_support::cheap());
    Store::init(&env, &Credential::password(PASSWORD), &options, None).unwrap();
    let needed = open_with(&env, &Credential::None).unwrap_err();
    assert_eq!(needed.kind(), ErrorKind::WrongPassword, "{needed}");
    let env = env_on(Arc::new(MemoryStorage::new()), 1);
    Store::init(&env, &Credential::None, &options, None).unwrap();
    let not_taken = open_with(&env, &Credential::password(PASSWORD)).unwrap_err();
    assert_eq!(not_taken.kind(), ErrorKind::WrongPassword, "{not_taken}");
}

/// Both copies of the newest config, changed and with their digests made right.
fn with_config(objects: &Objects, change: impl Fn(&mut Vec<u8>)) -> Objects {
    let mut objects = objects.clone();
    let newest = objects
        .keys()
        .filter_map(names::parse_config)
        .map(|(revision, _)| revision)
        .max();
    for copy in ConfigCopy::ALL {
        let bytes = objects.get_mut(&names::config(newest.unwrap(), copy)).unwrap();
        bytes.truncate(bytes.len() - 16);
        change(bytes);
        let digest = wire::digest(bytes);
        bytes.extend_from_slice(&digest.to_le_bytes());
    }
    objects
}

#[test]
fn a_newer_format_error_names_both_versions() {
    let newer = with_config(&some_store(1), |config| {
        config[8..10].copy_from_slice(&9_u16.to_le_bytes())
    });
    let (kind, text) = kind_of(&newer, &Credential::None);
    assert_eq!(kind, ErrorKind::Newer, "{text}");
    assert!(text.contains('9') && text.contains('1'), "{text}");
}

#[test]
fn a_feature_that_reading_needs_and_nobody_knows_refuses_the_store() {
    let newer = with_config(&some_store(1), |config| config[12] = 4);
    let (kind, text) = kind_of(&newer, &Credential::None);
    assert_eq!(kind, ErrorKind::Newer, "{text}");
}

#[test]
fn a_feature_that_writing_needs_and_nobody_knows_makes_the_store_one_to_read() {
    let env = env_of(&read_only(&some_store(1)));
    let before = objects_of(&*env.storage);
    let store = open_with(&env, &Credential::None).unwrap();
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 1);
    assert!(
        store
            .check(ReadData::Share(1.0), &Monitor::default())
            .unwrap()
            .is_sound()
    );
    describe(&store);
    for error in [
        back_up(&store).map(drop).unwrap_err(),
        store.rebuild_index(&Monitor::default()).map(drop).unwrap_err(),
        store.add_key(&Credential::None, "another").map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Newer, "{error}");
    }
    assert!(before == objects_of(&*env.storage), "nothing was written");
}

/// The bit is under the settings' seal, so the test makes a new config as a later program would.
fn read_only(objects: &Objects) -> Objects {
    let env = env_of(objects);
    let open = object::config::open(&env, crypto::Credential::NoPassword).unwrap();
    let mut config = open.config.clone();
    config.features.required_to_write = 1;
    let plain = open.settings.to_bytes();
    let key = open
        .keys
        .encryption
        .seal_key(format::config::SETTINGS_SEAL_PURPOSE, &config.settings_salt);
    let mut sealed = plain;
    key.seal(0, &config.aad(), &mut sealed, 0);
    config.sealed_settings = sealed;
    let mut out = objects.clone();
    for copy in ConfigCopy::ALL {
        out.insert(names::config(open.revision, copy), config.to_bytes());
    }
    out
}

#[test]
fn newer_small_objects_and_containers_are_refused_without_a_guess() {
    let objects = some_store(1);
    for (object, bytes) in &objects {
        let folder = object.parts().next().unwrap();
        let mut newer = bytes.clone();
        if names::parse_container(object).is_some() {
            // A container has its version twice, and its footer's digest over both.
            let footer = bytes.len() - format::container::FOOTER_BYTES;
            for at in [8, footer + 8, footer + 100] {
                newer[at..at + 2].copy_from_slice(&9_u16.to_le_bytes());
            }
        } else if ["backups", "sessions"].contains(&folder) {
            newer[8..10].copy_from_slice(&9_u16.to_le_bytes());
            let end = newer.len() - 16;
            let digest = wire::digest(&newer[..end]);
            newer[end..].copy_from_slice(&digest.to_le_bytes());
        } else {
            continue;
        }
        let mut changed = objects.clone();
        changed.insert(object.clone(), newer);
        let store = open_with(&env_of(&changed), &Credential::None).unwrap();
        let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let told: Vec<String> = report
            .findings
            .iter()
            .chain(&report.leftovers)
            .map(|finding| format!("{}: {}", finding.object, finding.what))
            .collect();
        assert!(!told.is_empty(), "{object}");
        if names::parse_container(object).is_none() {
            assert!(
                told.iter().any(|text| text.contains("version 9")),
                "{object}: {told:?}"
            );
        }
    }
}

#[test]
fn no_store_and_a_damaged_store_are_different_errors() {
    let (kind, _) = kind_of(&Objects::new(), &Credential::None);
    assert_eq!(kind, ErrorKind::NoStore);
    assert_eq!(
        Store::probe(&env_of(&Objects::new())).unwrap_err().kind(),
        ErrorKind::NoStore
    );
    let foreign: Objects = [("photos/1.jpg", b"jpeg".as_slice()), ("config/app.ini", b"[a]")]
        .into_iter()
        .map(|(text, bytes)| (name(text), bytes.to_vec()))
        .collect();
    let (kind, text) = kind_of(&foreign, &Credential::None);
    assert_eq!(kind, ErrorKind::NoStore, "{text}");
    let other_program: Objects = [(
        name("config/0.0"),
        b"not one of ours, and long enough for one".to_vec(),
    )]
    .into_iter()
    .collect();
    let (kind, text) = kind_of(&other_program, &Credential::None);
    assert_eq!(kind, ErrorKind::NoStore, "{text}");
    let mut without_config = some_store(1);
    without_config.retain(|name, _| names::parse_config(name).is_none());
    let (kind, text) = kind_of(&without_config, &Credential::None);
    assert_ne!(
        kind,
        ErrorKind::NoStore,
        "a store that lost its config is one: {text}"
    );
    assert!(text.contains("config"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let missing = Env::local(folder.path().join("nothing")).map(|env| open_with(&env, &Credential::None));
    match missing {
        Err(error) => assert_eq!(Error::from(error).kind(), ErrorKind::NoStore),
        Ok(opened) => assert_eq!(opened.unwrap_err().kind(), ErrorKind::NoStore),
    }
}

#[test]
fn names_that_are_not_utf8_come_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(OsStr::from_bytes(b"src-\xc3\x28"));
    let names: [&[u8]; 4] = [b"\xff", b"a\xffb\xfe", b"\xe2\x82", "snowman-\u{2603}".as_bytes()];
    fs::create_dir_all(source.join(OsStr::from_bytes(b"sub\x80"))).unwrap();
    for (number, text) in (0_u8..).zip(names) {
        fs::write(source.join(OsStr::from_bytes(text)), [number; 100]).unwrap();
        let below = source
            .join(OsStr::from_bytes(b"sub\x80"))
            .join(OsStr::from_bytes(text));
        fs::write(below, text).unwrap();
    }
    std::os::unix::fs::symlink(OsStr::from_bytes(b"a\xffb\xfe"), source.join("link")).unwrap();
    let env = env_on(Arc::new(MemoryStorage::new()), 1);
    let store = make_store(&env, SMALL_CONTAINER_BYTES);
    let mut faults = |fault: &onefold::TreeError| panic!("{fault}");
    store
        .backup_tree(
            &backup_options("host", 1 << 20),
            &tree_options(&source, false),
            &Monitor::default(),
            &mut faults,
        )
        .unwrap();
    let snapshot = store.find("latest", &onefold::Filter::default()).unwrap();
    let expected = tree::read(&source);
    let restored = |include: Vec<Vec<u8>>| -> BTreeMap<_, Entry> {
        let target = tempfile::tempdir().unwrap();
        let request = RestoreRequest::new(AssembleOptions::for_cores(1)).include(include);
        let mut fault = |fault: &onefold::Fault| panic!("{fault:?}");
        store
            .restore(
                &snapshot,
                target.path(),
                &request,
                &Monitor::default(),
                &mut fault,
            )
            .unwrap();
        tree::read(&target.path().join(source.strip_prefix("/").unwrap()))
    };
    assert_eq!(restored(Vec::new()), expected);
    let one = [source.as_os_str().as_bytes(), b"/sub\x80/\xff"].concat();
    let files = |tree: BTreeMap<std::path::PathBuf, Entry>| -> Vec<std::path::PathBuf> {
        let is_file = |entry: &Entry| matches!(entry, Entry::File(_));
        tree.into_iter()
            .filter(|(_, entry)| is_file(entry))
            .map(|(path, _)| path)
            .collect()
    };
    let wanted = Path::new(OsStr::from_bytes(b"sub\x80/\xff")).to_path_buf();
    assert_eq!(files(restored(vec![one])), vec![wanted]);
}

#[test]
fn settings_that_no_chunker_takes_make_no_store() {
    for (chunk_avg_bytes, node_avg_children) in [
        (256 << 10, 512),
        (64, 512),
        (3000, 512),
        (8 << 10, 2),
        (8 << 10, 48),
    ] {
        let (env, _) = env::Env::simulated(std::sync::Arc::new(env::MemoryStorage::new()), 1);
        let options = onefold::InitOptions::default()
            .chunk_avg_bytes(chunk_avg_bytes)
            .node_avg_children(node_avg_children);
        let made = onefold::Store::init(&env, &onefold::Credential::None, &options, None);
        assert!(made.is_err(), "{chunk_avg_bytes} {node_avg_children}");
        assert!(env.storage.list("").unwrap().is_empty(), "nothing is left behind");
    }
}

//! Copies of backups between stores: within a fingerprint domain and across, again, after damage
//! and after kills.

use std::fs;
use std::time::Duration;

use env::fault::{Counted, Fault, OpKind};
use onefold::operations::copy;
use onefold::{
    Backup, CopyReport, CopyRequest, CopyStep, Credential, Error, Filter, HoldEnd, InitOptions, Monitor,
    NodeEntry, Origin, SessionId, Snapshot, Store, StreamOptions, StreamRole, TagChange, Which,
};
use types::ObjectName;

use crate::common::{
    How, Picture, Process, Tree, assert_restores, assert_restores_bytes, assert_sound, back_up, back_up_bytes,
    back_up_stream, noise, snapshot, tiny,
};

/// Two stores on machines of their own.
struct Pair {
    source: Process,
    destination: Process,
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
    fn across_domains(seed: u64) -> Self {
        let options = tiny().chunk_avg_bytes(2 << 10);
        Self::new(seed, false, &options)
    }

    /// Stores of both kinds.
    fn both(seed: u64) -> [(Self, bool); 2] {
        [
            (Self::within_a_domain(seed), true),
            (Self::across_domains(seed + 10), false),
        ]
    }
}

fn request() -> CopyRequest {
    CopyRequest::default().ingest(How::plain().ingest)
}

fn try_copy(from: &Store, to: &Store, request: &CopyRequest) -> Result<CopyReport, Error> {
    copy(from, to, request, &Monitor::default(), &mut |_| {})
}

/// Copies all, without a fault.
fn copy_all(from: &Store, to: &Store) -> CopyReport {
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
                one.backup.streams.iter().map(|stream| (stream.level, stream.fingerprint)).collect()
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

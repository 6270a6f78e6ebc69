//! Places to which a client refers while reclamation removes what is there.

use format::node::NodeEntry;
use onefold::repository::Repository;
use onefold::{Filter, ForgetRequest, PruneLimits, PruneOptions, PruneUnused, SessionPolicy};

use super::*;

/// A backup that was forgotten, and what a client remembers of it.
struct Forgotten {
    bed: Bed,
    root: TreeRoot,
    chunk: ChunkLocation,
}

/// Who answers the reclaimer this often.
fn answering_every(period: Duration) -> OpenOptions {
    OpenOptions::default().policy(SessionPolicy {
        heartbeat_every: period,
        ..SessionPolicy::default()
    })
}

impl Forgotten {
    fn new() -> Self {
        let mut bed = Bed::new();
        let options = answering_every(Duration::from_millis(50));
        bed.server = Arc::new(bed.beside(&options));
        let id = honest(&mut bed.client("mail", "write")).to_string();
        let store = bed.store();
        let snapshot = store.find(&id, &Filter::default()).unwrap();
        let root = TreeRoot::from(&snapshot.backup.streams[0]);
        let pinned = Repository::pin(&store, &snapshot, &Monitor::default()).unwrap();
        let node = pinned.reader().unwrap().node(root.location).unwrap();
        let NodeEntry::Run { container, first, .. } = node.entries[0] else {
            panic!("{node:?}")
        };
        let slot = first;
        Self {
            chunk: ChunkLocation { container, slot },
            bed,
            root,
        }
    }

    /// A backup that refers to nothing yet. The server has read all that it may refer to.
    fn liar(&self) -> (Client, Terms) {
        let mut earlier = self.bed.client("web", "write,read");
        let terms = earlier.begin(Parents::Named(Vec::new())).unwrap().terms;
        earlier.submit(vec![self.stored(&terms), self.copied(&terms), end()]);
        earlier.verdicts_until(|verdict| *verdict == Verdict::Done);
        earlier.ask(request::END, &()).unwrap();
        let mut client = self.bed.client("web", "write,read");
        let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
        (client, terms)
    }

    fn stored(&self, terms: &Terms) -> Sent {
        let child = OfferedChild {
            fingerprint: terms.fingerprinter.chunk(&CHUNK),
            len: CHUNK.len() as u64,
            place: OfferedPlace::Stored(self.chunk),
        };
        // Another segment than the stored one, which the store would find by itself.
        offered(segment(terms, vec![child, child]))
    }

    fn copied(&self, terms: &Terms) -> Sent {
        let offer = Offer::Copy {
            stream: STREAM,
            fingerprint: self.root.fingerprint,
            len: self.root.len,
            node: KnownNode {
                location: self.root.location,
                containers_max: 1,
            },
        };
        Sent::Copies(OpenRun::begin(offer).unwrap().close(&terms.fingerprinter))
    }

    /// Whether a session has answered the reclaimer, and so knows what it will remove.
    fn is_answered(&self) -> bool {
        let sessions = self.bed.folder.path().join("stores/main/sessions");
        let objects = |folder: std::fs::DirEntry| std::fs::read_dir(folder.path()).into_iter().flatten();
        let mut objects = std::fs::read_dir(sessions)
            .unwrap()
            .flatten()
            .flat_map(objects)
            .flatten();
        objects.any(|object| object.file_name().to_string_lossy().starts_with("checkpoint."))
    }

    /// Forgets the backup, and removes its data.
    fn prune(&self) {
        let store = self.bed.store();
        store
            .forget(&ForgetRequest::named(["latest"]), &Monitor::default())
            .unwrap();
        let limits = PruneLimits::default().unused_max(PruneUnused::Bytes(0));
        let options = PruneOptions::default()
            .limits(limits)
            .answer_within(Duration::from_secs(60));
        let (report, warnings) = store.prune(&options, &Monitor::default()).unwrap();
        assert!(report.containers_removed > 0, "{report:?} {warnings:?}");
    }
}

/// Who refers to the backup while it is removed.
struct Liar {
    client: Client,
    terms: Terms,
    /// With these the server decides on what was offered.
    missing: Sent,
}

impl Liar {
    /// Offers a segment that the server does not know, without its chunks, and then refers to the
    /// backup: the server checks that, and decides on it later.
    fn offering(forgotten: &Forgotten, is_copy: bool) -> Self {
        let (mut client, terms) = forgotten.liar();
        let unknown = segment(&terms, children(&terms, &[b"unknown"]));
        let refers = match is_copy {
            false => forgotten.stored(&terms),
            true => forgotten.copied(&terms),
        };
        client.submit(vec![brief(&unknown, unknown.len), refers, end()]);
        client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
        let missing = chunks_of(unknown.children);
        Self {
            client,
            terms,
            missing,
        }
    }
}

#[test]
fn what_was_removed_is_not_referred_to() {
    for is_copy in [false, true] {
        let forgotten = Forgotten::new();
        let Liar {
            mut client, missing, ..
        } = Liar::offering(&forgotten, is_copy);
        forgotten.prune();
        client.submit(vec![missing]);
        let refused = loop {
            let (kind, _, body) = client.next().expect("an answer");
            match kind {
                reply::DURABLE => {}
                reply::VERDICTS => {
                    let verdicts = Vec::<Verdict>::from_bytes(&body).unwrap();
                    let taken = verdicts.iter().filter(|it| matches!(it, Verdict::Segment { .. }));
                    assert!(taken.count() <= 1, "{is_copy}: it referred to what was removed");
                }
                _ => break Refusal::from_bytes(&body).unwrap(),
            }
        };
        assert_eq!(refused.kind, RefusalKind::Previous, "{is_copy}: {refused}");
    }
}

/// A client that has all verdicts takes no more of them, and may not commit for long.
#[test]
fn a_backup_answers_the_reclaimer_after_its_last_verdict() {
    let forgotten = Forgotten::new();
    let (mut client, _) = forgotten.liar();
    client.submit(vec![end()]);
    client.verdicts_until(|verdict| *verdict == Verdict::Done);
    forgotten.prune();
    client.ask(request::COMMIT, &about()).unwrap();
}

/// The reclaimer has announced what it will remove, and waits for another session's answer.
#[test]
fn what_may_be_removed_is_stored_again() {
    for is_copy in [false, true] {
        let forgotten = Forgotten::new();
        let Liar {
            mut client,
            terms,
            missing,
        } = Liar::offering(&forgotten, is_copy);
        let bed = &forgotten.bed;
        let options = answering_every(Duration::from_secs(3600));
        let slow = Arc::new(bed.beside(&options));
        let mut slow = Bed::logged_in_to(&slow, "slow", bed.token("slow", "write"));
        slow.begin(Parents::Named(Vec::new())).unwrap();
        thread::scope(|scope| {
            let pruning = scope.spawn(|| forgotten.prune());
            while !forgotten.is_answered() {
                assert!(!pruning.is_finished());
                SystemClock.sleep(Duration::from_millis(20));
            }
            client.submit(vec![missing]);
            let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
            let wanted = verdicts.iter().find_map(|verdict| match verdict {
                Verdict::Segment { wanted, .. } => wanted.first(),
                _ => None,
            });
            let new = wanted.expect("the first chunk is new").new;
            client.submit(vec![region(&terms, new, b"unknown", b"unknown")]);
            assert!(!pruning.is_finished(), "it waits for the slow session");
            slow.ask(request::END, &()).unwrap();
            pruning.join().unwrap();
        });
        let made = client.ask(request::COMMIT, &about()).unwrap();
        let made = CommittedBackup::from_bytes(&made).unwrap();
        let times = if is_copy { 1 } else { 2 };
        let expected = [b"unknown".to_vec(), CHUNK.repeat(times)].concat();
        assert_eq!(made.totals.bytes_new, expected.len() as u64, "{is_copy}");
        assert!(bed.restored(made.session) == expected, "{is_copy}");
        let report = bed
            .store()
            .check(onefold::ReadData::Share(1.0), &Monitor::default())
            .unwrap();
        assert!(report.is_sound(), "{is_copy}: {report:?}");
    }
}

//! Clients that lie, over the protocol's own messages: none of them changes what others back up.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use env::{Clock, ManualClock, SystemClock};
use format::manifest::{BackupTotals, SeriesName};
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    About, CopiedRun, Offer, OfferedChild, OfferedPlace, OfferedSegment, OpenRun, StoredRegion, Terms,
    Verdict, Wanted,
};
use onefold::{Credential, InitOptions, Monitor, OpenOptions, Store};
use recipe::{KnownNode, TreeRoot};
use tempfile::TempDir;
use transport::{Address, Channel, FrameReader, FrameWriter, Traffic, TransportError};
use types::{ChunkLocation, Fingerprint, Level, SessionId, UnixNanos};
use wire::{
    Begin, Begun, CommittedBackup, FRAME_BYTES_MAX, Hello, Login, Manifests, Parents, Refusal, RefusalKind,
    Sent, SentChildren, Wire, reply, request,
};

use crate::{Home, Rights, Server};

mod answers;
mod brief;
mod calls;
mod limits;
mod manifests;
mod messages;
mod pressing;
mod reading;
mod refusals;
mod regions;
mod removed;
mod withheld;

/// The number of the next attempt. Tests choose smaller ones themselves.
static ATTEMPTS: AtomicU64 = AtomicU64::new(1000);

/// A server, and its folder.
struct Bed {
    folder: TempDir,
    server: Arc<Server>,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::default().reserve_bytes(0);
        let (home, _) = Home::init(folder.path(), &Credential::None, &options).unwrap();
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        Self {
            folder,
            server: Arc::new(server),
        }
    }

    /// Another server on the same folder, with its own options.
    fn beside(&self, options: &OpenOptions) -> Server {
        Server::open(self.home(), &Credential::None, options, 0).unwrap()
    }

    /// With a server whose monotonic time this clock shows. Its sleeping moves the clock.
    fn timed() -> (Self, ManualClock) {
        let mut bed = Self::new();
        let clock = ManualClock::new(SystemClock.wall());
        clock.advance(Duration::from_secs(100));
        let mut home = bed.home();
        home.env.clock = Arc::new(clock.clone());
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        bed.server = Arc::new(server);
        (bed, clock)
    }

    fn home(&self) -> Home {
        Home::open(self.folder.path()).unwrap()
    }

    /// A connection, and the thread that serves it.
    fn dial(&self) -> Client {
        Self::dial_to(&self.server)
    }

    fn dial_to(server: &Arc<Server>) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A server that does not answer fails the test.
        ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let server = Arc::clone(server);
        let deadline: crate::Deadline = Arc::new(|_| ());
        let thread = thread::spawn(move || server.serve(Channel::from(theirs), "there", &deadline));
        let channel = Channel::from(ours);
        Client {
            reader: FrameReader::new(channel.input, Traffic::default()),
            writer: FrameWriter::new(channel.output, Traffic::default()),
            next: 0,
            thread,
        }
    }

    fn token(&self, namespace: &str, rights: &str) -> String {
        let address: Address = format!("onefold://host/{namespace}").parse().unwrap();
        let rights: Rights = rights.parse().unwrap();
        let home = self.home();
        let invited = home.invite(address, rights, None).unwrap();
        home.join(&invited.invitation.code, "test", "there")
            .unwrap()
            .token
    }

    /// A client that has logged in to a namespace.
    fn client(&self, namespace: &str, rights: &str) -> Client {
        self.logged_in(namespace, self.token(namespace, rights))
    }

    fn logged_in(&self, namespace: &str, token: String) -> Client {
        Self::logged_in_to(&self.server, namespace, token)
    }

    fn logged_in_to(server: &Arc<Server>, namespace: &str, token: String) -> Client {
        let mut client = Self::dial_to(server);
        client.greet();
        let namespace = namespace.to_owned();
        client.ask(request::LOGIN, &Login { token, namespace }).unwrap();
        client
    }

    /// The bytes of a backup of one stream.
    fn restored(&self, id: SessionId) -> Vec<u8> {
        let store = self.store();
        let backup = store.find(&id.to_string(), &onefold::Filter::default()).unwrap();
        let mut file = store.open_file(&backup, None, &Monitor::default()).unwrap();
        let mut restored = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut restored).unwrap();
        restored
    }

    fn store(&self) -> Store {
        let home = self.home();
        home.store("main", &Credential::None, &OpenOptions::default())
            .unwrap()
    }
}

struct Client {
    reader: FrameReader,
    writer: FrameWriter,
    next: u32,
    thread: JoinHandle<Result<(), TransportError>>,
}

impl Client {
    fn send(&mut self, kind: u8, body: &[u8]) -> u32 {
        self.next += 1;
        self.writer.send(kind, self.next, body).unwrap();
        self.next
    }

    /// The next message. `None` if the server has ended the connection.
    fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let next = self.reader.next(FRAME_BYTES_MAX).ok().flatten();
        next.map(|(head, body)| (head.kind, head.number, body))
    }

    fn ask(&mut self, kind: u8, body: &impl Wire) -> Result<Vec<u8>, Refusal> {
        let number = self.send(kind, &body.to_bytes());
        loop {
            let (kind, answered, body) = self.next().expect("an answer");
            match kind {
                // A running backup tells these unasked.
                reply::VERDICTS | reply::DURABLE => continue,
                reply::FAILED => return Err(Refusal::from_bytes(&body).unwrap()),
                _ => assert_eq!(answered, number),
            }
            return match kind {
                reply::ANSWER => Ok(body),
                _ => Err(Refusal::from_bytes(&body).unwrap()),
            };
        }
    }

    fn greet(&mut self) {
        self.ask(request::HELLO, &Hello::new("a test")).unwrap();
    }

    fn beginning(parents: Parents) -> Begin {
        Begin {
            name: SeriesName {
                host: b"host".to_vec(),
                paths: vec![b"/stream".to_vec()],
            },
            streams: ingest::single_stream(None),
            parents,
            is_suspect: false,
            insists: false,
            resumes: false,
            continues: Vec::new(),
            attempt: ATTEMPTS.fetch_add(1, Ordering::Relaxed),
            replaces: Vec::new(),
        }
    }

    fn begin(&mut self, parents: Parents) -> Result<Begun, Refusal> {
        let begun = self.ask(request::BEGIN, &Self::beginning(parents))?;
        Ok(Begun::from_bytes(&begun).unwrap())
    }

    fn submit(&mut self, sent: Vec<Sent>) {
        self.send(request::SUBMIT, &sent.to_bytes());
    }

    /// The verdicts until one of these comes.
    fn verdicts_until(&mut self, is_last: impl Fn(&Verdict) -> bool) -> Vec<Verdict> {
        let mut all = Vec::new();
        while !all.iter().any(&is_last) {
            let (kind, _, body) = self.next().expect("verdicts");
            assert_eq!(kind, reply::VERDICTS, "{:?}", Refusal::from_bytes(&body));
            all.extend(Vec::<Verdict>::from_bytes(&body).unwrap());
        }
        all
    }

    /// The server says that the client lies, and ends the connection.
    fn end_caught(mut self) {
        loop {
            let (kind, _, body) = self.next().expect("an answer");
            if kind != reply::VERDICTS {
                assert_eq!(kind, reply::FAILED);
                let refusal = Refusal::from_bytes(&body).unwrap();
                assert_eq!(refusal.kind, RefusalKind::Malformed, "{refusal}");
                break;
            }
        }
        while self.next().is_some() {}
        self.thread.join().unwrap().unwrap();
    }
}

/// Chunks of these contents.
fn children(terms: &Terms, chunks: &[&[u8]]) -> Vec<OfferedChild> {
    let child = |chunk: &&[u8]| OfferedChild {
        fingerprint: terms.fingerprinter.chunk(chunk),
        len: chunk.len() as u64,
        place: OfferedPlace::Client,
    };
    chunks.iter().map(child).collect()
}

fn segment(terms: &Terms, children: Vec<OfferedChild>) -> OfferedSegment {
    let mut hasher = terms.fingerprinter.node_hasher(Level::new(1).unwrap());
    let mut len = 0;
    for child in &children {
        hasher.push(&child.fingerprint, child.len);
        len += child.len;
    }
    OfferedSegment {
        fingerprint: hasher.finish(),
        len,
        children,
    }
}

const STREAM: StreamIndex = StreamIndex(0);

fn offered(segment: OfferedSegment) -> Sent {
    Sent::Offer(Offer::Segment {
        stream: STREAM,
        segment,
    })
}

fn end() -> Sent {
    Sent::Offer(Offer::End(STREAM))
}

fn region(terms: &Terms, first: NewChunk, stated: &[u8], bytes: &[u8]) -> Sent {
    let chunk = (
        terms.fingerprinter.chunk(stated),
        u32::try_from(stated.len()).unwrap(),
    );
    Sent::Region(StoredRegion::raw(
        first.lane,
        first.ordinal,
        vec![chunk],
        bytes.to_vec(),
    ))
}

fn about() -> About {
    About {
        name: SeriesName {
            host: b"another".to_vec(),
            paths: vec![b"/elsewhere".to_vec()],
        },
        source_time: UnixNanos::new(1),
        elapsed_nanos: 1,
        user: b"user".to_vec(),
        program: "a test".to_owned(),
        tags: Vec::new(),
        only_if_changed: false,
        hold_until: None,
        origin: None,
        counted: BackupTotals::default(),
    }
}

/// Longer than the share of a container that a reference needs by default.
static CHUNK: [u8; 60_000] = [7; 60_000];

/// Backs up one chunk. Returns the backup's number.
fn honest(client: &mut Client) -> SessionId {
    let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
    client.submit(vec![offered(segment(&terms, children(&terms, &[&CHUNK]))), end()]);
    let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
    for verdict in &verdicts {
        if let Verdict::Segment { wanted, .. } = verdict {
            for Wanted { new, .. } in wanted {
                client.submit(vec![region(&terms, *new, &CHUNK, &CHUNK)]);
            }
        }
    }
    let committed = client.ask(request::COMMIT, &about()).unwrap();
    CommittedBackup::from_bytes(&committed).unwrap().session
}

/// Lies in one way, and is caught. Then an honest client backs up the same, and the store is sound.
fn caught(lie: impl FnOnce(&mut Client, &Terms)) {
    let bed = Bed::new();
    let mut liar = bed.client("web", "write,read,list");
    let terms = liar.begin(Parents::Named(Vec::new())).unwrap().terms;
    lie(&mut liar, &terms);
    liar.end_caught();
    let id = honest(&mut bed.client("mail", "write"));
    let store = bed.store();
    let list = store.snapshots().unwrap();
    assert_eq!(list.snapshots.len(), 1, "the liar has no backup");
    let mut restored = Vec::new();
    let backup = store.find(&id.to_string(), &onefold::Filter::default()).unwrap();
    assert_eq!(
        backup.backup.series.host, b"mail/host",
        "the server stamps the name"
    );
    let mut file = store.open_file(&backup, None, &Monitor::default()).unwrap();
    std::io::Read::read_to_end(&mut file, &mut restored).unwrap();
    assert!(restored == CHUNK);
    let report = store
        .check(onefold::ReadData::Share(1.0), &Monitor::default())
        .unwrap();
    assert!(report.is_sound(), "{report:?}");
}

fn wanted_of(client: &mut Client, terms: &Terms) -> NewChunk {
    client.submit(vec![offered(segment(terms, children(terms, &[&CHUNK]))), end()]);
    let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
    let wanted = verdicts.iter().find_map(|verdict| match verdict {
        Verdict::Segment { wanted, .. } => wanted.first().copied(),
        _ => None,
    });
    wanted.expect("the chunk is new").new
}

#[test]
fn wrong_bytes_are_caught() {
    caught(|client, terms| {
        let new = wanted_of(client, terms);
        client.submit(vec![region(terms, new, &CHUNK, &[8; 60_000])]);
    });
}

#[test]
fn a_chunk_under_a_wrong_number_is_caught() {
    caught(|client, terms| {
        let new = wanted_of(client, terms);
        let other = NewChunk {
            ordinal: new.ordinal + 1,
            ..new
        };
        client.submit(vec![region(terms, other, &CHUNK, &CHUNK)]);
    });
}

#[test]
fn another_chunk_than_the_wanted_one_is_caught() {
    caught(|client, terms| {
        let new = wanted_of(client, terms);
        client.submit(vec![region(terms, new, &[8; 60_000], &[8; 60_000])]);
    });
}

#[test]
fn a_chunk_that_is_sent_twice_is_caught() {
    caught(|client, terms| {
        let new = wanted_of(client, terms);
        client.submit(vec![
            region(terms, new, &CHUNK, &CHUNK),
            region(terms, new, &CHUNK, &CHUNK),
        ]);
    });
}

#[test]
fn a_chunk_that_nobody_wants_is_caught() {
    caught(|client, terms| {
        let new = NewChunk {
            lane: Lane::Content,
            ordinal: 0,
        };
        client.submit(vec![region(terms, new, &CHUNK, &CHUNK)]);
    });
}

#[test]
fn false_segments_are_caught() {
    let false_segments: [fn(&Terms, &mut OfferedSegment); 5] = [
        |terms, segment| segment.fingerprint = terms.fingerprinter.chunk(b"another"),
        |_, segment| segment.len += 1,
        |_, segment| segment.children.clear(),
        |_, segment| segment.children[0].len += 1,
        |_, segment| segment.children[0].place = OfferedPlace::Zeros,
    ];
    for falsify in false_segments {
        caught(|client, terms| {
            let mut offer = segment(terms, children(terms, &[&CHUNK]));
            falsify(terms, &mut offer);
            client.submit(vec![offered(offer)]);
        });
    }
}

/// A length beyond what a chunk may have, under the right fingerprint of the segment.
#[test]
fn chunks_of_impossible_lengths_are_caught() {
    for len in [0, u64::from(u32::MAX) + 1, u64::MAX] {
        caught(|client, terms| {
            let mut children = children(terms, &[&CHUNK]);
            children[0].len = len;
            client.submit(vec![offered(segment(terms, children))]);
        });
    }
}

#[test]
fn more_chunks_than_a_node_holds_are_caught() {
    caught(|client, terms| {
        let child = children(terms, &[&CHUNK]);
        let many = child.repeat((1 << 16) + 1);
        client.submit(vec![offered(segment(terms, many))]);
    });
}

#[test]
fn impossible_backups_do_not_begin() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let fixed = |bytes| ingest::single_stream(Some(bytes));
    let doubled = [ingest::single_stream(None), ingest::single_stream(None)].concat();
    for streams in [Vec::new(), doubled, fixed(0), fixed(u32::MAX)] {
        let begin = Begin {
            streams,
            ..Client::beginning(Parents::LatestTree)
        };
        let refused = client.ask(request::BEGIN, &begin).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Malformed, "{refused}");
    }
    // With the namespace before it, the host is too long for a manifest.
    let mut begin = Client::beginning(Parents::LatestTree);
    begin.name.host = vec![b'x'; format::manifest::NAME_BYTES_MAX];
    let refused = client.ask(request::BEGIN, &begin).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Failed, "{refused}");
    honest(&mut client);
}

fn brief(segment: &OfferedSegment, len: u64) -> Sent {
    Sent::Offer(Offer::Brief {
        stream: STREAM,
        fingerprint: segment.fingerprint,
        len,
    })
}

fn chunks_of(children: Vec<OfferedChild>) -> Sent {
    Sent::Offer(Offer::Children {
        stream: STREAM,
        children,
    })
}

/// A segment that another namespace has stored is known by its fingerprint, but not under another
/// length.
#[test]
fn a_brief_segment_is_known_under_its_own_length_alone() {
    let bed = Bed::new();
    honest(&mut bed.client("mail", "write"));
    let mut client = bed.client("web", "write");
    let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
    let known = segment(&terms, children(&terms, &[&CHUNK]));
    client.submit(vec![brief(&known, known.len), brief(&known, known.len + 1)]);
    let verdicts = client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
    let wanted = Vec::new();
    assert_eq!(
        verdicts[0],
        Verdict::Segment {
            stream: STREAM,
            wanted
        }
    );
    client.submit(vec![chunks_of(known.children)]);
    client.end_caught();
}

#[test]
fn false_chunks_of_a_brief_segment_are_caught() {
    caught(|client, terms| {
        let true_one = segment(terms, children(terms, &[&CHUNK]));
        client.submit(vec![brief(&true_one, true_one.len)]);
        client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
        client.submit(vec![chunks_of(children(terms, &[&[8; 60_000]]))]);
    });
}

#[test]
fn chunks_that_nobody_asked_for_are_caught() {
    caught(|client, terms| {
        client.submit(vec![chunks_of(children(terms, &[&CHUNK]))]);
    });
    caught(|client, terms| {
        let true_one = segment(terms, children(terms, &[&CHUNK]));
        client.submit(vec![brief(&true_one, true_one.len)]);
        client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
        let chunks = || chunks_of(true_one.children.clone());
        client.submit(vec![chunks(), chunks()]);
    });
}

/// A brief segment that is new is stored when its chunks have come, and what is behind it too.
#[test]
fn a_brief_segment_that_is_new_is_stored() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
    let (one, two) = (
        segment(&terms, children(&terms, &[&CHUNK])),
        segment(&terms, children(&terms, &[&[9; 3000]])),
    );
    client.submit(vec![brief(&one, one.len), brief(&two, two.len), end()]);
    let mut chunks = [(one, &CHUNK[..]), (two, &[9; 3000][..])].into_iter();
    let mut asked: VecDeque<&[u8]> = VecDeque::new();
    let mut is_done = false;
    while !is_done {
        for verdict in client.verdicts_until(|_| true) {
            match verdict {
                Verdict::Unknown(_) => {
                    let (segment, bytes) = chunks.next().unwrap();
                    asked.push_back(bytes);
                    client.submit(vec![chunks_of(segment.children)]);
                }
                Verdict::Segment { wanted, .. } => {
                    let bytes = asked.pop_front().unwrap();
                    client.submit(vec![region(&terms, wanted[0].new, bytes, bytes)]);
                }
                verdict => is_done = verdict == Verdict::Done,
            }
        }
    }
    client.ask(request::COMMIT, &about()).unwrap();
    let store = bed.store();
    let backup = store.find("latest", &onefold::Filter::default()).unwrap();
    let mut file = store.open_file(&backup, None, &Monitor::default()).unwrap();
    let mut restored = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut restored).unwrap();
    assert!(restored == [&CHUNK[..], &[9; 3000]].concat());
}

#[test]
fn streams_that_were_not_begun_are_caught() {
    caught(|client, _| client.submit(vec![Sent::Offer(Offer::End(StreamIndex(1)))]));
}

/// The places of another backup, under fingerprints that are not there.
#[test]
fn false_places_are_caught() {
    for is_copy in [true, false] {
        let bed = Bed::new();
        let id = honest(&mut bed.client("mail", "write"));
        let backup = bed
            .store()
            .find(&id.to_string(), &onefold::Filter::default())
            .unwrap();
        let root = backup.backup.streams[0].location;
        let mut liar = bed.client("web", "write,read");
        let terms = liar.begin(Parents::Named(Vec::new())).unwrap().terms;
        let offer = if is_copy {
            Sent::Copies(CopiedRun {
                stream: STREAM,
                first: root,
                count: 1,
                proof: terms.fingerprinter.chunk(b"another"),
            })
        } else {
            offered(segment(&terms, stored_child(&terms, root)))
        };
        liar.submit(vec![offer]);
        let (kind, _, body) = liar.next().unwrap();
        assert_eq!(kind, reply::FAILED, "{is_copy}");
        let refusal = Refusal::from_bytes(&body).unwrap();
        let is_expected = matches!(refusal.kind, RefusalKind::Malformed | RefusalKind::Previous);
        assert!(is_expected, "{refusal}");
        assert_eq!(bed.store().snapshots().unwrap().snapshots.len(), 1);
    }
}

/// Who knows the segments' fingerprints may copy them, and nobody else.
#[test]
fn copies_need_a_proof() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let snapshot = bed.store().find(&id.to_string(), &onefold::Filter::default());
    let root = TreeRoot::from(&snapshot.unwrap().backup.streams[0]);
    let run = |terms: &Terms, count: u32, fingerprint: Fingerprint| {
        let offer = Offer::Copy {
            stream: STREAM,
            fingerprint,
            len: root.len,
            node: KnownNode {
                location: root.location,
                containers_max: 1,
            },
        };
        let mut run = OpenRun::begin(offer).unwrap().close(&terms.fingerprinter);
        run.count = count;
        Sent::Copies(run)
    };
    let mut client = bed.client("web", "write,read");
    let terms = client.begin(Parents::Named(vec![id])).unwrap().terms;
    client.submit(vec![run(&terms, 1, root.fingerprint), end()]);
    client.verdicts_until(|verdict| *verdict == Verdict::Done);
    client.ask(request::COMMIT, &about()).unwrap();
    let other = terms.fingerprinter.chunk(b"another");
    for (count, fingerprint) in [(1, other), (0, root.fingerprint), (u32::MAX, other)] {
        let mut liar = bed.client("web", "write,read");
        let terms = liar.begin(Parents::Named(vec![id])).unwrap().terms;
        liar.submit(vec![run(&terms, count, fingerprint)]);
        liar.end_caught();
    }
    // A slot that is gone is no lie: the client makes the backup again.
    let mut late = bed.client("web", "write,read");
    let terms = late.begin(Parents::Named(vec![id])).unwrap().terms;
    late.submit(vec![run(&terms, 2, root.fingerprint)]);
    let (kind, _, body) = late.next().unwrap();
    assert_eq!(kind, reply::FAILED);
    let refusal = Refusal::from_bytes(&body).unwrap();
    assert_eq!(refusal.kind, RefusalKind::Previous, "{refusal}");
    let mut blind = bed.client("web", "write");
    let terms = blind.begin(Parents::Named(Vec::new())).unwrap().terms;
    blind.submit(vec![run(&terms, 1, root.fingerprint)]);
    assert_eq!(blind.next().unwrap().0, reply::FAILED);
}

fn stored_child(terms: &Terms, at: ChunkLocation) -> Vec<OfferedChild> {
    let fingerprint: Fingerprint = terms.fingerprinter.chunk(b"another");
    vec![OfferedChild {
        fingerprint,
        len: 7,
        place: OfferedPlace::Stored(at),
    }]
}

#[test]
fn a_commit_before_all_was_sent_is_refused() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let terms = client.begin(Parents::LatestTree).unwrap().terms;
    wanted_of(&mut client, &terms);
    let refused = client.ask(request::COMMIT, &about()).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Malformed, "{refused}");
    client.ask(request::END, &()).unwrap();
    assert!(bed.store().snapshots().unwrap().snapshots.is_empty());
    // The connection goes on.
    honest(&mut client);
}

#[test]
fn backups_of_other_namespaces_are_neither_read_nor_built_upon() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("mail", "write"));
    let mut client = bed.client("web", "write,read,list");
    let refused = client.begin(Parents::Named(vec![id])).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotFound, "{refused}");
    let refused = client.ask(request::READ, &vec![id]).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotFound, "{refused}");
    let listed = Manifests::from_bytes(&client.ask(request::LIST, &()).unwrap()).unwrap();
    assert!(listed.backups.is_empty());
}

#[test]
fn without_the_right_to_read_a_running_backup_answers_nothing() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let backup = bed
        .store()
        .find(&id.to_string(), &onefold::Filter::default())
        .unwrap();
    let root = backup.backup.streams[0].location;
    let mut client = bed.client("web", "write");
    let begun = client.begin(Parents::LatestTree).unwrap();
    assert!(begun.parents.is_empty() && begun.streams.is_empty());
    for kind in [request::NODE, request::CHUNK] {
        let refused = client.ask(kind, &root).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NotAllowed, "{refused}");
    }
}

/// A backup begins with what its client needs of its parents' streams.
#[test]
fn the_children_of_a_parents_root_come_with_the_beginning() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "write,read,list");
    let begun = client.begin(Parents::Named(vec![id])).unwrap();
    let [stream] = &begun.streams[..] else {
        panic!("one stream: {:?}", begun.streams)
    };
    assert!(begun.terms.has_previous && stream.unsound.is_empty());
    assert_eq!(stream.root, TreeRoot::from(&begun.parents[0].backup.streams[0]));
    let mut hasher = begun.terms.fingerprinter.node_hasher(Level::new(1).unwrap());
    for child in &stream.children {
        hasher.push(&child.fingerprint, child.logical_len);
    }
    assert_eq!(hasher.finish(), stream.root.fingerprint);
    let answer = client.ask(request::CHILDREN, &stream.root).unwrap();
    let asked = Vec::<SentChildren>::from_bytes(&answer).unwrap();
    assert_eq!(asked[0].node, stream.root.location);
    assert_eq!(asked[0].children, stream.children);
    let false_root = TreeRoot {
        len: stream.root.len + 1,
        ..stream.root
    };
    let refused = client.ask(request::CHILDREN, &false_root).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unreadable, "{refused}");
}

#[test]
fn strangers_get_nothing() {
    let bed = Bed::new();
    let token = bed.token("web", "write,read,list");
    let log_in = |token: &str, namespace: &str| {
        let mut client = bed.dial();
        client.greet();
        let login = Login {
            token: token.to_owned(),
            namespace: namespace.to_owned(),
        };
        client.ask(request::LOGIN, &login).map(drop)
    };
    assert!(log_in(&token, "web").is_ok());
    let mut other = token.clone();
    other.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
    bed.token("mail", "write");
    for (token, namespace) in [
        (other.as_str(), "web"),
        (&token[..token.len() - 1], "web"),
        (&token, "mail"),
        (&token, "nobody"),
        ("", "web"),
        ("of1_../../authority_x", "web"),
    ] {
        let refused = log_in(token, namespace).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NotAllowed, "{token} {namespace}");
    }
    // A request before the login; a first message that is no greeting; one that is too long.
    let mut client = bed.dial();
    client.greet();
    assert!(client.ask(request::LIST, &()).is_err());
    let mut client = bed.dial();
    assert!(client.ask(request::LIST, &()).is_err());
    let mut client = bed.dial();
    client.send(request::HELLO, &vec![0; 70_000]);
    assert!(client.next().is_none());
    assert!(client.thread.join().unwrap().is_err());
}

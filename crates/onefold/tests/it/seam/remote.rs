//! The client's end: sessions of a store that is reached by messages alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use container::{CatalogView, CompressedRegion, ContainerError, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::manifest::BackupTotals;
use format::node::Node;
use ingest::Granularity;
use ingest::brief::{BriefOffers, Noted};
use ingest::conformance::{Begun, Host};
use ingest::{About, BackupSession, Committed, IngestError, IngestOptions, Offer, Stream, Terms, Verdict};
use recipe::{NodeSource, RecipeError, StoreReader, StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, ContainerId, RegionIndex, SessionId};
use wire::{AskedRegions, CommittedBackup, Sendable, Sent, SentCatalog, Wire};

use super::local::{LocalHost, Referring};
use super::pipe::{Broken, Cut, Input, Output, pipe};
use super::serve;
use crate::common::Process;

/// A store whose sessions talk over pipes. Beginning one is not a message: who may begin is a
/// matter of the connection.
pub(crate) struct RemoteHost {
    pub(crate) here: LocalHost,
    cut: Arc<Cut>,
    /// After so many known segments of a stream, the client leaves the chunks out.
    pub(crate) streak: u32,
}

/// The usual client leaves the chunks out after one known segment: short streams have both kinds.
const STREAK: u32 = 1;

impl RemoteHost {
    pub(crate) fn new(machine: &Process, referring: Referring, cut_after: Option<usize>) -> Self {
        Self {
            here: LocalHost::new(machine, referring),
            cut: Cut::new(cut_after),
            streak: STREAK,
        }
    }

    /// On a store that is there already.
    pub(crate) fn on(machine: &Process, referring: Referring, cut_after: Option<usize>) -> Self {
        Self {
            here: LocalHost::on(machine, referring),
            cut: Cut::new(cut_after),
            streak: STREAK,
        }
    }

    /// Messages of both ends so far.
    pub(crate) fn messages(&self) -> usize {
        self.cut.sent()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.cut.bytes()
    }
}

impl Host for RemoteHost {
    fn begin(&self, streams: Vec<Stream>, upon: &[SessionId]) -> Result<Box<dyn Begun + '_>, IngestError> {
        let hosted = self.here.host(streams, upon)?;
        let (terms, parents) = (hosted.session().terms().clone(), hosted.parents());
        let (questions, asked) = pipe(&self.cut);
        let (answers, said) = pipe(&self.cut);
        let store = thread::spawn(move || serve::serve(hosted, &asked, &answers));
        let inbox = Arc::new(Inbox::default());
        let filled = Arc::clone(&inbox);
        let listener = thread::spawn(move || filled.fill(&said));
        let session = RemoteSession {
            reader: RemoteReader(Connection {
                terms,
                questions: Some(questions),
                inbox,
                next: AtomicU64::new(0),
                threads: vec![store, listener],
            }),
            brief: BriefOffers::after(self.streak),
        };
        Ok(Box::new(RemoteBackup { session, parents }))
    }

    fn options(&self) -> IngestOptions {
        self.here.options()
    }

    fn granularity(&self) -> Granularity {
        self.here.granularity()
    }

    fn about(&self, counted: BackupTotals) -> About {
        self.here.about(counted)
    }

    fn backups(&self) -> Vec<SessionId> {
        self.here.backups()
    }

    fn read(&self, backup: SessionId, stream: usize) -> Vec<u8> {
        self.here.read(backup, stream)
    }
}

/// A session over a pipe, and the streams that it may copy from.
struct RemoteBackup {
    session: RemoteSession,
    parents: Vec<Vec<TreeRoot>>,
}

impl Begun for RemoteBackup {
    fn session(&self) -> &dyn BackupSession {
        &self.session
    }

    fn parents(&self) -> Vec<Vec<TreeRoot>> {
        self.parents.clone()
    }
}

/// Why a request has no answer.
#[derive(Debug)]
enum Unanswered {
    /// The store cannot read it; the rest of the session goes on.
    Gone(String),
    /// The session cannot go on.
    Failed(String),
}

impl Unanswered {
    fn why(self) -> String {
        match self {
            Self::Gone(why) | Self::Failed(why) => why,
        }
    }
}

/// What has come from the store, and was not taken.
#[derive(Debug, Default)]
struct Inbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Mail {
    verdicts: VecDeque<Verdict>,
    answers: BTreeMap<u64, Result<Vec<u8>, Unanswered>>,
    /// Why the session ended.
    failed: Option<String>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what comes until the pipe ends.
    fn fill(&self, said: &Input) {
        loop {
            let message = said.recv();
            let mut mail = self.lock();
            match message {
                Ok(message) => mail.take(&message),
                Err(Broken) => {
                    mail.failed.get_or_insert("it broke".to_owned());
                }
            }
            let is_over = mail.failed.is_some();
            drop(mail);
            self.changed.notify_all();
            if is_over {
                return;
            }
        }
    }
}

impl Mail {
    fn take(&mut self, message: &[u8]) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        match message[0] {
            serve::VERDICTS => self
                .verdicts
                .extend(Vec::<Verdict>::from_bytes(&message[1..]).unwrap()),
            serve::FAILED => self.failed = Some(String::from_bytes(&message[1..]).unwrap()),
            kind => {
                let body = &message[9..];
                let answer = match kind {
                    serve::ANSWER => Ok(body.to_vec()),
                    _ => Err({
                        let why = String::from_bytes(&body[1..]).unwrap();
                        match body[0] {
                            0 => Unanswered::Failed(why),
                            _ => Unanswered::Gone(why),
                        }
                    }),
                };
                self.answers.insert(number(&message[1..9]), answer);
            }
        }
    }
}

/// The client's end of a session's pipes.
#[derive(Debug)]
struct Connection {
    terms: Terms,
    questions: Option<Output>,
    inbox: Arc<Inbox>,
    next: AtomicU64,
    threads: Vec<JoinHandle<()>>,
}

impl Connection {
    fn send(&self, kind: u8, number: u64, body: &[u8]) -> Result<(), String> {
        let message = [&[kind], &number.to_le_bytes()[..], body].concat();
        let questions = self.questions.as_ref().ok_or("it is closed")?;
        questions.send(message).map_err(|Broken| "it broke".to_owned())
    }

    /// Asks, and waits for the answer.
    fn ask<T>(
        &self,
        kind: u8,
        body: &impl Wire,
        decode: impl FnOnce(&[u8]) -> Result<T, format::FormatError>,
    ) -> Result<T, Unanswered> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(kind, number, &body.to_bytes())
            .map_err(Unanswered::Failed)?;
        let mut mail = self.inbox.lock();
        let bytes = loop {
            if let Some(answer) = mail.answers.remove(&number) {
                break answer?;
            }
            if let Some(why) = &mail.failed {
                return Err(Unanswered::Failed(why.clone()));
            }
            mail = self
                .inbox
                .changed
                .wait(mail)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(mail);
        decode(&bytes).map_err(|error| Unanswered::Failed(error.to_string()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.questions.take());
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Reads earlier backups, as the store's end does.
#[derive(Debug)]
struct RemoteReader(Connection);

fn unread(why: Unanswered) -> RecipeError {
    match why {
        Unanswered::Gone(why) => RecipeError::Unreadable(why),
        Unanswered::Failed(why) => RecipeError::Other(why.into()),
    }
}

impl NodeSource for RemoteReader {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        let node = self.0.ask(serve::NODE, &location, Node::decode);
        node.map(Arc::new).map_err(unread)
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        let decode = |bytes: &[u8]| SentCatalog::from_bytes(bytes)?.view();
        let view = self.0.ask(serve::CATALOG, &container, decode);
        view.map(Arc::new).map_err(unread)
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        let root = self.0.ask(serve::STREAM, &(node, name), TreeRoot::from_bytes);
        root.map_err(unread)
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        &self.0.terms.fingerprinter
    }
}

impl StoreReader for RemoteReader {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        let view = self.catalog(at.container)?;
        let missing = || ContainerError::NoSlot {
            container: at.container,
            generation: view.generation(),
            slot: at.slot,
        };
        let index = view.region_of(at.slot).ok_or_else(missing)?;
        let mut buffer = RegionBuffer::default();
        self.read_regions_into(&view, &[index], &mut buffer)?;
        let bytes = buffer.regions().next().map(|(_, bytes)| bytes.to_vec());
        Ok((view, PlainRegion::from_sent(index, bytes.unwrap_or_default())))
    }

    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        buffer.clear();
        let asked = AskedRegions {
            container: view.id(),
            generation: view.generation(),
            regions: regions.to_vec(),
        };
        let sent = self
            .0
            .ask(serve::REGIONS, &asked, Vec::<CompressedRegion>::from_bytes);
        let sent = regions.iter().copied().zip(sent.map_err(unread)?);
        buffer.hold_sent(&sent.collect::<Vec<_>>()).unwrap();
        Ok(())
    }

    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        let asked = SentCatalog::of(view);
        let newer = self.0.ask(serve::NEWER, &asked, Vec::<SentCatalog>::from_bytes);
        let newer = newer.map_err(unread)?.pop().map(SentCatalog::view).transpose();
        let newer = newer.map_err(|error| RecipeError::Other(error.into()))?;
        Ok(newer.map(Arc::new))
    }

    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        let chunk = self.0.ask(serve::CHUNK, &at, Vec::<u8>::from_bytes);
        chunk.map_err(unread)
    }
}

/// A session of a store elsewhere.
#[derive(Debug)]
struct RemoteSession {
    reader: RemoteReader,
    brief: BriefOffers,
}

impl RemoteSession {
    fn connection(&self) -> &Connection {
        &self.reader.0
    }
}

fn broken(why: String) -> IngestError {
    IngestError::Connection(why.into())
}

impl BackupSession for RemoteSession {
    fn terms(&self) -> &Terms {
        &self.connection().terms
    }

    fn reader(&self) -> &dyn StoreReader {
        &self.reader
    }

    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError> {
        let asked = self
            .connection()
            .ask(serve::UNSOUND, &(*stream, range), Vec::<ByteRange>::from_bytes);
        asked.map_err(|why| broken(why.why()))
    }

    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError> {
        let offers = offers.into_iter().map(|offer| self.brief.offer(offer)).collect();
        let sent = Sendable::all(offers, &self.terms().fingerprinter)?;
        if let Some(why) = &self.connection().inbox.lock().failed {
            return Err(broken(why.clone()));
        }
        let mut body = Vec::new();
        Sendable::append_all(&sent, &mut body);
        self.connection().send(serve::SUBMIT, 0, &body).map_err(broken)
    }

    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError> {
        let inbox = &self.connection().inbox;
        let mut mail = inbox.lock();
        if mail.verdicts.is_empty() && mail.failed.is_none() {
            let waited = inbox.changed.wait_timeout(mail, wait);
            (mail, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(why) = mail.failed.as_ref().filter(|_| mail.verdicts.is_empty()) {
            return Err(broken(why.clone()));
        }
        let came: Vec<Verdict> = mail.verdicts.drain(..).collect();
        drop(mail);
        let mut verdicts = Vec::new();
        for verdict in came {
            let send = |children| {
                let sent = vec![Sent::Offer(children)];
                self.connection().send(serve::SUBMIT, 0, &sent.to_bytes())
            };
            match self.brief.note(verdict, send).map_err(broken)? {
                Noted::Verdict(verdict) => verdicts.push(verdict),
                Noted::Answered => {}
                Noted::Unasked => panic!("it asks for chunks that it has"),
            }
        }
        Ok(verdicts)
    }

    fn durable(&self, _: u64, _: Duration) -> Result<u64, IngestError> {
        Ok(0)
    }

    fn request_durable(&self) -> Result<(), IngestError> {
        Ok(())
    }

    fn commit(&self, about: About) -> Result<Committed, IngestError> {
        let answer = self
            .connection()
            .ask(serve::COMMIT, &about, CommittedBackup::from_bytes)
            .map_err(|why| broken(why.why()))?;
        Ok(answer.into())
    }
}

//! A running backup of a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use chunking::CHUNK_BYTES_MAX;
use ingest::{About, BackupSession, IngestError, IngestOptions, Stream, Verdict};
use onefold::repository::{Beginning, ParentChoice};
use onefold::{BackupOptions, HostedBackup};
use recipe::TreeRoot;
use transport::{FrameWriter, TransportError};
use types::{ByteRange, SessionId};
use wire::{Begin, Begun, CommittedBackup, Head, Parents, Refusal, RefusalKind, Sent, Wire, reply, request};

use crate::checked::Checker;
use crate::peer::{Ending, Peer, User};
use crate::quota::Quota;
use crate::reading;
use crate::rights::Right;

/// How long the sender of verdicts waits before it looks whether the backup is over.
const LOOK: Duration = Duration::from_millis(50);

/// Begins a backup, and serves its client until it is committed or given up.
pub(crate) fn run(peer: &mut Peer, user: &User, number: u32, body: &[u8]) -> Result<Ending, TransportError> {
    let begun = Begin::from_bytes(body)
        .map_err(Refusal::from)
        .and_then(|begin| begin_backup(user, begin));
    let (hosted, about, quota) = match begun {
        Ok(begun) => begun,
        Err(refusal) => return peer.refuse(number, &refusal).map(|()| Ending::GoOn),
    };
    let may_read = user.rights.has(Right::Read);
    let parents = hosted.parent_backups();
    let answer = Begun {
        terms: hosted.session().terms().clone(),
        parents: parents
            .iter()
            .filter_map(|one| user.namespace.sent(one))
            .collect(),
        warnings: hosted.warnings().iter().map(ToString::to_string).collect(),
    };
    peer.answer(number, &answer.to_bytes())?;
    let session = hosted.session();
    let running = Running {
        user,
        session,
        quota,
        checker: Checker::new(session, about.streams, may_read),
        about,
        may_read,
    };
    let is_over = AtomicBool::new(false);
    let writer = &peer.writer;
    let (reader, max) = (&mut peer.reader, wire::FRAME_BYTES_MAX);
    thread::scope(|scope| {
        scope.spawn(|| running.send_verdicts(writer, &is_over));
        let served = loop {
            match reader.next(max) {
                Ok(None) => break Ok(Ending::Over),
                Err(error) => break Err(error),
                Ok(Some((head, body))) => match running.take(writer, head, &body) {
                    Ok(None) => {}
                    Ok(Some(ending)) => break Ok(ending),
                    Err(error) => break Err(error),
                },
            }
        };
        is_over.store(true, Ordering::Release);
        served
    })
}

/// The facts of a backup that its client does not choose.
struct Facts {
    name: format::manifest::SeriesName,
    streams: usize,
}

fn begin_backup(user: &User, begin: Begin) -> Result<(HostedBackup, Facts, Quota), Refusal> {
    user.ensure(Right::Write)?;
    let quota = Quota::of(user)?;
    let is_single = is_single(&begin.streams);
    if !is_single && begin.streams != ingest::tree_streams() {
        let why = "the streams are neither those of files nor a single one";
        return Err(Refusal::new(RefusalKind::Malformed, why));
    }
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ingest = IngestOptions::for_cores(cores).is_resumable(is_single);
    let options = BackupOptions::default().ingest(ingest);
    let named = match &begin.parents {
        _ if !user.rights.has(Right::Read) => Some(Vec::new()),
        Parents::Named(named) => Some(visible(user, named)?),
        Parents::LatestTree => None,
    };
    let name = user.namespace.stored(begin.name);
    let facts = Facts {
        name: name.clone(),
        streams: begin.streams.len(),
    };
    let how = Beginning {
        options: &options,
        name,
        streams: begin.streams,
        is_suspect: begin.is_suspect,
        insists: begin.insists,
        parents: match &named {
            None => ParentChoice::LatestTree,
            Some(named) => ParentChoice::Named(named),
        },
        resumes: begin.resumes,
    };
    let hosted = user.store.host(&how);
    let hosted = hosted.map_err(|error| Refusal::new(RefusalKind::Failed, error.to_string()))?;
    Ok((hosted, facts, quota))
}

/// Whether this is one stream, cut as a client may cut it.
fn is_single(streams: &[Stream]) -> bool {
    let [
        Stream {
            fixed_chunk_bytes, ..
        },
    ] = streams
    else {
        return false;
    };
    let is_possible = fixed_chunk_bytes.is_none_or(|bytes| (1..=CHUNK_BYTES_MAX).contains(&bytes));
    is_possible && streams == ingest::single_stream(*fixed_chunk_bytes)
}

/// These backups, if all are of the namespace.
fn visible(user: &User, named: &[SessionId]) -> Result<Vec<SessionId>, Refusal> {
    for id in named {
        user.snapshot(*id)?;
    }
    Ok(named.to_vec())
}

struct Running<'a> {
    user: &'a User,
    session: &'a dyn BackupSession,
    quota: Quota,
    checker: Checker<'a>,
    about: Facts,
    may_read: bool,
}

impl Running<'_> {
    fn send_verdicts(&self, writer: &FrameWriter, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            match self.session.verdicts(LOOK) {
                Ok(verdicts) if verdicts.is_empty() => {}
                Ok(verdicts) => {
                    self.checker.note(&verdicts);
                    // If the client is gone, still take verdicts: the store waits for that, and the
                    // thread that takes offers waits for the store.
                    writer.send(reply::VERDICTS, 0, &verdicts.to_bytes()).ok();
                    if verdicts.contains(&Verdict::Done) {
                        return;
                    }
                }
                Err(error) => return failed(writer, &refusal_of(&error)),
            }
        }
    }

    /// Takes a message. Returns how the backup has ended, if it has.
    fn take(
        &self,
        writer: &FrameWriter,
        Head { kind, number, .. }: Head,
        body: &[u8],
    ) -> Result<Option<Ending>, TransportError> {
        if let Err(refusal) = self.user.ensure_still_valid() {
            failed(writer, &refusal);
            return Ok(Some(Ending::Over));
        }
        if kind == request::SUBMIT {
            return match self.submit(body) {
                Ok(()) => Ok(None),
                Err(refusal) => {
                    // A lying client is not listened to any more.
                    let is_lie = refusal.kind == RefusalKind::Malformed;
                    failed(writer, &refusal);
                    Ok(is_lie.then_some(Ending::Over))
                }
            };
        }
        let (answer, ending) = match kind {
            request::COMMIT => match self.commit(body) {
                Ok(committed) => (Ok(committed), Some(Ending::GoOn)),
                Err(refusal) => (Err(refusal), None),
            },
            request::END => (Ok(Vec::new()), Some(Ending::GoOn)),
            _ => (self.read(kind, body), None),
        };
        match answer {
            Ok(bytes) => writer.send(reply::ANSWER, number, &bytes)?,
            Err(refusal) => writer.send(reply::REFUSAL, number, &refusal.to_bytes())?,
        }
        Ok(ending)
    }

    fn submit(&self, body: &[u8]) -> Result<(), Refusal> {
        let sent = Vec::<Sent>::from_bytes(body)?;
        let bytes = sent.iter().map(|one| match one {
            Sent::Region(region) => region.bytes.bytes().len() as u64,
            Sent::Offer(_) => 0,
        });
        self.quota.take(bytes.sum())?;
        let offers = self.checker.check(sent)?;
        self.session.submit(offers).map_err(|error| refusal_of(&error))
    }

    fn read(&self, kind: u8, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        if !self.may_read {
            return Err(Refusal::new(
                RefusalKind::NotAllowed,
                "this token may not read backups",
            ));
        }
        if kind == request::UNSOUND {
            let (root, range) = <(TreeRoot, ByteRange)>::from_bytes(body)?;
            let unsound = self.session.unsound(&root, range);
            return Ok(unsound.map_err(|error| refusal_of(&error))?.to_bytes());
        }
        let unknown = || {
            Refusal::new(
                RefusalKind::Malformed,
                format!("no request of kind {kind} in a backup"),
            )
        };
        reading::answer(self.session.reader(), kind, body).unwrap_or_else(|| Err(unknown()))
    }

    fn commit(&self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let about = About {
            name: self.about.name.clone(),
            ..About::from_bytes(body)?
        };
        if !self.checker.is_whole() {
            return Err(Refusal::new(
                RefusalKind::Malformed,
                "a commit before all was sent",
            ));
        }
        self.quota.ensure(self.user)?;
        let made = self.session.commit(about).map_err(|error| refusal_of(&error))?;
        Ok(CommittedBackup::from(made).to_bytes())
    }
}

fn failed(writer: &FrameWriter, refusal: &Refusal) {
    // If the client is gone, it needs no answer.
    writer.send(reply::FAILED, 0, &refusal.to_bytes()).ok();
}

fn refusal_of(error: &IngestError) -> Refusal {
    let kind = if error.is_of_previous() {
        RefusalKind::Previous
    } else {
        RefusalKind::Failed
    };
    Refusal::new(kind, error.to_string())
}

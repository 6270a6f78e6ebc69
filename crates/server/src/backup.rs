//! A running backup of a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use chunking::CHUNK_BYTES_MAX;
use format::manifest::{StreamRole, ensure_tags_within_limits};
use ingest::{About, BackupSession, IngestError, IngestOptions, Stream, Verdict};
use onefold::repository::{Beginning, ParentChoice, Resume};
use onefold::{BackupOptions, Healed, HostedBackup, Snapshot};
use recipe::TreeRoot;
use transport::{FrameWriter, TransportError};
use types::{ByteRange, SessionId};
use wire::{
    Begin, Begun, CommittedBackup, Head, KnownStream, Parents, Refusal, RefusalKind, Sent, Sought, Wire,
    reply, request,
};

use crate::checked::Checker;
use crate::error::TARGET;
use crate::peer::{Body, Ending, Message, Peer, User, failed};
use crate::quota::Quota;
use crate::reading::{self, For};
use crate::rights::Right;
use crate::shares::Answer;
use crate::state::State;

/// How long the sender of verdicts waits before it looks whether the backup is over.
const LOOK: Duration = Duration::from_millis(50);

/// Children and unsound parts of streams in one answer, at most.
const KNOWN_MAX: usize = 1 << 14;
/// Bytes of these streams, at most: the server looks at each segment of them before it answers.
const KNOWN_BYTES_MAX: u64 = 64 << 30;

/// Parents of a backup, at most. A backup of files has one, a copy too. Who calls the library may
/// name more for a stream.
const PARENTS_MAX: usize = 1 << 10;
/// Earlier attempts of which a backup continues one, at most: the last ones. Each attempt takes
/// over the data of those before.
const CONTINUES_MAX: usize = 1 << 10;

/// How long a server waits for the end of a backup whose client lost its connection, ...
const PATIENCE: Duration = Duration::from_secs(30);
/// ... and of one that another process may have.
const PATIENCE_ELSEWHERE: Duration = Duration::from_mins(1);
/// How often it looks at that one.
const LOOK_ELSEWHERE: Duration = Duration::from_millis(200);

/// Begins a backup, and serves its client until it is committed or given up.
pub(crate) fn run(
    peer: &mut Peer,
    state: &State,
    user: &User,
    (number, body): (u32, Body),
) -> Result<Ending, TransportError> {
    let namespace = user.namespace.name();
    let begin = user.ensure(Right::Write).and_then(|()| beginning(&body));
    drop(body);
    let begun = begin.and_then(|begin| {
        let _name = state.memory.name(&user.shares.owner, &begin.name)?;
        end_lost(state, namespace, &begin.replaces)?;
        let running = state
            .running_backups
            .begin(namespace, begin.attempt, &peer.closer);
        let running = running.ok_or_else(|| busy("a backup with this number runs"))?;
        let place = state.memory.backup(&user.shares.owner)?;
        Ok(((running, place), begin_backup(user, begin)?))
    });
    let (_running, (hosted, about, quota)) = match begun {
        Ok(begun) => begun,
        Err(refusal) => return peer.refuse(number, &refusal).map(|()| Ending::GoOn),
    };
    let may_read = user.rights.has(Right::Read);
    let parents = hosted.parent_backups();
    let answer = Begun {
        session: hosted.id(),
        terms: hosted.session().terms().clone(),
        parents: parents
            .iter()
            .filter_map(|one| user.namespace.sent(one))
            .collect(),
        streams: if may_read {
            known_streams(hosted.session(), &parents)
        } else {
            Vec::new()
        },
        warnings: hosted.warnings().iter().map(ToString::to_string).collect(),
    };
    Answer::to(number, None, &peer.writer, (state, &user.shares)).end(&answer.to_bytes())?;
    let session = hosted.session();
    let running = Running {
        state,
        user,
        hosted: &hosted,
        session,
        quota,
        checker: Checker::new(session, about.streams, may_read),
        about,
        may_read,
    };
    let is_over = AtomicBool::new(false);
    let writer = &peer.writer;
    let incoming = &mut peer.incoming;
    thread::scope(|scope| {
        scope.spawn(|| running.send_verdicts(writer, &is_over));
        let served = loop {
            match incoming.next(state, &user.shares) {
                Ok(None) => break Ok(Ending::Over),
                Err(error) => break Err(error),
                Ok(Some(message)) => match running.take(writer, message) {
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

/// The streams of these backups from which a backup may copy. The client asks about those that are
/// missing here.
fn known_streams(session: &dyn BackupSession, parents: &[Snapshot]) -> Vec<KnownStream> {
    let streams = parents.iter().flat_map(|parent| &parent.backup.streams);
    let copied = streams.filter(|stream| matches!(stream.role, StreamRole::Content | StreamRole::Whole));
    let (mut room, mut bytes) = (KNOWN_MAX, KNOWN_BYTES_MAX);
    let known = copied.filter_map(|stream| {
        let root = TreeRoot::from(stream);
        bytes = bytes.checked_sub(root.len).filter(|_| room > 0)?;
        let whole = ByteRange {
            offset: 0,
            len: root.len,
        };
        // What cannot be read here, the client finds out when it asks for it.
        let unsound = session.unsound(&root, whole).ok()?;
        room = room.checked_sub(unsound.len())?;
        let mut children = reading::children_of(session.reader(), For::Backup, &root).unwrap_or_default();
        match room.checked_sub(children.len()) {
            Some(left) => room = left,
            None => children.clear(),
        }
        Some(KnownStream {
            root,
            unsound,
            children,
        })
    });
    known.collect()
}

fn busy(why: &str) -> Refusal {
    Refusal::new(RefusalKind::Busy, why)
}

/// Ends backups whose client says that it lost them.
fn end_lost(state: &State, namespace: &str, attempts: &[u64]) -> Result<(), Refusal> {
    let has_ended = state.running_backups.end(namespace, attempts, PATIENCE);
    has_ended
        .then_some(())
        .ok_or_else(|| busy("the server still ends the backup that lost its connection"))
}

/// The backup that a client committed before it lost its connection.
pub(crate) fn committed(state: &State, user: &User, body: Body) -> Result<Vec<CommittedBackup>, Refusal> {
    user.ensure(Right::Write)?;
    let Sought {
        attempt,
        session,
        about,
    } = Sought::from_bytes(&body)?;
    ensure_within_limits(&about)?;
    drop(body);
    let _name = state.memory.name(&user.shares.owner, &about.name)?;
    end_lost(state, user.namespace.name(), &[attempt])?;
    // A client of a tunnel has another process with each connection, and the one before may still
    // commit.
    let clock = &state.home.env.clock;
    let until = clock.monotonic() + PATIENCE_ELSEWHERE;
    let watch = user.store.watch_session(session);
    while !watch.is_over().map_err(failed)? {
        if state.is_ending() || clock.monotonic() >= until {
            return Err(busy("another process of the server may still commit the backup"));
        }
        clock.sleep(LOOK_ELSEWHERE);
    }
    let name = user.namespace.stored(about.name);
    let list = user.store.snapshots().map_err(failed)?;
    let found = list.snapshots.into_iter().rev().find(|snapshot| {
        let backup = &snapshot.backup;
        let times = (backup.source_time, backup.elapsed_nanos);
        let is_its = backup.series == name && times == (about.source_time, about.elapsed_nanos);
        snapshot.id == session && is_its
    });
    let sent = found.map(|Snapshot { id, backup, .. }| CommittedBackup {
        session: id,
        same_as: None,
        streams: backup.streams,
        totals: backup.totals,
        containers: backup.containers,
        adopted: backup
            .adopted
            .iter()
            .map(|(id, at)| (*id, at.is_some()))
            .collect(),
        warnings: Vec::new(),
    });
    Ok(sent.into_iter().collect())
}

/// How a client begins a backup, if that is possible and takes little memory: it may wait for its
/// place.
fn beginning(body: &[u8]) -> Result<Begin, Refusal> {
    let mut begin = Begin::from_bytes(body)?;
    if !is_single(&begin.streams) && begin.streams != ingest::tree_streams() {
        let why = "the streams are neither those of files nor a single one";
        return Err(Refusal::new(RefusalKind::Malformed, why));
    }
    if let Parents::Named(named) = &begin.parents
        && named.len() > PARENTS_MAX
    {
        return Err(failed(format!(
            "a backup copies from at most {PARENTS_MAX} parents, and this one names {}; choose fewer",
            named.len()
        )));
    }
    begin.name.ensure_within_limits().map_err(failed)?;
    let older = begin.continues.len().saturating_sub(CONTINUES_MAX);
    begin.continues.drain(..older);
    begin.continues.shrink_to_fit();
    Ok(begin)
}

/// Refuses a manifest that would take much memory in each list of the tenant's backups.
fn ensure_within_limits(about: &About) -> Result<(), Refusal> {
    let tags = || ensure_tags_within_limits(&about.tags);
    let is_within = about.name.ensure_within_limits().and_then(|()| tags());
    is_within.map_err(failed)
}

/// The facts of a backup that its client does not choose.
struct Facts {
    name: format::manifest::SeriesName,
    streams: usize,
}

fn begin_backup(user: &User, begin: Begin) -> Result<(HostedBackup, Facts, Quota), Refusal> {
    let quota = Quota::of(user)?;
    let is_single = is_single(&begin.streams);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // A client keeps what is not durable.
    let ingest = IngestOptions::for_cores(cores)
        .is_resumable(is_single)
        .checkpoints_a_position(1);
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
    let how = Beginning::new(&options, name, begin.streams)
        .is_suspect(begin.is_suspect)
        .insists(begin.insists)
        .parents(match &named {
            None => ParentChoice::LatestTree,
            Some(named) => ParentChoice::Named(named),
        })
        .resumes(match begin.continues {
            _ if begin.resumes => Resume::Any,
            continues if !continues.is_empty() => Resume::Own(continues),
            _ => Resume::Nothing,
        });
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
    state: &'a State,
    user: &'a User,
    hosted: &'a HostedBackup,
    session: &'a dyn BackupSession,
    quota: Quota,
    checker: Checker<'a>,
    about: Facts,
    may_read: bool,
}

impl Running<'_> {
    fn send_verdicts(&self, writer: &FrameWriter, is_over: &AtomicBool) {
        let mut told = 0;
        while !is_over.load(Ordering::Acquire) {
            told = self.tell_durable(writer, told);
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
                Err(error) => return tell_failure(writer, &refusal_of(&error)),
            }
        }
    }

    /// Tells the client which position is durable, if this is not known. Returns it.
    fn tell_durable(&self, writer: &FrameWriter, told: u64) -> u64 {
        let durable = self.session.durable(0, Duration::ZERO).unwrap_or(told);
        if durable > told {
            // If the client is gone, it needs no answer.
            writer.send(reply::DURABLE, 0, &durable.to_bytes()).ok();
        }
        durable.max(told)
    }

    /// Takes a message. Returns how the backup has ended, if it has.
    fn take(&self, writer: &FrameWriter, message: Message) -> Result<Option<Ending>, TransportError> {
        let Message {
            head: Head { kind, number, .. },
            body,
            processing,
        } = message;
        if let Err(refusal) = self.user.ensure_still_valid() {
            drop(body);
            tell_failure(writer, &refusal);
            return Ok(Some(Ending::Over));
        }
        if kind == request::SUBMIT {
            return match self.submit(body) {
                Ok(()) => Ok(None),
                Err(refusal) => {
                    // A lying client is not listened to any more.
                    let is_lie = refusal.kind == RefusalKind::Malformed;
                    tell_failure(writer, &refusal);
                    Ok(is_lie.then_some(Ending::Over))
                }
            };
        }
        if kind == request::SYNC {
            // A failed session says so by its verdicts.
            self.session.request_durable().ok();
            return Ok(None);
        }
        let shared = (self.state, &self.user.shares);
        let answer = Answer::to(number, processing, writer, shared);
        match kind {
            request::COMMIT => {
                let committed = self.commit(body);
                let ending = committed.is_ok().then_some(Ending::GoOn);
                answer.whole(committed)?;
                Ok(ending)
            }
            request::END => {
                drop(body);
                answer.whole(Ok(Vec::new()))?;
                Ok(Some(Ending::GoOn))
            }
            _ => self.read(answer, kind, body).map(|()| None),
        }
    }

    fn submit(&self, body: Body) -> Result<(), Refusal> {
        let sent = Vec::<Sent>::from_bytes(&body)?;
        let bytes = sent.iter().map(|one| match one {
            Sent::Region(region) => region.bytes.bytes().len() as u64,
            Sent::Offer(_) | Sent::Copies(_) => 0,
        });
        self.quota.take(bytes.sum())?;
        let offers = self.checker.check(sent)?;
        // The store waits until the client takes verdicts. The offers are in the backup's place.
        drop(body);
        self.session.submit(offers).map_err(|error| refusal_of(&error))
    }

    fn read(&self, answer: Answer<'_>, kind: u8, body: Body) -> Result<(), TransportError> {
        if !self.may_read {
            drop(body);
            let why = "this token may not read backups";
            return answer.refuse(&Refusal::new(RefusalKind::NotAllowed, why));
        }
        if kind == request::UNSOUND {
            let unsound = self.unsound(&body);
            drop(body);
            return answer.whole(unsound);
        }
        reading::serve(answer, self.session.reader(), For::Backup, (kind, body))
    }

    fn unsound(&self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (root, range) = <(TreeRoot, ByteRange)>::from_bytes(body)?;
        let unsound = self.session.unsound(&root, range);
        Ok(unsound.map_err(|error| refusal_of(&error))?.to_bytes())
    }

    fn commit(&self, body: Body) -> Result<Vec<u8>, Refusal> {
        let mut about = About {
            name: self.about.name.clone(),
            ..About::from_bytes(&body)?
        };
        ensure_within_limits(&about)?;
        drop(body);
        let is_hold_refused = about.hold_until.is_some() && !self.user.rights.has(Right::Hold);
        if is_hold_refused {
            about.hold_until = None;
        }
        if !self.checker.is_whole() {
            return Err(Refusal::new(
                RefusalKind::Malformed,
                "a commit before all was sent",
            ));
        }
        self.quota.ensure(self.user)?;
        let made = self.session.commit(about).map_err(|error| refusal_of(&error))?;
        let (healed, warnings) = self.hosted.after_commit(&self.user.store, &made);
        let no_hold = "this token may not hold backups: the new backup is not held".to_owned();
        let no_hold = is_hold_refused.then_some(no_hold);
        for Healed { container, slots, .. } in healed {
            tracing::info!(target: TARGET, %container, slots, "healed damaged chunks");
        }
        let committed = CommittedBackup {
            warnings: warnings.iter().map(ToString::to_string).chain(no_hold).collect(),
            ..made.into()
        };
        Ok(committed.to_bytes())
    }
}

fn tell_failure(writer: &FrameWriter, refusal: &Refusal) {
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

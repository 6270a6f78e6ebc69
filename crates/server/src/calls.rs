//! Operations on backups that the server runs for a client.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use onefold::calls::{Call, Report};
use onefold::{Filter, ForgetWhat, Monitor, Which};
use serde::Deserialize;
use serde::de::IgnoredAny;
use transport::TransportError;
use wire::{Progress, Refusal, RefusalKind, Wire, reply};

use crate::gate::Permit;
use crate::manifests::Namespace;
use crate::memory::Work;
use crate::peer::{Body, Ending, Peer, User, failed};
use crate::rights::Right;
use crate::shares::Answer;
use crate::state::State;

/// Bytes of a call, at most. The longest ones name backups: some 9 bytes each, and all backups of
/// the namespace for their layouts, as [`crate::connection`] reads at most 262,144 at once.
const CALL_BYTES_MAX: usize = 4 << 20;

/// How often the client learns how far the operation is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Runs the operation, and answers. Meanwhile tells the client how far it is. The operation stops
/// when the client is gone.
pub(crate) fn run(
    peer: &Peer,
    state: &State,
    user: &User,
    (number, body): (u32, Body),
) -> Result<Ending, TransportError> {
    let (place, call) = match begin(state, user, body) {
        Ok(begun) => begun,
        Err(refusal) => return peer.refuse(number, &refusal).map(|()| Ending::GoOn),
    };
    let monitor = Monitor::default();
    // Nothing is sent: the receiver learns that the sender is gone.
    let (ended, end) = channel::<()>();
    let report = thread::scope(|scope| {
        let monitor = &monitor;
        let running = scope.spawn(move || {
            let _ended = ended;
            // The place is free before the client has read the answer.
            let _place = place;
            call.run(&user.store, &user.scope(), monitor)
        });
        while end.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
            let progress = Progress {
                unit: monitor.work_unit().number(),
                done: monitor.work_done(),
                total: monitor.work_total(),
            };
            let told = peer.writer.send(reply::PROGRESS, number, &progress.to_bytes());
            if told.is_err() {
                monitor.cancel().store(true, Ordering::Relaxed);
            }
        }
        running.join()
    });
    let Ok(report) = report else {
        return peer
            .refuse(number, &failed("the operation panicked"))
            .map(|()| Ending::Over);
    };
    let notes: Vec<String> = monitor.notes().iter().map(ToString::to_string).collect();
    let answer = report.map_err(failed).and_then(|mut report| {
        user.namespace.strip(&mut report);
        Ok((serde_json::to_vec(&report).map_err(failed)?, notes).to_bytes())
    });
    Answer::to(number, None, &peer.writer, (state, &user.shares)).whole(answer)?;
    Ok(Ending::GoOn)
}

/// What a [`Call`] is, without its fields.
#[derive(Deserialize)]
enum Kind {
    Forget(IgnoredAny),
    Hold(IgnoredAny),
    Tag(IgnoredAny),
    Check(IgnoredAny),
    Layouts(IgnoredAny),
}

impl Kind {
    /// Refuses a token that could not run it, whatever its fields are.
    fn ensure_possible(&self, user: &User) -> Result<(), Refusal> {
        match self {
            // A dry run needs the right to list alone.
            Self::Forget(_) if user.rights.has(Right::Forget) => Ok(()),
            Self::Forget(_) | Self::Layouts(_) => user.ensure(Right::List),
            Self::Tag(_) => user.ensure(Right::Forget),
            Self::Hold(_) => user.ensure(Right::Hold),
            Self::Check(_) => user.ensure(Right::Read),
        }
    }

    fn work(&self) -> Work {
        match self {
            Self::Check(_) | Self::Layouts(_) => Work::Long,
            Self::Forget(_) | Self::Hold(_) | Self::Tag(_) => Work::Short,
        }
    }
}

/// The operation that the client asks for, and its place. It is decoded when it has the place: what
/// is decoded takes much more memory than the message.
fn begin(state: &State, user: &User, body: Body) -> Result<(Permit, Call), Refusal> {
    if body.len() > CALL_BYTES_MAX {
        return Err(failed(format!(
            "the operation names more than a message may have: {} bytes, of {CALL_BYTES_MAX}; name fewer backups",
            body.len()
        )));
    }
    let kind: Kind = serde_json::from_slice(&body).map_err(malformed)?;
    kind.ensure_possible(user)?;
    let place = state.memory.call(&user.shares.owner, kind.work(), body.len())?;
    Ok((place, permitted(user, &body)?))
}

fn malformed(error: serde_json::Error) -> Refusal {
    Refusal::new(RefusalKind::Malformed, error.to_string())
}

/// The operation that the client asks for, on its own namespace, if its token has the right.
fn permitted(user: &User, body: &[u8]) -> Result<Call, Refusal> {
    let mut call: Call = serde_json::from_slice(body).map_err(malformed)?;
    user.ensure(match &call {
        Call::Forget(request) if request.is_dry_run => Right::List,
        Call::Forget(_) | Call::Tag { .. } => Right::Forget,
        Call::Hold { .. } => Right::Hold,
        Call::Layouts(_) => Right::List,
        Call::Check { .. } => Right::Read,
        _ => return Err(Refusal::new(RefusalKind::Malformed, "an unknown operation")),
    })?;
    match &mut call {
        Call::Forget(request) => {
            if let ForgetWhat::ByPolicy { filter, .. } = &mut request.what {
                user.namespace.widen(filter);
            }
        }
        Call::Tag {
            which: Which::All(filter),
            ..
        } => user.namespace.widen(filter),
        _ => {}
    }
    Ok(call)
}

impl Namespace {
    /// Gives the filter's hosts the names under which the store keeps them.
    fn widen(&self, filter: &mut Filter) {
        for host in &mut filter.hosts {
            *host = self.stored_host(host);
        }
    }

    /// Gives the hosts in the report the names that clients know.
    fn strip(&self, report: &mut Report) {
        let Report::Forget(report) = report else { return };
        for group in &mut report.groups {
            group.key.host.iter_mut().for_each(|host| self.strip_host(host));
            for decision in &mut group.decisions {
                self.strip_host(&mut decision.backup.name.host);
            }
        }
        for named in &mut report.named {
            self.strip_host(&mut named.name.host);
        }
    }
}

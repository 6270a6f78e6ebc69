//! Finds out who does a command's work: this process, or the server that has the pool open.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use env::{Clock, FileCaching, SystemClock};
use volume::PoolId;

use super::control::short;
use super::line::{ANSWER_BYTES_MAX, Hello, Lines, SOCKET, Told, VERSION};
use super::opening::{Caches, IndexFault, OpenedPool, index_folder, open};
use super::request::{Answer, Kind, Refusal, Request};
use super::work::{Progress, Site};

/// A pool that is in use and has no control socket is being opened, or has a short command. So long
/// is waited for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(50);
/// The server must answer the first line within this time.
const HELLO_TIME: Duration = Duration::from_secs(30);

/// Who has the pool.
enum Holder {
    /// This process.
    Us(OpenedPool),
    /// A server, which has said that it speaks our version.
    Server(Lines<'static>),
}

/// Does a request on a pool. `progress` is called a few times a second; the work ends early if it
/// returns `false`.
///
/// # Errors
/// [`Refusal`]
pub(crate) fn ask(path: &Path, request: &Request, progress: Progress<'_>) -> Result<Answer, Refusal> {
    match holder(path, IndexFault::Fails)? {
        Holder::Server(lines) => converse(lines, request, progress),
        Holder::Us(opened) => {
            let site = Site {
                pool: &opened.pool,
                served: None,
            };
            let answer = site.perform(request, progress);
            let closed = opened.pool.close().map_err(Refusal::from);
            answer.and_then(|answer| closed.map(|()| answer))
        }
    }
}

/// Opens a pool for work that nobody may disturb.
///
/// # Errors
/// [`Kind::InUse`] if a server has it; others.
pub(crate) fn open_alone(path: &Path, on_fault: IndexFault, what: &str) -> Result<OpenedPool, Refusal> {
    match holder(path, on_fault)? {
        Holder::Us(opened) => Ok(opened),
        Holder::Server(_) => Err(Refusal::new(
            Kind::InUse,
            format!(
                "{}: the pool is served, and {what} needs it alone: end `onefold volume serve` first",
                path.display()
            ),
        )),
    }
}

fn holder(path: &Path, on_fault: IndexFault) -> Result<Holder, Refusal> {
    let begun = SystemClock.monotonic();
    loop {
        let mut in_use = match open(path, FileCaching::PageCache, Caches::default(), on_fault) {
            Ok(opened) => return Ok(Holder::Us(opened)),
            Err(refusal) if refusal.kind == Kind::InUse => refusal,
            Err(refusal) => return Err(refusal),
        };
        let (folder, pool) = match index_folder(path) {
            Ok(found) => found,
            // What has it open is no server of a pool, for example a mount.
            Err(_) => return Err(in_use),
        };
        match connect(&folder).map(|socket| greet(socket, &folder, pool)) {
            Ok(Ok(lines)) => return Ok(Holder::Server(lines)),
            Ok(Err(refusal)) if matches!(refusal.kind, Kind::Newer | Kind::NeedsRecount) => {
                return Err(refusal);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Refusal::new(
                    Kind::InUse,
                    format!(
                        "{}: a server of another user has the pool open; run this command as that user",
                        path.display()
                    ),
                ));
            }
            // The server is busy, and says so.
            Ok(Err(refusal)) if refusal.kind == Kind::InUse => in_use = refusal,
            // There is no server yet, or it has just ended.
            Ok(Err(_)) | Err(_) => {}
        }
        if SystemClock.monotonic().saturating_sub(begun) > PATIENCE {
            return Err(in_use);
        }
        SystemClock.sleep(LOOK);
    }
}

fn connect(folder: &Path) -> io::Result<UnixStream> {
    let folder = File::open(folder)?;
    UnixStream::connect(short(&folder, SOCKET))
}

fn failed(error: &io::Error) -> Refusal {
    Refusal::new(
        Kind::Protocol,
        format!("the server of the pool cannot be asked: {error}"),
    )
}

/// Exchanges the first lines with a server of this pool, whose index is in the folder.
fn greet(socket: UnixStream, folder: &Path, pool: PoolId) -> Result<Lines<'static>, Refusal> {
    let mut lines = Lines::new(socket, &SystemClock).map_err(|error| failed(&error))?;
    let hello: Hello = lines.receive(ANSWER_BYTES_MAX, &mut |waited| waited < HELLO_TIME)?;
    if hello.onefold_control != VERSION {
        return Err(Refusal::new(
            Kind::Newer,
            format!(
                "the server of the pool speaks version {} of the control socket, and this program {VERSION}: use the \
                 program that serves it",
                hello.onefold_control
            ),
        ));
    }
    if hello.pool != Hello::of_server(pool).pool {
        return Err(Refusal::new(
            Kind::NeedsRecount,
            format!(
                "{}: this is the duplicates index of another pool, which a server has open; bring this pool's own index \
                 back there, or end that server and make the index anew with `onefold volume recount`",
                folder.display()
            ),
        ));
    }
    let Err(error) = lines.send(&Hello::of_client()) else {
        return Ok(lines);
    };
    // If the server has refused already, the reason is the next line.
    match lines.receive(ANSWER_BYTES_MAX, &mut |waited| waited < HELLO_TIME) {
        Ok(Told::Error(refusal)) => Err(refusal),
        _ => Err(failed(&error)),
    }
}

/// Lets a server do a request.
fn converse(mut lines: Lines<'_>, request: &Request, progress: Progress<'_>) -> Result<Answer, Refusal> {
    // If the server has refused already, the reason is the next line.
    let sent = lines.send(request);
    let (mut done, mut total) = (0, 0);
    loop {
        let told = lines.receive(ANSWER_BYTES_MAX, &mut |_| progress(done, total));
        match told {
            Ok(Told::Progress { done: now, total: of }) => {
                (done, total) = (now, of);
                if !progress(done, total) {
                    return Err(Refusal::new(Kind::Interrupted, "interrupted"));
                }
            }
            Ok(Told::Answer(answer)) => return Ok(answer),
            Ok(Told::Error(refusal)) => return Err(refusal),
            Err(refusal) => return sent.map_err(|error| failed(&error)).and(Err(refusal)),
        }
    }
}

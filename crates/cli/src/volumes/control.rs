//! The control socket of a server: other commands ask it for work on its pool.
//!
//! One thread accepts, and each connection has a thread and one request. Only the server's user and
//! root are served. Dropping [`Control`] ends work in progress, answers it, and removes the socket.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cli_support::TARGET;
use env::{Clock, SystemClock};
use volume::{Pool, PoolId};

use super::exports::ServedExports;
use super::line::{Hello, Lines, REQUEST_BYTES_MAX, SOCKET, Told, VERSION};
use super::request::{Kind, Refusal, Request};
use super::work::Site;

/// Connections at once. More are told so.
const CONNECTIONS_MAX: usize = 16;
/// A request must arrive within this time.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The pause between two lines about progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// How long the accepting thread rests after the system gave it no client.
const REST: Duration = Duration::from_millis(100);

/// What the threads share.
struct Shared {
    pool: Arc<Pool>,
    exports: Arc<ServedExports>,
    is_ending: AtomicBool,
}

/// A control socket.
pub(crate) struct Control {
    shared: Arc<Shared>,
    /// The folder of the socket, wherever it was moved meanwhile: at its old path there may be
    /// another pool with a server of its own.
    folder: File,
    socket: Arc<UnixListener>,
    accepting: Option<JoinHandle<()>>,
}

/// The path of an entry of an open folder. It is short, and a socket's path must be.
pub(super) fn short(folder: &File, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()).into()
}

impl Control {
    /// Listens in the folder. The caller has the pool open, so a socket there has no server.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn start(folder: &Path, pool: Arc<Pool>, exports: Arc<ServedExports>) -> io::Result<Self> {
        let folder = File::open(folder)?;
        let (new, last) = (short(&folder, "control.new"), short(&folder, SOCKET));
        for left in [&new, &last] {
            match fs::remove_file(left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // It gets its name when nobody else can connect to it.
        let socket = Arc::new(UnixListener::bind(&new)?);
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, &last)?;
        let shared = Arc::new(Shared {
            pool,
            exports,
            is_ending: AtomicBool::new(false),
        });
        let (sharing, listening) = (Arc::clone(&shared), Arc::clone(&socket));
        let accepting = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&sharing, &listening))?;
        Ok(Self {
            shared,
            folder,
            socket,
            accepting: Some(accepting),
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        // A socket that stays is replaced by the next server.
        drop(fs::remove_file(short(&self.folder, SOCKET)));
        rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both).ok();
        if let Some(accepting) = self.accepting.take()
            && accepting.join().is_err()
        {
            tracing::error!(target: TARGET, "the thread of the control socket panicked");
        }
    }
}

fn accept(shared: &Arc<Shared>, socket: &UnixListener) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let accepted = socket.accept();
        if shared.is_ending.load(Ordering::Acquire) {
            break;
        }
        serving.retain(|thread| !thread.is_finished());
        let client = match accepted {
            Ok((client, _)) if serving.len() < CONNECTIONS_MAX => client,
            Ok((client, _)) => {
                let why = "the server does other work; try again in a moment";
                refuse(shared.pool.id(), client, Refusal::new(Kind::InUse, why));
                continue;
            }
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "a client of the control socket was not accepted");
                SystemClock.sleep(REST);
                continue;
            }
        };
        let sharing = Arc::clone(shared);
        let started = thread::Builder::new()
            .name("control client".to_owned())
            .spawn(move || serve(&sharing, client));
        match started {
            Ok(thread) => serving.push(thread),
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "a client of the control socket was not served")
            }
        }
    }
    for thread in serving {
        if thread.join().is_err() {
            tracing::error!(target: TARGET, "a thread of the control socket panicked");
        }
    }
}

/// Tells a client that its request is not done. It may have gone.
fn refuse(pool: PoolId, client: UnixStream, refusal: Refusal) {
    if let Ok(mut lines) = Lines::new(client, &SystemClock) {
        drop(lines.send(&Hello::of_server(pool)));
        drop(lines.send(&Told::Error(refusal)));
    }
}

fn serve(shared: &Shared, client: UnixStream) {
    let who = rustix::net::sockopt::socket_peercred(&client);
    if !who.is_ok_and(|who| who.uid.is_root() || who.uid == rustix::process::geteuid()) {
        tracing::warn!(target: TARGET, "another user was refused at the control socket");
        return;
    }
    let Ok(end) = client.try_clone() else { return };
    if let Err(refusal) = converse(shared, client) {
        tracing::warn!(target: TARGET, %refusal, "a client of the control socket was refused");
    }
    drop(end.shutdown(Shutdown::Both));
}

/// One request and its answer.
fn converse(shared: &Shared, client: UnixStream) -> Result<(), Refusal> {
    let clock = SystemClock;
    let gone = |error: io::Error| Refusal::new(Kind::Protocol, format!("the client has gone: {error}"));
    let mut lines = Lines::new(client, &clock).map_err(gone)?;
    lines.send(&Hello::of_server(shared.pool.id())).map_err(gone)?;
    let mut goes_on = |waited: Duration| waited < REQUEST_TIME && !shared.is_ending.load(Ordering::Acquire);
    let request = lines
        .receive::<Hello>(REQUEST_BYTES_MAX, &mut goes_on)
        .and_then(|hello| match hello.onefold_control {
            VERSION => lines.receive::<Request>(REQUEST_BYTES_MAX, &mut goes_on),
            other => Err(Refusal::new(
                Kind::Newer,
                format!(
                    "the server speaks version {VERSION} of the control socket, and this program {other}"
                ),
            )),
        });
    let request = match request {
        Ok(request) => request,
        Err(refusal) => {
            drop(lines.send(&Told::Error(refusal.clone())));
            return Err(refusal);
        }
    };
    tracing::info!(target: TARGET, ?request, "a request at the control socket");
    let mut last = clock.monotonic();
    let mut progress = |done, total| {
        if shared.is_ending.load(Ordering::Acquire) {
            return false;
        }
        let now = clock.monotonic();
        if now.saturating_sub(last) < PROGRESS_PAUSE {
            return true;
        }
        last = now;
        // A client that has gone wants no more of it.
        lines.send(&Told::Progress { done, total }).is_ok()
    };
    let site = Site {
        pool: &shared.pool,
        served: Some(&shared.exports),
    };
    let told = match site.perform(&request, &mut progress) {
        Ok(answer) => Told::Answer(answer),
        Err(refusal) if refusal.kind == Kind::Interrupted => {
            let why = "the server of the pool ended meanwhile; run the command again";
            Told::Error(Refusal::new(Kind::Failed, why))
        }
        Err(refusal) => Told::Error(refusal),
    };
    lines.send(&told).map_err(gone)
}

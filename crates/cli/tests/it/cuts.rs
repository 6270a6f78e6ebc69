//! The network is cut at every frame of an operation: the operation goes on over another
//! connection, and its result is the same (B6).
//!
//! Client and server run in this process, with a relay between their sockets that counts frames.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use client::{RemoteRepository, Target};
use onefold::repository::Repository;
use onefold::{
    AssembleOptions, BackupOptions, BackupReport, Clock, Credential, Entropy, Filter, InitOptions, Monitor,
    OpenOptions, ReaderSource, SessionId, StreamOptions, StreamOutput, SystemClock, SystemEntropy, TreeError,
    TreeOptions, UnixNanos, operations,
};
use server::{Granted, Home, Rights, Server, SocketListener};
use transport::Channel;

use crate::bed::noise;

/// A clock whose pauses are short.
#[derive(Debug)]
struct Hasty(SystemClock);

impl Clock for Hasty {
    fn wall(&self) -> UnixNanos {
        self.0.wall()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn monotonic_with_suspend(&self) -> Duration {
        self.0.monotonic_with_suspend()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time.min(Duration::from_millis(5)));
    }
}

/// A server, and a relay in front of its socket.
pub(crate) struct Wire {
    folder: tempfile::TempDir,
    server: Arc<Server>,
    _listener: SocketListener,
    pub(crate) relay: Arc<Relay>,
}

/// Forwards frames, and cuts a connection instead of forwarding one of them.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    frames: AtomicU64,
    /// How often the client has spoken after the server has.
    pub(crate) turns: AtomicU64,
    server_spoke: AtomicBool,
    /// The number of the frame at which it cuts. 0: none.
    cut_at: AtomicU64,
    /// Forwards this frame before it cuts.
    is_late: AtomicBool,
}

impl Relay {
    /// Forwards frames in one direction until it ends, or is cut.
    fn forward(&self, is_client: bool, mut from: UnixStream, mut to: UnixStream) {
        let mut frame = Vec::new();
        loop {
            frame.resize(4, 0);
            if from.read_exact(&mut frame).is_err() {
                break;
            }
            let len = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
            frame.resize(4 + len, 0);
            if from.read_exact(&mut frame[4..]).is_err() {
                break;
            }
            if self.server_spoke.swap(!is_client, Ordering::SeqCst) && is_client {
                self.turns.fetch_add(1, Ordering::SeqCst);
            }
            let number = self.frames.fetch_add(1, Ordering::SeqCst) + 1;
            let is_cut = self
                .cut_at
                .compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst);
            let is_cut = is_cut.is_ok();
            let forwards = !is_cut || self.is_late.load(Ordering::SeqCst);
            if forwards && to.write_all(&frame).is_err() || is_cut {
                break;
            }
        }
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }
}

/// Serves a client by a server of its own, as `ssh` does. Returns the client's end.
fn tunnel(folder: &Path) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let home = Home::open(folder).unwrap();
    thread::spawn(move || {
        let options = OpenOptions::default();
        let server = Server::open_on_demand(home, &Credential::None, &options, 0).unwrap();
        let granted = Granted {
            namespace: Some("web".to_owned()),
            rights: Rights::ALL,
        };
        // The client may be cut.
        drop(server.serve_tunnel(Channel::from(theirs), granted));
    });
    ours
}

impl Wire {
    /// With one server for all connections.
    pub(crate) fn new() -> Self {
        Self::with(|folder| UnixStream::connect(folder.join("server")).unwrap())
    }

    /// With a relay that reaches servers in this way.
    fn with(reach: impl Fn(&Path) -> UnixStream + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let options = InitOptions::default().reserve_bytes(0);
        let (home, _) = Home::init(&path("srv"), &Credential::None, &options).unwrap();
        home.ensure_namespace("web", None).unwrap();
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        let server = Arc::new(server);
        let listener = SocketListener::start(&server, &path("server")).unwrap();
        let relay = Arc::new(Relay::default());
        let (accepting, forwarding) = (UnixListener::bind(path("relay")).unwrap(), Arc::clone(&relay));
        let to = folder.path().to_owned();
        thread::spawn(move || {
            for client in accepting.incoming() {
                let (client, server) = (client.unwrap(), reach(&to));
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (one, other) = (Arc::clone(&forwarding), Arc::clone(&forwarding));
                thread::spawn(move || one.forward(true, client, server));
                thread::spawn(move || other.forward(false, back, forth));
            }
        });
        Self {
            folder,
            server,
            _listener: listener,
            relay,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn repository(&self) -> RemoteRepository {
        let address = format!("unix://{}/web", self.path("relay").display());
        let target = Target::Tunnel {
            tunnel: address.parse().unwrap(),
            ssh: "ssh".into(),
        };
        let clock: Arc<dyn Clock> = Arc::new(Hasty(SystemClock));
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let opened = client::open(target, &clock, &entropy).unwrap();
        opened.into_repository().unwrap()
    }

    /// Runs the operation again and again, each time with a cut at the next frame, until it ends
    /// before the cut. `run` gets the number of the frame.
    fn cut_everywhere(&self, mut run: impl FnMut(u64, &RemoteRepository)) -> u64 {
        for number in 1.. {
            let repository = self.repository();
            self.relay.frames.store(0, Ordering::SeqCst);
            self.relay.cut_at.store(number, Ordering::SeqCst);
            run(number, &repository);
            if self.relay.cut_at.swap(0, Ordering::SeqCst) != 0 {
                return number;
            }
        }
        unreachable!("the operation ends")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.server.end(Duration::from_secs(5));
    }
}

fn host(number: u64) -> BackupOptions {
    BackupOptions::default().host(format!("h{number}"))
}

fn back_up(repository: &dyn Repository, number: u64, bytes: &[u8]) -> BackupReport {
    operations::back_up_stream(
        repository,
        &host(number),
        Path::new("/stream"),
        &StreamOptions::default(),
        &mut ReaderSource(bytes),
        &Monitor::default(),
    )
    .unwrap_or_else(|error| panic!("cut at frame {number}: {error}"))
}

/// The bytes that a dump writes.
#[derive(Default)]
struct Collected(Vec<u8>);

impl StreamOutput for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.0.resize(self.0.len() + usize::try_from(len).unwrap(), 0);
        Ok(())
    }
}

fn dumped(repository: &dyn Repository, backup: SessionId, monitor: &Monitor) -> Vec<u8> {
    let snapshot = repository.find(&backup.to_string(), &Filter::default()).unwrap();
    let mut out = Collected::default();
    operations::dump(
        repository,
        &snapshot,
        None,
        &mut out,
        AssembleOptions::default(),
        monitor,
    )
    .unwrap();
    out.0
}

#[test]
fn a_stream_goes_on_wherever_the_network_is_cut() {
    stream_goes_on(&Wire::new());
}

/// Over a tunnel each connection has a server of its own. The first one may still commit when the
/// second one is asked whether it has.
#[test]
fn a_stream_over_tunnels_goes_on_wherever_they_are_cut() {
    for is_late in [false, true] {
        let wire = Wire::with(|folder| tunnel(&folder.join("srv")));
        wire.relay.is_late.store(is_late, Ordering::SeqCst);
        stream_goes_on(&wire);
    }
}

fn stream_goes_on(wire: &Wire) {
    let bytes = noise(5 << 20, 1);
    let cuts = wire.cut_everywhere(|number, repository| {
        // The first one stores the bytes, and the others find them: both kinds are cut.
        let own = [&bytes[..3 << 20], &noise(2 << 20, number)].concat();
        let made = back_up(repository, number, &own);
        assert!(dumped(repository, made.id, &Monitor::default()) == own);
    });
    assert!(cuts > 8, "{cuts}");
    let repository = wire.repository();
    let list = repository.snapshots().unwrap().snapshots;
    for number in 1..=cuts {
        let name = format!("h{number}");
        let own = list
            .iter()
            .filter(|one| one.backup.series.host == name.as_bytes());
        assert_eq!(own.count(), 1, "backups after a cut at frame {number} of {cuts}");
    }
}

#[test]
fn a_tree_goes_on_wherever_the_network_is_cut() {
    let wire = Wire::new();
    let tree = wire.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20 {
        fs::write(tree.join(number.to_string()), noise(100_000, number)).unwrap();
    }
    let options = TreeOptions::default().paths(vec![tree.clone()]);
    let cuts = wire.cut_everywhere(|number, repository| {
        fs::write(tree.join("3"), noise(200_000, 100 + number)).unwrap();
        let monitor = Monitor::default();
        // The parent's listing cannot be read over a connection that is cut.
        let mut faults = |fault: &TreeError| assert!(fault.to_string().contains("connection"), "{fault}");
        operations::back_up_tree(repository, &host(1), &options, &monitor, &mut faults)
            .unwrap_or_else(|error| panic!("cut at frame {number}: {error}"));
        assert_eq!(
            repository.snapshots().unwrap().snapshots.len() as u64,
            number,
            "backups after a cut at frame {number}"
        );
    });
    assert!(cuts > 8, "{cuts}");
}

#[test]
fn a_restore_goes_on_wherever_the_network_is_cut() {
    let wire = Wire::new();
    let bytes = noise(5 << 20, 1);
    let made = back_up(&wire.repository(), 1, &bytes);
    let cuts = wire.cut_everywhere(|number, repository| {
        let monitor = Monitor::default();
        assert!(
            dumped(repository, made.id, &monitor) == bytes,
            "cut at frame {number}"
        );
    });
    assert!(cuts > 6, "{cuts}");
}

//! Recordings of real backups and restores, replayed to copies of a server's folder.

use std::fs;
use std::io::{self, Cursor};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use client::{RemoteRepository, Target};
use env::{Clock, Entropy, SystemClock};
use onefold::repository::Repository;
use onefold::{
    AssembleOptions, BackupOptions, Credential, InitOptions, Monitor, OpenOptions, ReaderSource, Snapshot,
    StreamOptions, StreamOutput, operations,
};
use server::{Home, Server, SocketListener};
use tempfile::TempDir;
use transport::{Tunnel, TunnelEnd};
use wire::{reply, request};

use super::{
    Event, Frame, Recorded, RecordingReader, RecordingWriter, Replay, Replayed, Side, record, replay,
};
use crate::error::LabError;
use crate::rng::noise;

const NAMESPACE: &str = "web";

/// Servers' folders, sockets and recordings.
struct Bed(TempDir);

/// A server that listens on a socket.
struct Serving {
    server: Arc<Server>,
    _listener: SocketListener,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.end(Duration::from_secs(5));
    }
}

impl Bed {
    fn new() -> Self {
        let bed = Self(TempDir::new().unwrap());
        bed.init("server");
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn init(&self, name: &str) {
        let options = InitOptions::default().reserve_bytes(0);
        let (home, _) = Home::init(&self.path(name), &Credential::None, &options).unwrap();
        home.ensure_namespace(NAMESPACE, None).unwrap();
    }

    /// Serves a folder on the socket `NAME.socket`.
    fn serve(&self, name: &str) -> Serving {
        let home = Home::open(&self.path(name)).unwrap();
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        let server = Arc::new(server);
        let listener = SocketListener::start(&server, &self.socket(name)).unwrap();
        Serving {
            server,
            _listener: listener,
        }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.socket"))
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.path(from), &self.path(to));
    }

    /// Records what a client does with a server's namespace.
    fn record(&self, server: &str, file: &str, client: impl FnOnce(&RemoteRepository)) -> Recorded {
        let (relay, to, over) = (self.path("relay"), self.socket(server), AtomicBool::new(false));
        let out = fs::File::create(self.path(file)).unwrap();
        let writer = RecordingWriter::new(file, out).unwrap();
        thread::scope(|scope| {
            let recording = scope.spawn(|| record(&relay, &to, writer, &over));
            while !relay.exists() {
                SystemClock.sleep(Duration::from_millis(5));
            }
            client(&dial(&relay));
            over.store(true, Ordering::Relaxed);
            recording.join().unwrap().unwrap()
        })
    }

    fn replay(&self, files: &[&str], server: &str, streams: usize) -> Result<Replayed, LabError> {
        let what = Replay {
            files: files.iter().map(|file| self.path(file)).collect(),
            to: self.socket(server),
            streams,
            namespace: None,
            patience: Duration::from_secs(5),
        };
        replay(&what, &AtomicBool::new(false), &AtomicU64::new(0))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn dial(socket: &Path) -> RemoteRepository {
    let tunnel = Tunnel {
        end: TunnelEnd::Socket(socket.to_owned()),
        namespace: NAMESPACE.to_owned(),
    };
    let target = Target::Tunnel {
        tunnel,
        ssh: "ssh".into(),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(env::SystemEntropy);
    let opened = client::open(target, &clock, &entropy).unwrap();
    opened.into_repository().unwrap()
}

/// A stream: random bytes, with a repetition.
fn stream(sequence: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    noise(sequence, 0, &mut bytes);
    bytes.extend_from_within(..len / 4);
    bytes
}

fn back_up(to: &dyn Repository, host: &str, bytes: &[u8]) {
    let options = BackupOptions::default().host(host);
    let mut source = ReaderSource(Cursor::new(bytes));
    let (name, stream, monitor) = (Path::new("stream"), StreamOptions::default(), Monitor::default());
    operations::back_up_stream(to, &options, name, &stream, &mut source, &monitor).unwrap();
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl StreamOutput for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.0.resize(self.0.len() + usize::try_from(len).unwrap(), 0);
        Ok(())
    }
}

fn dump(from: &dyn Repository, backup: &Snapshot) -> Vec<u8> {
    let (mut out, monitor) = (Bytes::default(), Monitor::default());
    operations::dump(
        from,
        backup,
        None,
        &mut out,
        AssembleOptions::for_cores(1),
        &monitor,
    )
    .unwrap();
    out.0
}

fn backups(of: &dyn Repository) -> Vec<Snapshot> {
    of.snapshots().unwrap().snapshots
}

/// Hosts, without repetition.
fn hosts(backups: &[Snapshot]) -> Vec<String> {
    let host = |one: &Snapshot| String::from_utf8(one.backup.series.host.clone()).unwrap();
    let mut hosts: Vec<_> = backups.iter().map(host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

#[test]
fn a_replayed_backup_is_the_recorded_one() {
    let bed = Bed::new();
    let mut bytes = stream(1, 5 << 20);
    let serving = bed.serve("server");
    back_up(&dial(&bed.socket("server")), "one", &bytes);
    drop(serving);
    bed.copy("server", "copy");
    // Some of the stream changes.
    bytes[1 << 20..][..300_000].copy_from_slice(&stream(2, 300_000)[..300_000]);
    let serving = bed.serve("server");
    let made = bed.record("server", "file", |client| back_up(client, "one", &bytes));
    assert_eq!((made.connections, made.cut), (1, 0));
    let expected = backups(&dial(&bed.socket("server")));
    drop(serving);

    let _serving = bed.serve("copy");
    let replayed = bed.replay(&["file"], "copy", 1).unwrap();
    assert_eq!(replayed.bytes_logical, bytes.len() as u64);
    assert!(
        replayed.bytes_sent > 300_000 && replayed.bytes_sent < 1 << 20,
        "{replayed:?}"
    );
    let client = dial(&bed.socket("copy"));
    let found = backups(&client);
    assert_eq!((expected.len(), found.len()), (2, 2));
    let (one, other) = (&expected[1].backup, &found[1].backup);
    assert_eq!((&one.series, one.totals), (&other.series, other.totals));
    assert_eq!(one.streams[0].fingerprint, other.streams[0].fingerprint);
    assert!(dump(&client, &found[1]) == bytes);

    // The copy knows the data now, and so decides otherwise.
    let error = bed.replay(&["file"], "copy", 1).unwrap_err().to_string();
    assert!(error.contains("when recorded it was"), "{error}");
    // Another server has other keys.
    bed.init("other");
    let _other = bed.serve("other");
    let error = bed.replay(&["file"], "other", 1).unwrap_err().to_string();
    assert!(error.contains("other keys"), "{error}");
}

/// Streams have series of their own: recorded ones, and copies of them.
#[test]
fn streams_run_at_the_same_time() {
    let bed = Bed::new();
    bed.copy("server", "empty");
    let files: Vec<String> = (0..4).map(|n| format!("file-{n}")).collect();
    let serving = bed.serve("server");
    let streams: Vec<Vec<u8>> = (0..4).map(|n| stream(10 + n, 1 << 20)).collect();
    for (n, file) in files.iter().enumerate() {
        let host = format!("host-{n}");
        bed.record("server", file, |client| back_up(client, &host, &streams[n]));
    }
    drop(serving);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let known = ["unchanged", "read"];
    {
        let _serving = bed.serve("empty");
        let replayed = bed.replay(&files, "empty", 3).unwrap();
        let bytes: usize = streams.iter().map(Vec::len).sum();
        assert_eq!((replayed.recordings, replayed.bytes_logical), (4, bytes as u64));
        // What the store knows can be replayed any number of times.
        bed.record("empty", known[0], |client| back_up(client, "host-2", &streams[2]));
        bed.replay(&known[..1], "empty", 3).unwrap();
        let client = dial(&bed.socket("empty"));
        let all = backups(&client);
        assert_eq!(
            hosts(&all),
            ["host-0", "host-1", "host-2", "host-2-1", "host-2-2", "host-3"]
        );
        for one in &all {
            let host = String::from_utf8(one.backup.series.host.clone()).unwrap();
            let number = usize::from(host.as_bytes()[5] - b'0');
            assert!(dump(&client, one) == streams[number], "{host}");
        }
        // A restore is replayed, too.
        bed.record("empty", known[1], |client| drop(dump(client, &all[1])));
        let read = bed.replay(&known[1..], "empty", 5).unwrap();
        assert_eq!(read.bytes_logical, 5 * streams[1].len() as u64);
        assert!(read.bytes_received > 5 << 20, "{read:?}");
    }
}

/// A server that says nothing.
#[test]
fn a_silent_server_ends_the_replay() {
    let bed = Bed::new();
    let serving = bed.serve("server");
    bed.record("server", "file", |client| drop(backups(client)));
    drop(serving);
    let silent = UnixListener::bind(bed.socket("silent")).unwrap();
    let what = Replay {
        files: vec![bed.path("file")],
        to: bed.socket("silent"),
        streams: 1,
        namespace: Some("other".to_owned()),
        patience: Duration::from_millis(200),
    };
    let error = replay(&what, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_err();
    assert!(error.to_string().contains("did not come"), "{error}");
    let error = replay(&what, &AtomicBool::new(true), &AtomicU64::new(0)).unwrap_err();
    assert!(error.is_interrupted(), "{error}");
    drop(silent);
    let error = replay(&what, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap_err();
    assert!(error.to_string().contains("cannot reach"), "{error}");
}

fn small() -> Vec<u8> {
    let mut writer = RecordingWriter::new("small", Vec::new()).unwrap();
    let frame = |kind, number| Frame {
        kind,
        number,
        body: b"body".to_vec(),
    };
    writer.opened(0).unwrap();
    writer.sent(0, Side::Client, &frame(request::LIST, 1)).unwrap();
    writer.sent(0, Side::Server, &frame(reply::ANSWER, 1)).unwrap();
    writer.closed(0).unwrap();
    writer.finish().unwrap().1
}

fn read(bytes: &[u8]) -> Result<Vec<Event>, LabError> {
    let mut reader = RecordingReader::new("small", bytes)?;
    let mut events = Vec::new();
    while let Some(record) = reader.next_record()? {
        assert_eq!(record.connection, 0);
        events.push(record.event);
    }
    Ok(events)
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let bytes = small();
    assert_eq!(
        bytes[..23],
        *b"onerec01O\0\0\0\0C\0\0\0\0\x09\0\0\0\x04",
        "the golden vector"
    );
    let events = read(&bytes).unwrap();
    assert!(matches!(
        events[..],
        [
            Event::Opened,
            Event::Sent(Side::Client, Frame { number: 1, .. }),
            Event::Sent(Side::Server, _),
            Event::Closed
        ]
    ));
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    let error = read(&[&bytes[..], b"x"].concat()).unwrap_err().to_string();
    assert!(error.contains("behind the end"), "{error}");
    let mut other = bytes;
    let last = other.len() - 8;
    other[last] += 1;
    assert!(read(&other).unwrap_err().to_string().contains("number of frames"));
}

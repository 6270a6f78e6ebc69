//! A server's clients, recorded and replayed, and virtual full backups.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::Target;
use onefold::{
    BackupOptions, Credential, InitOptions, Monitor, OpenOptions, ReaderSource, StreamOptions, SystemClock,
    operations,
};
use rustix::process::Signal;
use server::{Home, Server, SocketListener};

use crate::bed::{Bed, Ran, last, noise, signal, wait_until};

/// A server that listens on the socket `NAME.socket`.
struct Serving {
    server: Arc<Server>,
    _listener: SocketListener,
}

impl Serving {
    fn start(bed: &Bed, name: &str) -> Self {
        let home = Home::open(&bed.path(name)).unwrap();
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        let server = Arc::new(server);
        let listener = SocketListener::start(&server, &bed.path(format!("{name}.socket"))).unwrap();
        Self {
            server,
            _listener: listener,
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.end(Duration::from_secs(5));
    }
}

fn init(bed: &Bed, name: &str) {
    let options = InitOptions::default().reserve_bytes(0);
    let (home, _) = Home::init(&bed.path(name), &Credential::None, &options).unwrap();
    home.ensure_namespace("web", None).unwrap();
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

fn place(bed: &Bed, socket: &str) -> String {
    format!("unix://{}/web", bed.path(socket).display())
}

fn back_up(place: &str, bytes: &[u8]) {
    let target = Target::Tunnel {
        tunnel: place.parse().unwrap(),
        ssh: "ssh".into(),
    };
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn onefold::Entropy> = Arc::new(onefold::SystemEntropy);
    let opened = client::open(target, &clock, &entropy).unwrap();
    let to = opened.into_repository().unwrap();
    let options = BackupOptions::default().host("host");
    let (stream, monitor) = (StreamOptions::default(), Monitor::default());
    let mut source = ReaderSource(Cursor::new(bytes));
    operations::back_up_stream(&to, &options, Path::new("stdin"), &stream, &mut source, &monitor).unwrap();
}

/// Runs the recorder beside what the client does.
fn record(bed: &Bed, file: &str, client: impl FnOnce(&str)) -> Ran {
    let args = [
        "record",
        "--listen",
        "relay",
        "--to",
        "server.socket",
        "--json",
        file,
    ];
    let child = bed.command(args).spawn().unwrap();
    wait_until(|| bed.path("relay").exists());
    client(&place(bed, "relay"));
    signal(&child, Signal::TERM);
    child.wait_with_output().unwrap().into()
}

#[test]
fn backups_are_recorded_and_replayed() {
    let bed = Bed::new();
    init(&bed, "server");
    let mut bytes = noise(3 << 20, 1);
    let serving = Serving::start(&bed, "server");
    back_up(&place(&bed, "server.socket"), &bytes);
    drop(serving);
    copy(&bed.path("server"), &bed.path("copy"));
    let serving = Serving::start(&bed, "server");

    // A virtual full backup: two parts of the first one in another order, and new bytes.
    let new = noise(50_000, 2);
    bytes = [&bytes[2 << 20..], &new, &bytes[..2 << 20]].concat();
    fs::write(bed.path("data"), &bytes).unwrap();
    let list = format!("copy {} {}\ndata 50000\ncopy 0 {}\n", 2 << 20, 1 << 20, 2 << 20);
    fs::write(bed.path("pieces"), list).unwrap();
    let synthesize = |place: &str| {
        let args = [
            "synthesize",
            "-r",
            place,
            "-H",
            "host",
            "--pieces",
            "pieces",
            "--json",
            "data",
        ];
        bed.run(args)
    };
    let ran = record(&bed, "file", |place| {
        let made = last(&synthesize(place).expect(0));
        assert_eq!(
            (&made["bytes"], &made["bytes_read"]),
            (&bytes.len().into(), &50_000.into())
        );
        assert!(made["bytes_sent"].as_u64().unwrap() < 200_000, "{made}");
    });
    let recorded = last(&ran.expect(0));
    assert_eq!(
        (&recorded["connections"], &recorded["cut"]),
        (&1.into(), &0.into()),
        "{recorded}"
    );
    drop(serving);
    assert!(!bed.path("relay").exists());

    let _serving = Serving::start(&bed, "copy");
    let replay = |more: &[&str]| {
        let args = ["replay", "file", "--to", "copy.socket"];
        bed.run(args.iter().chain(more))
    };
    let replayed = last(&replay(&["--json"]).expect(0));
    assert_eq!(replayed["bytes"], bytes.len(), "{replayed}");
    replay(&[])
        .expect(1)
        .says(&["file, connection 0: ", "when recorded"]);
    replay(&["--namespace", "none"])
        .expect(1)
        .says(&["file, connection 0: "]);
    replay(&["--streams", "0"]).expect(2);

    // The whole file follows from its pieces.
    fs::write(bed.path("pieces"), "copy 0 5\n").unwrap();
    synthesize("unix:///none/web").expect(1).says(&["cannot reach"]);
    synthesize(&place(&bed, "copy.socket"))
        .expect(1)
        .says(&["the pieces have 5"]);
    fs::write(bed.path("pieces"), "move 0 5\n").unwrap();
    synthesize(&place(&bed, "copy.socket"))
        .expect(1)
        .says(&["pieces, line 1: `move 0 5`"]);
    fs::write(bed.path("empty"), b"").unwrap();
    bed.run(["replay", "empty", "--to", "copy.socket"])
        .expect(1)
        .says(&["empty, at byte 0: the recording ends too early"]);
}

#[test]
fn plots_are_drawn_from_results() {
    let bed = Bed::new();
    let line = "{\"kind\":\"plot\",\"experiment\":\"x\",\"name\":\"NAME\",\"title\":\"t\",\"subtitle\":\"s\",\
                \"x\":{\"label\":\"x\",\"scale\":\"doubling\"},\"y\":{\"label\":\"y\",\"scale\":\"linear\"},\
                \"series\":[{\"name\":\"one\",\"points\":[[1,2],[2,3.5]]}]}\n";
    let plot = |text: &str| {
        fs::write(bed.path("results"), text).unwrap();
        bed.run(["plot", "results", "-o", "plots"])
    };
    let named = |name| line.replace("NAME", name);
    plot(&format!("{{\"kind\":\"row\",\"what\":1}}\n{}", named("figure-1"))).expect(0);
    let drawn = fs::read_to_string(bed.path("plots/figure-1.svg")).unwrap();
    assert!(drawn.contains("<polyline"), "{drawn}");
    plot(&named("../figure")).expect(1).says(&["can be no name"]);
    plot("{\"kind\":\"row\"}\n").expect(1).says(&["no plot"]);
    plot("x\n").expect(1).says(&["results, line 1"]);
}

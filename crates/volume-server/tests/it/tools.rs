//! Programs of others as clients: qemu-img, qemu-io, nbdinfo, nbdcopy, libnbd in Python, and fio.
//! Where one is missing, its test says so and is skipped (`scripts/setup tests` installs them).
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on panics, and one that is skipped says so"
)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::{BLOCK, Served, pattern, serve};
use testfs::put_certificates;
use volume_server::{Export, Place, TlsIdentity, TlsSettings};

const SIZE: usize = 8 << 20;
/// The system's own, which finds the system's packages.
const PYTHON: &str = "/usr/bin/python3";

/// Whether a program can be run; says so if not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no {program}; scripts/setup tests installs it");
    }
    found
}

/// Runs a program for at most a minute, and returns whether it succeeded and what it printed.
fn try_run(program: &str, arguments: &[&str]) -> (bool, String) {
    let done = Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&done.stderr));
    (done.status.success(), text)
}

fn run(program: &str, arguments: &[&str]) -> String {
    let (is_ok, text) = try_run(program, arguments);
    assert!(is_ok, "{program} {arguments:?}: {text}");
    text
}

/// A device with data, a hole, and data.
fn planted() -> Served {
    let served = serve(SIZE, |_| {});
    served.export.write(0, &pattern(1, 3 << 20), false).unwrap();
    served.export.write(5 << 20, &pattern(2, 1 << 20), false).unwrap();
    served
}

#[test]
fn qemu_img() {
    if !has("qemu-img") {
        return;
    }
    let served = planted();
    let (uri, file) = (served.uri(), served.folder.path().join("image"));
    let file = file.to_str().unwrap();
    assert!(run("qemu-img", &["info", &uri]).contains("8 MiB"));
    let map = run("qemu-img", &["map", "--output=json", &uri]);
    let runs = |is_data: bool| map.matches(&format!("\"data\": {is_data}")).count();
    assert_eq!((runs(true), runs(false)), (2, 2), "{map}");
    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, file]);
    assert!(std::fs::read(file).unwrap() == served.export.bytes());
    assert!(run("qemu-img", &["compare", "-f", "raw", "-F", "raw", file, &uri]).contains("identical"));
    // Back, into an empty device.
    let other = serve(SIZE, |_| {});
    run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", file, &other.uri()],
    );
    assert!(other.export.bytes() == served.export.bytes());
    assert!(
        other.export.durable() == served.export.bytes(),
        "it flushes at its end"
    );
    served.export.write(7 << 20, &[1], false).unwrap();
    let (is_same, text) = try_run("qemu-img", &["compare", "-f", "raw", "-F", "raw", file, &uri]);
    assert!(!is_same, "{text}");
}

#[test]
fn qemu_io() {
    if !has("qemu-io") {
        return;
    }
    let served = planted();
    let commands = [
        "write -P 7 5000 10000",
        "read -P 7 5000 10000",
        "write -f -P 8 1M 2M",
        "read -P 8 1M 2M",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "write -z -u 2M 1M",
        "read -P 0 2M 1M",
        "discard 0 64k",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    for command in commands {
        arguments.extend(["-c", command]);
    }
    let uri = served.uri();
    arguments.push(&uri);
    let text = run("qemu-io", &arguments);
    assert!(!text.contains("failed") && !text.contains("error"), "{text}");
    assert!(served.export.bytes() == served.export.durable());
    served.export.fails_at.store(100, Ordering::SeqCst);
    let (_, text) = try_run("qemu-io", &["-f", "raw", "-c", "read 0 4096", &uri]);
    assert!(text.contains("Input/output error"), "{text}");
}

#[test]
fn nbdinfo() {
    if !has("nbdinfo") {
        return;
    }
    let served = planted();
    served
        .exports
        .0
        .lock()
        .unwrap()
        .insert("second".to_owned(), crate::common::MemoryExport::new(BLOCK));
    let uri = served.uri();
    let text = run("nbdinfo", &[&uri]);
    for said in [
        "export-size: 8388608",
        "can_multi_conn: true",
        "can_fua: true",
        "can_df: true",
        "can_fast_zero: true",
        "block_size_preferred: 4096",
        "base:allocation",
        "qemu:dirty-bitmap:all",
        "a device in memory",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let map = run("nbdinfo", &["--map", &uri]);
    let lines: Vec<Vec<&str>> = map
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        lines,
        [
            ["0", "3145728", "0"],
            ["3145728", "2097152", "3"],
            ["5242880", "1048576", "0"],
            ["6291456", "2097152", "3"]
        ]
    );
    assert!(run("nbdinfo", &["--map=qemu:dirty-bitmap:all", &uri]).contains("3145728    1"));
    assert!(run("nbdinfo", &["--list", &uri]).contains("export=\"second\""));
}

#[test]
fn nbdcopy() {
    if !has("nbdcopy") {
        return;
    }
    let served = planted();
    for micros in [0, 500] {
        served.export.micros.store(micros, Ordering::SeqCst);
        let file = served.folder.path().join("copy");
        run(
            "nbdcopy",
            &[
                "--connections=4",
                "--requests=32",
                &served.uri(),
                file.to_str().unwrap(),
            ],
        );
        assert!(std::fs::read(&file).unwrap() == served.export.bytes());
        let other = serve(SIZE, |_| {});
        other.export.micros.store(micros, Ordering::SeqCst);
        run(
            "nbdcopy",
            &["--connections=4", "--flush", file.to_str().unwrap(), &other.uri()],
        );
        assert!(other.export.durable() == served.export.bytes());
    }
}

#[test]
fn libnbd() {
    const SCRIPT: &str = r#"
import nbd, os, sys
h = nbd.NBD()
h.set_strict_mode(0)
h.set_full_info(True)
h.add_meta_context("base:allocation")
h.connect_uri(sys.argv[1])
assert h.get_structured_replies_negotiated()
assert h.get_size() == 8 << 20 and h.can_meta_context("base:allocation")
assert h.get_export_description() == "a device in memory"
h.pwrite(b"x" * 100000, 12345, nbd.CMD_FLAG_FUA)
assert h.pread(100000, 12345) == b"x" * 100000
assert h.pread(60000, 20000, nbd.CMD_FLAG_DF) == b"x" * 60000
chunks = []
def chunk(data, offset, status, error):
    chunks.append((offset, len(data), status))
h.pread_structured(3 << 20, 0, chunk)
assert sum(c[1] for c in chunks) == 3 << 20 and all(c[2] == nbd.READ_DATA for c in chunks)
chunks.clear()
h.pread_structured(8 << 20, 0, chunk)
assert sorted(c[0] for c in chunks) == [c[0] for c in chunks] and sum(c[1] for c in chunks if c[2] == nbd.READ_DATA) == 4 << 20
chunks.clear()
assert h.pread_structured(100000, (3 << 20) - 50000, chunk) == h.pread(100000, (3 << 20) - 50000)
assert [c[2] for c in chunks] == [nbd.READ_DATA, nbd.READ_HOLE], chunks
chunks.clear()
h.pread_structured(100000, (3 << 20) - 50000, chunk, nbd.CMD_FLAG_DF)
assert [c[2] for c in chunks] == [nbd.READ_DATA]
extents = []
h.block_status(8 << 20, 0, lambda context, offset, found, error: extents.append((context, found)))
assert extents[0][0] == "base:allocation" and len(extents[0][1]) == 8, extents
for (call, error) in [
    (lambda: h.pread(1, 8 << 20), "EINVAL"),
    (lambda: h.pwrite(b"1", 8 << 20), "ENOSPC"),
    (lambda: h.pread(1, 0, nbd.CMD_FLAG_FAST_ZERO), "EINVAL"),
    (lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE), "ENOTSUP"),
]:
    try:
        call()
        raise SystemExit("it did not fail")
    except nbd.Error as found:
        assert found.errno == error, (found.errno, error)
cookies = [h.aio_pread(nbd.Buffer(4096), i * 4096) for i in range(200)]
while cookies:
    cookies = [c for c in cookies if not h.aio_command_completed(c)]
    if cookies:
        h.poll(1000)
h.cache(1 << 20, 0)
h.trim(1 << 20, 0)
h.flush()
h.shutdown()
"#;
    if !Path::new(PYTHON).exists() || !try_run(PYTHON, &["-c", "import nbd"]).0 {
        eprintln!("skipped: there is no python3-libnbd; scripts/setup tests installs it");
        return;
    }
    let served = planted();
    run(PYTHON, &["-c", SCRIPT, &served.uri()]);
    assert!(served.export.bytes() == served.export.durable());
}

#[test]
fn fio_verifies_what_it_writes() {
    if !has("fio") {
        return;
    }
    for micros in [0, 200] {
        let served = serve(SIZE, |_| {});
        served.export.micros.store(micros, Ordering::SeqCst);
        let uri = format!("--uri={}", served.uri());
        let folder = format!("--aux-path={}", served.folder.path().display());
        let usual = [
            "--name=x",
            "--ioengine=nbd",
            &uri,
            &folder,
            "--rw=randwrite",
            "--bsrange=512-128k",
        ];
        let rest = [
            "--bs_unaligned=1",
            "--iodepth=16",
            "--size=8m",
            "--verify=crc32c",
            "--verify_fatal=1",
        ];
        let text = run("fio", &[&usual[..], &rest[..]].concat());
        assert!(text.contains("err= 0"), "{text}");
    }
}

/// A server with TLS on a network's socket. Returns its port, too.
fn secured(folder: &Path, is_required: bool, names_clients: bool) -> (Served, u16) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let authority = read("ca-cert.pem");
    let authority = names_clients.then_some(&authority[..]);
    let identity = TlsIdentity::from_pem(
        &read("server-cert.pem"),
        &read("server-key.pem"),
        authority,
        &crate::common::clock(),
    );
    let served = serve(SIZE, |settings| {
        settings.places.push(Place::Tcp("127.0.0.1:0".to_owned()));
        settings.tls = Some(TlsSettings {
            identity: identity.unwrap(),
            is_required,
        });
    });
    served.export.write(0, &pattern(5, SIZE), false).unwrap();
    let port = served.server.addresses()[0].port();
    (served, port)
}

/// Nobody holds a place for a connection by sending the handshake byte by byte.
#[test]
fn a_slow_handshake_of_tls_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    put_certificates(folder.path());
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (chain, key) = (read("server-cert.pem"), read("server-key.pem"));
    let identity = TlsIdentity::from_pem(&chain, &key, None, &crate::common::clock()).unwrap();
    let served = serve(SIZE, |settings| {
        settings.handshake_time = std::time::Duration::from_millis(300);
        settings.tls = Some(TlsSettings {
            identity,
            is_required: true,
        });
    });
    let mut slow = served.connect();
    slow.read_exact(&mut [0; 18]).unwrap();
    let start_tls = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 5, 0, 0, 0, 0]].concat();
    slow.write_all(&start_tls).unwrap();
    slow.read_exact(&mut [0; 20]).unwrap();
    // A record of 512 bytes begins.
    let mut sent = 0;
    let mut next = [22, 3, 1, 2, 0, 1].into_iter().chain(std::iter::repeat(0));
    while slow.write_all(&[next.next().unwrap()]).is_ok() {
        crate::common::clock().sleep(std::time::Duration::from_millis(50));
        sent += 1;
        assert!(sent < 60, "the server waits on");
    }
}

#[test]
fn tls() {
    if !has("nbdinfo") || !has("nbdcopy") || !has("qemu-img") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    put_certificates(folder.path());
    let stranger = tempfile::tempdir().unwrap();
    std::fs::copy(
        folder.path().join("ca-cert.pem"),
        stranger.path().join("ca-cert.pem"),
    )
    .unwrap();
    let uri = |port: u16, folder: &tempfile::TempDir| {
        format!(
            "nbds://localhost:{port}/?tls-certificates={}",
            folder.path().display()
        )
    };
    let plain = |port: u16| format!("nbd://localhost:{port}/");
    for (is_required, names_clients) in [(false, false), (true, false), (true, true)] {
        let (served, port) = secured(folder.path(), is_required, names_clients);
        let text = run("nbdinfo", &[&uri(port, &folder)]);
        assert!(
            text.contains("with TLS") && text.contains("export-size: 8388608"),
            "{text}"
        );
        assert_eq!(try_run("nbdinfo", &[&plain(port)]).0, !is_required);
        assert_eq!(try_run("nbdinfo", &[&uri(port, &stranger)]).0, !names_clients);
        for micros in [0, 300] {
            served.export.micros.store(micros, Ordering::SeqCst);
            let file = served.folder.path().join("copy");
            run("nbdcopy", &[&uri(port, &folder), file.to_str().unwrap()]);
            assert!(std::fs::read(&file).unwrap() == served.export.bytes());
            served.export.write(0, &[0; 4096], false).unwrap();
            run(
                "nbdcopy",
                &["--flush", file.to_str().unwrap(), &uri(port, &folder)],
            );
            assert!(std::fs::read(&file).unwrap() == served.export.durable());
        }
        let object = format!(
            "tls-creds-x509,id=t,endpoint=client,dir={}",
            folder.path().display()
        );
        let image = format!("driver=nbd,host=localhost,port={port},tls-creds=t");
        let file = served.folder.path().join("copy");
        let compare = ["compare", "--object", &object, "--image-opts", &image];
        let target = format!("driver=raw,file.driver=file,file.filename={}", file.display());
        assert!(run("qemu-img", &[&compare[..], &[&target]].concat()).contains("identical"));
        assert!(served.server.stop(std::time::Duration::from_secs(10)));
    }
    // A server without TLS says so.
    let served = serve(SIZE, |settings| {
        settings.places.push(Place::Tcp("127.0.0.1:0".to_owned()))
    });
    assert!(!try_run("nbdinfo", &[&uri(served.server.addresses()[0].port(), &folder)]).0);
}

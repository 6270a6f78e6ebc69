//! What a server makes of those who do not keep to the rules of its control socket.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getuid};

use crate::bed::signal;
use crate::pooled::{Pooled, number};
use crate::sources::skip;

const HELLO: &str = "{\"onefold_control\":1}\n";

fn connect(pooled: &Pooled) -> UnixStream {
    UnixStream::connect(pooled.bed.path("pool.index/control")).unwrap()
}

/// Sends these bytes, and returns what the server says before it closes the connection.
fn told(pooled: &Pooled, bytes: &[u8]) -> String {
    let mut socket = connect(pooled);
    // The server may close it before it has read everything.
    socket.write_all(bytes).ok();
    socket.shutdown(Shutdown::Write).ok();
    let mut all = Vec::new();
    socket.read_to_end(&mut all).ok();
    String::from_utf8(all).unwrap()
}

#[test]
fn hostile_clients_learn_what_is_wrong_and_disturb_nobody() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    pooled.serve();
    let cases: [(Vec<u8>, &str); 9] = [
        (b"".to_vec(), "ended in the middle"),
        (b"\n".to_vec(), "not understood"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "not understood"),
        (b"{\"onefold_control\":2}\n\"stats\"\n".to_vec(), "newer"),
        (format!("{HELLO}\"stats\"").into_bytes(), "ended in the middle"),
        (format!("{HELLO}\"format_disk\"\n").into_bytes(), "not understood"),
        (
            format!("{HELLO}{{\"remove\":{{\"name\":\"a\",\"force\":true,\"all\":true}}}}\n").into_bytes(),
            "not understood",
        ),
        (vec![b'x'; 1 << 20], "too long"),
        ([HELLO.as_bytes(), &[0xff; 100], b"\n"].concat(), "not understood"),
    ];
    for (bytes, word) in cases {
        let said = told(&pooled, &bytes);
        assert!(said.starts_with("{\"onefold_control\":1,\"pool\":\""), "{said}");
        // A server that closes on unread bytes takes its last words with it.
        let lost = bytes.len() > 64 << 10 && said.lines().count() == 1;
        assert!(said.contains(word) || lost, "{word:?} in {said:?}");
    }
    // Deep nesting and numbers that fit nothing.
    let deep = format!("{HELLO}{}\n", "[".repeat(60_000));
    assert!(told(&pooled, deep.as_bytes()).contains("not understood"));
    let large = format!("{HELLO}{{\"grow\":{{\"bytes\":99999999999999999999}}}}\n");
    assert!(told(&pooled, large.as_bytes()).contains("not understood"));
    let huge = format!("{HELLO}{{\"grow\":{{\"bytes\":{}}}}}\n", u64::MAX);
    let said = told(&pooled, huge.as_bytes());
    assert!(said.contains("\"error\""), "{said}");
    // A name cannot forge a line of the answer.
    let forged = format!("{HELLO}{{\"remove\":{{\"name\":\"x\\n{{}}\",\"force\":true}}}}\n");
    assert_eq!(told(&pooled, forged.as_bytes()).lines().count(), 2);
    assert_eq!(
        told(&pooled, format!("{HELLO}\"stats\"\n").as_bytes())
            .lines()
            .count(),
        2
    );
    assert_eq!(number(&pooled.stats(), "logical_bytes"), 8 << 20);
    pooled.end();
    pooled.assert_sound();
}

#[test]
fn silent_clients_are_left_and_do_not_keep_the_server() {
    let mut pooled = Pooled::new();
    pooled.serve();
    let mut said = String::new();
    let mut silent: Vec<UnixStream> = Vec::new();
    // On a busy machine the server can leave those before a program starts: others come then.
    crate::bed::wait_until(|| {
        silent = (0..40).map(|_| connect(&pooled)).collect();
        // Sixteen are waited for; the others are told that there is other work.
        said.clear();
        (&silent[39]).read_to_string(&mut said).unwrap();
        assert!(said.contains("does other work"), "{said}");
        let ran = pooled.run(&["volume", "list", "pool"]);
        if ran.code == Some(1) {
            ran.says(&["does other work", "try again"]);
            return true;
        }
        ran.expect(0);
        false
    });
    let began = Instant::now();
    (&silent[0]).read_to_string(&mut said).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "it was left");
    crate::bed::wait_until(|| pooled.run(&["volume", "list", "pool"]).code == Some(0));
    // The server ends beside those that just came.
    let _more: Vec<UnixStream> = (0..10).map(|_| connect(&pooled)).collect();
    let began = Instant::now();
    pooled.end();
    assert!(began.elapsed() < Duration::from_secs(4), "it waits for nobody");
}

/// At the old path there may be another pool, with a server of its own.
#[test]
fn a_server_removes_its_socket_where_its_index_is_now() {
    let mut pooled = Pooled::new();
    pooled.serve();
    let (here, there) = (pooled.bed.path("pool.index"), pooled.bed.path("moved"));
    std::fs::rename(&here, &there).unwrap();
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("control"), "of another pool").unwrap();
    pooled.end_alone().expect(0);
    assert!(here.join("control").exists(), "it is not this server's");
    assert!(!there.join("control").exists(), "it was left");
}

#[test]
fn a_server_that_cannot_print_ends_in_order() {
    let pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    let (mut from, mut to) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&to, true).unwrap();
    let mut command = pooled.command(&["volume", "serve", "pool", "--listen", "unix:s"]);
    let mut child = command.stdout(to.try_clone().unwrap()).spawn().unwrap();
    from.read_exact(&mut [0; 8]).unwrap();
    // Nobody reads more, and no more fits.
    while to.write(b"x").is_ok() {}
    signal(&child, Signal::TERM);
    let ended = child.wait().unwrap();
    assert!(!ended.success(), "its last words were lost: {ended}");
    for left in ["s", "pool.index/control"] {
        assert!(!pooled.bed.path(left).exists(), "{left} was left");
    }
    pooled.assert_sound();
}

#[test]
fn another_user_is_not_served() {
    if !getuid().is_root() {
        skip("only the superuser can be another user");
        return;
    }
    let mut pooled = Pooled::new();
    pooled.serve();
    // Even if the folder is open to everybody.
    for (path, mode) in [("", 0o755), ("pool.index", 0o755), ("pool.index/control", 0o666)] {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(pooled.bed.path(path), permissions).unwrap();
    }
    let ask = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
               s.sendall(b'{\"onefold_control\":1}\\n\"stats\"\\n'); print(s.makefile().read())";
    let asked = std::process::Command::new("python3")
        .args(["-c", ask])
        .arg(pooled.bed.path("pool.index/control"))
        .uid(65534)
        .output();
    let Ok(asked) = asked else {
        skip("there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(!said.contains("onefold_control"), "{said}");
    pooled.end();
}

//! Volumes that a server serves: the same commands, through its control socket; clients, kills.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};

use nbd::CommandFlags;
use rustix::process::Signal;

use crate::bed::{last, lines, noise, signal, wait_until};
use crate::pooled::{MIB, Pooled, number};

const KIB: usize = 1024;

fn flags() -> CommandFlags {
    CommandFlags::default()
}

#[test]
fn every_command_works_on_a_served_pool_and_prints_the_same() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    pooled.serve();
    let steps: [&[&str]; 5] = [
        &["volume", "create", "pool", "b", "8M", "--interval", "1h"],
        &["volume", "set", "pool", "b", "--quiet-intervals", "0"],
        &["volume", "resize", "pool", "b", "16M"],
        &["volume", "resize", "pool", "b", "12M", "--force"],
        &["pool", "grow", "pool", "320M"],
    ];
    let served: Vec<String> = steps.iter().map(|args| pooled.ok(args).out()).collect();
    assert_eq!(pooled.stats()["is_served"], true);
    let list = pooled.ok(&["volume", "list", "pool"]).out();
    let errors = |pooled: &Pooled| {
        let failing: [&[&str]; 3] = [
            &["volume", "create", "pool", "a", "1M"],
            &["volume", "remove", "pool", "x"],
            &["volume", "resize", "pool", "b", "1M"],
        ];
        failing.map(|args| pooled.run(args).expect(1).err())
    };
    let refused = errors(&pooled);
    pooled.end();
    assert_eq!(pooled.stats()["is_served"], false);
    assert_eq!(pooled.ok(&["volume", "list", "pool"]).out(), list);
    assert_eq!(errors(&pooled), refused);
    pooled.ok(&["volume", "remove", "pool", "b"]);
    // The same steps without a server.
    for (args, served) in steps[..4].iter().zip(&served) {
        assert_eq!(&pooled.ok(args).out(), served, "{args:?}");
    }
    pooled.assert_sound();
}

#[test]
fn a_drain_shares_what_two_volumes_have_in_common() {
    let mut pooled = Pooled::new();
    for volume in ["a", "b"] {
        pooled.ok(&["volume", "create", "pool", volume, "32M"]);
    }
    pooled.serve();
    let image = noise(16 << 20, 1);
    for volume in ["a", "b"] {
        let mut client = pooled.client(volume);
        for (number, part) in image.chunks(1 << 20).enumerate() {
            client.write(number as u64 * MIB, part, flags()).unwrap();
        }
        client.flush().unwrap();
        client.close().unwrap();
    }
    let before = pooled.stats();
    assert_eq!(number(&before, "mapped_bytes"), 32 * MIB);
    assert_eq!(number(&before, "backlog_bytes"), 32 * MIB);
    assert_eq!(number(&before, "shared_bytes"), 0);
    let drained = last(&pooled.ok(&["volume", "drain", "pool", "--json"]));
    assert_eq!(drained["message_type"], "drained");
    assert_eq!(number(&drained, "examined_bytes"), 32 * MIB);
    assert_eq!(number(&drained, "shared_bytes"), 16 * MIB);
    let after = pooled.stats();
    for (field, bytes) in [
        ("mapped_bytes", 32 * MIB),
        ("shared_bytes", 16 * MIB),
        ("unique_bytes", 16 * MIB),
        ("space_at_risk_bytes", 16 * MIB),
        ("backlog_bytes", 0),
    ] {
        assert_eq!(number(&after, field), bytes, "{field} in {after}");
    }
    assert!(
        number(&after, "free_bytes") >= number(&before, "free_bytes") + 15 * MIB,
        "{before} {after}"
    );
    let volume = &after["volumes"][0];
    // The server divides long writes.
    assert!(number(&volume["writes"], "count") >= 16, "{volume}");
    assert_eq!(number(volume, "written_bytes"), 16 * MIB, "{volume}");
    assert!(volume["writes"]["p99_us"].as_f64().unwrap() > 0.0, "{volume}");
    let text = pooled.ok(&["pool", "stats", "pool"]).out();
    assert!(text.contains("16.0 MiB  of these are shared"), "{text}");
    assert!(text.contains(" writes of 16.0 MiB: half took"), "{text}");
    // A shared block is copied when it is written.
    let mut client = pooled.client("a");
    client.write(0, &noise(64 * KIB, 2), flags()).unwrap();
    client.write(0, &noise(64 * KIB, 3), flags()).unwrap();
    let after = pooled.stats();
    let volume = &after["volumes"][0];
    assert_eq!(number(volume, "blocks_copied"), 16, "{volume}");
    assert_eq!(number(volume, "connections"), 1, "{volume}");
    drop(client);
    pooled.end();
    // The same without a server: nothing is left to do but what was just written.
    let drained = last(&pooled.ok(&["volume", "drain", "pool", "a", "--json"]));
    assert_eq!(number(&drained, "examined_bytes"), 64 * KIB as u64);
    pooled.assert_sound();
    pooled
        .run(&["volume", "remove", "pool", "a"])
        .expect(1)
        .says(&["16.0 MiB of data", "--force"]);
    pooled.ok(&["volume", "remove", "pool", "a", "--force"]);
    let last = pooled.stats();
    assert_eq!(number(&last, "shared_bytes"), 0);
    assert_eq!(number(&last, "unique_bytes"), 16 * MIB);
    pooled.assert_sound();
}

#[test]
fn a_volume_that_a_client_has_open_is_not_removed_or_cut() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    pooled.serve();
    let mut client = pooled.client("");
    client.write(0, &noise(8 * KIB, 1), flags()).unwrap();
    for args in [
        &["volume", "remove", "pool", "a", "--force"][..],
        &["volume", "resize", "pool", "a", "4M", "--force"],
    ] {
        pooled
            .run(args)
            .expect(1)
            .says(&["a client has the volume \"a\" open", "detach"]);
    }
    pooled.ok(&["volume", "resize", "pool", "a", "12M"]);
    assert!(client.read(0, 8192).unwrap() == noise(8 * KIB, 1));
    client.close().unwrap();
    pooled.wait_for_no_client();
    assert_eq!(pooled.client("a").size_bytes, 12 * MIB);
    pooled.wait_for_no_client();
    pooled.ok(&["volume", "remove", "pool", "a", "--force"]);
    assert_eq!(number(&pooled.stats(), "mapped_bytes"), 0);
    pooled.end();
    pooled.assert_sound();
}

#[test]
fn commands_that_need_the_pool_alone_say_so() {
    let mut pooled = Pooled::new();
    pooled.serve();
    for (args, what) in [
        (&["pool", "check", "pool"][..], "`pool check`"),
        (&["volume", "recount", "pool"], "`volume recount`"),
    ] {
        pooled
            .run(args)
            .expect(1)
            .says(&["the pool is served", what, "onefold volume serve"]);
    }
    pooled
        .run(&["volume", "serve", "pool", "--listen", "unix:t"])
        .expect(1)
        .says(&["pool", "in use"]);
    pooled.end();
}

/// What was acknowledged before a kill is there after it, flushed or not.
#[test]
fn a_killed_server_loses_nothing_that_it_acknowledged() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "64M"]);
    let mut expected = vec![0u8; 64 << 20];
    for round in 0..3u64 {
        pooled.serve();
        let mut client = pooled.client("a");
        for n in 0..100u64 {
            let at = (n * 7919 + round * 104_729) % 15_000 * 4096;
            let bytes = noise(4 * KIB * usize::try_from(1 + n % 5).unwrap(), round * 1000 + n);
            client.write(at, &bytes, flags()).unwrap();
            let at = usize::try_from(at).unwrap();
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            if n == 50 {
                client.flush().unwrap();
                pooled.ok(&["volume", "drain", "pool"]);
            }
        }
        pooled.kill();
        assert!(pooled.socket().exists(), "it had no time to remove the socket");
    }
    pooled.serve();
    let mut client = pooled.client("a");
    for (n, part) in expected.chunks(1 << 20).enumerate() {
        assert!(client.read(n as u64 * MIB, 1 << 20).unwrap() == part, "MiB {n}");
    }
    drop(client);
    pooled.kill();
    pooled.assert_sound();
}

#[test]
fn the_index_is_made_anew_from_the_volumes() {
    let mut pooled = Pooled::new();
    for volume in ["a", "b"] {
        pooled.ok(&["volume", "create", "pool", volume, "8M"]);
    }
    pooled.serve();
    for volume in ["a", "b"] {
        pooled
            .client(volume)
            .write(0, &noise(4 << 20, 5), flags())
            .unwrap();
    }
    pooled.ok(&["volume", "drain", "pool"]);
    let before = pooled.stats();
    pooled.end();
    fs::remove_dir_all(pooled.bed.path("pool.index")).unwrap();
    for args in [
        &["pool", "stats", "pool"][..],
        &["volume", "serve", "pool", "--listen", "unix:s"],
    ] {
        pooled
            .run(args)
            .expect(1)
            .says(&["pool.index", "bring the folder back", "onefold volume recount"]);
    }
    let recounted = last(&pooled.ok(&["volume", "recount", "pool", "--json"]));
    assert_eq!(recounted["message_type"], "recounted");
    assert_eq!(number(&recounted, "contents"), 1024);
    assert_eq!(number(&recounted, "references"), 2048);
    assert_eq!(
        number(&pooled.stats(), "shared_bytes"),
        number(&before, "shared_bytes")
    );
    pooled.assert_sound();
    // An older copy of the index does not match, and the volumes are served all the same.
    let (index, copy) = (pooled.bed.path("pool.index"), pooled.bed.path("copy"));
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(&index)
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    pooled.serve();
    pooled.client("a").write(0, &noise(4 * KIB, 6), flags()).unwrap();
    pooled.ok(&["volume", "drain", "pool"]);
    pooled.kill();
    fs::remove_dir_all(&index).unwrap();
    fs::rename(&copy, &index).unwrap();
    pooled.serve();
    assert_eq!(pooled.stats()["index_matches"], false);
    let text = pooled.ok(&["pool", "stats", "pool"]).out();
    assert!(text.contains("does not match the volumes"), "{text}");
    pooled
        .run(&["volume", "drain", "pool"])
        .expect(1)
        .says(&["does not match", "onefold volume recount"]);
    assert!(pooled.client("a").read(0, 4096).unwrap() == noise(4 * KIB, 6));
    pooled.end();
    pooled.ok(&["volume", "recount", "pool"]);
    pooled.assert_sound();
    assert_eq!(pooled.stats()["index_matches"], true);
}

#[test]
fn the_index_of_another_pool_is_refused_and_a_recount_moves_it_aside() {
    let mut pooled = Pooled::new();
    pooled.ok(&["pool", "init", "other", "--size", "256MiB"]);
    for (pool, volume) in [("pool", "a"), ("pool", "b"), ("other", "a")] {
        pooled.ok(&["volume", "create", pool, volume, "8M"]);
    }
    pooled.serve();
    for volume in ["a", "b"] {
        pooled
            .client(volume)
            .write(0, &noise(1 << 20, 5), flags())
            .unwrap();
    }
    pooled.ok(&["volume", "drain", "pool"]);
    // Its server is found by the socket in the index. It must not do what the other pool is asked.
    let (index, kept) = (pooled.bed.path("pool.index"), pooled.bed.path("kept"));
    let of_other = pooled.bed.path("other.index");
    fs::rename(&of_other, &kept).unwrap();
    std::os::unix::fs::symlink(&index, &of_other).unwrap();
    for args in [
        &["volume", "remove", "other", "a", "--force"][..],
        &["volume", "recount", "other"],
    ] {
        pooled
            .run(args)
            .expect(1)
            .says(&["other.index", "of another pool", "onefold volume recount"]);
    }
    assert_eq!(pooled.stats()["volumes"].as_array().unwrap().len(), 2);
    pooled.end();
    fs::remove_file(&of_other).unwrap();
    fs::rename(&index, pooled.bed.path("mine")).unwrap();
    fs::rename(&kept, &index).unwrap();
    // The other pool's index has no batch of any volume, as this pool's own had before its first.
    for args in [
        &["pool", "stats", "pool"][..],
        &["pool", "check", "pool"],
        &["volume", "drain", "pool"],
        &["volume", "serve", "pool", "--listen", "unix:s"],
    ] {
        pooled.run(args).expect(1).says(&[
            "pool.index",
            "of another pool",
            "bring this pool's own index back",
            "onefold volume recount",
        ]);
    }
    // The right folder is all that is needed.
    fs::rename(&index, &of_other).unwrap();
    fs::rename(pooled.bed.path("mine"), &index).unwrap();
    pooled.assert_sound();
    pooled.ok(&["volume", "drain", "other"]);
    // A recount makes a new one, and keeps the other pool's.
    fs::remove_dir_all(&index).unwrap();
    fs::rename(&of_other, &index).unwrap();
    let recounted = pooled.ok(&["volume", "recount", "pool"]);
    recounted.says(&["of another pool", "pool.index.other-pool-1"]);
    pooled.assert_sound();
    assert_eq!(pooled.stats()["index_matches"], true);
    fs::rename(pooled.bed.path("pool.index.other-pool-1"), &of_other).unwrap();
    pooled.ok(&["pool", "check", "other"]);
}

#[test]
fn an_empty_index_in_the_place_of_a_pools_own_is_noticed() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    let copy = pooled.bed.path("empty");
    let index = pooled.bed.path("pool.index");
    let mut copying = std::process::Command::new("cp");
    assert!(
        copying
            .arg("-a")
            .arg(&index)
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    pooled.serve();
    pooled.client("a").write(0, &noise(1 << 20, 5), flags()).unwrap();
    pooled.ok(&["volume", "drain", "pool"]);
    pooled.end();
    fs::remove_dir_all(&index).unwrap();
    fs::rename(&copy, &index).unwrap();
    assert_eq!(pooled.stats()["index_matches"], false);
    pooled
        .run(&["volume", "drain", "pool"])
        .expect(1)
        .says(&["does not match", "onefold volume recount"]);
    pooled.ok(&["volume", "recount", "pool"]);
    assert_eq!(pooled.stats()["index_matches"], true);
    pooled.assert_sound();
}

#[test]
fn places_sockets_and_ports_are_as_they_were_asked_for() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    let more = [
        "--listen",
        "unix:s",
        "--listen",
        "tcp:127.0.0.1:0",
        "--socket-mode",
        "660",
        "--direct",
    ];
    pooled.serve_with(&more, 2);
    let told = &pooled.serving.as_ref().unwrap().told;
    assert_eq!(told[0]["address"], "unix:s");
    assert_eq!(number(&told[0], "volumes"), 1);
    let address = told[1]["address"].as_str().unwrap().strip_prefix("tcp:").unwrap();
    assert_eq!(told[1]["uri"], format!("nbd://{address}/"));
    let stream = std::net::TcpStream::connect(address).unwrap();
    let mut client = volume_server::client::Client::open(stream, &Default::default()).unwrap();
    client.write(4096, &noise(4 * KIB, 1), flags()).unwrap();
    assert!(pooled.client("a").read(4096, 4096).unwrap() == noise(4 * KIB, 1));
    let mode = |path: &str| fs::metadata(pooled.bed.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("s"), mode("pool.index/control")), (0o660, 0o600));
    drop(client);
    pooled.end();
    // A certificate that is none, and a place that is taken.
    fs::write(pooled.bed.path("pem"), "no certificate").unwrap();
    let tls = ["--tls-certificate", "pem", "--tls-key", "pem"];
    let serve = ["volume", "serve", "pool", "--listen"];
    pooled
        .run(&[&serve[..], &["tcp:127.0.0.1:0"], &tls].concat())
        .expect(1)
        .says(&["certificate"]);
    let _other = UnixListener::bind(pooled.socket()).unwrap();
    pooled
        .run(&[&serve[..], &["unix:s"]].concat())
        .expect(1)
        .says(&["cannot listen on s", "another server"]);
    pooled.assert_sound();
}

#[test]
fn the_service_manager_is_told() {
    let mut pooled = Pooled::new();
    let manager = UnixDatagram::bind(pooled.bed.path("manager")).unwrap();
    manager
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .unwrap();
    let path = pooled.bed.path("manager").display().to_string();
    pooled.bed.set("NOTIFY_SOCKET", &path);
    pooled.serve();
    let heard = || {
        let mut bytes = [0; 100];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    pooled.end();
    assert_eq!(heard(), "STOPPING=1");
}

/// Ctrl-C ends a drain, here and at the server; the next one continues.
#[test]
fn an_interrupted_drain_continues() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "128M"]);
    pooled.serve();
    let mut client = pooled.client("a");
    for n in 0..96 {
        client.write(n * MIB, &noise(1 << 20, n), flags()).unwrap();
    }
    client.close().unwrap();
    let backlog = || number(&pooled.stats(), "backlog_bytes");
    let all = backlog();
    let mut child = pooled.command(&["volume", "drain", "pool"]).spawn().unwrap();
    wait_until(|| backlog() < all);
    signal(&child, Signal::INT);
    let ended = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    // It may have been done already.
    if ended.code() != Some(0) {
        assert_eq!(ended.code(), Some(130), "{said}");
        assert!(
            said.contains("the drain was interrupted") && said.contains("continues"),
            "{said}"
        );
    }
    let lines = lines(&pooled.ok(&["volume", "drain", "pool", "--json"]).out);
    assert_eq!(lines.last().unwrap()["message_type"], "drained");
    assert_eq!(backlog(), 0);
    pooled.end();
    pooled.assert_sound();
}

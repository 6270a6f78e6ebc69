//! Vaults, by the client's storage over TLS: the promises of a storage, rights, broken connections.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use client::{Opened, RemoteStorage, Target};
use env::{Clock, Entropy, ManualClock, Storage, StorageError, SystemClock, conformance};
use format::container::{ContainerTail, FOOTER_BYTES, TailParse};
use onefold::{BackupOptions, Credential, Env, InitOptions, Monitor, OpenOptions, Store, StreamOptions};
use tempfile::TempDir;
use transport::Address;
use types::{ByteRange, ObjectName};

use crate::shares::Shares;
use crate::{Home, Listener, Rights, Server};

const ALL: &str = "write,list,read,forget,hold,maintain";
const SERIES: &str = "0123456789abcdef0123456789abcdef";

/// A server with a vault `safe`, behind a proxy that can break connections.
struct Bed {
    folder: TempDir,
    running: Option<(Arc<Server>, Listener)>,
    proxy: Arc<Proxy>,
    place: SocketAddr,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::default().reserve_bytes(0);
        let (home, _) = Home::init(folder.path(), &Credential::None, &options).unwrap();
        home.ensure_vault("safe").unwrap();
        let (proxy, place) = Proxy::start();
        let mut bed = Self {
            folder,
            running: None,
            proxy,
            place,
        };
        bed.start();
        bed
    }

    fn start(&mut self) {
        self.start_at(self.home());
    }

    fn start_at(&mut self, home: Home) {
        let server = Server::open(home, &Credential::None, &OpenOptions::default(), 0).unwrap();
        let server = Arc::new(server);
        let listener = Listener::start(&server, "127.0.0.1:0").unwrap();
        *self.proxy.to.lock().unwrap() = Some(listener.address());
        self.running = Some((server, listener));
    }

    fn stop(&mut self) {
        let (server, listener) = self.running.take().unwrap();
        server.end(Duration::ZERO);
        drop(listener);
    }

    fn home(&self) -> Home {
        Home::open(self.folder.path()).unwrap()
    }

    /// The vault, for a new token with these rights.
    fn vault(&self, rights: &str) -> RemoteStorage {
        let address: Address = format!("onefold://{}/safe", self.place).parse().unwrap();
        let rights: Rights = rights.parse().unwrap();
        let invited = self.home().invite(address, rights, None).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let access = client::join(&invited.invitation, "test", &clock).unwrap();
        let entropy: Arc<dyn Entropy> = Arc::new(env::SystemEntropy);
        match client::open(Target::Network(access), &clock, &entropy).unwrap() {
            Opened::Vault(vault) => vault,
            Opened::Repository(_) => panic!("no vault"),
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.stop();
        }
    }
}

/// Passes connections on, and breaks them.
#[derive(Default)]
struct Proxy {
    to: Mutex<Option<SocketAddr>>,
    open: Mutex<Vec<TcpStream>>,
    /// What the server says is lost.
    is_deaf: AtomicBool,
    accepted: AtomicU64,
}

impl Proxy {
    fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let proxy = Arc::new(Self::default());
        let accepting = Arc::clone(&proxy);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let to = *accepting.to.lock().unwrap();
                let Some(Ok(server)) = to.map(TcpStream::connect) else {
                    continue;
                };
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                let mut open = accepting.open.lock().unwrap();
                open.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let hearing = Arc::clone(&accepting);
                thread::spawn(move || pass(client, server, || false));
                thread::spawn(move || pass(back, forth, || hearing.is_deaf.load(Ordering::SeqCst)));
            }
        });
        (proxy, place)
    }

    fn cut(&self) {
        for socket in self.open.lock().unwrap().drain(..) {
            // It may be closed already.
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 << 10];
    let pass_one = |from: &mut TcpStream, to: &mut TcpStream, buffer: &mut [u8]| -> io::Result<bool> {
        let read = from.read(buffer)?;
        if !is_lost() {
            to.write_all(&buffer[..read])?;
        }
        Ok(read > 0)
    };
    while let Ok(true) = pass_one(&mut from, &mut to, &mut buffer) {}
    drop(to.shutdown(Shutdown::Both));
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(len).collect()
}

#[track_caller]
fn assert_no_right<T>(outcome: Result<T, StorageError>, says: &str) {
    match outcome.map(|_| ()) {
        Err(StorageError::NoRight { why, .. }) => assert!(why.contains(says), "{why}"),
        other => panic!("allowed, or another error: {other:?}"),
    }
}

#[test]
fn a_vault_keeps_the_promises_of_a_storage() {
    let bed = Bed::new();
    conformance::check(&bed.vault(ALL));
}

/// Objects and listings that fit into no frame travel in parts.
#[test]
fn long_objects_and_listings_travel_in_parts() {
    let bed = Bed::new();
    let vault = bed.vault(ALL);
    let long = bytes((40 << 20) + 5);
    let object = name("long");
    vault.put(&object, &[&long[..1000], &long[1000..]]).unwrap();
    assert!(vault.get(&object).unwrap() == long);
    let (tail, len) = vault.get_tail(&object, 20 << 20).unwrap();
    assert!(len == long.len() as u64 && tail == long[long.len() - (20 << 20)..]);
    let range = ByteRange {
        offset: 3,
        len: 30 << 20,
    };
    assert!(vault.get_range(&object, range).unwrap() == long[3..][..30 << 20]);
    let past = ByteRange {
        offset: 3,
        len: long.len() as u64,
    };
    assert!(
        matches!(vault.get_range(&object, past), Err(StorageError::PastEnd { len, .. }) if len == long.len() as u64)
    );
    let folder = bed.folder.path().join("vaults/safe/many");
    fs::create_dir(&folder).unwrap();
    let count = wire::LISTED_MAX + 10;
    for number in 0..count {
        fs::write(folder.join(format!("{number:06}")), b"").unwrap();
    }
    let listed = vault.list("many").unwrap();
    assert_eq!(listed.len(), count);
    assert!(listed.is_sorted_by(|a, b| a.name < b.name));
}

/// Where other answers have all memory, an object travels in shorter parts.
#[test]
fn objects_travel_without_memory_for_answers() {
    let bed = Bed::new();
    let vault = bed.vault(ALL);
    let object = name("long");
    let long = bytes((5 << 20) + 5);
    vault.put(&object, &[&long]).unwrap();
    let memory = &bed.running.as_ref().unwrap().0.state().memory;
    let held = ["one", "other"].map(|owner| memory.answer(owner, u64::MAX, Duration::ZERO).unwrap());
    let all = memory.of_answers();
    assert!(vault.get(&object).unwrap() == long);
    let (tail, len) = vault.get_tail(&object, 3 << 20).unwrap();
    assert!(len == long.len() as u64 && tail == long[long.len() - (3 << 20)..]);
    assert_eq!(memory.of_answers(), all);
    drop(held);
    assert!(vault.get(&object).unwrap() == long);
}

/// A part that was refused leaves a hole. No object with a hole is put.
#[test]
fn an_object_without_one_of_its_parts_is_not_put() {
    use wire::{PutPart, Wire};
    let bed = Bed::new();
    let home = bed.home();
    let (server, _) = bed.running.as_ref().unwrap();
    let state = server.state();
    let vault = state.vault_of("safe").unwrap().unwrap();
    let rights = ALL.parse().unwrap();
    let shares = Shares::new("safe".to_owned(), state.rates.of("safe"));
    let access = (None, rights);
    let mut user = crate::vault_serving::VaultUser::new(state, vault, "safe".to_owned(), access, shares);
    let part = |offset, is_last| PutPart {
        name: name("holed"),
        upload: 1,
        offset,
        is_again: false,
        is_last,
        bytes: b"abc".into(),
    };
    user.put(&part(0, false).to_bytes()).unwrap();
    assert!(user.put(&part(6, true).to_bytes()).is_err());
    assert!(
        user.put(&part(3, true).to_bytes()).is_err(),
        "its beginning is gone"
    );
    let stored = home.vault_folder("safe").join("holed");
    assert!(!stored.exists());
    user.put(&part(0, false).to_bytes()).unwrap();
    user.put(&part(3, true).to_bytes()).unwrap();
    assert_eq!(fs::read(stored).unwrap(), b"abcabc");
}

/// A machine that may only write can neither delete what others stored nor end what they do.
#[test]
fn a_token_that_may_write_does_no_more_than_a_backup() {
    let bed = Bed::new();
    let (one, other) = (bed.vault("write"), bed.vault("write"));
    let claim = name("sessions/0000000000001/claim");
    one.put(&claim, &[b"one"]).unwrap();
    let exists = other.put(&claim, &[b"other"]);
    assert!(
        matches!(exists, Err(StorageError::AlreadyExists { .. })),
        "{exists:?}"
    );
    let container = name("data/0000000000001/00000000.0");
    let manifest = name(&format!("backups/{SERIES}/0000000000001.0"));
    // Session 1 is not the other's.
    for object in [
        &name("sessions/0000000000001/heartbeat.0"),
        &name("sessions/0000000000001/checkpoint.0"),
        &name("sessions/0000000000001/committed"),
        &container,
        &name("mirror/0000000000001/00000000.0"),
        &manifest,
    ] {
        assert_no_right(other.put(object, &[b"x"]), "was begun with another token");
        one.put(object, &[b"own"]).unwrap();
    }
    assert_no_right(other.delete(&claim), "was begun with another token");
    // Nobody who may only write creates these: each would delete, or end, or change a backup.
    for object in [
        &format!("backups/{SERIES}/0000000000001.1"),
        "removed/00000000000000000001",
        "condemned/00000000000000000001",
        "damaged/data-0000000000001-00000000.0",
        "groups/0123456789abcdef0123456789abcdef-0000000000001.0",
        "lease/reclaim.0",
        "series/default.0",
        "config/1.0",
        "data/0000000000001/00000000.1",
        "archive/0000000000001/00000001.0",
        "reserve",
    ] {
        assert_no_right(one.put(&name(object), &[b"x"]), "this needs the right to");
    }
    for object in [&container, &manifest, &name("sessions/0000000000001/committed")] {
        assert_no_right(one.delete(object), "the right to maintain");
    }
    let aside = name("data/0000000000001/00000000.0.body");
    assert_no_right(one.trim(&container, &aside, &[]), "the right to maintain");
    assert_no_right(one.drop_folder("data/0000000000001"), "the right to maintain");
    assert_no_right(one.get(&container), "the right to read");
    // All is as it was.
    let reader = bed.vault("read");
    assert_eq!(reader.get(&container).unwrap(), b"own");
    assert_eq!(reader.list("").unwrap().len(), 7);
    // Otherwise the next backup would get the number, and find the container.
    assert_no_right(one.delete(&claim), "its number is the highest");
    // Its own sessions it may tidy.
    one.delete(&name("sessions/0000000000001/heartbeat.0")).unwrap();
    one.delete(&name("sessions/0000000000001/checkpoint.0")).unwrap();
}

/// Behind the last number, nobody could begin a session any more.
#[test]
fn nobody_claims_a_number_far_above_all_others() {
    let bed = Bed::new();
    let one = bed.vault("read");
    for number in ["0137438953471", "0000000001001"] {
        let far = name(&format!("sessions/{number}/claim"));
        assert_no_right(one.put(&far, &[b"x"]), "far above all others");
    }
    for number in ["0000000000001", "0000000001001", "0000000002001"] {
        one.put(&name(&format!("sessions/{number}/claim")), &[b"x"])
            .unwrap();
    }
}

/// A token that claims a number which another one gave back owns it.
#[test]
fn a_session_belongs_to_the_token_whose_claim_stands() {
    let bed = Bed::new();
    let (one, other) = (bed.vault("write"), bed.vault("write"));
    let claim = name("sessions/0000000000005/claim");
    let beat = |counter: u64| name(&format!("sessions/0000000000005/heartbeat.{counter}"));
    one.put(&claim, &[b"one"]).unwrap();
    one.put(&beat(0), &[b"1"]).unwrap();
    one.put(&name("sessions/0000000000006/claim"), &[b"one"]).unwrap();
    one.delete(&claim).unwrap();
    assert_no_right(one.put(&beat(1), &[b"1"]), "another token");
    other.put(&claim, &[b"other"]).unwrap();
    other.put(&beat(1), &[b"2"]).unwrap();
    assert_no_right(one.put(&beat(2), &[b"1"]), "another token");
}

/// A reader's session ends with an object that its token deletes last.
#[test]
fn a_reader_removes_all_that_its_session_leaves() {
    let bed = Bed::new();
    let (reader, other) = (bed.vault("read"), bed.vault("read,write"));
    let claim = name("sessions/0000000000002/claim");
    let ending = name("backups/00000000000000000000000000000000/0000000000002.0");
    reader.put(&claim, &[b"r"]).unwrap();
    assert_no_right(other.put(&ending, &[b"x"]), "another token");
    reader.put(&ending, &[b"end"]).unwrap();
    // The highest number is not given back.
    let later = name("sessions/0000000000003/claim");
    assert_no_right(reader.delete(&claim), "its number is the highest");
    other.put(&later, &[b"o"]).unwrap();
    reader.delete(&claim).unwrap();
    assert_no_right(other.delete(&ending), "another token");
    reader.delete(&ending).unwrap();
    let left = other.list("").unwrap();
    assert!(matches!(&*left, [one] if one.name == later), "{left:?}");
    assert_no_right(reader.put(&ending, &[b"end"]), "another token");
    // What only a backup creates.
    reader.put(&claim, &[b"r"]).unwrap();
    let container = name("data/0000000000002/00000000.0");
    assert_no_right(reader.put(&container, &[b"x"]), "the right to write");
}

/// Without the right to read, a client gets catalogs and nodes, and no content.
#[test]
fn content_is_hidden_from_a_token_that_may_only_write() {
    let bed = Bed::new();
    let full = bed.vault(ALL);
    let env = Env::system(Arc::new(bed.vault(ALL)));
    let options = InitOptions::default().container_bytes(1 << 20);
    let store = Store::init(&env, &Credential::None, &options, None).unwrap();
    let mut random = vec![0; 3 << 20];
    env.entropy.fill(&mut random);
    let source = &mut onefold::ReaderSource(&*random);
    let name_of = std::path::Path::new("stream");
    store
        .backup_stream(
            &BackupOptions::default(),
            name_of,
            &StreamOptions::default(),
            source,
            &Monitor::default(),
        )
        .unwrap();
    let writer = bed.vault("write");
    let first = |folder: &str| full.list(folder).unwrap()[0].name.clone();
    let container = first("data");
    let whole = full.get(&container).unwrap();
    assert_no_right(writer.get(&container), "the right to read");
    let region = ByteRange { offset: 72, len: 100 };
    assert_no_right(writer.get_range(&container, region), "the right to read");
    // The end of the object with the catalog is readable, what is before it is zeros.
    let (masked, len) = writer.get_tail(&container, u64::MAX).unwrap();
    assert_eq!((masked.len(), len), (whole.len(), whole.len() as u64));
    let TailParse::Whole(parsed) = ContainerTail::parse(&whole, len).unwrap() else {
        panic!("a whole object")
    };
    let catalog = usize::try_from(parsed.footer.catalog_offset).unwrap();
    assert!(catalog > 1 << 20 && whole.len() - catalog > FOOTER_BYTES);
    assert!(masked[..catalog].iter().all(|byte| *byte == 0));
    assert!(masked[catalog..] == whole[catalog..]);
    let trailer = ByteRange {
        offset: parsed.footer.catalog_offset,
        len: 50,
    };
    assert!(writer.get_range(&container, trailer).unwrap() == whole[catalog..][..50]);
    let nodes = first("recipe");
    assert!(writer.get(&nodes).unwrap() == full.get(&nodes).unwrap());
}

#[test]
fn a_broken_connection_is_made_again() {
    let bed = Bed::new();
    let vault = bed.vault(ALL);
    vault.put(&name("a"), &[b"1"]).unwrap();
    for round in 0..3 {
        bed.proxy.cut();
        vault.put(&name(&format!("b{round}")), &[b"2"]).unwrap();
        bed.proxy.cut();
        assert_eq!(vault.get(&name("a")).unwrap(), b"1");
    }
    vault.barrier().unwrap();
    let taken = vault.put(&name("a"), &[b"1"]);
    assert!(
        matches!(taken, Err(StorageError::AlreadyExists { .. })),
        "{taken:?}"
    );
}

/// The server has carried it out, and its answer is lost.
#[test]
fn a_request_whose_answer_was_lost_is_sent_again() {
    let bed = Bed::new();
    let vault = bed.vault(ALL);
    let folder = bed.folder.path().join("vaults/safe");
    let lose = |run: &(dyn Fn() + Sync), is_done: &dyn Fn() -> bool| {
        bed.proxy.is_deaf.store(true, Ordering::SeqCst);
        thread::scope(|scope| {
            scope.spawn(run);
            while !is_done() {
                SystemClock.sleep(Duration::from_millis(5));
            }
            bed.proxy.cut();
            bed.proxy.is_deaf.store(false, Ordering::SeqCst);
        });
    };
    let stored = || folder.join("x").exists();
    lose(&|| vault.put(&name("x"), &[b"own"]).unwrap(), &stored);
    assert_eq!(vault.get(&name("x")).unwrap(), b"own");
    lose(&|| vault.delete(&name("x")).unwrap(), &|| !stored());
    assert!(!stored());
    // Somebody else's object is not taken for the own one.
    let put = || match vault.put(&name("x"), &[b"own"]) {
        Err(StorageError::AlreadyExists { .. }) => {}
        other => panic!("{other:?}"),
    };
    fs::write(folder.join("x"), b"not").unwrap();
    let connections = bed.proxy.accepted.load(Ordering::SeqCst);
    bed.proxy.cut();
    put();
    assert!(bed.proxy.accepted.load(Ordering::SeqCst) > connections);
    vault.barrier().unwrap();
}

/// A server that was started again may have lost what no barrier had covered.
#[test]
fn a_barrier_fails_if_the_server_was_started_again_since() {
    let mut bed = Bed::new();
    let vault = bed.vault(ALL);
    vault.put(&name("a"), &[b"1"]).unwrap();
    vault.barrier().unwrap();
    bed.stop();
    bed.start();
    vault.put(&name("b"), &[b"2"]).unwrap();
    vault.barrier().unwrap();
    vault.put(&name("c"), &[b"3"]).unwrap();
    bed.stop();
    bed.start();
    assert_eq!(vault.get(&name("c")).unwrap(), b"3", "reading goes on");
    for _ in 0..2 {
        let error = vault.barrier().unwrap_err().to_string();
        assert!(error.contains("was started again"), "{error}");
    }
    bed.vault(ALL).barrier().unwrap();
}

#[test]
fn a_vault_and_a_namespace_of_a_store_are_not_mistaken() {
    let bed = Bed::new();
    let home = bed.home();
    home.ensure_vault("safe").unwrap();
    assert!(home.ensure_namespace("safe", Some("main")).is_err());
    let aged = |limits| crate::Limits {
        quota_bytes: Some(1),
        ..limits
    };
    assert!(home.change_limits("safe", aged).is_err());
    home.ensure_namespace("web", None).unwrap();
    assert!(home.ensure_vault("web").is_err());
    assert!(home.ensure_vault("../x").is_err() && home.ensure_vault(".x").is_err());
    let told: Vec<(String, Option<String>)> = home
        .namespaces()
        .unwrap()
        .into_iter()
        .map(|info| (info.name, info.tenant))
        .collect();
    let main = Some("main".to_owned());
    assert_eq!(told, [("safe".to_owned(), None), ("web".to_owned(), main)]);
}

/// A revoked token is refused with its next request.
#[test]
fn a_revoked_token_loses_the_vault() {
    let bed = Bed::new();
    let vault = bed.vault(ALL);
    vault.put(&name("a"), &[b"1"]).unwrap();
    let (id, _) = bed.home().tokens().unwrap().remove(0);
    bed.home().revoke(&id).unwrap();
    assert_no_right(vault.get(&name("a")), "revoked");
}

/// The rate is the one limit of a vault.
#[test]
fn the_bytes_of_a_vault_pass_at_its_rate() {
    let mut bed = Bed::new();
    let clock = ManualClock::new(SystemClock.wall());
    clock.advance(Duration::from_secs(100));
    let mut home = bed.home();
    home.env.clock = Arc::new(clock.clone());
    bed.stop();
    bed.start_at(home);
    let rate_bytes = Some(1 << 20);
    let change = |limits| crate::Limits { rate_bytes, ..limits };
    assert_eq!(
        bed.home().change_limits("safe", change).unwrap().rate_bytes,
        rate_bytes
    );
    let vault = bed.vault(ALL);
    let name = ObjectName::new("index/x").unwrap();
    let steps: [(&str, &dyn Fn()); 2] = [
        ("put", &|| vault.put(&name, &[&vec![7; 4 << 20]]).unwrap()),
        ("get", &|| drop(vault.get(&name).unwrap())),
    ];
    for (what, step) in steps {
        let began = clock.monotonic();
        step();
        let took = clock.monotonic() - began;
        // The bytes of half a second may come at once.
        assert!(took >= Duration::from_millis(3500), "{what}: {took:?}");
        assert!(took < Duration::from_secs(5), "{what}: {took:?}");
    }
}

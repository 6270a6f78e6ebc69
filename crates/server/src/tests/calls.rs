//! Operations on backups: how many run at once, and what they may be.

use client::{Opened, Target};
use env::{Entropy, SystemEntropy};
use onefold::calls::{Call, Report};
use onefold::errors::RestoreError;
use onefold::{Error, ReadData, operations};

use super::*;
use crate::Listener;
use crate::memory::Work;

/// More backups than a message names without being counted.
const MANY: usize = 40_000;

fn check() -> Call {
    Call::Check {
        read_data: ReadData::None,
    }
}

/// One waits for its place, unless its message is long.
#[test]
fn long_operations_have_few_places() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let memory = &bed.server.state().memory;
    let place = |owner| memory.call(owner, Work::Long, 1 << 20);
    let one = place("one").unwrap();
    assert!(place("one").is_err(), "an owner has one");
    let _other = place("other").unwrap();
    let mut client = bed.client("web", "read,list");
    let refused = called(&mut client, &Call::Layouts(vec![id; MANY])).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Busy, "{refused}");
    // Short ones need not wait for them.
    let mut forgetting = bed.client("web", "hold");
    let hold = Call::Hold {
        ids: vec![id.to_string()],
        end: None,
    };
    called(&mut forgetting, &hold).unwrap();
    let body = serde_json::to_vec(&check()).unwrap();
    let number = client.send(request::CALL, &body);
    let has_come = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&has_come);
    let waiting = thread::spawn(move || {
        let (kind, answered, _) = client.next().expect("an answer");
        tells.store(true, Ordering::SeqCst);
        assert_eq!((kind, answered), (reply::ANSWER, number));
        client
    });
    SystemClock.sleep(Duration::from_millis(300));
    assert!(!has_come.load(Ordering::SeqCst));
    drop(one);
    let mut client = waiting.join().unwrap();
    called(&mut client, &Call::Layouts(vec![id; MANY])).unwrap();
    assert!(place("third").is_ok(), "the place is free again");
    assert_eq!(memory.of_bodies(), 0);
}

/// The rate of the namespace delays the answer, as a client does that does not read.
#[test]
fn an_answer_that_waits_has_no_place() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let change = |limits: crate::Limits| crate::Limits {
        rate_bytes: Some(50),
        ..limits
    };
    bed.home().change_limits("web", change).unwrap();
    let mut client = bed.client("web", "list");
    let body = serde_json::to_vec(&Call::Layouts(vec![id])).unwrap();
    let number = client.send(request::CALL, &body);
    SystemClock.sleep(Duration::from_millis(700));
    let memory = &bed.server.state().memory;
    let places = ["one", "other"].map(|owner| memory.call(owner, Work::Long, 1 << 20));
    assert!(places.iter().all(Result::is_ok));
    let (kind, answered, _) = client.next().expect("an answer");
    assert_eq!((kind, answered), (reply::ANSWER, number));
}

#[test]
fn short_operations_have_places_too() {
    let bed = Bed::new();
    let memory = &bed.server.state().memory;
    let place = |owner: &str| memory.call(owner, Work::Short, 1 << 20);
    let two = [place("one").unwrap(), place("one").unwrap()];
    assert!(place("one").is_err());
    let others: Vec<_> = (0..6).map(|owner| place(&owner.to_string()).unwrap()).collect();
    assert!(place("last").is_err());
    drop((two, others));
    assert!(place("last").is_ok());
}

/// A token learns that it may not before anything else is looked at.
#[test]
fn the_right_counts_before_the_fields() {
    let bed = Bed::new();
    honest(&mut bed.client("web", "write"));
    let mut client = bed.client("web", "write");
    for kind in ["Forget", "Hold", "Tag", "Check", "Layouts"] {
        let call = format!("{{\"{kind}\":[\"no such fields\"]}}");
        let refused = asked(&mut client, call.as_bytes()).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NotAllowed, "{kind}: {refused}");
    }
    let refused = asked(&mut client, b"{\"Other\":1}").unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Malformed, "{refused}");
    let longest = vec![b' '; (4 << 20) + 1];
    let refused = asked(&mut client, &longest).unwrap_err();
    assert!(refused.to_string().contains("fewer backups"), "{refused}");
}

/// The program of a machine whose operation finds no place tries again.
#[test]
fn a_client_tries_again_while_the_server_is_busy() {
    let bed = Bed::new();
    let id = honest(&mut bed.client("web", "write"));
    let listener = Listener::start(&bed.server, "127.0.0.1:0").unwrap();
    let address: Address = format!("onefold://{}/web", listener.address()).parse().unwrap();
    let invited = bed.home().invite(address, "list".parse().unwrap(), None).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let access = client::join(&invited.invitation, "test", &clock).unwrap();
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let opened = client::open(Target::Network(access), &clock, &entropy).unwrap();
    let Opened::Repository(repository) = opened else {
        panic!("it is no vault")
    };
    let memory = &bed.server.state().memory;
    let places = ["one", "other"].map(|owner| memory.call(owner, Work::Long, 0).unwrap());
    let snapshot = bed.store().snapshots().unwrap().snapshots.remove(0);
    let named = vec![snapshot; MANY];
    let monitor = Monitor::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            SystemClock.sleep(Duration::from_millis(500));
            monitor.cancel().store(true, Ordering::SeqCst);
        });
        let stopped = operations::layouts(&repository, &named, &monitor).unwrap_err();
        assert!(
            matches!(stopped, Error::Restore(RestoreError::Interrupted)),
            "{stopped}"
        );
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            SystemClock.sleep(Duration::from_millis(500));
            drop(places);
        });
        let layouts = operations::layouts(&repository, &named, &Monitor::default()).unwrap();
        assert_eq!(layouts.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    });
    bed.server.end(Duration::ZERO);
}

/// Asks for an operation, and takes its report.
pub(super) fn called(client: &mut Client, call: &Call) -> Result<Report, Refusal> {
    asked(client, &serde_json::to_vec(call).unwrap())
}

fn asked(client: &mut Client, call: &[u8]) -> Result<Report, Refusal> {
    let number = client.send(request::CALL, call);
    loop {
        let (kind, answered, body) = client.next().expect("an answer");
        assert_eq!(answered, number);
        match kind {
            reply::PROGRESS => {}
            reply::ANSWER => {
                let (report, _) = <(Vec<u8>, Vec<String>)>::from_bytes(&body).unwrap();
                return Ok(serde_json::from_slice(&report).unwrap());
            }
            _ => return Err(Refusal::from_bytes(&body).unwrap()),
        }
    }
}

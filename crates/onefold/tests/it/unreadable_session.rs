//! A session whose claim is damaged stops every prune, until the user ends it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::beside::{assert_kept, back_up_parts, back_up_pausing, chosen};
use crate::common::pruning::{assert_nothing_unexplained, everything, prune, try_prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, HandClock, How, Parts, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise,
    snapshot,
};
use env::Storage;
use env::fault::FaultStorage;
use format::names;
use onefold::{ForgetReport, ForgetRequest, Monitor, SessionId, Store};
use session::{Begin, Session, SessionPolicy};

const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

fn forget(store: &Store, id: SessionId, force: bool, is_dry_run: bool) -> Result<ForgetReport, String> {
    let request = ForgetRequest::named([id.to_string()])
        .force_unreadable(force)
        .is_dry_run(is_dry_run);
    let report = store.forget(&request, &Monitor::default());
    report.map_err(|error| error.to_string())
}

/// A machine whose storage goes by this clock.
fn machine(clock: &HandClock, seed: u64) -> Process {
    let storage = FaultStorage::with_clock(Arc::new(clock.clone()));
    Process::on(storage, clock.clone(), seed)
}

fn garble(machine: &Process, id: SessionId) {
    let garbled = machine
        .storage
        .damage(&names::claim(id), |bytes| bytes.truncate(bytes.len() - 13));
    assert!(garbled);
}

#[test]
fn a_session_with_a_damaged_claim_is_ended_only_by_force_and_after_silence() {
    let clock = HandClock::new();
    let machine = machine(&clock, 70);
    machine.init();
    let bytes = noise(70, 60 << 10);
    let kept = back_up_bytes(&machine.open(), "/file", &bytes, &How::plain())
        .unwrap()
        .id;
    let gone = back_up_bytes(&machine.open(), "/other", &noise(71, 60 << 10), &How::plain())
        .unwrap()
        .id;
    forget(&machine.open(), gone, false, false).unwrap();

    let other = machine.beside(72);
    let reclaimer = Reclaimer::new(other.clone());
    let sealer = reclaimer.sealer();
    let begin = Begin {
        series: sealer.key().series_id(b"by hand"),
        name: snapshot(&machine.open(), kept).backup.series,
        process: 1,
        policy: SessionPolicy::default(),
    };
    let session = Session::begin(sealer, begin).unwrap();
    let id = session.id();
    garble(&machine, id);
    let stops = try_prune(&machine.open(), &everything()).unwrap_err().to_string();
    let advice = format!("`onefold forget {id} --force-unreadable`");
    assert!(stops.contains(&advice), "{stops}");

    let store = machine.open();
    let refused = |force, why: &str| {
        let refused = forget(&store, id, force, false).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    };
    refused(false, "--force-unreadable");
    clock.advance(HALF_AN_HOUR);
    refused(true, "runs on this machine");
    session.tick().unwrap();
    drop(session);
    refused(true, "s ago");
    clock.advance(HALF_AN_HOUR - Duration::from_secs(1));
    refused(true, "1799 s ago");
    try_prune(&machine.open(), &everything()).unwrap_err();

    clock.advance(Duration::from_secs(1));
    let dry = forget(&store, id, true, true).unwrap();
    assert_eq!(dry.ended_sessions, [id]);
    try_prune(&machine.open(), &everything()).unwrap_err();
    assert_eq!(forget(&store, id, true, false).unwrap().ended_sessions, [id]);
    assert!(machine.names(&names::session_folder(id)).is_empty());
    prune(&machine.open(), &everything(), "it is ended");
    assert!(
        forget(&store, id, true, false).is_err(),
        "there is nothing left to end"
    );
    assert_restores_bytes(&store, &snapshot(&store, kept), "/file", &bytes, "beside");
    // Nobody gets its number again.
    let next = back_up_bytes(&machine.open(), "/next", &noise(73, 60 << 10), &How::plain())
        .unwrap()
        .id;
    assert!(next > id);
}

#[test]
fn what_has_a_backup_or_a_readable_claim_is_not_ended() {
    let machine = Process::new(74);
    let store = machine.init();
    let reclaimer = Reclaimer::new(machine.beside(75));
    let reader = Session::begin_read(reclaimer.sealer(), 1, SessionPolicy::default()).unwrap();
    let refused = forget(&store, reader.id(), true, false).unwrap_err();
    assert!(refused.contains("no backup"), "{refused}");
    reader.end().unwrap();

    let made = back_up_bytes(&store, "/file", &noise(74, 60 << 10), &How::plain())
        .unwrap()
        .id;
    garble(&machine, made);
    prune(
        &machine.open(),
        &everything(),
        "the claim of a backup is not needed",
    );
    assert_eq!(forget(&store, made, true, false).unwrap().forgotten, [made]);
    prune(&machine.open(), &everything(), "it is a forgotten backup");
    assert_nothing_unexplained(&machine, "in the end");
}

/// The user was wrong: the process lives, and what its backup refers to may be gone. So the backup
/// must not be acknowledged.
#[test]
fn a_session_that_was_ended_and_lives_commits_no_backup() {
    for at_its_end in [false, true] {
        let clock = HandClock::new();
        let machine = machine(&clock, 76);
        machine.init();
        let living = machine.elsewhere(77);
        let (other, ended) = (machine.clone(), Arc::new(Mutex::new(None)));
        let in_time = Arc::clone(&ended);
        let moment = if at_its_end {
            names::BACKUPS_FOLDER
        } else {
            "data/"
        };
        living.watched.set_before(move |asked, name| {
            let mut ended = in_time.lock().unwrap();
            if asked == Asked::Put && name.starts_with(moment) && ended.is_none() {
                let id = SessionId::new(1).unwrap();
                garble(&other, id);
                clock.advance(HALF_AN_HOUR);
                let report = forget(&other.beside(78).open(), id, true, false).unwrap();
                *ended = Some(report.ended_sessions == [id]);
            }
        });
        let made = back_up_bytes(&living.open(), "/file", &noise(77, 60 << 10), &How::plain());
        assert_eq!(*ended.lock().unwrap(), Some(true), "at its end: {at_its_end}");
        let error = made.map(|report| report.id).unwrap_err().to_string();
        assert!(
            error.contains("has ended") || error.contains("was ended"),
            "{error}"
        );
        let store = machine.open();
        assert!(store.snapshots().unwrap().snapshots.is_empty());
        prune(&store, &everything(), "it has ended itself");
        let next = back_up_bytes(&store, "/file", &noise(77, 60 << 10), &How::plain()).unwrap();
        assert_sound(&machine.open(), "in the end");
        assert!(next.id > SessionId::new(1).unwrap());
    }
}

/// It had adopted a dead session. What that one has stored is garbage once the adopter is ended.
#[test]
fn what_an_ended_session_had_adopted_is_removed() {
    let clock = HandClock::new();
    let machine = machine(&clock, 79);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..5).map(|part| noise(790 + part, 256 << 10)).collect();
    let kept = back_up_parts(&machine, "/kept", &chosen(&parts, &[0]));
    let dying = machine.beside(80);
    let made = back_up_pausing(&dying, "/a", &chosen(&parts, &[1, 2, 3]), &How::plain(), |done| {
        if done == 2 {
            dying.storage.kill();
        }
    });
    made.unwrap_err();
    let dead = newest(&machine);
    let adopter = machine.beside(81);
    let made = back_up_pausing(
        &adopter,
        "/a",
        &chosen(&parts, &[1, 2, 4]),
        &How::plain(),
        |done| {
            if done == 2 {
                adopter.storage.kill();
            }
        },
    );
    made.unwrap_err();
    let adopting = newest(&machine);
    assert!(adopting > dead);
    garble(&machine, adopting);

    clock.advance(HALF_AN_HOUR);
    let report = forget(&machine.open(), adopting, true, false).unwrap();
    assert_eq!(report.ended_sessions, [adopting]);
    for _ in 0..3 {
        prune(&machine.open(), &everything(), "it is ended");
    }
    assert_nothing_unexplained(&machine, "in the end");
    assert_kept(
        &machine,
        &[(kept, "/kept", Parts::whole(&chosen(&parts, &[0])))],
        "in the end",
    );
}

/// The highest number that was claimed.
fn newest(machine: &Process) -> SessionId {
    let listed = machine.storage.list(names::SESSIONS_FOLDER).unwrap();
    let numbers = listed
        .iter()
        .filter_map(|object| names::parse_session_object(&object.name));
    numbers.map(|(id, _)| id).max().unwrap()
}

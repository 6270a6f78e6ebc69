//! A session whose claim is damaged stops every prune, until the user ends it.

use std::time::Duration;

use crate::common::pruning::{assert_nothing_unexplained, everything, prune, try_prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::{HandClock, How, Process, assert_restores_bytes, back_up_bytes, noise, snapshot};
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

fn garble(machine: &Process, id: SessionId) {
    let garbled = machine
        .storage
        .damage(&names::claim(id), |bytes| bytes.truncate(bytes.len() - 13));
    assert!(garbled);
}

#[test]
fn a_session_with_a_damaged_claim_is_ended_only_by_force_and_after_silence() {
    let clock = HandClock::new();
    let storage = FaultStorage::with_clock(std::sync::Arc::new(clock.clone()));
    let machine = Process::on(storage, clock.clone(), 70);
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
    assert_eq!(dry.forgotten, [id]);
    try_prune(&machine.open(), &everything()).unwrap_err();
    assert_eq!(forget(&store, id, true, false).unwrap().forgotten, [id]);
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

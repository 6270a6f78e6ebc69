//! A reclaimer played by hand: condemn, wait, read checkpoints, decide, remove.

use super::{Host, LONG, at, backup_of, checkpoint, data, draft, epoch, id, range, series, slots};
use crate::{Draft, EndedBy, Life, Manifests, SessionError, SessionTable};

#[test]
fn an_epoch_from_end_to_end_with_two_sessions_and_a_sleeper() {
    let machine = Host::new();
    let old = machine.begin(1);
    let container = data(old.id(), 0);
    old.commit(backup_of(&old, 1)).unwrap();
    Manifests::new(&machine.sealer)
        .forget(series(1), old.id())
        .unwrap();

    // One session has taken slots 0-3 already. Another one sleeps. A third one begins after the
    // list exists.
    let (busy, sleeping) = (machine.elsewhere(), machine.elsewhere());
    let (user, sleeper) = (busy.begin(1), sleeping.begin(2));
    let reclaimer = machine.begin_read();
    let taken = {
        let permit = user.look_up();
        assert!(!permit.view().is_absent(at(container, 0)));
        vec![(container, range(0, 4))]
    };

    let dead = slots(container, &[(0, 10)]);
    machine.condemn(1, vec![dead]);
    let asked = SessionTable::list(&machine.sealer).unwrap();
    let asked: Vec<_> = asked
        .running
        .iter()
        .filter(|info| info.id != reclaimer.id())
        .collect();
    assert_eq!(
        asked.iter().map(|info| info.id).collect::<Vec<_>>(),
        [user.id(), sleeper.id()]
    );
    assert!(asked.iter().all(|info| !info.has_answered(epoch(1))));

    let late = busy.begin(3);
    assert!(
        late.view().is_absent(at(container, 5)),
        "who comes after has seen the epoch"
    );

    let tick = user.tick().unwrap();
    assert_eq!((tick.new_epoch, tick.checkpoint_wanted), (Some(epoch(1)), true));
    let permit = user.look_up();
    assert!(permit.view().is_absent(at(container, 5)) && permit.view().is_absent(at(container, 1)));
    drop(permit);
    checkpoint(
        &user,
        Draft {
            references: taken.clone(),
            ..draft(1)
        },
    );

    // The reclaimer watches the sleeper for T, by its own clock, and expires it.
    let watch = crate::DeathWatch::new(machine.sealer.env().clone(), reclaimer.policy());
    for (wait, dead) in [(LONG / 2, false), (LONG / 2, false), (LONG, true)] {
        let table = SessionTable::list(&machine.sealer).unwrap();
        assert!(table.get(user.id()).unwrap().has_answered(epoch(1)));
        let info = table.get(sleeper.id()).unwrap();
        assert!(!info.has_answered(epoch(1)));
        let life = watch.observe(info);
        assert_eq!(matches!(life, Life::Dead(_)), dead, "{life:?}");
        if dead {
            assert_eq!(
                reclaimer.expire(info).unwrap(),
                EndedBy::Expired { by: reclaimer.id() }
            );
        }
        machine.clock.advance(wait);
    }
    assert!(matches!(
        sleeper.commit(backup_of(&sleeper, 0)),
        Err(SessionError::EndedElsewhere { .. })
    ));

    // All have answered or ended. Now it reads their checkpoints, and then manifests.
    let table = SessionTable::list(&machine.sealer).unwrap();
    assert!(table.get(sleeper.id()).is_none());
    let read = super::newest(&machine, table.get(user.id()).unwrap()).unwrap();
    assert_eq!((read.answered, read.references), (Some(epoch(1)), taken));
    assert_eq!(
        Manifests::new(&machine.sealer).list().unwrap().backups().count(),
        0
    );
    machine.remove(1, vec![slots(container, &[(4, 6)])]);

    for session in [&user, &late] {
        session.tick().unwrap();
        assert!(
            !session.view().is_absent(at(container, 1)),
            "in use, so kept, so it may be found again"
        );
        assert!(session.view().is_absent(at(container, 5)));
    }
    user.commit(backup_of(&user, 1)).unwrap();
    late.commit(backup_of(&late, 0)).unwrap();
    assert_eq!(
        Manifests::new(&machine.sealer).list().unwrap().backups().count(),
        2
    );
}

#[test]
fn a_session_that_ends_without_an_answer_needs_none() {
    let host = Host::new();
    let session = host.begin(1);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    assert!(session.checkpoint_wanted());
    session.commit(backup_of(&session, 0)).unwrap();
    assert!(
        SessionTable::list(&host.sealer).unwrap().running.is_empty(),
        "nobody is left to wait for"
    );
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert!(
        list.get(session.id()).unwrap().backup().is_some(),
        "manifests are listed after that"
    );
}

/// Whatever the order of "create the epoch, list sessions" and "claim, list epochs", no session is
/// missed.
#[test]
fn either_the_reclaimer_sees_the_session_or_the_session_sees_the_epoch() {
    use env::ManualClock;
    use env::fault::FaultStorage;
    use std::sync::{Arc, Mutex};

    let quiet = Host::new();
    quiet.storage.start_trace();
    quiet.begin(1);
    let operations = quiet.storage.take_trace().len();
    for n in 0..=operations {
        let machine = FaultStorage::new();
        let reclaimer = Host::of(machine.handle(), ManualClock::default());
        let seen = Arc::new(Mutex::new(None));
        let (note, by) = (Arc::clone(&seen), reclaimer.clone());
        let act = move || {
            by.condemn(1, vec![slots(data(id(40), 0), &[(0, 1)])]);
            let table = SessionTable::list(&by.sealer).unwrap();
            *note.lock().unwrap() = Some(table.running.first().cloned());
        };
        let counting = super::crashes::Interrupted::new(machine.handle(), n, Box::new(act));
        let sealer = super::sealer(Arc::new(counting), &ManualClock::default());
        let session = crate::Session::begin(&sealer, super::begin(1)).unwrap();
        let Some(info) = seen.lock().unwrap().take() else {
            continue;
        };
        let saw = session.view().newest_epoch() == Some(epoch(1));
        match info {
            Some(info) if !info.has_answered(epoch(1)) => {
                session.tick().unwrap();
                assert!(
                    session.checkpoint_wanted() || saw,
                    "operation {n}: the reclaimer waits for it"
                );
            }
            Some(_) | None => assert!(saw, "operation {n}: not listed, so it has to know"),
        }
        drop(session);
    }
}

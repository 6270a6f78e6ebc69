//! Becoming a backup, and finding that another session ended this one.

use env::fault::{Counted, CrashPolicy, FailWith, Fault, OpKind};
use env::{Clock, Storage};
use format::manifest::Manifest;
use format::names;
use types::Revision;

use super::{Host, backup_of, checkpoint, draft, id, plain_backup};
use crate::{EndedBy, Manifests, ReadEnd, SessionError, SessionTable};

#[test]
fn a_commit_is_barrier_manifest_barrier_and_then_deletes_its_own_objects() {
    let host = Host::new();
    let session = host.begin(1);
    checkpoint(&session, draft(1));
    host.storage.start_trace();
    let committed = session.commit(backup_of(&session, 2)).unwrap();
    assert!(committed.warnings.is_none());
    let trace = host.storage.take_trace();
    let kinds: Vec<_> = trace.iter().filter(|op| op.kind.is_mutating()).collect();
    assert_eq!(
        (kinds[0].kind, kinds[1].kind, kinds[2].kind),
        (OpKind::Barrier, OpKind::Put, OpKind::Barrier)
    );
    assert_eq!(kinds[1].name, committed.manifest.as_str());
    let record = names::committed(session.id());
    assert_eq!((kinds[3].kind, &*kinds[3].name), (OpKind::Put, record.as_str()));
    assert!(
        kinds[4..]
            .iter()
            .all(|op| op.kind == OpKind::Delete && op.name.starts_with("sessions/"))
    );
    let left = [names::claim(session.id()), record].map(|name| name.to_string());
    assert_eq!(host.names("sessions"), left);
    assert!(host.storage.is_durable(&committed.manifest));

    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    assert_eq!(
        manifests
            .resolve(&list, "latest", &crate::Filter::default())
            .unwrap()
            .session(),
        session.id()
    );
    assert!(SessionTable::list(&host.sealer).unwrap().running.is_empty());
    assert!(matches!(
        session.commit(backup_of(&session, 2)),
        Err(SessionError::Closed { .. })
    ));
    assert!(matches!(session.tick(), Err(SessionError::Closed { .. })));
}

#[test]
fn an_ended_session_learns_which_session_ended_it_and_stores_nothing() {
    let host = Host::new();
    let session = host.begin(1);
    let maintainer = host.beside().begin_read();
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .unwrap()
        .clone();
    maintainer.expire(&info).unwrap();
    let before = host.storage.counters_here();
    let error = session.commit(backup_of(&session, 0)).unwrap_err();
    let expected = EndedBy::Expired { by: maintainer.id() };
    assert!(
        matches!(&error, SessionError::EndedElsewhere { how, .. } if *how == expected),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("session 2 took it for dead and expired it"),
        "{error}"
    );
    assert_eq!(host.storage.counters_here().since(&before).put_bytes, 0);
    assert_eq!(Manifests::new(&host.sealer).list().unwrap().backups().count(), 0);
    assert!(matches!(
        session.commit(backup_of(&session, 0)),
        Err(SessionError::EndedElsewhere { .. })
    ));
}

#[test]
fn expiring_a_committed_session_says_so() {
    let host = Host::new();
    let session = host.begin(1);
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .unwrap()
        .clone();
    session.commit(backup_of(&session, 0)).unwrap();
    assert_eq!(host.begin_read().expire(&info).unwrap(), EndedBy::Committed);
    assert_eq!(Manifests::new(&host.sealer).list().unwrap().backups().count(), 1);
}

#[test]
fn a_commit_that_failed_may_be_made_again_at_every_operation() {
    let quiet = Host::new();
    let session = quiet.begin(1);
    let before = quiet.storage.counters();
    session.commit(backup_of(&session, 0)).unwrap();
    let operations = quiet.storage.counters().since(&before).all();
    assert!(operations > 5);
    for n in 1..=operations {
        let host = Host::new();
        let session = host.begin(1);
        host.storage
            .inject(Fault::fail(n, FailWith::Io).counting(Counted::All));
        match session.commit(backup_of(&session, 0)) {
            Ok(committed) => drop(committed),
            Err(_) => drop(session.commit(backup_of(&session, 0)).unwrap()),
        }
        host.storage.clear_faults();
        assert_eq!(
            Manifests::new(&host.sealer).list().unwrap().backups().count(),
            1,
            "operation {n}"
        );
        assert_eq!(host.names("backups").len(), 1);
        assert_not_torn(&host, &format!("operation {n}"));
        host.begin(1).gc_sessions().unwrap();
        assert_eq!(
            host.names(&names::session_folder(id(1))).len(),
            2,
            "the claim and the record, after operation {n}"
        );
    }
}

/// Once a backup is recorded as committed, damage of its manifest is no torn ending, even if
/// heartbeats are left that it could not delete.
fn assert_not_torn(host: &Host, when: &str) {
    if !host
        .names("sessions")
        .contains(&names::committed(id(1)).to_string())
    {
        return;
    }
    let copy = Host::of(host.storage.crash(CrashPolicy::KeepAll), host.clock.clone());
    let manifest = &copy.storage.list("backups").unwrap()[0].name;
    assert!(
        copy.storage
            .damage(manifest, |bytes| bytes.truncate(bytes.len() - 1))
    );
    let manifests = Manifests::new(&copy.sealer);
    let list = manifests.list().unwrap();
    assert_eq!(list.damaged.len(), 1, "{when}");
    assert!(!manifests.was_cut_short(&list.damaged[0]).unwrap(), "{when}");
}

#[test]
fn a_storage_that_fails_for_a_moment_when_all_is_durable_ends_no_commit() {
    let host = Host::new();
    let session = host.begin(1);
    let before = host.storage.counters();
    host.storage
        .inject(Fault::fail(2, FailWith::Io).counting(Counted::Only(OpKind::Head)));
    session.commit(backup_of(&session, 0)).unwrap();
    assert_eq!(
        host.storage.counters().since(&before).heads,
        3,
        "asked before, in vain, and again"
    );
    assert_eq!(Manifests::new(&host.sealer).list().unwrap().backups().count(), 1);
}

#[test]
fn a_storage_that_answers_no_more_when_all_is_durable_leaves_a_backup_that_may_be_there() {
    for with in [FailWith::Io, FailWith::Denied] {
        let host = Host::new();
        let session = host.begin(1);
        let (before, since) = (host.storage.counters(), host.clock.monotonic());
        host.storage
            .inject(Fault::fail_from(2, with).counting(Counted::Only(OpKind::Head)));
        let error = session.commit(backup_of(&session, 0)).unwrap_err();
        let is_of_this =
            matches!(&error, SessionError::Unconfirmed { session: made, .. } if *made == session.id());
        assert!(is_of_this, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("backup 1 may be stored") && text.contains("`onefold snapshots`"),
            "{text}"
        );
        let heads = host.storage.counters().since(&before).heads;
        let waited = host.clock.monotonic() - since;
        if with == FailWith::Io {
            assert_eq!((heads, waited.as_secs()), (6, 15), "asked for a while");
        } else {
            assert_eq!((heads, waited.as_secs()), (2, 0), "a refusal stays one");
        }
        let list = Manifests::new(&host.sealer).list().unwrap();
        assert_eq!(list.backups().count(), 1, "it is");
        host.storage.clear_faults();
        session.commit(backup_of(&session, 0)).unwrap();
        assert_eq!(host.names("backups").len(), 1);
    }
}

#[test]
fn a_failed_commit_says_whether_it_may_be_stored() {
    let tries = [
        (OpKind::Barrier, 1, FailWith::Io, false),
        (OpKind::Head, 1, FailWith::Io, false),
        (OpKind::Put, 1, FailWith::NoSpace, false),
        (OpKind::Put, 1, FailWith::Denied, false),
        (OpKind::Put, 1, FailWith::Io, true),
        (OpKind::Barrier, 2, FailWith::Io, true),
        (OpKind::Barrier, 2, FailWith::NoSpace, true),
    ];
    for (kind, n, with, may_be_stored) in tries {
        let host = Host::new();
        let session = host.begin(1);
        host.storage
            .inject(Fault::fail(n, with).counting(Counted::Only(kind)));
        let error = session.commit(backup_of(&session, 0)).unwrap_err();
        assert_eq!(
            matches!(error, SessionError::Unconfirmed { .. }),
            may_be_stored,
            "{kind:?} {n}, {with:?}: {error}"
        );
    }
}

#[test]
fn a_put_that_only_seemed_to_fail_is_this_sessions_commit() {
    let host = Host::new();
    let session = host.begin(1);
    let name = names::manifest(session.series(), session.id(), Revision::FIRST);
    host.objects()
        .put_durably(&name, &Manifest::Commit(plain_backup(1)))
        .unwrap();
    session.commit(backup_of(&session, 0)).unwrap();
    assert_eq!(host.names("backups").len(), 1);
}

#[test]
fn a_backup_that_lacks_checkpointed_containers_is_refused() {
    let host = Host::new();
    let session = host.begin(1);
    checkpoint(&session, draft(3));
    let error = session.commit(backup_of(&session, 2)).unwrap_err();
    assert!(matches!(error, SessionError::Misuse { .. }));
    session.commit(backup_of(&session, 3)).unwrap();
}

#[test]
fn a_value_that_cannot_be_stored_is_an_error_and_no_panic() {
    let host = Host::new();
    let session = host.begin(1);
    let mut backup = backup_of(&session, 0);
    backup.tags = vec!["b".to_owned(), "a".to_owned()];
    assert!(matches!(session.commit(backup), Err(SessionError::Format(_))));
    let mut draft = draft(1);
    draft.containers[0].count = 0;
    assert!(matches!(
        session.begin_checkpoint().unwrap().write(draft),
        Err(SessionError::Format(_))
    ));
    session.commit(backup_of(&session, 0)).unwrap();
}

#[test]
fn a_read_session_ends_by_itself_and_becomes_no_backup() {
    let host = Host::new();
    let session = host.begin_read();
    assert!(session.is_read());
    assert!(matches!(
        session.commit(plain_backup(1)),
        Err(SessionError::Misuse { .. })
    ));
    assert!(matches!(session.end().unwrap(), ReadEnd::Clean));
    assert!(matches!(session.end(), Err(SessionError::Closed { .. })));
    assert!(SessionTable::list(&host.sealer).unwrap().running.is_empty());
    assert!(
        Manifests::new(&host.sealer).list().unwrap().entries.is_empty(),
        "its ending is no entry"
    );
}

#[test]
fn an_expired_read_session_learns_it_at_its_end() {
    let host = Host::new();
    let (session, maintainer) = (host.begin_read(), host.begin_read());
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .unwrap()
        .clone();
    maintainer.expire(&info).unwrap();
    match session.end().unwrap() {
        ReadEnd::Elsewhere(how) => assert_eq!(how, EndedBy::Expired { by: maintainer.id() }),
        ReadEnd::Clean => panic!("it was expired"),
    }
}

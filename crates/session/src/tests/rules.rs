//! Choosing parents.

use format::names;
use types::Revision;

use super::{Host, backup_of, checkpoint, data, draft, epoch, id, series, whole};
use crate::{Manifests, SessionError, SessionTable};

fn declared(host: &Host, session: &crate::Session) -> Vec<(types::SeriesId, types::SessionId, Revision)> {
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .unwrap()
        .clone();
    super::newest(host, &info)
        .map(|read| read.parents)
        .unwrap_or_default()
}

#[test]
fn a_parent_is_declared_durably_with_the_revision_in_use_before_it_is_used() {
    let host = Host::new();
    let parent = host.begin(1);
    parent.commit(backup_of(&parent, 0)).unwrap();
    let manifests = Manifests::new(&host.sealer);
    let tagged = manifests
        .revise(series(1), parent.id(), |present| {
            let mut backup = present.backup.clone();
            backup.tags = vec!["weekly".to_owned()];
            Ok(Some(backup))
        })
        .unwrap();
    let session = host.begin(1);
    let chosen = session
        .choose_parents(|list| {
            list.latest(&crate::Filter::default())
                .map(|entry| entry.session())
                .into_iter()
                .collect()
        })
        .unwrap();
    assert_eq!((chosen.len(), chosen[0].stored.revision), (1, tagged));
    assert_eq!(declared(&host, &session), [(series(1), parent.id(), tagged)]);
    assert!(host.storage.is_durable(&names::checkpoint(session.id(), 0)));
    manifests.forget(series(1), parent.id()).unwrap();
    checkpoint(&session, draft(1));
    assert_eq!(
        declared(&host, &session),
        [(series(1), parent.id(), tagged)],
        "though forgotten"
    );
    session.commit(backup_of(&session, 1)).unwrap();
    let list = manifests.list().unwrap();
    assert_eq!(
        list.get(session.id()).unwrap().backup().unwrap().parents,
        [(parent.id(), tagged)]
    );
}

#[test]
fn a_choice_that_an_answer_overtakes_is_made_again() {
    let host = Host::new();
    let parent = host.begin(1);
    parent.commit(backup_of(&parent, 0)).unwrap();
    let session = host.begin(1);
    let manifests = Manifests::new(&host.sealer);
    let mut choices = 0;
    let chosen = session
        .choose_parents(|list| {
            choices += 1;
            if choices == 1 {
                assert!(list.get(parent.id()).unwrap().backup().is_some());
                // The parent is forgotten and condemned, and a checkpoint answers that cannot know
                // of the choice.
                manifests.forget(series(1), parent.id()).unwrap();
                host.condemn(1, Vec::new());
                session.tick().unwrap();
                checkpoint(&session, draft(0));
                return vec![parent.id()];
            }
            list.backups().map(crate::ManifestEntry::session).collect()
        })
        .unwrap();
    assert_eq!(choices, 2);
    assert!(chosen.is_empty(), "listed anew, it is forgotten");
    assert!(declared(&host, &session).is_empty() && session.parents().is_empty());
}

#[test]
fn an_unanswered_epoch_keeps_the_choice_and_the_answer_declares_it() {
    let host = Host::new();
    let parent = host.begin(1);
    parent.commit(backup_of(&parent, 0)).unwrap();
    let session = host.begin(1);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    session.choose_parents(|_| vec![parent.id()]).unwrap();
    let info = || {
        SessionTable::list(&host.sealer)
            .unwrap()
            .get(session.id())
            .unwrap()
            .clone()
    };
    assert!(!info().has_answered(epoch(1)), "declaring answers nothing");
    checkpoint(&session, draft(0));
    assert!(info().has_answered(epoch(1)));
    assert_eq!(
        declared(&host, &session),
        [(series(1), parent.id(), Revision::FIRST)]
    );
}

#[test]
fn only_a_backup_can_be_a_parent() {
    let host = Host::new();
    let forgotten = host.begin(1);
    forgotten.commit(backup_of(&forgotten, 0)).unwrap();
    Manifests::new(&host.sealer)
        .forget(series(1), forgotten.id())
        .unwrap();
    let session = host.begin(1);
    for none in [forgotten.id(), id(99), session.id()] {
        let result = session.choose_parents(|_| vec![none]);
        assert!(matches!(result, Err(SessionError::NoBackup { .. })), "{none}");
    }
    assert!(session.choose_parents(|_| Vec::new()).unwrap().is_empty());
}

#[test]
fn a_parent_that_could_not_be_declared_is_not_declared_later() {
    use env::fault::{Counted, FailWith, Fault, OpKind};
    let host = Host::new();
    let parent = host.begin(1);
    parent.commit(backup_of(&parent, 0)).unwrap();
    let session = host.begin(1);
    host.storage
        .inject(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Put)));
    session.choose_parents(|_| vec![parent.id()]).unwrap_err();
    assert!(session.parents().is_empty());
    session.choose_parents(|_| vec![parent.id()]).unwrap();
    assert_eq!(session.parents(), [(parent.id(), Revision::FIRST)]);
}

#[test]
fn a_read_session_answers_an_epoch_by_itself_with_its_declarations() {
    let host = Host::new();
    let old = host.begin(1);
    old.commit(backup_of(&old, 1)).unwrap();
    let reader = host.begin_read();
    reader.choose_parents(|_| vec![old.id()]).unwrap();
    host.condemn(1, vec![whole(data(old.id(), 0))]);
    let info = |host: &Host| {
        let table = SessionTable::list(&host.sealer).unwrap();
        table.get(reader.id()).unwrap().clone()
    };
    assert!(!info(&host).has_answered(epoch(1)));

    // The answer waits for look-ups. A beat does not.
    let permit = reader.look_up();
    assert!(reader.tick().unwrap().checkpoint_wanted);
    assert!(!info(&host).has_answered(epoch(1)));
    drop(permit);
    assert!(!reader.tick().unwrap().checkpoint_wanted);
    let answered = info(&host);
    assert!(answered.has_answered(epoch(1)));
    let checkpoints = SessionTable::checkpoints(&host.sealer, &answered).unwrap();
    let last = checkpoints.last().unwrap();
    assert_eq!(last.answered, Some(epoch(1)));
    assert_eq!(last.parents, [(series(1), old.id(), Revision::FIRST)]);
}

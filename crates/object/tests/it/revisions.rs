//! The next of a series: no update is lost, however slow a creator is.

use std::sync::Arc;

use crypto::EncryptionKey;
use env::fault::FaultStorage;
use env::{MemoryStorage, Storage};
use format::frame::ObjectKind;
use object::{Head, Next, ObjectError, Outcome, Revisions, Sealer};
use types::{ObjectName, Revision, StoreId};

use crate::support::{Interrupted, env_on, revision};

fn name(revision: Revision) -> ObjectName {
    ObjectName::new(format!("s/{revision}")).unwrap()
}

fn series(sealer: &Sealer) -> Revisions<'_> {
    Revisions::new(sealer, ObjectKind::Lease, "s", name, |name| {
        Revision::new(name.as_str().strip_prefix("s/")?.parse().ok()?).ok()
    })
}

fn sealer_on(storage: impl Storage + 'static, seed: u64) -> Sealer {
    Sealer::new(
        env_on(storage, seed),
        StoreId::from_bytes([1; 16]),
        EncryptionKey::from_bytes([7; 32]),
    )
}

/// The content is a count. Each revision adds one.
fn add_one(head: Option<&Head>) -> Result<Next, ObjectError> {
    let count = head.map_or(0, |head| head.plain.as_ref().unwrap()[0]);
    Ok(Next::Create(vec![count + 1]))
}

fn count(sealer: &Sealer) -> u8 {
    series(sealer).head().unwrap().unwrap().plain.unwrap()[0]
}

#[test]
fn revisions_follow_one_another() {
    let sealer = sealer_on(MemoryStorage::new(), 1);
    assert!(series(&sealer).head().unwrap().is_none());
    for n in 0..12 {
        assert_eq!(
            series(&sealer).create_next(add_one).unwrap(),
            Outcome::Created(revision(n))
        );
    }
    assert_eq!(count(&sealer), 12, "the highest by number, not by name");
    assert_eq!(series(&sealer).list().unwrap().len(), 12);
    let stop = |head: Option<&Head>| {
        assert_eq!(head.unwrap().revision, revision(11));
        Ok::<_, ObjectError>(Next::Stop)
    };
    assert_eq!(series(&sealer).create_next(stop).unwrap(), Outcome::Stopped);
    assert_eq!(series(&sealer).list().unwrap().len(), 12);
}

/// The content is a list of tokens. If a rival has continued from a creator's revision, the creator
/// finds its token there.
#[test]
fn no_update_is_lost_or_made_twice_between_threads() {
    let storage = FaultStorage::new();
    let add = |sealer: &Sealer, token: u8| {
        let done = series(sealer).create_next(|head| {
            let mut tokens = head.map_or_else(Vec::new, |head| head.plain.as_ref().unwrap().clone());
            if tokens.contains(&token) {
                return Ok::<_, ObjectError>(Next::Stop);
            }
            tokens.push(token);
            Ok(Next::Create(tokens))
        });
        done.unwrap();
    };
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (sealer, add) = (sealer_on(storage.handle(), n.into()), &add);
            scope.spawn(move || (0..10).for_each(|i| add(&sealer, n * 10 + i)));
        }
    });
    let sealer = sealer_on(storage, 9);
    let head = series(&sealer).head().unwrap().unwrap();
    let mut tokens = head.plain.unwrap();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..80).collect::<Vec<u8>>());
    assert_eq!(head.revision, revision(79));
}

#[test]
fn a_number_used_and_deleted_is_void_and_the_update_is_made_again() {
    let shared = Arc::new(MemoryStorage::new());
    let slow = Interrupted::new(shared.clone());
    let (env, _) = env::Env::simulated(slow.clone(), 1);
    let slow_sealer = Sealer::new(
        env,
        StoreId::from_bytes([1; 16]),
        EncryptionKey::from_bytes([7; 32]),
    );
    series(&slow_sealer).create_next(add_one).unwrap();
    // Between the slow process's look and its put, a rival makes two more revisions and deletes all
    // below.
    slow.before_put(1, move || {
        let (env, _) = env::Env::simulated(shared.clone(), 2);
        let rival = Sealer::new(
            env,
            StoreId::from_bytes([1; 16]),
            EncryptionKey::from_bytes([7; 32]),
        );
        series(&rival).create_next(add_one).unwrap();
        series(&rival).create_next(add_one).unwrap();
        shared.delete(&name(revision(0))).unwrap();
        shared.delete(&name(revision(1))).unwrap();
    });
    assert_eq!(
        series(&slow_sealer).create_next(add_one).unwrap(),
        Outcome::Created(revision(3))
    );
    assert_eq!(count(&slow_sealer), 4);
}

#[test]
fn a_torn_head_is_shown_and_its_number_not_used_again() {
    let storage = FaultStorage::new();
    let sealer = sealer_on(storage.clone(), 1);
    series(&sealer).create_next(add_one).unwrap();
    series(&sealer).create_next(add_one).unwrap();
    storage.damage(&name(revision(1)), |bytes| bytes.truncate(9));
    let head = series(&sealer).head().unwrap().unwrap();
    assert!(matches!(head.plain, Err(ObjectError::Rot { .. })));
    let over_it = |head: Option<&Head>| {
        assert!(head.unwrap().plain.is_err());
        Ok::<_, ObjectError>(Next::Create(vec![9]))
    };
    assert_eq!(
        series(&sealer).create_next(over_it).unwrap(),
        Outcome::Created(revision(2))
    );
    assert_eq!(count(&sealer), 9);
}

#[test]
fn the_last_number_is_an_error() {
    let storage = MemoryStorage::new();
    storage.put(&name(Revision::MAX), &[b"planted"]).unwrap();
    let sealer = sealer_on(storage, 1);
    let found = series(&sealer).create_next(|_| Ok::<_, ObjectError>(Next::Create(vec![1])));
    assert!(matches!(found, Err(ObjectError::Exhausted { .. })));
}

#[test]
fn errors_of_the_decision_are_passed_on() {
    let sealer = sealer_on(MemoryStorage::new(), 1);
    let refused = series(&sealer).create_next(|_| Err(ObjectError::NotAStore));
    assert!(matches!(refused, Err(ObjectError::NotAStore)));
    assert!(series(&sealer).list().unwrap().is_empty());
}

//! Whether a place keeps the promises of [`Storage`] that a store depends on.
//!
//! Each probe uses names of its own, and two handles: what one writes, the other must see at once.

use std::sync::Arc;
use std::thread;

use env::{AlignedBuffer, LockState, Storage, StorageError};
use types::ByteRange;

use super::named::name;
use super::noise::noise;
use super::{Done, PLACE, Runner, Stop, TestedPlace, speed};
use crate::error::Result;

/// The part of the place that the probes use.
pub(super) const PART: &str = "probe";

/// The names of the checks. `speed` follows them.
pub(super) const NAMES: [&str; 7] = [
    "creates_once",
    "reads_what_was_written",
    "lists_what_exists",
    "reads_ranges",
    "deletes",
    "syncs",
    "locks",
];

/// Creators of one name at the same moment.
const RIVALS: u8 = 4;

/// Two handles of the probed part.
struct Probe {
    one: Arc<dyn Storage>,
    other: Arc<dyn Storage>,
}

type Step = std::result::Result<(), Stop>;

/// The first of them without which no store can be tried: it could lose data, or wait for ever.
const ESSENTIAL: usize = 4;

/// Makes the checks. Returns the name of the first that a store cannot do without and that did not
/// pass.
///
/// # Errors
/// If somebody asked to stop, or the place cannot be opened again.
pub(super) fn check(
    place: &TestedPlace<'_>,
    one: Arc<dyn Storage>,
    runner: &mut Runner<'_>,
) -> Result<Option<&'static str>> {
    let other = (place.open)(PART)?;
    let probe = Probe { one, other };
    let checks: [&dyn Fn() -> Done; 7] = [
        &|| probe.creates_once(place.probe),
        &|| probe.reads_what_was_written(),
        &|| probe.lists_what_exists(),
        &|| probe.reads_ranges(),
        &|| probe.deletes(),
        &|| probe.syncs(),
        &|| probe.locks(),
    ];
    let mut failed = None;
    for (at, (name, make)) in NAMES.into_iter().zip(checks).enumerate() {
        if !runner.check(name, make)? && at < ESSENTIAL {
            failed.get_or_insert(name);
        }
        if runner.is_away {
            // Each further request would wait for an answer.
            runner.leave_out(&NAMES[at + 1..], name);
            runner.leave_out(&["speed"], name);
            return Ok(Some(name));
        }
    }
    let mut speeds = Vec::new();
    let storage = &*probe.one;
    let clock = runner.clock;
    runner.check("speed", || {
        speeds = speed::measure(storage, clock)?;
        Ok(speed::in_words(&speeds))
    })?;
    for speed in &speeds {
        (runner.told)(super::SelfTestStep::Measured(speed));
    }
    Ok(failed)
}

fn broken(what: impl Into<String>) -> Stop {
    Stop::failed(what, PLACE)
}

impl Probe {
    fn creates_once(&self, probe: Option<&dyn Fn() -> std::result::Result<(), StorageError>>) -> Done {
        if let Some(probe) = probe {
            probe().map_err(|error| match error {
                StorageError::Unusable { .. } => broken(error.to_string()),
                error => error.into(),
            })?;
        }
        let object = name("once/object");
        self.one.put(&object, &[b"first"])?;
        for (storage, whose) in [(&self.other, "another"), (&self.one, "the same")] {
            match storage.put(&object, &[b"other"]) {
                Err(StorageError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    return Err(broken(format!(
                        "{whose} client created an object of a name that was taken: backups that run at once could destroy \
                         each other's data"
                    )));
                }
            }
        }
        if self.other.get(&object)? != b"first" {
            return Err(broken("an object was overwritten by a creator that was refused"));
        }
        self.rivals()?;
        Ok(format!(
            "a taken name is refused, and one of {RIVALS} creators at once wins"
        ))
    }

    /// Of several creators at the same moment, exactly one may win.
    fn rivals(&self) -> Step {
        for round in 0..3 {
            let object = name(&format!("once/rivals-{round}"));
            let created: Vec<std::result::Result<(), StorageError>> = thread::scope(|scope| {
                let threads: Vec<_> = (0..RIVALS)
                    .map(|rival| {
                        let storage = if rival % 2 == 0 { &self.one } else { &self.other };
                        let object = &object;
                        scope.spawn(move || storage.put(object, &[&[rival; 100]]))
                    })
                    .collect();
                let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                    Ok(created) => created,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                threads.into_iter().map(join).collect()
            });
            let winners: Vec<u8> = (0..RIVALS)
                .zip(&created)
                .filter_map(|(rival, created)| created.is_ok().then_some(rival))
                .collect();
            let [winner] = winners[..] else {
                for result in created {
                    match result {
                        Ok(()) | Err(StorageError::AlreadyExists { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                return Err(broken(format!(
                    "{} of {RIVALS} clients that created one name at once were told that they did; exactly one must be",
                    winners.len()
                )));
            };
            if self.other.get(&object)? != [winner; 100] {
                return Err(broken(
                    "an object has the bytes of a client that was told that it did not create it",
                ));
            }
        }
        Ok(())
    }

    fn reads_what_was_written(&self) -> Done {
        let lens = [0, 1, 4096, 100_001, 1 << 20];
        for (number, len) in lens.into_iter().enumerate() {
            let object = name(&format!("read/{number}"));
            match self.one.get(&object) {
                Err(StorageError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(broken("an object is there that nobody wrote")),
            }
            let bytes = noise(number as u64, len);
            let (head, tail) = bytes.split_at(len / 3);
            self.one.put(&object, &[head, tail])?;
            for (storage, whose) in [(&self.other, "another client"), (&self.one, "the client")] {
                let missing = |error| match error {
                    StorageError::NotFound { .. } => broken(format!(
                        "{whose} does not see an object right after it was written"
                    )),
                    error => error.into(),
                };
                if storage.get(&object).map_err(missing)? != bytes {
                    return Err(broken(format!(
                        "an object of {len} bytes reads as others than were written"
                    )));
                }
                let found = storage.head(&object).map_err(missing)?.len;
                if found != len as u64 {
                    return Err(broken(format!(
                        "an object of {len} bytes is said to have {found}"
                    )));
                }
            }
        }
        Ok(format!(
            "{} objects of up to 1 MiB, at once, by two clients",
            lens.len()
        ))
    }

    fn lists_what_exists(&self) -> Done {
        let mut expected: Vec<String> = (0..12)
            .map(|number| format!("list/{}/{number:02}", number % 3))
            .collect();
        expected.sort_unstable();
        for object in &expected {
            self.one.put(&name(object), &[object.as_bytes()])?;
            self.compare_listing("list", object)?;
        }
        // A neighbour whose name begins alike is in another folder.
        self.one.put(&name("list2/0"), &[b"x"])?;
        let gone = expected[5].clone();
        match self.one.delete(&name(&gone)) {
            Ok(()) => drop(expected.remove(5)),
            // `deletes` tells of that.
            Err(StorageError::Denied { .. } | StorageError::NoRight { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        for storage in [&self.other, &self.one] {
            let listed = names_in(&**storage, "list")?;
            if listed.contains(&gone) && !expected.contains(&gone) {
                return Err(broken(format!(
                    "a listing still has {gone}, which was deleted before"
                )));
            }
            if listed != expected {
                return Err(broken(format!(
                    "a listing has {listed:?}, and {expected:?} exist"
                )));
            }
            let folders = storage.list_folders("list")?;
            if folders != ["0", "1", "2"] {
                return Err(broken(format!(
                    "the folders 0, 1 and 2 are listed as {folders:?}"
                )));
            }
        }
        Ok("listings have each object once it is written, and no longer once it is deleted".to_owned())
    }

    /// Whether both clients list an object that was just written.
    fn compare_listing(&self, folder: &str, object: &str) -> Step {
        for storage in [&self.other, &self.one] {
            if !names_in(&**storage, folder)?.contains(&object.to_owned()) {
                return Err(broken(format!(
                    "a listing lacks {object}, which was written before: a prune could delete data of a new backup"
                )));
            }
        }
        Ok(())
    }

    fn reads_ranges(&self) -> Done {
        let (object, bytes) = (name("ranges/object"), noise(9, 300_000));
        self.one.put(&object, &[&bytes])?;
        let ranges = [(0, 1), (1, 4095), (4096, 8192), (99_999, 100_001), (299_999, 1)];
        let mut buffer = AlignedBuffer::with_capacity(128 << 10);
        for (offset, len) in ranges {
            let range = ByteRange {
                offset: offset as u64,
                len: len as u64,
            };
            let expected = &bytes[offset..offset + len];
            let place = self.other.get_range_into(&object, range, &mut buffer)?;
            if self.other.get_range(&object, range)? != expected || buffer.get(place) != Some(expected) {
                return Err(broken(format!(
                    "bytes {offset} to {} of an object were asked for, and others were given",
                    offset + len
                )));
            }
        }
        let past = ByteRange {
            offset: 299_990,
            len: 20,
        };
        match self.other.get_range(&object, past) {
            Err(StorageError::PastEnd { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(bytes) => {
                return Err(broken(format!(
                    "20 bytes were asked for where 10 are left, and {} were given without an error",
                    bytes.len()
                )));
            }
        }
        let (tail, len) = self.other.get_tail(&object, 1000)?;
        if tail != bytes[299_000..] || len != 300_000 {
            return Err(broken("the last 1000 bytes of an object are given wrong"));
        }
        Ok(format!(
            "{} ranges, the end of an object, and one past it",
            ranges.len()
        ))
    }

    fn deletes(&self) -> Done {
        let object = name("delete/object");
        self.one.put(&object, &[b"first"])?;
        if let Err(error) = self.one.delete(&object) {
            return Err(Stop::failed(
                format!("an object cannot be deleted: {error}"),
                "give the right to delete; without it backups work, and `prune` frees nothing",
            ));
        }
        for storage in [&self.other, &self.one] {
            match storage.get(&object) {
                Err(StorageError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(broken("an object that was deleted is still read")),
            }
        }
        self.other.put(&object, &[b"second"])?;
        if self.one.get(&object)? != b"second" {
            return Err(broken(
                "a name that was deleted and created again has its old bytes",
            ));
        }
        Ok("a deleted object is gone for every client, and its name is free".to_owned())
    }

    fn syncs(&self) -> Done {
        for (storage, object) in [(&self.one, "sync/one"), (&self.other, "sync/other")] {
            storage.put(&name(object), &[b"x"])?;
            storage.barrier()?;
        }
        Ok("the place says that what was written is durable".to_owned())
    }

    fn locks(&self) -> Done {
        let lock = name("locks/one");
        let Some(held) = self.one.lock(&lock)? else {
            return Ok(
                "this place has none: a session that died counts as dead after some minutes".to_owned(),
            );
        };
        match self.other.lock(&lock) {
            Err(StorageError::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(broken("a second client got a lock that another one holds")),
        }
        let state = self.other.lock_state(&lock)?;
        if !matches!(state, LockState::Held | LockState::Unknown) {
            return Err(broken(format!("a lock that is held is said to be {state:?}")));
        }
        drop(held);
        let state = self.other.lock_state(&lock)?;
        if state == LockState::Held {
            return Err(broken("a lock that was given back is said to be held"));
        }
        let again = self.other.lock(&lock)?;
        drop(again);
        self.other.drop_lock(&lock)?;
        Ok("a held lock is refused to others, and free afterwards".to_owned())
    }
}

fn names_in(storage: &dyn Storage, folder: &str) -> std::result::Result<Vec<String>, StorageError> {
    let listed = storage.list(folder)?;
    Ok(listed.iter().map(|meta| meta.name.to_string()).collect())
}

//! The disk is full, or fails, at every operation of a store's life. Every writer gets an error,
//! nothing acknowledged is affected, and with room again the next backup completes.

use crate::common::{
    How, Picture, Process, Tree, assert_restores, assert_sound, back_up, back_up_bytes, back_up_stream,
    is_long, noise, snapshot, tiny,
};
use env::fault::{Counted, CrashPolicy, FailWith, Fault, FaultStorage, OpKind};
use onefold::{BackupReport, Error, Monitor, SessionId, Store, StreamPiece, StreamSource};

/// Bytes of all objects.
fn live(storage: &FaultStorage) -> u64 {
    let objects = env::Storage::list(storage, "").unwrap();
    objects.iter().map(|object| object.len).sum::<u64>()
}

/// The faults to try at the n-th operation: of one kind of operation or of all that change
/// something, once or from then on.
fn faults(n: u64) -> Vec<(Fault, FailWith)> {
    let mut faults = Vec::new();
    let mut with = vec![FailWith::NoSpace];
    if is_long() {
        with.extend([FailWith::Io, FailWith::Denied]);
    }
    for with in with {
        for counted in [Counted::Only(OpKind::Put), Counted::Mutating] {
            faults.push((Fault::fail_from(n, with).counting(counted), with));
            faults.push((Fault::fail(n, with).counting(counted), with));
        }
    }
    faults
}

/// The text of an error or a note that such a fault caused.
fn assert_says_why(text: &str, with: FailWith, when: &str) {
    let word = match with {
        FailWith::NoSpace => "no space left",
        FailWith::Io => "injected fault",
        FailWith::Denied => "permission denied",
        FailWith::Outage => "injected outage",
    };
    assert!(text.contains(word), "{when}: {text}");
}

/// Runs `act` on copies of a machine, each with another fault, until no fault is reached any more.
/// After each, `verify` examines the machine, first while the fault lasts, then without it.
fn at_every_operation<T>(
    base: &Process,
    act: impl Fn(&Store) -> Result<T, Error>,
    notes: impl Fn(&T) -> Vec<String>,
    verify: impl Fn(&Process, Option<&T>, &str),
) {
    let mut struck = 0;
    for n in 1.. {
        let mut reached = false;
        for (fault, with) in faults(n) {
            let when = format!("{fault:?}");
            let machine = base.storage.crash(CrashPolicy::KeepAll);
            let process = Process::on(machine, base.clock.clone(), 7000 + n);
            let store = process.open();
            process.storage.inject(fault);
            let result = act(&store);
            match &result {
                Ok(done) => {
                    let notes = notes(done);
                    for note in &notes {
                        assert_says_why(note, with, &when);
                    }
                    reached |= !notes.is_empty();
                }
                Err(error) => {
                    assert_says_why(&error.to_string(), with, &when);
                    reached = true;
                }
            }
            drop(store);
            verify(&process, result.as_ref().ok(), &format!("{when}, while it lasts"));
            process.storage.clear_faults();
            verify(&process, result.as_ref().ok(), &when);
            struck += u64::from(result.is_err());
        }
        if !reached {
            break;
        }
    }
    assert!(struck >= 8, "{struck}");
}

fn notes(report: &BackupReport) -> Vec<String> {
    report.warnings.iter().map(ToString::to_string).collect()
}

/// Earlier backups are whole, whether or not there is room.
fn assert_whole(process: &Process, tree: &Tree, backups: &[(SessionId, Picture)], when: &str) {
    let store = process.open();
    for (id, picture) in backups {
        assert_restores(&store, &snapshot(&store, *id), &tree.root(), picture, when);
    }
    assert_sound(&store, when);
}

/// A further backup is made and restores.
fn assert_works_on(process: &Process, tree: &Tree, when: &str) {
    let store = process.open();
    let next = back_up(&store, tree, &How::plain()).unwrap_or_else(|error| panic!("{when}: {error}"));
    assert!(next.warnings.is_empty(), "{when}: {:?}", next.warnings);
    assert_restores(
        &store,
        &snapshot(&store, next.id),
        &tree.root(),
        &tree.picture(),
        when,
    );
    assert_sound(&process.open(), &format!("{when}, and the next backup"));
}

#[test]
fn full_while_a_store_is_made() {
    let mut n = 1;
    loop {
        let process = Process::new(n);
        process
            .storage
            .inject(Fault::fail_from(n, FailWith::NoSpace).counting(Counted::Mutating));
        let made = process.try_init(&tiny());
        process.storage.clear_faults();
        let when = format!("operation {n}");
        let tree = Tree::plant(n, 20 << 10);
        match made {
            Ok(_) => {
                assert!(n > 3, "{when}");
                assert_works_on(&process, &tree, &when);
                return;
            }
            Err(error) => assert_says_why(&error.to_string(), FailWith::NoSpace, &when),
        }
        // The error does not tell whether there is a store. In both cases one can be made or
        // opened.
        if process.try_open().is_err() {
            process.init();
        }
        assert_works_on(&process, &tree, &when);
        n += 1;
    }
}

fn full_in_a_backup(how: &How, has_earlier: bool, seed: u64) {
    let base = Process::new(seed);
    base.init();
    let tree = Tree::plant(seed, 50 << 10);
    let mut backups = Vec::new();
    if has_earlier {
        let first = back_up(&base.open(), &tree, &How::plain()).unwrap();
        backups.push((first.id, tree.picture()));
        tree.change(1);
    }
    at_every_operation(
        &base,
        |store| back_up(store, &tree, how),
        notes,
        |process, made, when| {
            let mut all = backups.clone();
            all.extend(made.map(|report| (report.id, tree.picture())));
            assert_whole(process, &tree, &all, when);
            if !when.ends_with("lasts") {
                assert_works_on(process, &tree, when);
            }
        },
    );
}

#[test]
fn full_in_the_first_backup() {
    full_in_a_backup(&How::plain(), false, 21);
}

#[test]
fn full_in_the_second_backup() {
    full_in_a_backup(&How::plain(), true, 22);
}

#[test]
fn full_in_a_small_backup() {
    full_in_a_backup(&How::small(), true, 23);
}

/// The old index stays in use until the new one exists.
#[test]
fn full_while_the_index_is_rebuilt() {
    let base = Process::new(24);
    base.init();
    let tree = Tree::plant(24, 50 << 10);
    let first = back_up(&base.open(), &tree, &How::plain()).unwrap();
    let backups = [(first.id, tree.picture())];
    for n in 1..=3 {
        let process = Process::on(
            base.storage.crash(CrashPolicy::KeepAll),
            base.clock.clone(),
            8000 + n,
        );
        process
            .storage
            .inject(Fault::fail_from(n, FailWith::NoSpace).counting(Counted::Mutating));
        let error = process.open().rebuild_index(&Monitor::default()).unwrap_err();
        assert_says_why(&error.to_string(), FailWith::NoSpace, "the index");
        process.storage.clear_faults();
        assert_whole(&process, &tree, &backups, "the index");
        let store = process.open();
        let again = back_up(&store, &tree, &How::plain().forced()).unwrap();
        // The listing names the folder of temporary files, which other tests change meanwhile.
        assert!(again.totals.chunks_new <= 2, "operation {n}: {:?}", again.totals);
    }
}

/// Disks of all sizes between the present content and the need of the backup.
#[test]
fn a_disk_that_is_too_small_by_any_amount() {
    let base = Process::new(25);
    base.init();
    let tree = Tree::plant(25, 100 << 10);
    let first = back_up(&base.open(), &tree, &How::plain()).unwrap();
    let backups = [(first.id, tree.picture())];
    std::fs::write(tree.root().join("more"), noise(1, 150 << 10)).unwrap();
    let steps = if is_long() { 400 } else { 40 };
    let mut refused = 0;
    for step in 0..steps {
        let process = Process::on(
            base.storage.crash(CrashPolicy::KeepAll),
            base.clock.clone(),
            9000 + step,
        );
        let room = step * (200 << 10) / steps;
        let when = format!("room for {room} bytes");
        let capacity = live(&process.storage) + room;
        process.storage.set_capacity_bytes(Some(capacity));
        let store = process.open();
        match back_up(&store, &tree, &How::plain()) {
            Ok(report) => {
                for note in &report.warnings {
                    assert_says_why(&note.to_string(), FailWith::NoSpace, &when);
                }
            }
            Err(error) => {
                assert_says_why(&error.to_string(), FailWith::NoSpace, &when);
                refused += 1;
            }
        }
        drop(store);
        assert_whole(&process, &tree, &backups, &when);
        process.storage.set_capacity_bytes(None);
        assert_works_on(&process, &tree, &when);
    }
    assert!(refused > steps / 2 && refused < steps, "{refused} of {steps}");
}

/// Endless new bytes. It gives up after `limit` bytes.
struct Endless<'a> {
    given: usize,
    limit: usize,
    after_first: Option<Box<dyn FnOnce() + Send + 'a>>,
}

impl StreamSource for Endless<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        if self.given > 0
            && let Some(act) = self.after_first.take()
        {
            act();
        }
        if self.given >= self.limit {
            return Ok(StreamPiece::End);
        }
        buffer.copy_from_slice(&noise(self.given as u64, buffer.len()));
        self.given += buffer.len();
        Ok(StreamPiece::Data(buffer.len()))
    }
}

/// One put fails, once. The backup ends with that error, however much there is to read, and
/// although the other writer could continue.
#[test]
fn one_failed_put_ends_a_backup_of_any_length() {
    let process = Process::new(26);
    process.init();
    let store = process.open();
    let mut how = How::plain();
    how.ingest.writers = 2;
    let mut source = Endless {
        given: 0,
        limit: 96 << 20,
        after_first: Some(Box::new(|| {
            process
                .storage
                .inject(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Put)));
        })),
    };
    let error = back_up_stream(&store, "/endless", &mut source, &how).unwrap_err();
    assert_says_why(&error.to_string(), FailWith::Io, "endless");
    // Data between the stages is read before the source notices.
    assert!(
        source.given < source.limit / 2,
        "{} bytes were read",
        source.given
    );
    back_up_bytes(&store, "/endless", &noise(0, 1 << 20), &How::plain()).unwrap();
    assert_sound(&process.open(), "after the failure");
}

#[test]
fn the_reserve_is_made_with_the_store_or_neither_is() {
    let with_reserve = tiny().reserve_bytes(100 << 10);
    let process = Process::new(60);
    process.storage.set_capacity_bytes(Some(50 << 10));
    let error = process.try_init(&with_reserve).unwrap_err().to_string();
    assert!(error.contains("reserve: no space left"), "{error}");
    assert_eq!(process.names(""), Vec::<String>::new(), "nothing is left of it");
    process.storage.set_capacity_bytes(None);
    let store = process.try_init(&with_reserve).unwrap();
    back_up_bytes(&store, "/one", &noise(60, 50 << 10), &How::plain()).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!(stats.reserve_bytes(), 100 << 10);
    assert_eq!(stats.kinds["reserve"].objects, 1);
    assert!(
        stats.stored_bytes() < 100 << 10,
        "the reserve holds nothing: {stats:?}"
    );
    assert_sound(&store, "with a reserve");

    // A store that gave up its reserve, or never had one, does not get one from an init that fails.
    assert!(reclaim::reserve::give_up(&process.storage).unwrap());
    assert!(process.try_init(&with_reserve).is_err());
    let left = reclaim::reserve::GIVEN_UP_BYTES as u64;
    assert_eq!(store.stats().unwrap().reserve_bytes(), left);
}

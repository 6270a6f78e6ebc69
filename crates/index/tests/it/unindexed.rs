//! Catalogs that the storage cannot read: one warning, few retries, and hooks once they can be read
//! again.

use env::Storage;
use env::fault::{Counted, FailWith, Fault, FaultStorage};
use format::names;
use index::{IndexOptions, SessionContainers, Warning};
use types::{ByteRange, ContainerId, ObjectName};

use crate::resident::HELD;
use crate::store::*;

/// One session with three containers of one chunk each. The disk cannot read the second one.
pub(crate) struct Bed {
    pub(crate) storage: FaultStorage,
    committed: [SessionContainers; 1],
    bad: ObjectName,
}

const BAD: u32 = 1;

impl Bed {
    pub(crate) fn new() -> Self {
        let storage = FaultStorage::new();
        let writing = containers(&storage);
        for n in 0..3 {
            put(&writing, data(1, n), &[u64::from(n)]);
        }
        let bed = Self {
            storage,
            committed: [SessionContainers {
                session: session(1),
                containers: (0..3).map(|n| data(1, n)).collect(),
            }],
            bad: names::container(data(1, BAD), types::Generation::FIRST),
        };
        bed.take();
        bed
    }

    fn take(&self) {
        let all = ByteRange {
            offset: 0,
            len: 1 << 30,
        };
        self.storage.make_unreadable(&self.bad, all);
    }

    fn give_back(&self) {
        let nowhere = ByteRange {
            offset: 1 << 40,
            len: 1,
        };
        self.storage.make_unreadable(&self.bad, nowhere);
    }

    /// Opens the index as a new process, and catches up. Returns how many catalogs it read, and its
    /// warnings.
    pub(crate) fn catch_up(&self, options: IndexOptions) -> (u64, Vec<Warning>) {
        let index = open(&self.storage, options);
        let read = index.catch_up(&containers(&self.storage), &self.committed);
        assert!(index.covers(session(1)));
        (read.unwrap(), index.take_warnings())
    }

    fn finds(&self, options: IndexOptions, n: u64) -> Vec<ContainerId> {
        ask_chunk(&open(&self.storage, options), &containers(&self.storage), n)
    }

    /// Adds a later session with hooks of its own.
    pub(crate) fn session_comes(&self, n: u64) {
        open(&self.storage, IndexOptions::default())
            .add_session(session(n), [])
            .unwrap();
    }

    fn lists(&self) -> usize {
        let listed = self.storage.list(names::INDEX_FOLDER).unwrap();
        let lists = listed
            .iter()
            .filter_map(|object| names::parse_index_unread(&object.name));
        lists.count()
    }
}

#[test]
fn a_catalog_on_a_bad_sector_is_reported_once_and_rarely_read_again() {
    let bed = Bed::new();
    let (read, told) = bed.catch_up(IndexOptions::default());
    assert!(
        matches!(told.as_slice(), [Warning::UnreadCatalog { container, .. }] if *container == data(1, BAD)),
        "{told:?}"
    );
    assert_eq!(read, 3);
    for n in [0, 2] {
        assert_eq!(
            bed.finds(IndexOptions::default(), n),
            [data(1, u32::try_from(n).unwrap())]
        );
    }
    let mut asked = Vec::new();
    for n in 2..140 {
        bed.session_comes(n);
        let runs = runs(&bed.storage).len() - bed.lists();
        let before = bed.storage.counters();
        let (read, told) = bed.catch_up(IndexOptions::default());
        assert_eq!(told, [], "session {n}");
        if read > 0 {
            asked.push(n);
        } else {
            let cost = bed.storage.counters().since(&before);
            assert_eq!((cost.puts, cost.deletes), (0, 0), "session {n}");
        }
        assert_eq!(
            runs,
            crate::store::runs(&bed.storage).len() - bed.lists(),
            "session {n}"
        );
        assert_eq!(bed.lists(), 1, "session {n}");
    }
    assert_eq!(asked, [2, 3, 5, 9, 17, 33, 65, 129]);
}

#[test]
fn a_catalog_that_can_be_read_again_is_hooked() {
    for options in [IndexOptions::default(), HELD] {
        let bed = Bed::new();
        bed.catch_up(options);
        bed.session_comes(2);
        bed.give_back();
        assert_eq!(bed.catch_up(options), (1, vec![]));
        for n in 0..3 {
            assert_eq!(bed.finds(options, n), [data(1, u32::try_from(n).unwrap())]);
        }
        assert_eq!(bed.lists(), 0, "nothing is left to remember");
        bed.session_comes(3);
        assert_eq!(bed.catch_up(options), (0, vec![]));
    }
}

#[test]
fn an_unread_catalog_that_was_reclaimed_is_forgotten_silently() {
    let bed = Bed::new();
    bed.catch_up(IndexOptions::default());
    bed.session_comes(2);
    assert!(bed.storage.lose(&bed.bad));
    assert_eq!(bed.catch_up(IndexOptions::default()), (1, vec![]));
    assert_eq!(bed.lists(), 0);
}

#[test]
fn a_rebuild_reports_and_remembers_unreadable_catalogs() {
    let bed = Bed::new();
    let rebuild = || {
        let index = open(&bed.storage, IndexOptions::default());
        index.rebuild(&containers(&bed.storage), &bed.committed).unwrap();
        index.take_warnings().len()
    };
    assert_eq!((rebuild(), rebuild()), (1, 1));
    assert_eq!(bed.lists(), 1);
    assert_eq!(bed.finds(IndexOptions::default(), 2), [data(1, 2)]);
    bed.give_back();
    assert_eq!((rebuild(), bed.lists()), (0, 0));
    assert_eq!(bed.finds(IndexOptions::default(), 1), [data(1, BAD)]);

    let fails = Fault::fail_from(1, FailWith::Io).counting(Counted::All);
    let index = open(&bed.storage, IndexOptions::default());
    bed.storage.inject(fails);
    assert!(index.rebuild(&containers(&bed.storage), &bed.committed).is_err());
}

/// A process dies at any operation: every covered session is hooked or remembered.
#[test]
fn a_death_while_catching_up_leaves_each_session_hooked_or_remembered() {
    for heals in [false, true] {
        for n in 1.. {
            let bed = Bed::new();
            if heals {
                bed.catch_up(IndexOptions::default());
                bed.session_comes(2);
                bed.give_back();
            }
            let dying = bed.storage.handle();
            let index = open(&dying, IndexOptions::default());
            dying.inject_here(Fault::kill_after(n));
            let done = index.catch_up(&containers(&dying), &bed.committed);
            bed.give_back();
            bed.session_comes(3);
            bed.catch_up(IndexOptions::default());
            bed.session_comes(6);
            bed.catch_up(IndexOptions::default());
            let found: Vec<_> = (0..3)
                .flat_map(|n| bed.finds(IndexOptions::default(), n))
                .collect();
            assert_eq!(
                found,
                [0, 1, 2].map(|n| data(1, n)),
                "killed after {n}, heals: {heals}"
            );
            if done.is_ok() {
                assert!(n > 2);
                break;
            }
        }
    }
}

#[test]
fn a_list_that_is_no_list_is_a_warning_and_replaced() {
    let bed = Bed::new();
    bed.catch_up(IndexOptions::default());
    let name = names::index_unread(0);
    let whole = bed.storage.get(&name).unwrap();
    for at in 0..whole.len() {
        for cut in [true, false] {
            bed.storage.damage(&name, |bytes| {
                bytes.clone_from(&whole);
                if cut {
                    bytes.truncate(at)
                } else {
                    bytes[at] ^= 0x10
                }
            });
            let (read, told) = bed.catch_up(IndexOptions::default());
            assert!(
                matches!(told.as_slice(), [Warning::BadRun { name: of, why }] if *of == name && why.contains("index rebuild")),
                "byte {at}, cut {cut}: {told:?}"
            );
            assert_eq!(read, 0);
        }
    }
    let index = open(&bed.storage, IndexOptions::default());
    index.catch_up(&containers(&bed.storage), &bed.committed).unwrap();
    assert!(index.wants_merge());
    index.merge(&|| true, &|_| true).unwrap();
    assert_eq!(bed.lists(), 0);
}

/// There is so little memory that hooks are written early.
#[test]
fn the_readable_part_of_a_session_is_found() {
    let storage = FaultStorage::new();
    let writing = containers(&storage);
    let of = |n: u32| u64::from(n) * 100..u64::from(n) * 100 + 100;
    for n in 0..4 {
        put(&writing, data(1, n), &of(n).collect::<Vec<_>>());
    }
    let name = names::container(data(1, 3), types::Generation::FIRST);
    let len = storage.head(&name).unwrap().len;
    storage.make_unreadable(&name, ByteRange { offset: 0, len });
    let committed = [SessionContainers {
        session: session(1),
        containers: (0..4).map(|n| data(1, n)).collect(),
    }];
    let on_disk = IndexOptions {
        pending_bytes_max: 64,
        bytes_max: 1 << 30,
        part_entries_max: 100,
        memory_bytes_max: None,
    };
    let in_memory = IndexOptions {
        memory_bytes_max: HELD.memory_bytes_max,
        ..on_disk
    };
    for options in [on_disk, in_memory] {
        let containers = containers(&storage);
        let index = open(&storage, options);
        for _ in 0..2 {
            index.catch_up(&containers, &committed).unwrap();
            for n in 0..3 {
                for chunk_of in of(n) {
                    assert_eq!(ask_chunk(&index, &containers, chunk_of), [data(1, n)]);
                }
            }
        }
        index.rebuild(&containers, &[]).unwrap();
    }
}

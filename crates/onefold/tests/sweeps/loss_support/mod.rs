//! A store with every kind of object, ways to lose one of its objects, and operations after the
//! loss.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use env::Storage;
use env::fault::{CrashPolicy, Fault, FaultStorage};
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{Condemned, ContainerSlots, Damaged};
use onefold::{
    Layout, Monitor, OptimizeRequest, PruneOptions, SessionId, SettingsChange, Store, TagChange, Which,
};
use types::{ContainerKind, ObjectName, Slot, SlotRange};

use crate::common::pruning::{everything, everything_at_once, forget, impatient, try_prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::scattered::{hold, repair, scattered};
use crate::common::tree::{Picture, Tree, picture_of};
use crate::common::{
    Asked, HandClock, How, Process, back_up, back_up_bytes, back_up_with_faults, noise, try_restore_within,
    try_restores_bytes, try_snapshot,
};

const PART: usize = 6 << 10;

/// A backup of these parts begins with forgotten data.
const LATE: [u64; 3] = [90, 91, 93];

/// The content of a backup.
enum Content {
    Stream(&'static str, Vec<u8>),
    Tree(PathBuf, Picture),
}

/// The store.
pub(crate) struct Scene {
    pub(crate) machine: Process,
    contents: BTreeMap<SessionId, Content>,
    tree: Tree,
    earlier: Earlier,
}

/// An object, and its content.
pub(crate) type State = (ObjectName, Vec<u8>);

/// The contents of objects when they were deleted, or trimmed.
#[derive(Clone, Default)]
struct Earlier(Arc<Mutex<Vec<State>>>);

impl Earlier {
    fn note(&self, storage: &FaultStorage, asked: Asked, name: &str) {
        if matches!(asked, Asked::Delete | Asked::Trim)
            && let Ok(name) = ObjectName::new(name)
            && let Ok(bytes) = storage.get(&name)
        {
            // A trimmed container is the body of its next generation, without some bytes.
            if let (Asked::Trim, Some((id, generation))) = (asked, names::parse_container(&name)) {
                let body = names::body(id, generation);
                self.0.lock().unwrap().push((body, bytes.clone()));
            }
            self.0.lock().unwrap().push((name, bytes));
        }
    }
}

/// Some parts; equal numbers give equal parts.
fn parts(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| noise(*n, PART)).collect()
}

fn optimize(store: &Store, request: &OptimizeRequest) {
    store.optimize(request, &Monitor::default()).unwrap();
}

impl Scene {
    pub(crate) fn new(seed: u64) -> Self {
        let machine = Process::new(seed).striding();
        let (earlier, storage) = (Earlier::default(), machine.storage.clone());
        let noted = earlier.clone();
        let note = move |asked, name: &str| noted.note(&storage, asked, name);
        machine.watched.set_before(note);
        let store = machine.init();
        let change = SettingsChange::default().layout(Some(Layout::Inline));
        store.set_default_series_settings(&change).unwrap();
        let mut scene = Self {
            machine,
            contents: BTreeMap::new(),
            tree: Tree::plant(seed, 40 << 10),
            earlier,
        };
        scene.back_up_tree(0);
        scene.back_up_tree(1);
        let inline = [[1, 2, 3], [2, 3, 4], [3, 4, 5]];
        let inline = inline.map(|numbers| scene.back_up("/inline", &numbers, &How::plain()));
        let small = [[10, 11], [11, 12], [12, 13]];
        let small = small.map(|numbers| scene.back_up("/small", &numbers, &How::small()));
        scene.make_archival();
        let repaired = scattered(&scene.machine, "/scattered", 4);
        repair(&scene.machine.open(), 100);
        let made = repaired.made.into_iter();
        let made = made.map(|(id, bytes)| (id, Content::Stream("/scattered", bytes)));
        scene.contents.extend(made);
        hold(&scene.machine, inline[2]);
        let tag = TagChange::Set(vec!["kept".into()]);
        let which = Which::Named(vec![small[2].to_string()]);
        scene.machine.open().tag(&which, &tag).unwrap();
        // Of the first one, only objects with its number are left.
        for (id, options) in [(inline[0], everything_at_once()), (small[0], everything())] {
            scene.forget(id);
            scene.prune(options);
        }
        let trimmed = [[70, 71, 72, 73], [72, 73, 74, 75]];
        let trimmed = trimmed.map(|numbers| scene.back_up("/trimmed", &numbers, &How::plain()));
        scene.forget(trimmed[0]);
        let mut options = everything();
        options.limits.repack_bytes_max = 0;
        scene.prune(options);
        scene.forget(small[1]);
        scene.list_damage();
        scene.die();
        scene
    }

    /// Adds a prune that died while it deleted, so that its epoch is still open.
    pub(crate) fn with_open_epoch(self) -> Self {
        let mut deleted = 0;
        self.with_dead_prune(move |asked, name| {
            let is_one = asked == Asked::Delete && !name.starts_with("sessions/");
            deleted += usize::from(is_one);
            deleted == 2
        })
    }

    /// Adds a prune that died before its decision. A backup that it has not marked refers to some
    /// condemned slots.
    pub(crate) fn with_undecided_epoch(self) -> Self {
        let beside = self.machine.beside(76);
        let mut is_late = false;
        let mut scene = self.with_dead_prune(move |asked, name| {
            if asked == Asked::Put && name.starts_with("condemned/") && !std::mem::replace(&mut is_late, true)
            {
                back_up_bytes(&beside.open(), "/late", &parts(&LATE), &How::plain()).unwrap();
            }
            asked == Asked::Put && name.starts_with("removed/")
        });
        let list = scene.machine.open().snapshots().unwrap().snapshots;
        let late = list.iter().map(|snapshot| snapshot.id).max().unwrap();
        scene
            .contents
            .insert(late, Content::Stream("/late", parts(&LATE)));
        scene
    }

    fn with_dead_prune(mut self, mut dies: impl FnMut(Asked, &str) -> bool + Send + 'static) -> Self {
        let more = self.back_up("/more", &[90, 91, 92], &How::plain());
        self.forget(more);
        let dying = self.machine.beside(77).striding();
        let (storage, earlier) = (dying.storage.clone(), self.earlier.clone());
        dying.watched.set_before(move |asked, name| {
            if dies(asked, name) {
                storage.kill();
            }
            earlier.note(&storage, asked, name);
        });
        try_prune(&dying.open(), &impatient(everything())).unwrap_err();
        assert!(!self.machine.names("condemned").is_empty());
        self
    }

    /// The marks that the open epoch uses.
    pub(crate) fn marks_of_open_epoch(&self) -> Vec<ObjectName> {
        let condemned = self.machine.names("condemned");
        let name = ObjectName::new(&condemned[condemned.len() - 1]).unwrap();
        let reclaimer = Reclaimer::new(self.machine.beside(79));
        let sealer = reclaimer.sealer();
        let list = sealer
            .read(&name, ObjectKind::Condemned, Condemned::decode)
            .unwrap();
        let marks = list.marks.into_iter();
        marks
            .map(|(group, revision)| names::marks(group, revision))
            .collect()
    }

    /// Earlier states of objects that were deleted, or have other bytes now.
    pub(crate) fn earlier(&self) -> BTreeSet<State> {
        let noted = self.earlier.0.lock().unwrap();
        let is_other = |(name, bytes): &&State| self.machine.storage.get(name).ok().as_ref() != Some(bytes);
        noted.iter().filter(is_other).cloned().collect()
    }

    fn back_up_tree(&mut self, step: u64) {
        if step > 0 {
            self.tree.change(step);
        }
        let made = back_up(&self.machine.open(), &self.tree, &How::plain()).unwrap();
        let content = Content::Tree(self.tree.root(), self.tree.picture());
        self.contents.insert(made.id, content);
    }

    fn back_up(&mut self, name: &'static str, numbers: &[u64], how: &How) -> SessionId {
        let bytes = parts(numbers);
        let made = back_up_bytes(&self.machine.open(), name, &bytes, how).unwrap();
        self.contents.insert(made.id, Content::Stream(name, bytes));
        made.id
    }

    fn forget(&mut self, id: SessionId) {
        forget(&self.machine.open(), id);
        self.contents.remove(&id);
    }

    fn prune(&self, options: PruneOptions) {
        try_prune(&self.machine.open(), &impatient(options)).unwrap();
    }

    /// Makes older backups of an inline and of a hybrid series archival, and forgets one in the
    /// middle of a chain.
    fn make_archival(&mut self) {
        let request = OptimizeRequest::default().live(Some(1));
        let image = [[20, 30, 21], [21, 30, 22], [22, 30, 23]];
        let image = image.map(|numbers| self.back_up("/image", &numbers, &How::plain()));
        optimize(&self.machine.open(), &request);
        self.prune(everything());
        self.forget(image[1]);
        // A backup that was rewritten twice: its data from the forgotten one is removed.
        let twice = [[50, 51, 52], [51, 52, 53], [52, 53, 54]];
        let twice = twice.map(|numbers| self.back_up("/twice", &numbers, &How::plain()));
        optimize(&self.machine.open(), &request);
        self.forget(twice[1]);
        optimize(&self.machine.open(), &request);
        let hybrid = SettingsChange::default()
            .layout(Some(Layout::Hybrid))
            .segment_bytes(Some(64 << 10));
        let first = self.back_up("/hybrid", &[40, 41, 42], &How::plain());
        let name = crate::common::snapshot(&self.machine.open(), first).backup.series;
        self.machine.open().set_series_settings(&name, &hybrid).unwrap();
        self.back_up("/hybrid", &[41, 42, 43], &How::plain());
        self.back_up("/hybrid", &[42, 43, 44], &How::plain());
    }

    /// Lists a sound slot as damaged.
    fn list_damage(&self) {
        let data = self.machine.names("data");
        let (id, _) = names::parse_container(&ObjectName::new(&data[data.len() - 1]).unwrap()).unwrap();
        let damaged = Damaged {
            slots: ContainerSlots {
                container: id,
                slots: Some(vec![SlotRange::one(Slot::new(0).unwrap())]),
            },
        };
        let reclaimer = Reclaimer::new(self.machine.beside(5));
        let name = names::damaged(id, 0);
        let sealer = reclaimer.sealer();
        sealer
            .put(&name, ObjectKind::Damaged, &damaged.to_bytes())
            .unwrap();
    }

    /// Adds a backup that is killed after it has written some containers.
    fn die(&self) {
        let dying = self.machine.beside(78);
        let store = dying.open();
        dying.storage.inject_here(Fault::kill(12));
        let numbers: Vec<u64> = (60..90).collect();
        back_up_bytes(&store, "/dead", &parts(&numbers), &How::plain()).unwrap_err();
        assert!(dying.storage.is_gone());
    }

    /// A copy of the store, as another machine sees it.
    pub(crate) fn copy(&self, seed: u64) -> Process {
        let storage = self.machine.storage.crash(CrashPolicy::KeepAll);
        Process::on(storage, HandClock::new(), seed).striding()
    }

    /// The backups that restore whole. Panics if a restore gives wrong bytes.
    pub(crate) fn restorable(&self, machine: &Process) -> BTreeSet<SessionId> {
        let store = machine.open();
        let is_whole = |(id, content): &(&SessionId, &Content)| {
            let Ok(snapshot) = try_snapshot(&store, **id) else {
                return false;
            };
            match content {
                Content::Stream(name, bytes) => try_restores_bytes(&store, &snapshot, name, bytes).is_ok(),
                Content::Tree(root, picture) => {
                    let target = crate::common::tree::scratch();
                    let done = try_restore_within(&store, &snapshot, target.path(), 256 << 10);
                    let restored = target.path().join(root.strip_prefix("/").unwrap());
                    done.is_ok() && picture_of(&restored) == *picture
                }
            }
        };
        let whole = self.contents.iter().filter(is_whole);
        whole.map(|(id, _)| *id).collect()
    }

    pub(crate) fn all(&self) -> BTreeSet<SessionId> {
        self.contents.keys().copied().collect()
    }

    /// Performs the operation after the loss. It may fail.
    pub(crate) fn go_on(&self, machine: &Process, then: Then) {
        let prune = |options: PruneOptions| drop(try_prune(&machine.open(), &impatient(options)));
        let all = everything().all(true);
        match then {
            Then::Prune => prune(PruneOptions::default()),
            Then::PruneAll => prune(PruneOptions::default().all(true)),
            Then::PruneToNothing => prune(everything()),
            Then::BackUp => {
                drop(back_up_with_faults(&machine.open(), &self.tree, &How::plain()));
                let bytes = parts(&[1, 3, 11, 20, 42, 99]);
                drop(back_up_bytes(&machine.open(), "/inline", &bytes, &How::plain()));
                prune(everything());
            }
            Then::Optimize => {
                let request = OptimizeRequest::default().live(Some(1)).repair(Some(100));
                drop(machine.open().optimize(&request, &Monitor::default()));
                prune(all);
            }
        }
    }
}

/// The operation after a loss.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    Prune,
    PruneAll,
    PruneToNothing,
    BackUp,
    Optimize,
}

impl Then {
    pub(crate) const ALL: [Self; 5] = [
        Self::PruneToNothing,
        Self::BackUp,
        Self::Optimize,
        Self::Prune,
        Self::PruneAll,
    ];
}

/// One way to lose an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Delete,
    Empty,
    Cut,
    Zero,
    Flip,
    /// The object and the one before it of its kind swap bytes.
    Swap,
    /// The object gets the bytes of the one before it of its kind.
    Older,
}

impl Way {
    pub(crate) const ALL: [Self; 7] = [
        Self::Delete,
        Self::Cut,
        Self::Flip,
        Self::Older,
        Self::Zero,
        Self::Swap,
        Self::Empty,
    ];

    /// Damages the object in this way. Returns whether that was possible.
    pub(crate) fn apply(self, machine: &Process, name: &ObjectName) -> bool {
        let storage = &machine.storage;
        let set = |name: &ObjectName, bytes: Vec<u8>| storage.damage(name, |old| *old = bytes);
        match self {
            Self::Delete => storage.lose(name),
            Self::Empty => set(name, Vec::new()),
            Self::Cut => storage.damage(name, |bytes| bytes.truncate(bytes.len() / 2)),
            Self::Zero => storage.damage(name, |bytes| bytes.fill(0)),
            Self::Flip => storage.damage(name, |bytes| {
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 4;
                }
            }),
            Self::Swap | Self::Older => {
                let listed = machine.names("");
                let mut of_kind = listed.iter().map(|other| ObjectName::new(other).unwrap());
                let before = of_kind.rfind(|other| other < name && Kind::of(other) == Kind::of(name));
                let Some(before) = before else { return false };
                let (own, older) = (storage.get(name).unwrap(), storage.get(&before).unwrap());
                (self == Self::Older || set(&before, own)) && set(name, older)
            }
        }
    }
}

/// Gives an object these bytes again, whether it exists or not.
pub(crate) fn put_back(machine: &Process, name: &ObjectName, bytes: &[u8]) -> bool {
    let storage = &machine.storage;
    if !storage.damage(name, |old| *old = bytes.to_vec()) {
        storage.put(name, &[bytes]).unwrap();
        storage.barrier().unwrap();
    }
    true
}

/// The kind of an object, as in docs/format.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Config,
    Container(ContainerKind),
    Body,
    Mirror,
    Manifest,
    Claim,
    Committed,
    Heartbeat,
    Checkpoint,
    Marks,
    Condemned,
    Removed,
    Damaged,
    Lease,
    Settings,
    Index,
    Reserve,
}

impl Kind {
    pub(crate) fn of(name: &ObjectName) -> Self {
        use format::names::SessionObject as Of;
        if let Some((id, _)) = names::parse_container(name) {
            return Self::Container(id.kind);
        }
        match names::parse_session_object(name) {
            Some((_, Of::Claim)) => return Self::Claim,
            Some((_, Of::Committed)) => return Self::Committed,
            Some((_, Of::Heartbeat(_))) => return Self::Heartbeat,
            Some((_, Of::Checkpoint(_))) => return Self::Checkpoint,
            Some((_, Of::Lock)) => panic!("{name}: a lock is no object"),
            None => {}
        }
        match name.parts().next().unwrap() {
            "config" => Self::Config,
            "mirror" => Self::Mirror,
            "backups" => Self::Manifest,
            "groups" => Self::Marks,
            "condemned" => Self::Condemned,
            "removed" => Self::Removed,
            "damaged" => Self::Damaged,
            "lease" => Self::Lease,
            "series" => Self::Settings,
            "index" => Self::Index,
            "reserve" => Self::Reserve,
            _ if names::parse_body(name).is_some() => Self::Body,
            other => panic!("{name}: no kind for {other}"),
        }
    }
}

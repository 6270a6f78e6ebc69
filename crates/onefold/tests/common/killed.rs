//! A process that optimizes, forgets or prunes is killed at an operation of its work, in the middle
//! of two backups and a reader. A successor does the work again beside one of the backups and the
//! reader.
//!
//! Invariant: at every moment, backups that are not forgotten restore, no node dangles (INV-9), and
//! no revision has roots that were not committed before. The reader ends with the bytes with which
//! it began. A held backup is unchanged. When all have ended, no permitted work is due, every
//! stored object is explained, and the next backups are right.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use env::fault::{Counted, CrashPolicy, Fault};
use onefold::{Error, Monitor, OptimizeReport, OptimizeRequest, PruneOptions, PruneReport, SessionId, Store};

use super::beside::{Kept, assert_kept, dump, soon_given_up};
use super::pruning::{
    assert_nothing_unexplained, everything, forget, prune_after_crash, try_forget, try_prune,
};
use super::reclaimer::Reclaimer;
use super::{
    Asked, HandClock, How, Parts, Process, Request, assert_restores_bytes, back_up_bytes, back_up_watched,
    is_long, noise, snapshot, wait_for_most_look_ups,
};

/// How many scenes run at once.
const AT_ONCE: usize = 3;
/// In the long mode, kills happen at so many operations of any kind. Most operations of a prune are
/// looks for answers.
const OPERATIONS_MAX: usize = 400;

/// The work of the process that dies.
#[derive(Debug, Default)]
pub struct Work {
    /// These backups are forgotten.
    pub forgets: Vec<SessionId>,
    pub optimizes: Option<OptimizeRequest>,
    pub prunes: Option<PruneOptions>,
}

/// The result of the work.
#[derive(Debug, Default)]
pub struct Done {
    pub optimized: OptimizeReport,
    pub pruned: Option<PruneReport>,
    /// The requests to the storage.
    pub requests: Vec<Request>,
}

/// When the process is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Never,
    /// Before the n-th change, and so after the one before it. Heartbeats do not count, because
    /// their number depends on how soon others answer.
    Change(u64),
    Fault(Fault),
}

/// Whether a kill before this request is a [`Moment::Change`].
fn is_change(asked: Asked, name: &str) -> bool {
    let changes = matches!(asked, Asked::Put | Asked::Barrier | Asked::Delete | Asked::Trim);
    changes && !name.contains("/heartbeat.")
}

/// The numbers of the first and the last change of each kind. Those between differ from them only
/// in the object.
fn first_and_last_of_each_kind(changes: &[&Request]) -> Vec<u64> {
    let mut of_kind: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (number, request) in (1..).zip(changes) {
        let folder = request.name.split('/').next().unwrap_or_default();
        let kind = format!("{:?} {folder}", request.asked);
        of_kind.entry(kind).or_insert([number; 2])[1] = number;
    }
    let mut numbers = of_kind.into_values().flatten().collect::<Vec<_>>();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The content of a backup, with a pause between its halves.
pub struct Content {
    pub name: &'static str,
    pub halves: [Vec<u8>; 2],
}

impl Content {
    fn parts(&self) -> [&[u8]; 2] {
        self.halves.each_ref().map(Vec::as_slice)
    }

    pub fn whole(&self) -> Vec<u8> {
        Parts::whole(&self.parts())
    }
}

/// A store with such work.
pub struct Scene {
    pub machine: Process,
    pub kept: Vec<Kept>,
    /// The backup that the reader reads.
    pub read: SessionId,
    /// The backups that are made beside the work.
    pub beside: [Content; 2],
    /// These stay unchanged until the end.
    pub held: Vec<SessionId>,
    pub work: Work,
}

fn optimize(store: &Store, request: &OptimizeRequest) -> Result<OptimizeReport, Error> {
    let report = store.optimize(request, &Monitor::default())?;
    assert!(report.failed.is_empty(), "{report:?}");
    Ok(report)
}

impl Work {
    fn try_do(&self, store: &Store) -> Result<Done, Error> {
        for id in &self.forgets {
            try_forget(store, *id)?;
        }
        let mut done = Done::default();
        if let Some(request) = &self.optimizes {
            done.optimized = optimize(store, request)?;
        }
        if let Some(options) = &self.prunes {
            done.pruned = Some(try_prune(store, options)?);
        }
        Ok(done)
    }

    /// Does the work. Returns the result, unless the process was killed.
    fn do_until(&self, machine: &Process, moment: Moment) -> Option<Done> {
        let dying = machine.beside(5).striding();
        let store = dying.open();
        drop(dying.watched.take_requests());
        match moment {
            Moment::Never => {}
            Moment::Fault(fault) => dying.storage.inject_here(fault),
            Moment::Change(n) => {
                let (storage, count) = (dying.storage.clone(), AtomicU64::new(0));
                dying.watched.set_before(move |asked, name| {
                    if is_change(asked, name) && count.fetch_add(1, Ordering::Relaxed) + 1 == n {
                        storage.kill();
                    }
                });
            }
        }
        let done = self.try_do(&store);
        dying.watched.clear_before();
        match done {
            Ok(done) => Some(Done {
                requests: dying.watched.take_requests(),
                ..done
            }),
            Err(error) => {
                assert!(dying.storage.is_gone(), "{moment:?}: {error}");
                None
            }
        }
    }
}

/// A backup that does something in its middle, when most of its first half was looked up.
fn back_up_across(process: &Process, content: &Content, midst: impl FnOnce() + Send) -> SessionId {
    let monitor = Monitor::default();
    let store = process.open();
    let mut midst = Some(midst);
    let mut source = Parts::new(&content.parts(), |_| {
        wait_for_most_look_ups(&monitor);
        midst.take().unwrap()();
    });
    let made = back_up_watched(&store, content.name, &mut source, &How::plain(), &monitor);
    made.unwrap().id
}

impl Scene {
    /// Kills the process that does the work before the first and the last change of each kind, in
    /// the long mode before each change. `check` examines the result without a kill.
    pub fn kill_everywhere(&self, check: impl Fn(&Done)) {
        let unharmed = self.play(Moment::Never).unwrap();
        check(&unharmed);
        let is_one = |request: &&Request| is_change(request.asked, &request.name);
        let all = unharmed.requests.len();
        let changes: Vec<_> = unharmed.requests.iter().filter(is_one).collect();
        let numbers = if is_long() {
            (1..=changes.len() as u64).collect()
        } else {
            first_and_last_of_each_kind(&changes)
        };
        let mut moments: Vec<_> = numbers.into_iter().map(Moment::Change).collect();
        let changes = changes.len();
        if is_long() {
            let every = all.div_ceil(OPERATIONS_MAX).max(1);
            for n in (1..=all as u64).step_by(every) {
                let faults = [Fault::kill(n), Fault::kill_after(n)].map(|fault| fault.counting(Counted::All));
                moments.extend(faults.map(Moment::Fault));
            }
        }
        assert!(changes >= 40, "{changes} of {all}");
        // Most of the time each of them waits.
        let left = Mutex::new(moments.into_iter());
        let work = || {
            loop {
                let next = left.lock().unwrap().next();
                let Some(moment) = next else { return };
                let (Some(done), Moment::Change(number)) = (self.play(moment), moment) else {
                    continue;
                };
                // How often a run waits, and how many barriers it runs then, depends on the load of
                // the machine.
                let asked = done.requests.iter().filter(is_one).count() as u64;
                assert!(asked < number, "{moment:?} of {changes}: asked for {asked}");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(work);
            }
        });
    }

    /// Runs the work on a copy of the machine, and kills the process at that moment. Returns the
    /// result if the process survives.
    fn play(&self, moment: Moment) -> Option<Done> {
        let when = format!("{moment:?}");
        let copy = self.machine.storage.crash(CrashPolicy::KeepAll);
        let machine = Process::on(copy.handle(), HandClock::new(), 1);
        let (mut first, mut second, mut done) = (None, None, None);
        let reader = machine.beside(2).open();
        let (_, _, read_bytes) = self.kept.iter().find(|(id, ..)| *id == self.read).unwrap();
        let dumped = dump(&reader, self.read, || {
            first = Some(back_up_across(&machine.beside(3), &self.beside[0], || {
                second = Some(back_up_across(&machine.beside(4), &self.beside[1], || {
                    done = self.work.do_until(&machine, moment);
                    self.assert_as_told(&machine, &when);
                }));
                // While the other backup and the reader are still running.
                self.succeed(&machine, &when);
            }));
        });
        assert!(dumped == *read_bytes, "{when}: the reader read other bytes");
        let mut kept = self.kept.clone();
        kept.retain(|(id, ..)| !self.work.forgets.contains(id));
        for (id, content) in [first, second].into_iter().zip(&self.beside) {
            kept.push((id.unwrap(), content.name, content.whole()));
        }
        self.assert_settles(&machine, &kept, &when);
        done
    }

    /// The backups restore, except those that may be forgotten.
    fn assert_as_told(&self, machine: &Process, when: &str) {
        let judge = machine.beside(6);
        let store = judge.open();
        let list = store.snapshots().unwrap();
        assert!(list.damaged.is_empty(), "{when}: {:?}", list.damaged);
        for (id, name, bytes) in &self.kept {
            match list.snapshots.iter().find(|snapshot| snapshot.id == *id) {
                Some(found) => assert_restores_bytes(&store, found, name, bytes, &format!("{when}: {id}")),
                None => assert!(self.work.forgets.contains(id), "{when}: backup {id} is lost"),
            }
        }
        let reclaimer = Reclaimer::new(judge);
        reclaimer.assert_no_node_dangles(when);
        reclaimer.assert_roots_committed(when);
    }

    fn succeed(&self, machine: &Process, when: &str) {
        let store = machine.beside(7).striding().open();
        self.work.forgets.iter().for_each(|id| forget(&store, *id));
        if let Some(request) = &self.work.optimizes {
            optimize(&store, request).unwrap_or_else(|error| panic!("{when}: {error}"));
        }
        prune_after_crash(&store, &soon_given_up(everything()), when);
    }

    /// What must hold when all have ended.
    fn assert_settles(&self, machine: &Process, kept: &[Kept], when: &str) {
        let last = machine.beside(8).striding();
        let store = last.open();
        for id in &self.held {
            let before = snapshot(&self.machine.open(), *id).backup;
            let now = snapshot(&store, *id).backup;
            assert_eq!(
                (now.next, now.streams),
                (before.next, before.streams),
                "{when}: it was held"
            );
            store.hold(&[id.to_string()], None).unwrap();
        }
        Reclaimer::new(last.clone()).assert_no_node_dangles(when);
        if let Some(request) = &self.work.optimizes {
            optimize(&store, request).unwrap();
            let again = optimize(&store, request).unwrap();
            let is_done = again.repaired.iter().any(|(_, done)| done.is_done);
            assert!(
                again.backups.is_empty() && again.completed == 0 && !is_done,
                "{when}: {again:?}"
            );
        }
        let prune = || {
            prune_after_crash(&last.open(), &soon_given_up(everything()), when);
        };
        prune();
        Reclaimer::new(last.clone()).assert_no_node_dangles(when);
        // The slots that look-ups find exist.
        let again = self.beside.iter().zip(0..).map(|(content, n)| {
            let bytes = [content.whole(), noise(9000 + n, 4 << 10)].concat();
            let made = back_up_bytes(&machine.beside(10).open(), content.name, &bytes, &How::plain());
            (made.unwrap().id, content.name, bytes)
        });
        let again: Vec<_> = again.collect();
        let all = [kept, &again].concat();
        assert_kept(&machine.beside(11), &all, &format!("{when}, and backed up again"));
        // When these are forgotten, prune has work. So it notices that the dead process has not
        // answered, and removes what stayed for it too.
        again.iter().for_each(|(id, ..)| forget(&store, *id));
        prune();
        prune();
        assert_nothing_unexplained(&last, when);
        assert_kept(&machine.beside(12), kept, &format!("{when}, at the end"));
    }
}

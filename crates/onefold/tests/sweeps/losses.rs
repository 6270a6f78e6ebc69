//! One object is lost or damaged: `check` names it, no command stops because of it, and nothing
//! else is lost because of it (docs/testing.md, "Losses").

use std::collections::{BTreeMap, BTreeSet};

use crate::common::pruning::{everything, forget, impatient, prune_after_crash, try_forget, try_prune};
use crate::common::{
    HandClock, How, Process, assert_restores_bytes, back_up_bytes, is_long, noise, snapshot,
};
use crate::loss_support::{Kind, Scene, State, Then, Way};
use env::Storage;
use env::fault::CrashPolicy;
use format::names;
use format::session::ARCHIVAL_SERIES;
use onefold::{CheckReport, Monitor, ReadData, SessionId};
use types::{ObjectName, Revision};

const PART: usize = 12 << 10;

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn part(n: u64) -> Vec<u8> {
    noise(n, PART)
}

fn back_up(machine: &Process, name: &str, bytes: &[u8], how: &How) -> SessionId {
    back_up_bytes(&machine.open(), name, bytes, how).unwrap().id
}

fn check(machine: &Process, when: &str) -> CheckReport {
    let report = machine.open().check(ReadData::Share(1.0), &Monitor::default());
    report.unwrap_or_else(|error| panic!("{when}: check stopped: {error}"))
}

fn prune(machine: &Process, when: &str) {
    prune_after_crash(&machine.open(), &impatient(everything()), when);
}

/// Whether the report names the object, or the container that it is a copy of.
fn names_it(report: &CheckReport, name: &ObjectName) -> bool {
    let folders = ["recipe", "small"];
    let of_mirror = names::parse_mirror(name).map(|mirror| {
        let number = format!("/{}/{}", mirror.session, mirror.sequence);
        folders.map(|folder| format!("{folder}{number}"))
    });
    let id = names::parse_container(name).or_else(|| names::parse_body(name));
    let id = id.map(|(id, _)| id.to_string());
    let is_it = |object: &str| {
        let of_container = |id: &String| object == id || object.starts_with(&format!("{id}."));
        object.starts_with(name.as_str())
            || id.as_ref().is_some_and(of_container)
            || of_mirror.iter().flatten().any(of_container)
    };
    let said = report.findings.iter().chain(&report.leftovers);
    said.map(|finding| &*finding.object).any(is_it)
}

/// A tombstone is final: once it exists, the containers of its backup may be removed. If it is
/// lost, `check` names it and continues, and prune puts it again.
#[test]
fn a_tombstone_that_is_lost_stops_no_check_and_is_put_again() {
    let machine = Process::new(1).striding();
    machine.init();
    let gone = back_up(&machine, "/a", &[part(0), part(1)].concat(), &How::small());
    let kept = back_up(&machine, "/b", &part(1), &How::small());
    forget(&machine.open(), gone);
    prune(&machine, "before");
    let is_tombstone = |name: &&String| name.ends_with(&format!("{:013}.1", gone.get()));
    let tombstone = object(machine.names("backups").iter().find(is_tombstone).unwrap());
    for way in [Way::Delete, Way::Empty, Way::Cut, Way::Zero, Way::Flip] {
        let machine = Process::on(machine.storage.crash(CrashPolicy::KeepAll), HandClock::new(), 3);
        let machine = machine.striding();
        let when = format!("{way:?}");
        assert!(way.apply(&machine, &tombstone));
        let report = check(&machine, &when);
        assert!(names_it(&report, &tombstone), "{when}: {report:?}");
        assert!(!report.damaged_backups.contains(&kept), "{when}: {report:?}");
        prune(&machine, &when);
        let store = machine.open();
        // Marks show that a rotten revision was a tombstone; the user has to put it again.
        if !matches!(way, Way::Zero | Way::Flip) {
            let left = store.snapshots().unwrap().snapshots;
            let left: Vec<_> = left.iter().map(|one| one.id).collect();
            assert_eq!(left, [kept], "{when}: it is forgotten again");
        }
        assert_restores_bytes(&store, &snapshot(&store, kept), "/b", &part(1), &when);
        let report = check(&machine, &when);
        assert!(report.is_sound(), "{when}: {:?}", report.findings);
    }
}

/// Series with backups of all kinds: two that store nothing of their own, small ones, held ones,
/// and some that marks cover.
fn series_of_all_kinds(is_marked: bool) -> (Process, BTreeMap<SessionId, (&'static str, Vec<u8>)>) {
    let machine = Process::new(4).striding();
    machine.init();
    let mut made = BTreeMap::new();
    let mut add = |name, bytes: Vec<u8>, how: &How| {
        let id = back_up(&machine, name, &bytes, how);
        made.insert(id, (name, bytes));
        id
    };
    add("/large", [part(0), part(1)].concat(), &How::plain());
    add("/large", [part(0), part(1)].concat(), &How::plain());
    let held = add("/small", part(2), &How::small());
    add("/small", part(2), &How::small());
    crate::common::scattered::hold(&machine, held);
    if is_marked {
        prune(&machine, "marks");
        add("/last", part(3), &How::plain());
    }
    (machine, made)
}

/// `check` notices a backup without any manifest, whatever else was lost. No command removes its
/// data. There are two ways to end it, and neither waits.
#[test]
fn a_backup_without_a_manifest_is_noticed_and_let_go() {
    for is_marked in [false, true] {
        let (machine, made) = series_of_all_kinds(is_marked);
        for (number, id) in made.keys().enumerate() {
            let when = format!("backup {id}, marked: {is_marked}");
            let storage = machine.storage.crash(CrashPolicy::KeepAll);
            let machine = Process::on(storage, HandClock::new(), 5).striding();
            let listed = machine.names("backups");
            let of_it = |name: &&String| name.contains(&format!("/{:013}.", id.get()));
            for name in listed.iter().filter(of_it) {
                assert!(machine.storage.lose(&object(name)));
            }
            if number % 2 == 0 {
                for name in machine.names("index") {
                    machine.storage.lose(&object(&name));
                }
            }
            let report = check(&machine, &when);
            assert!(report.damaged_backups.contains(id), "{when}: {report:?}");
            let advice = format!("onefold forget {id}");
            assert!(
                report
                    .findings
                    .iter()
                    .any(|found| found.what.to_string().contains(&advice))
            );
            let error = try_prune(&machine.open(), &impatient(everything())).unwrap_err();
            assert!(error.to_string().contains(&advice), "{when}: {error}");
            let lets_go = if number % 2 == 0 {
                try_forget(&machine.open(), *id).unwrap();
                impatient(everything())
            } else {
                impatient(everything()).allow_missing_manifests(true)
            };
            let done = try_prune(&machine.open(), &lets_go).unwrap();
            assert_eq!(done.sessions_expired, [], "{when}: nobody was waited for");
            let store = machine.open();
            for (other, (name, bytes)) in made.iter().filter(|(other, _)| *other != id) {
                assert_restores_bytes(&store, &snapshot(&store, *other), name, bytes, &when);
            }
            let report = check(&machine, &when);
            assert!(report.is_sound(), "{when}: {:?}", report.findings);
            crate::common::pruning::assert_nothing_unexplained(&machine, &when);
        }
    }
}

/// The record of a commit serves to notice a lost manifest. The loss of the record itself harms
/// nothing.
#[test]
fn a_record_of_a_commit_that_is_lost_is_no_loss() {
    let (machine, made) = series_of_all_kinds(true);
    for name in machine.names("sessions") {
        let name = object(&name);
        if Kind::of(&name) == Kind::Committed {
            assert!(machine.storage.lose(&name));
        }
    }
    assert!(check(&machine, "without records").is_sound());
    forget(&machine.open(), *made.keys().next().unwrap());
    prune(&machine, "without records");
    assert!(check(&machine, "pruned").is_sound());
}

/// Trouble with an object that no backup needs is no damage.
#[test]
fn trouble_with_an_object_that_no_backup_needs_is_no_damage() {
    let machine = Process::new(7).striding();
    machine.init();
    let first = back_up(&machine, "/a", &[part(0), part(1)].concat(), &How::plain());
    let small = back_up(&machine, "/s", &part(5), &How::small());
    // This one shares a part with the first backup. The other two are forgotten below.
    let kept = back_up(&machine, "/b", &part(1), &How::plain());
    let (main, mirror) = (
        object(&machine.names("recipe")[0]),
        object(&machine.names("mirror")[0]),
    );
    let small_one = object(&machine.names("small")[0]);
    let data = object(&machine.names("data")[0]);
    assert!(Way::Flip.apply(&machine, &mirror));
    assert!(Way::Zero.apply(&machine, &small_one));
    assert!(machine.storage.damage(&data, |bytes| bytes[PART / 2] ^= 1));
    let report = check(&machine, "damaged");
    assert_eq!(report.damaged_backups, BTreeSet::from([first]), "{report:?}");
    assert!(names_it(&report, &mirror) && names_it(&report, &small_one));
    forget(&machine.open(), first);
    forget(&machine.open(), small);
    let report = check(&machine, "forgotten");
    assert!(report.is_sound(), "{:?}", report.findings);
    prune(&machine, "forgotten");
    let report = check(&machine, "pruned");
    assert!(report.is_sound() && report.leftovers.is_empty(), "{report:?}");
    assert!(machine.storage.get(&main).is_err());
    // The removed list names containers that a backup has named.
    let list = object(&machine.names("removed")[0]);
    assert!(Way::Flip.apply(&machine, &list));
    let report = check(&machine, "without the list");
    assert!(report.is_sound(), "{:?}", report.findings);
    prune(&machine, "without the list");
    let report = check(&machine, "a new list");
    assert!(report.is_sound() && report.leftovers.is_empty(), "{report:?}");
    let store = machine.open();
    assert_restores_bytes(&store, &snapshot(&store, kept), "/b", &part(1), "at the end");
}

/// Why the loss does no harm although `check` does not name it. `None`: `check` names it.
fn argued(kind: Kind, way: Way) -> Option<&'static str> {
    match kind {
        Kind::Container(types::ContainerKind::Catalog) => {
            Some("what it copies is there: catalogs of rewritten backups' trees, which no manifest names")
        }
        Kind::Config if way == Way::Older => {
            Some("nobody can tell: what is lost is a later change of passwords")
        }
        Kind::Index => Some("a hint: every backup compares it with catalogs, and it is made anew (INV-4)"),
        Kind::Reserve => Some("bytes that mean nothing; prune makes it again"),
        Kind::Claim if way == Way::Delete => Some("its number is in the manifests, or nobody has used it"),
        Kind::Committed if way == Way::Delete => Some("the manifest is there"),
        Kind::Heartbeat => Some("the session is dead, and is ended by its claim"),
        Kind::Checkpoint if way == Way::Delete => {
            Some("resuming: the next backup stores again what it named")
        }
        Kind::Marks if way == Way::Delete => {
            Some("the newest list names them: all is swept and marked anew (INV-4)")
        }
        Kind::Condemned if way == Way::Delete => {
            Some("the epoch counts as finished; what it left is found again")
        }
        Kind::Removed if way == Way::Delete => {
            Some("what stays of it is dead, and no look-up finds it by marks")
        }
        Kind::Damaged if way == Way::Delete => Some("the next check lists it again"),
        Kind::Lease if way == Way::Delete => Some("a lease saves work alone"),
        Kind::Settings if way == Way::Delete => {
            Some("those before them count: backups are laid out otherwise")
        }
        Kind::Manifest if way == Way::Delete => {
            Some("of the newest revisions: tags and holds, or a tombstone of today")
        }
        _ => None,
    }
}

/// Whether every backup restores without the container of this object, all its copies included.
fn is_of_nobody(scene: &Scene, name: &ObjectName) -> bool {
    let of = |name: &ObjectName| {
        let id = names::parse_container(name).or_else(|| names::parse_body(name));
        let id = id.map(|(id, _)| (id.session, id.sequence));
        id.or_else(|| names::parse_mirror(name).map(|mirror| (mirror.session, mirror.sequence)))
    };
    let Some(id) = of(name) else { return false };
    let machine = scene.copy(102);
    let listed = machine.names("");
    for copy in listed
        .iter()
        .map(|name| object(name))
        .filter(|name| of(name) == Some(id))
    {
        machine.storage.lose(&copy);
    }
    scene.restorable(&machine) == scene.all()
}

/// The long mode damages every object in every way, before each operation. Otherwise each of these
/// ways damages one object of each kind, and objects and operations take turns.
fn losses(scene: &Scene, ways: &[Way]) -> Vec<Case> {
    let names = scene.machine.names("");
    let names = names.iter().map(|name| object(name));
    if is_long() {
        let each = names.flat_map(|name| Way::ALL.map(|way| (name.clone(), way)));
        return each
            .map(|(name, way)| Case::long(name, Loss::Damage(way)))
            .collect();
    }
    let mut of_kind: BTreeMap<Kind, Vec<ObjectName>> = BTreeMap::new();
    for name in names {
        of_kind.entry(Kind::of(&name)).or_default().push(name);
    }
    let mut all = Vec::new();
    for (turn, names) in of_kind.values().enumerate() {
        for (at, way) in ways.iter().enumerate() {
            // The newest object first, because it is most often the one that counts.
            let name = &names[names.len() - 1 - at % names.len()];
            all.push(Case::short(
                name.clone(),
                Loss::Damage(*way),
                turn + at,
                all.len(),
            ));
        }
    }
    all
}

/// The loss of an object.
enum Loss {
    Damage(Way),
    /// It has its earlier content again.
    Return(Vec<u8>),
}

/// A loss, and the operations that follow it, each on a store of its own: whether the damage is
/// listed then, and which operation.
struct Case {
    name: ObjectName,
    loss: Loss,
    then: Vec<(bool, Then)>,
}

impl Case {
    /// One operation. Restores and checks list the damage that they meet. In every other case
    /// nobody has looked.
    fn short(name: ObjectName, loss: Loss, turn: usize, number: usize) -> Self {
        let then = vec![(number.is_multiple_of(2), Then::ALL[turn % Then::ALL.len()])];
        Self { name, loss, then }
    }

    fn long(name: ObjectName, loss: Loss) -> Self {
        let then = Then::ALL.into_iter();
        let then = then.flat_map(|then| [(true, then), (false, then)]).collect();
        Self { name, loss, then }
    }
}

fn copy_of(machine: &Process) -> Process {
    let storage = machine.storage.crash(CrashPolicy::KeepAll);
    Process::on(storage, HandClock::new(), 101).striding()
}

/// The problems after this loss and the operations after it.
fn judge(scene: &Scene, Case { name, loss, then }: &Case) -> Vec<String> {
    let (all, lost_it) = (scene.all(), scene.copy(101));
    let (way, is_done) = match loss {
        Loss::Damage(way) => (format!("{way:?}"), way.apply(&lost_it, name)),
        Loss::Return(bytes) => (
            "Return".to_owned(),
            crate::loss_support::put_back(&lost_it, name, bytes),
        ),
    };
    if !is_done {
        return Vec::new();
    }
    let when = format!("{name}: {way}");
    let mut failures = Vec::new();
    let looked_at = copy_of(&lost_it);
    let before = scene.restorable(&looked_at);
    let report = check(&looked_at, &when);
    let lost: Vec<_> = all.difference(&before).collect();
    // A restore deletes objects of ended readers. Then there is nothing to name.
    let is_tidied = || Kind::of(name) == Kind::Checkpoint && looked_at.storage.get(name).is_err();
    let is_harmless = || match loss {
        // A swap damages two objects. If no backup needs this one, the check names the other.
        Loss::Damage(way) => {
            (argued(Kind::of(name), *way).is_some() || is_tidied() || is_of_nobody(scene, name))
                && (lost.is_empty() || *way == Way::Swap && !report.is_sound())
        }
        Loss::Return(_) => lost.is_empty(),
    };
    if !names_it(&report, name) && !is_harmless() {
        failures.push(format!("{when}: not named; lost: {lost:?}: {report:?}"));
    }
    let told = |id: &&SessionId| report.damaged_backups.contains(id) || report.unread_backups.contains(id);
    if let Some(id) = lost.iter().find(|id| !told(id)) {
        failures.push(format!("{when}: nobody told of backup {id}: {report:?}"));
    }
    for (is_listed, then) in then {
        let machine = copy_of(if *is_listed { &looked_at } else { &lost_it });
        scene.go_on(&machine, *then);
        let after = scene.restorable(&machine);
        let more: Vec<_> = before.difference(&after).collect();
        if !more.is_empty() {
            failures.push(format!(
                "{when}, damage listed: {is_listed}, then {then:?}: {more:?} were lost by it: {report:?}"
            ));
        }
    }
    failures
}

#[expect(clippy::print_stdout, reason = "the long mode takes hours")]
fn no_second_loss(scene: &Scene, cases: &[Case]) {
    assert_eq!(scene.restorable(&scene.copy(100)), scene.all(), "undamaged");
    let mut failures = Vec::new();
    // A part of the long mode must still cover all kinds.
    let stride = if is_long() { 7919 } else { 1 };
    assert!(
        stride == 1 || !cases.len().is_multiple_of(stride),
        "the stride meets all cases"
    );
    for at in 0..cases.len() {
        let found = judge(scene, &cases[at * stride % cases.len()]);
        if is_long() && at % 50 == 0 {
            println!("{at} of {}", cases.len());
        }
        found.iter().for_each(|failure| println!("{failure}"));
        failures.extend(found);
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count}: {:#?}", &failures[..count.min(12)]);
}

/// The loss of one object leads to no second loss.
#[test]
fn no_loss_of_one_object_leads_to_a_second_one() {
    let scene = Scene::new(2);
    no_second_loss(&scene, &losses(&scene, &Way::ALL));
}

/// The same while an epoch is open.
#[test]
fn no_loss_of_one_object_leads_to_a_second_one_while_an_epoch_is_open() {
    let scene = Scene::new(3).with_open_epoch();
    no_second_loss(&scene, &losses(&scene, &[Way::Delete, Way::Flip]));
}

/// The same if a prune died before its decision, and the marks that its epoch uses are lost.
#[test]
fn no_loss_of_marks_leads_to_a_loss_while_an_epoch_is_undecided() {
    let scene = Scene::new(8).with_undecided_epoch();
    let marks = scene.marks_of_open_epoch();
    assert!(marks.len() > 3, "{marks:?}");
    let each = marks
        .into_iter()
        .enumerate()
        .map(|(at, name)| Case::short(name, Loss::Damage([Way::Delete, Way::Flip][at % 2]), at, at));
    no_second_loss(&scene, &each.collect::<Vec<_>>());
}

/// An object that was deleted comes back, or has its earlier content again: nothing is lost by it.
/// Rewrites come back without the tombstones that show that their backups have other roots since.
#[test]
fn no_object_that_is_as_it_was_earlier_leads_to_a_loss() {
    let scene = Scene::new(10);
    let is_rewrite = |name: &ObjectName| {
        let of = names::parse_manifest(name);
        of.is_some_and(|(series, _, revision)| series == ARCHIVAL_SERIES && revision == Revision::FIRST)
    };
    let mut of_kind: BTreeMap<(Kind, bool), Vec<State>> = BTreeMap::new();
    for (name, bytes) in scene.earlier() {
        let of = of_kind.entry((Kind::of(&name), is_rewrite(&name)));
        of.or_default().push((name, bytes));
    }
    let mut all = Vec::new();
    for (turn, ((_, is_rewrite), of)) in of_kind.into_iter().enumerate() {
        let step = if is_rewrite || is_long() {
            1
        } else {
            of.len().div_ceil(2)
        };
        for (at, (name, bytes)) in of.into_iter().rev().step_by(step).enumerate() {
            let loss = Loss::Return(bytes);
            all.push(if is_long() {
                Case::long(name, loss)
            } else {
                Case::short(name, loss, turn + at, all.len())
            });
        }
    }
    let is_overwritten = |case: &Case| scene.machine.storage.get(&case.name).is_ok();
    assert!(all.iter().any(is_overwritten));
    assert!(all.len() > 30, "{}", all.len());
    no_second_loss(&scene, &all);
}

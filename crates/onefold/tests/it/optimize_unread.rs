//! Revisions of archival backups that the storage does not give. Data that lower revisions reach
//! may be removed, so no lower one replaces them, and none with their roots is put above them.

use crate::common::archival::{Base, hold, optimize};
use crate::common::pruning::{everything, everything_at_once, forget, prune, try_prune};
use crate::common::{Process, snapshot};
use format::names;
use format::session::ARCHIVAL_SERIES;
use onefold::{Error, Filter, HoldEnd, Retagged, SessionId, TagChange, Which};
use types::{ByteRange, ObjectName, Revision};

/// The revision that counts of an archival backup.
fn revision(machine: &Process, id: SessionId) -> ObjectName {
    let now = snapshot(&machine.open(), id);
    assert!(now.backup.next.is_some());
    names::manifest(now.series, id, now.revision)
}

fn take_sector(machine: &Process, name: &ObjectName) {
    let sector = ByteRange { offset: 60, len: 1 };
    machine.storage.make_unreadable(name, sector);
}

/// An archival backup refers forward to a forgotten one, which is kept by the revision before its
/// tombstone. With marks that know that revision as archival, and without.
#[test]
fn the_last_revision_of_a_forgotten_backup_decides_which_backups_it_reaches() {
    for is_marked in [true, false] {
        let base = Base::new(110, 0);
        let machine = &base.machine;
        let (first, second) = (base.ids[0], base.ids[1]);
        optimize(&machine.open(), 3);
        optimize(&machine.open(), 2);
        if is_marked {
            base.prune(111);
        }
        let bad = revision(machine, second);
        forget(&machine.open(), second);
        take_sector(machine, &bad);
        let stored = machine.names("");
        let refused = try_prune(&machine.beside(112).open(), &everything())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(bad.as_str()) && refused.contains("is not known now"),
            "{refused}"
        );
        assert!(
            refused.contains(&format!("backup {first} refers forward")),
            "{refused}"
        );
        let gone = |folder: &str| {
            stored
                .iter()
                .any(|name| name.starts_with(folder) && !machine.names("").contains(name))
        };
        assert!(!gone("archive/") && !gone("recipe/"));
        machine.give_back(&bad);
        base.assert_settles(&[second], "read again");
    }
}

fn tag(machine: &Process, which: &Which) -> Result<Vec<Retagged>, Error> {
    machine
        .beside(120)
        .open()
        .tag(which, &TagChange::Set(vec!["tag".to_owned()]))
}

/// The only object that shows that the revision may be archival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// The forgotten rewrite that made it.
    Rewrite,
    /// Its marks.
    Marks,
    /// Another archival backup of the series.
    Series,
}

#[test]
fn no_tag_and_no_hold_is_put_above_an_unreadable_archival_revision() {
    for tells in [Tells::Rewrite, Tells::Marks, Tells::Series] {
        let base = Base::new(120, 0);
        let machine = &base.machine;
        optimize(&machine.open(), if tells == Tells::Series { 2 } else { 3 });
        base.prune(121);
        if tells != Tells::Rewrite {
            for _ in 0..3 {
                prune(
                    &machine.beside(122).striding().open(),
                    &everything_at_once(),
                    "rewrites go",
                );
            }
            let rewrites = machine.names(&names::backups_folder(ARCHIVAL_SERIES));
            assert!(rewrites.is_empty(), "{rewrites:?}");
        }
        if tells != Tells::Marks {
            for name in machine.names(names::GROUPS_FOLDER) {
                assert!(machine.storage.lose(&ObjectName::new(name).unwrap()));
            }
        }
        let first = base.ids[0];
        let bad = revision(machine, first);
        take_sector(machine, &bad);
        let named = Which::Named(vec![first.to_string()]);
        for which in [named, Which::All(Filter::default())] {
            let refused = tag(machine, &which).unwrap_err().to_string();
            assert!(refused.contains(bad.as_str()), "{tells:?}: {refused}");
        }
        for end in [Some(HoldEnd::After("10y".parse().unwrap())), None] {
            let refused = machine
                .beside(123)
                .open()
                .hold(&[first.to_string()], end)
                .unwrap_err()
                .to_string();
            assert!(refused.contains(bad.as_str()), "{tells:?}: {refused}");
        }
        // Nor is it made archival again.
        let report = optimize(&machine.open(), 3);
        let told = report
            .warnings
            .iter()
            .any(|warning| warning.to_string().contains(bad.as_str()));
        assert!(
            told && report.backups.is_empty() && report.failed.is_empty(),
            "{tells:?}: {report:?}"
        );
        machine.give_back(&bad);
        let now = snapshot(&machine.open(), first);
        assert!(
            now.backup.next.is_some() && now.revision == Revision::new(1).unwrap(),
            "{tells:?}: {now:?}"
        );
        base.assert_settles(&[], &format!("{tells:?}: read again"));
        hold(&machine.open(), first, true);
        tag(machine, &Which::All(Filter::default())).unwrap();
        base.assert_all(&[], "tagged");
    }
}

/// Data that lower revisions reach is removed, and no lower revision can be rewritten. Tests for
/// each backup whether this is noticed.
#[test]
fn an_archival_revision_that_rotted_ends_no_optimize() {
    let base = Base::new(120, 0);
    let machine = &base.machine;
    optimize(&machine.open(), 3);
    base.prune(121);
    let name = revision(machine, base.ids[0]);
    let rot = |bytes: &mut Vec<u8>| bytes[70] ^= 1;
    assert!(machine.storage.damage(&name, rot));
    let report = optimize(&machine.open(), 1);
    // Some of its nodes were removed, and their container stays. The others become archival
    // meanwhile.
    let (failed, why) = &report.failed[0];
    assert!(*failed == base.ids[0] && why.contains("no slot"), "{report:?}");
    assert_eq!((report.failed.len(), report.backups.len()), (1, 2), "{report:?}");
    // Restored from a copy of the storage.
    assert!(machine.storage.damage(&name, rot));
    base.assert_settles(&[], "brought back");
}

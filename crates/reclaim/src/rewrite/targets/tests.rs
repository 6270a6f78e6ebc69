use format::manifest::{BackupTotals, SeriesName, StreamRole};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, Level, Revision, SequenceNumber, Slot};

use super::*;
use crate::rewrite::DistinctBackups;

/// The session that rewrites.
const REWRITER: u64 = 100;

/// A root of these bytes, put by this session.
fn root(bytes: u8, by: u64) -> StreamRoot {
    root_made_of(bytes, by, 1)
}

/// A root whose place records from which place it was made.
fn root_made_of(bytes: u8, by: u64, of: u32) -> StreamRoot {
    let container = ContainerId {
        session: id(by),
        kind: ContainerKind::Recipe,
        sequence: SequenceNumber::new(of).unwrap(),
    };
    StreamRoot {
        role: StreamRole::Whole,
        location: ChunkLocation {
            container,
            slot: Slot::new(bytes.into()).unwrap(),
        },
        level: Level::new(1).unwrap(),
        fingerprint: Fingerprint::from_bytes([bytes; 32]),
        len: 5,
    }
}

fn id(number: u64) -> SessionId {
    SessionId::new(number).unwrap()
}

fn roots(all: &[(u8, u64)]) -> Vec<StreamRoot> {
    all.iter().map(|(bytes, by)| root(*bytes, *by)).collect()
}

/// A backup with these streams, and the new streams made from them, if any.
fn parent(of: u64, from: &[(u8, u64)], made: &[(u8, u64)]) -> Parent {
    Parent {
        series: SeriesId::from_bytes([1; 16]),
        of: id(of),
        from: roots(from),
        made: roots(made),
    }
}

fn rewrite(parents: Vec<Parent>) -> Rewrite {
    let backup = Backup {
        series: SeriesName {
            host: Vec::new(),
            paths: Vec::new(),
        },
        source_time: UnixNanos::new(0),
        elapsed_nanos: 0,
        user: Vec::new(),
        program: String::new(),
        tags: Vec::new(),
        hold_until: None,
        streams: Vec::new(),
        containers: Vec::new(),
        adopted: Vec::new(),
        parents: parents
            .iter()
            .map(|parent| (parent.of, Revision::FIRST))
            .collect(),
        origin: None,
        next: None,
        rewritten: Some(7),
        totals: BackupTotals::default(),
    };
    Rewrite {
        backup,
        parents,
        now: UnixNanos::new(0),
    }
}

/// The new roots of each target, when these backups are held.
fn targets(parents: Vec<Parent>, held: &[u64]) -> Option<Vec<(u64, Vec<StreamRoot>)>> {
    let held = held.iter().map(|number| id(*number)).collect();
    let (_, all) = rewrite(parents).without(id(REWRITER), &held)?;
    Some(
        all.into_iter()
            .map(|target| (target.of.get(), target.streams))
            .collect(),
    )
}

#[test]
fn every_backup_with_the_old_roots_gets_the_new_ones() {
    let new = |bytes| (bytes, REWRITER);
    let all = || {
        vec![
            parent(9, &[(1, 9), (2, 9)], &[new(1), (2, 9)]),
            // It has the same streams, so nothing was made from them.
            parent(8, &[(1, 9), (2, 9)], &[]),
            parent(6, &[(2, 9), (1, 9)], &[(2, 9), new(1)]),
            // It would get only a stream that stays as it is.
            parent(5, &[(2, 9)], &[]),
            parent(4, &[(3, 4)], &[]),
        ]
    };
    let whole = roots(&[new(1), (2, 9)]);
    let mut expected = vec![(9, whole.clone()), (8, whole), (6, roots(&[(2, 9), new(1)]))];
    assert_eq!(targets(all(), &[]), Some(expected.clone()));
    // The rewrite is not for them.
    assert_eq!(targets(all(), &[4, 5]), Some(expected.clone()));
    expected.pop();
    assert_eq!(targets(all(), &[6]), Some(expected));
    // They would get the same trees as others, or the first backup is held.
    for held in [9, 8] {
        assert_eq!(targets(all(), &[held]), None, "{held}");
    }
}

/// Equal bytes in two places may be damaged in one and whole in the other.
#[test]
fn no_backup_gets_trees_made_from_other_roots() {
    let new = |bytes| (bytes, REWRITER);
    let twins = |made: &[(u8, u64)]| vec![parent(9, &[(1, 9)], &[new(1)]), parent(8, &[(1, 8)], made)];
    assert_eq!(targets(twins(&[]), &[]), None);
    assert_eq!(targets(twins(&[new(1)]), &[]), None);
    // The same holds for streams that are next to each other.
    let beside = vec![
        parent(9, &[(1, 9)], &[new(1)]),
        parent(8, &[(2, 8)], &[new(2)]),
        parent(7, &[(1, 9), (2, 7)], &[]),
    ];
    assert_eq!(targets(beside, &[]), None);
}

/// If a backup is held, its new trees are dropped, and so are the targets that would get them.
#[test]
fn a_held_backup_drops_its_new_trees_and_their_targets() {
    let new = |bytes| (bytes, REWRITER);
    let all = vec![
        parent(9, &[(1, 9)], &[new(1)]),
        parent(8, &[(2, 8)], &[new(2)]),
        parent(7, &[(2, 8)], &[]),
        parent(6, &[(3, 6)], &[new(3)]),
        // It becomes a target when the streams between are dropped.
        parent(5, &[(1, 9), (3, 6)], &[]),
    ];
    let left = targets(all, &[8]).unwrap();
    assert_eq!(left.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [9, 6, 5]);
}

#[test]
fn copied_bytes_are_reported_for_the_first_target_only() {
    let new = |bytes| (bytes, REWRITER);
    let all = vec![parent(9, &[(1, 9)], &[new(1)]), parent(8, &[(1, 9)], &[])];
    let (_, all) = rewrite(all).without(id(REWRITER), &BTreeSet::new()).unwrap();
    let told: Vec<_> = all.iter().map(|target| target.rewritten).collect();
    assert_eq!(told, [Some(7), Some(0)]);
}

/// Backups with few contents in few places. For each, new trees were made or not; a changed stream
/// has another root.
fn any_parents() -> impl Strategy<Value = Vec<Parent>> {
    let streams = vec((0u8..3, 1u32..3, any::<bool>()), 1..4);
    vec((streams, any::<bool>()), 1..8).prop_map(|all| {
        let each = (1..).zip(all).map(|(of, (streams, is_made))| {
            let from = |(bytes, place, _): &(u8, u32, bool)| root(*bytes, (*place).into());
            let made = |one: &(u8, u32, bool)| match one {
                (bytes, place, true) => root_made_of(*bytes, REWRITER, *place),
                _ => from(one),
            };
            let mut parent = parent(of, &[], &[]);
            parent.from = streams.iter().map(from).collect();
            parent.made = streams.iter().map(made).filter(|_| is_made).collect();
            if parent.made == parent.from {
                parent.made.clear();
            }
            parent
        });
        each.collect()
    })
}

proptest! {
    /// A process that completes the rewrite knows the commit, and the streams that its parents had.
    #[test]
    fn the_maker_and_the_completer_of_a_rewrite_choose_the_same_targets(parents in any_parents(), held in btree_set(1u64..8, 0..3)) {
        let first = parents[0].of;
        let known: Vec<_> = parents.iter().map(|parent| (parent.series, parent.of, parent.from.clone())).collect();
        let made: Vec<_> = parents.iter().filter(|parent| !parent.made.is_empty()).map(|parent| parent.of).collect();
        let held: BTreeSet<_> = held.into_iter().map(id).collect();
        let mut twinless = DistinctBackups::default();
        let has_twins = !known.iter().all(|(_, _, from)| twinless.add(from));
        if let Some((backup, all)) = rewrite(parents).without(id(REWRITER), &held) {
            let committed = Committed { session: id(REWRITER), backup: &backup, repaired: Some(first) };
            let completed = known.iter().filter_map(|(series, of, from)| target(&committed, (*series, *of), from));
            prop_assert_eq!(&all, &completed.map(|(_, target)| target).collect::<Vec<_>>());
            for target in &all {
                let bytes = |all: &[StreamRoot]| all.iter().map(|root| root.fingerprint).collect::<Vec<_>>();
                prop_assert_eq!(bytes(&target.streams), bytes(&target.from));
                prop_assert!(target.streams.iter().any(|root| root.location.container.session == id(REWRITER)));
                prop_assert!(!held.contains(&target.of));
                for (root, from) in target.streams.iter().zip(&target.from) {
                    let place = |root: &StreamRoot| root.location.container;
                    let is_made_of = place(root).session == id(REWRITER)
                        && u64::from(place(root).sequence.get()) == place(from).session.get();
                    prop_assert!(root == from || is_made_of, "{root:?} for {from:?}");
                }
            }
            // No backup with new trees of its own is left out.
            let is_target = |of| all.iter().any(|target| target.of == of);
            prop_assert!(made.into_iter().all(|of| is_target(of) != held.contains(&of)));
        } else {
            // Or because of streams that are next to each other, which are not checked before.
            let streams_max = known.iter().map(|(_, _, from)| from.len()).max().unwrap_or(0);
            prop_assert!(!held.is_empty() || !made.contains(&first) || has_twins || streams_max > 1);
        }
    }
}

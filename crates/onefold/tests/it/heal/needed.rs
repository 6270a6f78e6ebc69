//! Damage that no backup needs is not reported, and is no longer listed.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use onefold::PruneUnused;
use types::{SequenceNumber, Slot};

use super::support::{Ward, take};
use crate::common::pruning::{forget, leaving, prune, prune_after_crash};
use crate::common::{Asked, How, assert_restores_bytes, back_up_bytes, noise, snapshot, try_restores_bytes};

/// A backup needs the first half of the container's chunks. The backup that needed all is
/// forgotten.
fn half_needed(seed: u64) -> (Ward, Vec<Slot>) {
    let ward = Ward::new(seed);
    let slots = ward.slots();
    let kept = &ward.bytes[..ward.offset(slots.len() / 2)];
    back_up_bytes(&ward.machine.open(), "/b", kept, &How::plain()).unwrap();
    forget(&ward.machine.open(), ward.first);
    (ward, slots)
}

/// No place has the listed chunks any more. A prune keeps those on the lists that backups need, and
/// reports the container only if there are some.
#[test]
fn lists_of_damage_lose_entries_that_no_backup_needs() {
    for is_one_needed in [true, false] {
        let (ward, slots) = half_needed(691);
        let (needed, needless) = (slots[0], slots[slots.len() - 1]);
        let lacking: Vec<Slot> = [needed, needless]
            .into_iter()
            .filter(|slot| is_one_needed || *slot == needless)
            .collect();
        ward.put_without(1, &lacking);
        take(&ward.machine, &[ward.name(0)]);
        ward.list(0, Some(&lacking));
        let report = ward.prune(692, "shrinks the list");
        let left: Vec<Slot> = lacking.into_iter().filter(|slot| *slot == needed).collect();
        assert_eq!(report.unhealed.len(), left.len(), "{report:?}");
        assert_eq!(ward.listed(), Some(left.into_iter().collect()));
        assert_eq!(ward.machine.names("damaged").len(), usize::from(is_one_needed));
    }
}

/// A list of damage names a container that does not exist any more, and the removed list that named
/// it is deleted too.
#[test]
fn a_container_that_nobody_knows_is_listed_no_longer() {
    let mut ward = Ward::new(693);
    ward.id.sequence = SequenceNumber::new(900).unwrap();
    ward.list(0, None);
    let report = ward.prune(695, "drops the list");
    assert_eq!(report.unhealed, [], "{report:?}");
    assert_eq!(ward.listed(), Some([].into()));
}

/// Rot that no backup needs stays listed, so that no backup refers to it. It is not reported.
#[test]
fn rot_that_no_backup_needs_is_not_reported() {
    let leaves = leaving(PruneUnused::Bytes(1 << 30));
    for is_needed in [false, true] {
        let (ward, _) = half_needed(701);
        prune(&ward.machine.beside(702).open(), &leaves, "leaves all");
        let rows = ward.view.rows();
        let row = if is_needed { rows[0] } else { rows[rows.len() - 1] };
        let at = usize::try_from(row.offset).unwrap();
        assert!(ward.machine.storage.damage(&ward.name(0), |bytes| bytes[at] ^= 1));
        let first = usize::try_from(row.first_entry).unwrap();
        let rotten: Vec<Slot> = ward.slots().split_off(first);
        let rotten = &rotten[..usize::try_from(row.entry_count).unwrap()];
        ward.list(0, Some(rotten));
        let report = prune_after_crash(&ward.machine.beside(703).open(), &leaves, "cannot heal");
        assert_eq!(report.unhealed.len(), usize::from(is_needed), "{report:?}");
        assert_eq!(ward.listed(), Some(rotten.iter().copied().collect()));
    }
}

/// A backup refers to a chunk that an earlier prune has left in place, and commits when a prune is
/// about to announce its epoch. Then the chunk is lost and listed. The marks of that prune do not
/// cover the backup, and the list stays.
#[test]
fn damage_that_a_backup_after_the_plan_needs_stays_listed() {
    let (ward, slots) = half_needed(711);
    let leaves = leaving(PruneUnused::Bytes(1 << 30));
    prune(&ward.machine.beside(712).open(), &leaves, "leaves all");
    let other = back_up_bytes(
        &ward.machine.open(),
        "/other",
        &noise(712, 60 << 10),
        &How::plain(),
    );
    forget(&ward.machine.open(), other.unwrap().id);
    let ward = Arc::new(ward);
    let ((asleep, is_asleep), (wake, is_woken)) = (channel(), channel());
    let late = ward.machine.beside(713);
    let mut sleeps = true;
    late.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("backups/") && std::mem::replace(&mut sleeps, false) {
            asleep.send(()).unwrap();
            is_woken.recv().unwrap();
        }
    });
    let bytes = ward.bytes.clone();
    let late = thread::spawn(move || {
        back_up_bytes(&late.open(), "/c", &bytes, &How::plain())
            .unwrap()
            .id
    });
    is_asleep.recv().unwrap();

    let lost = slots[slots.len() - 1];
    let planned = ward.machine.beside(714).striding();
    let (beside, mut late) = (Arc::clone(&ward), Some(late));
    let third = Arc::new(Mutex::new(None));
    let made = Arc::clone(&third);
    planned.watched.set_before(move |asked, name| {
        if asked == Asked::Put
            && name.starts_with("condemned/")
            && let Some(late) = late.take()
        {
            wake.send(()).unwrap();
            *made.lock().unwrap() = Some(late.join().unwrap());
            beside.put_without(1, &[lost]);
            take(&beside.machine, &[beside.name(0)]);
            beside.list(0, Some(&[lost]));
        }
    });
    let report = prune_after_crash(&planned.open(), &leaves, "does not know");
    assert_eq!((report.epochs, report.unhealed.len()), (1, 1), "{report:?}");
    planned.watched.clear_before();
    assert_eq!(ward.listed(), Some([lost].into()));
    let store = ward.machine.beside(716).open();
    let third = snapshot(&store, third.lock().unwrap().unwrap());
    let restored = try_restores_bytes(&store, &third, "/c", &ward.bytes);
    assert!(restored.is_err(), "it needs the lost chunk");
    // The next backup has the chunk.
    let fourth = back_up_bytes(&ward.machine.open(), "/d", &ward.bytes, &How::plain()).unwrap();
    assert_eq!(fourth.healed.len(), 1, "{:?}", fourth.healed);
    let store = ward.machine.beside(718).open();
    assert_restores_bytes(&store, &third, "/c", &ward.bytes, "healed");
}

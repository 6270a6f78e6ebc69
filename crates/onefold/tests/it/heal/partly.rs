//! Partial healing: the rest of a container is healed later.

use env::fault::CrashPolicy;
use onefold::{Monitor, ReadData};

use super::support::{Ward, crash_after_commit, take};
use crate::common::pruning::{everything, prune_after_crash};
use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, snapshot};

/// A container is lost, and a backup has some of its chunks. The power fails at any operation of
/// that backup. A later backup that has all chunks heals the rest.
#[test]
fn a_crash_while_a_part_is_healed_leaves_the_rest_to_the_next() {
    let ward = Ward::of(651, 72 << 10);
    take(&ward.machine, &[ward.name(0)]);
    let dying = ward.machine.beside(652);
    let store = dying.open();
    store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let images = crash_after_commit(&dying);
    let part = &ward.bytes[..ward.offset(ward.chunks.len() / 2)];
    let second = back_up_bytes(&store, "/b", part, &How::plain()).unwrap();
    dying.watched.clear_before();
    let [healed] = &second.healed[..] else {
        panic!("{:?}", second.healed)
    };
    assert!(healed.slots > 5 && healed.left > 5, "{healed:?}");
    let listed = ward.listed().map(|slots| slots.len() as u64);
    assert_eq!(listed, Some(healed.left), "the list of the whole container went");
    let done = (
        ward.machine.storage.crash(CrashPolicy::KeepAll),
        "at its end".to_owned(),
    );
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 12, "{}", images.len());
    images.push(done);
    let mut of_short = 0;
    for (machine, when) in images {
        let after = Process::on(machine, ward.machine.clock.clone(), 653).striding();
        let name = format!("{}", ward.name(1));
        of_short += usize::from(after.names("data").contains(&name));
        let third = back_up_bytes(&after.open(), "/c", &ward.bytes, &How::plain())
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        // If the lease was not free, the prune heals.
        let store = after.beside(654).striding().open();
        prune_after_crash(&store, &everything(), &when);
        assert_eq!(after.names("damaged"), Vec::<String>::new(), "{when}");
        let store = after.beside(655).open();
        let first = snapshot(&store, ward.first);
        assert_restores_bytes(&store, &first, "/a", &ward.bytes, &when);
        let third = snapshot(&store, third.id);
        assert_restores_bytes(&store, &third, "/c", &ward.bytes, &when);
        assert_sound(&store, &when);
    }
    assert!(of_short > 3, "{of_short} with a short generation");
}

//! A storage that does not delete some objects, as a bucket with a retention rule.

use onefold::Monitor;

use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};

/// What may be deleted is, the rest waits, and nothing is lost.
#[test]
fn what_the_storage_retains_waits_and_nothing_is_lost() {
    let machine = Process::new(371);
    machine.init();
    let store = machine.open();
    let (kept, gone) = (noise(371, 100_000), noise(372, 200_000));
    let first = back_up_bytes(&store, "/kept", &kept, &How::plain()).unwrap().id;
    let second = back_up_bytes(&store, "/gone", &gone, &How::plain()).unwrap().id;
    forget(&store, second);
    let data = machine.names("data");
    let of_second = |name: &&String| name.contains(&format!("/{:013}/", second.get()));
    let (retained, others): (Vec<String>, Vec<String>) = data
        .iter()
        .filter(of_second)
        .cloned()
        .partition(|name| name.ends_with("00000000.0") || name.ends_with("00000001.0"));
    assert!(!retained.is_empty() && others.len() > 2, "{data:?}");
    machine.watched.retain(retained.clone());
    for _ in 0..2 {
        let error = store
            .prune(&everything_at_once(), &Monitor::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&retained[0]) && error.contains("denied"),
            "{error}"
        );
        let left = machine.names("data");
        assert!(retained.iter().all(|name| left.contains(name)), "{left:?}");
        assert!(
            !others.iter().any(|name| left.contains(name)),
            "the others are deleted: {left:?}"
        );
        assert_restores_bytes(&store, &snapshot(&store, first), "/kept", &kept, "retained");
        // The open epoch hinders no backup, and nobody refers to what is to go.
        let again = back_up_bytes(&store, "/again", &gone, &How::plain()).unwrap().id;
        assert_restores_bytes(&store, &snapshot(&store, again), "/again", &gone, "stored again");
        forget(&store, again);
    }
    machine.watched.retain([]);
    prune(&store, &everything_at_once(), "the retention is over");
    prune(&store, &everything_at_once(), "what was forgotten meanwhile");
    assert!(!machine.names("data").iter().any(|name| retained.contains(name)));
    assert_restores_bytes(&store, &snapshot(&store, first), "/kept", &kept, "at the end");
    assert_sound(&store, "at the end");
}

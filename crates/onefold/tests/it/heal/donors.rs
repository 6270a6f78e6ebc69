//! Places that have the chunks of a damaged container.

use container::{Compression, ContainerBuilder, compress_region};
use types::{Generation, ObjectName};

use super::support::{Ward, take};
use crate::common::pruning::forget;
use crate::common::{How, back_up_bytes, noise};

/// The newest generation has zeros for all chunks, as healing writes them. Two other containers
/// have half of the chunks each. The index leads to all three containers, and the damaged one,
/// whose catalog lists every chunk, must not end the search.
#[test]
fn a_damaged_container_gives_itself_no_chunk() {
    let ward = Ward::new(681);
    let machine = &ward.machine;
    let other = back_up_bytes(&machine.open(), "/other", &noise(682, 60 << 10), &How::plain()).unwrap();
    forget(&machine.open(), other.id);
    ward.prune(683, "has a removed list");
    let removed = machine.names("removed").into_iter();
    let removed: Vec<_> = removed.map(|name| ObjectName::new(name).unwrap()).collect();
    let flip = || {
        for name in &removed {
            let flip = |bytes: &mut Vec<u8>| bytes.iter_mut().for_each(|byte| *byte ^= 4);
            assert!(machine.storage.damage(name, flip));
        }
    };
    // While a removed list cannot be read, backups store all chunks anew.
    flip();
    let slots = ward.slots();
    let (first, half) = (ward.offset(0), ward.offset(slots.len() / 2));
    let end = first + ward.chunks.iter().map(Vec::len).sum::<usize>();
    for (name, part) in [("/b", first..half), ("/c", half..end)] {
        let made = back_up_bytes(&machine.open(), name, &ward.bytes[part], &How::plain()).unwrap();
        assert!(made.totals.bytes_stored > 8 << 10, "{made:?}");
    }
    flip();

    let mut builder = ContainerBuilder::new(ward.id, Generation::new(1).unwrap());
    for entry in ward.view.entries() {
        let zeros = compress_region(vec![0; entry.len as usize], Compression::Off);
        builder.append_survivors(zeros, &[*entry]);
    }
    ward.containers
        .put(&builder.seal(&ward.containers).unwrap())
        .unwrap();
    take(machine, &[ward.name(0)]);
    ward.list(0, Some(&slots));
    let report = ward.prune(684, "heals");
    let [healed] = &report.healed[..] else {
        panic!("{report:?}")
    };
    assert_eq!((healed.slots, healed.left), (slots.len() as u64, 0));
    ward.assert_whole(685, "from two containers");
}

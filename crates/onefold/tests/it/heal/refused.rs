//! A disk that gives a region when healing examines it, and refuses it when healing copies.

use onefold::{Monitor, ReadData};
use types::{ByteRange, RegionIndex};

use super::rot;
use super::support::Ward;
use crate::common::storage::Asked;
use crate::common::{How, back_up_bytes};

#[test]
fn a_region_that_is_refused_in_the_middle_is_waited_for() {
    let ward = Ward::of(731, 72 << 10);
    let (machine, name) = (&ward.machine, ward.name(0));
    rot(machine, name.as_str());
    let checking = machine.beside(732).open();
    checking.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let last = u32::try_from(ward.view.rows().len()).unwrap() - 1;
    assert!(last > 0, "a sound region beside the rotten one");
    let row = *ward.view.row(RegionIndex::new(last).unwrap()).unwrap();
    let region = ByteRange {
        offset: row.offset,
        len: row.stored_len.into(),
    };

    let healing = machine.beside(733);
    let store = healing.open();
    let (storage, refused, of) = (machine.storage.clone(), name.clone(), name.clone());
    let mut reads = 0;
    let is_second = move |asked: Asked, name: &str| {
        reads += u32::from(asked == Asked::Range(region) && name == of.as_str());
        reads == 2
    };
    healing
        .watched
        .set_once_at(is_second, move || storage.make_unreadable(&refused, region));
    let second = back_up_bytes(&store, "/b", &ward.bytes, &How::plain()).unwrap();
    assert_eq!(second.healed, [], "nothing replaces what the disk may give again");
    assert!(machine.names("data").contains(&name.as_str().to_owned()));

    machine.give_back(&name);
    let third = back_up_bytes(&machine.beside(734).open(), "/b", &ward.bytes, &How::plain()).unwrap();
    assert_eq!(third.healed.len(), 1, "{:?}", third.healed);
    ward.assert_whole(735, "given back");
}

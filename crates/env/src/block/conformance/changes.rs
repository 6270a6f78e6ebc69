//! Cases of discards and growth.

use super::{Abilities, BLOCK, assert_bytes, pattern, read, write};
use crate::{BLOCK_BYTES, BlockDevice};

pub(super) fn a_discard_touches_its_blocks_alone(device: &dyn BlockDevice, _: Abilities) {
    let len = device.len();
    // With whole MiB in it, which some devices free at once.
    let blocks = (4 << 20) / BLOCK;
    write(device, 0, &pattern(1, blocks));
    let (from, to) = (3 * BLOCK, (blocks - 2) * BLOCK);
    device
        .discard(from as u64, (to - from) as u64)
        .expect("a discard of whole blocks");
    assert_bytes(device, 0, &pattern(1, blocks)[..from]);
    assert_bytes(device, to as u64, &pattern(1, blocks)[to..]);
    assert_eq!(device.len(), len);
    // The content is anything, but it can be read.
    read(device, from as u64, to - from);
    write(device, from as u64 + BLOCK_BYTES, &pattern(2, 2));
    assert_bytes(device, from as u64 + BLOCK_BYTES, &pattern(2, 2));
    device.discard(0, len).expect("a discard of the whole device");
    write(device, 0, &pattern(3, blocks));
    assert_bytes(device, 0, &pattern(3, blocks));
}

pub(super) fn a_device_grows_and_keeps_its_bytes(device: &dyn BlockDevice, abilities: Abilities) {
    let len = device.len();
    write(device, len - BLOCK_BYTES, &pattern(1, 1));
    for smaller in [0, BLOCK_BYTES, len] {
        device.grow(smaller).expect("a device that is long enough");
        assert_eq!(device.len(), len, "growth to {smaller} bytes");
    }
    if !abilities.grows {
        assert!(
            device.grow(len + BLOCK_BYTES).is_err(),
            "a device that cannot grow"
        );
        assert_eq!(device.len(), len);
        return;
    }
    let grown = len + 5 * BLOCK_BYTES;
    device.grow(grown + 100).expect("growth, to whole blocks");
    assert_eq!(device.len(), grown);
    assert_bytes(device, len - BLOCK_BYTES, &pattern(1, 1));
    assert_bytes(device, len, &[0; 5 * BLOCK]);
    write(device, grown - BLOCK_BYTES, &pattern(2, 1));
    assert_bytes(device, grown - BLOCK_BYTES, &pattern(2, 1));
    assert!(
        device.read_at(grown, &mut [0; BLOCK]).is_err(),
        "a read past the end"
    );
}

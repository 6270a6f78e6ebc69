//! The machine against its own promises.

use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};

use types::ByteRange;

use super::*;
use crate::{BLOCK_BYTES, BlockDevice, DeviceError};

const B: u64 = BLOCK_BYTES;
const BLOCK: usize = super::super::device::BLOCK_LEN;

fn write(disk: &dyn BlockDevice, block: u64, byte: u8) {
    disk.write_at(block * B, &[byte; BLOCK]).unwrap();
}

fn read(disk: &dyn BlockDevice, block: u64) -> Vec<u8> {
    let mut out = vec![0xEE; BLOCK];
    disk.read_at(block * B, &mut out).unwrap();
    out
}

/// The byte that fills the whole block.
#[track_caller]
fn byte(disk: &dyn BlockDevice, block: u64) -> u8 {
    let bytes = read(disk, block);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn block");
    bytes[0]
}

fn machine(blocks: u64) -> (FaultMachine, FaultDevice) {
    let machine = FaultMachine::new();
    let disk = machine.create("disk", blocks * B);
    (machine, disk)
}

fn disk_after(machine: &FaultMachine, policy: PowerCut) -> FaultDevice {
    machine.power_cut(policy).open("disk").unwrap()
}

fn is_gone<T: std::fmt::Debug>(outcome: Result<T, DeviceError>) -> bool {
    matches!(outcome, Err(DeviceError::Gone { .. }))
}

#[test]
fn a_power_cut_takes_what_no_flush_covers() {
    let (machine, disk) = machine(3);
    write(&disk, 0, 1);
    disk.flush().unwrap();
    write(&disk, 0, 2);
    write(&disk, 1, 3);
    assert_eq!(machine.unflushed_blocks("disk"), 2);
    assert_eq!(byte(&disk, 0), 2, "it is read before it is durable");

    let kept = disk_after(&machine, PowerCut::KeepAll);
    assert_eq!([byte(&kept, 0), byte(&kept, 1), byte(&kept, 2)], [2, 3, 0]);
    let dropped = disk_after(&machine, PowerCut::DropAll);
    assert_eq!([byte(&dropped, 0), byte(&dropped, 1)], [1, 0]);
    let torn = read(&disk_after(&machine, PowerCut::TearAll), 0);
    assert_eq!(
        [torn[0], torn[511], torn[512], torn[1023], torn[1024]],
        [2, 2, 1, 1, 2]
    );

    disk.flush().unwrap();
    assert_eq!(machine.unflushed_blocks("disk"), 0);
    for policy in [PowerCut::DropAll, PowerCut::TearAll, PowerCut::Seeded(3)] {
        let after = disk_after(&machine, policy);
        assert_eq!([byte(&after, 0), byte(&after, 1)], [2, 3]);
    }
}

#[test]
fn outcomes_are_every_choice_of_versions_and_no_other() {
    let (machine, disk) = machine(2);
    for value in [1, 2] {
        write(&disk, 0, value);
    }
    for value in [7, 7, 0] {
        write(&disk, 1, value);
    }
    let outcomes: Vec<_> = machine
        .outcomes(6)
        .unwrap()
        .map(|after| after.open("disk").unwrap())
        .map(|disk| (byte(&disk, 0), byte(&disk, 1)))
        .collect();
    // The block's zeros before and after are one state.
    let expected = BTreeSet::from([(0, 0), (1, 0), (2, 0), (0, 7), (1, 7), (2, 7)]);
    assert_eq!(outcomes.len(), 6);
    assert_eq!(BTreeSet::from_iter(outcomes), expected);
    assert!(machine.outcomes(5).is_none());
    disk.flush().unwrap();
    assert_eq!(machine.outcomes(1).unwrap().count(), 1);
}

#[test]
fn seeds_reach_every_outcome_and_tears_only_when_asked() {
    let (machine, disk) = machine(2);
    write(&disk, 0, 1);
    write(&disk, 0, 2);
    write(&disk, 1, 9);
    let whole: BTreeSet<_> = (0..300)
        .map(|seed| disk_after(&machine, PowerCut::Whole(seed)))
        .map(|disk| (byte(&disk, 0), byte(&disk, 1)))
        .collect();
    assert_eq!(whole.len(), 6, "{whole:?}");
    let mixed = (0..300).any(|seed| {
        let block = read(&disk_after(&machine, PowerCut::Seeded(seed)), 0);
        let parts: BTreeSet<_> = block.chunks(512).map(|part| part[0]).collect();
        assert!(block.chunks(512).all(|part| part.iter().all(|b| *b == part[0])));
        parts == BTreeSet::from([0, 1, 2])
    });
    assert!(mixed, "no block had parts of three versions");
    let again = |seed| read(&disk_after(&machine, PowerCut::Seeded(seed)), 0);
    assert!((0..300).all(|seed| again(seed) == again(seed)));
}

#[test]
fn seeds_lose_one_of_many_and_keep_one_of_many() {
    let (machine, disk) = machine(20);
    (0..20).for_each(|block| write(&disk, block, 1));
    let kept: BTreeSet<usize> = (0..300)
        .map(|seed| disk_after(&machine, PowerCut::Whole(seed)))
        .map(|disk| (0..20).filter(|block| byte(&disk, *block) == 1).count())
        .collect();
    assert!(kept.contains(&19) && kept.contains(&1), "{kept:?}");
}

#[test]
fn a_kill_keeps_every_written_byte_and_ends_the_process() {
    let (machine, disk) = machine(2);
    let other = machine.process();
    write(&disk, 0, 1);
    machine.kill();
    assert!(machine.is_gone() && !other.is_gone());
    assert!(is_gone(disk.write_at(0, &[2; BLOCK])));
    assert!(is_gone(disk.read_at(0, &mut [0; BLOCK])));
    assert!(is_gone(disk.flush()) && is_gone(disk.discard(0, B)) && is_gone(disk.grow(9 * B)));
    assert!(is_gone(machine.open("disk")));
    let again = other.open("disk").unwrap();
    assert_eq!(byte(&again, 0), 1);
    // The bytes are not durable because their process was killed.
    assert_eq!(byte(&disk_after(&other, PowerCut::DropAll), 0), 0);
    again.flush().unwrap();
    assert_eq!(
        byte(&disk_after(&other, PowerCut::DropAll), 0),
        1,
        "a flush covers all processes"
    );
}

#[test]
fn a_stop_comes_before_after_or_within_the_operation() {
    for (fault, expected) in [
        (Fault::stop(2), [0, 0, 0]),
        (Fault::stop(2).after(), [5, 5, 5]),
        (Fault::stop(2).within(B), [5, 0, 0]),
        (Fault::stop(2).within(2 * B + 100), [5, 5, 0]),
        (Fault::stop(2).within(99 * B), [5, 5, 5]),
    ] {
        let (machine, disk) = machine(3);
        let bystander = machine.process().open("disk").unwrap();
        machine.inject(fault);
        disk.flush().unwrap();
        assert!(is_gone(disk.write_at(0, &[5; 3 * BLOCK])), "{fault:?}");
        assert!(is_gone(bystander.flush()), "all processes end");
        let again = machine.process().open("disk").unwrap();
        assert_eq!(
            [byte(&again, 0), byte(&again, 1), byte(&again, 2)],
            expected,
            "{fault:?}"
        );
    }
}

#[test]
fn a_write_is_cut_within_a_block() {
    let (machine, disk) = machine(2);
    write(&disk, 1, 1);
    disk.flush().unwrap();
    machine.inject(Fault::kill(1).within(B + 1024 + 1));
    assert!(is_gone(disk.write_at(0, &[5; 2 * BLOCK])));
    let again = machine.process().open("disk").unwrap();
    assert_eq!(byte(&again, 0), 5);
    let cut = read(&again, 1);
    assert_eq!((&cut[..1024], &cut[1024..]), (&[5; 1024][..], &[1; 3072][..]));
}

#[test]
fn a_kill_at_an_operation_spares_other_processes_and_counts_its_own() {
    let (machine, disk) = machine(2);
    let other = machine.process();
    let others = other.open("disk").unwrap();
    machine.inject_here(Fault::kill(2));
    for _ in 0..5 {
        write(&others, 1, 4);
    }
    write(&disk, 0, 1);
    assert!(is_gone(disk.write_at(0, &[2; BLOCK])));
    write(&others, 1, 5);
    assert_eq!((byte(&others, 0), byte(&others, 1)), (1, 5));
    assert_eq!(
        (other.counters_here().writes, machine.counters_here().writes),
        (6, 2)
    );
}

#[test]
fn operations_fail_once_or_from_then_on() {
    let (machine, disk) = machine(3);
    machine.inject(Fault::fail(1, FailWith::NoSpace));
    let outcome = disk.write_at(0, &[1; BLOCK]);
    assert!(matches!(outcome, Err(DeviceError::NoSpace { .. })));
    assert_eq!(byte(&disk, 0), 0);
    write(&disk, 0, 1);
    machine.inject(Fault::fail_from(1, FailWith::Io).within(B));
    for _ in 0..2 {
        match disk.write_at(0, &[2; 2 * BLOCK]) {
            Err(DeviceError::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(libc::EIO)),
            other => panic!("{other:?}"),
        }
    }
    machine.clear_faults();
    assert_eq!((byte(&disk, 0), byte(&disk, 1)), (2, 0), "a part was written");
    machine.inject(Fault::fail(2, FailWith::Io).counting(Counted::Only(OpKind::Read)));
    assert_eq!(byte(&disk, 0), 2);
    write(&disk, 2, 3);
    disk.read_at(0, &mut [0; BLOCK]).unwrap_err();
    assert_eq!(byte(&disk, 0), 2);
}

#[test]
fn after_a_failed_flush_no_flush_makes_the_same_writes_durable() {
    let (machine, disk) = machine(2);
    write(&disk, 0, 1);
    write(&disk, 1, 1);
    machine.inject(Fault::fail(1, FailWith::Io));
    assert!(matches!(disk.flush(), Err(DeviceError::Io { .. })));
    let clone = disk.clone();
    for outcome in [
        clone.write_at(0, &[2; BLOCK]),
        clone.flush(),
        clone.discard(0, B),
        clone.grow(9 * B),
    ] {
        assert!(
            matches!(outcome, Err(DeviceError::Poisoned { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(byte(&disk, 0), 1, "reads work");

    let again = machine.open("disk").unwrap();
    again.flush().unwrap();
    assert_eq!(byte(&disk_after(&machine, PowerCut::DropAll), 0), 0);
    write(&again, 0, 3);
    again.flush().unwrap();
    let after = disk_after(&machine, PowerCut::DropAll);
    assert_eq!(
        (byte(&after, 0), byte(&after, 1)),
        (3, 0),
        "a new write is flushed"
    );
}

#[test]
fn a_flush_covers_nothing_that_finished_after_its_call() {
    let (machine, disk) = machine(2);
    write(&disk, 0, 1);
    let world = machine.world();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| {
            // Called while another thread is writing.
            disk.flush().unwrap();
        });
        let mut world = world;
        // The flush has read `finished`, or reads it now: the write below is not finished yet.
        let change = world.change();
        let (blocks, reader, _) = world.disk("disk");
        blocks.write(&reader, B, &[2; BLOCK], change);
        drop(world);
        flush.join().unwrap();
    });
    let after = disk_after(&machine, PowerCut::DropAll);
    assert_eq!((byte(&after, 0), byte(&after, 1)), (1, 0));
}

#[test]
fn discarded_blocks_read_as_anything_and_as_something_else_after_a_power_cut() {
    let (machine, disk) = machine(64);
    (0..64).for_each(|block| write(&disk, block, 7));
    disk.flush().unwrap();
    disk.discard(0, 64 * B).unwrap();
    let kinds = |disk: &FaultDevice| -> Vec<u8> {
        (0..64)
            .map(|block| match &read(disk, block)[..] {
                bytes if bytes.iter().all(|byte| *byte == 0) => 0,
                bytes if bytes.iter().all(|byte| *byte == 7) => 1,
                _ => 2,
            })
            .collect()
    };
    let before = kinds(&disk);
    assert_eq!(BTreeSet::from_iter(before.clone()).len(), 3, "{before:?}");
    assert_eq!(kinds(&disk), before, "reads agree");
    disk.flush().unwrap();
    let after = machine.power_cut(PowerCut::DropAll);
    assert_ne!(kinds(&after.open("disk").unwrap()), before);

    for (reads, kind) in [
        (DiscardedReads::Zeros, 0),
        (DiscardedReads::Old, 1),
        (DiscardedReads::Garbage(1), 2),
    ] {
        machine.set_discarded_reads(reads);
        assert_eq!(kinds(&disk), [kind; 64], "{reads:?}");
    }
    let garbage = read(&disk, 0);
    let later = disk_after(&machine, PowerCut::KeepAll);
    assert_ne!(read(&later, 0), garbage, "garbage changes with a power cut");
    write(&disk, 0, 9);
    assert_eq!(byte(&disk, 0), 9);
}

#[test]
fn an_undurable_discard_may_be_undone() {
    let (machine, disk) = machine(3);
    machine.set_discarded_reads(DiscardedReads::Zeros);
    (0..2).for_each(|block| write(&disk, block, 7));
    disk.flush().unwrap();
    machine.inject(Fault::stop(1).within(B + 512));
    assert!(is_gone(disk.discard(0, 2 * B)));
    let dropped = disk_after(&machine, PowerCut::DropAll);
    assert_eq!((byte(&dropped, 0), byte(&dropped, 1)), (7, 7));
    let kept = disk_after(&machine, PowerCut::KeepAll);
    assert_eq!(
        (byte(&kept, 0), byte(&kept, 1)),
        (0, 7),
        "whole blocks were discarded"
    );
}

#[test]
fn a_growth_is_undone_unless_it_was_flushed() {
    let (machine, disk) = machine(1);
    disk.grow(3 * B).unwrap();
    write(&disk, 2, 1);
    assert_eq!(disk_after(&machine, PowerCut::DropAll).len(), B);
    let kept = disk_after(&machine, PowerCut::KeepAll);
    assert_eq!((kept.len(), byte(&kept, 2)), (3 * B, 1));
    let lens: BTreeSet<u64> = machine
        .outcomes(4)
        .unwrap()
        .map(|after| after.open("disk").unwrap().len())
        .collect();
    assert_eq!(lens, BTreeSet::from([B, 3 * B]));
    disk.flush().unwrap();
    assert_eq!(disk_after(&machine, PowerCut::DropAll).len(), 3 * B);
}

#[test]
fn a_block_behind_a_lost_length_is_zeros_when_the_file_grows_again() {
    let (machine, disk) = machine(1);
    disk.grow(2 * B).unwrap();
    write(&disk, 1, 1);
    let shorter = machine
        .outcomes(4)
        .unwrap()
        .map(|after| after.open("disk").unwrap())
        .filter(|disk| disk.len() == B);
    for disk in shorter {
        disk.grow(2 * B).unwrap();
        assert_eq!(byte(&disk, 1), 0);
    }
}

#[test]
fn a_power_cut_hits_all_disks_and_a_flush_one() {
    let machine = FaultMachine::new();
    let (data, log) = (machine.create("data", B), machine.create("log", B));
    write(&data, 0, 1);
    write(&log, 0, 1);
    log.flush().unwrap();
    let after = machine.power_cut(PowerCut::DropAll);
    let (data, log) = (after.open("data").unwrap(), after.open("log").unwrap());
    assert_eq!((byte(&data, 0), byte(&log, 0)), (0, 1));
    assert!(matches!(after.open("none"), Err(DeviceError::NotFound { .. })));
}

#[test]
fn operations_are_counted_and_traced() {
    let (machine, disk) = machine(4);
    write(&disk, 0, 1);
    machine.start_trace();
    let (a, b) = ([2; BLOCK], [3; 2 * BLOCK]);
    disk.write_vectored_at(B, &[IoSlice::new(&a), IoSlice::new(&b)])
        .unwrap();
    let (mut a, mut b) = ([0; 2 * BLOCK], [0; BLOCK]);
    let mut parts = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    disk.read_vectored_at(B, &mut parts).unwrap();
    assert_eq!((a[0], a[BLOCK], b[0]), (2, 3, 3));
    disk.flush().unwrap();
    disk.discard(0, B).unwrap();
    disk.write_at(4 * B, &[0; BLOCK]).unwrap_err();
    let operation = |kind, offset, len| Operation {
        kind,
        device: "disk".to_owned(),
        offset,
        len,
    };
    assert_eq!(
        machine.take_trace(),
        [
            operation(OpKind::Write, B, 3 * B),
            operation(OpKind::Read, B, 3 * B),
            operation(OpKind::Flush, 0, 0),
            operation(OpKind::Discard, 0, B),
        ]
    );
    let counters = machine.counters();
    assert_eq!((counters.writes, counters.write_bytes), (2, 4 * B));
    assert_eq!((counters.reads, counters.read_bytes), (1, 3 * B));
    assert_eq!(
        (counters.flushes, counters.discards, counters.discard_bytes),
        (1, 1, B)
    );
    assert_eq!((counters.mutating(), counters.all()), (4, 5));
}

#[test]
fn damage_is_durable_and_bad_sectors_last_until_they_are_written() {
    let (machine, disk) = machine(4);
    write(&disk, 0, 1);
    machine.damage("disk", 0, |block| block[9] ^= 0xFF);
    let after = disk_after(&machine, PowerCut::DropAll);
    assert_eq!(read(&after, 0)[8..10], [1, 0xFE]);

    let bad = ByteRange {
        offset: B + 512,
        len: B,
    };
    machine.make_unreadable("disk", bad);
    let fails = |disk: &FaultDevice| {
        let mut out = [0; BLOCK];
        [0, 1, 2, 3].map(|block| disk.read_at(block * B, &mut out).is_err())
    };
    assert_eq!(fails(&disk), [false, true, true, false]);
    write(&disk, 1, 5);
    assert_eq!(fails(&disk), [false, false, true, false]);
    assert_eq!(
        fails(&disk_after(&machine, PowerCut::KeepAll)),
        [false, false, true, false]
    );
}

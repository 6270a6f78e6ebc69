use env::MemoryDevice;
use env::block::fault::{FailWith, Fault, FaultMachine, PowerCut};

use super::*;

const EXTENTS: u32 = 1200;

fn volume(number: u32) -> VolumeId {
    VolumeId::new(number).expect("a small number")
}

fn superblock(table: &ExtentTable, extents: u32) -> Superblock {
    Superblock {
        counter: 0,
        pool: [0; 16],
        domain_key: [0; 32],
        extents,
        table: table.extents().to_vec(),
        next_volume: volume(1),
        index: String::new(),
    }
}

fn made() -> (MemoryDevice, ExtentTable) {
    let device = MemoryDevice::new(u64::from(EXTENTS) << 22);
    let table = ExtentTable::create(&device, [0; 16], EXTENTS).expect("there is room");
    (device, table)
}

fn assert_equal(a: &ExtentTable, b: &ExtentTable) {
    assert_eq!((&a.entries, a.free), (&b.entries, b.free));
}

#[test]
fn grants_are_durable_and_counted() {
    let (device, mut table) = made();
    let head = superblock(&table, EXTENTS);
    let all = table.free();
    let granted = table.grant(&device, volume(1), 700).expect("granted");
    assert_eq!((granted.len(), table.free()), (700, all - 700));
    assert_equal(&ExtentTable::load(&device, &head).expect("loaded"), &table);
    assert_eq!(table.granted(volume(1)).len(), 700);
    table.own(&device, volume(1), &granted[..300]).expect("owned");
    assert_eq!(
        (table.granted(volume(1)).len(), table.held(volume(1)).len()),
        (400, 700)
    );
    table.release(&device, &granted[..10]).expect("released");
    let rest = table.grant(&device, volume(2), 10_000).expect("granted");
    assert_eq!((rest.len() as u64, table.free()), (all - 690, 0));
    // A release of an older grant changes nothing.
    table.release(&device, &granted[..10]).expect("released");
    assert_eq!(table.free(), 0);
    assert_equal(&ExtentTable::load(&device, &head).expect("loaded"), &table);
    assert!(table.find_header().is_err(), "no extent is free");
}

/// Either copy may rot. The other one has the same, so an extent that has an owner is never free
/// again.
#[test]
fn a_rotten_page_takes_nothing_back() {
    let (device, mut table) = made();
    let head = superblock(&table, EXTENTS);
    table.grant(&device, volume(1), 3).expect("granted");
    for block in table.copies(0).expect("a page") {
        table.grant(&device, volume(1), 1).expect("granted");
        let mut bytes = [0; BLOCK_BYTES];
        let at = block.get() * env::BLOCK_BYTES;
        device.read_at(at, &mut bytes).expect("read");
        bytes[2048..].fill(0xee);
        device.write_at(at, &bytes).expect("written");
        let mut again = ExtentTable::load(&device, &head).expect("loaded");
        assert_equal(&again, &table);
        // The next change writes both copies, the rotten one first.
        again.grant(&device, volume(1), 1).expect("granted");
        device.read_at(at, &mut bytes).expect("read");
        assert!(frame::open_in([0; 16], BlockKind::Table, &bytes).is_ok());
        table = again;
    }
}

#[test]
fn a_rotten_superblock_leaves_the_same() {
    let (device, table) = made();
    let mut head = superblock(&table, EXTENTS);
    // The copy that was written last rots, and the other one.
    for block in [SUPERBLOCKS, [SUPERBLOCKS[1], SUPERBLOCKS[0]]].concat() {
        head.extents += 1;
        write_superblock(&device, &mut head).expect("written");
        device
            .write_at(block * env::BLOCK_BYTES, &[0xee; BLOCK_BYTES])
            .expect("written");
        let found = read_superblock(&device).expect("the other copy");
        assert_eq!(found.extents, head.extents);
    }
}

#[test]
fn both_copies_damaged_is_an_error_that_names_the_block() {
    let (device, table) = made();
    let head = superblock(&table, EXTENTS);
    let copies = table.copies(1).expect("a page");
    for block in copies {
        device
            .write_at(block.get() * env::BLOCK_BYTES, &[0x11; BLOCK_BYTES])
            .expect("written");
    }
    match ExtentTable::load(&device, &head) {
        Err(VolumeError::Damaged { block, .. }) => assert_eq!(block, copies[0]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_longer_table_has_the_old_entries_and_new_free_ones() {
    let (device, mut table) = made();
    table.grant(&device, volume(1), 700).expect("granted");
    let free = table.free();
    device.grow(u64::from(EXTENTS + 900) << 22).expect("grown");
    table.extend(&device, EXTENTS + 900).expect("extended");
    assert_eq!((table.len(), table.free()), (EXTENTS as usize, free));
    table.end_growth();
    assert_eq!(table.free(), free + 900);
    let head = superblock(&table, EXTENTS + 900);
    assert_equal(&ExtentTable::load(&device, &head).expect("loaded"), &table);
    // Before the superblock says so, the old length holds.
    let old = superblock(&table, EXTENTS);
    let loaded = ExtentTable::load(&device, &old).expect("loaded");
    assert_eq!((loaded.len(), loaded.free()), (EXTENTS as usize, free));
}

#[test]
fn a_change_that_fails_is_undone_and_a_power_cut_loses_no_other() {
    for failing in 1..=3 {
        for later in 1..=6 {
            let machine = FaultMachine::new();
            let device = machine.create("disk", u64::from(EXTENTS) << 22);
            let mut table = ExtentTable::create(&device, [0; 16], EXTENTS).expect("there is room");
            let head = superblock(&table, EXTENTS);
            let granted = table.grant(&device, volume(1), 900).expect("granted");
            let free = table.free();
            // Two pages and a flush.
            machine.inject(Fault::fail(failing, FailWith::Io));
            table.release(&device, &granted).expect_err("the device fails");
            assert_eq!((table.free(), table.held(volume(1)).len()), (free, 900));
            machine.inject(Fault::stop(later));
            table
                .grant(&device, volume(2), 300)
                .expect_err("the machine ends");
            for cut in [PowerCut::TearAll, PowerCut::DropAll, PowerCut::KeepAll] {
                let after = machine.power_cut(cut).open("disk").expect("opened");
                let loaded = ExtentTable::load(&after, &head).expect("a copy of each page is whole");
                let held = loaded.held(volume(1)).len();
                assert!(held == 900 || cut == PowerCut::KeepAll, "{held} after {cut:?}");
            }
        }
    }
}

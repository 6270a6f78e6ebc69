//! Speed factors of streams with a known layout.

use recipe::{Child, ChunkRef, LayoutMeter, Place, StreamLayout};
use types::{ByteLen, ContainerKind};

use crate::store::{Store, at, level, printer};

const MIB: u64 = 1 << 20;

/// Measures references (container, slot) of 1 MiB each; containers have 4.
fn measure(places: &[(u32, u32)], assembly_mib: u64) -> StreamLayout {
    let mut meter = LayoutMeter::new(ByteLen::new(assembly_mib * MIB));
    for (n, &(container, slot)) in (0u64..).zip(places) {
        meter.push(&ChunkRef {
            place: Place::At(at(ContainerKind::Data, container, slot)),
            fingerprint: printer().chunk(b""),
            offset: n * MIB,
            len: MIB,
            skip: 0,
            chunk_len: MIB,
        });
    }
    meter
        .finish(|_| Ok::<_, std::convert::Infallible>(4 * MIB))
        .unwrap()
}

#[test]
fn a_stream_in_written_order_is_perfect() {
    let layout = measure(
        &[(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)],
        4,
    );
    assert_eq!(
        (
            layout.containers,
            layout.container_reads,
            layout.runs,
            layout.chunks
        ),
        (2, 2, 2, 8)
    );
    assert!((layout.speed_factor() - 4.0).abs() < 1e-9);
    assert!((layout.used_share() - 1.0).abs() < 1e-9);
}

#[test]
fn taking_turns_costs_a_read_an_assembly_area() {
    let turns: Vec<(u32, u32)> = (0..8).map(|n| (n % 2, n / 2)).collect();
    let large = measure(&turns, 8);
    assert_eq!((large.container_reads, large.runs), (2, 8));
    let small = measure(&turns, 2);
    assert_eq!((small.containers, small.container_reads), (2, 8));
    assert!((small.used_share() - 0.25).abs() < 1e-9);
    // If the area holds two chunks of each container, each is read twice.
    assert_eq!(measure(&turns, 4).container_reads, 4);
}

#[test]
fn repeats_within_the_area_are_free_and_beyond_it_are_not() {
    let near = measure(&[(0, 0), (0, 0), (0, 0), (0, 0), (0, 0)], 8);
    assert_eq!(near.container_reads, 1);
    assert!(near.used_share() > 1.0);
    let far = measure(&[(0, 0), (1, 0), (2, 0), (0, 0)], 2);
    assert_eq!((far.containers, far.container_reads), (3, 4));
}

#[test]
fn a_whole_stream_is_measured_from_its_recipe() {
    let store = Store::new(100);
    let chunks = (0..400u32).map(|n| {
        let fingerprint = printer().chunk(&n.to_le_bytes());
        let place = store.put_entry(ContainerKind::Data, fingerprint, level(0), 1000);
        (1000, Some(Child::chunk(fingerprint, 1000, place)))
    });
    let mut children: Vec<_> = chunks.collect();
    children.insert(250, (5000, None));
    let root = store.build(&children, 8, &mut store.sink());
    let layout = StreamLayout::measure(&store, &root, ByteLen::new(200_000)).unwrap();
    assert_eq!((layout.bytes, layout.zero_bytes), (405_000, 5000));
    assert_eq!(
        (layout.containers, layout.container_reads, layout.runs),
        (4, 4, 4)
    );
    assert!((layout.used_share() - 1.0).abs() < 1e-9);
    let nothing = store.build(&[(7000, None)], 8, &mut store.sink());
    let layout = StreamLayout::measure(&store, &nothing, ByteLen::new(1000)).unwrap();
    assert!(layout.speed_factor().is_infinite() && (layout.used_share() - 1.0).abs() < 1e-9);
}

//! The check before writing and the decoder both refuse values that break a rule.

use format::listing::{Content, EntryKind, EntryState, ListingEntry};
use format::manifest::{Backup, Manifest};
use format::node::{Node, NodeEntry};
use format::reclaim::{Condemned, ContainerRun, ContainerSlots, Removed};
use types::{ContainerId, ContainerKind, Level, SlotRange};

use crate::samples::{self, id, slot};

fn node(level: u8, entries: Vec<NodeEntry>) -> Node {
    let logical_len = entries
        .iter()
        .map(NodeEntry::logical_len)
        .fold(0, u64::wrapping_add);
    Node {
        level: Level::new(level).unwrap(),
        logical_len,
        containers_max: 0,
        entries,
    }
}

fn run(kind: ContainerKind, first: u32, count: u32) -> NodeEntry {
    NodeEntry::Run {
        container: id(kind, 1, 1),
        first: slot(first),
        count,
        logical_len: u64::from(count) * 10,
    }
}

#[test]
fn nodes_are_canonical() {
    use ContainerKind::{Catalog, Data, Recipe, Small};
    let zeros = |len| NodeEntry::Zeros { len };
    for (why, bad) in [
        ("level 0", node(0, vec![run(Data, 0, 1)])),
        ("empty above level 1", node(2, vec![])),
        ("adjacent zeros", node(1, vec![zeros(1), zeros(2)])),
        ("no zeros", node(1, vec![zeros(0)])),
        ("zeros above level 1", node(2, vec![zeros(1)])),
        ("continued run", node(1, vec![run(Data, 0, 2), run(Data, 2, 1)])),
        ("empty run", node(1, vec![run(Data, 0, 0)])),
        ("past the last slot", node(1, vec![run(Data, 0xf_ffff, 2)])),
        ("nodes at level 1", node(1, vec![run(Recipe, 0, 1)])),
        ("chunks at level 2", node(2, vec![run(Data, 0, 1)])),
        ("catalogs", node(1, vec![run(Catalog, 0, 1)])),
        ("more children than allowed", node(1, vec![run(Data, 0, 65537)])),
        ("overflow", node(1, vec![zeros(u64::MAX), run(Data, 0, 1)])),
        (
            "wrong sum",
            Node {
                logical_len: 1,
                ..node(1, vec![run(Data, 0, 1)])
            },
        ),
    ] {
        assert!(bad.check().is_err(), "{why}");
    }
    node(
        1,
        vec![run(Small, 0, 2), zeros(1), run(Small, 2, 1), run(Small, 4, 1)],
    )
    .check()
    .unwrap();
    node(8, vec![run(Small, 0, 2), run(Recipe, 2, 1)])
        .check()
        .unwrap();
}

#[test]
fn adjacent_runs_are_refused_on_the_way_in_too() {
    // Level 1, one container, two entries: slots 0..2 and 3..4 of data container 1/1.
    let good = node(
        1,
        vec![run(ContainerKind::Data, 0, 2), run(ContainerKind::Data, 3, 1)],
    )
    .to_bytes();
    Node::decode(&good).unwrap();
    let mut bad = good.clone();
    let second_first_slot = good.len() - 3;
    assert_eq!(bad[second_first_slot], 3);
    bad[second_first_slot] = 2;
    assert!(Node::decode(&bad).is_err());
}

#[test]
fn catalogs_hold_each_slot_once() {
    let mut catalog = samples::catalog_of_chunks();
    catalog.entries[4].slot = catalog.entries[0].slot;
    assert!(catalog.check().is_err());

    let mut catalog = samples::catalog_of_chunks();
    catalog.entries[0].logical_len += 1;
    assert!(catalog.check().is_err(), "a chunk's logical length is its length");
}

#[test]
fn catalogs_agree_with_their_rows() {
    use format::container::{Codec, RegionRow};
    let row = |first_entry, entry_count| RegionRow {
        offset: 0,
        stored_len: 100,
        first_entry,
        entry_count,
        codec: Codec::Raw,
        digest: 0,
    };
    let catalog = samples::catalog_of_chunks();
    catalog.check_rows(&[row(0, 2), row(2, 3)]).unwrap();
    assert!(catalog.check_rows(&[row(0, 2), row(2, 2)]).is_err());
    assert!(catalog.check_rows(&[row(0, 2), row(2, 4)]).is_err());
    let mut huge = catalog;
    huge.entries[0].len = 17 << 20;
    huge.entries[0].logical_len = 17 << 20;
    assert!(huge.check_rows(&[row(0, 2), row(2, 3)]).is_err());
    huge.check_rows(&[row(0, 1), row(1, 4)]).unwrap();
}

#[test]
fn trailers_whose_parts_do_not_fit_are_refused_though_their_digest_holds() {
    use format::container::{ContainerFooter, ContainerTail, RegionRow, TailParse, encode_trailer};
    let whole = samples::container();
    let len = whole.len() as u64;
    let TailParse::Whole(good) = ContainerTail::parse(&whole, len).unwrap() else {
        panic!("all bytes are there")
    };
    let rebuilt = |rows: &[RegionRow], footer: ContainerFooter| {
        let mut object = whole[..good.footer.rows_offset as usize].to_vec();
        let rows = encode_trailer(None, rows);
        object.extend_from_slice(&rows);
        object.extend_from_slice(&footer.encode(&good.header, &rows));
        ContainerTail::parse(&object, object.len() as u64).map(|_| ())
    };
    rebuilt(&good.rows, good.footer).unwrap();

    type Change<T> = fn(&mut T);
    let rows: [(&str, Change<Vec<RegionRow>>); 7] = [
        ("gap", |r| r[1].offset += 1),
        ("overlap", |r| r[1].offset -= 1),
        ("before the header's end", |r| r[0].offset -= 1),
        ("does not reach the catalog", |r| r[1].stored_len -= 1),
        ("entries skipped", |r| r[1].first_entry += 1),
        ("no entries", |r| {
            r[0].entry_count = 0;
            r[1].first_entry = 0;
            r[1].entry_count = 4;
        }),
        ("entries do not add up", |r| r[1].entry_count += 1),
    ];
    for (why, change) in rows {
        let mut rows = good.rows.clone();
        change(&mut rows);
        assert!(rebuilt(&rows, good.footer).is_err(), "{why}");
    }
    // 61 and 16 stored bytes instead of 60 and 17: the second region is shorter than a tag and a
    // byte.
    let mut rows = good.rows.clone();
    rows[0].stored_len += 1;
    rows[1].offset += 1;
    rows[1].stored_len -= 1;
    assert!(
        rebuilt(&rows, good.footer).is_err(),
        "shorter than a tag and a byte"
    );

    let footers: [(&str, Change<ContainerFooter>); 9] = [
        ("trimmed, without a body", |f| f.is_trimmed = true),
        ("catalog within the header", |f| f.catalog_offset = 0),
        ("catalog past the end", |f| f.catalog_offset = u64::MAX),
        ("catalog too long", |f| f.catalog_stored_len = u32::MAX),
        ("catalog moved", |f| f.catalog_offset += 1),
        ("rows moved", |f| f.rows_offset += 1),
        ("rows missing", |f| f.region_count = 1),
        ("more entries than slots", |f| f.entry_count = 1 << 21),
        ("fewer entries than regions", |f| f.entry_count = 1),
    ];
    for (why, change) in footers {
        let mut footer = good.footer;
        change(&mut footer);
        assert!(rebuilt(&good.rows, footer).is_err(), "{why}");
    }
}

#[test]
fn trimmed_generations_whose_parts_do_not_fit_are_refused() {
    use format::container::{Body, ContainerFooter, ContainerTail, RegionRow, TailParse, encode_trailer};
    let whole = samples::trimmed_container();
    let TailParse::Whole(good) = ContainerTail::parse(&whole, whole.len() as u64).unwrap() else {
        panic!("all bytes are there")
    };
    let rebuilt = |body: Body, rows: &[RegionRow], footer: ContainerFooter| {
        let catalog_end = footer.catalog_offset + u64::from(footer.catalog_stored_len);
        let mut object = whole[..catalog_end as usize].to_vec();
        let trailer = encode_trailer(Some(&body), rows);
        object.extend_from_slice(&trailer);
        object.extend_from_slice(&footer.encode(&good.header, &trailer));
        ContainerTail::parse(&object, object.len() as u64).map(|_| ())
    };
    let (body, rows, footer) = (good.body.unwrap(), good.rows.clone(), good.footer);
    rebuilt(body, &rows, footer).unwrap();

    let own = Body {
        generation: good.header.generation,
        ..body
    };
    assert!(rebuilt(own, &rows, footer).is_err(), "its own body");
    let short = Body {
        len: rows[1].offset + u64::from(rows[1].stored_len) - 1,
        ..body
    };
    assert!(
        rebuilt(short, &rows, footer).is_err(),
        "regions past the body's end"
    );
    let mut none = rows.clone();
    none[0].entry_count = 0;
    none[1].first_entry = 0;
    let empty = ContainerFooter {
        entry_count: 0,
        ..footer
    };
    assert!(rebuilt(body, &none, empty).is_err(), "no region left");
    let untrimmed = ContainerFooter {
        is_trimmed: false,
        ..footer
    };
    assert!(
        rebuilt(body, &rows, untrimmed).is_err(),
        "a body of a generation that has its own regions"
    );
    let recipe = format::container::ContainerHeader {
        id: id(ContainerKind::Recipe, 42, 1),
        ..good.header
    };
    let trailer = encode_trailer(Some(&body), &rows);
    let mut object = whole[..whole.len() - trailer.len() - format::container::FOOTER_BYTES].to_vec();
    object.extend_from_slice(&trailer);
    object.extend_from_slice(&footer.encode(&recipe, &trailer));
    assert!(
        ContainerTail::parse(&object, object.len() as u64).is_err(),
        "of a kind that is mirrored"
    );
    let moved = ContainerFooter {
        catalog_offset: footer.catalog_offset + 1,
        ..footer
    };
    assert!(rebuilt(body, &rows, moved).is_err(), "bytes before the catalog");
}

#[test]
fn listed_paths_cannot_climb() {
    let entry = |path: &[u8], kind| ListingEntry {
        path: path.to_vec(),
        kind,
        ..samples::entries().remove(0)
    };
    for path in [
        "", "a", "/a/", "//", "/a//b", "/..", "/./a", "/a/../b", "/a/.", "/a\0b",
    ] {
        assert!(
            entry(path.as_bytes(), EntryKind::Folder).check().is_err(),
            "{path:?}"
        );
        let link = EntryKind::HardLink {
            target: path.as_bytes().to_vec(),
        };
        assert!(entry(b"/link", link).check().is_err(), "{path:?}");
    }
    for path in ["/", "/a", "/...", "/a/..b", "/a/.b/..c", "/a./b..", "/.a/b"] {
        entry(path.as_bytes(), EntryKind::Folder).check().unwrap();
    }
    assert!(
        entry(&[b"/".as_slice(), &[b'x'; 65536]].concat(), EntryKind::Folder)
            .check()
            .is_err()
    );
}

#[test]
fn holes_lie_in_their_file_in_order() {
    let file = |len, holes| ListingEntry {
        kind: EntryKind::File { len, holes },
        ..samples::entries().remove(0)
    };
    file(10, vec![(0, 5), (6, 4)]).check().unwrap();
    for (why, holes) in [
        ("past the end", vec![(6, 5)]),
        ("empty", vec![(1, 0)]),
        ("not merged", vec![(0, 5), (5, 1)]),
        ("not sorted", vec![(6, 1), (0, 1)]),
        ("overflow", vec![(u64::MAX, 2)]),
    ] {
        assert!(file(10, holes).check().is_err(), "{why}");
    }
}

#[test]
fn an_entry_has_only_states_that_its_kind_allows() {
    let is_possible = |kind: &EntryKind, content| {
        let entry = ListingEntry {
            kind: kind.clone(),
            state: EntryState {
                content,
                lacks_attributes: true,
            },
            ..samples::entries().remove(0)
        };
        entry.check().is_ok()
    };
    let file = EntryKind::File {
        len: 5,
        holes: Vec::new(),
    };
    let target = b"/a".to_vec();
    let (link, other) = (EntryKind::HardLink { target }, EntryKind::Fifo);
    let (lead, partial) = (Content::Older { lead: 3 }, Content::Partial { of: 9 });
    for (content, of_file, of_link, of_folder, of_other) in [
        (Content::Whole, true, true, true, true),
        (Content::Changed, true, true, false, false),
        (Content::Older { lead: 0 }, true, true, true, true),
        (lead, true, false, false, false),
        (partial, true, true, false, false),
        (Content::Partial { of: 0 }, true, true, true, false),
    ] {
        let found = [&file, &link, &EntryKind::Folder, &other].map(|kind| is_possible(kind, content));
        assert_eq!(found, [of_file, of_link, of_folder, of_other], "{content:?}");
    }
}

#[test]
fn a_record_longer_than_allowed_is_an_error_at_once() {
    // The length announces 16 MiB and one byte, but nothing follows.
    assert!(ListingEntry::decode_one(&[0x81, 0x80, 0x80, 0x08]).is_err());
    assert_eq!(ListingEntry::decode_one(&[0x80, 0x80, 0x80, 0x08]).unwrap(), None);
    assert_eq!(ListingEntry::decode_one(&[0x80, 0x80]).unwrap(), None);
    assert_eq!(ListingEntry::decode_one(&[]).unwrap(), None);
    assert!(ListingEntry::decode_one(&[0]).is_err(), "no record is empty");
}

#[test]
fn an_entry_with_too_much_metadata_is_refused_before_it_is_written() {
    let value = vec![0; 4 << 20];
    let xattrs = (0..4u8).map(|n| (vec![b'a' + n], value.clone())).collect();
    let entry = ListingEntry {
        xattrs,
        ..samples::entries().remove(0)
    };
    assert!(entry.check().is_err());
}

#[test]
fn lists_of_slots_are_sorted_and_merged() {
    let range = |first, count| SlotRange::new(slot(first), count).unwrap();
    let list = |slots| Condemned {
        slots,
        ..samples::condemned()
    };
    let of = |n, slots| ContainerSlots {
        container: id(ContainerKind::Data, 1, n),
        slots,
    };
    list(vec![of(1, None), of(2, Some(vec![range(0, 1), range(2, 1)]))])
        .check()
        .unwrap();
    for (why, slots) in [
        ("not sorted", vec![of(2, None), of(1, None)]),
        ("twice", vec![of(1, None), of(1, None)]),
        ("no slots", vec![of(1, Some(vec![]))]),
        ("adjacent", vec![of(1, Some(vec![range(0, 1), range(1, 1)]))]),
        ("overlapping", vec![of(1, Some(vec![range(0, 3), range(2, 3)]))]),
    ] {
        assert!(list(slots).check().is_err(), "{why}");
    }
}

#[test]
fn manifests_are_sorted_where_they_say_so() {
    let commit = |backup| Manifest::Commit(backup);
    let mut tags = samples::backup().tags;
    tags.reverse();
    assert!(
        commit(Backup {
            tags,
            ..samples::backup()
        })
        .check()
        .is_err()
    );
    let mut backup = samples::backup();
    backup.series.check().unwrap();
    assert_eq!(backup.series.to_bytes(), b"\x06laptop\x02\x04/etc\x07/home/\xff");
    backup.series.paths.reverse();
    assert!(backup.series.check().is_err());
    assert!(commit(backup).check().is_err());
    let mut backup = samples::backup();
    backup.containers[0].count = 0;
    assert!(commit(backup).check().is_err());
    let mut backup = samples::backup();
    backup.streams[0].location.container.kind = ContainerKind::Data;
    assert!(commit(backup).check().is_err());
}

#[test]
#[should_panic(expected = "could not be read back")]
fn encoding_refuses_a_node_that_could_not_be_read_back() {
    node(1, vec![NodeEntry::Zeros { len: 0 }]).encode(&mut Vec::new());
}

#[test]
fn runs_of_containers_are_sorted_merged_and_of_one_folder() {
    let run = |kind, n, count| ContainerRun {
        first: id(kind, 1, n),
        count,
    };
    let list = |gone| Removed {
        gone,
        ..samples::removed()
    };
    let data = ContainerKind::Data;
    list(vec![run(data, 1, 2), run(data, 4, 1)]).check().unwrap();
    for (why, gone) in [
        ("empty", vec![run(data, 1, 0)]),
        ("not sorted", vec![run(data, 4, 1), run(data, 1, 1)]),
        ("not merged", vec![run(data, 1, 2), run(data, 3, 1)]),
        ("overlapping", vec![run(data, 1, 2), run(data, 2, 1)]),
        ("two kinds", vec![run(data, 0xff_ffff, 2)]),
    ] {
        assert!(list(gone).check().is_err(), "{why}");
    }
    let ids = [5, 1, 2, 3, 2].map(|n| id(data, 1, n));
    assert_eq!(ContainerRun::collect(ids), [run(data, 1, 3), run(data, 5, 1)]);
    let last = id(data, 1, 0xff_ffff);
    let next = ContainerId::from_u64(last.to_u64() + 1).unwrap();
    assert_eq!(ContainerRun::collect([last, next]).len(), 2);
}

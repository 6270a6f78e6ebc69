//! `docs/format.md` agrees with the code: constants, offsets, numbers, names, golden files.
//! `pool::docs` does the same for `docs/format-pool.md`.

use std::collections::BTreeMap;
use std::path::Path;

use format::frame::ObjectKind;
use format::{config, container, frame, listing, manifest, names, node, series};
use types::{ContainerKind, Level, SequenceNumber, SessionId, Slot};

use crate::samples;

fn page() -> String {
    page_named("format.md")
}

/// The page about pools.
pub(crate) fn pool_page() -> String {
    page_named("format-pool.md")
}

fn page_named(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(path.join(name)).unwrap()
}

/// The tables as (heading above, cells of the header row, cells of each row).
fn tables(page: &str) -> Vec<(String, Vec<String>, Vec<Vec<String>>)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    let mut out: Vec<(String, Vec<String>, Vec<Vec<String>>)> = Vec::new();
    let (mut heading, mut within) = (String::new(), false);
    for line in page.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
        }
        match (line.starts_with('|'), within) {
            (true, false) => out.push((heading.clone(), cells(line), Vec::new())),
            (true, true) if !line.starts_with("|---") => out.last_mut().unwrap().2.push(cells(line)),
            _ => {}
        }
        within = line.starts_with('|');
    }
    out
}

fn table(first: &str) -> Vec<Vec<String>> {
    table_of(&page(), first)
}

/// The rows of the table whose first column has this name.
pub(crate) fn table_of(page: &str, first: &str) -> Vec<Vec<String>> {
    let found = tables(page).into_iter().find(|(_, header, _)| header[0] == first);
    found.unwrap_or_else(|| panic!("no table of {first}")).2
}

#[test]
fn limits_are_those_of_the_code() {
    let expected: BTreeMap<&str, u64> = BTreeMap::from([
        ("SESSION_DIGITS", names::SESSION_DIGITS as u64),
        ("SEQUENCE_DIGITS", names::SEQUENCE_DIGITS as u64),
        ("EPOCH_DIGITS", names::EPOCH_DIGITS as u64),
        ("OBJECT_NAME_BYTES_MAX", types::OBJECT_NAME_BYTES_MAX as u64),
        ("SESSION_MAX", SessionId::MAX.get()),
        ("SEQUENCE_MAX", SequenceNumber::MAX.get().into()),
        ("SLOT_MAX", Slot::MAX.get().into()),
        ("LEVEL_MAX", Level::MAX.get().into()),
        ("CATALOG_ENTRIES_MAX", container::CATALOG_ENTRIES_MAX.into()),
        ("REGION_PLAIN_BYTES_MAX", container::REGION_PLAIN_BYTES_MAX.into()),
        (
            "REGION_STORED_BYTES_MAX",
            container::REGION_STORED_BYTES_MAX.into(),
        ),
        (
            "CATALOG_STORED_BYTES_MAX",
            container::CATALOG_STORED_BYTES_MAX.into(),
        ),
        ("NODE_CHILDREN_MAX", node::NODE_CHILDREN_MAX.into()),
        ("NODE_BYTES_MAX", node::NODE_BYTES_MAX as u64),
        ("KEY_SLOTS_MAX", config::KEY_SLOTS_MAX as u64),
        ("LABEL_BYTES_MAX", config::LABEL_BYTES_MAX as u64),
        (
            "SEALED_SETTINGS_BYTES_MAX",
            config::SEALED_SETTINGS_BYTES_MAX as u64,
        ),
        ("KDF_MEMORY_KIB_MAX", config::KDF_MEMORY_KIB_MAX.into()),
        ("KDF_PASSES_MAX", config::KDF_PASSES_MAX.into()),
        ("KDF_LANES_MAX", config::KDF_LANES_MAX.into()),
        ("CHUNK_BYTES_MAX", config::CHUNK_BYTES_MAX.into()),
        ("REGION_BYTES_MAX", config::REGION_BYTES_MAX.into()),
        ("CONTAINER_BYTES_MAX", config::CONTAINER_BYTES_MAX.into()),
        ("NODE_AVG_CHILDREN_MAX", config::NODE_AVG_CHILDREN_MAX.into()),
        ("NAME_BYTES_MAX", manifest::NAME_BYTES_MAX as u64),
        ("PATH_BYTES_MAX", manifest::PATH_BYTES_MAX as u64),
        ("TEXT_BYTES_MAX", manifest::TEXT_BYTES_MAX as u64),
        ("STREAMS_MAX", manifest::STREAMS_MAX as u64),
        ("SEGMENT_BYTES_MIN", series::SEGMENT_BYTES_MIN.into()),
        ("SEGMENT_BYTES_MAX", series::SEGMENT_BYTES_MAX.into()),
        ("RECORD_BYTES_MAX", listing::RECORD_BYTES_MAX as u64),
        ("XATTR_NAME_BYTES_MAX", listing::XATTR_NAME_BYTES_MAX as u64),
        ("FENCE_LEVEL_MAX", listing::FENCE_LEVEL_MAX.into()),
        ("FENCES_TRAILER_BYTES", listing::FENCES_TRAILER_BYTES as u64),
        ("HOLES_MAX", listing::HOLES_MAX as u64),
        ("XATTR_VALUE_BYTES_MAX", listing::XATTR_VALUE_BYTES_MAX as u64),
    ]);
    let rows = table("constant");
    let said: BTreeMap<&str, u64> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].parse().unwrap()))
        .collect();
    assert_eq!(said, expected);
}

#[test]
fn fields_of_fixed_size_add_up() {
    let config_header = samples::config().aad();
    // The list of key slots begins with their count.
    let config_header_bytes = 44;
    assert_eq!(config_header[config_header_bytes], 2);
    let expected = BTreeMap::from([
        ("Config header", config_header_bytes),
        ("Settings", samples::settings().to_bytes().len()),
        ("Frame header", frame::FRAME_HEADER_BYTES),
        ("Container header", container::HEADER_BYTES),
        ("Region row", container::REGION_ROW_BYTES),
        ("Body record", container::BODY_BYTES),
        ("Container footer", container::FOOTER_BYTES),
    ]);
    let expected = expected.into_iter().map(|(part, len)| (part.to_owned(), len));
    assert_eq!(fixed_parts(&page()), expected.collect());
}

/// The parts with offsets, and the length of each. The offsets must follow from the sizes.
pub(crate) fn fixed_parts(page: &str) -> BTreeMap<String, usize> {
    let mut said = BTreeMap::new();
    let all = tables(page);
    for (heading, _, rows) in all.into_iter().filter(|(_, header, _)| header[0] == "offset") {
        let mut end = 0;
        for row in rows {
            assert_eq!(row[0].parse::<usize>().unwrap(), end, "{heading}: {}", row[2]);
            end += row[1].parse::<usize>().unwrap();
        }
        said.insert(heading, end);
    }
    said
}

#[test]
fn magic_bytes_and_purposes_are_named() {
    let page = page();
    for magic in [
        config::CONFIG_MAGIC,
        frame::FRAME_MAGIC,
        container::CONTAINER_MAGIC,
        container::FOOTER_MAGIC,
    ] {
        let row = format!("| 8 | magic, `{}` |", str::from_utf8(&magic).unwrap());
        assert!(page.contains(&row), "{row}");
    }
    for purpose in [frame::SEAL_PURPOSE, config::SETTINGS_SEAL_PURPOSE] {
        assert!(
            page.contains(&format!("purpose `{purpose}`")) || page.contains(&format!("purpose\n`{purpose}`")),
            "{purpose}"
        );
    }
}

#[test]
fn kinds_have_the_numbers_of_the_code() {
    let rows = table("object kind");
    assert_eq!(rows.len(), ObjectKind::ALL.len());
    for (row, kind) in rows.iter().zip(ObjectKind::ALL) {
        assert_eq!(
            (row[0].clone(), row[1].clone()),
            (format!("{kind:?}"), kind.number().to_string())
        );
        assert_eq!(ObjectKind::from_number(kind.number()), Some(kind));
    }
    let rows = table("container kind");
    assert_eq!(rows.len(), ContainerKind::ALL.len());
    for (row, kind) in rows.iter().zip(ContainerKind::ALL) {
        assert_eq!(
            (row[0].as_str(), row[1].clone()),
            (kind.folder(), kind.number().to_string())
        );
        assert_eq!(row[2].ends_with("mirrored"), kind.is_mirrored());
    }
}

/// Whether a name matches a pattern, in which each `<...>` stands for a part without `/`.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('<') else {
        return pattern == name;
    };
    let (_, after) = rest.split_once('>').unwrap();
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    let end = after.find('<').unwrap_or(after.len());
    let literal = &after[..end];
    (1..=rest.len())
        .any(|n| !rest[..n].contains('/') && rest[n..].starts_with(literal) && fits(after, &rest[n..]))
}

#[test]
fn every_name_is_in_the_table() {
    let rows = table("name");
    let names = samples::names();
    for name in names.lines() {
        assert!(
            rows.iter().any(|row| fits(&row[0], name)),
            "{name} is not described"
        );
    }
    for row in rows {
        assert!(
            names.lines().any(|name| fits(&row[0], name)),
            "{} has no sample",
            row[0]
        );
    }
}

#[test]
fn every_golden_vector_is_named() {
    let page = page() + &pool_page();
    for (name, _) in samples::all() {
        assert!(page.contains(&format!("`{name}.hex`")), "{name}");
    }
    let known: Vec<_> = samples::all()
        .iter()
        .map(|(name, _)| format!("{name}.hex"))
        .collect();
    for mention in page.split('`').filter(|word| word.ends_with(".hex")) {
        assert!(
            known.iter().any(|name| name == mention),
            "{mention} does not exist"
        );
    }
}

#[test]
fn every_decoder_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let mut targets: Vec<_> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"))
        .collect();
    let mut probes: Vec<_> = format::probe::ALL
        .iter()
        .map(|(name, _)| format!("{name}.rs\""))
        .collect();
    // The crates `index`, `wire` and `nbd` have these, for runs, messages and requests.
    let elsewhere = ["index_part", "message", "nbd"];
    probes.extend(elsewhere.map(|name| format!("{name}.rs\"")));
    targets.sort_unstable();
    probes.sort_unstable();
    assert_eq!(targets, probes);
}

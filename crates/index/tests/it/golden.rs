//! The golden vectors of a run and of an image: the bytes of a layout version stay the same for
//! ever, for writing and reading.
//!
//! `ONEFOLD_BLESS=1 cargo test -p onefold-index golden` writes them. A change to a vector of a
//! released version breaks the layout, and needs a new version instead. The file has lines of
//! offset and bytes, without lines of zeros, and ends with the length.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use env::Storage;
use env::fault::FaultStorage;
use format::names;
use index::{Hook, HookKind, IndexOptions, conformance};
use types::ContainerKind;

use crate::store::*;

const LINE_BYTES: usize = 32;

fn file(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/golden-index/{of}.hex"))
}

/// Both kinds, two containers, bits that occur twice, an anchor of each container.
fn hooks() -> Vec<Hook> {
    let node = |bits, container| conformance::hook(HookKind::Node, bits, container);
    let recipe = id(ContainerKind::Recipe, 3, 1);
    let mut hooks: Vec<_> = (0..5).map(|n| hook(bits(n), data(3, 0))).collect();
    hooks.extend([
        hook(bits(2), data(3, 2)),
        node(bits(7), recipe),
        node(bits(8), recipe),
    ]);
    conformance::with_anchors(hooks)
}

fn to_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (n, line) in bytes.chunks(LINE_BYTES).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{:06x} {hex}", n * LINE_BYTES).unwrap();
        }
    }
    writeln!(text, "{:06x}", bytes.len()).unwrap();
    text
}

fn from_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let (offset, hex) = line.split_once(' ').unwrap_or((line, ""));
        bytes.resize(usize::from_str_radix(offset, 16).unwrap(), 0);
        bytes.extend(
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()),
        );
    }
    bytes
}

/// Returns the golden bytes, after comparing them with the written ones.
fn compare_or_bless(of: &str, bytes: &[u8]) -> Vec<u8> {
    let text = to_text(bytes);
    if std::env::var_os("ONEFOLD_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(file(of).parent().unwrap()).unwrap();
        fs::write(file(of), &text).unwrap();
    }
    let golden = fs::read_to_string(file(of)).unwrap();
    let moved = golden.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert!(golden == text, "a byte moved: {moved:?}");
    from_text(&golden)
}

#[test]
fn no_byte_of_a_golden_run_moves_and_it_is_read() {
    let storage = FaultStorage::new();
    open(&storage, IndexOptions::default())
        .add_session(session(3), hooks())
        .unwrap();
    let names = runs(&storage);
    let [name] = names.as_slice() else {
        panic!("not one object: {names:?}");
    };
    let golden = compare_or_bless("run", &storage.get(name).unwrap());

    let storage = FaultStorage::new();
    storage.put(name, &[&golden]).unwrap();
    let index = open(&storage, IndexOptions::default());
    let mut model = Model::default();
    model.add(&hooks());
    model.check(&index);
    assert!(index.covers(session(3)));
    assert!(index.take_warnings().is_empty());
}

#[test]
fn no_byte_of_a_golden_list_of_unread_catalogs_moves_and_it_is_read() {
    let bed = crate::unindexed::Bed::new();
    bed.catch_up(IndexOptions::default());
    let name = names::index_unread(0);
    let golden = compare_or_bless("unread", &bed.storage.get(&name).unwrap());
    assert!(bed.storage.lose(&name));
    bed.storage.put(&name, &[&golden]).unwrap();
    bed.session_comes(2);
    assert_eq!(bed.catch_up(IndexOptions::default()), (1, vec![]));
}

#[test]
fn no_byte_of_a_golden_image_moves_and_it_is_read() {
    let options = IndexOptions {
        memory_bytes_max: Some(index::MEMORY_BYTES_MIN),
        ..IndexOptions::default()
    };
    let storage = FaultStorage::new();
    let index = open(&storage, options);
    index.add_session(session(3), hooks()).unwrap();
    assert!(index.checkpoint().unwrap());
    let names: Vec<_> = runs(&storage);
    let image = names.iter().find(|name| names::parse_index_image(name).is_some());
    let image = image.unwrap();
    let golden = compare_or_bless("image", &storage.get(image).unwrap());

    // The image alone answers: there is no run.
    let storage = FaultStorage::new();
    storage.put(image, &[&golden]).unwrap();
    let index = open(&storage, options);
    let mut model = Model::default();
    model.add(&hooks());
    model.check(&index);
    assert!(index.take_warnings().is_empty());
}

//! The document says for each step of the model which functions it stands for, and there are such
//! functions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ACTIONS: &str = include_str!("../src/action.rs");
const DOCUMENT: &str = include_str!("../../docs/protocol-model.md");

/// The rows of the table, without its head: cells.
fn rows() -> Vec<Vec<&'static str>> {
    let section = DOCUMENT
        .split_once("## From the model to the code")
        .expect("the section")
        .1;
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_step_has_a_row() {
    let body = ACTIONS
        .split_once("pub enum Action {")
        .expect("the enum of steps")
        .1;
    let named = body
        .lines()
        .filter_map(|line| line.trim().split_once([' ', ',']).map(|(name, _)| name));
    let steps: BTreeSet<&str> = named
        .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect();
    let told: Vec<&str> = rows().iter().flat_map(|row| quoted(row[0])).collect();
    assert_eq!(told.len(), steps.len(), "each once: {told:?}");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), steps);
}

/// Where a module of a crate may stand.
fn files(parts: &[&str]) -> [PathBuf; 2] {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut file = crates.join(parts[0]).join("src");
    file.extend(&parts[1..]);
    [file.with_extension("rs"), file.join("mod.rs")]
}

#[test]
fn the_functions_that_it_names_exist() {
    let mut looked_for = 0;
    for row in rows() {
        assert_eq!(row.len(), 3, "{row:?}");
        for path in quoted(row[2]) {
            let parts: Vec<&str> = path.split("::").collect();
            assert!(parts.len() >= 3, "{path}: crate::module::function");
            let (function, module) = parts.split_last().expect("parts");
            let sources: String = files(module)
                .iter()
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .collect();
            let is_there = [format!("fn {function}("), format!("fn {function}<")]
                .iter()
                .any(|named| sources.contains(named));
            assert!(is_there, "{}: there is no function {path}", row[0]);
            looked_for += 1;
        }
    }
    assert!(looked_for > 60, "{looked_for}");
}

//! The import rule: a crate imports only from lower floors, and nobody imports a neighbour.

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// Every crate with its floor, as in docs/architecture.md. A crate that is not here fails the
/// check.
const FLOORS: &[(&str, u32)] = &[
    ("types", 1),
    ("format", 2),
    ("crypto", 2),
    ("env", 2),
    ("chunking", 2),
    ("object", 3),
    ("container", 3),
    ("index", 4),
    ("recipe", 4),
    ("session", 4),
    ("tree", 5),
    ("ddi", 5),
    ("ingest", 6),
    ("volume", 6),
    ("restore", 6),
    ("reclaim", 6),
    ("onefold", 7),
    ("wire", 7),
    ("nbd", 7),
    ("simulate", 7),
    ("cli-support", 8),
    ("mount", 8),
    ("transport", 8),
    // Above `transport`: it records and replays what clients and servers say to each other.
    ("lab", 9),
    ("server", 9),
    ("volume-server", 9),
    ("client", 9),
    ("cli", 10),
    ("onefold-lab", 10),
];

/// The laboratory. No other crate imports it, so that the product contains no generator and no
/// experiment.
pub(crate) const LABORATORY: &[&str] = &["lab", "onefold-lab"];

/// The crate that writes a log. Libraries report to `tracing`; only the program decides where that
/// is written.
const SUBSCRIBER: &str = "tracing-subscriber";
/// The program that may install it.
const PROGRAM: &str = "cli";

/// Members of the workspace outside of the layers: no shipped program contains them.
const BESIDE: &[&str] = &["model", "testfs", "xtask"];

fn floor(name: &str) -> Option<u32> {
    FLOORS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, floor)| *floor)
}

/// The name of a crate's folder, as in [`FLOORS`]. Packages of the product begin with `onefold-`.
fn short(package: &str) -> &str {
    let folder = package
        .strip_prefix("onefold-")
        .filter(|_| package != "onefold-lab");
    folder.unwrap_or(package)
}

/// Reads `cargo metadata` and fails on a broken rule.
pub(crate) fn check() -> Result<()> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("running cargo metadata")?;
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        let name = short(&package.name);
        if BESIDE.contains(&name) {
            continue;
        }
        let Some(own) = floor(name) else {
            faults.push(format!(
                "{name}: has no floor; give it one in xtask/src/layering.rs and docs/architecture.md"
            ));
            continue;
        };
        let folder = package.manifest_path.parent().and_then(|path| path.file_name());
        if folder != Some(name) {
            faults.push(format!("{name}: lies in a folder of another name, {folder:?}"));
        }
        for dependency in &package.dependencies {
            let import = Import {
                name: if dependency.path.is_some() {
                    short(&dependency.name)
                } else {
                    &dependency.name
                },
                is_for_tests: dependency.kind == DependencyKind::Development,
                is_member: dependency.path.is_some(),
            };
            import.check(name, own, &mut faults);
        }
    }
    if !faults.is_empty() {
        bail!("the import rule is broken:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// One line of a crate's dependencies.
struct Import<'a> {
    name: &'a str,
    /// Only for its tests.
    is_for_tests: bool,
    /// A crate of this workspace.
    is_member: bool,
}

impl Import<'_> {
    /// Adds a fault for each rule that the import breaks in `importer`, a crate on the floor `own`.
    fn check(&self, importer: &str, own: u32, faults: &mut Vec<String>) {
        let name = self.name;
        if BESIDE.contains(&name) && !self.is_for_tests {
            faults.push(format!("{importer}: imports {name}, which ships in nothing"));
        }
        if LABORATORY.contains(&name) && !LABORATORY.contains(&importer) {
            faults.push(format!("{importer}: imports {name}, the laboratory"));
        }
        if name == SUBSCRIBER && importer != PROGRAM {
            faults.push(format!(
                "{importer}: imports {name}, which only {PROGRAM} installs"
            ));
        }
        if let Some(below) = floor(name).filter(|_| self.is_member)
            && below >= own
            && !self.is_for_tests
        {
            faults.push(format!("{importer} (floor {own}) imports {name} (floor {below})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_imports_lower_floors_and_no_laboratory() {
        for (importer, name, is_for_tests, expected) in [
            ("cli", "onefold", false, 0),
            ("cli", "simulate", false, 0),
            ("cli", "lab", false, 1),
            ("cli", "lab", true, 1),
            ("onefold", "onefold-lab", true, 1),
            ("onefold-lab", "lab", false, 0),
            ("cli", SUBSCRIBER, false, 0),
            ("onefold", SUBSCRIBER, false, 1),
            ("restore", "ingest", false, 1),
            ("restore", "ingest", true, 0),
            ("restore", "model", false, 1),
            ("restore", "testfs", true, 0),
        ] {
            let import = Import {
                name,
                is_for_tests,
                is_member: true,
            };
            let own = floor(importer).expect("a crate with a floor");
            let mut faults = Vec::new();
            import.check(importer, own, &mut faults);
            assert_eq!(faults.len(), expected, "{importer} imports {name}: {faults:?}");
        }
    }
}

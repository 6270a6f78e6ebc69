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
    ("ingest", 6),
    ("restore", 6),
    ("reclaim", 6),
    ("onefold", 7),
    ("simulate", 7),
    ("lab", 8),
    ("cli-support", 8),
    ("cli", 9),
    ("onefold-lab", 9),
];

/// The laboratory. No other crate imports it, so that the product contains no generator and no
/// experiment.
pub(crate) const LABORATORY: &[&str] = &["lab", "onefold-lab"];

/// Members of the workspace that stand beside the house: they ship in nothing.
const BESIDE: &[&str] = &["model", "testfs", "xtask"];

fn floor(name: &str) -> Option<u32> {
    FLOORS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, floor)| *floor)
}

/// Reads `cargo metadata` and fails on a broken rule.
pub(crate) fn check() -> Result<()> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("running cargo metadata")?;
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
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
            if BESIDE.contains(&dependency.name.as_str()) && dependency.kind != DependencyKind::Development {
                faults.push(format!(
                    "{name}: imports {}, which ships in nothing",
                    dependency.name
                ));
            }
            if LABORATORY.contains(&dependency.name.as_str()) && !LABORATORY.contains(&name) {
                faults.push(format!("{name}: imports {}, the laboratory", dependency.name));
            }
            let is_member = dependency.path.is_some();
            let Some(below) = floor(&dependency.name).filter(|_| is_member) else {
                continue;
            };
            if below >= own && dependency.kind != DependencyKind::Development {
                faults.push(format!(
                    "{name} (floor {own}) imports {} (floor {below})",
                    dependency.name
                ));
            }
        }
    }
    if !faults.is_empty() {
        bail!("the import rule is broken:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

//! Every crate that a manifest names has its line in docs/dependencies.md, and some crate uses it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

const PAGE: &str = "docs/dependencies.md";

/// Adds a fault for each broken rule to `faults`.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("running cargo metadata")?;
    let mut foreign = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    for dependency in metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| &package.dependencies)
    {
        let key = dependency.rename.as_ref().unwrap_or(&dependency.name);
        wanted.insert(key.clone());
        if dependency.path.is_none() {
            foreign.insert(dependency.name.clone());
        }
    }
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    for name in &foreign {
        if !page.contains(&format!("`{name}`")) {
            faults.push(format!("{PAGE}: has no line for {name}"));
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("reading Cargo.toml")?;
    for name in named_by_workspace(&manifest) {
        if !wanted.contains(name) {
            faults.push(format!("Cargo.toml: {name} is wanted by no crate"));
        }
    }
    Ok(())
}

/// The keys of `[workspace.dependencies]`.
fn named_by_workspace(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
}

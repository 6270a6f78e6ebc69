//! The modules of a crate import each other in one direction: no circles, but those listed here.
//!
//! A circle binds all of its modules together: nobody can read, test or move one of them alone. The
//! check reads every source file of a crate, and takes each path that begins with `crate`, `super`
//! or `self` to the module that defines the item. A name that a module only re-exports counts as an
//! import of the module behind it. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};

use crate::workspace::root;

/// Allowed circles: a module of each, and the reason. At most three.
const ALLOWED: &[(&str, &str)] = &[];

/// A path of modules from the root of the crate.
type ModulePath = Vec<String>;

/// The imports of one module.
#[derive(Default)]
struct Module {
    /// Names that it imports or re-exports, with their targets.
    names: BTreeMap<String, Vec<String>>,
    /// Paths into its crate, resolved against the module.
    paths: BTreeSet<Vec<String>>,
}

/// All modules of a crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// Fails on circles that are not listed, and on listed ones that are gone.
pub(crate) fn check() -> Result<()> {
    let root = &root();
    let mut faults = Vec::new();
    let mut met = BTreeSet::new();
    let mut crates: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("reading crates")? {
        crates.push(entry?.path());
    }
    crates.sort();
    for folder in crates {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut parsed = Crate::default();
        for file in ["lib.rs", "main.rs"] {
            let path = folder.join("src").join(file);
            if path.exists() {
                parsed.read(&path, &folder.join("src"), &Vec::new())?;
            }
        }
        for circle in parsed.circles() {
            let names: Vec<String> = circle.iter().map(|path| shown(&name, path)).collect();
            let allowed = ALLOWED
                .iter()
                .find(|(module, _)| names.iter().any(|name| name == module));
            match allowed {
                Some((module, _)) => _ = met.insert(*module),
                None => faults.push(format!(
                    "{}\n    {}",
                    names.join(", "),
                    parsed.edges(&circle).join("\n    ")
                )),
            }
        }
    }
    let gone = ALLOWED.iter().filter(|(module, _)| !met.contains(module));
    faults.extend(gone.map(|(module, _)| format!("{module} is in no circle any more: take it off the list")));
    if !faults.is_empty() {
        bail!("modules import each other in circles:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn shown(crate_name: &str, path: &[String]) -> String {
    let mut parts = vec![crate_name.to_owned()];
    parts.extend(path.iter().cloned());
    parts.join("::")
}

impl Crate {
    /// Reads a file, and the modules that it declares.
    fn read(&mut self, file: &Path, folder: &Path, at: &ModulePath) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
        self.add(&parsed.items, folder, at)
    }

    fn add(&mut self, items: &[syn::Item], folder: &Path, at: &ModulePath) -> Result<()> {
        let mut seen = Seen {
            at: at.clone(),
            module: Module::default(),
        };
        let mut below = Vec::new();
        for item in items {
            match item {
                syn::Item::Mod(module) if is_test(&module.attrs) => {}
                syn::Item::Mod(module) => below.push(module),
                item => seen.visit_item(item),
            }
        }
        self.modules.entry(at.clone()).or_default().merge(seen.module);
        for module in below {
            let name = module.ident.to_string();
            let inner = folder.join(&name);
            let path: ModulePath = at.iter().cloned().chain([name.clone()]).collect();
            match &module.content {
                Some((_, items)) => self.add(items, &inner, &path)?,
                None => {
                    let file = folder.join(format!("{name}.rs"));
                    let file = if file.exists() { file } else { inner.join("mod.rs") };
                    self.read(&file, &inner, &path)?;
                }
            }
        }
        Ok(())
    }

    /// Circles between the modules below one parent, each with all that is below it.
    fn circles(&self) -> Vec<Vec<ModulePath>> {
        let imports = self.imports();
        let mut out = Vec::new();
        for parent in self.modules.keys() {
            let len = parent.len() + 1;
            let child = |path: &ModulePath| {
                (path.len() >= len && path.starts_with(parent)).then(|| path[..len].to_vec())
            };
            let mut between: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
            for (from, targets) in &imports {
                let Some(from) = child(from) else { continue };
                let targets = targets.iter().filter_map(|to| child(to));
                let targets = targets.filter(|to| *to != from);
                between.entry(from.clone()).or_default().extend(targets);
            }
            out.extend(circles(&between));
        }
        out
    }

    /// The imports within a circle.
    fn edges(&self, circle: &[ModulePath]) -> Vec<String> {
        let mut out = Vec::new();
        for (at, module) in &self.modules {
            let Some(from) = circle.iter().find(|one| at.starts_with(one)) else {
                continue;
            };
            for path in &module.paths {
                let target = self.defining(path, 0);
                let to = circle
                    .iter()
                    .find(|one| target.is_some_and(|target| target.starts_with(one)));
                if to.is_some_and(|to| to != from) {
                    out.push(format!("{} imports {}", at.join("::"), path.join("::")));
                }
            }
        }
        out
    }

    /// Which modules each module imports.
    fn imports(&self) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
        let mut out = BTreeMap::new();
        for (at, module) in &self.modules {
            let targets = module.paths.iter().filter_map(|path| self.defining(path, 0));
            out.insert(at, targets.filter(|target| *target != at).collect());
        }
        out
    }

    /// The module that defines the target of a path.
    fn defining(&self, path: &[String], depth: u32) -> Option<&ModulePath> {
        let longest = (0..=path.len())
            .rev()
            .find(|len| self.modules.contains_key(&path[..*len]))?;
        let (module, entry) = self.modules.get_key_value(&path[..longest])?;
        let behind = path.get(longest).and_then(|name| entry.names.get(name));
        match behind {
            Some(behind) if depth < 8 => self.defining(behind, depth + 1).or(Some(module)),
            _ => Some(module),
        }
    }
}

impl Module {
    fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.paths.extend(other.paths);
    }
}

/// Collects the paths of a module.
struct Seen {
    at: ModulePath,
    module: Module,
}

impl Seen {
    /// A path from the root of the crate; `None` if its target is elsewhere.
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let first = segments.first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.at.clone(),
            "super" => self.at[..self.at.len().checked_sub(1)?].to_vec(),
            _ => return None,
        };
        for segment in &segments[1..] {
            if segment == "super" {
                base.pop()?;
            } else {
                base.push(segment.clone());
            }
        }
        Some(base)
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, before);
                }
            }
            syn::UseTree::Name(name) => self.import(before, &name.ident.to_string(), &name.ident.to_string()),
            syn::UseTree::Rename(name) => {
                self.import(before, &name.ident.to_string(), &name.rename.to_string())
            }
            _ => self.import(before, "*", "*"),
        }
    }

    fn import(&mut self, before: &[String], name: &str, as_name: &str) {
        let mut path = before.to_vec();
        if !matches!(name, "self" | "*") {
            path.push(name.to_owned());
        }
        // `use child::Item` without `self` also refers to a module below.
        let resolved = self
            .resolve(&path)
            .unwrap_or_else(|| self.at.iter().cloned().chain(path).collect());
        self.module.paths.insert(resolved.clone());
        if name != "*" {
            let own = if as_name == "self" {
                before.last().cloned().unwrap_or_default()
            } else {
                as_name.to_owned()
            };
            self.module.names.insert(own, resolved);
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            self.tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        let resolved = self.resolve(&segments).or_else(|| {
            // A name that was imported, or a module below.
            let known = segments.len() > 1;
            known.then(|| self.at.iter().cloned().chain(segments).collect())
        });
        self.module.paths.extend(resolved);
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }
}

/// Whether the item is for tests alone.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        let is_test = |path: &syn::Path| path.is_ident("test");
        attribute.path().is_ident("test")
            || is_cfg
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| is_test(&path))
    })
}

/// The circles: groups of two or more modules that import each other.
fn circles(imports: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<Vec<ModulePath>> {
    let reach = |from: &ModulePath| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(at) = todo.pop() {
            let next = imports.get(at).into_iter().flatten();
            todo.extend(next.filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> =
        imports.keys().map(|from| (from, reach(from))).collect();
    let mut done = BTreeSet::new();
    let mut out = Vec::new();
    for (from, reaches) in &reached {
        if !reaches.contains(*from) || done.contains(*from) {
            continue;
        }
        let is_in = |to: &&ModulePath| reaches.contains(*to) && reached[*to].contains(*from);
        let circle: Vec<ModulePath> = imports.keys().filter(is_in).cloned().collect();
        done.extend(imports.keys().filter(is_in));
        out.push(circle);
    }
    out
}

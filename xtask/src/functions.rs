//! Functions that fit on two screens: at most 100 lines each in the code of the product.
//!
//! A function is counted from its signature to its closing brace, with all that stands between. A
//! function inside another counts for both. Tests and the laboratory do not count.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Most lines of a function.
const LINES_MAX: usize = 100;

/// Functions that may be longer: the file, the function, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// A function that was found, and its length.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// The line of its signature, counted from 1.
    line: usize,
    lines: usize,
}

/// Fails on longer functions that are not listed, and on listed ones that are short by now.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the workspace")?;
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("reading crates")? {
        let folder = entry?.path();
        if !folder.ends_with("lab") {
            collect(&folder.join("src"), &mut files)?;
        }
    }
    files.sort();
    let mut long = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let found = longer(&text, LINES_MAX).with_context(|| format!("parsing {}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        long.extend(found.into_iter().map(|function| (shown.clone(), function)));
    }
    let faults = faults(&long, ALLOWED);
    if !faults.is_empty() {
        bail!("functions:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// What is wrong with the long functions that were found, beside those that are allowed.
fn faults(long: &[(String, Function)], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let is_allowed = |file: &str, name: &str| {
        allowed
            .iter()
            .any(|(at, allowed, _)| *at == file && *allowed == name)
    };
    let unlisted = long
        .iter()
        .filter(|(file, function)| !is_allowed(file, &function.name));
    let mut faults: Vec<String> = unlisted
        .map(|(file, function)| {
            let Function { name, line, lines } = function;
            format!("{file}:{line}: {name} has {lines} lines, at most {LINES_MAX}: split it by step")
        })
        .collect();
    let gone = allowed.iter().filter(|(file, name, _)| {
        !long
            .iter()
            .any(|(at, function)| at == file && function.name == *name)
    });
    faults.extend(gone.map(|(file, name, _)| {
        format!("{file}: {name} is not too long any more: take it off the list in xtask/src/functions.rs")
    }));
    faults
}

/// The functions of a file that have more lines than this.
fn longer(text: &str, lines_max: usize) -> Result<Vec<Function>> {
    let mut seen = Seen {
        lines_max,
        found: Vec::new(),
    };
    seen.visit_file(&syn::parse_file(text)?);
    Ok(seen.found)
}

/// Source files below a folder but those of tests.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Collects the long functions of a file.
struct Seen {
    lines_max: usize,
    found: Vec<Function>,
}

impl Seen {
    fn count(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.span().start().line;
        let last = body.span().end().line;
        let lines = last + 1 - first;
        if lines > self.lines_max {
            self.found.push(Function {
                name: signature.ident.to_string(),
                line: first,
                lines,
            });
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !crate::circles::is_test(&item.attrs) {
            self.count(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !crate::circles::is_test(&item.attrs) {
            self.count(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.count(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !crate::circles::is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !crate::circles::is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Function, faults, longer};

    const TEXT: &str = "
        /// A comment is not counted.
        #[must_use]
        pub fn three(
        ) {
        }
        fn four() {
            // one
            fn inside() {}
        }
        struct S;
        impl S {
            fn five(&self) {
                let _ = 1;
                let _ = 2;
                let _ = 3;
            }
        }
        trait T {
            fn none(&self);
            fn given(&self) {


            }
        }
        #[cfg(test)]
        mod tests {
            fn long() {



            }
        }
        #[test]
        fn long() {



        }
    ";

    fn names(lines_max: usize) -> Vec<String> {
        let found = longer(TEXT, lines_max).unwrap();
        found.into_iter().map(|function| function.name).collect()
    }

    #[test]
    fn counts_from_the_signature_to_the_brace_everywhere_but_in_tests() {
        assert_eq!(names(0), ["three", "four", "inside", "five", "given"]);
    }

    #[test]
    fn a_function_at_the_limit_passes() {
        assert_eq!(names(3), ["four", "five", "given"]);
        assert_eq!(names(4), ["five"]);
        assert!(names(5).is_empty());
        let five = Function {
            name: "five".into(),
            line: 13,
            lines: 5,
        };
        assert_eq!(longer(TEXT, 4).unwrap(), [five]);
    }

    #[test]
    fn the_list_allows_a_function_by_file_and_name_while_it_is_long() {
        let long = |file: &str, name: &str| {
            let function = Function {
                name: name.into(),
                line: 7,
                lines: 101,
            };
            (file.to_owned(), function)
        };
        let allowed = [("a.rs", "run", "a reason")];
        assert!(faults(&[long("a.rs", "run")], &allowed).is_empty());
        for other in [long("b.rs", "run"), long("a.rs", "go")] {
            let found = faults(&[long("a.rs", "run"), other], &allowed);
            assert_eq!(found.len(), 1);
            assert!(found[0].contains("has 101 lines, at most 100"), "{found:?}");
        }
        let gone = faults(&[], &allowed);
        assert_eq!(gone.len(), 1);
        assert!(gone[0].contains("take it off the list"), "{gone:?}");
    }
}

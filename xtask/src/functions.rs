//! Functions that fit on two screens: at most 100 lines each in the code of the product.
//!
//! A function is counted from its signature to its closing brace, with everything in between. A
//! function inside another counts for both. Tests and the laboratory do not count.

use anyhow::Result;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::layering::LABORATORY;

/// The most lines of a function.
const LINES_MAX: usize = 100;

/// A function and its length.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// The line of its signature, counted from 1.
    line: usize,
    lines: usize,
}

/// Adds a fault for each function of the product's code that is longer.
pub(crate) fn check(name: &str, text: &str, faults: &mut Vec<String>) -> Result<()> {
    if !is_of_product(name) {
        return Ok(());
    }
    for Function {
        name: function,
        line,
        lines,
    } in longer(text, LINES_MAX)?
    {
        faults.push(format!(
            "{name}:{line}: {function} has {lines} lines, at most {LINES_MAX}: split it by step"
        ));
    }
    Ok(())
}

/// Whether a source file is one of `crates/*/src`, and neither of tests nor of the laboratory.
fn is_of_product(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let ["crates", folder, "src", below @ ..] = &parts[..] else {
        return false;
    };
    let is_of_tests = |part: &&str| matches!(*part, "tests" | "tests.rs");
    !LABORATORY.contains(folder) && !below.iter().any(is_of_tests)
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
    use super::{Function, check, longer};

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
    fn the_code_of_the_product_counts() {
        let long = format!("fn long() {{{}}}", "\n".repeat(100));
        for (name, expected) in [
            ("crates/tree/src/a.rs", 1),
            ("crates/tree/src/restore/a.rs", 1),
            ("crates/tree/src/restore/tests.rs", 0),
            ("crates/tree/src/tests/a.rs", 0),
            ("crates/tree/tests/it/a.rs", 0),
            ("crates/simulate/src/a.rs", 1),
            ("crates/lab/src/a.rs", 0),
            ("crates/onefold-lab/src/a.rs", 0),
            ("xtask/src/a.rs", 0),
        ] {
            let mut faults = Vec::new();
            check(name, &long, &mut faults).unwrap();
            assert_eq!(faults.len(), expected, "{name}: {faults:?}");
        }
    }
}

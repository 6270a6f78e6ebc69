//! Habits that readers rely on: a file holds one idea and has a limited length, and every module
//! begins with a sentence on what it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Longest production file, in lines.
const LINES_MAX: usize = 500;
/// Longest file of tests.
const TEST_LINES_MAX: usize = 900;

/// Walks the sources and fails on a broken habit.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the workspace")?;
    let mut files = Vec::new();
    for folder in ["crates", "model", "testfs", "xtask", "fuzz", "bench"] {
        collect(&root.join(folder), "rs", &mut files)?;
    }
    let mut faults = Vec::new();
    check_pages(root, &mut faults)?;
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        crate::width::check_comments(&shown, &text, &mut faults);
        crate::functions::check(&shown, &text, &mut faults).with_context(|| format!("parsing {shown}"))?;
        let is_test = shown.contains("test") || shown.contains("bench");
        let limit = if is_test { TEST_LINES_MAX } else { LINES_MAX };
        let lines = text.lines().count();
        if lines > limit {
            faults.push(format!(
                "{shown}: {lines} lines, at most {limit}: split it by idea"
            ));
        }
        if !is_test && !text.trim_start().starts_with("//!") && !text.trim_start().starts_with("#![") {
            faults.push(format!("{shown}: does not open with what it is (//!)"));
        }
        for word in [
            concat!("TO", "DO"),
            concat!("FIX", "ME"),
            concat!("todo", "!("),
            concat!("unimplemented", "!("),
        ] {
            if text.contains(word) {
                faults.push(format!("{shown}: contains {word}"));
            }
        }
    }
    crate::dependencies::check(root, &mut faults)?;
    if !faults.is_empty() {
        bail!("tidy:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Checks every Markdown page, of all folders.
fn check_pages(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    let mut pages = Vec::new();
    collect(root, "md", &mut pages)?;
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        crate::width::check_page(&shown, &text, faults);
    }
    Ok(())
}

/// Finds the files below a folder whose name ends with an extension, except those of builds.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path
                .file_name()
                .is_some_and(|name| name != "target" && name != ".git")
            {
                collect(&path, extension, files)?;
            }
        } else if path.extension().is_some_and(|of_file| of_file == extension) {
            files.push(path);
        }
    }
    Ok(())
}

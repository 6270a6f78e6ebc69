//! Habits that readers rely on: a file holds one idea and has a limited length, and every module
//! begins with a sentence on what it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::root;

/// Longest production file, in lines.
const LINES_MAX: usize = 500;
/// Longest file of tests.
const TEST_LINES_MAX: usize = 900;

/// Walks the sources and fails on a broken habit.
pub(crate) fn check() -> Result<()> {
    let root = &root();
    let mut files = Vec::new();
    for folder in ["crates", "model", "testfs", "xtask", "fuzz", "bench"] {
        collect(&root.join(folder), &has_extension("rs"), &mut files)?;
    }
    let mut faults = Vec::new();
    check_pages(root, &mut faults)?;
    check_scripts(root, &mut faults)?;
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
    collect(root, &has_extension("md"), &mut pages)?;
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let shown = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        crate::width::check_page(&shown, &text, faults);
    }
    Ok(())
}

/// Checks the comments of every script, and of TOML and YAML. A file without an extension is a
/// script if it begins with `#!`.
fn check_scripts(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    const EXTENSIONS: [&str; 4] = ["sh", "py", "toml", "yml"];
    let may_be_script = |path: &Path| {
        path.extension()
            .is_none_or(|extension| EXTENSIONS.iter().any(|one| extension == *one))
    };
    let mut files = Vec::new();
    collect(root, &may_be_script, &mut files)?;
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        if file.extension().is_some() || bytes.starts_with(b"#!") {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            crate::width::check_script(&shown, &String::from_utf8_lossy(&bytes), faults);
        }
    }
    Ok(())
}

fn has_extension(extension: &str) -> impl Fn(&Path) -> bool {
    move |path| path.extension().is_some_and(|of_file| of_file == extension)
}

/// Finds the files below a folder that are wanted, except those of builds.
fn collect(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool, files: &mut Vec<PathBuf>) -> Result<()> {
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
                collect(&path, is_wanted, files)?;
            }
        } else if path.is_file() && is_wanted(&path) {
            files.push(path);
        }
    }
    Ok(())
}

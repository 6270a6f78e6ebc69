//! Typed paths and patterns: their meaning on this machine, and probable slips.
//!
//! The shell replaces `~` and `$HOME` before a program sees them, but not in quotes, not after
//! `--option=`, and not in a file. In these places they are plain letters, so such a path or
//! pattern would name nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cli_support::output::Output;
use onefold::{ExcludeBuilder, Excludes, TypedPath};

/// The folder where relative paths begin. It asks the system only if one of the paths is relative.
/// The current folder may have been deleted, and absolute paths do not need it.
pub(super) fn here(paths: &[PathBuf]) -> Result<PathBuf> {
    match paths.iter().find(|path| path.is_relative()) {
        None => Ok(PathBuf::from("/")),
        Some(path) => std::env::current_dir().with_context(|| {
            let path = path.display();
            format!("{path} is relative, and the current folder cannot be had; give an absolute path")
        }),
    }
}

/// The form that a backup stores: absolute and clean, from the current folder.
pub(super) fn absolute(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let current = here(paths)?;
    let one = |path: &PathBuf| {
        ensure_expanded(path)?;
        Ok(TypedPath::new(&current, path).path)
    };
    paths.iter().map(one).collect()
}

/// Refuses a path that begins like one that a shell would replace, unless there is an entry of that
/// name.
pub(super) fn ensure_expanded(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    let first = text.split('/').next().unwrap_or("");
    let is_meant = first == "~" || variable(&text).is_some();
    if !is_meant || Path::new(first).symlink_metadata().is_ok() {
        return Ok(());
    }
    bail!(
        "{text}: `{first}` was not replaced by a shell, and is a name here: write the path out, or ./{text} for a folder \
         of that name"
    )
}

/// The name and value of the variable at the beginning of a path or pattern, if that variable is
/// set. `${...}` counts even if the variable is not set.
fn variable(text: &str) -> Option<(&str, Option<String>)> {
    let rest = text.strip_prefix('$')?;
    if let Some(name) = rest.strip_prefix('{') {
        let name = &name[..name.find('}')?];
        return Some((name, std::env::var(name).ok()));
    }
    let name = rest.split('/').next().filter(|name| !name.is_empty())?;
    Some((name, Some(std::env::var(name).ok()?)))
}

/// Collects patterns; one that begins with a dot begins at the current folder.
fn patterns() -> ExcludeBuilder {
    // Only such a pattern needs the current folder.
    std::env::current_dir().map_or_else(|_| ExcludeBuilder::new(), |current| ExcludeBuilder::at(&current))
}

/// The patterns among the paths to restore: those with a wildcard. Each may be a path as well. A
/// whole path that cannot be a pattern is nothing but a path.
pub(super) fn includes(paths: &[PathBuf]) -> Result<Excludes> {
    let mut builder = patterns();
    for path in paths {
        let Some(pattern) = wildcards(path) else { continue };
        let added = add(&mut builder, pattern, false);
        if !path.is_absolute() {
            added?;
        }
    }
    Ok(builder.build()?)
}

/// The path as a pattern, if it has a wildcard. Brackets alone are none: many files are called so.
pub(super) fn wildcards(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains(['*', '?']))
}

/// Reads the patterns to leave out, from the command line and from files. A pattern that can never
/// match is an error.
pub(super) fn excludes(
    [exclude, in_any_case]: [&[String]; 2],
    [files, files_in_any_case]: [&[PathBuf]; 2],
) -> Result<Excludes> {
    let mut builder = patterns();
    for pattern in exclude {
        add(&mut builder, pattern, false)?;
    }
    for pattern in in_any_case {
        add(&mut builder, pattern, true)?;
    }
    let files = files.iter().map(|file| (file, false));
    for (file, any_case) in files.chain(files_in_any_case.iter().map(|file| (file, true))) {
        let place = || file.display().to_string();
        let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let text = str::from_utf8(&bytes).ok().with_context(|| {
            format!(
                "{}: is not UTF-8, and so no list of patterns; save it as UTF-8",
                file.display()
            )
        })?;
        // Editors on other systems mark UTF-8 with a byte order mark, and use other line ends.
        let text = text
            .strip_prefix('\u{feff}')
            .unwrap_or(text)
            .replace("\r\n", "\n");
        for (number, line) in text.split(['\n', '\r']).map(str::trim).enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                add(&mut builder, line, any_case)
                    .with_context(|| format!("{}, line {}", place(), number + 1))?;
            }
        }
    }
    Ok(builder.build()?)
}

fn add(builder: &mut ExcludeBuilder, pattern: &str, any_case: bool) -> Result<()> {
    let text = pattern.trim_start_matches('!');
    if text == "~" || text.starts_with("~/") {
        bail!(
            "the pattern {pattern:?} begins with `~`, which is not replaced here: write the folder out, or `\\~` for a name \
             that begins so"
        );
    }
    if let Some((name, value)) = variable(text) {
        let value = value.map_or(String::new(), |value| format!(" (`{value}`)"));
        bail!(
            "the pattern {pattern:?} begins with the variable {name}, and variables are not replaced here: write its value \
             out{value}, or `\\$` for a name that begins so"
        );
    }
    Ok(builder.add(pattern, any_case)?)
}

/// Warns of given paths that are links, because a backup stores the link alone. A path that does
/// not exist is an error, so that a mistyped one stores nothing.
pub(super) fn look_at_roots(paths: &[PathBuf], current: &Path, output: Output) -> Result<()> {
    let roots: Vec<TypedPath> = paths.iter().map(|path| TypedPath::new(current, path)).collect();
    for (path, root) in paths.iter().zip(&roots) {
        let found = path.symlink_metadata();
        if found.is_err() {
            ensure_expanded(path)?;
        }
        let target = std::fs::read_link(root.as_path());
        if let (Err(error), Ok(target), true) = (&found, &target, root.follows) {
            bail!("{}: leads to {}: {error}", path.display(), target.display());
        }
        found.with_context(|| format!("{}", path.display()))?;
        if let (Ok(target), false) = (target, root.follows) {
            tell_link(path, root, &target, &roots, output)?;
        }
    }
    Ok(())
}

fn tell_link(
    path: &Path,
    root: &TypedPath,
    target: &Path,
    roots: &[TypedPath],
    output: Output,
) -> Result<()> {
    let (path, target) = (path.display(), target.display());
    let text = match root.as_path().canonicalize() {
        Ok(end) if roots.iter().any(|other| holds(other, &end)) => return Ok(()),
        Ok(end) if end.is_dir() => {
            format!("nothing of what is in {target}; `{path}/` backs that up")
        }
        Ok(end) => format!("not the file; `{}` backs that up", end.display()),
        Err(_) => format!("{target} does not exist"),
    };
    Ok(output.warn(format!(
        "warning: {path} is a symbolic link to {target}: the link alone is backed up, {text}"
    ))?)
}

/// Whether another given path contains the target of a link.
fn holds(other: &TypedPath, end: &Path) -> bool {
    let is_link = other.as_path().is_symlink() && !other.follows;
    let folder = other.as_path().canonicalize().ok().filter(|_| !is_link);
    folder.is_some_and(|folder| end.starts_with(folder))
}

/// Cleans the name of a stream, which becomes a file below the target of a restore.
pub(super) fn stream_name(typed: &str) -> Result<String> {
    let is_absolute = typed.starts_with('/');
    let parts: Vec<&str> = typed
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    if parts.is_empty() || parts.contains(&"..") || typed.ends_with('/') || typed.ends_with("/.") {
        bail!(
            "{typed:?} is no name for a stream: it needs the name of a file, without `..`, and no `/` at its end"
        );
    }
    ensure_expanded(Path::new(OsStr::from_bytes(typed.as_bytes())))?;
    Ok(format!(
        "{}{}",
        if is_absolute { "/" } else { "" },
        parts.join("/")
    ))
}

/// The name of the stream that these paths may mean as well: of one relative path, which does not
/// begin with `./`. Other paths mean no stream, or are in its series as they are.
pub(super) fn stream_of(paths: &[PathBuf]) -> Option<Vec<u8>> {
    let name = |path: &PathBuf| {
        let text = path.to_str()?;
        let is_path = matches!(text.split('/').next(), Some("" | "." | ".."));
        stream_name(text).ok().filter(|_| !is_path)
    };
    let (first, others) = paths.split_first()?;
    let first_name = name(first)?;
    let is_one = others
        .iter()
        .all(|other| name(other).as_ref() == Some(&first_name));
    is_one.then(|| first_name.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_streams_are_clean() {
        for (typed, want) in [
            ("shop.sql", Some("shop.sql")),
            ("./a//b", Some("a/b")),
            ("/a/./b", Some("/a/b")),
            ("", None),
            (".", None),
            ("..", None),
            ("../a", None),
            ("a/", None),
            ("~/a", None),
        ] {
            assert_eq!(stream_name(typed).ok().as_deref(), want, "{typed}");
        }
    }

    #[test]
    fn paths_that_a_shell_should_have_expanded_are_refused() {
        for typed in ["~/x", "$HOME/x", "$HOME", "${HOME}/x", "${NO_SUCH}/x"] {
            assert!(ensure_expanded(Path::new(typed)).is_err(), "{typed}");
        }
        for typed in [
            "./~/x",
            "x/~",
            "$RECYCLE.BIN",
            "$NO_SUCH/x",
            "a$HOME",
            "~user",
            "$",
        ] {
            assert!(ensure_expanded(Path::new(typed)).is_ok(), "{typed}");
        }
    }
}

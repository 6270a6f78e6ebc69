//! Paths to back up that files list: `--files-from` and its kin.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use cli_support::output::Output;

use super::expand::{self, Expansion};
use crate::args::Backup;

/// The typed paths and those that the files list, and how many folders could not be read to find
/// what matches a pattern.
///
/// # Errors
/// A file that cannot be read, or is no list of this kind; there is no path in all.
pub(super) fn paths(args: &Backup, output: Output) -> Result<(Vec<PathBuf>, usize)> {
    let (mut paths, mut unread) = (args.paths.clone(), 0);
    let lists = [&args.files_from, &args.files_from_verbatim, &args.files_from_raw];
    let standard_inputs = lists.into_iter().flatten().filter(|file| is_standard_input(file));
    if standard_inputs.count() > 1 {
        bail!("only one list can be standard input");
    }
    for file in &args.files_from {
        let bytes = read(file)?;
        for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            if !line.is_empty() && !line.starts_with(b"#") {
                unread += matches_of(line, file, output, &mut paths)?;
            }
        }
    }
    for file in &args.files_from_verbatim {
        let bytes = read(file)?;
        let lines = bytes.split(|byte| *byte == b'\n');
        paths.extend(lines.filter(|line| !line.is_empty()).map(path_of));
    }
    for file in &args.files_from_raw {
        let bytes = read(file)?;
        // Without the last NUL, the list may have been cut in the middle of a path.
        let Some(bytes) = bytes.strip_suffix(b"\0") else {
            if bytes.is_empty() {
                continue;
            }
            bail!(
                "{}: a path at its end has no NUL byte behind it, so it may lack a part",
                shown(file)
            );
        };
        for name in bytes.split(|byte| *byte == 0) {
            if name.is_empty() {
                bail!("{}: an empty path", shown(file));
            }
            paths.push(path_of(name));
        }
    }
    if paths.is_empty() {
        bail!("the lists name no path, so there is nothing to back up");
    }
    Ok((paths, unread))
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn shown(file: &Path) -> String {
    if is_standard_input(file) {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if is_standard_input(file) {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.with_context(|| format!("reading the list of paths in {}", shown(file)))?;
    Ok(bytes)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Adds the paths that a line names: those that match it as a pattern, or the path itself. A line
/// with `*` or `?` is a pattern also if an entry has that very name: it matches itself, and anybody
/// may have made it. Returns how many folders and entries could not be read to find them.
fn matches_of(line: &[u8], file: &Path, output: Output, paths: &mut Vec<PathBuf>) -> Result<usize> {
    let path = path_of(line);
    let is_pattern = line.iter().any(|byte| matches!(byte, b'*' | b'?'));
    if !expand::has_wildcard(line) || !is_pattern && path.symlink_metadata().is_ok() {
        paths.push(path);
        return Ok(0);
    }
    let text = path.to_str().with_context(|| {
        format!(
            "{}: `{}` is no pattern, because it is not UTF-8; --files-from-verbatim takes any bytes",
            shown(file),
            path.display()
        )
    })?;
    let Expansion { found, faults } = expand::expand(text).map_err(|why| {
        anyhow!(
            "{}: the pattern `{text}` cannot be understood: {why}",
            shown(file)
        )
    })?;
    for (path, error) in &faults {
        output.warn(format!("warning: {}: {error}", path.display()))?;
    }
    if found.is_empty() {
        output.warn(format!("warning: {}: nothing matches `{text}`", shown(file)))?;
    }
    paths.extend(found.into_iter().map(|one| keep_slash(one, line)));
    Ok(faults.len())
}

/// A `/` at the end of a pattern follows links, as one at the end of a path does.
fn keep_slash(path: PathBuf, line: &[u8]) -> PathBuf {
    if line.ends_with(b"/") && !path.as_os_str().as_bytes().ends_with(b"/") {
        let mut bytes = path.into_os_string();
        bytes.push("/");
        return PathBuf::from(bytes);
    }
    path
}

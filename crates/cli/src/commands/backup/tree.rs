//! The tree that a backup of files and folders reads.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cli_support::output::Output;
use onefold::{Monitor, TreeOptions};

use crate::args::{Backup, Global};
use crate::commands::{place, typed};

/// The options for the arguments, and how many folders could not be read to find the paths. Reports
/// doubts about paths and patterns.
pub(super) fn options(global: &Global, args: &Backup, output: Output) -> Result<(TreeOptions, usize)> {
    let (paths, unread) = super::listed::paths(args, output)?;
    let current_folder = typed::here(&paths)?;
    typed::look_at_roots(&paths, &current_folder, output)?;
    let tree = TreeOptions::default()
        .paths(paths)
        .current_folder(current_folder)
        .excludes(typed::excludes(
            [&args.exclude, &args.iexclude],
            [&args.exclude_file, &args.iexclude_file],
        )?)
        .exclude_caches(args.exclude_caches)
        .markers(args.exclude_if_present.clone())
        .ignore_files(
            args.ignore_file
                .iter()
                .map(|name| name.as_bytes().to_vec())
                .collect(),
        )
        .file_bytes_max(args.exclude_larger_than)
        .one_file_system(args.one_file_system)
        .leave_out(
            global
                .repo
                .clone()
                .filter(|repo| place::elsewhere(repo).is_none()),
        )
        .force(args.force)
        .ignore_ctime(args.ignore_ctime)
        .ignore_inode(args.ignore_inode);
    for doubt in tree.excludes.doubts(&tree.walk(true).roots) {
        output.warn(format!("warning: {doubt}"))?;
    }
    Ok((tree, unread))
}

/// Counts bytes on a thread of its own, so that progress can show how much is left.
pub(super) fn count_ahead(tree: &TreeOptions, monitor: &Monitor) {
    let walk = tree.walk(true);
    let total = monitor.total_handle();
    std::thread::spawn(move || {
        let mut bytes = 0;
        for entry in onefold::walk::Walk::new(walk).flatten() {
            bytes += entry.len;
        }
        total.store(bytes, Ordering::Relaxed);
    });
}

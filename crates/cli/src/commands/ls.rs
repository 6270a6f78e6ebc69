//! `onefold ls`

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, local_file_time, local_time, lossy, utc_file_time, utc_time};
use onefold::{Content, EntryKind, ListingEntry, Monitor};
use serde::Serialize;

use crate::args::{Global, Ls};

/// A line about an entry.
#[derive(Serialize)]
struct NodeLine<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    node: Node<'a>,
}

/// An entry as JSON shows it.
#[derive(Serialize)]
pub(super) struct Node<'a> {
    path: String,
    r#type: &'static str,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    user: String,
    group: String,
    mtime: String,
    linktarget: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lacks_attributes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
}

#[derive(Serialize)]
struct Stream {
    message_type: &'static str,
    path: String,
    r#type: &'static str,
    size: u64,
    mtime: String,
}

pub(crate) fn run(global: &Global, args: &Ls, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let snapshot = store.find(&args.id.id, &super::filter(&args.filter)?)?;
    let given: Vec<PathBuf> = args.id.path.iter().chain(&args.paths).cloned().collect();
    let paths = super::absolute(&given)?;
    let mut is_met = vec![false; paths.len()];
    let print = |entry: &ListingEntry| -> Result<()> {
        for (met, path) in is_met.iter_mut().zip(&paths) {
            *met |= onefold::is_within(&entry.path, path);
        }
        if output.json {
            output.object(&NodeLine {
                message_type: "node",
                node: node(entry),
            })?;
        } else if args.long {
            output.raw(&long(entry))?;
        } else {
            output.raw(&entry.path)?;
            if let Some(shortfall) = shortfall(entry) {
                output.warn(format!("warning: {}: {shortfall}", lossy(&entry.path)))?;
            }
        }
        Ok(())
    };
    if let Some((name, size)) = snapshot.single_stream() {
        // The name of a stream is not a path of this machine.
        let is_asked_for = |path: &PathBuf| path.as_os_str().as_bytes() == name;
        if !given.is_empty() && !given.iter().any(is_asked_for) && !paths.iter().any(|path| path == name) {
            let paths: Vec<_> = given.iter().collect();
            return Err(super::nothing_there(&paths, snapshot.id));
        }
        return stream(name, size, snapshot.backup.source_time.get(), args, output);
    }
    let monitor = Monitor::default();
    onefold::operations::list_entries(store, &snapshot, &paths, &monitor, print)?;
    super::tell_notes(&monitor, output)?;
    let unmet: Vec<_> = given.iter().zip(&is_met).filter(|(_, met)| !**met).collect();
    if !unmet.is_empty() {
        let paths: Vec<_> = unmet.into_iter().map(|(path, _)| path).collect();
        return Err(super::nothing_there(&paths, snapshot.id));
    }
    Ok(Code::Success)
}

/// A backup of standard input or an image has one entry, of which name, size and time are known.
fn stream(name: &[u8], size: u64, time: i64, args: &Ls, output: Output) -> Result<Code> {
    if output.json {
        output.object(&Stream {
            message_type: "node",
            path: lossy(name),
            r#type: "stream",
            size,
            mtime: utc_time(time),
        })?;
        return Ok(Code::Success);
    }
    output.raw(&stream_line(name, size, time, args.long))?;
    Ok(Code::Success)
}

/// The line of text about a stream.
pub(super) fn stream_line(name: &[u8], size: u64, time: i64, is_long: bool) -> Vec<u8> {
    let mut line = if is_long {
        format!("{size:>12} {} ", local_time(time)).into_bytes()
    } else {
        Vec::new()
    };
    line.extend_from_slice(name);
    line
}

pub(super) fn node(entry: &ListingEntry) -> Node<'_> {
    Node {
        path: lossy(&entry.path),
        r#type: kind(entry),
        size: entry.file_len(),
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        user: lossy(&entry.user),
        group: lossy(&entry.group),
        mtime: utc_file_time(entry.mtime),
        linktarget: target(entry).map(lossy),
        flags: (entry.flags != 0).then(|| flags(entry.flags)),
        content: match entry.state.content {
            Content::Whole => None,
            Content::Changed => Some("changed"),
            Content::Older { .. } => Some("older"),
            Content::Partial { .. } => Some("partial"),
        },
        source_size: match entry.state.content {
            Content::Partial { of } if of > 0 => Some(of),
            _ => None,
        },
        lacks_attributes: entry.state.lacks_attributes.then_some(true),
        path_bytes: std::str::from_utf8(&entry.path)
            .is_err()
            .then_some(&entry.path[..]),
    }
}

pub(super) fn long(entry: &ListingEntry) -> Vec<u8> {
    let named = |name: &[u8], number: u32| {
        if name.is_empty() {
            number.to_string()
        } else {
            lossy(name)
        }
    };
    let front = format!(
        "{}{} {:8} {:8} {:>12} {} ",
        letter(entry),
        permissions(entry.mode),
        named(&entry.user, entry.uid),
        named(&entry.group, entry.gid),
        entry.file_len(),
        local_file_time(entry.mtime)
    );
    let mut line = front.into_bytes();
    line.extend_from_slice(&entry.path);
    if let Some(target) = target(entry) {
        line.extend_from_slice(b" -> ");
        line.extend_from_slice(target);
    }
    if entry.flags != 0 {
        line.extend_from_slice(format!("  +{}", flags(entry.flags)).as_bytes());
    }
    if let Some(shortfall) = shortfall(entry) {
        line.extend_from_slice(format!("  ({shortfall})").as_bytes());
    }
    line
}

/// How an entry falls short of its source.
fn shortfall(entry: &ListingEntry) -> Option<String> {
    let content = match entry.state.content {
        Content::Whole => None,
        Content::Changed => Some("changed while it was read".to_owned()),
        Content::Older { .. } => Some("older: could not be read, and is of an earlier backup".to_owned()),
        Content::Partial { of } => Some(match entry.kind {
            EntryKind::File { len, .. } if of > len => {
                format!("incomplete: {len} of {of} bytes could be read")
            }
            EntryKind::File { len, .. } => {
                format!("incomplete: {len} bytes could be read, of a length that is not known")
            }
            EntryKind::Folder => "incomplete: not all that was in it could be read".to_owned(),
            _ => "incomplete: what it is a name of could not be read whole".to_owned(),
        }),
    };
    let attributes = entry
        .state
        .lacks_attributes
        .then(|| "not all attributes could be read".to_owned());
    match (content, attributes) {
        (Some(content), Some(attributes)) => Some(format!("{content}; {attributes}")),
        (content, attributes) => content.or(attributes),
    }
}

/// Flags as `lsattr` writes them.
fn flags(bits: u32) -> String {
    const LETTERS: [(u32, char); 17] = [
        (0x1, 's'),
        (0x2, 'u'),
        (0x8, 'S'),
        (0x1_0000, 'D'),
        (0x10, 'i'),
        (0x20, 'a'),
        (0x40, 'd'),
        (0x80, 'A'),
        (0x4, 'c'),
        (0x4000, 'j'),
        (0x8000, 't'),
        (0x2_0000, 'T'),
        (0x80_0000, 'C'),
        (0x200_0000, 'x'),
        (0x4000_0000, 'F'),
        (0x400, 'm'),
        (0x2000_0000, 'P'),
    ];
    LETTERS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}

fn permissions(mode: u32) -> String {
    let bits = ["---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx"];
    let part = |shift: u32| bits[((mode >> shift) & 7) as usize];
    let mut text: Vec<u8> = format!("{}{}{}", part(6), part(3), part(0)).into_bytes();
    for (bit, place, set, unset) in [
        (0o4000, 2, b's', b'S'),
        (0o2000, 5, b's', b'S'),
        (0o1000, 8, b't', b'T'),
    ] {
        if mode & bit != 0 {
            text[place] = if text[place] == b'x' { set } else { unset };
        }
    }
    lossy(&text)
}

fn target(entry: &ListingEntry) -> Option<&[u8]> {
    match &entry.kind {
        EntryKind::Symlink { target } | EntryKind::HardLink { target } => Some(target),
        _ => None,
    }
}

fn kind(entry: &ListingEntry) -> &'static str {
    match entry.kind {
        EntryKind::File { .. } => "file",
        EntryKind::HardLink { .. } => "hardlink",
        EntryKind::Folder => "dir",
        EntryKind::Symlink { .. } => "symlink",
        EntryKind::CharDevice { .. } => "chardev",
        EntryKind::BlockDevice { .. } => "dev",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
    }
}

fn letter(entry: &ListingEntry) -> char {
    match entry.kind {
        EntryKind::File { .. } => '-',
        // As `tar` shows it: the kind is listed with the first name.
        EntryKind::HardLink { .. } => 'h',
        EntryKind::Folder => 'd',
        EntryKind::Symlink { .. } => 'l',
        EntryKind::CharDevice { .. } => 'c',
        EntryKind::BlockDevice { .. } => 'b',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
    }
}

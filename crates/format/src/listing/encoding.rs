//! Listing entries and pages of fences as length-prefixed records.

use crate::error::Result;
use crate::listing::path::path_rules;
use crate::listing::{Content, EntryKind, EntryState, FencePage, HOLES_MAX, ListingEntry};
use crate::manifest::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::payload::{self, Payload, rule};
use crate::wire::{Reader, VARINT_BYTES_MAX, Writer, varint_len};

/// The longest body of a record.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
/// The longest name of an extended attribute.
pub const XATTR_NAME_BYTES_MAX: usize = 4096;
/// The longest value of an extended attribute.
pub const XATTR_VALUE_BYTES_MAX: usize = 4 << 20;

const TAG_FILE: u8 = 0;
const TAG_HARD_LINK: u8 = 1;
const TAG_FOLDER: u8 = 2;
const TAG_SYMLINK: u8 = 3;
const TAG_CHAR_DEVICE: u8 = 4;
const TAG_BLOCK_DEVICE: u8 = 5;
const TAG_FIFO: u8 = 6;
const TAG_SOCKET: u8 = 7;

const CONTENT_CHANGED: u8 = 1;
const CONTENT_OLDER: u8 = 2;
const CONTENT_PARTIAL: u8 = 3;
const LACKS_ATTRIBUTES: u8 = 4;

macro_rules! record {
    ($type:ty) => {
        impl $type {
            /// Appends the only record of this value.
            ///
            /// # Panics
            /// If [`Self::check`] fails: the encoder never writes what could not be read back.
            pub fn encode(&self, out: &mut Vec<u8>) {
                if let Err(error) = self.try_encode(out) {
                    panic!("about to write what could not be read back: {error}");
                }
            }

            /// Appends the only record of this value, or nothing if [`Self::check`] fails.
            ///
            /// # Errors
            /// As [`Self::check`].
            pub fn try_encode(&self, out: &mut Vec<u8>) -> Result<()> {
                try_encode_record(self, out)
            }

            /// The record as a new vector.
            ///
            /// # Panics
            /// As [`Self::encode`].
            #[must_use]
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.encode(&mut out);
                out
            }

            /// Reads the first record of a buffer. Returns the value and the record's length, or
            /// `None` if the buffer ends within the record. An empty buffer has no record.
            ///
            /// # Errors
            /// `Malformed`, `Invalid`, or `NewerVersion`. More bytes would not help.
            pub fn decode_one(bytes: &[u8]) -> Result<Option<(Self, usize)>> {
                decode_record(bytes)
            }

            /// Whether the value follows the rules of its encoding (docs/format.md). Values come
            /// from a file system: call it before [`Self::encode`], or encode with
            /// [`Self::try_encode`].
            ///
            /// # Errors
            /// `Invalid` names the broken rule.
            pub fn check(&self) -> Result<()> {
                payload::check(self)
            }
        }
    };
}

record!(ListingEntry);
record!(FencePage);

fn try_encode_record<T: Payload>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    let begin = out.len();
    payload::try_encode(value, out)?;
    let body = out.len() - begin;
    Writer::new(out).count(body);
    if let Some(record) = out.get_mut(begin..) {
        record.rotate_left(body);
    }
    Ok(())
}

fn decode_record<T: Payload>(bytes: &[u8]) -> Result<Option<(T, usize)>> {
    let mut r = Reader::new(T::WHAT, bytes);
    let cut_off = bytes.len() < VARINT_BYTES_MAX && bytes.iter().all(|b| b & 0x80 != 0);
    if cut_off {
        return Ok(None);
    }
    let too_long = r.fault("a record is longer than allowed");
    let len = match usize::try_from(r.varint()?) {
        Ok(len) if len <= RECORD_BYTES_MAX => len,
        _ => return Err(too_long),
    };
    if r.remaining() < len {
        return Ok(None);
    }
    let value = payload::decode(r.take(len)?)?;
    Ok(Some((value, r.position())))
}

impl Payload for ListingEntry {
    const WHAT: &'static str = "listing entry";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.path);
        write_kind(w, &self.kind);
        w.varint32(self.mode);
        w.varint32(self.uid);
        w.varint32(self.gid);
        w.bytes(&self.user);
        w.bytes(&self.group);
        w.file_time(self.mtime);
        w.file_time(self.ctime);
        w.varint(self.device);
        w.varint(self.inode);
        w.list(&self.xattrs, |w, (name, value)| {
            w.bytes(name);
            w.bytes(value);
        });
        w.varint32(self.flags);
        write_state(w, self.state);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            path: r.bytes(PATH_BYTES_MAX)?.to_vec(),
            kind: read_kind(r)?,
            mode: r.varint32()?,
            uid: r.varint32()?,
            gid: r.varint32()?,
            user: r.bytes(NAME_BYTES_MAX)?.to_vec(),
            group: r.bytes(NAME_BYTES_MAX)?.to_vec(),
            mtime: r.file_time()?,
            ctime: r.file_time()?,
            device: r.varint()?,
            inode: r.varint()?,
            xattrs: r.list(2, |r| {
                let name = r.bytes(XATTR_NAME_BYTES_MAX)?.to_vec();
                Ok((name, r.bytes(XATTR_VALUE_BYTES_MAX)?.to_vec()))
            })?,
            flags: r.varint32()?,
            state: read_state(r)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        path_rules(&self.path)?;
        kind_rules(&self.kind)?;
        state_rules(self)?;
        rule(self.mode <= 0o7777, "the mode has bits beyond permissions")?;
        rule(self.user.len() <= NAME_BYTES_MAX, "the owner's name is too long")?;
        rule(self.group.len() <= NAME_BYTES_MAX, "the group's name is too long")?;
        for (name, value) in &self.xattrs {
            let name_fits = !name.is_empty() && name.len() <= XATTR_NAME_BYTES_MAX && !name.contains(&0);
            rule(name_fits, "an extended attribute's name is impossible")?;
            rule(
                value.len() <= XATTR_VALUE_BYTES_MAX,
                "an extended attribute's value is too long",
            )?;
        }
        let sorted = self.xattrs.windows(2).all(|pair| pair[0].0 < pair[1].0);
        rule(
            sorted,
            "the extended attributes are not sorted, or one stands twice",
        )?;
        rule(
            len_max(self) <= RECORD_BYTES_MAX,
            "the entry is longer than a record may be",
        )
    }
}

fn write_kind(w: &mut Writer<'_>, kind: &EntryKind) {
    match kind {
        EntryKind::File { len, holes } => {
            w.u8(TAG_FILE);
            w.varint(*len);
            let mut end = 0u64;
            w.list(holes, |w, &(offset, len)| {
                w.varint(offset.wrapping_sub(end));
                w.varint(len);
                end = offset.wrapping_add(len);
            });
        }
        EntryKind::HardLink { target } => {
            w.u8(TAG_HARD_LINK);
            w.bytes(target);
        }
        EntryKind::Folder => w.u8(TAG_FOLDER),
        EntryKind::Symlink { target } => {
            w.u8(TAG_SYMLINK);
            w.bytes(target);
        }
        EntryKind::CharDevice { device } => {
            w.u8(TAG_CHAR_DEVICE);
            w.varint(*device);
        }
        EntryKind::BlockDevice { device } => {
            w.u8(TAG_BLOCK_DEVICE);
            w.varint(*device);
        }
        EntryKind::Fifo => w.u8(TAG_FIFO),
        EntryKind::Socket => w.u8(TAG_SOCKET),
    }
}

fn read_kind(r: &mut Reader<'_>) -> Result<EntryKind> {
    let unknown = r.fault("the entry's type is not known");
    Ok(match r.u8()? {
        TAG_FILE => EntryKind::File {
            len: r.varint()?,
            holes: read_holes(r)?,
        },
        TAG_HARD_LINK => EntryKind::HardLink {
            target: r.bytes(PATH_BYTES_MAX)?.to_vec(),
        },
        TAG_FOLDER => EntryKind::Folder,
        TAG_SYMLINK => EntryKind::Symlink {
            target: r.bytes(PATH_BYTES_MAX)?.to_vec(),
        },
        TAG_CHAR_DEVICE => EntryKind::CharDevice { device: r.varint()? },
        TAG_BLOCK_DEVICE => EntryKind::BlockDevice { device: r.varint()? },
        TAG_FIFO => EntryKind::Fifo,
        TAG_SOCKET => EntryKind::Socket,
        _ => return Err(unknown),
    })
}

/// Reads holes. Each is written as the gap after the previous one, and the length.
fn read_holes(r: &mut Reader<'_>) -> Result<Vec<(u64, u64)>> {
    let mut end = 0u64;
    r.list(2, |r| {
        let wrong = r.fault("a hole runs past the longest file");
        let (gap, len) = (r.varint()?, r.varint()?);
        let offset = end.checked_add(gap).ok_or(wrong.clone())?;
        end = offset.checked_add(len).ok_or(wrong)?;
        Ok((offset, len))
    })
}

fn write_state(w: &mut Writer<'_>, state: EntryState) {
    let lacking = if state.lacks_attributes {
        LACKS_ATTRIBUTES
    } else {
        0
    };
    match state.content {
        Content::Whole => w.u8(lacking),
        Content::Changed => w.u8(CONTENT_CHANGED | lacking),
        Content::Older { lead } => {
            w.u8(CONTENT_OLDER | lacking);
            w.varint(lead);
        }
        Content::Partial { of } => {
            w.u8(CONTENT_PARTIAL | lacking);
            w.varint(of);
        }
    }
}

fn read_state(r: &mut Reader<'_>) -> Result<EntryState> {
    let unknown = r.fault("the entry's state is not known");
    let bits = r.u8()?;
    let content = match bits & !LACKS_ATTRIBUTES {
        0 => Content::Whole,
        CONTENT_CHANGED => Content::Changed,
        CONTENT_OLDER => Content::Older { lead: r.varint()? },
        CONTENT_PARTIAL => Content::Partial { of: r.varint()? },
        _ => return Err(unknown),
    };
    Ok(EntryState {
        content,
        lacks_attributes: bits & LACKS_ATTRIBUTES != 0,
    })
}

fn state_rules(entry: &ListingEntry) -> Result<(), &'static str> {
    match (&entry.kind, entry.state.content) {
        (EntryKind::File { .. }, _) | (_, Content::Whole | Content::Older { lead: 0 }) => Ok(()),
        (EntryKind::HardLink { .. }, Content::Changed | Content::Partial { .. })
        | (EntryKind::Folder, Content::Partial { of: 0 }) => Ok(()),
        _ => Err("the entry's state is impossible for what it is"),
    }
}

fn kind_rules(kind: &EntryKind) -> Result<(), &'static str> {
    match kind {
        EntryKind::File { len, holes } => hole_rules(*len, holes),
        EntryKind::HardLink { target } => path_rules(target),
        EntryKind::Symlink { target } => {
            let fits = target.len() <= PATH_BYTES_MAX && !target.contains(&0);
            rule(fits, "a symbolic link's target is impossible")
        }
        EntryKind::Folder
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. }
        | EntryKind::Fifo
        | EntryKind::Socket => Ok(()),
    }
}

fn hole_rules(file_len: u64, holes: &[(u64, u64)]) -> Result<(), &'static str> {
    rule(holes.len() <= HOLES_MAX, "a file has more holes than are noted")?;
    let mut end = None;
    for &(offset, len) in holes {
        rule(len > 0, "a hole is empty")?;
        rule(
            end.is_none_or(|end| end < offset),
            "the holes are not sorted, or not merged",
        )?;
        let hole_end = offset.checked_add(len).filter(|&hole_end| hole_end <= file_len);
        rule(hole_end.is_some(), "a hole runs past the file's end")?;
        end = hole_end;
    }
    Ok(())
}

/// An upper bound of the bytes of the entry's body.
fn len_max(e: &ListingEntry) -> usize {
    let kind = match &e.kind {
        EntryKind::File { holes, .. } => {
            let mut end = 0u64;
            let gaps = holes.iter().map(|&(offset, len)| {
                let gap = offset.wrapping_sub(end);
                end = offset.wrapping_add(len);
                varint_len(gap) + varint_len(len)
            });
            gaps.sum()
        }
        EntryKind::HardLink { target } | EntryKind::Symlink { target } => target.len(),
        _ => 0,
    };
    let xattrs = e
        .xattrs
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2 * VARINT_BYTES_MAX);
    // The fixed fields, tags and counts have fewer than two hundred bytes.
    200 + e.path.len() + e.user.len() + e.group.len() + kind + xattrs.sum::<usize>()
}

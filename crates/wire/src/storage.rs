//! Messages for a vault: the operations of [`env::Storage`] on its objects.
//!
//! An answer may be longer than a frame. Then it comes in [`reply::PART`](crate::reply::PART)s, and
//! the answer is its last part. The bytes of an object are cut at any place. A listing is cut
//! between its elements, and each part is a list of its own. An object that is longer than
//! [`PUT_BYTES_MAX`] is put in parts too.

use std::borrow::Cow;

use env::ObjectMeta;
use format::wire::{Reader, Writer};
use types::{ByteRange, ObjectName};

use crate::codec::{Result, TEXT_BYTES_MAX, Wire};
use crate::frame::FRAME_BYTES_MAX;

/// Bytes of an object in one [`PutPart`], at most. The rest of its frame is for its other fields.
pub const PUT_BYTES_MAX: usize = FRAME_BYTES_MAX - (4 << 10);
/// Bytes of an object in one part of an answer, at most. Each part costs the server a read,
/// and its frame has at most a MiB.
pub const GOT_BYTES_MAX: usize = (1 << 20) - (4 << 10);
/// Elements of a listing in one part of an answer, at most. A name has up to 200 bytes.
pub const LISTED_MAX: usize = 32 << 10;
/// Bytes of an object in a vault, at most: a container of the largest setting, its last region and
/// its catalog.
pub const OBJECT_BYTES_MAX: u64 = 1280 << 20;

/// The answer to [`Login`](crate::Login).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Random bytes that name the server's handle of the vault. `None` if the namespace is no
    /// vault. A barrier covers what was done with the same handle.
    pub vault: Option<[u8; 16]>,
    /// The token's rights, separated by commas.
    pub rights: String,
}

impl Wire for LoggedIn {
    fn write(&self, w: &mut Writer<'_>) {
        w.option(self.vault, |w, handle| w.put(&handle));
        w.text(&self.rights);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            vault: r.option(Reader::array)?,
            rights: r.text(TEXT_BYTES_MAX)?,
        })
    }
}

/// A part of a new object, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutPart<'a> {
    /// The object.
    pub name: ObjectName,
    /// The client's number for this put. Its parts have the same one.
    pub upload: u32,
    /// Where in the object its bytes begin.
    pub offset: u64,
    /// The put may have succeeded over an earlier connection. If the object exists with exactly
    /// these bytes, it has.
    pub is_again: bool,
    /// The object is whole with this part.
    pub is_last: bool,
    /// The next bytes of the object.
    pub bytes: Cow<'a, [u8]>,
}

impl Wire for PutPart<'_> {
    fn write(&self, w: &mut Writer<'_>) {
        self.name.write(w);
        w.u32(self.upload);
        w.varint(self.offset);
        w.flag(self.is_again);
        w.flag(self.is_last);
        w.bytes(&self.bytes);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: Wire::read(r)?,
            upload: r.u32()?,
            offset: r.varint()?,
            is_again: r.flag()?,
            is_last: r.flag()?,
            bytes: Cow::Owned(Wire::read(r)?),
        })
    }
}

/// The bytes of an object that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedBytes {
    /// All of them.
    All,
    /// These, in full.
    Range(ByteRange),
    /// The last ones, so many or all. The answer begins with the object's length, 8 bytes.
    Tail(u64),
}

/// An operation on the objects of a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageRequest {
    /// Reads bytes. Answered by them.
    Get(ObjectName, WantedBytes),
    /// Looks an object up. Answered by its metadata.
    Head(ObjectName),
    /// Lists the objects of a folder. Answered by lists of their metadata.
    List(String),
    /// Lists the objects of some sub-folders of a folder. Answered by lists of their metadata.
    ListIn(String, Vec<String>),
    /// Lists the sub-folders of a folder. Answered by lists of names.
    ListFolders(String),
    /// Deletes an object.
    Delete(ObjectName),
    /// Whether parts of the object can be given back. Answered by a flag.
    CanTrim(ObjectName),
    /// Renames an object and gives back ranges of it. Answered by a flag.
    Trim(ObjectName, ObjectName, Vec<ByteRange>),
    /// Removes an empty folder.
    DropFolder(String),
    /// Makes durable whatever clients of the handle have put, deleted, read or listed.
    Barrier,
}

impl Wire for StorageRequest {
    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Get(name, wanted) => {
                w.u8(0);
                name.write(w);
                match wanted {
                    WantedBytes::All => w.u8(0),
                    WantedBytes::Range(range) => {
                        w.u8(1);
                        range.write(w);
                    }
                    WantedBytes::Tail(len) => {
                        w.u8(2);
                        w.u64(*len);
                    }
                }
            }
            Self::Head(name) => {
                w.u8(1);
                name.write(w);
            }
            Self::List(folder) => {
                w.u8(2);
                folder.write(w);
            }
            Self::ListIn(folder, sub_folders) => {
                w.u8(3);
                folder.write(w);
                sub_folders.write(w);
            }
            Self::ListFolders(folder) => {
                w.u8(4);
                folder.write(w);
            }
            Self::Delete(name) => {
                w.u8(5);
                name.write(w);
            }
            Self::CanTrim(name) => {
                w.u8(6);
                name.write(w);
            }
            Self::Trim(from, to, ranges) => {
                w.u8(7);
                from.write(w);
                to.write(w);
                ranges.write(w);
            }
            Self::DropFolder(folder) => {
                w.u8(8);
                folder.write(w);
            }
            Self::Barrier => w.u8(9),
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            0 => {
                let name = Wire::read(r)?;
                let wanted = match r.u8()? {
                    0 => WantedBytes::All,
                    1 => WantedBytes::Range(Wire::read(r)?),
                    2 => WantedBytes::Tail(r.u64()?),
                    _ => return Err(r.fault("no part of an object")),
                };
                Self::Get(name, wanted)
            }
            1 => Self::Head(Wire::read(r)?),
            2 => Self::List(Wire::read(r)?),
            3 => Self::ListIn(Wire::read(r)?, Wire::read(r)?),
            4 => Self::ListFolders(Wire::read(r)?),
            5 => Self::Delete(Wire::read(r)?),
            6 => Self::CanTrim(Wire::read(r)?),
            7 => Self::Trim(Wire::read(r)?, Wire::read(r)?, Wire::read(r)?),
            8 => Self::DropFolder(Wire::read(r)?),
            9 => Self::Barrier,
            _ => return Err(r.fault("no operation of a storage")),
        })
    }
}

impl Wire for ObjectName {
    fn write(&self, w: &mut Writer<'_>) {
        w.text(self.as_str());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let fault = r.fault("no name of an object");
        Self::new(r.text(types::OBJECT_NAME_BYTES_MAX)?).map_err(|_| fault)
    }
}

impl Wire for ObjectMeta {
    fn write(&self, w: &mut Writer<'_>) {
        self.name.write(w);
        w.varint(self.len);
        w.varint(self.space);
        w.nanos(self.put_at);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: Wire::read(r)?,
            len: r.varint()?,
            space: r.varint()?,
            put_at: r.nanos()?,
        })
    }
}

impl Wire for bool {
    fn write(&self, w: &mut Writer<'_>) {
        w.flag(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.flag()
    }
}

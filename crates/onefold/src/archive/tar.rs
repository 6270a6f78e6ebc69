//! Tar archives in the format of POSIX.1-2001 (`pax`).
//!
//! What a header of 512 bytes has no room for is in records before it: long names, names of any
//! bytes, fractions of seconds, large numbers, extended attributes. GNU tar, bsdtar and Python read
//! them. The end of the archive is written by [`ArchiveWriter::finish`] alone. Programs miss that
//! end only in the middle of an entry, so an archive that ends between two gets a header that is
//! none.

use std::io::{self, Write};

use format::listing::{EntryKind, ListingEntry};
use tar::{EntryType, Header};
use types::FileTime;

use super::format::ArchiveWriter;

const BLOCK_BYTES: usize = 512;
/// The longest name in a header.
const NAME_BYTES_MAX: usize = 100;
/// The longest name of a user or group in a header.
const OWNER_BYTES_MAX: usize = 31;
/// Numbers below this fit seven octal digits.
const ID_MAX: u64 = 0o7_777_777;
/// Sizes and times up to this fit eleven octal digits.
const SIZE_MAX: u64 = 0o77_777_777_777;

pub(super) struct Tar<'a> {
    out: &'a mut dyn Write,
    /// Bytes of the file so far.
    written: u64,
    /// Bytes of the file that are to come.
    left: u64,
    /// An entry was begun, and the archive has no end yet.
    is_open: bool,
}

/// Stands in place of a header where the archive is cut off.
const CUT: &[u8] = b"onefold: this archive is cut off here";

impl<'a> Tar<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            written: 0,
            left: 0,
            is_open: false,
        }
    }

    fn pad(&mut self, len: u64) -> io::Result<()> {
        let over = usize::try_from(len % BLOCK_BYTES as u64).unwrap_or(0);
        if over > 0 {
            self.out.write_all(&[0; BLOCK_BYTES][over..])?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        kind: EntryType,
        name: &[u8],
        entry: &ListingEntry,
        link: &[u8],
        len: u64,
    ) -> io::Result<()> {
        self.is_open = true;
        let mut records = Records::default();
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(entry.mode & 0o7777);
        header.set_uid(records.number("uid", entry.uid.into(), ID_MAX));
        header.set_gid(records.number("gid", entry.gid.into(), ID_MAX));
        header.set_size(records.number("size", len, SIZE_MAX));
        header.set_mtime(records.time(entry.mtime));
        if let EntryKind::CharDevice { device } | EntryKind::BlockDevice { device } = entry.kind {
            let (major, minor) = device_numbers(device);
            header.set_device_major(major)?;
            header.set_device_minor(minor)?;
        }
        let fields = header.as_ustar_mut().expect("it was made as one");
        records.text("path", name, &mut fields.name[..NAME_BYTES_MAX]);
        records.text("linkpath", link, &mut fields.linkname[..NAME_BYTES_MAX]);
        records.text("uname", &entry.user, &mut fields.uname[..OWNER_BYTES_MAX]);
        records.text("gname", &entry.group, &mut fields.gname[..OWNER_BYTES_MAX]);
        if kind != EntryType::Link {
            for (key, value) in entry.xattrs.iter().filter(|(key, _)| is_xattr_name(key)) {
                records.add(&[&b"SCHILY.xattr."[..], key].concat(), value);
            }
        }
        header.set_cksum();
        if let Some(records) = records.finish() {
            let mut before = Header::new_ustar();
            before.set_entry_type(EntryType::XHeader);
            before.set_size(records.len() as u64);
            before.set_mode(0o644);
            before.set_mtime(0);
            let shown = &mut before.as_ustar_mut().expect("it was made as one").name;
            let label = b"./PaxHeaders/entry";
            shown[..label.len()].copy_from_slice(label);
            before.set_cksum();
            self.out.write_all(before.as_bytes())?;
            self.out.write_all(&records)?;
            self.pad(records.len() as u64)?;
        }
        self.out.write_all(header.as_bytes())
    }
}

/// Whether a record can have the attribute: its key ends with the first `=`.
fn is_xattr_name(name: &[u8]) -> bool {
    !name.contains(&b'=') && std::str::from_utf8(name).is_ok()
}

/// The major and the minor number of a device, as Linux packs them.
fn device_numbers(device: u64) -> (u32, u32) {
    let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    (low(major), low(minor))
}

/// Records of facts that the header has no room for.
#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
}

impl Records {
    /// A number as the header has it; 0 with a record if it does not fit.
    fn number(&mut self, key: &str, number: u64, max: u64) -> u64 {
        if number <= max {
            return number;
        }
        self.add(key.as_bytes(), number.to_string().as_bytes());
        0
    }

    /// A time as the header has it. A record says more if it is not a whole second, or too far.
    fn time(&mut self, time: FileTime) -> u64 {
        let (seconds, nanos) = (time.seconds(), time.nanos());
        let whole = u64::try_from(seconds).ok().filter(|seconds| *seconds <= SIZE_MAX);
        if whole.is_none() || nanos > 0 {
            self.add(b"mtime", decimal(seconds, nanos).as_bytes());
        }
        whole.unwrap_or(0)
    }

    /// A text in a field of the header. A record has it if it is too long or not ASCII.
    fn text(&mut self, key: &str, text: &[u8], field: &mut [u8]) {
        let len = text.len().min(field.len());
        field[..len].copy_from_slice(&text[..len]);
        if text.len() > field.len() || !text.is_ascii() {
            self.add(key.as_bytes(), text);
        }
    }

    /// Adds `LENGTH KEY=VALUE` and a line break; the length counts itself.
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while len.to_string().len() + rest != len {
            len = len.to_string().len() + rest;
        }
        self.bytes.extend_from_slice(len.to_string().as_bytes());
        for part in [b" ", key, b"=", value, b"\n"] {
            self.bytes.extend_from_slice(part);
        }
    }

    fn finish(self) -> Option<Vec<u8>> {
        Some(self.bytes).filter(|bytes| !bytes.is_empty())
    }
}

/// Seconds with a fraction. Nanoseconds count forward, also before 1970.
fn decimal(seconds: i64, nanos: u32) -> String {
    let text = match (seconds < 0, nanos) {
        (_, 0) => return seconds.to_string(),
        (false, nanos) => format!("{seconds}.{nanos:09}"),
        (true, nanos) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanos),
    };
    text.trim_end_matches('0').to_owned()
}

impl ArchiveWriter for Tar<'_> {
    fn begin_file(&mut self, name: &[u8], entry: &ListingEntry, len: u64) -> io::Result<()> {
        (self.written, self.left) = (0, len);
        self.entry(EntryType::Regular, name, entry, b"", len)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        self.out.write_all(bytes)
    }

    fn end_file(&mut self) -> io::Result<()> {
        self.pad(self.written)
    }

    fn other(&mut self, name: &[u8], entry: &ListingEntry) -> io::Result<bool> {
        let nothing = Vec::new();
        let folder = [name, b"/"].concat();
        let (kind, name, link) = match &entry.kind {
            EntryKind::Folder => (EntryType::Directory, &folder[..], &nothing),
            EntryKind::Symlink { target } => (EntryType::Symlink, name, target),
            EntryKind::CharDevice { .. } => (EntryType::Char, name, &nothing),
            EntryKind::BlockDevice { .. } => (EntryType::Block, name, &nothing),
            EntryKind::Fifo => (EntryType::Fifo, name, &nothing),
            EntryKind::Socket | EntryKind::File { .. } | EntryKind::HardLink { .. } => return Ok(false),
        };
        self.entry(kind, name, entry, link, 0)?;
        Ok(true)
    }

    fn link(&mut self, name: &[u8], entry: &ListingEntry, target: &[u8]) -> io::Result<bool> {
        self.entry(EntryType::Link, name, entry, target, 0)?;
        Ok(true)
    }

    fn shortfall(&self, _: &[u8], entry: &ListingEntry) -> Option<&'static str> {
        let is_lost = |(name, _): &(Vec<u8>, Vec<u8>)| !is_xattr_name(name);
        entry
            .xattrs
            .iter()
            .any(is_lost)
            .then_some("an extended attribute has a name that a tar archive cannot have")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK_BYTES])?;
        self.is_open = false;
        self.out.flush()
    }
}

impl Drop for Tar<'_> {
    fn drop(&mut self) {
        if self.is_open && self.left == 0 {
            let mut block = [0; BLOCK_BYTES];
            block[..CUT.len()].copy_from_slice(CUT);
            // The output may be what failed.
            drop(self.out.write_all(&block).and_then(|()| self.out.flush()));
        }
    }
}

#[cfg(test)]
mod tests {
    use format::listing::EntryState;

    use super::*;

    #[test]
    fn records_count_their_own_length() {
        let mut records = Records::default();
        records.add(b"path", b"x");
        assert_eq!(records.bytes, b"9 path=x\n");
        for len in [0, 80, 90, 91, 92, 93, 99, 980, 990, 991, 992, 993, 9983] {
            let mut records = Records::default();
            records.add(b"k", &vec![b'v'; len]);
            let text = String::from_utf8(records.bytes.clone()).unwrap();
            let said: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(said, records.bytes.len(), "{len}");
        }
    }

    #[test]
    fn an_archive_that_ends_between_entries_is_seen_to_be_cut() {
        let entry = ListingEntry {
            path: b"/folder".to_vec(),
            kind: EntryKind::Folder,
            mode: 0o755,
            uid: 0,
            gid: 0,
            user: Vec::new(),
            group: Vec::new(),
            mtime: FileTime::default(),
            ctime: FileTime::default(),
            device: 0,
            inode: 0,
            xattrs: Vec::new(),
            flags: 0,
            state: EntryState::default(),
        };
        for finishes in [false, true] {
            let mut out = Vec::new();
            let mut tar = Tar::new(&mut out);
            tar.other(b"folder", &entry).unwrap();
            if finishes {
                tar.finish().unwrap();
            }
            drop(tar);
            let mut archive = tar::Archive::new(&out[..]);
            let ends: Vec<_> = archive.entries().unwrap().map(|entry| entry.is_ok()).collect();
            assert_eq!(ends, if finishes { vec![true] } else { vec![true, false] });
        }
        let mut out = Vec::new();
        drop(Tar::new(&mut out));
        assert_eq!(out, b"", "nothing was begun");
    }

    #[test]
    fn times_are_exact_before_and_after_1970() {
        for (seconds, nanos, want) in [
            (5, 0, "5"),
            (5, 120_000_000, "5.12"),
            (-1, 500_000_000, "-0.5"),
            (-2, 1, "-1.999999999"),
            (-3, 0, "-3"),
        ] {
            assert_eq!(decimal(seconds, nanos), want);
        }
    }
}

//! Zip archives with deflate, written without seeking.
//!
//! The list of entries at the end of an archive makes it one. The writer below would write it also
//! when it is dropped after an error. So its output is shut then, and the archive stays cut off.
//! The list is in memory until then, some 220 bytes and a name for each entry.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write};
use std::rc::Rc;

use format::listing::{EntryKind, ListingEntry};
use zip::write::{FullFileOptions, SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::format::ArchiveWriter;

/// From this length on, an entry needs the fields for large files.
const LARGE_BYTES: u64 = 0xfff0_0000;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
const SECONDS_PER_DAY: i64 = 86_400;

/// An output that swallows what comes after it is shut.
struct Gate<'a> {
    out: &'a mut dyn Write,
    is_shut: Rc<Cell<bool>>,
}

impl Write for Gate<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.is_shut.get() {
            true => Ok(bytes.len()),
            false => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.is_shut.get() {
            true => Ok(()),
            false => self.out.flush(),
        }
    }
}

pub(super) struct Zip<'a> {
    writer: Option<ZipWriter<StreamWriter<Gate<'a>>>>,
    is_shut: Rc<Cell<bool>>,
    /// Hashes of the names of files and links, each with the number for the next one that is the
    /// same as text. Of two names with one hash, one gets a number in vain.
    given: HashMap<u64, u64>,
}

impl<'a> Zip<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let is_shut = Rc::new(Cell::new(false));
        let gate = Gate {
            out,
            is_shut: Rc::clone(&is_shut),
        };
        Self {
            writer: Some(ZipWriter::new_stream(gate)),
            is_shut,
            given: HashMap::new(),
        }
    }

    /// The name in the archive. Names that are not text may be the same in it: the second and later
    /// ones get a number.
    fn free(&mut self, name: &[u8]) -> String {
        let text = shown(name);
        let mut next = self.given.get(&hash(&text)).copied().unwrap_or(0);
        let mut free = text.clone();
        while self.given.contains_key(&hash(&free)) {
            next += 1;
            free = format!("{text}-{next}");
        }
        self.given.insert(hash(&text), next);
        self.given.entry(hash(&free)).or_insert(0);
        free
    }

    fn writer(&mut self) -> &mut ZipWriter<StreamWriter<Gate<'a>>> {
        self.writer.as_mut().expect("the archive is not finished")
    }
}

impl Drop for Zip<'_> {
    fn drop(&mut self) {
        self.is_shut.set(true);
    }
}

/// Mode and time of an entry.
fn options(entry: &ListingEntry) -> io::Result<FullFileOptions<'static, 'static>> {
    let seconds = entry.mtime.seconds();
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .unix_permissions(entry.mode & 0o777)
        .last_modified_time(civil(seconds).unwrap_or_default());
    // The field has 32 bits with a sign.
    let exact = i32::try_from(seconds).ok().map(i32::cast_unsigned);
    match exact {
        None => Ok(options.into_full_options()),
        exact => options.with_extended_timestamp(exact, None, None).map_err(failed),
    }
}

fn failed(error: zip::result::ZipError) -> io::Error {
    match error {
        zip::result::ZipError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Date and time in UTC, if a zip archive can have it.
fn civil(seconds: i64) -> Option<DateTime> {
    let (days, of_day) = (
        seconds.div_euclid(SECONDS_PER_DAY),
        seconds.rem_euclid(SECONDS_PER_DAY),
    );
    // Years that begin in March end with the leap day; an era is 400 of them.
    let days = days.checked_add(DAYS_TO_1970)?;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let small = |number: i64| u8::try_from(number).ok();
    DateTime::from_date_and_time(
        u16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(of_day / 3600)?,
        small(of_day / 60 % 60)?,
        small(of_day % 60)?,
    )
    .ok()
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl ArchiveWriter for Zip<'_> {
    fn begin_file(&mut self, name: &[u8], entry: &ListingEntry, len: u64) -> io::Result<()> {
        let options = options(entry)?.large_file(len >= LARGE_BYTES);
        let name = self.free(name);
        self.writer().start_file(name, options).map_err(failed)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer().write_all(bytes)
    }

    fn end_file(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn other(&mut self, name: &[u8], entry: &ListingEntry) -> io::Result<bool> {
        let options = options(entry)?;
        match &entry.kind {
            EntryKind::Folder => {
                let name = shown(name) + "/";
                // Two folders whose names are the same as text become one.
                if self.given.insert(hash(&name), 0).is_none() {
                    self.writer().add_directory(name, options).map_err(failed)?;
                }
            }
            EntryKind::Symlink { target } => {
                let (name, target) = (self.free(name), shown(target));
                self.writer().add_symlink(name, target, options).map_err(failed)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn link(&mut self, _: &[u8], _: &ListingEntry, _: &[u8]) -> io::Result<bool> {
        Ok(false)
    }

    fn shortfall(&self, name: &[u8], entry: &ListingEntry) -> Option<&'static str> {
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let is_target_text = match &entry.kind {
            EntryKind::Symlink { target } => is_text(target),
            _ => true,
        };
        match (is_text(name), is_target_text) {
            (true, true) => None,
            (false, _) => Some("its name is not UTF-8, and has other characters in a zip archive"),
            (_, false) => Some("its target is not UTF-8, and has other characters in a zip archive"),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.writer.take() {
            Some(writer) => {
                let mut stream = writer.finish().map_err(failed)?.into_inner();
                stream.flush()
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        let parts = |seconds| {
            let time = civil(seconds)?;
            Some((
                time.year(),
                time.month(),
                time.day(),
                time.hour(),
                time.minute(),
                time.second(),
            ))
        };
        assert_eq!(parts(951_782_400), Some((2000, 2, 29, 0, 0, 0)));
        assert_eq!(parts(1_709_251_199), Some((2024, 2, 29, 23, 59, 58)));
        assert_eq!(parts(1_767_225_600), Some((2026, 1, 1, 0, 0, 0)));
        assert_eq!(parts(0), None);
        assert_eq!(parts(i64::MAX), None);
    }

    #[test]
    fn an_archive_that_is_given_up_has_no_end() {
        let mut out = Vec::new();
        let mut zip = Zip::new(&mut out);
        zip.writer()
            .start_file("a", SimpleFileOptions::default())
            .unwrap();
        zip.write(b"some bytes").unwrap();
        drop(zip);
        assert!(!out.is_empty());
        assert!(
            !out.windows(4).any(|four| four == b"PK\x05\x06"),
            "it looks whole"
        );
    }
}

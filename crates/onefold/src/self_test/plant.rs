//! The generated files of the main job, the same in every run.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::noise::{next, noise};

const LARGE_BYTES: usize = 4 << 20;
const SMALL_FILES: u64 = 120;

/// Plants the first state of the tree in an empty folder. Returns whether there is a name that is
/// not UTF-8: some file systems refuse such names.
///
/// # Errors
/// Those of the system.
pub(super) fn plant(root: &Path) -> io::Result<bool> {
    let mut state = 1;
    for number in 0..SMALL_FILES {
        let folder = root.join(format!("small/{}", number % 7));
        fs::create_dir_all(&folder)?;
        let len = usize::try_from(next(&mut state) % 12_000).map_err(io::Error::other)?;
        fs::write(folder.join(format!("{number}.bin")), noise(number, len))?;
    }
    let large = noise(1000, LARGE_BYTES);
    fs::write(root.join("large"), &large)?;
    fs::write(root.join("same"), &large)?;
    let shifted = [&large[..1_000_000], b"a few more bytes", &large[1_000_000..]].concat();
    fs::write(root.join("shifted"), shifted)?;
    fs::write(root.join("only at first"), noise(1001, 3 << 20))?;
    fs::write(
        root.join("text"),
        "All work and no play makes a dull boy.\n".repeat(20_000),
    )?;
    fs::write(root.join("empty"), "")?;
    let mut sparse = File::create(root.join("sparse"))?;
    sparse.seek(SeekFrom::Start(3 << 20))?;
    sparse.write_all(&noise(1002, 5000))?;
    sparse.set_len(9 << 20)?;
    fs::create_dir_all(root.join("a/b/c/d/e/f/g"))?;
    fs::create_dir(root.join("empty folder"))?;
    fs::write(root.join("a/b/blank \t and\nline"), "name")?;
    fs::write(root.join("a/b/größe"), "name")?;
    symlink("../large", root.join("a/link"))?;
    symlink("nowhere/at all", root.join("a/b/broken link"))?;
    fs::hard_link(root.join("text"), root.join("a/b/c/twin of text"))?;
    let name = root.join(OsStr::from_bytes(b"a/not \xff\xfe UTF-8"));
    let has_bytes = fs::write(name, "name").is_ok();
    for (path, mode) in [
        ("large", 0o640),
        ("same", 0o400),
        ("a/b/c", 0o750),
        ("empty folder", 0o711),
    ] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode))?;
    }
    for (path, seconds, nanos) in [
        ("text", 1_000_000_000, 123_456_789),
        ("empty", 4_000_000_000, 1),
        ("a/b/c/d", 86_400, 0),
    ] {
        let time = UNIX_EPOCH + Duration::new(seconds, nanos);
        File::open(root.join(path))?.set_modified(time)?;
    }
    Ok(has_bytes)
}

/// Turns the first state into the second.
///
/// # Errors
/// Those of the system.
pub(super) fn change(root: &Path) -> io::Result<()> {
    let mut large = File::options().write(true).open(root.join("large"))?;
    large.seek(SeekFrom::Start(2_000_000))?;
    large.write_all(&noise(2000, 30_000))?;
    large.seek(SeekFrom::End(0))?;
    large.write_all(b"and an end")?;
    File::options()
        .write(true)
        .open(root.join("sparse"))?
        .set_len(3_100_000)?;
    fs::remove_file(root.join("only at first"))?;
    fs::write(root.join("new"), noise(2001, 700_000))?;
    fs::rename(root.join("small/3"), root.join("small/moved"))?;
    fs::remove_dir_all(root.join("small/4"))?;
    fs::remove_file(root.join("a/link"))?;
    symlink("../new", root.join("a/link"))?;
    fs::set_permissions(root.join("a/b/größe"), fs::Permissions::from_mode(0o604))?;
    // A folder takes the place of a file.
    fs::remove_file(root.join("empty"))?;
    fs::create_dir(root.join("empty"))?;
    fs::write(root.join("empty/no more"), "x")
}

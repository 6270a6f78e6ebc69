//! A FUSE file system over a folder, with a peculiarity that a test chooses.
//!
//! Files written through it are stored in a backing folder on the ordinary file system. There the
//! test can see them without the peculiarity. Dropping [`Mounted`] unmounts it, also while a test
//! panics. Mounting needs the superuser and `/dev/fuse`. If one of them is missing, [`mount`]
//! prints that and returns `None`, and the test ends.

//! [`S3Server`] and [`CloudServer`] are object stores for tests, and [`put_certificates`] makes
//! certificates: neither is a file system.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

mod certificates;
mod cloud;
mod errors;
mod names;
mod object_store;
mod passthrough;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

pub use crate::certificates::put_certificates;
pub use crate::cloud::{Cloud, CloudServer};
pub use crate::object_store::{BUCKET, Keys, S3Server};
use crate::passthrough::Passthrough;

/// Which names are the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Bytes alone, as on Linux.
    #[default]
    Bytes,
    /// `README` and `readme` are the same; the first spelling stays.
    CaseInsensitive,
    /// The composed and the decomposed form of a name are the same; the first spelling stays.
    Normalizing,
}

/// The peculiarities of a file system. The default has none.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which names are the same name.
    pub names: Names,
    /// Files with this text in their name give `EIO` from this offset on.
    pub unreadable: Option<(String, u64)>,
    /// Files with this text in their name show a length of 0, whatever they contain.
    pub without_length: Option<String>,
    /// Those show their length from the first read until they are closed.
    pub length_once_read: bool,
    /// The only user who may access it, its top included; without one, all users may.
    pub only_user: Option<u32>,
    /// After this many written bytes there is no room.
    pub room_bytes: Option<u64>,
}

/// A mounted file system.
pub struct Mounted {
    at: PathBuf,
    backing: PathBuf,
    room_bytes: Arc<AtomicU64>,
    session: Option<BackgroundSession>,
    _folder: TempDir,
}

/// Mounts a file system over a new folder. If that is impossible here, prints why and returns
/// `None`.
///
/// # Panics
/// If mounting is possible and fails.
#[must_use]
pub fn mount(options: Options) -> Option<Mounted> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only the superuser mounts file systems");
        return None;
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = match rustix::fs::open("/dev/fuse", flags, Mode::empty()) {
        Ok(device) => device,
        Err(errno) => {
            eprintln!("skipped: /dev/fuse cannot be opened: {errno}");
            return None;
        }
    };
    let folder = TempDir::new().expect("a temporary folder");
    let (at, backing) = (folder.path().join("mounted"), folder.path().join("backing"));
    for path in [&at, &backing] {
        std::fs::create_dir(path).expect("an empty folder");
    }
    let access = match options.only_user {
        Some(user) => format!("user_id={user},group_id=0"),
        None => "user_id=0,group_id=0,allow_other,default_permissions".to_owned(),
    };
    let number = std::os::fd::AsRawFd::as_raw_fd(&device);
    let data = format!("fd={number},rootmode=40000,{access}");
    let data = std::ffi::CString::new(data).expect("no zero in it");
    if let Err(errno) = rustix::mount::mount("testfs", &at, "fuse", MountFlags::NODEV, Some(&*data)) {
        eprintln!("skipped: a FUSE file system cannot be mounted: {errno}");
        return None;
    }
    let room_bytes = Arc::new(AtomicU64::new(options.room_bytes.unwrap_or(u64::MAX)));
    // Dropped if a later step fails.
    let mut mounted = Mounted {
        at,
        backing,
        room_bytes: Arc::clone(&room_bytes),
        session: None,
        _folder: folder,
    };
    let filesystem =
        Passthrough::new(&mounted.backing, options, room_bytes).expect("the backing folder opens");
    let session = Session::from_fd(filesystem, device, SessionACL::All, Config::default());
    let session = session.expect("the kernel greets").spawn();
    mounted.session = Some(session.expect("a thread to serve it"));
    Some(mounted)
}

impl Mounted {
    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The folder under it, on the ordinary file system.
    #[must_use]
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Sets how many more bytes can be written from now on.
    pub fn set_room_bytes(&self, room: u64) {
        self.room_bytes.store(room, Ordering::SeqCst);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that still has a file open in it must not keep the test from ending. The folder
        // is deleted after this.
        if let Err(errno) = rustix::mount::unmount(&self.at, UnmountFlags::DETACH) {
            eprintln!("{} cannot be unmounted: {errno}", self.at.display());
        }
        drop(self.session.take());
    }
}

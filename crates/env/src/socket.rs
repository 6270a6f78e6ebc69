//! Listening on a socket in the file system.
//!
//! A socket that is bound at its path has the mode that the umask leaves, until somebody changes
//! it. Meanwhile other users may connect. So [`listen`] binds it in a new folder that only this
//! user may enter, sets its mode there, and moves it to its path.
//!
//! Several processes may listen at one new path at once: one of them gets it. If they all replace a
//! socket that was left, the last one has the path. A process that is killed in between leaves a
//! folder `.listen-N`, which is empty or has a socket that nobody is at.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Folders of killed processes that are passed over.
const FOLDERS_MAX: u32 = 100;
/// How often a path may be taken while it is being freed.
const ATTEMPTS: u32 = 10;
/// The socket in its folder, before it is moved.
const SOCKET: &str = "s";

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A process listens at the path, or somebody else's socket is there.
    #[error("another server uses it; end that server first")]
    InUse,
    /// Something else than a socket has the path.
    #[error("it is a file and not a socket; name another path")]
    NoSocket,
    /// The system refuses. A path that is too long for clients is an invalid input.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        let kind = match error {
            SocketError::InUse => io::ErrorKind::AddrInUse,
            SocketError::NoSocket => io::ErrorKind::AlreadyExists,
            SocketError::Io(error) => return error,
        };
        Self::new(kind, error)
    }
}

impl From<Errno> for SocketError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// The file of a socket that [`listen`] made. It stays until [`SocketFile::remove`].
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    made: Made,
}

impl SocketFile {
    /// Removes the file, unless another one has its path now: that of a server that was started
    /// while this one ended. If the system refuses, the file stays. The next server replaces it.
    pub fn remove(&self) {
        if Made::of(&self.path).is_ok_and(|found| found == self.made) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// What tells a file from each other one that ever has its path. A later file may have the same
/// number, but then it is younger. A file keeps these values when it is moved or its mode changes.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    device: u64,
    inode: u64,
    modified: SystemTime,
}

impl Made {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            modified: found.modified()?,
        })
    }
}

/// Listens on a new socket. `mode` tells who may connect, as the mode of a file: nobody else can at
/// any moment. Replaces a socket whose process has ended. On Linux, `/proc` must be mounted.
///
/// # Errors
/// [`SocketError`]. Then there is no new socket; that of a process that has ended may be gone.
pub fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), SocketError> {
    // A longer path could be bound by the folder, but clients could not connect to it.
    SocketAddr::from_pathname(path)?;
    let place = Place::of(path)?;
    place.is_left()?;
    let new = NewFolder::create(&place)?;
    let socket = UnixListener::bind(new.socket())?;
    fs::set_permissions(new.socket(), Permissions::from_mode(mode))?;
    let file = SocketFile {
        path: path.to_owned(),
        made: Made::of(&new.socket())?,
    };
    for _ in 0..ATTEMPTS {
        if place.is_left()? {
            match rustix::fs::unlinkat(&place.folder, place.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match place.take(&new) {
            Err(Errno::EXIST) => {}
            taken => {
                taken?;
                return Ok((socket, file));
            }
        }
    }
    Err(SocketError::InUse)
}

/// Where the socket is to be.
struct Place<'a> {
    path: &'a Path,
    folder: File,
    parent: &'a Path,
    name: &'a Path,
}

impl<'a> Place<'a> {
    fn of(path: &'a Path) -> Result<Self, SocketError> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no socket");
        let name = Path::new(path.file_name().ok_or_else(no_name)?);
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self {
            path,
            folder: open_folder(rustix::fs::CWD, parent, OFlags::empty())?,
            parent,
            name,
        })
    }

    /// Whether a socket is there whose process has ended. False: there is nothing.
    fn is_left(&self) -> Result<bool, SocketError> {
        match rustix::fs::statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Socket => {
                return Err(SocketError::NoSocket);
            }
            Ok(_) => {}
        }
        match UnixStream::connect(self.path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            _ => Err(SocketError::InUse),
        }
    }

    /// Moves the new socket here, if nothing is here.
    fn take(&self, new: &NewFolder<'_>) -> Result<(), Errno> {
        let moved =
            rustix::fs::renameat_with(&new.open, SOCKET, &self.folder, self.name, RenameFlags::NOREPLACE);
        match moved {
            // The file system cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(_) => rustix::fs::renameat(&new.open, SOCKET, &self.folder, self.name),
                }
            }
            moved => moved,
        }
    }
}

/// A new folder that only this user may enter. Dropping it removes it.
struct NewFolder<'a> {
    place: &'a Place<'a>,
    name: String,
    open: File,
}

impl<'a> NewFolder<'a> {
    fn create(place: &'a Place<'a>) -> Result<Self, SocketError> {
        for number in 0..FOLDERS_MAX {
            let name = format!(".listen-{number}");
            match rustix::fs::mkdirat(&place.folder, name.as_str(), Mode::RWXU) {
                Err(Errno::EXIST) => {}
                made => {
                    made?;
                    let open = open_folder(&place.folder, Path::new(&name), OFlags::NOFOLLOW)?;
                    return Ok(Self { place, name, open });
                }
            }
        }
        let why = "the folders .listen-0 to .listen-99 beside it are taken; remove them";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into())
    }

    /// The path of its socket. On Linux it is short, whatever the path of the folder is. Elsewhere
    /// the system refuses one that is too long.
    fn socket(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            format!("/proc/self/fd/{}/{SOCKET}", self.open.as_raw_fd()).into()
        } else {
            self.place.parent.join(&self.name).join(SOCKET)
        }
    }
}

impl Drop for NewFolder<'_> {
    fn drop(&mut self) {
        // If this fails, an empty folder is left that nobody needs.
        rustix::fs::unlinkat(&self.open, SOCKET, AtFlags::empty()).ok();
        rustix::fs::unlinkat(&self.place.folder, self.name.as_str(), AtFlags::REMOVEDIR).ok();
    }
}

/// What a folder is opened for: on Linux not even to be read.
#[cfg(target_os = "linux")]
const HOW: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HOW: OFlags = OFlags::RDONLY;

/// Opens a folder for paths that begin there. On Linux it need not be readable.
fn open_folder(from: impl std::os::fd::AsFd, path: &Path, more: OFlags) -> Result<File, Errno> {
    let flags = HOW | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    rustix::fs::openat(from, path, flags, Mode::empty()).map(File::from)
}

#[cfg(test)]
mod tests;

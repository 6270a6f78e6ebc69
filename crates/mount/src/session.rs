//! Mounting, and the end of it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use fuser::{Config, MountOption, Session, SessionACL};
use onefold::repository::Repository;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::file_system::FileSystem;
use crate::fuse::Fuse;
use crate::options::MountOptions;
use crate::warm::{self, Warmer};

/// Threads that take requests. Most of them wait for the storage.
const THREADS: usize = 8;
/// How far the kernel reads ahead, where it lets us say so.
const READ_AHEAD_KIB: u32 = 1024;
/// How often the wait looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);
/// How long an end waits for reads that still run, so that their pins can be ended.
const LAST_READS: Duration = Duration::from_secs(3);

/// Why nothing can be mounted, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is nothing to mount on.
    #[error("{}: {why}; name an empty folder to mount on", .at.display())]
    NoFolder {
        /// The named place.
        at: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system has no FUSE.
    #[error(
        "this system has no /dev/fuse: load the kernel's module (`modprobe fuse`); a container needs \
         `--device /dev/fuse --cap-add SYS_ADMIN`"
    )]
    NoFuse,
    /// The system refused.
    #[error(
        "cannot mount on {}: {source}. Users other than root need the program `fusermount3` of the \
         package fuse3, and for --allow-other the line `user_allow_other` in /etc/fuse.conf",
        .at.display()
    )]
    Refused {
        /// The named place.
        at: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The backups could not be listed.
    #[error(transparent)]
    Store(#[from] onefold::Error),
    /// The connection to the kernel broke.
    #[error("the file system on {} ended: {source}", .at.display())]
    Ended {
        /// Where it was mounted.
        at: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A mounted file system. Dropping this ends it.
pub struct Mounted {
    at: PathBuf,
    files: Arc<FileSystem>,
    repository: &'static dyn Repository,
    ended: Receiver<io::Result<()>>,
    /// Whether a program has mounted it: then the session unmounts at its end, by the path.
    is_helped: bool,
    is_ended: bool,
}

/// Mounts the backups of a repository on a folder.
///
/// The repository lives as long as the process, because the kernel's requests may outlive every
/// other owner: a program that mounts leaks it (`Box::leak`).
///
/// # Errors
/// [`MountError`].
pub fn mount(
    repository: &'static dyn Repository,
    at: &Path,
    options: MountOptions,
) -> Result<Mounted, MountError> {
    let no_folder = |why: String| MountError::NoFolder {
        at: at.to_owned(),
        why,
    };
    let found = std::fs::metadata(at).map_err(|error| no_folder(error.to_string()))?;
    if !found.is_dir() {
        return Err(no_folder("is no folder".to_owned()));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(MountError::NoFuse);
    }
    let absolute = at.canonicalize().map_err(|error| no_folder(error.to_string()))?;
    let checks = options.is_for_all && options.checks_permissions;
    let is_for_all = options.is_for_all;
    let files = Arc::new(FileSystem::new(repository, options)?);
    let refused = |source| MountError::Refused {
        at: at.to_owned(),
        source,
    };
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config.acl = if is_for_all {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    let (warmer, wishes) = Warmer::new();
    let fuse = Fuse::new(Arc::clone(&files), checks, warmer);
    let device = mount_here(&absolute, is_for_all, checks).map_err(refused)?;
    let is_helped = device.is_none();
    let session = match device {
        Some(device) => Session::from_fd(fuse, device, config.acl, config),
        None => {
            config.mount_options = options_of(checks);
            Session::new(fuse, &absolute, &config)
        }
    };
    let session = session.map_err(|source| {
        if !is_helped {
            // Nobody serves it.
            drop(unmount(&absolute));
        }
        refused(source)
    })?;
    let warms = warm::start(wishes, Arc::clone(&files), session.notifier());
    if let Err(error) = warms {
        // Reads are slower without it, and right.
        tracing::debug!(target: crate::TARGET, "{error}");
    }
    let (tell, ended) = bounded(1);
    let serve = move || {
        // Nobody may be left to hear it.
        drop(tell.send(session.run()));
    };
    let thread = thread::Builder::new().name("mount".to_owned()).spawn(serve);
    thread.map_err(refused)?;
    read_far_ahead(&absolute);
    Ok(Mounted {
        at: absolute,
        files,
        repository,
        ended,
        is_helped,
        is_ended: false,
    })
}

/// Mounts as the superuser may. `None`: this user may not, and a program has to help.
///
/// The session that mounts itself also unmounts at its end, and by the path: by then another file
/// system may be mounted there.
fn mount_here(at: &Path, is_for_all: bool, checks: bool) -> io::Result<Option<OwnedFd>> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    for (is_set, option) in [(is_for_all, ",allow_other"), (checks, ",default_permissions")] {
        if is_set {
            data.push_str(option);
        }
    }
    let data = CString::new(data)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    match rustix::mount::mount("onefold", at, "fuse", flags, Some(&*data)) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The same options for the program that helps.
fn options_of(checks: bool) -> Vec<MountOption> {
    let name = MountOption::FSName("onefold".to_owned());
    let mut options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        name,
    ];
    if checks {
        options.push(MountOption::DefaultPermissions);
    }
    options
}

/// Lets the kernel read further ahead, if this process may say so.
fn read_far_ahead(at: &Path) {
    let Ok(found) = std::fs::metadata(at) else { return };
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&setting, READ_AHEAD_KIB.to_string()) {
        tracing::debug!(target: crate::TARGET, "{setting}: {error}");
    }
}

impl Mounted {
    /// The folder on which it is mounted.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Waits until it is unmounted, or `stop` is set; then unmounts it.
    ///
    /// # Errors
    /// [`MountError::Ended`], [`MountError::Refused`].
    pub fn wait(mut self, stop: &AtomicBool) -> Result<(), MountError> {
        loop {
            match self.ended.recv_timeout(LOOK) {
                Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => {
                    self.is_ended = true;
                    break;
                }
                Ok(Err(source)) => {
                    self.is_ended = true;
                    let at = self.at.clone();
                    return Err(MountError::Ended { at, source });
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.end()
    }

    /// Whether the kernel's requests have ended.
    fn is_served(&self) -> bool {
        !matches!(self.ended.try_recv(), Err(TryRecvError::Empty))
    }

    /// Unmounts it. If a program still uses it, its folder is free all the same, and that program
    /// gets errors as soon as this process ends.
    fn end(&mut self) -> Result<(), MountError> {
        let unmounted = if self.is_ended { Ok(()) } else { unmount(&self.at) };
        self.is_ended = true;
        self.files.close();
        let clock = self.repository.clock();
        let began = clock.monotonic();
        let is_over = || self.files.is_idle() && (!self.is_helped || self.is_served());
        while !is_over() && clock.monotonic().saturating_sub(began) < LAST_READS {
            clock.sleep(Duration::from_millis(5));
        }
        unmounted.map_err(|source| MountError::Refused {
            at: self.at.clone(),
            source,
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(target: crate::TARGET, "{error}");
        }
    }
}

/// Unmounts, also while programs use it.
fn unmount(at: &Path) -> io::Result<()> {
    let Err(errno) = rustix::mount::unmount(at, UnmountFlags::DETACH) else {
        return Ok(());
    };
    if errno != Errno::PERM {
        return Err(errno.into());
    }
    let done = std::process::Command::new("fusermount3")
        .args(["-u", "-z", "--"])
        .arg(at)
        .status()?;
    if done.success() {
        return Ok(());
    }
    Err(errno.into())
}

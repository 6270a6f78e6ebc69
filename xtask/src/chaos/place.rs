//! The place of a run's store: a plain folder, or a tmpfs or an ext4 image that is small enough to
//! fill up. Mounting needs root. If it is impossible, the run says so and uses a plain folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::draws::Draws;

/// The kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Tmpfs { mib: u64 },
    Ext4 { mib: u64, has_journal: bool },
}

impl Kind {
    pub(super) fn draw(draws: &mut Draws) -> Self {
        let sort = draws.below(10);
        let mib = draws.within(10, 48);
        let has_journal = draws.chance(50);
        match sort {
            0..=2 => Self::Plain,
            3..=5 => Self::Tmpfs { mib },
            // A journal takes 4 MiB.
            _ => Self::Ext4 {
                mib: mib + if has_journal { 6 } else { 0 },
                has_journal,
            },
        }
    }

    /// Whether it has a small size of its own, which a run can fill up.
    pub(super) fn is_small(self) -> bool {
        self != Self::Plain
    }
}

/// A place. Dropping it unmounts and removes it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) kind: Kind,
    folder: PathBuf,
    is_mounted: bool,
    /// Why it is not of the drawn kind.
    pub(super) instead: Option<String>,
}

impl Place {
    /// Makes a place of `kind` below `work`, or a plain folder if mounting fails.
    pub(super) fn new(kind: Kind, work: &Path) -> Result<Self> {
        let folder = work.join("place");
        fs::create_dir_all(&folder)?;
        let mounted = match kind {
            Kind::Plain => {
                return Ok(Self {
                    kind,
                    folder,
                    is_mounted: false,
                    instead: None,
                });
            }
            Kind::Tmpfs { mib } => {
                let options = format!("size={mib}m,mode=0755");
                tool("mount", ["-t", "tmpfs", "-o", &options, "onefold-chaos"], &folder)
            }
            Kind::Ext4 { mib, has_journal } => {
                let image = image(work)?;
                File::create(&image)?.set_len(mib << 20)?;
                let journal = if has_journal {
                    "has_journal"
                } else {
                    "^has_journal"
                };
                let made = tool("mkfs.ext4", ["-q", "-F", "-m", "0", "-O", journal], &image).and_then(|()| {
                    let image = image.to_string_lossy();
                    tool("mount", ["-t", "ext4", "-o", "loop", &*image], &folder)
                });
                // A mounted image exists until it is unmounted.
                fs::remove_file(&image)?;
                made
            }
        };
        Ok(match mounted {
            Ok(()) => Self {
                kind,
                folder,
                is_mounted: true,
                instead: None,
            },
            Err(why) => {
                let instead = Some(format!("{kind:?} cannot be had ({why:#}): a plain folder"));
                Self {
                    kind: Kind::Plain,
                    folder,
                    is_mounted: false,
                    instead,
                }
            }
        })
    }

    /// The folder of the store.
    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Free bytes.
    pub(super) fn free(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// Fills a small place until about so many bytes are left. Does nothing on a plain one: that is
    /// the user's disk.
    pub(super) fn fill(&self, leave: u64) -> Result<()> {
        if !self.kind.is_small() {
            return Ok(());
        }
        let mut ballast = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast())?;
        let block = [0x5a_u8; 4096];
        while self.free()? > leave {
            match ballast.write(&block) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(28) => break,
                Err(error) => return Err(error.into()),
            }
        }
        // File systems that allocate blocks late allocate them now.
        ballast.sync_all().or_else(|error| {
            if error.raw_os_error() == Some(28) {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        Ok(())
    }

    /// Deletes the ballast.
    pub(super) fn release(&self) -> Result<()> {
        match fs::remove_file(self.ballast()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted {
            // A process that reads the folder (a search index, an administrator) makes it busy.
            for _ in 0..50 {
                if tool("umount", [], &self.folder).is_ok() {
                    return;
                }
                super::watch::pause_ms(100);
            }
        }
    }
}

/// The path of an image: in memory if possible, because otherwise each barrier would wait for the
/// disk below.
fn image(work: &Path) -> Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let name = work.file_name().context("a run has a folder of its own")?;
        return Ok(memory.join(name).with_extension("image"));
    }
    Ok(work.join("image"))
}

fn tool<'a>(program: &str, args: impl IntoIterator<Item = &'a str>, last: impl AsRef<OsStr>) -> Result<()> {
    let ran = Command::new(program)
        .args(args)
        .arg(last)
        .output()
        .with_context(|| format!("running {program}"))?;
    if !ran.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&ran.stderr).trim());
    }
    Ok(())
}

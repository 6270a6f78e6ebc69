//! The identity of this machine and of its boot: it distinguishes a dead process from one on
//! another host.
//!
//! A file lock shows only processes of this kernel: on a shared folder, another host may hold a
//! lock that is invisible here. So every lock names its host. Only for locks of this host the file
//! lock counts.

use std::fs;
use std::io::Read;

use rustix::fd::AsFd;
use rustix::fs::fstatfs;

/// 16 bytes, or unknown.
type Id = Option<[u8; 16]>;

/// A machine and its boot. Machine ids are hashed, because the system asks not to publish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Host {
    machine: Id,
    boot: Id,
}

/// What this process can find out about a process on some host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// If it runs, it runs under this kernel: a file lock shows it.
    Here,
    /// It ran before this machine's last boot, and only this machine uses the file system.
    BeforeBoot,
    /// Nothing can be found out.
    OutOfSight,
}

const HEADER: &str = "onefold process 1";
/// A host in text is far shorter. A longer file does not come from this program.
const TEXT_BYTES_MAX: u64 = 256;

impl Host {
    /// This machine and boot.
    pub(super) fn here() -> Self {
        let machine = fs::read_to_string("/etc/machine-id")
            .ok()
            .map(|text| text.trim().to_owned());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self {
            machine: machine
                .filter(|text| !text.is_empty())
                .map(|text| hash("machine", &text)),
            boot: boot.map(|text| hash("boot", text.trim())),
        }
    }

    /// Another host, distinguished by a number.
    #[cfg(test)]
    pub(super) fn another(number: u8) -> Self {
        Self {
            machine: Some([number; 16]),
            boot: Some([number; 16]),
        }
    }

    /// This machine in an earlier boot.
    #[cfg(test)]
    pub(super) fn before_boot(self) -> Self {
        Self {
            machine: self.machine.or(Some([1; 16])),
            boot: Some([9; 16]),
        }
    }

    /// What can be found out about a process that named its host `other`. `one_machine`: no other
    /// machine's kernel uses the file system.
    pub(super) fn reach(&self, other: &Self, one_machine: bool) -> Reach {
        match (self.boot, other.boot) {
            (Some(here), Some(there)) if here == there => Reach::Here,
            (Some(_), Some(_)) if one_machine && self.machine.is_some() && self.machine == other.machine => {
                Reach::BeforeBoot
            }
            _ => Reach::OutOfSight,
        }
    }

    /// The text in a lock file.
    pub(super) fn to_text(self) -> String {
        format!(
            "{HEADER}\nmachine {}\nboot {}\n",
            hex(self.machine),
            hex(self.boot)
        )
    }

    /// The inverse of [`Self::to_text`]; `None` for any other text.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let machine = unhex(lines.next()?.strip_prefix("machine ")?)?;
        let boot = unhex(lines.next()?.strip_prefix("boot ")?)?;
        (text.ends_with('\n') && lines.next().is_none()).then_some(Self { machine, boot })
    }

    /// Reads a host from a file; `None` if it has none.
    pub(super) fn read(file: &fs::File) -> Option<Self> {
        let mut text = String::new();
        file.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
        Self::from_text(&text)
    }

    /// As a part of a file's name.
    pub(super) fn to_file_name(self) -> String {
        format!("{}-{}", hex(self.machine), hex(self.boot))
    }

    /// The inverse of [`Self::to_file_name`].
    pub(super) fn from_file_name(text: &str) -> Option<Self> {
        let (machine, boot) = text.split_once('-')?;
        Some(Self {
            machine: unhex(machine)?,
            boot: unhex(boot)?,
        })
    }
}

/// Whether a single kernel has mounted the folder's file system from its own disk.
pub(super) fn is_of_one_machine(folder: impl AsFd) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    const ZFS: u64 = 0x2fc1_2fc1;
    const BCACHEFS: u64 = 0xca45_1a4e;
    const TMPFS: u64 = 0x0102_1994;
    #[expect(clippy::allow_attributes, reason = "the field's type differs by architecture")]
    #[allow(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "a magic number, compared by its bits"
    )]
    let kind = fstatfs(folder).map(|stat| stat.f_type as u64 & 0xffff_ffff);
    kind.is_ok_and(|kind| [EXT4, XFS, BTRFS, F2FS, ZFS, BCACHEFS, TMPFS].contains(&kind))
}

fn hash(what: &str, text: &str) -> [u8; 16] {
    let digest = blake3::derive_key(&format!("onefold 2024 host identity: {what}"), text.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id
}

fn hex(id: Id) -> String {
    match id {
        None => "unknown".to_owned(),
        Some(id) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn unhex(text: &str) -> Option<Id> {
    if text == "unknown" {
        return Some(None);
    }
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok()?;
    Some(Some(number.to_be_bytes()))
}

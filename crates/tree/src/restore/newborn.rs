//! The owner, group and ACL that a folder gives to a file created in it.

/// The properties of a file that was just created in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newborn {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// It has no attributes and no ACL, and its mode is the requested one without the umask.
    pub(super) plain: bool,
}

/// The bits that the process removes from the mode of new files. `None`: the system does not tell.
pub(super) fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

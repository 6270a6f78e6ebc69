//! How a long-running process gives memory back.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt has no safe wrapper in the crates we use")
)]

/// Blocks of so many bytes and more get mappings of their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 1 << 20;

/// From now on, freed large blocks go back to the system at once. By itself, glibc keeps them for
/// the thread that used them: a server of many clients would hold several times what they need.
/// Costs a process some page faults.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_large_memory() {
    // SAFETY: the call takes no pointers, and glibc locks its own state. If it refuses the value,
    // everything stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Other allocators decide by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_memory() {}

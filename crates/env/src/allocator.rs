//! How a long-running process gives memory back.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt has no safe wrapper in the crates we use")
)]

/// Blocks of so many bytes and more get mappings of their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 1 << 20;

/// So many free bytes each of glibc's arenas keeps. With its default of 128 KiB, regions that go
/// from one thread to another cost a tenth of a server's processor time: memory is given back, and
/// faulted in again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SPARE_BYTES: i32 = 4 << 20;

/// From now on, freed large blocks go back to the system at once. By itself, glibc keeps them for
/// the thread that used them: a server of many clients would hold several times what they need.
/// Costs a process some page faults.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_large_memory() {
    // SAFETY: the calls take no pointers, and glibc locks its own state. If it refuses a value,
    // everything stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES);
    }
}

/// Other allocators decide by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_memory() {}

//! Errors of system calls, in the form that the kernel wants.

use rustix::io::Errno;

pub(crate) fn reply(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

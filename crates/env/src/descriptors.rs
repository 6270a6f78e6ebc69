//! How many descriptors this process may have: each open file, folder and connection has one.
//!
//! A system gives a process few of them at first, 1,024 for example, for the sake of programs that
//! use `select`. A process may raise this soft limit up to its hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors to the most that the system allows this process. If the system
/// refuses, the limit stays as it is.
pub fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(target: "onefold::storage", %error, "the limit of descriptors was not raised");
    }
}

/// The number of descriptors that this process may have. `None`: any number.
#[must_use]
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

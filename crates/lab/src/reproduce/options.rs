//! Options of experiments with loads on disks.

use std::path::Path;
use std::time::Duration;

use crate::disk::Access;

/// Options of experiments with loads on disks. What is `None` or empty is the extent's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskOptions<'a> {
    /// A file with the distribution of duplicates: each line has the number of duplicates of a
    /// content, and the number of such contents.
    pub distribution: Option<&'a Path>,
    /// How a process chooses blocks.
    pub access: Option<Access>,
    /// How long a load runs: that of table 1, that of each mode of table 2, and that of each number
    /// of hosts.
    pub load: Option<Duration>,
    /// Seconds between two iterations of the finder; 0 for no pause.
    pub interval_s: Option<u32>,
    /// The numbers of hosts.
    pub hosts: &'a [u16],
    /// The program that is a host: this one. Without it, hosts are threads.
    pub host_program: Option<&'a Path>,
}

impl DiskOptions<'_> {
    /// The given options, as on the command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.distribution.map(|_| "--distribution FILE".to_owned()));
        words.extend(self.access.map(|access| format!("--access {access}")));
        let minutes = self.load.map(|load| load.as_secs_f64() / 60.0);
        words.extend(minutes.map(|minutes| format!("--minutes {minutes}")));
        words.extend(self.interval_s.map(|seconds| format!("--interval-s {seconds}")));
        if !self.hosts.is_empty() {
            let hosts: Vec<String> = self.hosts.iter().map(u16::to_string).collect();
            words.push(format!("--hosts {}", hosts.join(",")));
        }
        words
    }
}

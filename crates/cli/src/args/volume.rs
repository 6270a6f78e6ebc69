//! Arguments of the commands for volumes.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use volume_server::Place;

use super::prune::size;

/// The port that IANA has assigned to NBD.
const NBD_PORT: u16 = 10_809;

#[derive(Debug, Subcommand)]
pub(crate) enum Volume {
    /// Make a volume of zeros in a pool
    Create(VolumeCreate),
    /// List the volumes of a pool
    List {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
    },
    /// Remove a volume and all its data; no client may have it open
    Remove {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
        /// The volume
        #[arg(value_name = "NAME")]
        name: String,
        /// Remove it also if it holds data
        #[arg(long)]
        force: bool,
    },
    /// Give a volume another size; clients see it when they open the volume again
    Resize {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
        /// The volume
        #[arg(value_name = "NAME")]
        name: String,
        /// The new size, as in 2G or 2GiB
        #[arg(value_name = "SIZE", value_parser = size)]
        size: u64,
        /// Also make it smaller: what is behind the new end is lost
        #[arg(long)]
        force: bool,
    },
    /// Change settings of a volume; also while it is used
    Set(VolumeSet),
    /// Share now all blocks that are equal, also those that are written often, and free the others
    Drain {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
        /// The volume; by default all of the pool that share blocks
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Serve the volumes of a pool by NBD, each as an export of its name, and share equal blocks in
    /// the background
    Serve(VolumeServe),
    /// Count all references again, and make the duplicates index anew; needed after the index was
    /// lost or damaged. Nobody may serve the pool meanwhile
    Recount {
        /// The pool's file or disk
        #[arg(value_name = "POOL")]
        pool: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VolumeCreate {
    /// The pool's file or disk
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// The name: at most 255 bytes, without a slash
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The size, as in 1G or 1GiB; rounded up to 4 KiB
    #[arg(value_name = "SIZE", value_parser = size)]
    pub(crate) size: u64,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true)
    .args(["deduplicate", "compare_bytes", "interval", "quiet_intervals", "finder_limit"]))]
pub(crate) struct VolumeSet {
    /// The pool's file or disk
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// The volume
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Settings of a volume.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// Whether the finder shares equal blocks of the volume (default: on)
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub(crate) deduplicate: Option<Switch>,
    /// Whether the finder compares all bytes before it shares a block, and not only fingerprints
    /// (default: off)
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub(crate) compare_bytes: Option<Switch>,
    /// How often the finder examines what was written, as in 5m, 30s or 1h (default: 5m)
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) interval: Option<u32>,
    /// The finder leaves a block alone that was written in the last so many intervals; 0 leaves
    /// none (default: 2)
    #[arg(long, value_name = "COUNT")]
    pub(crate) quiet_intervals: Option<u8>,
    /// Bytes that the finder may examine each second, as in 100M or 100MiB; 0 lifts the limit
    /// (default: 0)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) finder_limit: Option<u64>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// It is
    On,
    /// It is not
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeServe {
    /// The pool's file or disk
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// Where clients connect (may be repeated): unix:PATH, or tcp:HOST[:PORT] (default port: 10809)
    #[arg(long, value_name = "PLACE", required = true, value_parser = listen_place)]
    pub(crate) listen: Vec<ListenPlace>,
    /// Who may connect to the Unix sockets, as the mode of a file: 600 for this user alone, 660 for
    /// its group too
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub(crate) socket_mode: u32,
    /// Read and write the pool past the system's page cache
    #[arg(long)]
    pub(crate) direct: bool,
    /// Memory for the map of each volume, as in 112M: 2 MiB for each GiB of it hold the whole map
    #[arg(long, value_name = "SIZE", default_value = "112M", value_parser = size)]
    pub(crate) map_cache: u64,
    /// Memory that caches the duplicates index, as in 64M
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    pub(crate) index_cache: u64,
    /// Speak TLS on TCP: the server's certificate, with those between it and the authority, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of this authority, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_clients: Option<PathBuf>,
    /// Serve clients on TCP that do not speak TLS, too
    #[arg(long, requires = "tls_certificate", conflicts_with = "tls_clients")]
    pub(crate) tls_optional: bool,
    /// When the server is told to end, wait this long for clients that do not receive their answers
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub(crate) patience: u32,
}

/// A place to listen at, as it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenPlace {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl ListenPlace {
    /// The server's form of the place. A Unix socket gets this mode.
    pub(crate) fn place(&self, mode: u32) -> Place {
        match self {
            Self::Unix(path) => Place::Unix {
                path: path.clone(),
                mode,
            },
            Self::Tcp(place) => Place::Tcp(place.clone()),
        }
    }
}

fn listen_place(text: &str) -> Result<ListenPlace, String> {
    match text.split_once(':') {
        Some(("unix", path)) if !path.is_empty() => Ok(ListenPlace::Unix(path.into())),
        Some(("tcp", place)) if !place.is_empty() => {
            let is_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
            let has_port = place.rsplit_once(':').is_some_and(is_port);
            let place = if has_port {
                place.to_owned()
            } else {
                format!("{place}:{NBD_PORT}")
            };
            Ok(ListenPlace::Tcp(place))
        }
        _ => Err("a place is unix:PATH, or tcp:HOST[:PORT], as in tcp:127.0.0.1:10809".to_owned()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600)
        .ok_or_else(|| {
            "a mode is three digits from 0 to 7, and this user may connect: 600, 660, 666".to_owned()
        })
}

/// Parses a time: a number with s, m, h or d.
fn seconds(text: &str) -> Result<u32, String> {
    let wrong = || "a time is a number from 1 on with s, m, h or d, as in 5m; at most 365d".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u32 = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit);
    seconds
        .filter(|seconds| (1..=365 * 86_400).contains(seconds))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_kind_and_tcp_a_port() {
        let tcp = |place: &str| Ok(ListenPlace::Tcp(place.to_owned()));
        assert_eq!(
            listen_place("unix:/run/a:b"),
            Ok(ListenPlace::Unix("/run/a:b".into()))
        );
        assert_eq!(listen_place("tcp:host"), tcp("host:10809"));
        assert_eq!(listen_place("tcp:host:0"), tcp("host:0"));
        assert_eq!(listen_place("tcp:[::1]"), tcp("[::1]:10809"));
        assert_eq!(listen_place("tcp:[::1]:7"), tcp("[::1]:7"));
        for text in ["", "unix:", "tcp:", "/run/x", "udp:x", "127.0.0.1:10809"] {
            assert!(listen_place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("30s"), Ok(30));
        assert_eq!(seconds("365d"), Ok(31_536_000));
        for text in [
            "",
            "5",
            "m",
            "0s",
            "-1s",
            "5x",
            "5 m",
            "366d",
            "99999999999h",
            "1h30m",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_octal_and_let_the_user_in() {
        assert_eq!(mode("660"), Ok(0o660));
        assert_eq!(mode("0600"), Ok(0o600));
        for text in ["", "060", "1777", "888", "rw", "400"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}

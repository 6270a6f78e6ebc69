//! Arguments of `backup`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cli_support::values::{capping_of, parse_cap};
use onefold::walk::Marker;
use onefold::{Cap, Capping, VerifyKnown};

use super::typed::{TagList, file_name, marker, name, tag_list};
use super::{prune, verify};

/// How regions are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionMode {
    /// Compress with zstd where that makes data smaller
    Auto,
    /// Compress everything with zstd
    On,
    /// Compress nothing
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Files and folders; to follow a symbolic link, end its path with `/`
    #[arg(
        value_name = "PATH",
        required_unless_present_any = ["stdin", "files_from", "files_from_verbatim", "files_from_raw"]
    )]
    pub(crate) paths: Vec<PathBuf>,
    /// Of the backups of the profile, make only the one of this name (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Back up standard input
    #[arg(long, conflicts_with_all = ["paths", "stdin_from_command"])]
    pub(crate) stdin: bool,
    /// Run the command after `--` and back up its standard output; make no backup if it fails
    #[arg(long, conflicts_with = "image_kib")]
    pub(crate) stdin_from_command: bool,
    /// The name under which standard input, or a command's output, is stored
    #[arg(long, default_value = "stdin", value_name = "NAME", value_parser = name)]
    pub(crate) stdin_filename: String,
    /// Make a backup even if standard input, or the command's output, is empty
    #[arg(long)]
    pub(crate) stdin_allow_empty: bool,
    /// Treat the one path as a disk image: fixed chunks of this many KiB; holes are not read or
    /// stored
    #[arg(
        long,
        value_name = "KIB",
        conflicts_with = "stdin",
        value_parser = clap::value_parser!(u32).range(4..=1024)
    )]
    pub(crate) image_kib: Option<u32>,
    /// Read only the changed blocks of the image that this file lists, as `nbdinfo --map` or `rbd
    /// diff` print them (`-`: standard input); take the others from its last backup
    #[arg(long, value_name = "FILE", requires = "image_kib", conflicts_with = "resume")]
    pub(crate) changed_blocks: Option<PathBuf>,
    /// The backup since which the listed blocks have changed (default: the image's last one)
    #[arg(long, value_name = "ID", requires = "changed_blocks")]
    pub(crate) changed_since: Option<String>,
    /// Continue an interrupted backup of the same stream or image, without reading again the bytes
    /// that it stored; these must still be the same
    #[arg(long)]
    pub(crate) resume: bool,
    /// Leave out entries that match this pattern (may be repeated): `/x` from the root, `./x` from
    /// here, `x` in any folder; `\[` is a bracket
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Like --exclude, but `a` matches `A` too
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<String>,
    /// Leave out entries that match a line of this file; variables and `~` are not replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Like --exclude-file, but `a` matches `A` too
    #[arg(long, value_name = "FILE")]
    pub(crate) iexclude_file: Vec<PathBuf>,
    /// Leave out the contents of folders with a CACHEDIR.TAG
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Leave out the contents of folders with a file of this name, which begins with HEADER (may be
    /// repeated)
    #[arg(long, value_name = "NAME[:HEADER]", value_parser = marker())]
    pub(crate) exclude_if_present: Vec<Marker>,
    /// Leave out what files of this name, such as `.gitignore`, say about their folder; their lines
    /// are patterns by the rules of Git (may be repeated)
    #[arg(long, value_name = "NAME", value_parser = file_name())]
    pub(crate) ignore_file: Vec<OsString>,
    /// Leave out files with more bytes (K, M, G, T)
    #[arg(long, value_name = "SIZE", value_parser = prune::size)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Back up also what the lines of this file name (`-`: standard input): patterns of paths, such
    /// as `/home/*/docs`; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Vec<PathBuf>,
    /// Like --files-from, but each line is a path as it is
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from_verbatim: Vec<PathBuf>,
    /// Like --files-from-verbatim, but paths end with NUL bytes, as `find -print0` prints them
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from_raw: Vec<PathBuf>,
    /// Do not enter other file systems that are mounted below the given paths
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Make no backup if nothing has changed since the last one of the series
    #[arg(long)]
    pub(crate) skip_if_unchanged: bool,
    /// Change nothing in the store, and say what a backup would add to it
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// How many small files are read at a time [default: 4]; 1 suits a slow disk with one head
    #[arg(
        long,
        env = "ONEFOLD_READ_CONCURRENCY",
        value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub(crate) read_concurrency: Option<u16>,
    /// Read all files, also those that look unchanged
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Ignore ctime when deciding whether a file has changed
    #[arg(long)]
    pub(crate) ignore_ctime: bool,
    /// Ignore the inode number when deciding whether a file has changed
    #[arg(long)]
    pub(crate) ignore_inode: bool,
    /// A tag for the backup (may be repeated, or separated by commas)
    #[arg(long, value_name = "TAG[,TAG]", value_parser = tag_list)]
    pub(crate) tag: Vec<TagList>,
    /// The host name to store (default: this host's)
    #[arg(short = 'H', long, value_name = "HOST", value_parser = name)]
    pub(crate) host: Option<String>,
    /// What to compress
    #[arg(long, value_enum, default_value_t = CompressionMode::Auto, env = "ONEFOLD_COMPRESSION")]
    pub(crate) compression: CompressionMode,
    /// zstd level, 1 to 19; a higher level is smaller and slower (default: 1, and 3 while the
    /// network to a server is what slows the backup)
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) compression_level: Option<i32>,
    /// Which containers each 20 MB of the backup may refer to; data in others is stored again,
    /// which keeps restores fast: `least:BYTES` (K, M, G), those that hold this much of the 20 MB;
    /// a number, so many containers; `adaptive:NUMBER`, so many on average; `none`, all (default:
    /// `least:56K`). Not for a series of layout `hybrid`, which refers to whole segments
    #[arg(long, value_name = "CAP", env = "ONEFOLD_CAP", value_parser = parse_cap)]
    pub(crate) cap: Option<Cap>,
    /// Containers that the last COUNT times 20 MB referred to do not count towards the cap, which
    /// must not be `none` (default: 3 with `least:BYTES`, else 0)
    #[arg(long, hide = true, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) cap_remember: Option<u32>,
    /// Memory in MiB for looking up chunks, 1 to 65536
    #[arg(long, default_value_t = 32, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(crate) lookup_mib: u64,
    /// Which prefetched catalogs leave memory first
    #[arg(long, hide = true, value_enum, default_value_t = EvictionMode::Lru)]
    pub(crate) lookup_eviction: EvictionMode,
    /// Read and verify this share of the containers that the backup refers to, such as 5%, or
    /// `none`; damaged data is stored again (default: 1%, and no more than 1 GiB)
    #[arg(long, value_name = "SHARE", env = "ONEFOLD_VERIFY_KNOWN", value_parser = verify::parse_share)]
    pub(crate) verify_known: Option<f64>,
}

impl Backup {
    /// The share of reused containers to read, and its limit in bytes.
    pub(crate) fn verify_known(&self) -> VerifyKnown {
        verify::known(self.verify_known)
    }

    /// The bound on fragmentation, if an option sets one.
    pub(crate) fn capping(&self) -> Option<Capping> {
        let usual = || self.cap_remember.map(|_| Capping::default().cap);
        let cap = self.cap.or_else(usual)?;
        Some(capping_of(cap, self.cap_remember))
    }
}

/// Which prefetched catalogs are forgotten first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictionMode {
    /// The least recently used catalog, as a whole
    Lru,
    /// A bucket of fingerprints; a catalog is loaded again once a tenth of it has left
    Threshold,
    /// A bucket of fingerprints; its catalogs are loaded again when a hook names them
    Immediate,
}

//! The library's options for the arguments of `onefold backup`.

use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use onefold::{BackupOptions, Compression, Eviction, IngestOptions, LookupMemory, SLOW_LINE_LEVEL};

use crate::args::{Backup, CompressionMode, EvictionMode, TagList};
use crate::commands::host;

/// The library's options for these arguments.
pub(super) fn of(args: &Backup) -> Result<BackupOptions> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (compression, slow_line_level) = compression(args.compression, args.compression_level);
    let usual = IngestOptions::for_cores(cores);
    let readers = args.read_concurrency.map_or(usual.readers, usize::from);
    Ok(BackupOptions::default()
        .host(host(args.host.as_deref())?)
        .user(std::env::var_os("USER").unwrap_or_default().as_bytes().to_vec())
        .tags(TagList::all(&args.tag))
        .only_if_changed(args.skip_if_unchanged)
        .ingest(
            usual
                .readers(readers)
                .compression(compression)
                .slow_line_level(slow_line_level)
                .capping(args.capping())
                .lookup(LookupMemory {
                    eviction: match args.lookup_eviction {
                        EvictionMode::Lru => Eviction::ContainerLru,
                        EvictionMode::Threshold => Eviction::Threshold(10),
                        EvictionMode::Immediate => Eviction::Immediate,
                    },
                    ..LookupMemory::within(args.lookup_mib << 20)
                })
                .verify_known(args.verify_known())
                .is_resumable(args.stdin || args.stdin_from_command || args.image_kib.is_some()),
        ))
}

/// How regions are compressed, and the level while the network is what slows this down.
pub(in crate::commands) fn compression(
    mode: CompressionMode,
    typed_level: Option<i32>,
) -> (Compression, Option<i32>) {
    let level = typed_level.unwrap_or(onefold::COMPRESSION_LEVEL);
    let compression = match mode {
        CompressionMode::Auto => Compression::Auto { level },
        CompressionMode::On => Compression::Level(level),
        CompressionMode::Off => Compression::Off,
    };
    // A level that the user chose does not change.
    (compression, typed_level.is_none().then_some(SLOW_LINE_LEVEL))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use onefold::{Compression, IngestOptions};

    use crate::args::{Cli, Command};

    /// A backup by the command line compresses like one by the library.
    #[test]
    fn the_command_line_compresses_as_the_library_does() {
        let cli =
            Cli::try_parse_from(["onefold", "-r", "store", "backup", "folder"]).expect("a command line");
        let Command::Backup(args) = cli.command else {
            panic!("another command")
        };
        let (ours, library) = (
            super::of(&args).expect("options").ingest,
            IngestOptions::for_cores(1),
        );
        let level = |options: &IngestOptions| match options.compression {
            Compression::Auto { level } => (level, options.slow_line_level),
            _ => panic!("another way to compress"),
        };
        assert_eq!(level(&ours), level(&library));
    }
}

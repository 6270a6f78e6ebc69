//! Arguments of `onefold-lab record`, `replay` and `synthesize`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Record {
    /// Make this socket for clients: `onefold -r unix:///SOCKET/NAMESPACE`
    #[arg(long, value_name = "SOCKET")]
    pub(crate) listen: PathBuf,
    /// The socket of the server: `onefold serve FOLDER --socket /SOCKET`
    #[arg(long, value_name = "SOCKET")]
    pub(crate) to: PathBuf,
    /// Write the recording to this new file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Recordings; each is one stream
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The socket of a server whose folder is a copy of the recorded server's, from before the
    /// recordings
    #[arg(long, value_name = "SOCKET")]
    pub(crate) to: PathBuf,
    /// How many streams run at the same time. More recordings take turns; fewer are replayed
    /// several times, each time as a series of its own [default: all recordings once, at the same
    /// time]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) streams: Option<u16>,
    /// Use this namespace of the server instead of the recorded ones
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Fail if the server does not send a message for so many seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) patience: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Synthesize {
    /// The file to back up
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The namespace: `unix:///SOCKET/NAMESPACE` or `ssh://HOST/FOLDER/NAMESPACE`
    #[arg(short, long, value_name = "PLACE")]
    pub(crate) repo: String,
    /// The file's pieces, a line each: `copy OFFSET LENGTH` for bytes that the last backup of the
    /// series has there, `data LENGTH` for bytes to read
    #[arg(long, value_name = "FILE")]
    pub(crate) pieces: PathBuf,
    /// The host name of the series
    #[arg(short = 'H', long, value_name = "HOST")]
    pub(crate) host: String,
    /// The name of the stream in the series
    #[arg(long, default_value = "stdin", value_name = "NAME")]
    pub(crate) name: PathBuf,
    /// Cut fixed chunks of this many KiB, as for disk images
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(4..=1024))]
    pub(crate) image_kib: Option<u32>,
}

//! Arguments of the commands for a server.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The addresses on which a server listens by default: all of IPv4 that the machine has.
const LISTEN: &str = "0.0.0.0:8440";

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The server's folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The address and port for clients
    #[arg(long, default_value = LISTEN, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Vec<String>,
    /// When the server is told to end, wait this long for backups and restores that run
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) patience: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Make a server's folder, with an identity and a store
    Init(ServerInit),
    /// Invite a machine into a namespace; prints what to type there
    Invite(Invite),
    /// List and revoke the tokens of the machines that have joined
    #[command(subcommand)]
    Token(Token),
}

#[derive(Debug, Args)]
pub(crate) struct ServerInit {
    /// The server's folder, new or empty
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// The server's folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The namespace: the machine's own, or one that several machines share
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: String,
    /// What the machine may do: write, list, read
    #[arg(long, default_value = "write,list,read", value_name = "RIGHTS")]
    pub(crate) rights: String,
    /// Where the machine reaches this server; by default this host's name, and port 8440
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: Option<String>,
    /// The machine's token is valid for so many days; by default until it is revoked
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// List the tokens
    List {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// End a token: its machine has no access any more
    Revoke {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The token's id, as `server token list` prints it
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The invitation, in quotes: onefold://HOST:PORT/NAMESPACE#...
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: String,
    /// The name of this machine in the server's list; by default user and host
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
}

//! Arguments of the commands for a server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use onefold::TimeSpan;

use super::prune::size;
use super::typed::own_store;

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
    /// Also listen on this Unix socket, for root and the user that the server runs as
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Serve one client by standard input and output, as `ssh://` needs it; listen on nothing
    #[arg(long, conflicts_with_all = ["listen", "socket", "patience"])]
    pub(crate) stdio: bool,
    /// The namespace of that client
    #[arg(long, value_name = "NAME", requires = "stdio")]
    pub(crate) namespace: Option<String>,
    /// What that client may do; by default everything
    #[arg(long, value_name = "RIGHTS", requires = "stdio")]
    pub(crate) rights: Option<String>,
    /// The memory that clients share, in MiB: with less, fewer backups run at once
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u32).range(288..))]
    pub(crate) memory_mib: u32,
    /// When the server is told to end, wait this long for backups and restores that run, then cut
    /// them, and wait at most as long again until what they sent is stored
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
    /// List namespaces, make them, and set their limits
    #[command(subcommand)]
    Namespace(Namespace),
    /// List tenants, and make them: a tenant is a store of its own
    #[command(subcommand)]
    Tenant(Tenant),
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
    /// What the machine may do: write, list, read, forget, hold; in a vault also maintain
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

#[derive(Debug, Subcommand)]
pub(crate) enum Namespace {
    /// List the namespaces, with their limits
    List {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Make a namespace
    Add {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Its name
        name: String,
        /// The tenant that it belongs to
        #[arg(long, default_value = "main", value_name = "NAME")]
        tenant: String,
        /// Make it a vault: it holds a store of its machines, which have its keys; the server
        /// cannot read it
        #[arg(long, conflicts_with = "tenant")]
        vault: bool,
    },
    /// Set limits of a namespace, which no right of a token lifts
    Set {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The namespace
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Limits {
    /// No machine forgets a younger backup, as in 30d; `none` lifts the limit
    #[arg(long, value_name = "SPAN", value_parser = or_none::<TimeSpan>)]
    pub(crate) minimum_age: Option<OrNone<TimeSpan>>,
    /// Bytes that the namespace's backups may add to the store, as in 500G; `none` lifts the limit
    #[arg(long, value_name = "SIZE", value_parser = or_none::<Size>)]
    pub(crate) quota: Option<OrNone<Size>>,
    /// Bytes a second that its clients may send and receive, as in 10M; `none` lifts the limit
    #[arg(long, value_name = "SIZE", value_parser = or_none::<Size>)]
    pub(crate) rate: Option<OrNone<Size>>,
}

/// A value, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

fn or_none<T: FromStr>(text: &str) -> Result<OrNone<T>, T::Err> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    text.parse().map(|value| OrNone(Some(value)))
}

/// A number of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        size(text).map(Self)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// List the tenants, with the places of their stores
    List {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Make a tenant, with a store that has the server's password
    Add {
        /// The server's folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Its name
        name: String,
        /// Put its store into this folder or object store (s3:https://HOST/BUCKET/PREFIX), not into
        /// the server's folder
        #[arg(long, value_name = "STORE", value_parser = own_store())]
        store: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The invitation, in quotes: onefold://HOST:PORT/NAMESPACE#...; with `-`, the first line of
    /// standard input, so that no list of processes and no history of a shell shows it
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: String,
    /// The name of this machine in the server's list; by default user and host
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
}

//! Where the store is: in a folder, or on a server.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use client::{Listings, RemoteRepository, Target, Tokens};
use onefold::repository::Repository;
use onefold::{Store, SystemClock, SystemEntropy};
use transport::{Address, Traffic, Tunnel};

use super::{open, typed};
use crate::args::Global;

/// The place of a store.
pub(super) enum Place {
    /// A local or mounted folder.
    Folder(PathBuf),
    /// A namespace of a server, over the network.
    Server(Address),
    /// A namespace of a server, through a tunnel.
    Tunnel(Tunnel),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Server(address) => address.fmt(f),
            Self::Tunnel(tunnel) => tunnel.fmt(f),
        }
    }
}

/// A store that is open.
pub(super) enum Opened {
    Local(Box<Store>),
    Remote(Box<RemoteRepository>),
}

impl Opened {
    pub(super) fn repository(&self) -> &dyn Repository {
        match self {
            Self::Local(store) => &**store,
            Self::Remote(remote) => &**remote,
        }
    }

    /// Bytes that crossed the network, if the store is on a server.
    pub(super) fn traffic(&self) -> Option<&Traffic> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote.traffic()),
        }
    }

    /// The store, if this process has it open.
    pub(super) fn local(&self) -> Option<&Store> {
        match self {
            Self::Local(store) => Some(store),
            Self::Remote(_) => None,
        }
    }
}

/// The place that the arguments name.
pub(super) fn place(global: &Global) -> Result<Place> {
    let Some(named) = &global.repo else {
        bail!("which store? Name its folder with --repo, or set ONEFOLD_REPOSITORY")
    };
    match elsewhere(named) {
        Some(place) => place,
        None => {
            typed::ensure_expanded(named)?;
            Ok(Place::Folder(named.clone()))
        }
    }
}

/// The place that the text names, if it is meant as one that is no folder.
pub(super) fn elsewhere(named: &Path) -> Option<Result<Place>> {
    let text = named.to_str()?;
    if Address::is_meant(text) {
        return Some(text.parse().map(Place::Server).map_err(Into::into));
    }
    let is_tunnel = Tunnel::is_meant(text);
    is_tunnel.then(|| text.parse().map(Place::Tunnel).map_err(Into::into))
}

/// Opens the store that the arguments name, wherever it is.
pub(super) fn open_anywhere(global: &Global) -> Result<Opened> {
    match place(global)? {
        Place::Folder(_) => Ok(Opened::Local(Box::new(open(global)?))),
        Place::Server(address) => reach(Target::Network(tokens()?.find(&address)?)),
        Place::Tunnel(tunnel) => reach(Target::Tunnel {
            tunnel,
            ssh: set("ONEFOLD_SSH").unwrap_or_else(|| "ssh".into()),
        }),
    }
}

fn reach(target: Target) -> Result<Opened> {
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn onefold::Entropy> = Arc::new(SystemEntropy);
    let mut repository = RemoteRepository::open(target, &clock, &entropy)?;
    // Without such a folder, backups read more from the server.
    if let Some(folder) = folder_for("ONEFOLD_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
        && let Ok(listings) = Listings::of(&folder, &clock)
    {
        repository = repository.keeping(listings);
    }
    Ok(Opened::Remote(Box::new(repository)))
}

/// The folder that the first variable names, or `onefold` in that of the second, or in the home.
fn folder_for(own: &str, of_all: &str, in_home: &str) -> Option<PathBuf> {
    set(own)
        .map(PathBuf::from)
        .or_else(|| set(of_all).map(|folder| PathBuf::from(folder).join("onefold")))
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(in_home).join("onefold")))
}

/// A variable of the environment that is not empty.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// This user's tokens: in `ONEFOLD_CONFIG_DIR`, or else where the system keeps configurations.
pub(super) fn tokens() -> Result<Tokens> {
    let folder = folder_for("ONEFOLD_CONFIG_DIR", "XDG_CONFIG_HOME", ".config");
    match folder {
        Some(folder) => Ok(Tokens::of(folder)),
        None => bail!("where are this user's tokens? Set ONEFOLD_CONFIG_DIR or HOME"),
    }
}

//! Where the store is: in a folder, or on a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use client::{RemoteRepository, Tokens};
use onefold::repository::Repository;
use onefold::{Store, SystemClock};
use transport::{Address, Traffic};

use super::{open, typed};
use crate::args::Global;

/// The place of a store.
pub(super) enum Place {
    /// A local or mounted folder.
    Folder(PathBuf),
    /// A namespace of a server.
    Server(Address),
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
    match address(named) {
        Some(address) => Ok(Place::Server(address?)),
        None => {
            typed::ensure_expanded(named)?;
            Ok(Place::Folder(named.clone()))
        }
    }
}

/// The address that the text is, if it is meant as one.
pub(super) fn address(named: &Path) -> Option<Result<Address>> {
    let text = named.to_str().filter(|text| Address::is_meant(text))?;
    Some(text.parse().map_err(anyhow::Error::from))
}

/// Opens the store that the arguments name, wherever it is.
pub(super) fn open_anywhere(global: &Global) -> Result<Opened> {
    match place(global)? {
        Place::Folder(_) => Ok(Opened::Local(Box::new(open(global)?))),
        Place::Server(address) => {
            let access = tokens()?.find(&address)?;
            let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
            Ok(Opened::Remote(Box::new(RemoteRepository::open(access, &clock)?)))
        }
    }
}

/// This user's tokens: in `ONEFOLD_CONFIG_DIR`, or else where the system keeps configurations.
pub(super) fn tokens() -> Result<Tokens> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = set("ONEFOLD_CONFIG_DIR")
        .or_else(|| set("XDG_CONFIG_HOME").map(|folder| folder.join("onefold")))
        .or_else(|| set("HOME").map(|home| home.join(".config/onefold")));
    match folder {
        Some(folder) => Ok(Tokens::of(folder)),
        None => bail!("where are this user's tokens? Set ONEFOLD_CONFIG_DIR or HOME"),
    }
}

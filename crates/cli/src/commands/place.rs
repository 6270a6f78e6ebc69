//! Where the store is: in a folder, in an object store, or on a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cli_support::{Code, code_of};
use client::{Listings, RemoteRepository, RemoteStorage, Target, Tokens};
use onefold::repository::Repository;
use onefold::{
    CacheOptions, Credential, Env, ObjectStoreLocation, ObjectStoreOptions, Store, SystemClock, SystemEntropy,
};
use transport::{Address, Traffic, Tunnel};

use super::{open_with, typed};
use crate::args::{Far, Global};
use crate::{folders, password};

/// The place of a store.
pub(super) enum Place {
    /// A local or mounted folder.
    Folder(PathBuf),
    /// A prefix in a bucket of an object store.
    ObjectStore(ObjectStoreLocation),
    /// A namespace of a server, over the network.
    Server(Address),
    /// A namespace of a server, through a tunnel.
    Tunnel(Tunnel),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::ObjectStore(location) => location.fmt(f),
            Self::Server(address) => address.fmt(f),
            Self::Tunnel(tunnel) => tunnel.fmt(f),
        }
    }
}

/// An option could have no effect, as it turned out when the server had answered.
#[derive(Debug)]
pub(crate) struct IdleOption(pub(crate) Arc<clap::Error>);

impl fmt::Display for IdleOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for IdleOption {}

/// A store that is open.
pub(super) enum Opened {
    /// In a folder, or in an object store.
    Local(Box<Store>),
    /// In a vault of a server.
    Vault { store: Box<Store>, traffic: Traffic },
    /// The server has it open.
    Remote(Box<RemoteRepository>),
}

impl Opened {
    /// The repository, for all of the process's life.
    pub(super) fn leaked(self) -> &'static dyn Repository {
        match self {
            Self::Local(store) | Self::Vault { store, .. } => Box::leak(store),
            Self::Remote(remote) => Box::leak(remote),
        }
    }

    pub(super) fn repository(&self) -> &dyn Repository {
        match self {
            Self::Local(store) | Self::Vault { store, .. } => &**store,
            Self::Remote(remote) => &**remote,
        }
    }

    /// Bytes that crossed the network, if the store is on a server.
    pub(super) fn traffic(&self) -> Option<&Traffic> {
        match self {
            Self::Local(_) => None,
            Self::Vault { traffic, .. } => Some(traffic),
            Self::Remote(remote) => Some(remote.traffic()),
        }
    }

    /// The store, if this process has it open.
    pub(super) fn local(&self) -> Option<&Store> {
        match self {
            Self::Local(store) | Self::Vault { store, .. } => Some(store),
            Self::Remote(_) => None,
        }
    }
}

/// The place that the arguments name.
pub(super) fn place(global: &Global) -> Result<Place> {
    let Some(named) = &global.repo else {
        bail!("which store? Name its folder with --repo, or set ONEFOLD_REPOSITORY")
    };
    place_of(named)
}

/// The place that the text names.
pub(super) fn place_of(named: &Path) -> Result<Place> {
    match elsewhere(named) {
        Some(place) => place,
        None => {
            typed::ensure_expanded(named)?;
            Ok(Place::Folder(named.to_owned()))
        }
    }
}

/// The place that the text names, if it is meant as one that is no folder.
pub(super) fn elsewhere(named: &Path) -> Option<Result<Place>> {
    let text = named.to_str()?;
    if ObjectStoreLocation::is_meant(text) {
        return Some(text.parse().map(Place::ObjectStore).map_err(Into::into));
    }
    if Address::is_meant(text) {
        return Some(text.parse().map(Place::Server).map_err(Into::into));
    }
    let is_tunnel = Tunnel::is_meant(text);
    is_tunnel.then(|| text.parse().map(Place::Tunnel).map_err(Into::into))
}

/// Opens the store that the arguments name, wherever it is.
pub(super) fn open_anywhere(global: &Global) -> Result<Opened> {
    let is_at_hand = password::is_at_hand(global);
    let credential: (&dyn Fn() -> Result<Credential>, bool) = (&|| password::existing(global), is_at_hand);
    let opened = open_as(global, &global.far, place(global)?, credential).inspect_err(|error| {
        if code_of(error) == Code::WrongPassword {
            password::forget_typed();
        }
    })?;
    match (&opened, &global.idle_on_server) {
        (Opened::Remote(_), Some(idle)) => Err(IdleOption(Arc::clone(idle)).into()),
        _ => Ok(opened),
    }
}

/// Opens the store at a place, with the password that the function gives; as of `open_with`.
pub(super) fn open_as(
    global: &Global,
    far: &Far,
    place: Place,
    credential: (&dyn Fn() -> Result<Credential>, bool),
) -> Result<Opened> {
    let shown = place.to_string();
    let open = |env: &Env, reads_content, cache: Option<CacheOptions>| {
        let store = open_with(global, env, reads_content, cache, &shown, credential)?;
        Ok::<_, anyhow::Error>(Box::new(store))
    };
    let target = match place {
        Place::Folder(folder) => {
            let env = Store::find_local(&folder).with_context(|| shown.clone())?;
            return Ok(Opened::Local(open(&env, true, None)?));
        }
        Place::ObjectStore(location) => {
            let options = far.options(&location)?;
            let env = Env::object_store(&location, &options).map_err(onefold::Error::from)?;
            return Ok(Opened::Local(open(&env, true, far.cache())?));
        }
        Place::Server(address) => over_network(&address)?,
        Place::Tunnel(tunnel) => through(tunnel),
    };
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn onefold::Entropy> = Arc::new(SystemEntropy);
    let mut repository = match client::open(target, &clock, &entropy)? {
        client::Opened::Repository(repository) => repository,
        client::Opened::Vault(vault) => {
            let traffic = vault.traffic().clone();
            let reads_content = vault.has_right("read") || vault.has_right("maintain");
            let env = Env::system(Arc::new(vault));
            let store = open(&env, reads_content, None)?;
            return Ok(Opened::Vault { store, traffic });
        }
    };
    // Without such a folder, backups read more from the server.
    if let Some(folder) = folders::cache()
        && let Ok(listings) = Listings::of(&folder, &clock)
    {
        repository = repository.keeping(listings);
    }
    Ok(Opened::Remote(Box::new(repository)))
}

/// Opens the store that the arguments name so that nothing changes in it.
pub(super) fn open_for_dry_run(global: &Global) -> Result<Opened> {
    let place = place(global)?;
    let env = match &place {
        Place::Folder(folder) => Store::find_local(folder).with_context(|| place.to_string())?,
        Place::ObjectStore(location) => {
            let options = global.far.options(location)?;
            Env::object_store(location, &options).map_err(onefold::Error::from)?
        }
        Place::Server(_) | Place::Tunnel(_) => {
            bail!("a dry run needs the store itself, and {place} is on a server; leave --dry-run out")
        }
    };
    let env = onefold::dry_run(&env);
    let credential: (&dyn Fn() -> Result<Credential>, bool) = (&|| password::existing(global), false);
    let store = open_with(global, &env, true, None, &place.to_string(), credential)?;
    Ok(Opened::Local(Box::new(store)))
}

fn over_network(address: &Address) -> Result<Target> {
    Ok(Target::Network(tokens()?.find(address)?))
}

fn through(tunnel: Tunnel) -> Target {
    Target::Tunnel {
        tunnel,
        ssh: folders::variable("ONEFOLD_SSH").unwrap_or_else(|| "ssh".into()),
    }
}

/// The storage of another store, in a folder or in an object store.
pub(super) fn find_other(named: &Path) -> Result<Env> {
    let env = match elsewhere(named).transpose()? {
        None => Store::find_local(named)?,
        Some(Place::ObjectStore(location)) => {
            Env::object_store(&location, &ObjectStoreOptions::default()).map_err(onefold::Error::from)?
        }
        Some(place) => bail!("{place} is on a server, which has its keys"),
    };
    Ok(env)
}

/// The vault at a place, for a new store. `None`: the place is none of a server.
pub(super) fn vault(place: &Place) -> Result<Option<RemoteStorage>> {
    let target = match place {
        Place::Folder(_) | Place::ObjectStore(_) => return Ok(None),
        Place::Server(address) => over_network(address)?,
        Place::Tunnel(tunnel) => through(tunnel.clone()),
    };
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn onefold::Entropy> = Arc::new(SystemEntropy);
    match client::open(target, &clock, &entropy)? {
        client::Opened::Vault(vault) if !vault.has_right("maintain") => {
            bail!("{place}: to make a store in a vault, a token needs the right to maintain it")
        }
        client::Opened::Vault(vault) => Ok(Some(vault)),
        client::Opened::Repository(_) => bail!(
            "{place} is on a server, in a store that the server has; only a vault takes another one \
             (`onefold server namespace add --vault`)"
        ),
    }
}

/// This user's tokens: in `ONEFOLD_CONFIG_DIR`, or else where the system keeps configurations.
pub(super) fn tokens() -> Result<Tokens> {
    match folders::config() {
        Some(folder) => Ok(Tokens::of(folder)),
        None => bail!("where are this user's tokens? Set ONEFOLD_CONFIG_DIR or HOME"),
    }
}

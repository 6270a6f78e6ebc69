//! `onefold init`

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cli_support::{Code, Output};
use onefold::{Access, Env, InitOptions, OpenOptions, Store};
use serde::Serialize;

use super::place::{Place, find_other, place, vault};
use crate::args::{Global, Init};
use crate::password;

#[derive(Serialize)]
struct Done {
    message_type: &'static str,
    id: String,
    repository: String,
}

pub(crate) fn run(global: &Global, args: &Init, output: Output) -> Result<Code> {
    let place = place(global)?;
    if args.chunk_kib.is_some_and(|kib| !kib.is_power_of_two()) {
        bail!("--chunk-kib takes a power of two, such as 8 or 16");
    }
    let vault = vault(&place)?;
    if args.group_access {
        match &place {
            Place::Folder(_) => {}
            Place::ObjectStore(_) => {
                bail!("--group-access is for a folder: credentials decide who uses an object store")
            }
            Place::Server(_) | Place::Tunnel(_) => {
                bail!("--group-access is for a folder: the rights of tokens decide who uses a vault")
            }
        }
    }
    let credential = password::initial(global)?;
    password::tell_of_readers(global.password_file.as_deref(), output)?;
    let domain_of = match &args.domain_of {
        None => None,
        Some(other) => {
            let env = find_other(other).with_context(|| other.display().to_string())?;
            let other_credential = match &args.from_password_file {
                Some(file) => password::from_file(file)?,
                None => credential.clone(),
            };
            let store = Store::open(&env, &other_credential, &OpenOptions::default())
                .with_context(|| other.display().to_string())?;
            Some(store)
        }
    };
    let mut options = InitOptions::default();
    if let Some(other) = &domain_of {
        let settings = other.settings();
        options = options
            .chunk_avg_bytes(settings.chunk_avg_bytes)
            .node_avg_children(settings.node_avg_children);
    }
    if let Some(kib) = args.chunk_kib {
        options = options.chunk_avg_bytes(kib.saturating_mul(1024));
    }
    let reserve_mib = match (&place, args.reserve_mib) {
        (Place::ObjectStore(_), _) => 0,
        (_, given) => given.unwrap_or(1),
    };
    let options = options
        .container_bytes(args.container_mib.saturating_mul(1 << 20))
        .label(label())
        .series(args.series.change())
        .reserve_bytes(usize::from(reserve_mib) << 20);
    let shown = place.to_string();
    let (env, access) = match (&place, vault) {
        (Place::Folder(folder), _) => {
            let access = access(folder, args)?;
            let env = Env::create_local_for(folder, access).map_err(onefold::Error::from)?;
            (env, access)
        }
        (Place::ObjectStore(location), _) => {
            let options = global.far.options(location)?;
            let env = Env::create_object_store(location, &options).map_err(onefold::Error::from)?;
            (env, Access::Owner)
        }
        (_, Some(vault)) => (Env::system(Arc::new(vault)), Access::Owner),
        (_, None) => bail!("{shown} is no vault"),
    };
    let store =
        Store::init(&env, &credential, &options, domain_of.as_ref()).with_context(|| shown.clone())?;
    output.line(format!("created store {} in {shown}", store.id()))?;
    if access == Access::Group {
        output.line("The group of this folder may read and write the store.")?;
    }
    if matches!(credential, onefold::Credential::None) {
        let reader = match place {
            Place::Folder(_) => "Anyone who can read this folder",
            Place::ObjectStore(_) => "Anyone who can read this bucket",
            Place::Server(_) | Place::Tunnel(_) => "The server",
        };
        output.line(format!(
            "It has no password. {reader} can read everything in the store."
        ))?;
    } else {
        output
            .line("Keep the password safe: without it nobody can read what is in the store, you included.")?;
    }
    output.object(&Done {
        message_type: "initialized",
        id: store.id().to_string(),
        repository: shown,
    })?;
    Ok(Code::Success)
}

/// The access to the new store. Refuses a folder that is set for its group, unless the option is
/// given: the folder may have that mode for another reason.
fn access(folder: &Path, args: &Init) -> Result<Access> {
    if args.group_access {
        return Ok(Access::Group);
    }
    if matches!(Access::of(folder), Ok(Access::Group)) && Store::find_local(folder).is_err() {
        bail!(
            "{0} is open to its group, and so would be all that is stored in it; say --group-access if that is meant, or \
             take it back with `chmod g-s {0}`",
            folder.display()
        );
    }
    Ok(Access::Owner)
}

/// The label of a password's slot: who made it.
pub(crate) fn label() -> String {
    let user = std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_else(|_| "unknown".to_owned());
    format!(
        "{user}@{}",
        hostname::get()
            .map(|host| host.to_string_lossy().into_owned())
            .unwrap_or_default()
    )
}

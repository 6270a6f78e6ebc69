//! `onefold server tenant`

use std::path::Path;

use anyhow::{Context, Result, bail};
use cli_support::{Code, Output};
use onefold::{InitOptions, OpenOptions};
use serde::Serialize;
use server::{Home, StorePlace, TenantInfo};

use crate::args::{Global, Tenant};
use crate::commands::init::label;
use crate::commands::place::{Place, elsewhere};
use crate::password;

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    tenant: String,
    store: String,
}

pub(super) fn run(global: &Global, args: &Tenant, output: Output) -> Result<Code> {
    match args {
        Tenant::List { folder } => {
            let all = Home::open(folder)?.tenants()?;
            output.line(format!("{:24}  {}", "tenant", "store"))?;
            for TenantInfo { name, store } in all {
                output.result(format!("{name:24}  {store}"))?;
                output.object(&Row {
                    message_type: "tenant",
                    tenant: name,
                    store: store.to_string(),
                })?;
            }
        }
        Tenant::Add { folder, name, store } => {
            let home = Home::open(folder)?;
            let credential = password::existing(global)?;
            // The server opens all stores with one password, so a typing error is found now.
            home.store("main", &credential, &OpenOptions::default())?;
            let store = store.as_deref().map(place).transpose()?;
            let options = InitOptions::default().label(label());
            home.add_tenant(name, store.as_ref(), &credential, &options)?;
            output.line(format!("made the tenant {name}"))?;
        }
    }
    Ok(Code::Success)
}

/// The place that was typed for a tenant's store.
fn place(named: &Path) -> Result<StorePlace> {
    match elsewhere(named).transpose()? {
        Some(Place::ObjectStore(location)) => Ok(StorePlace::ObjectStore(location)),
        Some(place) => bail!("{place} is on a server; a tenant's store is in a folder or an object store"),
        None => {
            let folder = std::path::absolute(named).context("the folder of the store")?;
            Ok(StorePlace::Folder(folder))
        }
    }
}

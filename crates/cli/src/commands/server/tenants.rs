//! `onefold server tenant`

use anyhow::{Context, Result};
use cli_support::{Code, Output};
use onefold::{InitOptions, OpenOptions};
use serde::Serialize;
use server::Home;

use crate::args::{Global, Tenant};
use crate::commands::init::label;
use crate::password;

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    tenant: String,
}

pub(super) fn run(global: &Global, args: &Tenant, output: Output) -> Result<Code> {
    match args {
        Tenant::List { folder } => {
            for tenant in Home::open(folder)?.tenants()? {
                output.result(&tenant)?;
                output.object(&Row {
                    message_type: "tenant",
                    tenant,
                })?;
            }
        }
        Tenant::Add { folder, name, store } => {
            let home = Home::open(folder)?;
            let credential = password::existing(global)?;
            // The server opens all stores with one password, so a typing error is found now.
            home.store("main", &credential, &OpenOptions::default())?;
            let store = store
                .as_ref()
                .map(std::path::absolute)
                .transpose()
                .context("the folder of the store")?;
            let options = InitOptions::default().label(label());
            home.add_tenant(name, store.as_deref(), &credential, &options)?;
            output.line(format!("made the tenant {name}"))?;
        }
    }
    Ok(Code::Success)
}

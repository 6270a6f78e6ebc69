//! `onefold server namespace`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, bytes};
use serde::Serialize;
use server::{Home, Limits, NamespaceInfo};

use crate::args::Namespace;

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    namespace: String,
    tenant: Option<String>,
    vault: bool,
    minimum_age: Option<String>,
    quota: Option<u64>,
    rate: Option<u64>,
}

impl From<NamespaceInfo> for Row {
    fn from(info: NamespaceInfo) -> Self {
        Self {
            message_type: "namespace",
            namespace: info.name,
            vault: info.tenant.is_none(),
            tenant: info.tenant,
            minimum_age: info.limits.minimum_age.map(|age| age.to_string()),
            quota: info.limits.quota_bytes,
            rate: info.limits.rate_bytes,
        }
    }
}

pub(super) fn run(args: &Namespace, output: Output) -> Result<Code> {
    match args {
        Namespace::List { folder } => list(&Home::open(folder)?, output)?,
        Namespace::Add {
            folder,
            name,
            vault: true,
            ..
        } => {
            Home::open(folder)?.ensure_vault(name)?;
            output.line(format!(
                "the namespace {name} is a vault: `onefold init` makes a store in it, with a machine's own password"
            ))?;
        }
        Namespace::Add {
            folder, name, tenant, ..
        } => {
            Home::open(folder)?.ensure_namespace(name, Some(tenant))?;
            output.line(format!("the namespace {name} belongs to the tenant {tenant}"))?;
        }
        Namespace::Set {
            folder,
            name,
            limits: new,
        } => {
            let home = Home::open(folder)?;
            let limits = home.change_limits(name, |limits| Limits {
                minimum_age: new.minimum_age.map_or(limits.minimum_age, |age| age.0),
                quota_bytes: new
                    .quota
                    .map_or(limits.quota_bytes, |quota| quota.0.map(|size| size.0)),
                rate_bytes: new
                    .rate
                    .map_or(limits.rate_bytes, |rate| rate.0.map(|size| size.0)),
            })?;
            let is_vault = |info: &NamespaceInfo| info.name == *name && info.tenant.is_none();
            tell(name, &limits, home.namespaces()?.iter().any(is_vault), output)?;
        }
    }
    Ok(Code::Success)
}

fn tell(name: &str, limits: &Limits, is_vault: bool, output: Output) -> Result<()> {
    // The server cannot tell the backups of a vault apart.
    if !is_vault {
        output.line(match limits.minimum_age {
            Some(age) => format!("{name}: no machine forgets a backup that is younger than {age}"),
            None => format!("{name}: a backup may be forgotten at any age"),
        })?;
        output.line(match limits.quota_bytes {
            Some(quota) => format!("{name}: its backups may add {} to the store", bytes(quota)),
            None => format!("{name}: its backups may add any number of bytes to the store"),
        })?;
    }
    output.line(match limits.rate_bytes {
        Some(rate) => format!(
            "{name}: its machines send and receive {} a second at most",
            bytes(rate)
        ),
        None => format!("{name}: its machines send and receive as fast as they can"),
    })?;
    Ok(())
}

fn list(home: &Home, output: Output) -> Result<()> {
    let all = home.namespaces()?;
    if !all.is_empty() {
        output.line(format!(
            "{:24}  {:12}  {:>11}  {:>10}  {:>10}",
            "namespace", "tenant", "minimum age", "quota", "rate"
        ))?;
    }
    for info in all {
        let age = info.limits.minimum_age.map(|age| age.to_string());
        output.result(format!(
            "{:24}  {:12}  {:>11}  {:>10}  {:>10}",
            info.name,
            info.tenant.as_deref().unwrap_or("(vault)"),
            age.as_deref().unwrap_or("-"),
            info.limits.quota_bytes.map_or_else(|| "-".to_owned(), bytes),
            info.limits.rate_bytes.map_or_else(|| "-".to_owned(), bytes)
        ))?;
        output.object(&Row::from(info))?;
    }
    Ok(())
}

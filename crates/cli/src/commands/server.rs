//! `onefold server`

mod namespaces;
mod tenants;

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use cli_support::Code;
use cli_support::output::{Output, local_time, moment, utc_time};
use onefold::{Credential, InitOptions};
use serde::Serialize;
use server::{Home, Rights};
use transport::Address;

use super::init::label;
use crate::args::{Global, Invite, Server, Token};
use crate::password;

const DAY_NANOS: i64 = 24 * 3600 * 1_000_000_000;

pub(crate) fn run(global: &Global, args: &Server, output: Output) -> Result<Code> {
    match args {
        Server::Init(args) => init(global, &args.folder, output),
        Server::Invite(args) => invite(args, output),
        Server::Token(Token::List { folder }) => list(folder, output),
        Server::Token(Token::Revoke { folder, id }) => {
            Home::open(folder)?.revoke(id)?;
            output.line(format!("revoked token {id}"))?;
            Ok(Code::Success)
        }
        Server::Namespace(args) => namespaces::run(args, output),
        Server::Tenant(args) => tenants::run(global, args, output),
    }
}

#[derive(Serialize)]
struct Made {
    message_type: &'static str,
    folder: String,
    authority: String,
}

fn init(global: &Global, folder: &Path, output: Output) -> Result<Code> {
    let credential = password::initial(global)?;
    password::tell_of_readers(global.password_file.as_deref(), output)?;
    let options = InitOptions::default().label(label());
    let (_, pin) = Home::init(folder, &credential, &options)?;
    let shown = folder.display().to_string();
    output.line(format!("made a server in {shown}"))?;
    if matches!(credential, Credential::None) {
        output.line(
            "Its store has no password. Anyone who can read this folder can read everything in the store.",
        )?;
    } else {
        output.line(
            "Keep the password safe: `onefold serve` needs it, and without it nobody can read the store.",
        )?;
    }
    output.object(&Made {
        message_type: "server_made",
        folder: shown,
        authority: pin.to_string(),
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct InvitationMade {
    message_type: &'static str,
    invitation: String,
    until: String,
}

fn invite(args: &Invite, output: Output) -> Result<Code> {
    let home = Home::open(&args.folder)?;
    let rights: Rights = args.rights.parse().map_err(|why: String| anyhow!(why))?;
    let place = match &args.address {
        Some(place) => place.clone(),
        None => {
            let host = hostname::get().context("asking for the host's name")?;
            host.to_string_lossy().into_owned()
        }
    };
    let address: Address = format!("onefold://{place}/{}", args.namespace).parse()?;
    let days = args.days.map(|days| i64::from(days) * DAY_NANOS);
    let invited = home.invite(address, rights, days)?;
    output.line("run this on the machine that is to back up here; it works once:")?;
    output.result(format!("onefold join '{}'", invited.invitation))?;
    output.line(format!("it is valid until {}", moment(invited.until)))?;
    output.object(&InvitationMade {
        message_type: "invitation",
        invitation: invited.invitation.to_string(),
        until: utc_time(invited.until),
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct TokenRow {
    message_type: &'static str,
    id: String,
    namespace: String,
    rights: String,
    machine: String,
    joined: String,
    until: Option<String>,
}

fn list(folder: &Path, output: Output) -> Result<Code> {
    let tokens = Home::open(folder)?.tokens()?;
    if !tokens.is_empty() {
        output.line(format!(
            "{:16}  {:19}  {:16}  {:24}  machine",
            "id", "joined", "namespace", "rights"
        ))?;
    }
    for (id, token) in tokens {
        let until = token.until.map(|until| format!("  until {}", moment(until)));
        output.result(format!(
            "{id:16}  {:19}  {:16}  {:24}  {}{}",
            local_time(token.made),
            token.namespace,
            token.rights,
            token.label,
            until.unwrap_or_default()
        ))?;
        output.object(&TokenRow {
            message_type: "token",
            id,
            namespace: token.namespace,
            rights: token.rights,
            machine: token.label,
            joined: utc_time(token.made),
            until: token.until.map(utc_time),
        })?;
    }
    Ok(Code::Success)
}

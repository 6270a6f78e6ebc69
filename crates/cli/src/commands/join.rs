//! `onefold join`

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result};
use cli_support::{Code, Output};
use onefold::SystemClock;
use serde::Serialize;
use transport::Invitation;

use super::init::label;
use super::place::tokens;
use crate::args::Join;

/// No invitation is longer.
const INVITATION_BYTES_MAX: u64 = 4096;

#[derive(Serialize)]
struct Joined {
    message_type: &'static str,
    repository: String,
    rights: String,
}

pub(crate) fn run(args: &Join, output: Output) -> Result<Code> {
    let mut line = String::new();
    let text = match args.invitation.as_str() {
        "-" => {
            let longest = std::io::stdin().take(INVITATION_BYTES_MAX);
            BufReader::new(longest)
                .read_line(&mut line)
                .context("reading the invitation from standard input")?;
            line.trim()
        }
        text => text,
    };
    let invitation: Invitation = text.parse()?;
    let clock: Arc<dyn onefold::Clock> = Arc::new(SystemClock);
    let tokens = tokens()?;
    let label = args.label.clone().unwrap_or_else(label);
    let access = client::join(&invitation, &label, &clock)?;
    tokens.keep(&access)?;
    output.line(format!(
        "joined {} with the rights {}",
        access.address, access.rights
    ))?;
    output.line(format!(
        "try `onefold -r {} backup PATH`, or set ONEFOLD_REPOSITORY",
        access.address
    ))?;
    output.object(&Joined {
        message_type: "joined",
        repository: access.address.to_string(),
        rights: access.rights,
    })?;
    Ok(Code::Success)
}

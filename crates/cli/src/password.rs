//! The source of the password: file, command, environment, a credential of systemd, or a prompt on
//! a terminal.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use cli_support::output::Output;
use onefold::Credential;

use crate::args::{FromPassword, Global, NewPassword};
use crate::profile::PASSWORD_VARIABLE;

/// The variable with the password of the store to copy from.
const FROM_PASSWORD_VARIABLE: &str = "ONEFOLD_FROM_PASSWORD";

/// The password that a pipe or a person gave, and the pipe's name. Both give it once, and a process
/// may need it again: for each backup of a profile, or for the store to copy from.
static GIVEN_ONCE: Mutex<Option<(Option<PathBuf>, Credential)>> = Mutex::new(None);

/// The password of the store.
pub(crate) fn existing(global: &Global) -> Result<Credential> {
    let pipe = global.password_file.as_ref().filter(|file| {
        let is_pipe = std::fs::metadata(file).is_ok_and(|found| !found.is_file());
        is_pipe && !global.insecure_no_password
    });
    let mut given = GIVEN_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |pipe: Option<&PathBuf>| {
        let known = given.as_ref().filter(|(of, _)| of.as_ref() == pipe);
        known.map(|(_, credential)| credential.clone())
    };
    if let Some(credential) = pipe.and_then(|pipe| known(Some(pipe))) {
        return Ok(credential);
    }
    let credential = match configured(global)? {
        Some(credential) if pipe.is_none() => return Ok(credential),
        Some(credential) => credential,
        None => match known(None) {
            Some(credential) => credential,
            None => prompt("password for the store: ")?,
        },
    };
    *given = Some((pipe.cloned(), credential.clone()));
    Ok(credential)
}

/// Forgets what a person typed: it was wrong, and can be typed again.
pub(crate) fn forget_typed() {
    let mut given = GIVEN_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    given.take_if(|(pipe, _)| pipe.is_none());
}

/// Whether the password is at hand: neither a person nor a command is asked for it.
pub(crate) fn is_at_hand(global: &Global) -> bool {
    let is_set = std::env::var_os(PASSWORD_VARIABLE).is_some_and(|password| !password.is_empty());
    global.insecure_no_password
        || global.password_file.is_some()
        || global.password_command.is_none() && is_set
}

/// The password of a new store; the prompt asks for it twice.
pub(crate) fn initial(global: &Global) -> Result<Credential> {
    if let Some(credential) = configured(global)? {
        return Ok(credential);
    }
    prompt_twice("password for the new store: ")
}

/// A further password.
pub(crate) fn further(new: &NewPassword) -> Result<Credential> {
    if new.new_insecure_no_password {
        return Ok(Credential::None);
    }
    match &new.new_password_file {
        Some(file) => from_file(file),
        None => prompt_twice("new password: "),
    }
}

/// The password of the store to copy from, if anything says it.
pub(crate) fn of_source(from: &FromPassword) -> Result<Option<Credential>> {
    if from.from_insecure_no_password {
        return Ok(Some(Credential::None));
    }
    if let Some(file) = &from.from_password_file {
        return from_file(file).map(Some);
    }
    if let Some(command) = &from.from_password_command {
        return from_command(command).map(Some);
    }
    from_variable(FROM_PASSWORD_VARIABLE)
}

/// Whether anything says the password of the store to copy from.
pub(crate) fn source_is_said(from: &FromPassword) -> bool {
    from.from_insecure_no_password
        || from.from_password_file.is_some()
        || from.from_password_command.is_some()
        || std::env::var_os(FROM_PASSWORD_VARIABLE).is_some()
}

/// Asks for a password on the terminal.
pub(crate) fn ask(text: &str) -> Result<Credential> {
    prompt(text)
}

/// Whether a person can be asked.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// The password in a file.
pub(crate) fn from_file(file: &Path) -> Result<Credential> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("reading the password from {}", file.display()))?;
    first_line(&text, &file.display().to_string())
}

/// Warns if everybody on this machine can read the password file of a store.
pub(crate) fn tell_of_readers(file: Option<&Path>, output: Output) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(file) = file else { return Ok(()) };
    let metadata = file.metadata().with_context(|| file.display().to_string())?;
    if metadata.is_file() && metadata.permissions().mode() & 0o004 != 0 {
        output.warn(format!(
            "warning: everybody on this machine can read the password in {0}; `chmod 600 {0}` ends that",
            file.display()
        ))?;
    }
    Ok(())
}

fn configured(global: &Global) -> Result<Option<Credential>> {
    if global.insecure_no_password {
        return Ok(Some(Credential::None));
    }
    if let Some(file) = &global.password_file {
        return from_file(file).map(Some);
    }
    if let Some(command) = &global.password_command {
        return from_command(command).map(Some);
    }
    match from_variable(PASSWORD_VARIABLE)? {
        None => of_service(),
        found => Ok(found),
    }
}

/// The password that a command prints. Its standard input is empty: ours may have the data to back
/// up.
fn from_command(command: &str) -> Result<Credential> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running the password command")?;
    if !output.status.success() {
        bail!("the password command failed ({})", output.status);
    }
    let text = String::from_utf8(output.stdout).context("the password command's output is not UTF-8")?;
    first_line(&text, "the password command")
}

/// The password in a variable, if that is set.
fn from_variable(name: &str) -> Result<Option<Credential>> {
    match std::env::var(name) {
        Ok(password) if password.is_empty() => {
            bail!("{name} is empty; use --insecure-no-password if that is meant")
        }
        Ok(password) => Ok(Some(Credential::Password(password.into_bytes().into()))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        // The error would contain the password.
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
    }
}

/// The password that systemd passes to the unit of a service (`LoadCredential=`). A unit has an
/// empty line where the administrator made no file for it.
fn of_service() -> Result<Option<Credential>> {
    let Some(folder) = std::env::var_os("CREDENTIALS_DIRECTORY") else {
        return Ok(None);
    };
    let file = Path::new(&folder).join("onefold.password");
    match std::fs::read(&file) {
        Ok(text) if matches!(&text[..], b"" | b"\n") => Ok(None),
        Ok(_) => from_file(&file).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading the password from {}", file.display())),
    }
}

fn first_line(text: &str, origin: &str) -> Result<Credential> {
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        bail!("{origin} holds no password; use --insecure-no-password if that is meant");
    }
    Ok(Credential::Password(line.as_bytes().to_vec().into()))
}

fn prompt(text: &str) -> Result<Credential> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "no password was given and there is no terminal to ask on; set ONEFOLD_PASSWORD, \
             ONEFOLD_PASSWORD_FILE or ONEFOLD_PASSWORD_COMMAND, or use --insecure-no-password"
        );
    }
    let password = rpassword::prompt_password(text).context("reading the password")?;
    first_line(&password, "the answer")
}

fn prompt_twice(text: &str) -> Result<Credential> {
    let first = prompt(text)?;
    let second = prompt("the same again: ")?;
    if first != second {
        bail!("the two passwords differ");
    }
    Ok(first)
}

//! `onefold key`

use anyhow::Result;
use cli_support::{Code, Output};
use serde::Serialize;

use super::init::label;
use crate::args::{Global, Key};
use crate::password;

#[derive(Serialize)]
struct Slot {
    message_type: &'static str,
    id: String,
    label: String,
    password: bool,
    current: bool,
}

#[derive(Serialize)]
struct Changed<'a> {
    message_type: &'static str,
    id: &'a str,
}

fn changed(output: Output, message_type: &'static str, id: &str) -> Result<()> {
    Ok(output.object(&Changed { message_type, id })?)
}

pub(crate) fn run(global: &Global, args: &Key, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    if !matches!(args, Key::List) {
        // An earlier change may have ended before this.
        store.delete_old_configs()?;
    }
    match args {
        Key::List => {
            output.line(format!("  {:16}  {:8}  made by", "id", "password"))?;
            for slot in store.keys()? {
                let mark = if slot.is_current { '*' } else { ' ' };
                let password = if slot.has_password { "yes" } else { "none" };
                output.result(format!("{mark} {:16}  {password:8}  {}", slot.id, slot.label))?;
                output.object(&Slot {
                    message_type: "key",
                    id: slot.id,
                    label: slot.label,
                    password: slot.has_password,
                    current: slot.is_current,
                })?;
            }
        }
        Key::Add(new) => {
            password::tell_of_readers(new.new_password_file.as_deref(), output)?;
            let id = store.add_key(&password::further(new)?, &label())?;
            output.line(format!("added password slot {id}"))?;
            changed(output, "key_added", &id)?;
        }
        Key::Remove { id } => {
            store.remove_key(id)?;
            output.line(format!("removed password slot {id}"))?;
            changed(output, "key_removed", id)?;
        }
        Key::Passwd(new) => {
            password::tell_of_readers(new.new_password_file.as_deref(), output)?;
            let id = store.change_key(&password::further(new)?, &label())?;
            output.line(format!("replaced the password; its slot is {id}"))?;
            changed(output, "key_replaced", &id)?;
        }
    }
    if matches!(args, Key::List) {
        return Ok(Code::Success);
    }
    for old in store.delete_old_configs()? {
        output.warn(format!(
            "warning: {old} stays, for the storage does not let this user delete it: passwords that were removed or \
             replaced still open it. Delete it with other credentials"
        ))?;
    }
    Ok(Code::Success)
}

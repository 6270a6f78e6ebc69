//! Checks one object by its name alone, without a key.

use env::Storage;
use format::names;
use types::{ContainerId, ObjectName};

use super::{Scan, Verified};
use crate::error::ContainerError;
use crate::generations::is_absent;
use crate::identity::Identity;
use crate::load::{TAIL_GUESS_BYTES, TailBytes};

/// Checks one object by its digests. This needs no key, and finds every rotten byte.
///
/// # Errors
/// `NotAContainer` for another name; errors of the storage.
pub fn verify_digests(storage: &dyn Storage, name: &ObjectName) -> Result<Verified, ContainerError> {
    let at = match (names::parse_container(name), names::parse_mirror(name)) {
        (Some((id, generation)), _) => Identity::main(id, generation),
        (None, Some(mirror)) => identity_of_mirror(storage, name, mirror)?,
        (None, None) => return Err(ContainerError::NotAContainer { name: name.clone() }),
    };
    let mut out = Verified {
        generation: Some(at.generation),
        ..Verified::default()
    };
    Scan {
        storage,
        at,
        place: at,
        out: &mut out,
    }
    .digests(None)?;
    Ok(out)
}

/// The identity of a mirror object. Its name does not tell the kind, but its header does. The
/// trailer must agree with the header.
fn identity_of_mirror(
    storage: &dyn Storage,
    name: &ObjectName,
    mirror: names::MirrorName,
) -> Result<Identity, ContainerError> {
    let kinds = types::ContainerKind::ALL
        .into_iter()
        .filter(|kind| kind.is_mirrored());
    let names::MirrorName {
        session,
        sequence,
        generation,
    } = mirror;
    let mut last = None;
    for kind in kinds {
        let id = ContainerId {
            session,
            kind,
            sequence,
        };
        let Some(at) = Identity::mirror(id, generation) else {
            continue;
        };
        match TailBytes::read(storage, at, TAIL_GUESS_BYTES, &mut |_| {})
            .and_then(|tail| tail.check(at, None))
        {
            Ok(_) => return Ok(at),
            Err(error) if is_absent(&error) => return Err(error),
            Err(ContainerError::WrongIdentity { .. }) => {}
            Err(_) => last = Some(at),
        }
        last = last.or(Some(at));
    }
    last.ok_or_else(|| ContainerError::NotAContainer { name: name.clone() })
}

//! Arguments of `cat`.

use clap::Subcommand;
use onefold::{ChunkLocation, ContainerId, ContainerKind, SequenceNumber, SessionId, Slot};

/// What to print.
#[derive(Debug, Subcommand)]
pub(crate) enum Cat {
    /// The settings of the store, and its passwords' slots without the keys
    Config,
    /// The manifest of a backup
    Manifest {
        /// A backup's id, or `latest`
        #[arg(value_name = "ID")]
        id: String,
    },
    /// The catalog of a container: its regions, and what is in its slots
    Catalog {
        /// The container, as messages name it: `data/17/0`, or the path of its object in the store
        #[arg(value_name = "CONTAINER", value_parser = container)]
        container: ContainerId,
    },
    /// A node of a recipe: what it refers to
    Node {
        /// The container of the node, a colon, and the slot: `recipe/17/0:3`
        #[arg(value_name = "CONTAINER:SLOT", value_parser = location)]
        location: ChunkLocation,
    },
}

/// Parses `KIND/SESSION/SEQUENCE`, also with a generation, as the names of objects have it.
fn container(text: &str) -> Result<ContainerId, String> {
    let wrong = || format!("`{text}` is no container: one is `KIND/SESSION/NUMBER`, such as data/17/0");
    let parts: Vec<&str> = text.split('/').collect();
    let [folder, session, sequence] = parts[..] else {
        return Err(wrong());
    };
    let kind = ContainerKind::ALL
        .into_iter()
        .find(|kind| kind.folder() == folder);
    let session = session.parse().ok().and_then(|id| SessionId::new(id).ok());
    let sequence = sequence.split('.').next().and_then(|number| number.parse().ok());
    let sequence = sequence.and_then(|number| SequenceNumber::new(number).ok());
    match (kind, session, sequence) {
        (Some(kind), Some(session), Some(sequence)) => Ok(ContainerId {
            session,
            kind,
            sequence,
        }),
        _ => Err(wrong()),
    }
}

fn location(text: &str) -> Result<ChunkLocation, String> {
    let wrong = || format!("`{text}` is no node: one is `CONTAINER:SLOT`, such as recipe/17/0:3");
    let (of, slot) = text.rsplit_once(':').ok_or_else(wrong)?;
    let slot = slot.parse().ok().and_then(|slot| Slot::new(slot).ok());
    Ok(ChunkLocation {
        container: container(of)?,
        slot: slot.ok_or_else(wrong)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_and_nodes_are_named_as_messages_and_objects_name_them() {
        for (typed, want) in [
            ("data/17/0", Some("data/17/0")),
            ("recipe/3/12.1", Some("recipe/3/12")),
            ("small/0000000003/000010.0", Some("small/3/10")),
            ("data/17", None),
            ("date/17/0", None),
            ("data/x/0", None),
            ("data/17/-1", None),
            ("/data/17/0", None),
            ("", None),
        ] {
            assert_eq!(
                container(typed).ok().map(|id| id.to_string()).as_deref(),
                want,
                "{typed}"
            );
        }
        assert_eq!(
            location("recipe/17/0:3").unwrap().to_string(),
            "recipe/17/0 slot 3"
        );
        assert!(location("recipe/17/0").is_err() && location("recipe/17/0:x").is_err());
    }
}

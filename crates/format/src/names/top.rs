//! What is in the top folder of a store. Pure.

use types::ContainerKind;

use super::{
    BACKUPS_FOLDER, CONDEMNED_FOLDER, CONFIG_FOLDER, DAMAGED_FOLDER, GROUPS_FOLDER, INDEX_FOLDER,
    LEASE_FOLDER, MIRROR_FOLDER, REMOVED_FOLDER, RESERVE, SERIES_FOLDER, SESSIONS_FOLDER,
};

/// The names of all entries in the top folder of a store.
pub const TOP_FOLDER: [&str; 17] = [
    CONFIG_FOLDER,
    MIRROR_FOLDER,
    BACKUPS_FOLDER,
    SESSIONS_FOLDER,
    GROUPS_FOLDER,
    CONDEMNED_FOLDER,
    REMOVED_FOLDER,
    DAMAGED_FOLDER,
    LEASE_FOLDER,
    INDEX_FOLDER,
    SERIES_FOLDER,
    RESERVE,
    ContainerKind::Data.folder(),
    ContainerKind::Recipe.folder(),
    ContainerKind::Archive.folder(),
    ContainerKind::Catalog.folder(),
    ContainerKind::Small.folder(),
];

#[cfg(test)]
mod tests {
    use types::{ContainerId, Generation, SequenceNumber, SessionId};

    use super::super::*;

    #[test]
    fn objects_are_below_these_names() {
        let session = SessionId::new(1).unwrap();
        let container = |kind| ContainerId {
            session,
            kind,
            sequence: SequenceNumber::new(1).unwrap(),
        };
        let kinds = [
            ContainerKind::Data,
            ContainerKind::Recipe,
            ContainerKind::Archive,
            ContainerKind::Catalog,
            ContainerKind::Small,
        ];
        let mut names: Vec<ObjectName> = kinds
            .iter()
            .map(|kind| super::super::container(container(*kind), Generation::FIRST))
            .collect();
        names.extend(mirror(container(ContainerKind::Small), Generation::FIRST));
        names.extend([claim(session), reserve()]);
        for name in names {
            let top = name.as_str().split('/').next().unwrap();
            assert!(TOP_FOLDER.contains(&top), "{name}");
        }
    }
}

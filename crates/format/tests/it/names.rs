//! Names: each has one spelling and means one object.

use format::names::{self, ConfigCopy, IndexRunName, LeaseRole, MirrorName, SessionObject};
use format::reclaim::GroupId;
use proptest::prelude::*;
use types::{ContainerKind, Generation, ObjectName};

use crate::strategies as s;

proptest! {
    #[test]
    fn built_names_parse_back(
        id in s::container_id(), generation in s::generation(), series in s::series(), session in s::session(),
        revision in s::revision(), epoch in s::epoch(), number: u32, counter: u64, other in s::session(),
    ) {
        prop_assert_eq!(names::parse_container(&names::container(id, generation)), Some((id, generation)));
        let body = names::body(id, generation);
        prop_assert_eq!(names::parse_body(&body), Some((id, generation)));
        prop_assert_eq!(names::parse_container(&body), None);
        let mirror = names::mirror(id, generation);
        prop_assert_eq!(mirror.is_some(), id.kind.is_mirrored());
        let expected = MirrorName { session: id.session, sequence: id.sequence, generation };
        prop_assert!(mirror.is_none_or(|name| names::parse_mirror(&name) == Some(expected)));
        for copy in ConfigCopy::ALL {
            prop_assert_eq!(names::parse_config(&names::config(revision, copy)), Some((revision, copy)));
        }
        let manifest = names::manifest(series, session, revision);
        prop_assert_eq!(names::parse_manifest(&manifest), Some((series, session, revision)));
        for object in [
            SessionObject::Claim, SessionObject::Heartbeat(counter), SessionObject::Checkpoint(number),
            SessionObject::Committed, SessionObject::Lock,
        ] {
            let name = names::session_object(session, object);
            prop_assert_eq!(names::parse_session_object(&name), Some((session, object)));
        }
        let group = GroupId { series, first: session };
        prop_assert_eq!(names::parse_marks(&names::marks(group, revision)), Some((group, revision)));
        prop_assert_eq!(names::parse_condemned(&names::condemned(epoch)), Some(epoch));
        prop_assert_eq!(names::parse_removed(&names::removed(epoch)), Some(epoch));
        prop_assert_eq!(names::parse_damaged(&names::damaged(id, number)), Some((id, number)));
        for role in LeaseRole::ALL {
            prop_assert_eq!(names::parse_lease(&names::lease(role, revision)), Some((role, revision)));
        }
        for owner in [Some(series), None] {
            prop_assert_eq!(names::parse_settings(&names::settings(owner, revision)), Some((owner, revision)));
        }
        let run = IndexRunName { first: session.min(other), last: session.max(other), number };
        prop_assert_eq!(names::parse_index_run(&names::index_run(run)), Some(run));
        prop_assert_eq!(names::parse_index_image(&names::index_image(number)), Some(number));
        prop_assert_eq!(names::parse_index_unread(&names::index_unread(number)), Some(number));
    }

    #[test]
    fn objects_are_in_their_folders(
        id in s::container_id(), generation in s::generation(), series in s::series(), revision in s::revision(),
    ) {
        let within = |name: &ObjectName, folder: &str| {
            name.as_str().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        let container = names::container(id, generation);
        prop_assert!(within(&container, id.kind.folder()));
        prop_assert!(within(&container, &names::container_folder(id.kind, id.session)));
        if let Some(mirror) = names::mirror(id, generation) {
            prop_assert!(within(&mirror, &names::mirror_folder(id.session)));
        }
        let manifest = names::manifest(series, id.session, revision);
        prop_assert!(within(&manifest, &names::backups_folder(series)));
        prop_assert_eq!(manifest.parts().nth(1).and_then(names::parse_series), Some(series));
        let claim = names::claim(id.session);
        prop_assert!(within(&claim, &names::session_folder(id.session)));
        prop_assert_eq!(claim.parts().nth(1).and_then(names::parse_session), Some(id.session));
    }

    #[test]
    fn names_of_sessions_sort_by_number(a in s::session(), b in s::session()) {
        prop_assert_eq!(a.cmp(&b), names::claim(a).cmp(&names::claim(b)));
    }

    #[test]
    fn a_name_that_parses_has_one_spelling(text in "(data|recipe|small|mirror|backups|sessions|groups|damaged|lease|index|config|condemned|series)/[0-9a-fut./l+-]{0,60}") {
        format::probe::names_of_objects(text.as_bytes());
    }
}

#[test]
fn every_sample_name_is_parsed_by_exactly_one_parser() {
    for line in crate::samples::names().lines() {
        let name = ObjectName::new(line).unwrap();
        let parsed = [
            names::parse_config(&name).is_some(),
            names::parse_container(&name).is_some(),
            names::parse_body(&name).is_some(),
            names::parse_mirror(&name).is_some(),
            names::parse_manifest(&name).is_some(),
            names::parse_session_object(&name).is_some(),
            names::parse_marks(&name).is_some(),
            names::parse_condemned(&name).is_some(),
            names::parse_removed(&name).is_some(),
            names::parse_damaged(&name).is_some(),
            names::parse_lease(&name).is_some(),
            names::parse_settings(&name).is_some(),
            names::parse_index_run(&name).is_some(),
            names::parse_index_image(&name).is_some(),
            names::parse_index_unread(&name).is_some(),
            name == names::reserve(),
        ];
        assert_eq!(parsed.iter().filter(|&&p| p).count(), 1, "{line}: {parsed:?}");
        format::probe::names_of_objects(line.as_bytes());
    }
}

#[test]
fn foreign_names_are_not_ours() {
    for foreign in [
        "data/0000000000042/00000007.00",
        "data/0000000000042/00000007.4294967295",
        "data/0000000000042/0000007.0",
        "data/0000000000042/00000007",
        "data/0000000000042/00000007.0.0",
        "data/0000000000042/00000007.0/x",
        "data/0000000000042/00000007.0.bod",
        "data/0000000000042/00000007.00.body",
        "data/9999999999999/00000007.0",
        "data/0000000000042/99999999.0",
        "volume/0000000000042/00000007.0",
        "mirror/0000000000042/00000007.-1",
        "config/0.2",
        "config/0",
        "config/00.0",
        "backups/00000000000000000000000000000000/42.0",
        "backups/0000000000000000000000000000000g/0000000000042.0",
        "backups/000000000000000000000000000000/0000000000042.0",
        "sessions/0000000000042/heartbeat",
        "sessions/0000000000042/claim.0",
        "sessions/0000000000042/checkpoint.4294967296",
        "sessions/0000000000042/heartbeat.18446744073709551616",
        "condemned/18446744073709551615",
        "condemned/5",
        "lease/other.0",
        "series/00000000000000000000000000000000",
        "series/00000000000000000000000000000000.00",
        "series/0000000000000000000000000000000g.0",
        "series/none.0",
        "series/default.-1",
        "lease/reclaim.4294967295",
        "index/0000000000042-0000000000041.0",
        "index/image.01",
        "index/picture.1",
        "index/unread.01",
    ] {
        let name = ObjectName::new(foreign).unwrap();
        assert_eq!(names::parse_container(&name), None, "{foreign}");
        assert_eq!(names::parse_body(&name), None, "{foreign}");
        assert_eq!(names::parse_mirror(&name), None, "{foreign}");
        assert_eq!(names::parse_config(&name), None, "{foreign}");
        assert_eq!(names::parse_manifest(&name), None, "{foreign}");
        assert_eq!(names::parse_session_object(&name), None, "{foreign}");
        assert_eq!(names::parse_condemned(&name), None, "{foreign}");
        assert_eq!(names::parse_lease(&name), None, "{foreign}");
        assert_eq!(names::parse_settings(&name), None, "{foreign}");
        assert_eq!(names::parse_index_run(&name), None, "{foreign}");
        assert_eq!(names::parse_index_image(&name), None, "{foreign}");
        assert_eq!(names::parse_index_unread(&name), None, "{foreign}");
    }
    assert_eq!(
        names::mirror(crate::samples::id(ContainerKind::Data, 1, 1), Generation::FIRST),
        None
    );
}

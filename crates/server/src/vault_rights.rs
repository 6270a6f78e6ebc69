//! What a token may do in a vault, by the names of objects.
//!
//! A vault's server cannot read its objects. But names are plain, and tell what each object is for
//! (docs/format.md, "Names"). A token that has `maintain` may do everything. Every other token may
//! create and delete only what follows here.
//!
//! | object | create | delete |
//! |---|---|---|
//! | `sessions/<n>/claim` | `write` or `read` | the session's own token, unless n is the highest |
//! | `sessions/<n>/heartbeat`, `checkpoint` | the session's own token | the session's own token |
//! | `sessions/<n>/committed` | the session's own token | |
//! | generation 0 of `data`, `recipe`, `catalog`, `small`, `mirror` of session n | `write` and own | |
//! | `backups/<series>/<n>.0` | `write` and own | |
//! | `backups/<series of readers>/<n>.0` | the session's own token | the session's own token |
//! | `backups/<series>/<n>.<r>`, r above 0 | `forget` or `hold` | |
//! | `index/` | `write` | |
//!
//! The own token of a session is the one that created its claim.

use format::names::{self, SessionObject};
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use types::{ContainerKind, Generation, ObjectName, Revision, SeriesId, SessionId};

use crate::rights::{Right, Rights};

/// What a token needs for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// One of these rights.
    One(&'static [Right]),
    /// One of these rights, and that the session is the token's own.
    Own(SessionId, &'static [Right]),
}

const MAINTAIN: Needs = Needs::One(&[]);
const SESSIONS: &[Right] = &[Right::Write, Right::Read];

impl Needs {
    /// Whether the rights suffice. `is_own` tells whether a session is the token's own.
    ///
    /// # Errors
    /// Of `is_own`.
    pub(crate) fn are_met<E>(
        self,
        rights: Rights,
        is_own: impl FnOnce(SessionId) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if rights.has(Right::Maintain) {
            return Ok(true);
        }
        let has_one = |of: &[Right]| of.iter().any(|right| rights.has(*right));
        match self {
            Self::One(of) => Ok(has_one(of)),
            Self::Own(session, of) => Ok(has_one(of) && is_own(session)?),
        }
    }
}

/// What a token needs to create an object.
pub(crate) fn creating(name: &ObjectName) -> Needs {
    if let Some((session, object)) = names::parse_session_object(name) {
        return match object {
            // Creating it makes the session the token's own.
            SessionObject::Claim => Needs::One(SESSIONS),
            SessionObject::Lock => MAINTAIN,
            SessionObject::Heartbeat(_) | SessionObject::Checkpoint(_) | SessionObject::Committed => {
                Needs::Own(session, SESSIONS)
            }
        };
    }
    if let Some((series, session, revision)) = names::parse_manifest(name) {
        return manifest(series, session, revision);
    }
    if let Some((id, Generation::FIRST)) = names::parse_container(name)
        && id.kind != ContainerKind::Archive
    {
        return Needs::Own(id.session, &[Right::Write]);
    }
    if let Some(mirror) = names::parse_mirror(name)
        && mirror.generation == Generation::FIRST
    {
        return Needs::Own(mirror.session, &[Right::Write]);
    }
    let is_index = names::parse_index_run(name).is_some()
        || names::parse_index_image(name).is_some()
        || names::parse_index_unread(name).is_some();
    if is_index {
        return Needs::One(&[Right::Write]);
    }
    MAINTAIN
}

fn manifest(series: SeriesId, session: SessionId, revision: Revision) -> Needs {
    match series {
        READ_SERIES if revision == Revision::FIRST => Needs::Own(session, SESSIONS),
        READ_SERIES | ARCHIVAL_SERIES => MAINTAIN,
        _ if revision == Revision::FIRST => Needs::Own(session, &[Right::Write]),
        // The server cannot tell a hold from a tombstone.
        _ => Needs::One(&[Right::Forget, Right::Hold]),
    }
}

/// What a token needs to delete an object.
pub(crate) fn deleting(name: &ObjectName) -> Needs {
    if let Some((session, object)) = names::parse_session_object(name)
        && matches!(
            object,
            SessionObject::Claim | SessionObject::Heartbeat(_) | SessionObject::Checkpoint(_)
        )
    {
        return Needs::Own(session, SESSIONS);
    }
    match names::parse_manifest(name) {
        Some((READ_SERIES, session, Revision::FIRST)) => Needs::Own(session, SESSIONS),
        _ => MAINTAIN,
    }
}

/// The part of an object that a token may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readable {
    /// All of it.
    All,
    /// Of a container, the part behind its regions. The regions may be read if they hold only
    /// nodes, or catalog copies.
    Trailer,
    /// Nothing.
    Nothing,
}

/// The part of an object that a token with these rights may read.
pub(crate) fn readable(name: &ObjectName, rights: Rights) -> Readable {
    let reads = rights.has(Right::Read) || rights.has(Right::Maintain);
    let is_container = names::parse_container(name).is_some() || names::parse_mirror(name).is_some();
    if reads || !(is_container || names::parse_body(name).is_some()) {
        Readable::All
    } else if rights.has(Right::Write) && is_container {
        Readable::Trailer
    } else {
        Readable::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: &str = "0123456789abcdef0123456789abcdef";
    const READERS: &str = "00000000000000000000000000000000";
    const REWRITES: &str = "00000000000000000000000000000001";

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    /// Whether a token with these rights is allowed it in session 7, which is its own or not.
    fn may(needs: Needs, rights: &str, is_own: bool) -> bool {
        let rights = rights.parse().unwrap();
        let owns = |session: SessionId| Ok::<_, ()>(is_own && session.get() == 7);
        needs.are_met(rights, owns).unwrap()
    }

    /// Names of session 7 that a backup creates.
    fn of_backup() -> Vec<String> {
        let mut names: Vec<String> = ["data", "recipe", "catalog", "small", "mirror"]
            .iter()
            .map(|kind| format!("{kind}/0000000000007/00000001.0"))
            .collect();
        names.push(format!("backups/{SERIES}/0000000000007.0"));
        names
    }

    #[test]
    fn a_backup_creates_objects_of_its_own_session_alone() {
        for text in of_backup() {
            let needs = creating(&name(&text));
            assert!(may(needs, "write", true), "{text}");
            assert!(!may(needs, "write", false), "{text}");
            assert!(!may(needs, "list,read,forget,hold", true), "{text}");
            assert!(may(needs, "maintain", false), "{text}");
            assert!(
                !may(deleting(&name(&text)), "write,list,read,forget,hold", true),
                "{text}"
            );
        }
        for text in [
            "index/0000000000001-0000000000007.0",
            "index/image.3",
            "index/unread.0",
        ] {
            let needs = creating(&name(text));
            assert!(may(needs, "write", false) && !may(needs, "read", true), "{text}");
            assert!(!may(deleting(&name(text)), "write,read", true), "{text}");
        }
    }

    #[test]
    fn sessions_belong_to_the_token_that_claimed_them() {
        let claim = name("sessions/0000000000007/claim");
        assert!(may(creating(&claim), "write", false) && may(creating(&claim), "read", false));
        assert!(!may(creating(&claim), "list,forget,hold", true));
        for object in ["heartbeat.1", "checkpoint.0"] {
            let object = name(&format!("sessions/0000000000007/{object}"));
            for needs in [creating(&object), deleting(&object)] {
                assert!(may(needs, "write", true) && may(needs, "read", true));
                assert!(!may(needs, "write,read", false) && !may(needs, "list", true));
            }
        }
        assert!(may(deleting(&claim), "write", true) && !may(deleting(&claim), "write", false));
        let record = name("sessions/0000000000007/committed");
        assert!(may(creating(&record), "write", true) && !may(creating(&record), "write", false));
        assert!(!may(deleting(&record), "write", true));
        let ending = name(&format!("backups/{READERS}/0000000000007.0"));
        for needs in [creating(&ending), deleting(&ending)] {
            assert!(may(needs, "read", true) && may(needs, "write", true));
            assert!(!may(needs, "write,read", false));
        }
    }

    #[test]
    fn a_later_revision_needs_the_right_to_forget_or_to_hold() {
        let revision = name(&format!("backups/{SERIES}/0000000000007.1"));
        assert!(!may(creating(&revision), "write,list,read", true));
        assert!(may(creating(&revision), "forget", false) && may(creating(&revision), "hold", false));
        assert!(!may(deleting(&revision), "forget,hold,write", true));
        for series in [READERS, REWRITES] {
            let revision = name(&format!("backups/{series}/0000000000007.1"));
            assert!(!may(creating(&revision), "write,read,forget,hold", true));
        }
        let rewrite = name(&format!("backups/{REWRITES}/0000000000007.0"));
        assert!(!may(creating(&rewrite), "write,read,forget,hold", true));
    }

    #[test]
    fn only_maintenance_creates_and_deletes_the_rest() {
        let marks = format!("groups/{SERIES}-0000000000007.0");
        let settings = format!("series/{SERIES}.0");
        for text in [
            "config/0.0",
            "archive/0000000000007/00000001.0",
            "data/0000000000007/00000001.1",
            "data/0000000000007/00000001.0.body",
            "mirror/0000000000007/00000001.1",
            "condemned/00000000000000000001",
            "removed/00000000000000000001",
            "damaged/data-0000000000007-00000001.0",
            "lease/reclaim.0",
            "lease/index.0",
            "reserve",
            "sessions/0000000000007/lock",
            "index/other",
            "data/7/1.0",
            "anything",
            &marks,
            &settings,
        ] {
            for needs in [creating(&name(text)), deleting(&name(text))] {
                assert!(!may(needs, "write,list,read,forget,hold", true), "{text}");
                assert!(may(needs, "maintain", false), "{text}");
            }
        }
    }

    #[test]
    fn content_needs_the_right_to_read() {
        let of = |text: &str, rights: &str| readable(&name(text), rights.parse().unwrap());
        for text in ["data/0000000000007/00000001.0", "mirror/0000000000007/00000001.0"] {
            assert_eq!(of(text, "write,list"), Readable::Trailer);
            assert_eq!(of(text, "list,forget,hold"), Readable::Nothing);
            assert_eq!(of(text, "read"), Readable::All);
            assert_eq!(of(text, "maintain"), Readable::All);
        }
        let body = "data/0000000000007/00000001.0.body";
        assert_eq!(of(body, "write,list"), Readable::Nothing);
        assert_eq!(of(body, "read"), Readable::All);
        assert_eq!(of("config/0.0", "list"), Readable::All);
    }
}

//! The running sessions: which epochs they have answered, and their references.
//!
//! The reclaimer and the adopter use this table. A session runs while the one manifest name that
//! can end it is free. Manifests are listed before sessions. So a session that ends in between
//! counts as running, which does no harm. Only the folders of sessions without a manifest are read,
//! and those of read sessions until they are removed. A session that ended long ago costs a name in
//! a listing. A session that is not in the table has ended by that listing of manifests, or began
//! after it. If an object vanishes because its writer deleted it, the folder is listed again.
//! Stateless; may be called from many threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use env::{Moment, ObjectMeta};
use format::names::{self, SessionObject};
use format::session::{Checkpoint, Claim, Heartbeat, READ_SERIES};
use object::Sealer;
use types::{Epoch, SeriesId, SessionId, UnixNanos};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::listed::{self, Listed};
use crate::objects::{Objects, Read};
use crate::standing::{self, Standing};

/// How often to list a folder again if objects vanish before they are read.
const LISTINGS_MAX: usize = 8;

/// A running session, as its objects show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its number.
    pub id: SessionId,
    /// Its claim.
    pub claim: Claim,
    /// The counter of its newest heartbeat, by name alone.
    pub counter: Option<u64>,
    /// Its newest readable heartbeat. `None`: it has not listed epochs yet.
    pub heartbeat: Option<Heartbeat>,
    /// The numbers of its checkpoints, in order.
    pub checkpoints: Vec<u32>,
    /// When its newest object was put, by the storage's clock.
    pub newest_at: Option<UnixNanos>,
    /// The session has a record of its commit and no manifest. It was an archival rewrite, which
    /// has no effect any more.
    pub is_committed: bool,
}

impl SessionInfo {
    /// Whether the session has answered `epoch`.
    #[must_use]
    pub fn has_answered(&self, epoch: Epoch) -> bool {
        self.heartbeat
            .as_ref()
            .is_some_and(|beat| beat.answered >= Some(epoch))
    }
}

/// The running sessions at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionTable {
    /// By number.
    pub running: Vec<SessionInfo>,
    /// Claims and heartbeats that cannot be read. A session with an unreadable claim and a
    /// heartbeat may run, and cannot be ended: nothing may be removed beside it. A session without
    /// any heartbeat never used its number, because its crash tore the claim.
    pub damaged: Vec<DamagedObject>,
    /// Committed backups that have no manifest and were not forgotten ([`crate::LostBackup`]). By
    /// number.
    pub lost: Vec<SessionId>,
}

/// The names in one session's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) claimed: bool,
    pub(crate) committed: bool,
    pub(crate) heartbeats: BTreeSet<u64>,
    pub(crate) checkpoints: BTreeSet<u32>,
    /// When its newest object was put, by the storage's clock.
    pub(crate) newest_at: Option<UnixNanos>,
}

impl SessionTable {
    /// Lists the running sessions.
    ///
    /// # Errors
    /// Of the storage.
    pub fn list(sealer: &Sealer) -> Result<Self> {
        Self::read(&Objects::new(sealer))
    }

    /// One session, if it runs. It costs a listing of the session's folder, and of its series'
    /// folder.
    ///
    /// # Errors
    /// Of the storage.
    pub fn one(sealer: &Sealer, session: SessionId) -> Result<Option<SessionInfo>> {
        one(&Objects::new(sealer), session)
    }

    /// One running session.
    #[must_use]
    pub fn get(&self, session: SessionId) -> Option<&SessionInfo> {
        self.running.iter().find(|info| info.id == session)
    }

    /// All checkpoints of a session, by number. Reclamation must keep the slots that any of them
    /// names while the session has no ending, because an adopter may name any of them. Unreadable
    /// ones are left out, because nobody can adopt them. Empty: the session has written none, and
    /// its future references honour all epochs that it has answered; or it has ended meanwhile,
    /// which a later listing of manifests shows.
    ///
    /// # Errors
    /// `Damaged` if the answering checkpoint and all later ones cannot be read: older ones must not
    /// replace it, so the epoch must not continue. Of the storage.
    pub fn checkpoints(sealer: &Sealer, info: &SessionInfo) -> Result<Vec<Checkpoint>> {
        all_checkpoints(&Objects::new(sealer), info)
    }

    /// The checkpoint that an adoption names. It stays when the other objects of the session are
    /// deleted.
    ///
    /// # Errors
    /// `Damaged`; of the storage.
    pub fn adopted_checkpoint(
        sealer: &Sealer,
        session: SessionId,
        number: u32,
    ) -> Result<Option<Checkpoint>> {
        adopted_checkpoint(&Objects::new(sealer), session, number)
    }

    pub(crate) fn read(objects: &Objects) -> Result<Self> {
        Self::after(objects, &listed::list(objects, names::BACKUPS_FOLDER)?)
    }

    /// The sessions that run now, and that had no ending when these manifests were listed.
    pub(crate) fn after(objects: &Objects, manifests: &[Listed]) -> Result<Self> {
        Self::among(objects, manifests, &numbers(objects)?)
    }

    /// Like [`Self::among`], for the sessions below `own`. Costs nothing if none of them may run.
    pub(crate) fn beside(
        objects: &Objects,
        manifests: &[Listed],
        numbers: &[SessionId],
        own: SessionId,
    ) -> Result<Self> {
        let endings = Endings::of(manifests);
        if !numbers.iter().any(|id| *id < own && endings.may_run(*id)) {
            return Ok(Self::default());
        }
        // The own claim is the newest object to which theirs are compared.
        let up_to_own: Vec<SessionId> = numbers.iter().copied().filter(|id| *id <= own).collect();
        Self::among(objects, manifests, &up_to_own)
    }

    /// Like [`Self::after`], for numbers that were listed after the manifests.
    pub(crate) fn among(objects: &Objects, manifests: &[Listed], numbers: &[SessionId]) -> Result<Self> {
        let endings = Endings::of(manifests);
        let mut table = Self::default();
        let may_run = numbers.iter().copied().filter(|id| endings.may_run(*id));
        for (id, folder) in folders_of(objects, may_run)? {
            if endings.of.contains_key(&id) && endings.is_over(objects, id)? {
                continue;
            }
            let standing = if folder.committed && !endings.of.contains_key(&id) {
                standing::standing(objects, id)?
            } else {
                Standing::Unknown
            };
            if standing == Standing::LostBackup {
                table.lost.push(id);
                continue;
            }
            let is_committed = standing == Standing::LostRewrite;
            let info = info(objects, id, folder, &mut table.damaged)?;
            table
                .running
                .extend(info.map(|info| SessionInfo { is_committed, ..info }));
        }
        Ok(table)
    }
}

/// Which sessions have a manifest, and in which series. An ending counts only if it is of the
/// series that the claim names. This matters for numbers of read sessions, because only these are
/// given back (`Session::gc_sessions`), and another session might get one.
struct Endings {
    of: HashMap<SessionId, Vec<SeriesId>>,
}

impl Endings {
    fn of(manifests: &[Listed]) -> Self {
        let mut of: HashMap<SessionId, Vec<SeriesId>> = HashMap::with_capacity(manifests.len());
        for one in manifests {
            let known = of.entry(one.session).or_default();
            if !known.contains(&one.series) {
                known.push(one.series);
            }
        }
        Self { of }
    }

    /// Whether a session has an ending of the series that its claim names. An unreadable claim may
    /// name any.
    fn is_over(&self, objects: &Objects, id: SessionId) -> Result<bool> {
        match objects.read::<Claim>(&names::claim(id)) {
            Ok(Read::Whole(claim)) => Ok(self.of.get(&id).is_some_and(|of| of.contains(&claim.series))),
            Ok(Read::Missing | Read::Damaged(_)) => Ok(true),
            Err(SessionError::Storage(error)) if error.is_of_medium() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether to read the session's folder. The claims of sessions that ended as backups, which
    /// are many, are not read again.
    fn may_run(&self, id: SessionId) -> bool {
        let of = self.of.get(&id).map_or(&[][..], Vec::as_slice);
        !matches!(of, [series] if *series != READ_SERIES)
    }
}

/// The state of a session without an ending, from its folder.
fn info(
    objects: &Objects,
    id: SessionId,
    folder: Folder,
    damaged: &mut Vec<DamagedObject>,
) -> Result<Option<SessionInfo>> {
    if !folder.claimed {
        return Ok(None);
    }
    Ok(match objects.read::<Claim>(&names::claim(id))? {
        Read::Whole(claim) => Some(SessionInfo {
            id,
            claim,
            counter: folder.heartbeats.last().copied(),
            heartbeat: newest_heartbeat(objects, id, folder.heartbeats, damaged)?,
            checkpoints: folder.checkpoints.into_iter().collect(),
            is_committed: false,
            newest_at: folder.newest_at,
        }),
        // A read session that has ended; its claim was deleted since it was listed.
        Read::Missing => None,
        Read::Damaged(object) => {
            damaged.push(object);
            None
        }
    })
}

fn one(objects: &Objects, id: SessionId) -> Result<Option<SessionInfo>> {
    let Some(info) = info(objects, id, one_folder(objects, id)?, &mut Vec::new())? else {
        return Ok(None);
    };
    let listed = listed::list(objects, &names::backups_folder(info.claim.series))?;
    Ok((!listed.iter().any(|one| one.session == id)).then_some(info))
}

/// The numbers that have a folder, in order.
pub(crate) fn numbers(objects: &Objects) -> Result<Vec<SessionId>> {
    numbers_since(objects, objects.storage().moment())
}

/// The numbers that have a folder, in order, as of any moment after `since`.
pub(crate) fn numbers_since(objects: &Objects, since: Moment) -> Result<Vec<SessionId>> {
    let folders = objects
        .storage()
        .list_folders_since(names::SESSIONS_FOLDER, since)?;
    let parsed = folders.iter().filter_map(|folder| names::parse_session(folder));
    let mut numbers: Vec<SessionId> = parsed.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The folders of these sessions, by name alone.
pub(crate) fn folders_of(
    objects: &Objects,
    ids: impl Iterator<Item = SessionId>,
) -> Result<BTreeMap<SessionId, Folder>> {
    let parts: BTreeSet<String> = ids.map(names::session_sub_folder).collect();
    let listed = objects.storage().list_in(names::SESSIONS_FOLDER, &parts)?;
    Ok(by_session(&listed))
}

/// The folders of all sessions, by name alone.
pub(crate) fn all_folders(objects: &Objects) -> Result<BTreeMap<SessionId, Folder>> {
    Ok(by_session(&objects.storage().list(names::SESSIONS_FOLDER)?))
}

fn by_session(listed: &[ObjectMeta]) -> BTreeMap<SessionId, Folder> {
    let mut folders: BTreeMap<SessionId, Folder> = BTreeMap::new();
    for meta in listed {
        let Some((id, object)) = names::parse_session_object(&meta.name) else {
            continue;
        };
        let folder = folders.entry(id).or_default();
        folder.newest_at = folder.newest_at.max(Some(meta.put_at));
        match object {
            SessionObject::Claim => folder.claimed = true,
            SessionObject::Heartbeat(counter) => _ = folder.heartbeats.insert(counter),
            SessionObject::Checkpoint(number) => _ = folder.checkpoints.insert(number),
            SessionObject::Committed => folder.committed = true,
            SessionObject::Lock => {}
        }
    }
    folders
}

fn newest_heartbeat(
    objects: &Objects,
    id: SessionId,
    mut counters: BTreeSet<u64>,
    damaged: &mut Vec<DamagedObject>,
) -> Result<Option<Heartbeat>> {
    for _ in 0..LISTINGS_MAX {
        let mut vanished = false;
        for counter in counters.iter().rev() {
            match objects.read::<Heartbeat>(&names::heartbeat(id, *counter))? {
                Read::Whole(beat) => return Ok(Some(beat)),
                Read::Missing => vanished = true,
                Read::Damaged(object) => damaged.push(object),
            }
        }
        if !vanished {
            return Ok(None);
        }
        counters = one_folder(objects, id)?.heartbeats;
    }
    Err(SessionError::Contended {
        name: names::session_folder(id),
    })
}

/// One session's folder, by name alone.
pub(crate) fn one_folder(objects: &Objects, id: SessionId) -> Result<Folder> {
    let listed = objects.storage().list(&names::session_folder(id))?;
    Ok(by_session(&listed).remove(&id).unwrap_or_default())
}

fn all_checkpoints(objects: &Objects, info: &SessionInfo) -> Result<Vec<Checkpoint>> {
    let answer = info.heartbeat.as_ref().and_then(|beat| beat.checkpoint);
    let (mut readable, mut vanished, mut damaged) = (Vec::new(), false, None);
    // List again: the answering checkpoint may be newer than the caller's listing.
    for number in one_folder(objects, info.id)?.checkpoints {
        match objects.read::<Checkpoint>(&names::checkpoint(info.id, number))? {
            Read::Whole(checkpoint) => readable.push(checkpoint),
            Read::Missing => vanished = true,
            Read::Damaged(object) => damaged = Some(object),
        }
    }
    let answers = answer.is_none_or(|answer| readable.iter().any(|read| read.number >= answer));
    if answers && !vanished {
        return Ok(readable);
    }
    if objects.ending(info.claim.series, info.id)?.is_some() {
        return Ok(Vec::new());
    }
    let name = names::checkpoint(info.id, answer.unwrap_or_default());
    let why = format!("{name}: is named by a heartbeat, and missing");
    Err(SessionError::Damaged(damaged.unwrap_or(DamagedObject {
        name,
        why,
        is_unread: false,
    })))
}

pub(crate) fn adopted_checkpoint(
    objects: &Objects,
    id: SessionId,
    number: u32,
) -> Result<Option<Checkpoint>> {
    let name = names::checkpoint(id, number);
    match objects.read::<Checkpoint>(&name) {
        Ok(Read::Whole(checkpoint)) => Ok(Some(checkpoint)),
        Ok(Read::Missing) => Ok(None),
        Ok(Read::Damaged(object)) => Err(SessionError::Damaged(object)),
        Err(SessionError::Storage(error)) if error.is_of_medium() => {
            Err(SessionError::Damaged(DamagedObject::unread(name, &error)))
        }
        Err(error) => Err(error),
    }
}

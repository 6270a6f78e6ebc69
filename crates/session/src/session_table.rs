//! The running sessions: how far they have answered, and what they refer to.
//!
//! The reclaimer and the adopter use this table. A session runs while the one manifest name that
//! can end it is free. Manifests are listed before sessions. Only the folders of sessions without a
//! manifest are read, and those of read sessions until they are removed; a session that ended long
//! ago costs a name in a listing. So a session that ends in between counts as running, which does
//! no harm. A session that is not in the table has ended by that listing of manifests, or began
//! after it. If an object vanishes because its writer deleted it, the folder is listed again.
//! Stateless; may be called from many threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use env::{ObjectMeta, StorageError};
use format::names::{self, SessionObject};
use format::session::{Checkpoint, Claim, Heartbeat, READ_SERIES};
use object::Sealer;
use types::{Epoch, SeriesId, SessionId};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::listed::{self, Listed};
use crate::objects::{Objects, Read};
use crate::standing::{self, Standing};

/// A folder that keeps losing objects under the reader's hands is listed so often.
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
    /// Its newest readable heartbeat; none: it is still about to list epochs.
    pub heartbeat: Option<Heartbeat>,
    /// The numbers of its checkpoints, in order.
    pub checkpoints: Vec<u32>,
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
    /// heartbeat may run and cannot be ended: nothing may be removed beside it. One without any
    /// heartbeat never used its number: its crash tore the claim.
    pub damaged: Vec<DamagedObject>,
    /// Committed backups that have no manifest and were not forgotten ([`crate::LostBackup`]). By
    /// number.
    pub lost: Vec<SessionId>,
}

/// Names in one session's folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    pub(crate) claimed: bool,
    pub(crate) committed: bool,
    pub(crate) heartbeats: BTreeSet<u64>,
    pub(crate) checkpoints: BTreeSet<u32>,
}

impl SessionTable {
    /// Lists the running sessions.
    ///
    /// # Errors
    /// Of the storage.
    pub fn list(sealer: &Sealer) -> Result<Self> {
        Self::read(&Objects::new(sealer))
    }

    /// One session, if it runs, at the cost of its own folder and of its series'.
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

    /// All checkpoints of a session, by number. What any of them names is to be kept while the
    /// session has no ending: an adopter may name any. Unreadable ones are left out, for nobody can
    /// adopt them. Empty: it has written none, and what it will refer to honours all epochs it has
    /// answered; or it has ended meanwhile, which manifests listed after this tell.
    ///
    /// # Errors
    /// `Damaged` when the checkpoint that answers and all later ones cannot be read: older ones
    /// must not stand in for it, and the epoch must not go on. Of the storage.
    pub fn checkpoints(sealer: &Sealer, info: &SessionInfo) -> Result<Vec<Checkpoint>> {
        all_checkpoints(&Objects::new(sealer), info)
    }

    /// The checkpoint that an adoption names; it stays when the rest of a session's traces go.
    ///
    /// # Errors
    /// `Damaged`, or of the storage.
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

    /// The sessions that run now and had not ended when these manifests were listed.
    pub(crate) fn after(objects: &Objects, manifests: &[Listed]) -> Result<Self> {
        Self::among(objects, manifests, &numbers(objects)?)
    }

    /// As [`Self::after`], of the numbers that were listed after the manifests.
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

/// Which sessions have a manifest, and in which series. An ending is that of the series which the
/// claim names, and of no other session that has its number, should there ever be one: numbers of
/// read sessions are the ones that are given back (`Session::gc_sessions`).
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

    /// Whether an ending is of the series that the claim names, as far as that can be read.
    fn is_over(&self, objects: &Objects, id: SessionId) -> Result<bool> {
        match objects.read::<Claim>(&names::claim(id)) {
            Ok(Read::Whole(claim)) => Ok(self.of.get(&id).is_some_and(|of| of.contains(&claim.series))),
            Ok(Read::Missing | Read::Damaged(_)) | Err(SessionError::Storage(StorageError::Io { .. })) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether to look into the session's folder: claims of those that ended as backups, of which
    /// there are many, are not read again.
    fn may_run(&self, id: SessionId) -> bool {
        let of = self.of.get(&id).map_or(&[][..], Vec::as_slice);
        !matches!(of, [series] if *series != READ_SERIES)
    }
}

/// What the folder of a session without an ending says of it.
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
        }),
        // CollectedSessions away since it was listed: a read session that ended.
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
    let folders = objects.storage().list_folders(names::SESSIONS_FOLDER)?;
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

fn by_session(listed: &[ObjectMeta]) -> BTreeMap<SessionId, Folder> {
    let mut folders: BTreeMap<SessionId, Folder> = BTreeMap::new();
    for meta in listed {
        let Some((id, object)) = names::parse_session_object(&meta.name) else {
            continue;
        };
        let folder = folders.entry(id).or_default();
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
    // Listed anew: the answering checkpoint may be newer than the listing that the caller made.
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
        Err(SessionError::Storage(error @ StorageError::Io { .. })) => {
            Err(SessionError::Damaged(DamagedObject::unread(name, &error)))
        }
        Err(error) => Err(error),
    }
}

//! The name of every object in a store, built and parsed (docs/format.md, "Names").
//!
//! Each object has one name, and each name parses to one object. Each number has one spelling. Any
//! other name is foreign (`None`), so a listing never takes a foreign file for an object. Folders
//! have no trailing slash, as in `Storage::list`. Pure.

mod parts;
mod series;
mod top;

use std::fmt::Arguments;

use parts::{container_tail, epoch_part, hex_digit, parse_container_tail, parse_epoch, parse_revision};
use parts::{parse_sequence, parse_session_part, plain, plain32, sequence_part, session_part, under};
pub use series::{SERIES_FOLDER, parse_settings, settings};
pub use top::TOP_FOLDER;
use types::SessionId;
use types::{ContainerId, ContainerKind, Epoch, Generation, ObjectName, Revision, SequenceNumber, SeriesId};

use crate::reclaim::GroupId;

/// Digits of a session number in names.
pub const SESSION_DIGITS: usize = 13;
/// Digits of a container's sequence number in names.
pub const SEQUENCE_DIGITS: usize = 8;
/// Digits of an epoch in names.
pub const EPOCH_DIGITS: usize = 20;

/// The folder of the configs.
pub const CONFIG_FOLDER: &str = "config";
/// The folder of second copies of recipe and small containers.
pub const MIRROR_FOLDER: &str = "mirror";
/// The folder of the series' folders.
pub const BACKUPS_FOLDER: &str = "backups";
/// The folder of the sessions' folders.
pub const SESSIONS_FOLDER: &str = "sessions";
/// The folder of marks.
pub const GROUPS_FOLDER: &str = "groups";
/// The folder of condemned lists.
pub const CONDEMNED_FOLDER: &str = "condemned";
/// The folder of removal lists.
pub const REMOVED_FOLDER: &str = "removed";
/// The folder of lists of damaged slots.
pub const DAMAGED_FOLDER: &str = "damaged";
/// The folder of lease claims.
pub const LEASE_FOLDER: &str = "lease";
/// The folder of the index.
pub const INDEX_FOLDER: &str = "index";
/// The suffix of a body's name.
const BODY_SUFFIX: &str = ".body";
/// The object that prune deletes first when the disk is full.
pub const RESERVE: &str = "reserve";

/// One of the two copies of a config revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigCopy {
    /// Copy 0.
    First,
    /// Copy 1.
    Second,
}

impl ConfigCopy {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    const fn digit(self) -> &'static str {
        match self {
            Self::First => "0",
            Self::Second => "1",
        }
    }
}

/// The purpose of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseRole {
    /// Reclaiming space.
    Reclaim,
    /// Merging the index's runs.
    Index,
}

impl LeaseRole {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Reclaim, Self::Index];

    /// Its word in names.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reclaim => "reclaim",
            Self::Index => "index",
        }
    }
}

/// An object in a session's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionObject {
    /// `claim`.
    Claim,
    /// `heartbeat.<counter>`.
    Heartbeat(u64),
    /// `checkpoint.<number>`.
    Checkpoint(u32),
    /// `committed`: the record that the session became a backup.
    Committed,
    /// `lock`: a process lock, never an object.
    Lock,
}

/// A copy under `mirror/`. Its kind is in its header. Containers of all kinds share the sequence
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MirrorName {
    /// The session that wrote it.
    pub session: SessionId,
    /// Its sequence number in that session.
    pub sequence: SequenceNumber,
    /// Its generation.
    pub generation: Generation,
}

/// A run of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexRunName {
    /// The first session whose hooks the run holds.
    pub first: SessionId,
    /// The last session; equal to `first` in a run that a session wrote itself.
    pub last: SessionId,
    /// Distinguishes runs over the same sessions.
    pub number: u32,
}

fn name(text: Arguments<'_>) -> ObjectName {
    ObjectName::new(text.to_string()).expect("built from digits, hex digits and fixed words under 200 bytes")
}

/// `config/<revision>.<copy>`.
#[must_use]
pub fn config(revision: Revision, copy: ConfigCopy) -> ObjectName {
    name(format_args!("{CONFIG_FOLDER}/{revision}.{}", copy.digit()))
}

/// The inverse of [`config`].
#[must_use]
pub fn parse_config(name: &ObjectName) -> Option<(Revision, ConfigCopy)> {
    let (revision, copy) = under(name, CONFIG_FOLDER)?.split_once('.')?;
    let copy = ConfigCopy::ALL.into_iter().find(|c| c.digit() == copy)?;
    Some((parse_revision(revision)?, copy))
}

/// `<kind>/<session>`: the containers of one kind that a session wrote.
#[must_use]
pub fn container_folder(kind: ContainerKind, session: SessionId) -> String {
    format!("{}/{}", kind.folder(), session_part(session))
}

/// `<kind>/<session>/<sequence>.<generation>`.
#[must_use]
pub fn container(id: ContainerId, generation: Generation) -> ObjectName {
    name(format_args!(
        "{}/{}",
        id.kind.folder(),
        container_tail(id, generation)
    ))
}

/// `<kind>/<session>/<sequence>.<generation>.body`: the regions of that generation, once a trimmed
/// one refers to it.
#[must_use]
pub fn body(id: ContainerId, generation: Generation) -> ObjectName {
    name(format_args!(
        "{}/{}{BODY_SUFFIX}",
        id.kind.folder(),
        container_tail(id, generation)
    ))
}

/// The inverse of [`body`].
#[must_use]
pub fn parse_body(name: &ObjectName) -> Option<(ContainerId, Generation)> {
    parse_container_text(name.as_str().strip_suffix(BODY_SUFFIX)?)
}

/// The inverse of [`container`].
#[must_use]
pub fn parse_container(name: &ObjectName) -> Option<(ContainerId, Generation)> {
    parse_container_text(name.as_str())
}

fn parse_container_text(name: &str) -> Option<(ContainerId, Generation)> {
    let (folder, rest) = name.split_once('/')?;
    let kind = ContainerKind::ALL
        .into_iter()
        .find(|kind| kind.folder() == folder)?;
    let (session, sequence, generation) = parse_container_tail(rest)?;
    Some((
        ContainerId {
            session,
            kind,
            sequence,
        },
        generation,
    ))
}

/// `mirror/<session>`: the second copies of a session's containers.
#[must_use]
pub fn mirror_folder(session: SessionId) -> String {
    format!("{MIRROR_FOLDER}/{}", session_part(session))
}

/// `mirror/<session>/<sequence>.<generation>`; `None` for a kind that has no mirror.
#[must_use]
pub fn mirror(id: ContainerId, generation: Generation) -> Option<ObjectName> {
    let tail = container_tail(id, generation);
    id.kind
        .is_mirrored()
        .then(|| name(format_args!("{MIRROR_FOLDER}/{tail}")))
}

/// The inverse of [`mirror`], except for the kind.
#[must_use]
pub fn parse_mirror(name: &ObjectName) -> Option<MirrorName> {
    let (session, sequence, generation) = parse_container_tail(under(name, MIRROR_FOLDER)?)?;
    Some(MirrorName {
        session,
        sequence,
        generation,
    })
}

/// `backups/<series>`: the manifests of a series.
#[must_use]
pub fn backups_folder(series: SeriesId) -> String {
    format!("{BACKUPS_FOLDER}/{series}")
}

/// The series that a sub-folder of [`BACKUPS_FOLDER`] belongs to.
#[must_use]
pub fn parse_series(folder: &str) -> Option<SeriesId> {
    let digits: &[u8; 32] = folder.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(SeriesId::from_bytes(bytes))
}

/// `backups/<series>/<session>.<revision>`.
#[must_use]
pub fn manifest(series: SeriesId, session: SessionId, revision: Revision) -> ObjectName {
    name(format_args!(
        "{BACKUPS_FOLDER}/{series}/{}.{revision}",
        session_part(session)
    ))
}

/// The inverse of [`manifest`].
#[must_use]
pub fn parse_manifest(name: &ObjectName) -> Option<(SeriesId, SessionId, Revision)> {
    let (series, rest) = under(name, BACKUPS_FOLDER)?.split_once('/')?;
    let (session, revision) = rest.split_once('.')?;
    Some((
        parse_series(series)?,
        parse_session(session)?,
        parse_revision(revision)?,
    ))
}

/// `sessions/<session>`: the objects of a running session.
#[must_use]
pub fn session_folder(session: SessionId) -> String {
    format!("{SESSIONS_FOLDER}/{}", session_part(session))
}

/// A session's sub-folder of [`SESSIONS_FOLDER`], without the folder itself.
#[must_use]
pub fn session_sub_folder(session: SessionId) -> String {
    session_part(session)
}

/// The session of a sub-folder of [`SESSIONS_FOLDER`], of [`MIRROR_FOLDER`] or of a kind's folder.
#[must_use]
pub fn parse_session(folder: &str) -> Option<SessionId> {
    parse_session_part(folder)
}

/// `sessions/<session>/claim`.
#[must_use]
pub fn claim(session: SessionId) -> ObjectName {
    session_object(session, SessionObject::Claim)
}

/// `sessions/<session>/heartbeat.<counter>`.
#[must_use]
pub fn heartbeat(session: SessionId, counter: u64) -> ObjectName {
    session_object(session, SessionObject::Heartbeat(counter))
}

/// `sessions/<session>/checkpoint.<number>`.
#[must_use]
pub fn checkpoint(session: SessionId, number: u32) -> ObjectName {
    session_object(session, SessionObject::Checkpoint(number))
}

/// `sessions/<session>/committed`.
#[must_use]
pub fn committed(session: SessionId) -> ObjectName {
    session_object(session, SessionObject::Committed)
}

/// `sessions/<session>/lock`.
#[must_use]
pub fn session_lock(session: SessionId) -> ObjectName {
    session_object(session, SessionObject::Lock)
}

/// Any object in a session's folder.
#[must_use]
pub fn session_object(session: SessionId, object: SessionObject) -> ObjectName {
    let folder = session_folder(session);
    match object {
        SessionObject::Claim => name(format_args!("{folder}/claim")),
        SessionObject::Heartbeat(counter) => name(format_args!("{folder}/heartbeat.{counter}")),
        SessionObject::Checkpoint(number) => name(format_args!("{folder}/checkpoint.{number}")),
        SessionObject::Committed => name(format_args!("{folder}/committed")),
        SessionObject::Lock => name(format_args!("{folder}/lock")),
    }
}

/// The inverse of [`session_object`].
#[must_use]
pub fn parse_session_object(name: &ObjectName) -> Option<(SessionId, SessionObject)> {
    let (session, object) = under(name, SESSIONS_FOLDER)?.split_once('/')?;
    let object = match object.split_once('.') {
        None if object == "claim" => SessionObject::Claim,
        None if object == "committed" => SessionObject::Committed,
        None if object == "lock" => SessionObject::Lock,
        Some(("heartbeat", counter)) => SessionObject::Heartbeat(plain(counter)?),
        Some(("checkpoint", number)) => SessionObject::Checkpoint(plain32(number)?),
        _ => return None,
    };
    Some((parse_session(session)?, object))
}

/// `groups/<series>-<first session>.<revision>`.
#[must_use]
pub fn marks(group: GroupId, revision: Revision) -> ObjectName {
    name(format_args!(
        "{GROUPS_FOLDER}/{}-{}.{revision}",
        group.series,
        session_part(group.first)
    ))
}

/// The inverse of [`marks`].
#[must_use]
pub fn parse_marks(name: &ObjectName) -> Option<(GroupId, Revision)> {
    let (group, revision) = under(name, GROUPS_FOLDER)?.split_once('.')?;
    let (series, first) = group.split_once('-')?;
    Some((
        GroupId {
            series: parse_series(series)?,
            first: parse_session(first)?,
        },
        parse_revision(revision)?,
    ))
}

/// `condemned/<epoch>`.
#[must_use]
pub fn condemned(epoch: Epoch) -> ObjectName {
    name(format_args!("{CONDEMNED_FOLDER}/{}", epoch_part(epoch)))
}

/// The inverse of [`condemned`].
#[must_use]
pub fn parse_condemned(name: &ObjectName) -> Option<Epoch> {
    parse_epoch(under(name, CONDEMNED_FOLDER)?)
}

/// `removed/<epoch>`.
#[must_use]
pub fn removed(epoch: Epoch) -> ObjectName {
    name(format_args!("{REMOVED_FOLDER}/{}", epoch_part(epoch)))
}

/// The inverse of [`removed`].
#[must_use]
pub fn parse_removed(name: &ObjectName) -> Option<Epoch> {
    parse_epoch(under(name, REMOVED_FOLDER)?)
}

/// `damaged/<kind>-<session>-<sequence>.<number>`.
#[must_use]
pub fn damaged(id: ContainerId, number: u32) -> ObjectName {
    let kind = id.kind.folder();
    let (session, sequence) = (session_part(id.session), sequence_part(id.sequence));
    name(format_args!(
        "{DAMAGED_FOLDER}/{kind}-{session}-{sequence}.{number}"
    ))
}

/// The inverse of [`damaged`].
#[must_use]
pub fn parse_damaged(name: &ObjectName) -> Option<(ContainerId, u32)> {
    let (id, number) = under(name, DAMAGED_FOLDER)?.split_once('.')?;
    let (folder, rest) = id.split_once('-')?;
    let (session, sequence) = rest.split_once('-')?;
    let kind = ContainerKind::ALL
        .into_iter()
        .find(|kind| kind.folder() == folder)?;
    let id = ContainerId {
        session: parse_session(session)?,
        kind,
        sequence: parse_sequence(sequence)?,
    };
    Some((id, plain32(number)?))
}

/// `lease/<role>.<number>`.
#[must_use]
pub fn lease(role: LeaseRole, number: Revision) -> ObjectName {
    name(format_args!("{LEASE_FOLDER}/{}.{number}", role.word()))
}

/// The inverse of [`lease`].
#[must_use]
pub fn parse_lease(name: &ObjectName) -> Option<(LeaseRole, Revision)> {
    let (word, number) = under(name, LEASE_FOLDER)?.split_once('.')?;
    let role = LeaseRole::ALL.into_iter().find(|role| role.word() == word)?;
    Some((role, parse_revision(number)?))
}

/// `reserve`.
#[must_use]
pub fn reserve() -> ObjectName {
    name(format_args!("{RESERVE}"))
}

/// `index/<first session>-<last session>.<number>`.
#[must_use]
pub fn index_run(run: IndexRunName) -> ObjectName {
    let (first, last) = (session_part(run.first), session_part(run.last));
    name(format_args!("{INDEX_FOLDER}/{first}-{last}.{}", run.number))
}

/// `index/image.<number>`: a checkpoint of an index in memory.
#[must_use]
pub fn index_image(number: u32) -> ObjectName {
    name(format_args!("{INDEX_FOLDER}/image.{number}"))
}

/// The inverse of [`index_image`].
#[must_use]
pub fn parse_index_image(name: &ObjectName) -> Option<u32> {
    let (word, number) = under(name, INDEX_FOLDER)?.split_once('.')?;
    plain32(number).filter(|_| word == "image")
}

/// `index/unread.<number>`: containers that could not be added to the index, because their catalogs
/// could not be read.
#[must_use]
pub fn index_unread(number: u32) -> ObjectName {
    name(format_args!("{INDEX_FOLDER}/unread.{number}"))
}

/// The inverse of [`index_unread`].
#[must_use]
pub fn parse_index_unread(name: &ObjectName) -> Option<u32> {
    let (word, number) = under(name, INDEX_FOLDER)?.split_once('.')?;
    plain32(number).filter(|_| word == "unread")
}

/// The inverse of [`index_run`].
#[must_use]
pub fn parse_index_run(name: &ObjectName) -> Option<IndexRunName> {
    let (sessions, number) = under(name, INDEX_FOLDER)?.split_once('.')?;
    let (first, last) = sessions.split_once('-')?;
    let (first, last) = (parse_session(first)?, parse_session(last)?);
    (first <= last).then_some(IndexRunName {
        first,
        last,
        number: plain32(number)?,
    })
}

//! Manifests as bytes: the payload of a sealed object of kind `Manifest`.

use types::{ContainerKind, SessionId};

use crate::error::{FormatError, Result};
use crate::manifest::{
    Backup, BackupTotals, ContainerSpan, Manifest, Origin, SeriesName, StreamRole, StreamRoot,
};
use crate::payload::{Payload, ascends, payload, rule};
use crate::wire::{Reader, Writer};

/// The longest host or user name.
pub const NAME_BYTES_MAX: usize = 4096;
/// The longest path.
pub const PATH_BYTES_MAX: usize = 64 << 10;
/// The longest tag or program version.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The most streams of a backup: a forward reference names one with 16 bits.
pub const STREAMS_MAX: usize = 1 << 16;

const TAG_COMMIT: u8 = 0;
const TAG_EXPIRED: u8 = 1;
const TAG_ADOPTED: u8 = 2;
const TAG_FORGOTTEN: u8 = 3;
const TAG_REVISED: u8 = 4;
/// An archival backup. The id of the backup that it refers forward to comes first.
const TAG_COMMIT_ARCHIVAL: u8 = 5;
const TAG_REVISED_ARCHIVAL: u8 = 6;
/// A backup with rewritten references. The number of bytes that were copied for it comes first.
const TAG_COMMIT_REWRITTEN: u8 = 7;
const TAG_REVISED_REWRITTEN: u8 = 8;

payload!(Manifest);

impl Payload for Manifest {
    const WHAT: &'static str = "manifest";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Commit(backup) => {
                write_tagged(w, backup, [TAG_COMMIT, TAG_COMMIT_ARCHIVAL, TAG_COMMIT_REWRITTEN]);
            }
            Self::Expired { by } => {
                w.u8(TAG_EXPIRED);
                w.session(*by);
            }
            Self::Adopted { by, checkpoint } => {
                w.u8(TAG_ADOPTED);
                write_adopted(w, &(*by, *checkpoint));
            }
            Self::Forgotten => w.u8(TAG_FORGOTTEN),
            Self::Revised(backup) => {
                write_tagged(
                    w,
                    backup,
                    [TAG_REVISED, TAG_REVISED_ARCHIVAL, TAG_REVISED_REWRITTEN],
                );
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let unknown = r.fault("the manifest's tag is not known");
        Ok(match r.u8()? {
            TAG_COMMIT => Self::Commit(read_backup(r, None, None)?),
            TAG_COMMIT_ARCHIVAL => Self::Commit(read_archival(r)?),
            TAG_COMMIT_REWRITTEN => Self::Commit(read_rewritten(r)?),
            TAG_EXPIRED => Self::Expired { by: r.session()? },
            TAG_ADOPTED => {
                let (by, checkpoint) = read_adopted(r)?;
                Self::Adopted { by, checkpoint }
            }
            TAG_FORGOTTEN => Self::Forgotten,
            TAG_REVISED => Self::Revised(read_backup(r, None, None)?),
            TAG_REVISED_ARCHIVAL => Self::Revised(read_archival(r)?),
            TAG_REVISED_REWRITTEN => Self::Revised(read_rewritten(r)?),
            _ => return Err(unknown),
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        match self {
            Self::Commit(backup) | Self::Revised(backup) => backup_rules(backup),
            Self::Expired { .. } | Self::Adopted { .. } | Self::Forgotten => Ok(()),
        }
    }
}

impl SeriesName {
    /// The name's bytes in manifests. The keyed hash of these bytes names the series' folder
    /// (`EncryptionKey::series_id`).
    ///
    /// # Panics
    /// If [`Self::check`] fails: one name must not have two folders.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if let Err(error) = self.check() {
            panic!("about to name a folder by what could not be read back: {error}");
        }
        let mut out = Vec::new();
        write_series_name(&mut Writer::new(&mut out), self);
        out
    }

    /// Whether the paths are sorted and distinct, and nothing is too long.
    ///
    /// # Errors
    /// `Invalid` names the broken rule.
    pub fn check(&self) -> Result<()> {
        let invalid = |why| FormatError::Invalid {
            what: "series name",
            why,
        };
        series_name_rules(self).map_err(invalid)
    }
}

impl StreamRole {
    /// Every role, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Content, Self::Listing, Self::Fences, Self::Whole];

    /// Its number in manifests.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Content => 0,
            Self::Listing => 1,
            Self::Fences => 2,
            Self::Whole => 3,
        }
    }

    /// The inverse of [`Self::number`].
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.number() == number)
    }
}

fn write_tagged(w: &mut Writer<'_>, backup: &Backup, [tag, archival, rewritten]: [u8; 3]) {
    match (backup.next, backup.rewritten) {
        (None, None) => w.u8(tag),
        (Some(next), _) => {
            w.u8(archival);
            w.session(next);
        }
        (None, Some(bytes)) => {
            w.u8(rewritten);
            w.varint(bytes);
        }
    }
    write_backup(w, backup);
}

fn read_archival(r: &mut Reader<'_>) -> Result<Backup> {
    let next = r.session()?;
    read_backup(r, Some(next), None)
}

fn read_rewritten(r: &mut Reader<'_>) -> Result<Backup> {
    let bytes = r.varint()?;
    read_backup(r, None, Some(bytes))
}

fn write_backup(w: &mut Writer<'_>, b: &Backup) {
    write_series_name(w, &b.series);
    w.nanos(b.source_time);
    w.varint(b.elapsed_nanos);
    w.bytes(&b.user);
    w.text(&b.program);
    w.list(&b.tags, |w, tag| w.text(tag));
    w.option(b.hold_until, Writer::nanos);
    w.list(&b.streams, write_root);
    w.list(&b.containers, write_span);
    w.list(&b.adopted, write_adopted);
    w.list(&b.parents, |w, &(session, revision)| {
        w.session(session);
        w.revision(revision);
    });
    w.option(b.origin, |w, origin| {
        w.store(origin.store);
        w.session(origin.backup);
    });
    for figure in figures(&b.totals) {
        w.varint(figure);
    }
}

fn read_backup(r: &mut Reader<'_>, next: Option<SessionId>, rewritten: Option<u64>) -> Result<Backup> {
    Ok(Backup {
        series: read_series_name(r)?,
        source_time: r.nanos()?,
        elapsed_nanos: r.varint()?,
        user: r.bytes(NAME_BYTES_MAX)?.to_vec(),
        program: r.text(TEXT_BYTES_MAX)?,
        tags: r.list(1, |r| r.text(TEXT_BYTES_MAX))?,
        hold_until: r.option(Reader::nanos)?,
        streams: r.list(44, read_root)?,
        containers: r.list(3, read_span)?,
        adopted: r.list(2, read_adopted)?,
        parents: r.list(2, |r| Ok((r.session()?, r.revision()?)))?,
        origin: r.option(read_origin)?,
        next,
        rewritten,
        totals: read_totals(r)?,
    })
}

fn read_origin(r: &mut Reader<'_>) -> Result<Origin> {
    Ok(Origin {
        store: r.store()?,
        backup: r.session()?,
    })
}

fn backup_rules(b: &Backup) -> Result<(), &'static str> {
    series_name_rules(&b.series)?;
    rule(b.user.len() <= NAME_BYTES_MAX, "the user's name is too long")?;
    rule(
        b.program.len() <= TEXT_BYTES_MAX,
        "the program's version is too long",
    )?;
    rule(
        b.tags.iter().all(|tag| tag.len() <= TEXT_BYTES_MAX),
        "a tag is too long",
    )?;
    rule(ascends(&b.tags), "the tags are not sorted, or one stands twice")?;
    rule(b.streams.len() <= STREAMS_MAX, "there are too many streams")?;
    rule(
        b.next.is_none() || b.rewritten.is_none(),
        "a backup refers forward and was rewritten to refer forward to none",
    )?;
    for root in &b.streams {
        let holds_nodes = matches!(
            root.location.container.kind,
            ContainerKind::Recipe | ContainerKind::Small
        );
        rule(
            holds_nodes,
            "a root lies in a container of a kind that holds no nodes",
        )?;
        rule(root.level.get() >= 1, "a root is of level 1 at least")?;
    }
    b.containers.iter().try_for_each(span_rules)
}

fn write_root(w: &mut Writer<'_>, root: &StreamRoot) {
    w.u8(root.role.number());
    w.container(root.location.container);
    w.slot(root.location.slot);
    w.level(root.level);
    w.fingerprint(root.fingerprint);
    w.varint(root.len);
}

fn read_root(r: &mut Reader<'_>) -> Result<StreamRoot> {
    let unknown = r.fault("the stream's role is not known");
    let role = StreamRole::from_number(r.u8()?).ok_or(unknown)?;
    let location = types::ChunkLocation {
        container: r.container()?,
        slot: r.slot()?,
    };
    Ok(StreamRoot {
        role,
        location,
        level: r.level()?,
        fingerprint: r.fingerprint()?,
        len: r.varint()?,
    })
}

pub(crate) fn write_series_name(w: &mut Writer<'_>, name: &SeriesName) {
    w.bytes(&name.host);
    w.list(&name.paths, |w, path| w.bytes(path));
}

pub(crate) fn read_series_name(r: &mut Reader<'_>) -> Result<SeriesName> {
    let host = r.bytes(NAME_BYTES_MAX)?.to_vec();
    let paths = r.list(1, |r| r.bytes(PATH_BYTES_MAX).map(<[u8]>::to_vec))?;
    Ok(SeriesName { host, paths })
}

pub(crate) fn series_name_rules(name: &SeriesName) -> Result<(), &'static str> {
    rule(name.host.len() <= NAME_BYTES_MAX, "the host's name is too long")?;
    rule(
        name.paths.iter().all(|path| path.len() <= PATH_BYTES_MAX),
        "a path of the series is too long",
    )?;
    rule(
        ascends(&name.paths),
        "the series' paths are not sorted, or one stands twice",
    )
}

pub(crate) fn write_span(w: &mut Writer<'_>, span: &ContainerSpan) {
    w.u8(span.kind.number());
    w.sequence(span.first);
    w.varint32(span.count);
}

pub(crate) fn read_span(r: &mut Reader<'_>) -> Result<ContainerSpan> {
    let unknown = r.fault("the container kind is not known");
    let kind = ContainerKind::from_number(r.u8()?).ok_or(unknown)?;
    Ok(ContainerSpan {
        kind,
        first: r.sequence()?,
        count: r.varint32()?,
    })
}

pub(crate) fn span_rules(span: &ContainerSpan) -> Result<(), &'static str> {
    let last = span
        .count
        .checked_sub(1)
        .and_then(|more| span.first.get().checked_add(more));
    let fits = last.is_some_and(|last| last <= types::SequenceNumber::MAX.get());
    rule(
        fits,
        "a span of containers is empty or past the last sequence number",
    )
}

pub(crate) fn write_adopted(w: &mut Writer<'_>, adopted: &(SessionId, Option<u32>)) {
    w.session(adopted.0);
    w.option(adopted.1, Writer::varint32);
}

pub(crate) fn read_adopted(r: &mut Reader<'_>) -> Result<(SessionId, Option<u32>)> {
    Ok((r.session()?, r.option(Reader::varint32)?))
}

const fn figures(t: &BackupTotals) -> [u64; 15] {
    [
        t.files,
        t.folders,
        t.others,
        t.files_new,
        t.files_changed,
        t.files_unchanged,
        t.files_failed,
        t.bytes_logical,
        t.bytes_read,
        t.bytes_new,
        t.bytes_stored,
        t.chunks,
        t.chunks_new,
        t.segments,
        t.segments_known,
    ]
}

fn read_totals(r: &mut Reader<'_>) -> Result<BackupTotals> {
    Ok(BackupTotals {
        files: r.varint()?,
        folders: r.varint()?,
        others: r.varint()?,
        files_new: r.varint()?,
        files_changed: r.varint()?,
        files_unchanged: r.varint()?,
        files_failed: r.varint()?,
        bytes_logical: r.varint()?,
        bytes_read: r.varint()?,
        bytes_new: r.varint()?,
        bytes_stored: r.varint()?,
        chunks: r.varint()?,
        chunks_new: r.varint()?,
        segments: r.varint()?,
        segments_known: r.varint()?,
    })
}

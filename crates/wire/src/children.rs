//! Children of nodes, and what a client must know of an earlier backup's stream.

use format::wire::{Reader, Writer};
use recipe::{Child, Place, TreeRoot};
use types::{ByteRange, ChunkLocation, Level};

use crate::codec::{Result, Wire};

/// A run of zeros, which is nowhere.
const ZEROS: u8 = 0;
/// The slot behind that of the child before.
const NEXT: u8 = 1;
/// A location of its own.
const AT: u8 = 2;
/// The shortest child: where it is, a fingerprint and a length.
const CHILD_BYTES_MIN: usize = 34;

/// The children of a node. The receiver computes the node's fingerprint from theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentChildren {
    /// Where the node is.
    pub node: ChunkLocation,
    /// They are of one level. A node whose bound of containers the sender does not know has 0.
    pub children: Vec<Child>,
}

/// A stream of an earlier backup from which a backup may copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStream {
    /// Its root.
    pub root: TreeRoot,
    /// The parts to which the backup must not refer.
    pub unsound: Vec<ByteRange>,
    /// The root's children. None if there are too many for this message.
    pub children: Vec<Child>,
}

fn follows(before: Option<ChunkLocation>, at: ChunkLocation) -> bool {
    before
        .is_some_and(|before| before.container == at.container && before.slot.checked_add(1) == Some(at.slot))
}

fn write_children(w: &mut Writer<'_>, children: &[Child]) {
    w.u8(children.first().map_or(0, |child| child.level.get()));
    let mut before = None;
    w.list(children, |w, child| {
        match child.place {
            Place::Zeros => w.u8(ZEROS),
            Place::At(at) if follows(before, at) => w.u8(NEXT),
            Place::At(at) => {
                w.u8(AT);
                at.write(w);
            }
        }
        before = child.location().or(before);
        w.fingerprint(child.fingerprint);
        w.varint(child.logical_len);
        if child.level.get() > 0 {
            w.varint32(child.containers_max);
        }
    });
}

fn read_children(r: &mut Reader<'_>) -> Result<Vec<Child>> {
    let level = r.u8()?;
    let level = Level::new(level).map_err(|_| r.fault("no level"))?;
    let mut before: Option<ChunkLocation> = None;
    r.list(CHILD_BYTES_MIN, |r| {
        let place = match r.u8()? {
            ZEROS if level.get() == 0 => Place::Zeros,
            NEXT => {
                let next = before.and_then(|before| {
                    let slot = before.slot.checked_add(1)?;
                    Some(ChunkLocation { slot, ..before })
                });
                Place::At(next.ok_or_else(|| r.fault("nothing is before the first child"))?)
            }
            AT => {
                let at = ChunkLocation::read(r)?;
                r.require(!follows(before, at), "a location for the next slot")?;
                Place::At(at)
            }
            _ => return Err(r.fault("no place of a child")),
        };
        if let Place::At(at) = place {
            before = Some(at);
        }
        let (fingerprint, logical_len) = (r.fingerprint()?, r.varint()?);
        let containers_max = match place {
            _ if level.get() > 0 => r.varint32()?,
            Place::At(_) => 1,
            Place::Zeros => 0,
        };
        Ok(Child {
            fingerprint,
            logical_len,
            level,
            place,
            containers_max,
        })
    })
}

impl Wire for SentChildren {
    fn write(&self, w: &mut Writer<'_>) {
        self.node.write(w);
        write_children(w, &self.children);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            node: Wire::read(r)?,
            children: read_children(r)?,
        })
    }
}

impl Wire for KnownStream {
    fn write(&self, w: &mut Writer<'_>) {
        self.root.write(w);
        self.unsound.write(w);
        write_children(w, &self.children);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            root: Wire::read(r)?,
            unsound: Wire::read(r)?,
            children: read_children(r)?,
        })
    }
}

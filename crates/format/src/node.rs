//! Recipe nodes (docs/format.md, "Node").
//!
//! An encoded node is a chunk of a recipe or small container. One sequence of references has one
//! encoding: a reference that continues the previous entry is merged into it. So equal nodes have
//! equal bytes.

use types::{ContainerId, ContainerKind, Level, SeriesId, SessionId, Slot, SlotRange};

use crate::error::Result;
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// The most children of a node, counting every slot of a run: twice the largest average that
/// settings may name.
pub const NODE_CHILDREN_MAX: u32 = 1 << 16;
/// An upper bound of any node's encoding.
pub const NODE_BYTES_MAX: usize = 4 << 20;

const TAG_RUN: u8 = 0;
/// A run in the same container as the previous run.
const TAG_RUN_HERE: u8 = 1;
const TAG_ZEROS: u8 = 2;
const TAG_FORWARD: u8 = 3;

/// One entry of a node, in the order of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEntry {
    /// `count` consecutive slots of one container: chunks below a level-1 node, nodes of the level
    /// below otherwise.
    Run {
        /// The container.
        container: ContainerId,
        /// The first slot.
        first: Slot,
        /// The number of slots, at least 1.
        count: u32,
        /// The bytes of the stream that they cover.
        logical_len: u64,
    },
    /// A run of zero bytes, neither stored nor read (RevDedup 3.3, R8). At level 1 only. Adjacent
    /// runs are joined.
    Zeros {
        /// The number of zeros, at least 1.
        len: u64,
    },
    /// The same bytes in a later backup of the series (archival recipes only, R2).
    Forward {
        /// The later backup's series.
        series: SeriesId,
        /// The later backup.
        backup: SessionId,
        /// The stream's position in the manifest.
        stream: u16,
        /// The offset in the stream.
        offset: u64,
        /// The number of bytes.
        len: u64,
    },
}

impl NodeEntry {
    /// The bytes of the stream that the entry covers.
    #[must_use]
    pub const fn logical_len(&self) -> u64 {
        match *self {
            Self::Run { logical_len, .. } => logical_len,
            Self::Zeros { len } | Self::Forward { len, .. } => len,
        }
    }
}

/// A node of a recipe: a segment at level 1, a list of nodes above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// 1 to 8.
    pub level: Level,
    /// The bytes of the stream below it: the sum over its entries.
    pub logical_len: u64,
    /// An upper bound of the distinct data containers below it, exact at level 1. Capping counts
    /// with it.
    pub containers_max: u32,
    /// In stream order.
    pub entries: Vec<NodeEntry>,
}

payload!(Node);

impl Payload for Node {
    const WHAT: &'static str = "node";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.level(self.level);
        w.varint32(self.containers_max);
        let mut here = None;
        w.list(&self.entries, |w, entry| match *entry {
            NodeEntry::Run {
                container,
                first,
                count,
                logical_len,
            } => {
                if here == Some(container) {
                    w.u8(TAG_RUN_HERE);
                } else {
                    w.u8(TAG_RUN);
                    w.container(container);
                    here = Some(container);
                }
                w.slot(first);
                w.varint32(count);
                w.varint(logical_len);
            }
            NodeEntry::Zeros { len } => {
                w.u8(TAG_ZEROS);
                w.varint(len);
            }
            NodeEntry::Forward {
                series,
                backup,
                stream,
                offset,
                len,
            } => {
                w.u8(TAG_FORWARD);
                w.series(series);
                w.session(backup);
                w.u16(stream);
                w.varint(offset);
                w.varint(len);
            }
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let level = r.level()?;
        let containers_max = r.varint32()?;
        let mut here = None;
        let entries = r.list(2, |r| {
            let unknown = r.fault("an entry's tag is not known");
            let run = |r: &mut Reader<'_>, container| {
                let slots = r.slot_range()?;
                let (first, count) = (slots.first(), slots.count());
                Ok(NodeEntry::Run {
                    container,
                    first,
                    count,
                    logical_len: r.varint()?,
                })
            };
            match r.u8()? {
                TAG_RUN => {
                    let container = r.container()?;
                    r.require(
                        here != Some(container),
                        "a run names the container of the run before again",
                    )?;
                    here = Some(container);
                    run(r, container)
                }
                TAG_RUN_HERE => {
                    let missing = r.fault("there is no run before to take the container from");
                    run(r, here.ok_or(missing)?)
                }
                TAG_ZEROS => Ok(NodeEntry::Zeros { len: r.varint()? }),
                TAG_FORWARD => Ok(NodeEntry::Forward {
                    series: r.series()?,
                    backup: r.session()?,
                    stream: r.u16()?,
                    offset: r.varint()?,
                    len: r.varint()?,
                }),
                _ => Err(unknown),
            }
        })?;
        let too_long = r.fault("the lengths add up to more than 64 bits");
        let logical_len = sum(&entries).ok_or(too_long)?;
        Ok(Self {
            level,
            logical_len,
            containers_max,
            entries,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(self.level.get() >= 1, "a node is of level 1 at least")?;
        rule(
            self.level.get() == 1 || !self.entries.is_empty(),
            "only a node of level 1 may be empty",
        )?;
        rule(
            sum(&self.entries) == Some(self.logical_len),
            "the length is not the sum of the entries'",
        )?;
        let mut children = 0u64;
        for entry in &self.entries {
            entry_rules(entry, self.level)?;
            children += match *entry {
                NodeEntry::Run { count, .. } => count.into(),
                NodeEntry::Zeros { .. } | NodeEntry::Forward { .. } => 1,
            };
        }
        rule(
            children <= NODE_CHILDREN_MAX.into(),
            "there are more children than a node may have",
        )?;
        let merged = self.entries.windows(2).all(|pair| !continues(&pair[0], &pair[1]));
        rule(
            merged,
            "an entry continues the one before and is not merged with it",
        )
    }
}

fn sum(entries: &[NodeEntry]) -> Option<u64> {
    entries
        .iter()
        .try_fold(0u64, |sum, entry| sum.checked_add(entry.logical_len()))
}

fn entry_rules(entry: &NodeEntry, level: Level) -> Result<(), &'static str> {
    match *entry {
        NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        } => {
            rule(
                SlotRange::new(first, count).is_some(),
                "a run is empty or past the last slot",
            )?;
            rule(logical_len >= count.into(), "a run has fewer bytes than slots")?;
            let holds_nodes = matches!(container.kind, ContainerKind::Recipe | ContainerKind::Small);
            let holds_chunks = matches!(
                container.kind,
                ContainerKind::Data | ContainerKind::Archive | ContainerKind::Small
            );
            let fits = if level.get() == 1 {
                holds_chunks
            } else {
                holds_nodes
            };
            rule(
                fits,
                "a run lies in a container of a kind that does not hold such children",
            )
        }
        NodeEntry::Zeros { len } => {
            rule(len > 0, "a run of zeros is empty")?;
            rule(level.get() == 1, "a run of zeros stands above level 1")
        }
        NodeEntry::Forward { offset, len, .. } => {
            rule(len > 0, "a forward is empty")?;
            rule(
                offset.checked_add(len).is_some(),
                "a forward runs past the longest stream",
            )
        }
    }
}

/// Whether a longer `a` could include `b`.
fn continues(a: &NodeEntry, b: &NodeEntry) -> bool {
    match (*a, *b) {
        (
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            },
            NodeEntry::Run {
                container: next_container,
                first: next_first,
                ..
            },
        ) => container == next_container && first.checked_add(count) == Some(next_first),
        (NodeEntry::Zeros { .. }, NodeEntry::Zeros { .. }) => true,
        (
            NodeEntry::Forward {
                series,
                backup,
                stream,
                offset,
                len,
            },
            NodeEntry::Forward {
                series: next_series,
                backup: next_backup,
                stream: next_stream,
                offset: next_offset,
                ..
            },
        ) => {
            (series, backup, stream) == (next_series, next_backup, next_stream)
                && offset.checked_add(len) == Some(next_offset)
        }
        _ => false,
    }
}

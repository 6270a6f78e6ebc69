//! Follows forward references: an archival recipe refers to bytes of a later backup of its series
//! [RevDedup 2.4] (R2).
//!
//! The later backup may be archival too, and refer forward in turn. The chain is followed to its
//! end, where the chunks are. Nodes on the way are not compared with their fingerprints. Instead,
//! the referring node is: the found chunks must have the fingerprints that the node had before. So
//! its own fingerprint is still the one that the manifest reaches (INV-5).
//!
//! Invariant: following always ends, whatever the nodes say. Each reference leads to a later
//! backup, levels fall below a root, and parts are no longer than the parts that contain them.
//!
//! Memory: for each open backup of the chain, the children of one node for each level. The depth of
//! the chain does not use the stack.

use format::node::NodeEntry;
use types::{ByteRange, ChunkLocation, ContainerId, Level, Slot, SlotRange};

use crate::child::{CHUNK_LEVEL, Child, Place, level_below};
use crate::error::RecipeError;
use crate::source::NodeSource;
use crate::stream::StreamName;

/// Passes to `each` the chunks and runs of zeros in a range of a later backup's stream. Returns the
/// largest number of backups that were followed one after another.
///
/// # Errors
/// Errors of nodes, catalogs and streams; errors of `each`; [`RecipeError::BrokenForward`] if the
/// range cuts a chunk or a run of zeros, if a reference leads to no later backup, or if it leads
/// beyond the end of its stream.
pub(crate) fn follow<S: NodeSource + ?Sized>(
    source: &S,
    node: ChunkLocation,
    name: StreamName,
    range: ByteRange,
    each: &mut dyn FnMut(Child) -> Result<(), RecipeError>,
) -> Result<u32, RecipeError> {
    let mut following = Following {
        source,
        node,
        todo: Vec::new(),
        links: 0,
    };
    following.stream(None, name, range)?;
    while let Some(todo) = following.todo.pop() {
        match todo.what {
            What::Leaf(child) => each(child)?,
            What::Stream(name) => following.stream(Some(todo.within), name, todo.range)?,
            What::Node { at, level, len } => following.open(at, level, len, &todo)?,
        }
    }
    Ok(following.links)
}

/// A part that is still to be followed or passed on.
struct Todo {
    what: What,
    /// The range of its bytes.
    range: ByteRange,
    within: Link,
}

enum What {
    Leaf(Child),
    Stream(StreamName),
    Node {
        at: ChunkLocation,
        level: Level,
        len: u64,
    },
}

/// A backup on the chain.
#[derive(Clone, Copy)]
struct Link {
    name: StreamName,
    /// The number of backups up to this one.
    number: u32,
}

struct Following<'a, S: ?Sized> {
    source: &'a S,
    /// The node with the first forward reference.
    node: ChunkLocation,
    /// The parts to follow, the next one last.
    todo: Vec<Todo>,
    links: u32,
}

impl<S: NodeSource + ?Sized> Following<'_, S> {
    fn stream(&mut self, from: Option<Link>, name: StreamName, range: ByteRange) -> Result<(), RecipeError> {
        if from.is_some_and(|from| from.name.backup >= name.backup) {
            return Err(self.broken(name, "no later backup than the one that refers to it"));
        }
        let root = self.source.stream(self.node, name)?;
        let is_within = range
            .offset
            .checked_add(range.len)
            .is_some_and(|end| end <= root.len);
        if !is_within {
            return Err(self.broken(name, "shorter than the reference says"));
        }
        let number = from.map_or(0, |from| from.number).saturating_add(1);
        self.links = self.links.max(number);
        self.todo.push(Todo {
            what: What::Node {
                at: root.location,
                level: root.level,
                len: root.len,
            },
            range,
            within: Link { name, number },
        });
        Ok(())
    }

    /// Adds the parts of a node that are in the range, the first of them last.
    fn open(&mut self, at: ChunkLocation, level: Level, len: u64, todo: &Todo) -> Result<(), RecipeError> {
        let node = self.source.node(at)?;
        let below = level_below(level)
            .filter(|_| node.level == level)
            .ok_or(RecipeError::WrongLevel {
                found_at: at,
                expected: level,
                found: node.level,
            })?;
        if node.logical_len != len {
            return Err(RecipeError::WrongLength {
                node: at,
                expected: len,
                found: node.logical_len,
            });
        }
        let first = self.todo.len();
        let mut begin = 0u64;
        for entry in &node.entries {
            if let Some(part) = part_of(begin, entry.logical_len(), todo.range) {
                self.entry(at, below, entry, part, todo.within)?;
            }
            begin = begin.saturating_add(entry.logical_len());
        }
        self.todo[first..].reverse();
        Ok(())
    }

    fn entry(
        &mut self,
        at: ChunkLocation,
        below: Level,
        entry: &NodeEntry,
        part: ByteRange,
        within: Link,
    ) -> Result<(), RecipeError> {
        match *entry {
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            } => self.run(at, below, container, SlotRange::new(first, count), part, within),
            NodeEntry::Zeros { len } => {
                self.whole(len, part, within)?;
                let fingerprint = self.source.fingerprinter().zeros(len);
                self.push(What::Leaf(Child::zeros(fingerprint, len)), part, within);
                Ok(())
            }
            NodeEntry::Forward {
                series,
                backup,
                stream,
                offset,
                ..
            } => {
                let name = StreamName {
                    series,
                    backup,
                    stream,
                };
                let range = ByteRange {
                    offset: offset.saturating_add(part.offset),
                    len: part.len,
                };
                self.push(What::Stream(name), range, within);
                Ok(())
            }
        }
    }

    fn run(
        &mut self,
        at: ChunkLocation,
        below: Level,
        container: ContainerId,
        slots: Option<SlotRange>,
        range: ByteRange,
        within: Link,
    ) -> Result<(), RecipeError> {
        let missing = |slot| RecipeError::MissingSlot {
            node: at,
            missing: ChunkLocation { container, slot },
        };
        let slots = slots.ok_or_else(|| missing(Slot::MAX))?;
        let catalog = self.source.catalog(container)?;
        let mut begin = 0u64;
        for slot in slots.iter() {
            let entry = catalog.entry(slot).ok_or_else(|| missing(slot))?;
            let location = ChunkLocation { container, slot };
            let len = entry.logical_len;
            if let Some(part) = part_of(begin, len, range) {
                if entry.level != below {
                    return Err(RecipeError::WrongLevel {
                        found_at: location,
                        expected: below,
                        found: entry.level,
                    });
                }
                if below == CHUNK_LEVEL {
                    self.whole(len, part, within)?;
                    let child = Child {
                        place: Place::At(location),
                        ..Child::chunk(entry.fingerprint, len, location)
                    };
                    self.push(What::Leaf(child), part, within);
                } else {
                    let node = What::Node {
                        at: location,
                        level: below,
                        len,
                    };
                    self.push(node, part, within);
                }
            }
            begin = begin.saturating_add(len);
            if begin >= range.end() {
                return Ok(());
            }
        }
        // The run is shorter than its node says.
        Err(RecipeError::WrongRunLength {
            node: at,
            first: ChunkLocation {
                container,
                slot: slots.first(),
            },
            expected: range.end(),
            found: begin,
        })
    }

    fn push(&mut self, what: What, range: ByteRange, within: Link) {
        self.todo.push(Todo { what, range, within });
    }

    /// Checks that the range contains all bytes of a chunk or a run of zeros.
    fn whole(&self, len: u64, part: ByteRange, within: Link) -> Result<(), RecipeError> {
        if part.len == len {
            Ok(())
        } else {
            Err(self.broken(within.name, "cut elsewhere than the reference says"))
        }
    }

    fn broken(&self, name: StreamName, why: &'static str) -> RecipeError {
        RecipeError::BrokenForward {
            node: self.node,
            name,
            why,
        }
    }
}

/// The intersection of the range with `len` bytes from `begin` on, counted from `begin`.
fn part_of(begin: u64, len: u64, range: ByteRange) -> Option<ByteRange> {
    let first = range.offset.max(begin);
    let end = range.end().min(begin.saturating_add(len));
    (first < end).then(|| ByteRange {
        offset: first - begin,
        len: end - first,
    })
}

//! Opens a node: resolves its entries to children, and compares these with the expected
//! fingerprint.
//!
//! Invariant: the returned children together have the expected fingerprint and length. All are one
//! level below the node, and none is empty. So a walk that opens every node from the root returns
//! only what the root authenticates. It always ends, because levels fall and lengths add up.
//!
//! Memory: at most [`NODE_CHILDREN_MAX`] children, whatever the node claims.

use format::node::{NODE_CHILDREN_MAX, Node, NodeEntry};
use std::sync::Arc;
use types::{ByteRange, ChunkLocation, ContainerId, Level, Slot};

use crate::child::{CHUNK_LEVEL, Child, Place, SEGMENT_LEVEL, level_below};
use crate::error::RecipeError;
use crate::forward::follow;
use crate::source::NodeSource;
use crate::stream::StreamName;
use crate::tree_root::TreeRoot;

/// Reads a node and checks its level and length against the reference to it.
pub(crate) fn read_node<S: NodeSource + ?Sized>(
    source: &S,
    reference: &TreeRoot,
) -> Result<Arc<Node>, RecipeError> {
    let node = source.node(reference.location)?;
    let (found_at, expected) = (reference.location, reference.level);
    if node.level != expected || node.level == CHUNK_LEVEL {
        return Err(RecipeError::WrongLevel {
            found_at,
            expected,
            found: node.level,
        });
    }
    if node.logical_len != reference.len {
        let (expected, found) = (reference.len, node.logical_len);
        return Err(RecipeError::WrongLength {
            node: found_at,
            expected,
            found,
        });
    }
    Ok(node)
}

/// The nodes below this node, whose level must be at least 2. They are checked like every opened
/// node.
///
/// # Errors
/// Every error of this crate that names a node.
pub fn child_nodes<S: NodeSource + ?Sized>(
    source: &S,
    reference: &TreeRoot,
) -> Result<Vec<TreeRoot>, RecipeError> {
    let children = open_node(source, reference)?;
    Ok(children.iter().filter_map(Child::as_root).collect())
}

/// The children of this node in the order of the stream, unchecked: from the node, and from the
/// catalogs of the containers that it names. The `containers_max` of a node child is not known, and
/// 0. If the node refers forward, its children are those at the end of the reference.
///
/// # Errors
/// Every error of this crate that names a node.
fn children_by_catalogs<S: NodeSource + ?Sized>(
    source: &S,
    reference: &TreeRoot,
) -> Result<Vec<Child>, RecipeError> {
    let node = read_node(source, reference)?;
    let mut opening = Opening {
        source,
        at: reference.location,
        level: node.level,
        children: Vec::new(),
    };
    for entry in &node.entries {
        opening.entry(entry)?;
    }
    Ok(opening.children)
}

/// The children of this node in the order of the stream, checked. If the `containers_max` of a node
/// child is not known, it is 0.
///
/// # Errors
/// Every error of this crate that names a node.
pub fn open_node<S: NodeSource + ?Sized>(
    source: &S,
    reference: &TreeRoot,
) -> Result<Vec<Child>, RecipeError> {
    let children = match source.sent_children(reference)? {
        Some(children) => children,
        None => children_by_catalogs(source, reference)?,
    };
    let mut hasher = source.fingerprinter().node_hasher(reference.level);
    let below = level_below(reference.level).unwrap_or(CHUNK_LEVEL);
    let mut len = 0u64;
    for child in &children {
        if child.level != below {
            return Err(RecipeError::WrongLevel {
                found_at: child.location().unwrap_or(reference.location),
                expected: below,
                found: child.level,
            });
        }
        hasher.push(&child.fingerprint, child.logical_len);
        len = len.saturating_add(child.logical_len);
    }
    if len != reference.len {
        let (expected, found) = (reference.len, len);
        return Err(RecipeError::WrongLength {
            node: reference.location,
            expected,
            found,
        });
    }
    let found = hasher.finish();
    if found != reference.fingerprint {
        let expected = reference.fingerprint;
        return Err(RecipeError::WrongFingerprint {
            node: reference.location,
            expected,
            found,
        });
    }
    Ok(children)
}

struct Opening<'a, S: ?Sized> {
    source: &'a S,
    at: ChunkLocation,
    level: Level,
    children: Vec<Child>,
}

impl<S: NodeSource + ?Sized> Opening<'_, S> {
    fn entry(&mut self, entry: &NodeEntry) -> Result<(), RecipeError> {
        let node = self.at;
        match *entry {
            NodeEntry::Run {
                container,
                first,
                count,
                logical_len,
            } => self.run(container, first, count, logical_len),
            NodeEntry::Zeros { .. } if self.level != SEGMENT_LEVEL => Err(RecipeError::ZerosAboveChunks {
                node,
                level: self.level,
            }),
            NodeEntry::Zeros { len } => {
                let fingerprint = self.source.fingerprinter().zeros(len);
                self.add(Child::zeros(fingerprint, len))
            }
            NodeEntry::Forward { .. } if self.level != SEGMENT_LEVEL => {
                Err(RecipeError::UnexpectedForward { node })
            }
            NodeEntry::Forward {
                series,
                backup,
                stream,
                offset,
                len,
            } => {
                let name = StreamName {
                    series,
                    backup,
                    stream,
                };
                self.forward(name, ByteRange { offset, len })
            }
        }
    }

    /// Adds the children behind a forward reference. They must begin and end with chunks: zeros
    /// that might join zeros beside them are in the node itself.
    fn forward(&mut self, name: StreamName, range: ByteRange) -> Result<(), RecipeError> {
        let (source, node, first) = (self.source, self.at, self.children.len());
        follow(source, node, name, range, &mut |child| self.add(child))?;
        let are_zeros = |child: Option<&Child>| child.is_none_or(|child| child.place == Place::Zeros);
        let found = &self.children[first..];
        if are_zeros(found.first()) || are_zeros(found.last()) {
            let why = "zeros where a chunk is to begin or to end it";
            return Err(RecipeError::BrokenForward { node, name, why });
        }
        Ok(())
    }

    fn run(
        &mut self,
        container: ContainerId,
        first: Slot,
        count: u32,
        expected: u64,
    ) -> Result<(), RecipeError> {
        let below = level_below(self.level).unwrap_or(CHUNK_LEVEL);
        let catalog = self.source.catalog(container)?;
        let mut found = 0u64;
        for n in 0..count {
            let slot = first.checked_add(n).unwrap_or(Slot::MAX);
            let named = ChunkLocation { container, slot };
            let missing = || RecipeError::MissingSlot {
                node: self.at,
                missing: named,
            };
            if first.checked_add(n).is_none() {
                return Err(missing());
            }
            let entry = catalog.entry(slot).ok_or_else(missing)?;
            if entry.level != below {
                return Err(RecipeError::WrongLevel {
                    found_at: named,
                    expected: below,
                    found: entry.level,
                });
            }
            found = found.saturating_add(entry.logical_len);
            let containers_max = u32::from(below == CHUNK_LEVEL);
            self.add(Child {
                fingerprint: entry.fingerprint,
                logical_len: entry.logical_len,
                level: below,
                place: Place::At(named),
                containers_max,
            })?;
        }
        if found != expected {
            let first = ChunkLocation {
                container,
                slot: first,
            };
            return Err(RecipeError::WrongRunLength {
                node: self.at,
                first,
                expected,
                found,
            });
        }
        Ok(())
    }

    fn add(&mut self, child: Child) -> Result<(), RecipeError> {
        if child.logical_len == 0 {
            return Err(RecipeError::EmptyPart { node: self.at });
        }
        if self.children.len() >= NODE_CHILDREN_MAX as usize {
            return Err(RecipeError::TooManyChildren {
                node: self.at,
                max: NODE_CHILDREN_MAX,
            });
        }
        self.children.push(child);
        Ok(())
    }
}

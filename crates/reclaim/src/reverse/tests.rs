//! A stream that has a chunk in two places drops both copies when it refers forward. So a copy that
//! cannot be read never replaces them, even if it is one of the two.

use std::sync::Arc;

use container::{CompressedRegion, Compression, ContainerBuilder, Containers, PendingEntry};
use env::fault::FaultStorage;
use recipe::{Child, NodeCache, Place, TreeRoot, segment_node};
use session::ReclaimView;
use types::{ChunkLocation, ContainerKind, Generation, Level, SessionId};

use super::*;
use crate::compact::Packing;
use crate::test_store;

const LEN: usize = 1000;
const PACKING: Packing = Packing {
    region_bytes: 4000,
    compression: Compression::Off,
    container_bytes: 40_000,
};

struct Scene {
    containers: Containers,
    numbers: Numbers,
}

impl Scene {
    fn new() -> Self {
        Self {
            containers: test_store::containers(Arc::new(FaultStorage::new()), 16 << 20),
            numbers: Numbers::new(SessionId::new(1).unwrap()),
        }
    }

    /// Puts the chunk in a container of its own, which stores these bytes for it.
    fn chunk(&mut self, plain: &[u8], stored: Vec<u8>) -> Child {
        let id = self.numbers.next(ContainerKind::Data).unwrap();
        let fingerprint = self.containers.fingerprinter().chunk(plain);
        let mut builder = ContainerBuilder::new(id, Generation::FIRST);
        let entry = PendingEntry::chunk(fingerprint, u32::try_from(LEN).unwrap());
        let slot = builder.append(CompressedRegion::raw(stored), &[entry]);
        self.containers
            .put(&builder.seal(&self.containers).unwrap())
            .unwrap();
        let container = id;
        Child {
            fingerprint,
            logical_len: LEN as u64,
            level: Level::new(0).unwrap(),
            place: Place::At(ChunkLocation { container, slot }),
            containers_max: 1,
        }
    }

    fn sound(&mut self, byte: u8) -> Child {
        let plain = vec![byte; LEN];
        self.chunk(&plain, plain.clone())
    }

    /// Puts the chunk as zeros, as healing does when it does not find the chunk.
    fn zeros(&mut self, byte: u8) -> Child {
        self.chunk(&[byte; LEN], vec![0; LEN])
    }

    /// The parent of these children, in a container of its own.
    fn parent(&mut self, children: &[Child]) -> Child {
        let node = segment_node(children);
        let mut hasher = self.containers.fingerprinter().node_hasher(node.level);
        let each = children.iter();
        each.for_each(|child| hasher.push(&child.fingerprint, child.logical_len));
        let fingerprint = hasher.finish();
        let mut writer = NodeWriter::new(&self.containers, PACKING, SessionId::new(1).unwrap());
        let at = writer.store(&mut self.numbers, &fingerprint, &node).unwrap();
        writer.finish().unwrap();
        Child {
            fingerprint,
            logical_len: node.logical_len,
            level: node.level,
            place: Place::At(at),
            containers_max: node.containers_max,
        }
    }

    fn stream(&mut self, segments: &[Child]) -> TreeRoot {
        let root = self.parent(segments);
        TreeRoot {
            location: root.location().unwrap(),
            level: root.level,
            fingerprint: root.fingerprint,
            len: root.logical_len,
        }
    }

    fn matches(&self, old: &TreeRoot, new: &TreeRoot) -> Matches {
        let nodes = NodeCache::new(self.containers.clone(), 1 << 20);
        let (view, sound) = (ReclaimView::default(), Sound::new(&self.containers));
        Matches::find(&nodes, old, Some(new), (&view, &sound), &()).unwrap()
    }
}

/// Whether a chunk that the older stream has in two places matches, if the later stream refers to
/// `one` of them. Tries both orders of the places.
fn chunk_matches(one: fn(&mut Scene, u8) -> Child) -> [bool; 2] {
    [false, true].map(|is_turned| {
        let mut scene = Scene::new();
        let (one, other) = (one(&mut scene, 1), scene.sound(1));
        let (own, later) = (scene.sound(2), scene.sound(3));
        let mut segments = [scene.parent(&[one, own]), scene.parent(&[other])];
        if is_turned {
            segments.reverse();
        }
        let old = scene.stream(&segments);
        let segment = scene.parent(&[later, one]);
        let new = scene.stream(&[segment]);
        let found = scene.matches(&old, &new);
        assert_eq!(found.chunk(&own.fingerprint), None);
        found.chunk(&one.fingerprint) == Some(LEN as u64)
    })
}

/// The same for a segment.
fn segment_matches(one: fn(&mut Scene, u8) -> Child) -> [bool; 2] {
    [false, true].map(|is_turned| {
        let mut scene = Scene::new();
        let (one, other, later) = (one(&mut scene, 1), scene.sound(1), scene.sound(3));
        let (one, other, later) = (
            scene.parent(&[one]),
            scene.parent(&[other]),
            scene.parent(&[later]),
        );
        let mut segments = [one, other];
        if is_turned {
            segments.reverse();
        }
        let (old, new) = (scene.stream(&segments), scene.stream(&[later, one]));
        scene.matches(&old, &new).segment(&one.fingerprint) == Some(LEN as u64)
    })
}

#[test]
fn a_chunk_that_cannot_be_read_replaces_no_copy_of_it() {
    assert_eq!(chunk_matches(Scene::zeros), [false; 2]);
    assert_eq!(chunk_matches(Scene::sound), [true; 2]);
}

#[test]
fn a_segment_that_cannot_be_read_replaces_no_copy_of_it() {
    assert_eq!(segment_matches(Scene::zeros), [false; 2]);
    assert_eq!(segment_matches(Scene::sound), [true; 2]);
}

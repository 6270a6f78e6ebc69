//! Hooks of rewritten containers.

use container::Containers;
use index::Index;
use types::{ContainerId, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::progress::Progress;
use crate::sweep;

/// Catalogs that are read side by side, and in memory at a time (INV-7): a prune may rewrite tens
/// of thousands of containers, and a catalog takes some 150 KB.
const CATALOGS_MAX: usize = 8;

/// Publishes hooks of rewritten containers, so that look-ups find these. A container may have lost
/// the fingerprints that led to it. A copied chunk has a newer place than its old one. `by` is the
/// session that rewrote them.
pub(crate) fn hook_again(context: &Context<'_>, by: SessionId, rewritten: &[ContainerId]) -> Result<()> {
    match context.index {
        Some(index) => publish(index, context.containers, (by, rewritten), context.progress),
        None => Ok(()),
    }
}

/// Adds one catalog after another to a writer, which writes hooks early when its budget is used up.
fn publish(
    index: &Index,
    containers: &Containers,
    (by, rewritten): (SessionId, &[ContainerId]),
    progress: &dyn Progress,
) -> Result<()> {
    let is_far = containers.env().storage.is_far();
    let mut writer = None;
    for some in rewritten.chunks(CATALOGS_MAX) {
        let views = object::several(is_far, some.len(), |at| {
            sweep::catalog(containers, some[at], progress)
        })?;
        for view in views.into_iter().flatten() {
            writer.get_or_insert_with(|| index.rewritten(by)).add(&view)?;
        }
    }
    if let Some(writer) = writer {
        writer.publish(&[by])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use container::{Compression, ContainerBuilder, PendingEntry, compress_region};
    use env::fault::FaultStorage;
    use format::names;
    use index::{HookIndex, HookKind, IndexOptions};
    use types::{ContainerKind, Fingerprint, Generation, SequenceNumber};

    use super::*;
    use crate::progress::Waiting;
    use crate::test_store;
    use crate::warning::Warning;

    /// The objects that were put when a catalog could not be read.
    struct PutsAtWarning(FaultStorage, AtomicU64);

    impl Progress for PutsAtWarning {
        fn add_nodes(&self, _: u64) {}
        fn set_total(&self, _: u64) {}
        fn set_total_bytes(&self, _: u64) {}
        fn add_done(&self, _: u64) {}
        fn waits_for(&self, _: &[Waiting]) {}
        fn is_cancelled(&self) -> bool {
            false
        }
        fn warn(&self, _: Warning) {
            self.1.store(self.0.counters().puts, Ordering::Relaxed);
        }
    }

    fn id(sequence: u32) -> ContainerId {
        ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(sequence).unwrap(),
        }
    }

    fn put(containers: &Containers, id: ContainerId) -> Vec<Fingerprint> {
        let chunks = (0..200).map(|n| [id.sequence.get(), n]);
        let chunks: Vec<Vec<u8>> = chunks
            .map(|at| at.map(u32::to_le_bytes).concat().repeat(4))
            .collect();
        let prints = chunks.iter().map(|chunk| containers.fingerprinter().chunk(chunk));
        let prints: Vec<Fingerprint> = prints.collect();
        let entries: Vec<_> = prints
            .iter()
            .map(|print| PendingEntry::chunk(*print, 32))
            .collect();
        let mut builder = ContainerBuilder::new(id, Generation::FIRST);
        builder.append(compress_region(chunks.concat(), Compression::Off), &entries);
        containers.put(&builder.seal(containers).unwrap()).unwrap();
        prints
    }

    /// Their catalogs are not in memory together: hooks are written before the last one is read.
    #[test]
    fn hooks_of_many_containers_are_written_as_catalogs_are_read() {
        let storage = FaultStorage::new();
        let containers = test_store::containers(Arc::new(storage.clone()), 0);
        let mut prints: Vec<_> = (0..40).map(|n| (id(n), put(&containers, id(n)))).collect();
        let (last, _) = prints.pop().unwrap();
        assert!(storage.damage(&names::container(last, Generation::FIRST), |bytes| bytes.clear()));
        let options = IndexOptions {
            pending_bytes_max: 16 << 10,
            ..IndexOptions::default()
        };
        let index = Index::open(Arc::new(storage.clone()), test_store::STORE, options).unwrap();
        let by = SessionId::new(2).unwrap();
        let before = storage.counters().puts;
        let progress = PutsAtWarning(storage, AtomicU64::new(0));
        let ids: Vec<ContainerId> = (0..40).map(id).collect();
        publish(&index, &containers, (by, &ids), &progress).unwrap();
        let written = progress.1.load(Ordering::Relaxed) - before;
        assert!(written > 1, "{written} objects");
        assert!(index.covers(by));
        let mut out = Vec::new();
        for (id, prints) in prints {
            for print in prints {
                index.candidates(&print, HookKind::Data, &mut out);
                assert_eq!(out, [id]);
            }
        }
    }
}

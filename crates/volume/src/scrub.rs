//! Reads the blocks of a pool for a check: each can be read, and the registered ones have the
//! contents that the index knows.
//!
//! A block that the device cannot read is a finding, and the check goes on (`unreadable`).

use std::ops::ControlFlow;

use ddi::Bucket;
use env::AlignedBuffer;
use format::pool::BLOCK_BYTES;
use format::pool::entry::MapEntry;
use types::{BlockNumber, Lba};

use crate::check::Uses;
use crate::error::Result;
use crate::finding::{FINDINGS_MAX, Finding};
use crate::pool::Pool;

/// Blocks of volumes that a finding names.
const REFERRERS_MAX: usize = 8;

fn buffer() -> AlignedBuffer {
    let mut buffer = AlignedBuffer::with_capacity(BLOCK_BYTES);
    buffer.grow_to(BLOCK_BYTES);
    buffer
}

impl Pool {
    /// Reads registered blocks, and compares their fingerprints with the index's keys.
    pub(crate) fn read_registered(&self, uses: &mut Uses) -> Result<()> {
        let (mut rotten, mut unreadable) = (Vec::new(), Vec::new());
        let (mut failed, mut buffer) = (None, buffer());
        self.shared.index.scan(Bucket::FIRST, &mut |row| {
            if uses.index(row.block).is_none() {
                return ControlFlow::Continue(());
            }
            match self.shared.try_read(row.block, &mut buffer) {
                Ok(true) => {}
                Ok(false) => {
                    unreadable.push(row.block);
                    return ControlFlow::Continue(());
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            uses.checked.read += 1;
            if ddi::RowKey::from(&self.shared.printer.chunk(&buffer)) != row.key {
                rotten.push(row.block);
            }
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        for block in rotten.into_iter().take(FINDINGS_MAX) {
            let volumes = self.referrers(block, REFERRERS_MAX);
            uses.find(Finding::Rotten { block, volumes });
        }
        for block in unreadable.into_iter().take(FINDINGS_MAX) {
            let volumes = self.referrers(block, REFERRERS_MAX);
            uses.find(Finding::UnreadableBlock { block, volumes });
        }
        Ok(())
    }

    /// Reads the blocks that volumes have alone.
    pub(crate) fn read_private(&self, uses: &mut Uses) -> Result<()> {
        let mut buffer = buffer();
        for volume in self.all() {
            let (mut unreadable, mut failed) = (Vec::new(), None);
            // A page that cannot be read is a finding already.
            volume.each_entry(&mut |lba, entry| {
                let (MapEntry::Private { block, .. } | MapEntry::Frozen { block, .. }) = entry else {
                    return;
                };
                if failed.is_some() || uses.index(block).is_none() {
                    return;
                }
                match self.shared.try_read(block, &mut buffer) {
                    Ok(true) => {}
                    Ok(false) => unreadable.push((block, lba)),
                    Err(error) => failed = Some(error),
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            for (block, lba) in unreadable {
                let volumes = vec![(volume.name(), lba)];
                uses.find(Finding::UnreadableBlock { block, volumes });
            }
        }
        Ok(())
    }

    /// Lists the blocks that the finder or the collector could not read.
    pub(crate) fn list_unreadable(&self, uses: &mut Uses) {
        let all = self.all().into_iter();
        let blocks: std::collections::BTreeSet<BlockNumber> = all
            .flat_map(|volume| volume.core().unreadable.clone())
            .filter(|block| uses.index(*block).is_some())
            .collect();
        for block in blocks.into_iter().take(FINDINGS_MAX) {
            let volumes = self.referrers(block, REFERRERS_MAX);
            uses.find(Finding::UnreadableBlock { block, volumes });
        }
    }

    /// Lists the blocks that are set aside because of rot, and that volumes still refer to.
    pub(crate) fn list_suspects(&self, uses: &mut Uses) {
        let all = self.all().into_iter();
        let suspects: std::collections::BTreeSet<BlockNumber> =
            all.flat_map(|volume| volume.core().suspects.clone()).collect();
        for block in suspects {
            let is_listed = |finding: &Finding| matches!(finding, Finding::Rotten { block: listed, .. } if *listed == block);
            if uses.is_referred(block) && !uses.checked.findings.iter().any(is_listed) {
                let volumes = self.referrers(block, REFERRERS_MAX);
                uses.find(Finding::Rotten { block, volumes });
            }
        }
    }

    /// The blocks of volumes that refer to a block, at most `max`.
    fn referrers(&self, block: BlockNumber, max: usize) -> Vec<(String, Lba)> {
        let mut found = Vec::new();
        for volume in self.all() {
            volume.each_entry(&mut |lba, entry| {
                if entry.block() == Some(block) && found.len() < max {
                    found.push((volume.name(), lba));
                }
            });
        }
        found
    }
}

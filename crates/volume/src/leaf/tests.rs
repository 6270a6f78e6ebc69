use env::{Entropy, SeededEntropy};
use types::BlockNumber;

use super::*;

fn below(entropy: &SeededEntropy, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

/// Beside a plain list of the blocks of log that mapped each entry: what is said to be settled must
/// be, and a page that is mapped again and again does not keep its other entries unsettled.
#[test]
fn an_entry_is_settled_when_a_durable_mark_covers_its_record() {
    for seed in 0..20 {
        let entropy = SeededEntropy::new(seed);
        let leaf = Leaf::new(0);
        let mut mapped = vec![0_u64; PAGE_ENTRIES];
        let (mut sequence, mut settled) = (2, 2);
        for _ in 0..500 {
            match below(&entropy, 4) {
                0 => sequence += 1,
                1 => settled += below(&entropy, sequence - settled + 1),
                _ => {
                    let index = usize::try_from(below(&entropy, 20)).expect("small");
                    leaf.note_mapped(index, sequence, settled);
                    mapped[index] = sequence;
                }
            }
            for (index, at) in mapped.iter().enumerate().take(24) {
                if leaf.is_settled(index, settled) {
                    assert!(
                        *at < settled,
                        "entry {index}, mapped at {at}, settled to {settled}"
                    );
                }
            }
        }
        assert!((0..PAGE_ENTRIES).all(|index| leaf.is_settled(index, sequence + 1)));
    }
}

#[test]
fn entries_settle_while_others_of_their_page_are_mapped() {
    let leaf = Leaf::new(0);
    leaf.note_mapped(7, 10, 0);
    for sequence in 11..31 {
        // The mark is always ten blocks of log behind.
        leaf.note_mapped(8, sequence, sequence - 10);
    }
    assert!(leaf.is_settled(7, 21));
    assert!(!leaf.is_settled(8, 21));
}

#[test]
fn a_page_is_stored_and_read_again_and_frozen_entries_are_private_in_it() {
    let leaf = Leaf::new(7);
    let block = BlockNumber::new(5000).expect("small");
    let mut page = [0; BLOCK_BYTES];
    assert!(!leaf.to_page(&mut page), "zeros");
    leaf.set(3, MapEntry::Frozen { block, birth: 1 });
    leaf.set(511, MapEntry::Counted { block, birth: 1 });
    assert!(leaf.to_page(&mut page));
    let read = Leaf::from_page(7, &page).expect("a page");
    assert_eq!(read.get(3), MapEntry::Private { block, birth: 1 });
    assert_eq!(read.get(511), MapEntry::Counted { block, birth: 1 });
    assert_eq!(read.lba(511).get(), 7 * LEAF_BLOCKS + 511);
    assert!(read.is_settled(3, 0));
    page[..8].copy_from_slice(&MapEntry::Frozen { block, birth: 1 }.to_u64().to_le_bytes());
    assert!(Leaf::from_page(7, &page).is_none(), "never stored");
}

#[test]
fn a_checkpoint_copies_a_page_once_and_a_change_makes_it_dirty_again() {
    let leaf = Leaf::new(0);
    assert!(leaf.is_clean());
    assert!(leaf.set_dirty() && !leaf.set_dirty());
    leaf.begin_checkpoint();
    assert!(leaf.is_to_copy() && !leaf.is_clean());
    leaf.set_copied();
    assert!(!leaf.is_to_copy() && !leaf.is_clean(), "not durable yet");
    assert!(leaf.set_dirty(), "changed meanwhile");
    leaf.end_checkpoint();
    assert!(!leaf.is_clean());
    leaf.begin_checkpoint();
    leaf.end_checkpoint();
    assert!(leaf.is_clean());
}

use super::*;

#[test]
fn an_era_ends_when_its_readers_have_ended() {
    let readers = Readers::default();
    let unmapped_in = readers.era();
    let reading = readers.enter();
    for _ in 0..5 {
        assert!(readers.advance() < unmapped_in + 2, "a reader is at the block");
    }
    // Later readers do not hold it up for ever.
    let later = readers.enter();
    drop(reading);
    assert_eq!(readers.advance(), unmapped_in + 2);
    drop(later);
    assert_eq!(readers.advance(), unmapped_in + 3);
}

#[test]
fn no_reader_is_at_a_block_two_eras_after_it_was_unmapped() {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    let (readers, current, stop) = (Readers::default(), AtomicU64::new(1), AtomicBool::new(false));
    // A block is alive until it is reused: then its number is below this one.
    let reused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let _reading = readers.enter();
                    let block = current.load(Ordering::SeqCst);
                    std::hint::spin_loop();
                    assert!(reused.load(Ordering::SeqCst) < block, "block {block} was reused");
                }
            });
        }
        for block in 1..300 {
            current.store(block + 1, Ordering::SeqCst);
            let unmapped_in = readers.era();
            while readers.advance() < unmapped_in + 2 {
                std::thread::yield_now();
            }
            reused.store(block, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
    });
}

//! Feeds `format::probe::pool_blocks`; the same function runs on pseudo-random bytes in the crate's
//! tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| format::probe::pool_blocks(bytes));

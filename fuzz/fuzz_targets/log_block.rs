//! Feeds `format::probe::log_block`; the same function runs on pseudo-random bytes in the crate's
//! tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| format::probe::log_block(bytes));

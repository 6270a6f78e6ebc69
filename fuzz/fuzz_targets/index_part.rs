//! Feeds `index::probe::part`; the same function runs on spoilt runs in the crate's tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| index::probe::part(bytes));

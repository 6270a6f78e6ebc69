//! Feeds `index::probe::part` and `index::probe::unread`; the same functions run on spoilt objects
//! in the crate's tests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    index::probe::part(bytes);
    index::probe::unread(bytes);
});

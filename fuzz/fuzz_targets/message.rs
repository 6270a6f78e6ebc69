//! Feeds `wire::probe::message`: every message between a client and a server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::probe::message(bytes));

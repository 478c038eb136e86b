//! The program of the target `ring_consumer`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("ring_consumer", bytes));

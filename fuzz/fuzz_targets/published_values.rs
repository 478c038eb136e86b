//! The program of the target `published_values`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("published_values", bytes));

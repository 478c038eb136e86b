//! The program of the target `scmp_consumer`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("scmp_consumer", bytes));

//! The program of the target `shared_offer`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("shared_offer", bytes));

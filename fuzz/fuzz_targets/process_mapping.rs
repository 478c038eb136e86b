//! The program of the target `process_mapping`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("process_mapping", bytes));

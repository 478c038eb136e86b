//! The program of the target `pmi_server`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("pmi_server", bytes));

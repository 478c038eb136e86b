//! The program of the target `ucp_rkey`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("ucp_rkey", bytes));

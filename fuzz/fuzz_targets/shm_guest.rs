//! The program of the target `shm_guest`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("shm_guest", bytes));

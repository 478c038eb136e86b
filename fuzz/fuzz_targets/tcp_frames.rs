//! The program of the target `tcp_frames`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("tcp_frames", bytes));

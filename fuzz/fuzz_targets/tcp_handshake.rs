//! The program of the target `tcp_handshake`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("tcp_handshake", bytes));

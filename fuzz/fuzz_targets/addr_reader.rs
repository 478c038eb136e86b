//! The program of the target `addr_reader`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("addr_reader", bytes));

//! The program of the target `verbs_messages`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bowline_fuzz::run("verbs_messages", bytes));

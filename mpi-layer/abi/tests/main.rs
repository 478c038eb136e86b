//! The C library under C programs.

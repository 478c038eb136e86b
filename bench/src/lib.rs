//! Comparisons with other libraries.

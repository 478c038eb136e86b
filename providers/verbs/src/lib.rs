//! Transport over verbs.

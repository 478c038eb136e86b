//! Transport over TCP.

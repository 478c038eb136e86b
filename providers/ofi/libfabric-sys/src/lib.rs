//! Bindings of libfabric.

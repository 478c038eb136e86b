//! Transport over libfabric.

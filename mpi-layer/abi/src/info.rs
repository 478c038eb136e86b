//! Chapter: information, pairs of a key and a value.

/// Keys and values in the order in which keys came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs(pub(crate) Vec<(Vec<u8>, Vec<u8>)>);

//! Chapter: attributes, and the keys that they are under.

use bowline::Launched;

use crate::fault::Fault;
use crate::library::{CommObject, Library};

/// A value under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    pub(crate) keyval: i32,
    pub(crate) value: usize,
}

/// The keys of the program.
#[derive(Debug)]
pub(crate) struct Attributes {}

impl Attributes {
    pub(crate) fn new(_launched: &Launched, _size: i32) -> Self {
        Self {}
    }
}

impl CommObject {
    /// Deletes all attributes, the last one first.
    pub(crate) fn delete_attributes(&self, _library: &Library) -> Result<(), Fault> {
        Ok(())
    }
}

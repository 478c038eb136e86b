//! The indexes of [`Indexed`](super::indexed::Indexed): which list a rank's entries are in.

mod array;
mod cubes;
mod hash;
mod tree;

pub use array::ArrayIndex;
pub use cubes::CubeIndex;
pub use hash::HashIndex;
pub use tree::{TreeIndex, TreeShape};

use super::indexed::Leaf;
use super::pool::END;

/// Leaves that come and go. Numbers of freed ones are used again.
#[derive(Debug, Default)]
struct Leaves {
    all: Vec<Leaf>,
    free: Vec<u32>,
}

impl Leaves {
    #[inline]
    fn make(&mut self) -> u32 {
        if let Some(leaf) = self.free.pop() {
            return leaf;
        }
        let leaf = u32::try_from(self.all.len()).ok().filter(|&leaf| leaf != END);
        self.all.push(Leaf::EMPTY);
        // There is space for all when they are dropped, which allocates nothing.
        self.free.reserve(self.all.len());
        leaf.expect("fewer leaves than entries")
    }

    #[inline]
    fn drop(&mut self, leaf: u32) {
        self.free.push(leaf);
    }
}

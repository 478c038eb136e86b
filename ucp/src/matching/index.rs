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

/// Makes space in `all` for `more` entries, an eighth beyond what it has and not as much again: an index is chosen for
/// the memory that it takes.
fn reserve<T>(all: &mut Vec<T>, more: usize) {
    if all.capacity() - all.len() < more {
        all.reserve_exact(more.max(4).max(all.len() / 8));
    }
}

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
        reserve(&mut self.all, 1);
        self.all.push(Leaf::EMPTY);
        // There is space for all when they are dropped, which allocates nothing.
        self.free.reserve_exact(self.all.capacity());
        leaf.expect("fewer leaves than entries")
    }

    #[inline]
    fn drop(&mut self, leaf: u32) {
        self.free.push(leaf);
    }
}

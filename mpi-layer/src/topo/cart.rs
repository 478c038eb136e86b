//! Communicators with a grid, and parts of a grid.

use crate::comm::Communicator;
use crate::error::{MpiError, length};
use crate::topology::{Cart, Topology};

impl Communicator {
    /// A communicator of the first ranks of this one in a grid; `None` at the ranks that the grid has no place for.
    /// Ranks keep their order whether or not `reorder` allows another one. Collective, with the same arguments at all
    /// ranks. (`MPI_Cart_create`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] and [`MpiError::InvalidDims`], the latter also when the grid is greater than the
    /// communicator; [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn cart_create(
        &self,
        dims: &[i32],
        periods: &[bool],
        reorder: bool,
    ) -> Result<Option<Self>, MpiError> {
        let _ = reorder;
        let cart = self.fitting(dims, periods)?;
        self.create_placed(cart.size().unsigned_abs(), Topology::Cart(cart))
    }

    /// A grid for which there are enough ranks.
    fn fitting(&self, dims: &[i32], periods: &[bool]) -> Result<Cart, MpiError> {
        let cart = Cart::new(dims, periods)?;
        if cart.size() > self.size() {
            return Err(MpiError::InvalidDims { why: "the grid has more places than ranks" });
        }
        Ok(cart)
    }

    /// The rank that this one would have in a grid; `None` where it would have none. (`MPI_Cart_map`)
    ///
    /// # Errors
    /// Those of the arguments of [`cart_create`](Self::cart_create).
    pub fn cart_map(&self, dims: &[i32], periods: &[bool]) -> Result<Option<i32>, MpiError> {
        let cart = self.fitting(dims, periods)?;
        Ok(Some(self.rank()).filter(|&rank| rank < cart.size()))
    }

    /// The coordinates of a rank of the grid. (`MPI_Cart_coords`)
    ///
    /// # Errors
    /// [`MpiError::NoTopology`], and as for [`Cart::coords`].
    pub fn cart_coords(&self, rank: i32) -> Result<Vec<i32>, MpiError> {
        self.cart()?.coords(rank)
    }

    /// The rank at some coordinates of the grid. (`MPI_Cart_rank`)
    ///
    /// # Errors
    /// [`MpiError::NoTopology`], and as for [`Cart::rank`].
    pub fn cart_rank(&self, coords: &[i32]) -> Result<i32, MpiError> {
        self.cart()?.rank(coords)
    }

    /// Where this rank receives from and sends to in a shift of the grid. (`MPI_Cart_shift`)
    ///
    /// # Errors
    /// [`MpiError::NoTopology`], and as for [`Cart::shift`].
    pub fn cart_shift(&self, direction: usize, displacement: i32) -> Result<(i32, i32), MpiError> {
        self.cart()?.shift(self.rank(), direction, displacement)
    }

    /// Cuts the grid into grids of the dimensions that are kept: ranks whose other coordinates are the same are in one.
    /// Collective. (`MPI_Cart_sub`)
    ///
    /// # Errors
    /// [`MpiError::NoTopology`]; [`MpiError::InvalidLength`] when `kept` does not have an entry for each dimension;
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn cart_sub(&self, kept: &[bool]) -> Result<Self, MpiError> {
        let cart = self.cart()?;
        length("the dimensions that are kept", cart.dims.len(), kept.len())?;
        let coords = cart.coords_of(self.rank());
        let (mut color, mut key) = (0, 0);
        for ((&kept, &coordinate), &dim) in kept.iter().zip(&coords).zip(&cart.dims) {
            let number = if kept { &mut key } else { &mut color };
            *number = *number * dim + coordinate;
        }
        fn pick<T: Copy>(all: &[T], kept: &[bool]) -> Vec<T> {
            all.iter().zip(kept).filter(|(_, kept)| **kept).map(|(&one, _)| one).collect()
        }
        let (dims, periods) = (pick(&cart.dims, kept), pick(&cart.periods, kept));
        let part = self.split_wide(Some(u64::from(color.unsigned_abs())), key)?;
        let part = part.expect("a rank with a colour is in a part");
        part.take_topology(Topology::Cart(Cart { dims, periods }));
        Ok(part)
    }
}

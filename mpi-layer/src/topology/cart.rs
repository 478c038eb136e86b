//! Grids: what a position is, and which ranks are beside each other.
//!
//! Ranks are in row-major order: the last coordinate changes from one rank to the next. A grid of no dimensions has
//! one rank.

use super::Neighbors;
use crate::consts::PROC_NULL;
use crate::error::{MpiError, length};

/// A grid of ranks, which is closed to a ring in some of its dimensions. (MPI: "Cartesian Constructor".)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    pub(crate) dims: Vec<i32>,
    pub(crate) periods: Vec<bool>,
}

impl Cart {
    /// A grid with these dimensions, none of which is negative; `periods` says which of them are rings. A dimension of 0
    /// makes a grid without ranks.
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when the two have different lengths; [`MpiError::InvalidDims`].
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Self, MpiError> {
        length("the periods of a grid", dims.len(), periods.len())?;
        if dims.iter().any(|&dim| dim < 0) {
            return Err(MpiError::InvalidDims { why: "none may be negative" });
        }
        let product = dims.iter().try_fold(1_i32, |product, &dim| product.checked_mul(dim));
        if product.is_none() {
            return Err(MpiError::InvalidDims { why: "their product is beyond what ranks number" });
        }
        Ok(Self { dims: dims.to_vec(), periods: periods.to_vec() })
    }

    /// Ranks in each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Which dimensions are rings.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Ranks in the grid.
    pub fn size(&self) -> i32 {
        self.dims.iter().product()
    }

    /// The coordinates of a rank. (`MPI_Cart_coords`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`].
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>, MpiError> {
        let size = self.size();
        if rank < 0 || rank >= size {
            return Err(MpiError::InvalidRank { rank, size: size.unsigned_abs() });
        }
        Ok(self.coords_of(rank))
    }

    pub(crate) fn coords_of(&self, mut rank: i32) -> Vec<i32> {
        let mut coords = vec![0; self.dims.len()];
        for (coordinate, &dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coordinate = rank % dim;
            rank /= dim;
        }
        coords
    }

    /// The rank at some coordinates, which go round in a ring. (`MPI_Cart_rank`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when there is not one for each dimension; [`MpiError::InvalidCoordinate`].
    pub fn rank(&self, coords: &[i32]) -> Result<i32, MpiError> {
        length("the coordinates", self.dims.len(), coords.len())?;
        let mut rank = 0;
        for (index, &coordinate) in coords.iter().enumerate() {
            let dim = self.dims[index];
            let inside = self.inside(index, i64::from(coordinate));
            rank = rank * dim
                + inside.ok_or(MpiError::InvalidCoordinate { index, coordinate, dim })?;
        }
        Ok(rank)
    }

    /// A coordinate where the grid has it, if it does.
    fn inside(&self, index: usize, coordinate: i64) -> Option<i32> {
        let dim = i64::from(self.dims[index]);
        // A ring of no ranks has no coordinate to go round to.
        let ring = self.periods[index] && dim > 0;
        let inside = if ring { coordinate.rem_euclid(dim) } else { coordinate };
        // Below a dimension, which fits.
        (0..dim).contains(&inside).then_some(inside as i32)
    }

    /// Where a rank receives from and sends to when all data moves by `displacement` in a dimension; beyond the border
    /// that is [`PROC_NULL`]. (`MPI_Cart_shift`)
    ///
    /// # Errors
    /// [`MpiError::InvalidDims`] when there is no such dimension; [`MpiError::InvalidRank`].
    pub fn shift(
        &self,
        rank: i32,
        direction: usize,
        displacement: i32,
    ) -> Result<(i32, i32), MpiError> {
        let coords = self.coords(rank)?;
        if direction >= self.dims.len() {
            return Err(MpiError::InvalidDims { why: "the grid has no dimension of that number" });
        }
        let by = |by: i64| self.moved(rank, &coords, direction, by).unwrap_or(PROC_NULL);
        Ok((by(-i64::from(displacement)), by(i64::from(displacement))))
    }

    /// The rank that is `by` away in one dimension from one with these coordinates.
    fn moved(&self, rank: i32, coords: &[i32], direction: usize, by: i64) -> Option<i32> {
        let new = self.inside(direction, i64::from(coords[direction]) + by)?;
        let stride: i32 = self.dims[direction + 1..].iter().product();
        Some(rank + (new - coords[direction]) * stride)
    }

    /// In each dimension the one below and the one above.
    pub(super) fn neighbors_of(&self, rank: u32) -> Neighbors {
        let rank = rank as i32;
        let coords = self.coords_of(rank);
        let beside = |direction| [-1, 1].map(|by| self.moved(rank, &coords, direction, by));
        let all = (0..self.dims.len()).flat_map(beside);
        let all: Vec<_> = all.map(|found| found.map(|rank| rank as u32)).collect();
        Neighbors { sources: all.clone(), destinations: all, paired: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_grid_of_no_dimensions_has_one_rank() {
        let cart = Cart::new(&[], &[]).unwrap();
        assert_eq!((cart.size(), cart.coords(0).unwrap(), cart.rank(&[]).unwrap()), (1, vec![], 0));
        assert_eq!(cart.coords(1), Err(MpiError::InvalidRank { rank: 1, size: 1 }));
        assert!(cart.shift(0, 0, 1).is_err());
        assert_eq!(cart.neighbors_of(0).sources, []);
    }

    #[test]
    fn great_dimensions_are_counted_right_or_refused() {
        assert!(Cart::new(&[i32::MAX, 2], &[true; 2]).is_err());
        assert!(Cart::new(&[-1], &[true]).is_err());
        let cart = Cart::new(&[i32::MAX], &[true]).unwrap();
        assert_eq!(cart.rank(&[i32::MIN]).unwrap(), i32::MAX - 1);
        assert_eq!(cart.shift(0, 0, i32::MIN).unwrap(), (1, i32::MAX - 1));
    }

    #[test]
    fn a_dimension_of_none_makes_a_grid_without_ranks() {
        let cart = Cart::new(&[2, 0], &[false, true]).unwrap();
        assert_eq!((cart.size(), cart.dims()), (0, [2, 0].as_slice()));
        assert!(cart.coords(0).is_err());
        assert!(cart.rank(&[0, 0]).is_err());
    }

    proptest! {
        /// Beside a list of all coordinates in order, and steps of one.
        #[test]
        fn coordinates_and_shifts_are_those_of_a_list(
            shape in prop::collection::vec((1..5_i32, any::<bool>()), 0..5),
            by in -9..9_i32,
        ) {
            let (dims, periods): (Vec<i32>, Vec<bool>) = shape.iter().copied().unzip();
            let cart = Cart::new(&dims, &periods).unwrap();
            let mut all = vec![vec![]];
            for &dim in &dims {
                all = all.iter().flat_map(|prefix: &Vec<i32>| {
                    (0..dim).map(move |next| [prefix.as_slice(), &[next]].concat())
                }).collect();
            }
            prop_assert_eq!(cart.size() as usize, all.len());
            for (rank, coords) in all.iter().enumerate() {
                let rank = rank as i32;
                prop_assert_eq!(&cart.coords(rank).unwrap(), coords);
                prop_assert_eq!(cart.rank(coords).unwrap(), rank);
                for direction in 0..dims.len() {
                    let reached = |sign: i32| {
                        let mut there = coords.clone();
                        for _ in 0..by.abs() {
                            there[direction] += by.signum() * sign;
                            if periods[direction] {
                                there[direction] = (there[direction] + dims[direction]) % dims[direction];
                            }
                        }
                        let found = all.iter().position(|other| *other == there);
                        found.map_or(PROC_NULL, |found| found as i32)
                    };
                    prop_assert_eq!(cart.shift(rank, direction, by).unwrap(), (reached(-1), reached(1)));
                    let mut far = coords.clone();
                    far[direction] += by * dims[direction];
                    let same = cart.rank(&far);
                    if periods[direction] || by == 0 {
                        prop_assert_eq!(same.unwrap(), rank);
                    } else {
                        prop_assert!(same.is_err());
                    }
                }
                let Neighbors { sources, .. } = cart.neighbors_of(rank as u32);
                for (index, pair) in sources.chunks(2).enumerate() {
                    let found = |one: Option<u32>| one.map_or(PROC_NULL, |rank| rank as i32);
                    let expected = cart.shift(rank, index, 1).unwrap();
                    prop_assert_eq!((found(pair[0]), found(pair[1])), expected);
                }
            }
        }
    }
}

//! Dimensions of grids that are as near to each other as can be.
//!
//! *Near* is: the difference of the greatest and the least one is the least that there is; among those, the greatest is
//! the least, then the second, and so on. Found by search over the divisors of the number, which are few: a dimension
//! is at least the root of what is left to divide, and at least its greatest prime factor.

use crate::error::MpiError;

/// Fills in the dimensions that are 0, so that `nodes` ranks make a grid; those that are not stay. The new ones do not
/// increase, and are as near to each other as can be. (`MPI_Dims_create`)
///
/// # Errors
/// [`MpiError::InvalidDims`] when a dimension is negative, when `nodes` is not 1 or more, and when no dimensions have
/// this product.
///
/// ```
/// let mut dims = [0, 3, 0];
/// bowline_mpi::dims_create(24, &mut dims)?;
/// assert_eq!(dims, [4, 3, 2]);
/// # Ok::<(), bowline_mpi::MpiError>(())
/// ```
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<(), MpiError> {
    if nodes < 1 {
        return Err(MpiError::InvalidDims { why: "a grid has 1 rank or more" });
    }
    if dims.iter().any(|&dim| dim < 0) {
        return Err(MpiError::InvalidDims { why: "one is negative" });
    }
    let no_product = MpiError::InvalidDims { why: "the number of ranks is not a multiple of them" };
    let mut rest = nodes;
    for &dim in dims.iter().filter(|&&dim| dim > 0) {
        if rest % dim != 0 {
            return Err(no_product);
        }
        rest /= dim;
    }
    let free = dims.iter().filter(|&&dim| dim == 0).count();
    if free == 0 {
        return if rest == 1 { Ok(()) } else { Err(no_product) };
    }
    let found = Search::new(rest.unsigned_abs()).run(free);
    for (dim, found) in dims.iter_mut().filter(|dim| **dim == 0).zip(found) {
        *dim = found as i32;
    }
    Ok(())
}

/// A search for the factors of a number.
struct Search {
    number: u32,
    /// In order.
    divisors: Vec<u32>,
    /// In order, each once.
    primes: Vec<u32>,
    /// The factors so far.
    chosen: Vec<u32>,
    best: Option<Vec<u32>>,
}

impl Search {
    fn new(number: u32) -> Self {
        let (mut rest, mut primes, mut divisors) = (number, Vec::new(), vec![1]);
        let mut candidate = 2;
        while rest > 1 {
            if candidate > rest / candidate {
                // It has no smaller factor than itself.
                candidate = rest;
            }
            let smaller = divisors.clone();
            let mut power = 1;
            while rest.is_multiple_of(candidate) {
                rest /= candidate;
                power *= candidate;
                divisors.extend(smaller.iter().map(|divisor| divisor * power));
            }
            if power > 1 {
                primes.push(candidate);
            }
            candidate += 1;
        }
        divisors.sort_unstable();
        Self { number, divisors, primes, chosen: Vec::new(), best: None }
    }

    /// So many factors, the greatest first.
    fn run(mut self, count: usize) -> Vec<u32> {
        // No more than 31 factors are above 1.
        let searched = count.min(32);
        self.add(self.number, searched);
        let mut best = self.best.expect("the number itself is a factor");
        best.resize(count, 1);
        best
    }

    /// Tries all that the next factors can be, `count` of them with the product `rest`.
    fn add(&mut self, rest: u32, count: usize) {
        let most = self.chosen.last().copied().unwrap_or(u32::MAX);
        if count == 1 {
            if rest <= most {
                self.chosen.push(rest);
                self.keep();
                self.chosen.pop();
            }
            return;
        }
        let prime = self.primes.iter().rev().find(|&&prime| rest.is_multiple_of(prime));
        let least = prime.copied().unwrap_or(1);
        let first = self
            .divisors
            .partition_point(|&divisor| divisor < least || below_root(divisor, rest, count));
        for index in first..self.divisors.len() {
            let factor = self.divisors[index];
            if factor > most || factor > rest {
                return;
            }
            if !rest.is_multiple_of(factor) {
                continue;
            }
            self.chosen.push(factor);
            let hopeless = self.is_hopeless(rest / factor, count - 1);
            if !hopeless {
                self.add(rest / factor, count - 1);
            }
            self.chosen.pop();
            if hopeless && self.chosen.is_empty() {
                // A greater first factor is farther from all others.
                return;
            }
        }
    }

    /// Whether what is chosen cannot lead to less of a difference than the best one: the least factor is at most the
    /// root of the rest.
    fn is_hopeless(&self, rest: u32, count: usize) -> bool {
        let Some(best) = &self.best else { return false };
        let difference = best[0] - best[best.len() - 1];
        // The least factor has to be at least this one.
        let (Some(&greatest), Some(&last)) = (self.chosen.first(), self.chosen.last()) else {
            return false;
        };
        let Some(least) = (greatest + 1).checked_sub(difference) else { return false };
        least > last || least > 1 && !fits(least, rest, count)
    }

    /// Keeps what is chosen, if it is better than the best one. What is tried later is greater in its first factor that
    /// differs, so it is better only by its difference.
    fn keep(&mut self) {
        let difference = |all: &[u32]| all[0] - all[all.len() - 1];
        let better = |best: &Vec<u32>| difference(&self.chosen) < difference(best);
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(self.chosen.clone());
        }
    }
}

/// Whether `base` to the power `count` is at most a number.
fn fits(base: u32, number: u32, count: usize) -> bool {
    u64::from(base).checked_pow(count as u32).is_some_and(|power| power <= u64::from(number))
}

/// Whether a factor is below the root of a number, so that `count` factors up to it cannot have it as their product.
fn below_root(factor: u32, number: u32, count: usize) -> bool {
    u64::from(factor).checked_pow(count as u32).is_some_and(|power| power < u64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(nodes: i32, dims: &[i32]) -> Option<Vec<i32>> {
        let mut dims = dims.to_vec();
        dims_create(nodes, &mut dims).ok().map(|()| dims)
    }

    #[test]
    fn examples_of_the_standard() {
        assert_eq!(made(6, &[0, 0]), Some(vec![3, 2]));
        assert_eq!(made(7, &[0, 0]), Some(vec![7, 1]));
        assert_eq!(made(6, &[0, 3, 0]), Some(vec![2, 3, 1]));
        assert_eq!(made(7, &[0, 3, 0]), None);
    }

    #[test]
    fn what_has_no_grid_is_refused() {
        assert_eq!(made(0, &[0]), None);
        assert_eq!(made(-4, &[0]), None);
        assert_eq!(made(4, &[-2, 0]), None);
        assert_eq!(made(4, &[2, 3]), None);
        assert_eq!(made(4, &[2]), None);
        assert_eq!(made(4, &[]), None);
        assert_eq!(made(1, &[]), Some(vec![]));
        assert_eq!(made(4, &[2, 2]), Some(vec![2, 2]));
    }

    #[test]
    fn great_numbers_are_no_long_search() {
        assert_eq!(made(1 << 30, &[0; 40]).unwrap().iter().filter(|dim| **dim == 2).count(), 30);
        assert_eq!(made(2_147_483_647, &[0; 3]), Some(vec![2_147_483_647, 1, 1]));
        assert_eq!(made(46_340 * 46_340, &[0; 2]), Some(vec![46_340, 46_340]));
        // Those with the most divisors, and one with a great prime.
        for nodes in
            [2_095_133_040, 1_396_755_360, 735_134_400, 1 << 20, 9_699_690, 64 * 33_554_393]
        {
            for count in 1..14 {
                let dims = made(nodes, &vec![0; count]).unwrap();
                assert_eq!(
                    dims.iter().map(|&dim| i64::from(dim)).product::<i64>(),
                    i64::from(nodes)
                );
                assert!(dims.is_sorted_by(|one, other| one >= other));
            }
        }
    }

    /// All lists of so many factors that do not increase.
    fn lists(number: i32, count: usize, most: i32) -> Vec<Vec<i32>> {
        if count == 0 {
            return if number == 1 { vec![vec![]] } else { vec![] };
        }
        let factors = (1..=number.min(most)).filter(|factor| number % factor == 0);
        let longer = |factor: i32| {
            let rest = lists(number / factor, count - 1, factor);
            rest.into_iter().map(move |rest| [&[factor][..], &rest].concat())
        };
        factors.flat_map(longer).collect()
    }

    proptest! {
        /// Beside the best of all lists.
        #[test]
        fn dimensions_are_the_nearest(nodes in 1..3000_i32, count in 1..6_usize) {
            let best = lists(nodes, count, nodes);
            let best = best.into_iter().min_by_key(|list| (list[0] - list[count - 1], list.clone()));
            prop_assert_eq!(made(nodes, &vec![0; count]), best);
        }
    }
}

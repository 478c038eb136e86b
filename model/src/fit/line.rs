//! Least squares.

use super::FitError;

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FittedLine {
    /// Its value at 0.
    pub intercept: f64,
    /// Its rise.
    pub slope: f64,
    /// The part of the points' variance that the line explains: 1 if it meets them all, also where they do not vary.
    pub r_squared: f64,
}

impl FittedLine {
    /// Its value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The line with the least squares of distances from points (x, y). `what` is named in the error.
///
/// # Errors
/// [`FitError::TooFew`] where the points have fewer than two different x.
pub fn line(points: &[(f64, f64)], what: &str) -> Result<FittedLine, FitError> {
    let rows: Vec<([f64; 2], f64)> = points.iter().map(|&(x, y)| ([1.0, x], y)).collect();
    let [intercept, slope] = least_squares(&rows).ok_or_else(|| {
        let mut different: Vec<f64> = points.iter().map(|p| p.0).collect();
        different.sort_by(f64::total_cmp);
        different.dedup();
        FitError::TooFew { what: what.to_owned(), needed: 2, found: different.len() }
    })?;
    let pairs = points.iter().map(|&(x, y)| (y, intercept + slope * x));
    Ok(FittedLine { intercept, slope, r_squared: r_squared(pairs) })
}

/// The part of the variance of what was seen that predictions explain. The pairs are (seen, predicted). It is
/// negative where the mean would have been the better prediction.
pub fn r_squared(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = pairs.clone().count() as f64;
    let mean = pairs.clone().map(|(seen, _)| seen).sum::<f64>() / count;
    let left: f64 = pairs.clone().map(|(seen, predicted)| (seen - predicted).powi(2)).sum();
    let whole: f64 = pairs.clone().map(|(seen, _)| (seen - mean).powi(2)).sum();
    let scale: f64 = pairs.map(|(seen, _)| seen.powi(2)).sum();
    // What remains of numbers that are equal is their last bits.
    let nothing = |squares: f64| squares <= scale * 1e-24;
    match (nothing(left), nothing(whole)) {
        (true, _) => 1.0,
        (false, true) => 0.0,
        (false, false) => 1.0 - left / whole,
    }
}

/// The factors x of the columns for which the squares of `row x - value` are least in sum; `None` where the rows do
/// not decide.
pub(super) fn least_squares<const N: usize>(rows: &[([f64; N], f64)]) -> Option<[f64; N]> {
    // Columns of one magnitude: bytes beside ones would cost half of the digits.
    let mut scale = [0.0_f64; N];
    for (row, _) in rows {
        for (scale, entry) in scale.iter_mut().zip(row) {
            *scale = scale.max(entry.abs());
        }
    }
    if scale.contains(&0.0) || rows.len() < N {
        return None;
    }
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (row, value) in rows {
        for i in 0..N {
            for j in 0..N {
                matrix[i][j] += row[i] / scale[i] * (row[j] / scale[j]);
            }
            right[i] += row[i] / scale[i] * value;
        }
    }
    let mut solution = solve(matrix, right)?;
    for (factor, scale) in solution.iter_mut().zip(scale) {
        *factor /= scale;
    }
    Some(solution)
}

/// Gauss's elimination with pivots.
fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    let size = matrix.iter().flatten().fold(0.0_f64, |most, entry| most.max(entry.abs()));
    for column in 0..N {
        let better =
            |&a: &usize, &b: &usize| matrix[a][column].abs().total_cmp(&matrix[b][column].abs());
        let pivot = (column..N).max_by(better)?;
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (upper, lower) = matrix.split_at_mut(column + 1);
        let pivot = upper[column];
        // A NaN is no pivot either.
        if pivot[column].abs() <= size * 1e-13 || pivot[column].is_nan() {
            return None;
        }
        for (below, row) in lower.iter_mut().zip(column + 1..) {
            let factor = below[column] / pivot[column];
            for (entry, above) in below.iter_mut().zip(pivot) {
                *entry -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|k| matrix[row][k] * solution[k]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_that_of_the_textbook() {
        // Points (1, 1), (2, 3), (3, 2): slope 1/2, intercept 1, R^2 1/4 by hand.
        let line = line(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)], "").unwrap();
        assert!((line.slope - 0.5).abs() < 1e-12 && (line.intercept - 1.0).abs() < 1e-12);
        assert!((line.r_squared - 0.25).abs() < 1e-12, "{line:?}");
    }

    #[test]
    fn points_that_do_not_vary_are_met() {
        let line = line(&[(1.0, 0.1), (2.0, 0.1), (5.0, 0.1)], "").unwrap();
        assert!(line.slope.abs() < 1e-12);
        assert_eq!(line.r_squared, 1.0);
    }

    #[test]
    fn one_abscissa_is_no_line() {
        let error = line(&[(2.0, 1.0), (2.0, 3.0)], "nothing").unwrap_err();
        let expected = FitError::TooFew { what: "nothing".into(), needed: 2, found: 1 };
        assert_eq!(error, expected);
        assert!(line(&[], "").is_err());
    }

    #[test]
    fn columns_of_different_magnitudes_keep_their_digits() {
        let sizes = [8.0, 64.0, 4096.0, 524_288.0];
        let rows = sizes.map(|n: f64| ([1.0, n], 0.25 + n * 1e-6));
        let [start, byte] = least_squares(&rows).unwrap();
        assert!((start - 0.25).abs() < 1e-9 && (byte * 1e6 - 1.0).abs() < 1e-9, "{start} {byte}");
    }
}

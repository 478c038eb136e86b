//! How a read is split among paths, and what it is predicted to take. Pure arithmetic.
//!
//! A part of `n` bytes takes `fixed + n · per_byte` on its path, and the whole as long as its slowest
//! part. All paths that take part then end at the same time `T`, where
//!
//! ```text
//!   T = (length + Σ fixed/per_byte) / Σ 1/per_byte        part = (T − fixed) / per_byte
//! ```
//! A path whose part would be too short to be worth its start takes none. With so few paths every set of
//! them is tried.

/// Most transports that carry the messages to a peer together.
pub const MAX_PATHS: usize = 4;

/// The shortest part of a read, in bytes: below it a path takes none.
pub const MIN_PART: u64 = 32 << 10;

/// What reading costs on a path: nanoseconds to begin, and for each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathCost {
    /// For a read without bytes.
    pub fixed: f64,
    /// For each byte.
    pub per_byte: f64,
}

/// A read by parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Bytes of each path; they follow each other in this order.
    pub parts: [u64; MAX_PATHS],
    /// Predicted nanoseconds.
    pub time: f64,
}

/// The quickest way to read `length` bytes by `paths`, of which those without a cost cannot be used.
/// `None` when none can.
pub fn split(length: u64, paths: &[Option<PathCost>]) -> Option<Split> {
    let count = paths.len().min(MAX_PATHS);
    let mut best: Option<Split> = None;
    for set in 1_u32..1 << count {
        let Some(found) = among(length, &paths[..count], set) else { continue };
        if best.is_none_or(|best| found.time < best.time) {
            best = Some(found);
        }
    }
    best
}

/// The split among exactly the paths of `set`; `None` when one of them would not be worth it.
fn among(length: u64, paths: &[Option<PathCost>], set: u32) -> Option<Split> {
    let chosen = |at: usize| set >> at & 1 == 1;
    let alone = set.count_ones() == 1;
    let (mut rate, mut begun) = (0.0, 0.0);
    for (at, path) in paths.iter().enumerate().filter(|(at, _)| chosen(*at)) {
        let _ = at;
        // A path that costs nothing by the byte would make all others useless and divide by zero.
        let (fixed, per_byte) = (*path).map(|cost| (cost.fixed, cost.per_byte.max(1e-6)))?;
        rate += 1.0 / per_byte;
        begun += fixed / per_byte;
    }
    let time = (length as f64 + begun) / rate;
    let mut split = Split { parts: [0; MAX_PATHS], time };
    let mut left = length;
    let last = (0..paths.len()).rfind(|&at| chosen(at))?;
    for (at, path) in paths.iter().enumerate().filter(|(at, _)| chosen(*at)) {
        let cost = (*path)?;
        let share = ((time - cost.fixed) / cost.per_byte.max(1e-6)) as u64 & !63;
        let part = if at == last { left } else { share.min(left) };
        if !alone && part < MIN_PART {
            return None;
        }
        split.parts[at] = part;
        left -= part;
    }
    Some(split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn path(fixed: f64, per_byte: f64) -> Option<PathCost> {
        Some(PathCost { fixed, per_byte })
    }

    #[test]
    fn two_paths_end_together() {
        let paths = [path(1000.0, 0.1), path(1000.0, 0.2)];
        let found = split(3 << 20, &paths).unwrap();
        assert!(found.parts[0].abs_diff(2 << 20) < 128, "{found:?}");
        assert_eq!(found.parts[0] + found.parts[1], 3 << 20);
        let alone = 1000.0 + f64::from(3 << 20) * 0.1;
        assert!((found.time / alone - 2.0 / 3.0).abs() < 0.01, "{found:?} against {alone}");
    }

    #[test]
    fn short_reads_go_by_one_path_and_slow_ones_are_left_out() {
        assert_eq!(
            split(999, &[path(500.0, 0.2), path(900.0, 0.1)]).unwrap().parts,
            [999, 0, 0, 0]
        );
        assert_eq!(split(0, &[path(500.0, 0.2)]).unwrap().parts, [0; 4]);
        let dear = [path(1000.0, 0.1), path(10e6, 0.1)];
        assert_eq!(split(1 << 20, &dear).unwrap().parts, [1 << 20, 0, 0, 0]);
        assert_eq!(split(1 << 20, &[None, path(1.0, 0.1)]).unwrap().parts, [0, 1 << 20, 0, 0]);
        assert_eq!(split(1, &[None, None]), None);
        assert_eq!(split(1, &[]), None);
    }

    proptest! {
        #[test]
        fn parts_cover_the_whole_and_beat_every_path_alone(
            length in 0_u64..1 << 40,
            costs in proptest::collection::vec((0.0..1e5_f64, 0.001..2.0_f64, any::<bool>()), 1..6),
        ) {
            let paths: Vec<_> =
                costs.iter().map(|&(fixed, per, there)| there.then_some(PathCost { fixed, per_byte: per })).collect();
            let usable = paths.iter().take(MAX_PATHS).flatten();
            let alone = usable.map(|c| c.fixed + length as f64 * c.per_byte).fold(f64::MAX, f64::min);
            match split(length, &paths) {
                None => prop_assert!(paths.iter().take(MAX_PATHS).all(Option::is_none)),
                Some(found) => {
                    prop_assert_eq!(found.parts.iter().sum::<u64>(), length);
                    prop_assert!(found.time <= alone * 1.000001 + 1.0);
                    for (at, &part) in found.parts.iter().enumerate() {
                        prop_assert!(part == 0 || paths[at].is_some());
                        prop_assert!(part == 0 || part == length || part >= MIN_PART);
                    }
                }
            }
        }
    }
}

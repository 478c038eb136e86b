//! Edge lists, and PageRank on one processor: the pure part of the distributed PageRank and what
//! it is compared with.
//!
//! Sums over all vertices are taken in fixed point. Additions of integers may be done in any
//! order, so the result does not depend on how the vertices are spread over ranks.

use std::collections::HashMap;

use super::lines::lines;

/// From one vertex to another.
pub(crate) type Edge = [i64; 2];

/// What is wrong in a line of an edge list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Which line, counted from 0.
    pub(crate) line: u64,
    /// What is wrong.
    pub(crate) what: String,
}

/// The edges in a part of an edge list.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Edges in order.
    pub(crate) edges: Vec<Edge>,
    /// Lines in the part.
    pub(crate) lines: u64,
    /// The first line that cannot be understood.
    pub(crate) bad: Option<BadLine>,
}

/// Reads `FROM TO` per line; what follows a `#` is a comment, and empty lines mean nothing.
pub(crate) fn parse(text: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    for line in lines(text) {
        if parsed.bad.is_none() {
            match parse_line(line) {
                Ok(edge) => parsed.edges.extend(edge),
                Err(what) => parsed.bad = Some(BadLine { line: parsed.lines, what }),
            }
        }
        parsed.lines += 1;
    }
    parsed
}

fn parse_line(line: &[u8]) -> Result<Option<Edge>, String> {
    let content = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    let mut words = content.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(from) = words.next() else { return Ok(None) };
    let from = vertex(from)?;
    let to = words.next().ok_or("an edge needs two vertices, here is one")?;
    let to = vertex(to)?;
    if let Some(more) = words.next() {
        return Err(format!("{} follows the two vertices of the edge", shown(more)));
    }
    Ok(Some([from, to]))
}

fn vertex(word: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{} is not a whole number of 64 bits", shown(word)))
}

/// A word as a message shows it: not too long and without control characters.
fn shown(word: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(word).chars().take(40).collect();
    format!("{text:?}")
}

/// Parts of the whole in fixed point: multiples of 2^-100 in `u128`. Exact for every number of
/// 0 to 1 that has no bits below 2^-100, which are cut off else.
pub(crate) fn fixed(part: f64) -> u128 {
    (part * 2f64.powi(100)) as u128
}

/// The number nearest to a sum in fixed point.
pub(crate) fn float(sum: u128) -> f64 {
    sum as f64 / 2f64.powi(100)
}

/// The factors of the iteration, in the one form that both programs use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What every vertex gets: from the jump to anywhere and from vertices without way out.
    base: f64,
    damping: f64,
}

impl Step {
    /// `dangling`: the sum of the ranks of vertices without way out, in fixed point.
    pub(crate) fn new(vertices: u64, damping: f64, dangling: u128) -> Self {
        Self { base: (1.0 - damping + damping * float(dangling)) / vertices as f64, damping }
    }

    /// The new rank of a vertex whose neighbours give it `sum`.
    pub(crate) fn apply(self, sum: f64) -> f64 {
        self.base + self.damping * sum
    }
}

/// PageRank on one processor: vertices in order of their ids, with their ranks.
pub(crate) fn sequential(edges: &[Edge], iterations: u32, damping: f64) -> Vec<(i64, f64)> {
    let mut ids: Vec<i64> = edges.iter().flatten().copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let places: HashMap<i64, usize> = ids.iter().copied().zip(0..).collect();
    let mut degrees = vec![0u64; ids.len()];
    // By target, then by source: the order in which the contributions are added.
    let mut incoming: Vec<(usize, usize)> =
        edges.iter().map(|[from, to]| (places[to], places[from])).collect();
    incoming.sort_unstable();
    for &(_, from) in &incoming {
        degrees[from] += 1;
    }
    let mut ranks = vec![1.0 / ids.len() as f64; ids.len()];
    for _ in 0..iterations {
        let lost = ranks.iter().zip(&degrees).filter(|(_, degree)| **degree == 0);
        let dangling = lost.map(|(rank, _)| fixed(*rank)).sum();
        let step = Step::new(ids.len() as u64, damping, dangling);
        let mut sums = vec![0.0; ids.len()];
        for &(to, from) in &incoming {
            sums[to] += ranks[from] / degrees[from] as f64;
        }
        ranks = sums.into_iter().map(|sum| step.apply(sum)).collect();
    }
    ids.into_iter().zip(ranks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_comments_and_blanks() {
        let parsed = parse(b"# a comment\n1 2\n\n  3\t-4 # another\r\n9223372036854775807 0\r\n");
        assert_eq!(parsed.edges, [[1, 2], [3, -4], [i64::MAX, 0]]);
        assert_eq!((parsed.lines, parsed.bad), (5, None));
    }

    #[test]
    fn bad_lines_are_counted_and_named() {
        let parsed = parse(b"1 2\n1 x\n3 4\n5\n");
        assert_eq!(parsed.lines, 4);
        let bad = parsed.bad.unwrap();
        assert_eq!(bad.line, 1);
        assert!(bad.what.contains("\"x\" is not a whole number"), "{}", bad.what);
        assert!(parse(b"7\n").bad.unwrap().what.contains("needs two vertices"));
        assert!(parse(b"7 8 9\n").bad.unwrap().what.contains("\"9\" follows"));
        assert!(parse(b"99999999999999999999 1\n").bad.is_some());
    }

    #[test]
    fn fixed_point_sums_are_exact_in_any_order() {
        let parts: Vec<f64> = (1..1000).map(|i| 1.0 / f64::from(i * 1000)).collect();
        let forward: u128 = parts.iter().map(|&p| fixed(p)).sum();
        let backward: u128 = parts.iter().rev().map(|&p| fixed(p)).sum();
        assert_eq!(forward, backward);
        assert_eq!(float(fixed(0.125) + fixed(0.5)), 0.625);
    }

    #[test]
    fn ranks_of_a_known_graph() {
        // A cycle of three: all vertices are alike.
        let ranks = sequential(&[[1, 2], [2, 3], [3, 1]], 50, 0.85);
        assert!(ranks.iter().all(|(_, rank)| (rank - 1.0 / 3.0).abs() < 1e-15));
        // Everybody points to 5, which has no way out: with damping 0.5 the ranks solve
        // x = (1 - d + d y) / 3, y = x + 2 d x, 2 x + y = 1.
        let ranks = sequential(&[[1, 5], [3, 5]], 200, 0.5);
        let sum: f64 = ranks.iter().map(|(_, rank)| rank).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert!((ranks[0].1 - 0.25).abs() < 1e-12 && (ranks[2].1 - 0.5).abs() < 1e-12);
        assert_eq!(ranks[2].0, 5);
    }
}

//! `PMI_process_mapping`: which rank runs on which node.
//!
//! ```text
//!   (vector,(first,nodes,per_node),...)
//! ```
//!
//! Each block says: on `nodes` nodes, from number `first` on, `per_node` consecutive ranks each.
//! The blocks are gone through in order, and over again, until every rank has its node. Nodes are
//! numbers; the string knows no names.

/// A mapping that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMapping {
    /// (first node, nodes, ranks per node), never with a zero count.
    blocks: Vec<(u32, u32, u32)>,
}

/// The string is not a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the process mapping {0:?}")]
pub struct MappingError(String);

impl NodeMapping {
    /// All of `ranks` on one node.
    pub fn one_node(ranks: u32) -> Self {
        Self { blocks: vec![(0, 1, ranks.max(1))] }
    }

    /// Consecutive ranks on consecutive nodes, so many on each.
    pub fn in_blocks(per_node: &[u32]) -> Self {
        let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
        for (node, &ranks) in (0..).zip(per_node).filter(|(_, ranks)| **ranks > 0) {
            match blocks.last_mut() {
                Some((first, nodes, each)) if *each == ranks && *first + *nodes == node => {
                    *nodes += 1;
                }
                _ => blocks.push((node, 1, ranks)),
            }
        }
        if blocks.is_empty() { Self::one_node(1) } else { Self { blocks } }
    }

    /// Reads a mapping.
    ///
    /// # Errors
    /// When the string has another form, no block, or a block of nothing.
    pub fn parse(text: &str) -> Result<Self, MappingError> {
        let error = || MappingError(text.chars().take(200).collect());
        let inner = text.trim().strip_prefix("(vector").and_then(|t| t.strip_suffix(')'));
        let mut rest = inner.ok_or_else(error)?.trim();
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let block =
                rest.strip_prefix(',').map(str::trim_start).and_then(|t| t.strip_prefix('('));
            let (block, after) = block.and_then(|t| t.split_once(')')).ok_or_else(error)?;
            rest = after.trim_start();
            let numbers: Option<Vec<u32>> =
                block.split(',').map(|n| n.trim().parse().ok()).collect();
            match numbers.as_deref() {
                Some(&[first, nodes, per_node]) if nodes > 0 && per_node > 0 => {
                    blocks.push((first, nodes, per_node));
                }
                _ => return Err(error()),
            }
        }
        if blocks.is_empty() { Err(error()) } else { Ok(Self { blocks }) }
    }

    /// The node of each rank below `size`.
    pub fn nodes(&self, size: u32) -> Vec<u32> {
        let size = size as usize;
        let mut nodes = Vec::with_capacity(size);
        while nodes.len() < size {
            // Every block has at least one rank, so this ends.
            for &(first, count, per_node) in &self.blocks {
                for node in 0..count {
                    let left = size - nodes.len();
                    if left == 0 {
                        return nodes;
                    }
                    let here = left.min(per_node as usize);
                    nodes.extend(std::iter::repeat_n(first.wrapping_add(node), here));
                }
            }
        }
        nodes
    }

    /// The ranks below `size` on the node of `rank`, in order.
    pub fn neighbours(&self, rank: u32, size: u32) -> Vec<u32> {
        let nodes = self.nodes(size);
        let Some(&own) = nodes.get(rank as usize) else {
            return Vec::new();
        };
        (0..size).filter(|&other| nodes[other as usize] == own).collect()
    }
}

impl std::fmt::Display for NodeMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(vector")?;
        for (first, nodes, per_node) in &self.blocks {
            write!(f, ",({first},{nodes},{per_node})")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_written() {
        let text = "(vector,(0,2,3),(2,1,1))";
        let mapping = NodeMapping::parse(text).unwrap();
        assert_eq!(mapping.to_string(), text);
        assert_eq!(mapping.nodes(9), [0, 0, 0, 1, 1, 1, 2, 0, 0]);
        assert_eq!(mapping.neighbours(4, 9), [3, 4, 5]);
        assert_eq!(mapping.neighbours(8, 9), [0, 1, 2, 7, 8]);
        assert_eq!(mapping.neighbours(9, 9), [] as [u32; 0]);
        assert_eq!(NodeMapping::one_node(4).to_string(), "(vector,(0,1,4))");
        assert_eq!(NodeMapping::one_node(4).neighbours(2, 4), [0, 1, 2, 3]);
        assert_eq!(NodeMapping::in_blocks(&[2, 2, 1]).to_string(), "(vector,(0,2,2),(2,1,1))");
        assert_eq!(NodeMapping::in_blocks(&[1, 2, 2]).nodes(5), [0, 1, 1, 2, 2]);
        assert_eq!(NodeMapping::parse(" (vector, (0, 1, 2)) ").unwrap().nodes(2), [0, 0]);
    }

    #[test]
    fn damaged_mappings_are_refused() {
        for text in [
            "",
            "(vector)",
            "(vector,)",
            "vector,(0,1,1)",
            "(vector,(0,1,1)",
            "(vector,(0,1))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(0,1,x))",
            "(vector(0,1,1),)",
            "(matrix,(0,1,1))",
            "(vector,(0,1,1)(0,1,1))",
        ] {
            assert!(NodeMapping::parse(text).is_err(), "{text:?} was accepted");
        }
        // Large counts cost no more than the ranks there are.
        let huge = NodeMapping::parse("(vector,(4294967295,4294967295,4294967295))").unwrap();
        assert_eq!(huge.nodes(3), [u32::MAX; 3]);
    }
}

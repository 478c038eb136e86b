//! The basic elements of a type in the order of a message, as small as they are regular.

use std::rc::Rc;

use bowline_base::layout::Overflow;

use super::basic::Basic;

/// Levels beyond which elements become one list of runs, if they have no more than [`FLAT`].
const DEEP: u32 = 64;

/// Runs of the longest such list.
const FLAT: usize = 1 << 16;

/// Levels beyond which elements that are no short list are refused: walks through them take stack.
const DEEPEST: u32 = 1024;

/// The basic elements of one element of a type. (MPI: Datatypes, "type signature".)
#[derive(Clone, Debug)]
pub struct TypeSignature(Option<Rc<Node>>);

#[derive(Debug)]
struct Node {
    bytes: usize,
    /// Basic elements; no more than there are bytes.
    count: usize,
    /// Runs of one kind of basic elements.
    runs: usize,
    depth: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// So many of one kind.
    Same(Basic),
    /// The same again and again.
    Repeat(usize, Rc<Node>),
    /// One after the other.
    List(Box<[Rc<Node>]>),
}

impl TypeSignature {
    /// `count` of a basic element. The bytes can be counted.
    pub(super) fn same(basic: Basic, count: usize) -> Self {
        Self((count > 0).then(|| Rc::new(Node::same(basic, count))))
    }

    /// `count` times the same. The bytes of all can be counted.
    pub(super) fn repeated(&self, count: usize) -> Result<Self, Overflow> {
        let Some(node) = self.0.as_ref().filter(|_| count > 0) else { return Ok(Self(None)) };
        let (bytes, all) = (node.bytes * count, node.count * count);
        let (times, of) = match &node.kind {
            _ if count == 1 => return Ok(self.clone()),
            Kind::Same(basic) => return Ok(Self::same(*basic, all)),
            Kind::Repeat(times, of) => (times * count, of),
            Kind::List(_) => (count, node),
        };
        let (runs, depth) = (of.runs.saturating_mul(times), of.depth + 1);
        let kind = Kind::Repeat(times, Rc::clone(of));
        Self::checked(Node { bytes, count: all, runs, depth, kind })
    }

    /// One after the other. The bytes of all can be counted.
    pub(super) fn list(parts: impl IntoIterator<Item = Self>) -> Result<Self, Overflow> {
        let mut nodes: Vec<Rc<Node>> = Vec::new();
        for Self(part) in parts {
            let Some(part) = part else { continue };
            match (nodes.last_mut(), &part.kind) {
                (Some(last), Kind::Same(basic)) if last.only() == Some(*basic) => {
                    *last = Rc::new(Node::same(*basic, last.count + part.count));
                }
                _ => nodes.push(part),
            }
        }
        if nodes.len() < 2 {
            return Ok(Self(nodes.pop()));
        }
        let first = &nodes[0];
        if nodes.iter().all(|node| Rc::ptr_eq(node, first)) {
            return Self(Some(Rc::clone(first))).repeated(nodes.len());
        }
        let bytes = nodes.iter().map(|node| node.bytes).sum();
        let count = nodes.iter().map(|node| node.count).sum();
        let runs = nodes.iter().fold(0_usize, |sum, node| sum.saturating_add(node.runs));
        let depth = nodes.iter().map(|node| node.depth).max().unwrap_or(0) + 1;
        let kind = Kind::List(nodes.into_boxed_slice());
        Self::checked(Node { bytes, count, runs, depth, kind })
    }

    fn checked(node: Node) -> Result<Self, Overflow> {
        if node.depth <= DEEP || node.runs > FLAT {
            return if node.depth <= DEEPEST {
                Ok(Self(Some(Rc::new(node))))
            } else {
                Err(Overflow)
            };
        }
        let mut runs = Vec::new();
        node.each_run(&mut |basic, count| runs.push(Self::same(basic, count)));
        Self::list(runs)
    }

    /// Basic elements of one element.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |node| node.count)
    }

    /// How many basic elements the first `bytes` of a message are, and the bytes that are part of the
    /// next one.
    pub fn in_bytes(&self, bytes: u64) -> (u64, u64) {
        let Some(node) = &self.0 else { return (0, bytes) };
        let (all, rest) = (bytes / node.bytes as u64, (bytes % node.bytes as u64) as usize);
        let (more, rest) = node.in_bytes(rest);
        // Of the bytes that there are, no more than one each.
        (all * node.count as u64 + more as u64, rest as u64)
    }

    /// How many bytes the first `count` basic elements of a message are; `None` beyond what can be
    /// counted, or where there are no elements.
    pub fn bytes_of(&self, count: u64) -> Option<u64> {
        let Some(node) = &self.0 else { return (count == 0).then_some(0) };
        let (all, rest) = (count / node.count as u64, (count % node.count as u64) as usize);
        all.checked_mul(node.bytes as u64)?.checked_add(node.bytes_of(rest) as u64)
    }

    /// The basic element, if there is only one kind of them.
    pub fn only(&self) -> Option<Basic> {
        self.0.as_ref()?.only()
    }

    /// Bytes of one element in the representation "external32".
    pub(super) fn external_size(&self) -> Option<usize> {
        self.0.as_ref().map_or(Some(0), |node| node.external_size())
    }

    /// Hands out the runs of one kind of basic elements, in order.
    pub fn each_run(&self, mut take: impl FnMut(Basic, usize)) {
        if let Some(node) = &self.0 {
            node.each_run(&mut take);
        }
    }
}

impl Node {
    fn same(basic: Basic, count: usize) -> Self {
        let bytes = usize::from(basic.size) * count;
        Self { bytes, count, runs: 1, depth: 1, kind: Kind::Same(basic) }
    }

    const fn only(&self) -> Option<Basic> {
        match self.kind {
            Kind::Same(basic) => Some(basic),
            _ => None,
        }
    }

    fn external_size(&self) -> Option<usize> {
        match &self.kind {
            Kind::Same(basic) => self.count.checked_mul(basic.external.into()),
            Kind::Repeat(times, of) => of.external_size()?.checked_mul(*times),
            Kind::List(list) => {
                list.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.external_size()?))
            }
        }
    }

    fn each_run(&self, take: &mut dyn FnMut(Basic, usize)) {
        match &self.kind {
            Kind::Same(basic) => take(*basic, self.count),
            Kind::Repeat(times, of) => (0..*times).for_each(|_| of.each_run(take)),
            Kind::List(list) => list.iter().for_each(|part| part.each_run(take)),
        }
    }

    /// As [`TypeSignature::in_bytes`], for no more bytes than it has.
    fn in_bytes(&self, mut bytes: usize) -> (usize, usize) {
        match &self.kind {
            Kind::Same(basic) => (bytes / usize::from(basic.size), bytes % usize::from(basic.size)),
            Kind::Repeat(_, of) => {
                let (more, rest) = of.in_bytes(bytes % of.bytes);
                (bytes / of.bytes * of.count + more, rest)
            }
            Kind::List(list) => {
                let mut count = 0;
                for part in list {
                    if bytes < part.bytes {
                        let (more, rest) = part.in_bytes(bytes);
                        return (count + more, rest);
                    }
                    count += part.count;
                    bytes -= part.bytes;
                }
                (count, bytes)
            }
        }
    }

    /// As [`TypeSignature::bytes_of`], for no more elements than it has.
    fn bytes_of(&self, mut count: usize) -> usize {
        match &self.kind {
            Kind::Same(basic) => count * usize::from(basic.size),
            Kind::Repeat(_, of) => count / of.count * of.bytes + of.bytes_of(count % of.count),
            Kind::List(list) => {
                let mut bytes = 0;
                for part in list {
                    if count < part.count {
                        return bytes + part.bytes_of(count);
                    }
                    count -= part.count;
                    bytes += part.bytes;
                }
                bytes
            }
        }
    }
}

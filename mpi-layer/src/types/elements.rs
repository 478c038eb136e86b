//! The basic elements of a type in the order of a message, as small as they are regular.

use std::rc::Rc;

use super::basic::Basic;

/// The basic elements of one element of a type. (MPI: Datatypes, "type signature".)
#[derive(Clone, Debug)]
pub struct Elements(Option<Rc<Node>>);

#[derive(Debug)]
struct Node {
    bytes: usize,
    /// Basic elements; no more than there are bytes.
    count: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// So many of one kind.
    Same(Basic),
    /// One after the other.
    List(Box<[Rc<Node>]>),
}

impl Elements {
    /// `count` of a basic element. The bytes can be counted.
    pub(super) fn same(basic: Basic, count: usize) -> Self {
        let bytes = usize::from(basic.size) * count;
        Self((count > 0).then(|| Rc::new(Node { bytes, count, kind: Kind::Same(basic) })))
    }

    /// One after the other. The bytes of all can be counted.
    pub(super) fn list(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut nodes: Vec<Rc<Node>> = Vec::new();
        for Self(part) in parts {
            let Some(part) = part else { continue };
            match (nodes.last_mut(), &part.kind) {
                (Some(last), Kind::Same(basic)) if last.only() == Some(*basic) => {
                    let (bytes, count) = (last.bytes + part.bytes, last.count + part.count);
                    *last = Rc::new(Node { bytes, count, kind: Kind::Same(*basic) });
                }
                _ => nodes.push(part),
            }
        }
        if nodes.len() < 2 {
            return Self(nodes.pop());
        }
        let bytes = nodes.iter().map(|node| node.bytes).sum();
        let count = nodes.iter().map(|node| node.count).sum();
        let kind = Kind::List(nodes.into_boxed_slice());
        Self(Some(Rc::new(Node { bytes, count, kind })))
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
}

impl Node {
    /// As [`Elements::in_bytes`], for no more bytes than it has.
    fn in_bytes(&self, mut bytes: usize) -> (usize, usize) {
        match &self.kind {
            Kind::Same(basic) => (bytes / usize::from(basic.size), bytes % usize::from(basic.size)),
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

    /// As [`Elements::bytes_of`], for no more elements than it has.
    fn bytes_of(&self, mut count: usize) -> usize {
        match &self.kind {
            Kind::Same(basic) => count * usize::from(basic.size),
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

    const fn only(&self) -> Option<Basic> {
        match self.kind {
            Kind::Same(basic) => Some(basic),
            Kind::List(_) => None,
        }
    }
}

//! Indexes that only this comparison has: ordered and hashed maps by rank.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use bowline_ucp::matching::{Class, Count, EntryPool, Index, Leaf, QueueKind, Want};
use intrusive_collections::{KeyAdapter, RBTree, RBTreeLink, intrusive_adapter};

/// A map from a rank to the number of its leaf.
pub(crate) trait Map: Debug + Default + Send {
    /// Bytes of structure for a rank beside its leaf.
    const NODE_BYTES: usize;
    /// The leaf of a rank.
    fn get(&self, rank: u32) -> Option<u32>;
    /// Adds a rank that was not there.
    fn add(&mut self, rank: u32, leaf: u32);
    /// Removes a rank that was there.
    fn remove(&mut self, rank: u32);
}

/// A leaf for each rank that has entries, found by a map.
#[derive(Debug)]
pub(crate) struct ByMap<M> {
    map: M,
    leaves: Vec<Leaf>,
    free: Vec<u32>,
}

impl<M: Map> Default for ByMap<M> {
    fn default() -> Self {
        Self { map: M::default(), leaves: Vec::new(), free: Vec::new() }
    }
}

impl<M: Map> ByMap<M> {
    const BYTES: usize = M::NODE_BYTES + size_of::<Leaf>();
}

impl<M: Map> Index for ByMap<M> {
    /// The rank that was searched.
    type Path = u32;

    const CHAINS: bool = true;
    const RELEASES: bool = true;
    const BREAK_EVEN: u32 = 42;

    fn class(want: &Want) -> Class {
        if want.source_mask == 0 { Class::Wild } else { Class::Exact }
    }

    #[inline]
    fn find(&self, rank: u32, _: u64, path: &mut u32, count: &mut impl Count) -> Option<u32> {
        count.visit(1);
        *path = rank;
        self.map.get(rank)
    }

    #[inline]
    fn insert(
        &mut self,
        _: &mut EntryPool,
        rank: u32,
        _: u64,
        _: &u32,
        count: &mut impl Count,
    ) -> u32 {
        count.allocated(Self::BYTES);
        let leaf = self.free.pop().unwrap_or_else(|| {
            self.leaves.push(Leaf::EMPTY);
            u32::try_from(self.leaves.len() - 1).expect("fewer leaves than ranks")
        });
        self.map.add(rank, leaf);
        leaf
    }

    #[inline]
    fn release(&mut self, &rank: &u32, leaf: u32, count: &mut impl Count) {
        count.freed(Self::BYTES);
        self.map.remove(rank);
        self.free.push(leaf);
    }

    #[inline]
    fn ring(&self, _: &EntryPool, leaf: u32, queue: QueueKind) -> u32 {
        self.leaves[leaf as usize].ring(queue)
    }

    #[inline]
    fn set_ring(&mut self, _: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32) {
        self.leaves[leaf as usize].set_ring(queue, last);
    }

    fn each(&self, _: &EntryPool, queue: QueueKind, visit: &mut dyn FnMut(u32)) {
        self.leaves.iter().for_each(|leaf| visit(leaf.ring(queue)));
    }

    fn emptied(&mut self, _: &mut impl Count) {}
}

/// A node of the red-black tree.
#[derive(Debug)]
struct Node {
    link: RBTreeLink,
    rank: u32,
    leaf: u32,
}

intrusive_adapter!(NodeAdapter = Box<Node>: Node { link: RBTreeLink });

impl<'a> KeyAdapter<'a> for NodeAdapter {
    type Key = u32;
    fn get_key(&self, node: &'a Node) -> u32 {
        node.rank
    }
}

/// A red-black tree of nodes on the heap.
pub(crate) struct RedBlack(RBTree<NodeAdapter>);

impl Debug for RedBlack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RedBlack").finish_non_exhaustive()
    }
}

impl Default for RedBlack {
    fn default() -> Self {
        Self(RBTree::new(NodeAdapter::new()))
    }
}

impl Map for RedBlack {
    const NODE_BYTES: usize = size_of::<Node>();
    fn get(&self, rank: u32) -> Option<u32> {
        self.0.find(&rank).get().map(|node| node.leaf)
    }
    fn add(&mut self, rank: u32, leaf: u32) {
        self.0.insert(Box::new(Node { link: RBTreeLink::new(), rank, leaf }));
    }
    fn remove(&mut self, rank: u32) {
        self.0.find_mut(&rank).remove();
    }
}

impl Map for BTreeMap<u32, u32> {
    /// Keys and values, two thirds of a node being full on average, and the node's head.
    const NODE_BYTES: usize = 14;
    fn get(&self, rank: u32) -> Option<u32> {
        Self::get(self, &rank).copied()
    }
    fn add(&mut self, rank: u32, leaf: u32) {
        self.insert(rank, leaf);
    }
    fn remove(&mut self, rank: u32) {
        Self::remove(self, &rank);
    }
}

impl Map for HashMap<u32, u32> {
    /// Key, value and a byte of control, three quarters of the places of a table being in use.
    const NODE_BYTES: usize = 12;
    fn get(&self, rank: u32) -> Option<u32> {
        Self::get(self, &rank).copied()
    }
    fn add(&mut self, rank: u32, leaf: u32) {
        self.insert(rank, leaf);
    }
    fn remove(&mut self, rank: u32) {
        Self::remove(self, &rank);
    }
}

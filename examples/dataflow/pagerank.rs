//! PageRank of a random graph, as a dataflow with a loop.
//!
//! In each round a vertex sends its rank in equal shares along its edges, and a nought to itself, by
//! which its worker keeps the right to speak in the next round even if nobody else says anything.
//! When a round's shares are all there, they are the new rank. Ranks are integers, so that sums do
//! not depend on the order, and every number of workers computes the same.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use timely::communication::allocator::Allocate;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Filter as _;
use timely::dataflow::operators::{
    Concat as _, ConnectLoop as _, Exchange as _, Feedback as _, Inspect as _, Operator as _,
    Probe as _,
};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

/// A rank of one.
const ONE: u64 = 1 << 32;

/// Ranks by vertex.
pub(crate) type RankOf = BTreeMap<u32, u64>;

/// A random graph, which everybody can make a part of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graph {
    pub(crate) vertices: u32,
    pub(crate) edges: u64,
}

impl Graph {
    /// Edge `k`. Some vertices have many more edges than others.
    fn edge(&self, k: u64) -> (u32, u32) {
        let mix = |mut x: u64| {
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let n = u64::from(self.vertices);
        let (a, b) = (mix(2 * k + 1), mix(2 * k + 2));
        ((a % n) as u32, ((b % n) * ((b >> 40) % n) / n) as u32)
    }
}

/// What a vertex gives to each of its `edges` neighbours.
const fn share(rank: u64, edges: usize) -> u64 {
    if edges == 0 { 0 } else { rank * 85 / 100 / edges as u64 }
}

/// The rank of a vertex that was given `shares`.
const fn rank(shares: u64) -> u64 {
    ONE * 15 / 100 + shares
}

/// The same on one processor, without a dataflow.
pub(crate) fn alone(graph: Graph, rounds: u64) -> RankOf {
    let mut edges = vec![Vec::new(); graph.vertices as usize];
    for (from, to) in (0..graph.edges).map(|k| graph.edge(k)) {
        edges[from as usize].push(to);
    }
    let mut ranks = vec![ONE; edges.len()];
    for _ in 0..rounds {
        let mut shares = vec![0; edges.len()];
        for (rank, edges) in ranks.iter().zip(&edges) {
            for &to in edges {
                shares[to as usize] += share(*rank, edges.len());
            }
        }
        ranks = shares.into_iter().map(rank).collect();
    }
    (0..).zip(ranks).collect()
}

/// What flows.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Item {
    /// An edge, to the worker of its first vertex.
    Edge(u32, u32),
    /// A share, to the worker of its vertex.
    Share(u32, u64),
    /// A result, to worker 0.
    Rank(u32, u64),
}

impl Item {
    const fn vertex(&self) -> u32 {
        match self {
            Self::Edge(vertex, _) | Self::Share(vertex, _) | Self::Rank(vertex, _) => *vertex,
        }
    }
}

/// What a worker knows of a vertex.
#[derive(Debug, Default)]
struct Vertex {
    edges: Vec<u32>,
    shares: u64,
}

/// Ranks after `rounds` rounds, at worker 0; nothing at others.
pub(crate) fn run<A: Allocate>(worker: &mut Worker<A>, graph: Graph, rounds: u64) -> RankOf {
    let all = Rc::new(RefCell::new(RankOf::new()));
    let found = Rc::clone(&all);
    let (index, peers) = (worker.index(), worker.peers());
    let mut input = InputHandle::new();
    let probe = ProbeHandle::new();
    worker.dataflow::<u64, _, _>(|scope| {
        let (handle, again) = scope.feedback::<Vec<Item>>(1);
        let route = Exchange::new(|item: &Item| u64::from(item.vertex()));
        let spoken = input.to_stream(scope).concat(again).unary_frontier(route, "Round", |_, _| {
            let mut vertices: HashMap<u32, Vertex> = HashMap::new();
            let mut open = HashMap::new();
            move |(input, frontier), output| {
                input.for_each_time(|time, batches| {
                    let (_, items) = open.entry(*time.time()).or_insert_with(|| {
                        (time.retain(output.output_index()), Vec::<Item>::new())
                    });
                    items.extend(batches.flat_map(std::mem::take));
                });
                for (&round, (send_on, items)) in &mut open {
                    if frontier.less_equal(&round) {
                        continue;
                    }
                    for item in items.drain(..) {
                        let vertex = vertices.entry(item.vertex()).or_default();
                        match item {
                            Item::Edge(_, to) => vertex.edges.push(to),
                            Item::Share(_, share) => vertex.shares += share,
                            Item::Rank(..) => {}
                        }
                    }
                    let mut session = output.session(send_on);
                    for (&number, vertex) in &mut vertices {
                        let shares = std::mem::take(&mut vertex.shares);
                        let now = if round == 0 { ONE } else { rank(shares) };
                        if round == rounds {
                            session.give(Item::Rank(number, now));
                            continue;
                        }
                        session.give(Item::Share(number, 0));
                        let share = share(now, vertex.edges.len());
                        session
                            .give_iterator(vertex.edges.iter().map(|&to| Item::Share(to, share)));
                    }
                }
                open.retain(|_, (_, items)| !items.is_empty());
            }
        });
        let spoken = spoken.container::<Vec<Item>>();
        spoken.clone().filter(|item| !matches!(item, Item::Rank(..))).connect_loop(handle);
        spoken
            .filter(|item| matches!(item, Item::Rank(..)))
            .exchange(|_| 0)
            .inspect(move |item| {
                if let Item::Rank(vertex, rank) = *item {
                    found.borrow_mut().insert(vertex, rank);
                }
            })
            .probe_with(&probe);
    });
    for vertex in (index as u32..graph.vertices).step_by(peers) {
        input.send(Item::Share(vertex, 0));
    }
    for (from, to) in (index as u64..graph.edges).step_by(peers).map(|k| graph.edge(k)) {
        input.send(Item::Edge(from, to));
    }
    input.close();
    while !probe.done() {
        worker.step_or_park(None);
    }
    all.take()
}

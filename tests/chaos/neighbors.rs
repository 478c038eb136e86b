//! Who is whose neighbour: grids and graphs of the ranks of a communicator, worked out by hand.

use bowline::simulate::Random;

/// The topology of a communicator.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A grid, with rows that may go around.
    Grid { dims: Vec<i32>, periods: Vec<bool> },
    /// A graph that all ranks know, in which all neighbours are each other's.
    Graph,
    /// A graph of which each rank knows its own edges.
    Directed,
}

/// The neighbours of all ranks: of each, those that it receives from and those that it sends to, in order. There is nobody
/// beyond the border of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Neighbors {
    pub(crate) shape: Shape,
    pub(crate) from: Vec<Vec<Option<usize>>>,
    pub(crate) to: Vec<Vec<Option<usize>>>,
}

impl Neighbors {
    /// A grid of at most `ranks`.
    pub(crate) fn grid(random: &mut Random, ranks: usize) -> Self {
        let mut dims: Vec<usize> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let left = ranks / dims.iter().product::<usize>();
            dims.push(1 + random.below(left as u64) as usize);
        }
        let periods: Vec<bool> = dims.iter().map(|_| random.below(2) == 0).collect();
        let of = |rank: usize| {
            let mut all = Vec::new();
            for (number, &dim) in dims.iter().enumerate() {
                let stride: usize = dims[number + 1..].iter().product();
                let at = rank / stride % dim;
                let first = rank - at * stride;
                let inside = |at: usize| Some(first + at * stride);
                let around = |at: usize| if periods[number] { inside(at) } else { None };
                all.push(if at > 0 { inside(at - 1) } else { around(dim - 1) });
                all.push(if at + 1 < dim { inside(at + 1) } else { around(0) });
            }
            all
        };
        let all: Vec<_> = (0..dims.iter().product()).map(of).collect();
        let dims = dims.iter().map(|&dim| dim as i32).collect();
        Self { shape: Shape::Grid { dims, periods }, from: all.clone(), to: all }
    }

    /// A graph of so many ranks, with edges that occur twice and some from a rank to itself.
    pub(crate) fn graph(random: &mut Random, ranks: usize, directed: bool) -> Self {
        let mut to = vec![Vec::new(); ranks];
        let mut from = to.clone();
        let some = |random: &mut Random| random.below(ranks as u64) as usize;
        for _ in 0..random.below(3 * ranks as u64) {
            let (one, other) = (some(random), some(random));
            to[one].push(Some(other));
            match directed {
                true => from[other].push(Some(one)),
                false if one != other => to[other].push(Some(one)),
                false => {}
            }
        }
        for list in to.iter_mut().chain(&mut from) {
            for place in (1..list.len()).rev() {
                list.swap(place, random.below(place as u64 + 1) as usize);
            }
        }
        let shape = if directed { Shape::Directed } else { Shape::Graph };
        Self { shape, from: if directed { from } else { to.clone() }, to }
    }

    /// The rank whose message arrives at `me` in this place, and the place that it has among those that the rank sends.
    pub(crate) fn origin(&self, me: usize, place: usize) -> Option<(usize, usize)> {
        let from = self.from[me][place]?;
        if matches!(self.shape, Shape::Grid { .. }) {
            // What goes down arrives from above.
            return Some((from, place ^ 1));
        }
        // Messages of one pair go by the order of edges at both ends.
        let before = self.from[me][..place].iter().filter(|other| **other == Some(from)).count();
        let same = |&edge: &usize| self.to[from][edge] == Some(me);
        let edge = (0..self.to[from].len()).filter(same).nth(before);
        Some((from, edge.expect("both ends of an edge are there")))
    }
}

/// A member of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) me: usize,
    /// How many there are.
    pub(crate) n: usize,
    /// Theirs, if the communicator has a topology.
    pub(crate) neighbors: Option<&'a Neighbors>,
}

impl Member<'_> {
    fn known(&self) -> &Neighbors {
        self.neighbors.expect("only communicators with a topology have such collectives")
    }

    /// How many ranks send to it: all, or its neighbours.
    pub(crate) fn incoming(&self, neighborly: bool) -> usize {
        if neighborly { self.known().from[self.me].len() } else { self.n }
    }

    /// How many it sends to.
    pub(crate) fn outgoing(&self, neighborly: bool) -> usize {
        if neighborly { self.known().to[self.me].len() } else { self.n }
    }

    /// What arrives in a place: the block of which rank, with which number among those that it sends.
    pub(crate) fn origin(&self, neighborly: bool, place: usize) -> Option<(usize, usize)> {
        if neighborly { self.known().origin(self.me, place) } else { Some((place, self.me)) }
    }
}

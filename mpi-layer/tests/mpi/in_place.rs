//! Collectives in place, in their three forms, beside what the standard says that they give: a root of each kind in
//! place with others that are not, lengths and types of several kinds, and operations that do not commute.

use std::fmt::Debug;
use std::ops::Range;

use bowline_mpi::{
    BitXor, CollectiveRequest, Datatype, MpiError, Operation, Partition, PersistentCollective,
    Scope, Sum, World, ordered,
};

use super::start::{both_ways, ranks, ranks_on_nodes};

/// Elements of a test, and how they are combined.
trait Item: Datatype + PartialEq + Debug {
    fn of(number: usize) -> Self;
    fn op() -> impl Operation<Self> + 'static;
    fn fold(left: Self, right: Self) -> Self;
}

impl Item for u8 {
    fn of(number: usize) -> Self {
        number as Self
    }
    fn op() -> impl Operation<Self> + 'static {
        BitXor
    }
    fn fold(left: Self, right: Self) -> Self {
        left ^ right
    }
}

/// Numbers whose sums are exact.
impl Item for f64 {
    fn of(number: usize) -> Self {
        number as Self
    }
    fn op() -> impl Operation<Self> + 'static {
        Sum
    }
    fn fold(left: Self, right: Self) -> Self {
        left + right
    }
}

/// The maps x -> ax + b modulo 2^32: associative, not commutative.
impl Item for [u32; 2] {
    fn of(number: usize) -> Self {
        [2 * number as u32 + 3, number as u32]
    }
    fn op() -> impl Operation<Self> + 'static {
        ordered(Self::fold)
    }
    fn fold([a, b]: Self, [c, d]: Self) -> Self {
        [a.wrapping_mul(c), c.wrapping_mul(b).wrapping_add(d)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
}

use Kind::*;

const KINDS: [Kind; 14] = [
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
];

/// What all ranks know of a collective.
struct One {
    kind: Kind,
    len: usize,
    root: usize,
    /// Blocks of different lengths, in places with gaps between them.
    counts: Vec<usize>,
    places: Vec<usize>,
}

/// What rank `rank` gives as its element `at` the n-th time.
fn value<T: Item>(rank: usize, at: usize, time: usize) -> T {
    T::of(rank * 31 + at * 7 + time * 5 + 1)
}

fn placed(counts: &[usize]) -> Vec<usize> {
    counts.iter().scan(2, |end, count| Some(std::mem::replace(end, *end + count + 1))).collect()
}

impl One {
    fn new(kind: Kind, len: usize, me: usize, size: usize) -> Self {
        let root = (len + kind as usize) % size;
        // Two ranks exchange as much in both directions, as in place they must.
        let mine = if kind == Alltoallv { me } else { 0 };
        let count = |rank| [len, 0, 1, 2 * len][(mine + rank) % 4];
        let counts: Vec<usize> = (0..size).map(count).collect();
        let places = placed(&counts);
        Self { kind, len, root, counts, places }
    }

    fn has_root(&self) -> bool {
        matches!(self.kind, Gather | Gatherv | Scatter | Scatterv | Reduce)
    }

    fn parts(&self) -> Partition<'_> {
        Partition::new(&self.counts, &self.places)
    }

    /// The buffer in place of a rank before and after.
    fn in_place<T: Item>(&self, me: usize, time: usize) -> (Vec<T>, Vec<T>) {
        let (size, len) = (self.counts.len(), self.len);
        let own = |at| value::<T>(me, at, time);
        let folded = |ranks: Range<usize>, at| {
            ranks.map(|rank| value(rank, at, time)).reduce(T::fold).expect("there are some")
        };
        let end = self.places[size - 1] + self.counts[size - 1];
        let sum: usize = self.counts.iter().sum();
        let block = |rank: usize| match self.kind {
            Gather | Allgather | Alltoall => rank * len..(rank + 1) * len,
            _ => self.places[rank]..self.places[rank] + self.counts[rank],
        };
        let blank = |len| vec![T::of(99); len];
        let ones = |len| (0..len).map(own).collect::<Vec<T>>();
        match self.kind {
            Gather | Allgather | Gatherv | Allgatherv => {
                let all =
                    blank(if matches!(self.kind, Gather | Allgather) { size * len } else { end });
                let (mut before, mut after) = (all.clone(), all);
                for rank in 0..size {
                    let block = block(rank);
                    let given = (0..block.len()).map(|at| value(rank, at, time));
                    after[block].iter_mut().zip(given).for_each(|(item, given)| *item = given);
                }
                before[block(me)].copy_from_slice(&after[block(me)]);
                (before, after)
            }
            Scatter => (ones(size * len), ones(size * len)),
            Scatterv => (ones(end), ones(end)),
            Alltoall | Alltoallv => {
                let all = blank(if self.kind == Alltoall { size * len } else { end });
                let (mut before, mut after) = (all.clone(), all);
                for rank in 0..size {
                    for (at, place) in block(rank).enumerate() {
                        before[place] = value(me, 1000 * rank + at, time);
                        after[place] = value(rank, 1000 * me + at, time);
                    }
                }
                (before, after)
            }
            Reduce | Allreduce => (ones(len), (0..len).map(|at| folded(0..size, at)).collect()),
            ReduceScatterBlock | ReduceScatter => {
                let (all, first, count) = match self.kind {
                    ReduceScatter => (sum, self.counts[..me].iter().sum(), self.counts[me]),
                    _ => (size * len, me * len, len),
                };
                let mut after = ones(all);
                after
                    .iter_mut()
                    .take(count)
                    .zip(first..)
                    .for_each(|(item, at)| *item = folded(0..size, at));
                (ones(all), after)
            }
            Scan => (ones(len), (0..len).map(|at| folded(0..me + 1, at)).collect()),
            Exscan if me == 0 => (ones(len), ones(len)),
            Exscan => (ones(len), (0..len).map(|at| folded(0..me, at)).collect()),
        }
    }

    /// Input and output of a rank that is not the root, and what the output holds in the end.
    fn apart<T: Item>(&self, me: usize, time: usize) -> (Vec<T>, Vec<T>, Vec<T>) {
        let count =
            if matches!(self.kind, Gatherv | Scatterv) { self.counts[me] } else { self.len };
        let given = (0..count).map(|at| value(me, at, time)).collect();
        match self.kind {
            Scatter | Scatterv => {
                let first = if self.kind == Scatter { me * count } else { self.places[me] };
                let due = (first..first + count).map(|at| value(self.root, at, time)).collect();
                (Vec::new(), vec![T::of(99); count], due)
            }
            _ => (given, Vec::new(), Vec::new()),
        }
    }

    fn block<T: Item>(&self, world: &World, items: &mut [T]) -> Result<(), MpiError> {
        match self.kind {
            Gather => world.gather_in_place(items),
            Gatherv => world.gatherv_in_place(items, self.parts()),
            Scatter => world.scatter_in_place(items),
            Scatterv => world.scatterv_in_place(items, self.parts()),
            Allgather => world.allgather_in_place(items),
            Allgatherv => world.allgatherv_in_place(items, self.parts()),
            Alltoall => world.alltoall_in_place(items),
            Alltoallv => world.alltoallv_in_place(items, self.parts()),
            Reduce => world.reduce_in_place(items, T::op()),
            Allreduce => world.allreduce_in_place(items, T::op()),
            ReduceScatterBlock => world.reduce_scatter_block_in_place(items, T::op()),
            ReduceScatter => world.reduce_scatter_in_place(items, &self.counts, T::op()),
            Scan => world.scan_in_place(items, T::op()),
            Exscan => world.exscan_in_place(items, T::op()),
        }
    }

    fn start<'scope, T: Item>(
        &self,
        world: &'scope World,
        s: &'scope Scope<'scope, '_>,
        items: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        match self.kind {
            Gather => s.igather_in_place(world, items),
            Gatherv => s.igatherv_in_place(world, items, self.parts()),
            Scatter => s.iscatter_in_place(world, items),
            Scatterv => s.iscatterv_in_place(world, items, self.parts()),
            Allgather => s.iallgather_in_place(world, items),
            Allgatherv => s.iallgatherv_in_place(world, items, self.parts()),
            Alltoall => s.ialltoall_in_place(world, items),
            Alltoallv => s.ialltoallv_in_place(world, items, self.parts()),
            Reduce => s.ireduce_in_place(world, items, T::op()),
            Allreduce => s.iallreduce_in_place(world, items, T::op()),
            ReduceScatterBlock => s.ireduce_scatter_block_in_place(world, items, T::op()),
            ReduceScatter => s.ireduce_scatter_in_place(world, items, &self.counts, T::op()),
            Scan => s.iscan_in_place(world, items, T::op()),
            Exscan => s.iexscan_in_place(world, items, T::op()),
        }
    }

    fn make<T: Item>(&self, world: &World, items: Vec<T>) -> PersistentCollective<T> {
        match self.kind {
            Gather => world.gather_in_place_init(items),
            Gatherv => world.gatherv_in_place_init(items, self.parts()),
            Scatter => world.scatter_in_place_init(items),
            Scatterv => world.scatterv_in_place_init(items, self.parts()),
            Allgather => world.allgather_in_place_init(items),
            Allgatherv => world.allgatherv_in_place_init(items, self.parts()),
            Alltoall => world.alltoall_in_place_init(items),
            Alltoallv => world.alltoallv_in_place_init(items, self.parts()),
            Reduce => world.reduce_in_place_init(items, T::op()),
            Allreduce => world.allreduce_in_place_init(items, T::op()),
            ReduceScatterBlock => world.reduce_scatter_block_in_place_init(items, T::op()),
            ReduceScatter => world.reduce_scatter_in_place_init(items, &self.counts, T::op()),
            Scan => world.scan_in_place_init(items, T::op()),
            Exscan => world.exscan_in_place_init(items, T::op()),
        }
        .unwrap()
    }

    fn block_apart<T: Item>(
        &self,
        world: &World,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), MpiError> {
        let (root, none) = (self.root as i32, Partition::new(&[], &[]));
        match self.kind {
            Gather => world.gather(input, output, root),
            Gatherv => world.gatherv(input, output, none, root),
            Scatter => world.scatter(input, output, root),
            Scatterv => world.scatterv(input, none, output, root),
            _ => world.reduce(input, output, T::op(), root),
        }
    }

    fn start_apart<'scope, T: Item>(
        &self,
        world: &'scope World,
        s: &'scope Scope<'scope, '_>,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let (root, none) = (self.root as i32, Partition::new(&[], &[]));
        match self.kind {
            Gather => s.igather(world, input, output, root),
            Gatherv => s.igatherv(world, input, output, none, root),
            Scatter => s.iscatter(world, input, output, root),
            Scatterv => s.iscatterv(world, input, none, output, root),
            _ => s.ireduce(world, input, output, T::op(), root),
        }
    }

    fn make_apart<T: Item>(
        &self,
        world: &World,
        input: Vec<T>,
        output: Vec<T>,
    ) -> PersistentCollective<T> {
        let (root, none) = (self.root as i32, Partition::new(&[], &[]));
        match self.kind {
            Gather => world.gather_init(input, output, root),
            Gatherv => world.gatherv_init(input, output, none, root),
            Scatter => world.scatter_init(input, output, root),
            Scatterv => world.scatterv_init(input, none, output, root),
            _ => world.reduce_init(input, output, T::op(), root),
        }
        .unwrap()
    }
}

/// One collective in its three forms, the last of which is started three times.
fn forms<T: Item>(world: &World, one: &One) {
    let (me, what) = (world.rank() as usize, (one.kind, one.len));
    if one.has_root() && me != one.root {
        let (input, mut output, due) = one.apart::<T>(me, 0);
        one.block_apart(world, &input, &mut output).unwrap();
        assert_eq!(output, due, "{what:?}");
        let (input, mut output, due) = one.apart::<T>(me, 1);
        world.scope(|s| one.start_apart(world, s, &input, &mut output)?.wait()).unwrap();
        assert_eq!(output, due, "{what:?}");
        let mut again = one.make_apart(world, input, output);
        for time in 2..5 {
            let (input, _, due) = one.apart::<T>(me, time);
            again.input_mut().unwrap().copy_from_slice(&input);
            again.start().unwrap();
            again.wait().unwrap();
            assert_eq!(again.output().unwrap(), due, "{what:?}");
        }
        return;
    }
    let (mut items, due) = one.in_place::<T>(me, 0);
    one.block(world, &mut items).unwrap();
    assert_eq!(items, due, "{what:?} blocking");
    let (mut items, due) = one.in_place::<T>(me, 1);
    world.scope(|s| one.start(world, s, &mut items)?.wait()).unwrap();
    assert_eq!(items, due, "{what:?} nonblocking");
    let mut again = one.make(world, items);
    let reads = matches!(one.kind, Scatter | Scatterv);
    for time in 2..5 {
        let (items, due) = one.in_place::<T>(me, time);
        if reads { again.input_mut() } else { again.output_mut() }.unwrap().copy_from_slice(&items);
        again.start().unwrap();
        again.wait().unwrap();
        let items = if reads { again.input() } else { again.output() };
        assert_eq!(items.unwrap(), due, "{what:?} persistent");
    }
}

fn all<T: Item>(world: &World, lengths: &[usize]) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    for kind in KINDS {
        for &len in lengths {
            forms::<T>(world, &One::new(kind, len, me, size));
        }
    }
}

#[test]
fn all_forms_give_what_the_standard_says() {
    for size in [1, 2, 3, 4, 7] {
        both_ways(size, |world| {
            all::<u8>(world, &[0, 1, 5, 999]);
            all::<f64>(world, &[3, 300]);
            all::<[u32; 2]>(world, &[1, 70]);
        });
    }
}

#[test]
fn long_ones_do() {
    both_ways(3, |world| {
        all::<f64>(world, &[40_000]);
        all::<[u32; 2]>(world, &[50_001]);
    });
}

#[test]
fn those_in_layers_do() {
    let costs = [("BOWLINE_COLL_COSTS", "shm/tcp,pipelining=10000000")];
    for nodes in [&[0, 0, 1, 1][..], &[5, 2, 2, 2, 5]] {
        ranks_on_nodes(false, nodes, &costs, |world| {
            all::<u8>(world, &[1, 999]);
            all::<[u32; 2]>(world, &[70, 4000]);
        });
    }
}

#[test]
fn lengths_that_are_wrong_are_refused_in_all_forms() {
    ranks(2, |world| {
        let wrong = |outcome: Result<(), MpiError>, expected, got| match outcome {
            Err(MpiError::InvalidLength { expected: due, got: had, .. }) => {
                assert_eq!((due, had), (expected, got));
            }
            other => panic!("{other:?}"),
        };
        let three = || vec![0_u8; 3];
        wrong(world.gather_in_place(&mut three()), 2, 3);
        wrong(world.scatter_in_place(&three()), 2, 3);
        wrong(world.alltoall_in_place(&mut three()), 2, 3);
        wrong(world.reduce_scatter_block_in_place(&mut three(), Sum), 2, 3);
        wrong(world.reduce_scatter_in_place(&mut three(), &[1, 1], Sum), 2, 3);
        wrong(world.reduce_scatter_in_place(&mut three(), &[3], Sum), 2, 1);
        wrong(world.alltoallw_in_place([(&mut three()[..]).into()]), 2, 1);
        let mut items = [three(), three(), three(), three(), three(), three(), three()];
        let [a, b, c, d, e, f, g] = &mut items;
        let scoped = world.scope(|s| {
            let end = |started: Result<CollectiveRequest<'_>, MpiError>| started.map(drop);
            wrong(end(s.igather_in_place(world, &mut a[..])), 2, 3);
            wrong(end(s.iscatter_in_place(world, &b[..])), 2, 3);
            wrong(end(s.iallgather_in_place(world, &mut c[..])), 2, 3);
            wrong(end(s.ialltoall_in_place(world, &mut d[..])), 2, 3);
            wrong(end(s.ireduce_scatter_block_in_place(world, &mut e[..], Sum)), 2, 3);
            wrong(end(s.ireduce_scatter_in_place(world, &mut f[..], &[1, 1], Sum)), 2, 3);
            wrong(end(s.ialltoallw_in_place(world, [(&mut g[..]).into()])), 2, 1);
            Ok(())
        });
        scoped.unwrap();
        let made = |made: Result<PersistentCollective<u8>, MpiError>| made.map(drop);
        wrong(made(world.gather_in_place_init(three())), 2, 3);
        wrong(made(world.scatter_in_place_init(three())), 2, 3);
        wrong(made(world.allgather_in_place_init(three())), 2, 3);
        wrong(made(world.alltoall_in_place_init(three())), 2, 3);
        wrong(made(world.reduce_scatter_block_in_place_init(three(), Sum)), 2, 3);
        wrong(made(world.reduce_scatter_in_place_init(three(), &[1, 1], Sum)), 2, 3);
        wrong(world.alltoallw_in_place_init(vec![three().into()]).map(drop), 2, 1);
        let overlapping = Partition::new(&[2, 2], &[0, 1]);
        let mut items = three();
        let overlap = |outcome| assert!(matches!(outcome, Err(MpiError::BlocksOverlap { .. })));
        overlap(world.gatherv_in_place(&mut items, overlapping));
        overlap(world.allgatherv_in_place(&mut items, overlapping));
        overlap(world.alltoallv_in_place(&mut items, overlapping));
        overlap(made(world.allgatherv_in_place_init(three(), overlapping)));
        overlap(made(world.gatherv_in_place_init(three(), overlapping)));
        overlap(made(world.alltoallv_in_place_init(three(), overlapping)));
        // What was refused leaves nothing behind.
        let mut sum = [1];
        world.allreduce_in_place(&mut sum, Sum).unwrap();
        assert_eq!(sum, [2]);
    });
}

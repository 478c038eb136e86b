//! Collectives on elements whose type is known at run time only: random layouts, lengths, roots and
//! choices of `MPI_IN_PLACE`, on all sizes and with both sets of algorithms, against what must come out.
//!
//! Every buffer is compared whole, so that a byte between elements that was touched is a failure too.

use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::{Layout, pack, unpack};
use bowline_mpi::World;
use bowline_mpi::raw::{
    Again, Data, LaidOut, Later, Now, Operands, RawRequest, ReduceOp, StartError, reduce_local,
};
use proptest::prelude::*;

use super::start::both_ways;

/// An element's 8 bytes.
const BYTES: usize = 8;

/// Random numbers that all ranks draw alike.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        // Knuth's constants.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn layout(&mut self) -> Arc<Layout> {
        let half = Layout::bytes(BYTES / 2).unwrap();
        let whole = Layout::bytes(BYTES).unwrap();
        Arc::new(match self.below(6) {
            0 | 1 => whole,
            2 => Layout::listed([(0, 1, &half), (8, 1, &half)]).unwrap().with_extent(16),
            3 => Layout::listed([(-4, 1, &half), (12, 1, &half)]).unwrap().with_extent(24),
            4 => Layout::listed([(8, 1, &half), (0, 1, &half)]).unwrap().with_extent(12),
            _ => whole.with_extent(-24),
        })
    }

    fn length(&mut self) -> usize {
        [0, 1, 2, 5, 90, 3000][self.below(6)]
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Memory with elements, and what it must be in the end.
struct Image {
    now: Vec<u8>,
    wanted: Vec<u8>,
    /// Where the first element is placed.
    base: usize,
    layout: Arc<Layout>,
}

const MARGIN: usize = 64;

impl Image {
    fn new(layout: &Arc<Layout>, count: usize) -> Self {
        let (_, low, high) = layout.message(count).unwrap();
        let base = MARGIN + low.min(0).unsigned_abs() as usize;
        let now = vec![0xa5; base + high.max(0) as usize + MARGIN];
        Self { wanted: now.clone(), now, base, layout: Arc::clone(layout) }
    }

    fn place(memory: &mut [u8], base: usize, layout: &Layout, first: usize) -> *mut u8 {
        let at = base as i64 + first as i64 * layout.extent();
        memory.as_mut_ptr().wrapping_offset(at as isize)
    }

    fn put(memory: &mut [u8], base: usize, layout: &Layout, first: usize, values: &[u64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let start = Self::place(memory, base, layout, first);
        // SAFETY: the memory was made for these elements.
        unsafe { unpack(layout, start, values.len(), 0, bytes.as_ptr(), bytes.len()) };
    }

    /// What stands there before.
    fn set(&mut self, first: usize, values: &[u64]) {
        Self::put(&mut self.now, self.base, &self.layout, first, values);
        Self::put(&mut self.wanted, self.base, &self.layout, first, values);
    }

    /// What must stand there afterwards.
    fn want(&mut self, first: usize, values: &[u64]) {
        Self::put(&mut self.wanted, self.base, &self.layout, first, values);
    }

    fn data(&mut self, first: usize, count: usize) -> Data {
        let start = Self::place(&mut self.now, self.base, &self.layout, first);
        Data { start, count, layout: Arc::clone(&self.layout) }
    }

    /// One block for each of some places.
    fn blocks(&mut self, places: &[(usize, usize)]) -> Vec<Data> {
        let start = Self::place(&mut self.now, self.base, &self.layout, 0);
        let extent = self.layout.extent();
        let block = |&(first, count): &(usize, usize)| {
            let at = first as i64 * extent;
            let layout = Arc::clone(&self.layout);
            Data { start: start.wrapping_offset(at as isize), count, layout }
        };
        places.iter().map(block).collect()
    }

    #[track_caller]
    fn check(&self, what: &str) {
        assert!(self.now == self.wanted, "{what} with {:?}", self.layout);
    }
}

/// Does a collective in one of the three ways, which all ranks draw alike.
macro_rules! each_way {
    ($world:expr, $dice:expr, $collective:ident($($arg:expr),*)) => {
        match $dice.below(3) {
            // SAFETY: the memory is that of images, which live through all of it.
            0 => unsafe { $world.$collective(Now, $($arg),*) }.unwrap(),
            1 => {
                // SAFETY: as above.
                let run = unsafe { $world.$collective(Later, $($arg),*) }.unwrap();
                // SAFETY: as above.
                ended($world, &mut unsafe { RawRequest::collective(run) });
            }
            _ => {
                // SAFETY: as above.
                let run = unsafe { $world.$collective(Again, $($arg),*) }.unwrap();
                let mut request = RawRequest::persistent_collective(run);
                assert!(!request.is_active());
                let pool = || unreachable!("nothing is buffered");
                // SAFETY: as above.
                let started: Result<(), StartError<()>> = unsafe { request.start(pool) };
                started.unwrap();
                ended($world, &mut request);
                request.finish();
                assert!(!request.is_active());
            }
        }
    };
}

fn ended(world: &World, request: &mut RawRequest) {
    let mut end = None;
    world.wait_until(|| {
        end = request.poll();
        end.is_some()
    });
    assert_eq!(end.unwrap().error, None);
}

/// What rank `from` has for rank `to`.
fn values(from: usize, to: usize, len: usize) -> Vec<u64> {
    (0..len).map(|index| (from * 1_000_003 + to * 50_021 + index * 7 + 1) as u64).collect()
}

/// Blocks in a random order, with an element between them.
fn scattered(dice: &mut Dice, lengths: &[usize]) -> (Vec<(usize, usize)>, usize) {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    for index in 1..order.len() {
        order.swap(index, dice.below(index + 1));
    }
    let (mut places, mut at) = (vec![(0, 0); lengths.len()], 0);
    for rank in order {
        places[rank] = (at, lengths[rank]);
        at += lengths[rank] + 1;
    }
    (places, at)
}

/// The maps x -> ax + b modulo a prime, composed: associative, not commutative.
fn compose(left: u64, right: u64) -> u64 {
    const PRIME: u64 = 2_147_483_647;
    let ((a, b), (c, d)) = ((left >> 32, left & 0xffff_ffff), (right >> 32, right & 0xffff_ffff));
    ((a * c % PRIME) << 32) | ((c * b + d) % PRIME)
}

fn composed(ranks: std::ops::Range<usize>, len: usize) -> Vec<u64> {
    let each = |rank: usize| maps(rank, len);
    ranks
        .map(each)
        .reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| compose(a, b)).collect())
        .unwrap()
}

/// The contribution of a rank.
fn maps(rank: usize, len: usize) -> Vec<u64> {
    (0..len)
        .map(|i| (((rank * 31 + i * 7 + 2) as u64) << 32) | (rank * 977 + i * 13) as u64)
        .collect()
}

/// Composes elements of a layout, as a program's function does.
fn compose_laid_out(layout: &Layout, left: *const u8, right: *mut u8, count: usize) {
    let at = |index: usize| (index as i64 * layout.extent()) as isize;
    for index in 0..count {
        let (mut a, mut b) = ([0; BYTES], [0; BYTES]);
        // SAFETY: the element `index` is there in both.
        unsafe {
            pack(layout, left.wrapping_offset(at(index)), 1, 0, a.as_mut_ptr(), BYTES);
            pack(layout, right.wrapping_offset(at(index)), 1, 0, b.as_mut_ptr(), BYTES);
            let both = compose(u64::from_ne_bytes(a), u64::from_ne_bytes(b)).to_ne_bytes();
            unpack(layout, right.wrapping_offset(at(index)), 1, 0, both.as_ptr(), BYTES);
        }
    }
}

fn to_and_from_a_root(world: &World, dice: &mut Dice) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let (root, len) = (dice.below(size), dice.length());
    let (out, into) = (dice.layout(), dice.layout());
    let (here, in_place) = (me == root, dice.chance());
    let at = root as i32;

    let mut image = Image::new(&out, len);
    if here {
        image.set(0, &values(root, 1, len));
    }
    image.want(0, &values(root, 1, len));
    each_way!(world, dice, bcast_data(image.data(0, len), at));
    image.check("bcast");

    let (mut own, mut all) = (Image::new(&out, len), Image::new(&into, size * len));
    own.set(0, &values(me, 2, len));
    if here {
        (0..size).for_each(|r| all.want(r * len, &values(r, 2, len)));
        if in_place {
            all.set(me * len, &values(me, 2, len));
        }
    }
    let sent = (!(here && in_place)).then(|| own.data(0, len));
    each_way!(world, dice, gather_data(sent, all.data(0, len), at));
    all.check("gather");

    let (mut own, mut all) = (Image::new(&into, len), Image::new(&out, size * len));
    if here {
        (0..size).for_each(|r| all.set(r * len, &values(3, r, len)));
    }
    if !(here && in_place) {
        own.want(0, &values(3, me, len));
    }
    let received = (!(here && in_place)).then(|| own.data(0, len));
    each_way!(world, dice, scatter_data(all.data(0, len), received, at));
    own.check("scatter");
    all.check("the source of scatter");

    let lengths: Vec<usize> = (0..size).map(|_| dice.length()).collect();
    let (places, total) = scattered(dice, &lengths);
    let (mut own, mut all) = (Image::new(&out, lengths[me]), Image::new(&into, total));
    own.set(0, &values(me, 4, lengths[me]));
    if here {
        (0..size).for_each(|r| all.want(places[r].0, &values(r, 4, lengths[r])));
        if in_place {
            all.set(places[me].0, &values(me, 4, lengths[me]));
        }
    }
    let sent = (!(here && in_place)).then(|| own.data(0, lengths[me]));
    each_way!(world, dice, gatherv_data(sent, all.blocks(&places), at));
    all.check("gatherv");

    let (mut own, mut all) = (Image::new(&into, lengths[me]), Image::new(&out, total));
    if here {
        (0..size).for_each(|r| all.set(places[r].0, &values(5, r, lengths[r])));
    }
    if !(here && in_place) {
        own.want(0, &values(5, me, lengths[me]));
    }
    let received = (!(here && in_place)).then(|| own.data(0, lengths[me]));
    each_way!(world, dice, scatterv_data(all.blocks(&places), received, at));
    own.check("scatterv");
    all.check("the source of scatterv");
}

fn between_all(world: &World, dice: &mut Dice) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let (len, in_place) = (dice.length(), dice.chance());
    let (out, into) = (dice.layout(), dice.layout());

    let (mut own, mut all) = (Image::new(&out, len), Image::new(&into, size * len));
    own.set(0, &values(me, 6, len));
    if in_place {
        all.set(me * len, &values(me, 6, len));
    }
    (0..size).for_each(|r| all.want(r * len, &values(r, 6, len)));
    let sent = (!in_place).then(|| own.data(0, len));
    each_way!(world, dice, allgather_data(sent, all.data(0, len)));
    all.check("allgather");

    let lengths: Vec<usize> = (0..size).map(|_| dice.length()).collect();
    let (places, total) = scattered(dice, &lengths);
    let (mut own, mut all) = (Image::new(&out, lengths[me]), Image::new(&into, total));
    own.set(0, &values(me, 7, lengths[me]));
    if in_place {
        all.set(places[me].0, &values(me, 7, lengths[me]));
    }
    (0..size).for_each(|r| all.want(places[r].0, &values(r, 7, lengths[r])));
    let sent = (!in_place).then(|| own.data(0, lengths[me]));
    each_way!(world, dice, allgatherv_data(sent, all.blocks(&places)));
    all.check("allgatherv");

    let (mut own, mut all) = (Image::new(&out, size * len), Image::new(&into, size * len));
    for r in 0..size {
        let target = if in_place { &mut all } else { &mut own };
        target.set(r * len, &values(me, r, len));
    }
    (0..size).for_each(|r| all.want(r * len, &values(r, me, len)));
    let sent = (!in_place).then(|| own.data(0, len));
    each_way!(world, dice, alltoall_data(sent, all.data(0, len)));
    all.check("alltoall");

    // Lengths by (from, to); in place, those of both directions are the same.
    let mut table: Vec<Vec<usize>> =
        (0..size).map(|_| (0..size).map(|_| dice.length()).collect()).collect();
    if in_place {
        (0..size).for_each(|a| (0..a).for_each(|b| table[a][b] = table[b][a]));
    }
    let (going, there) = scattered(dice, &table[me]);
    let coming: Vec<usize> = (0..size).map(|r| table[r][me]).collect();
    let (coming, here) = scattered(dice, &coming);
    let (mut own, mut all) = (Image::new(&out, there), Image::new(&into, here));
    for r in 0..size {
        match in_place {
            true => all.set(coming[r].0, &values(me, r, coming[r].1)),
            false => own.set(going[r].0, &values(me, r, going[r].1)),
        }
        all.want(coming[r].0, &values(r, me, coming[r].1));
    }
    let sent = own.blocks(&going);
    let sent = (!in_place).then_some(sent);
    each_way!(world, dice, alltoallv_data(sent, all.blocks(&coming)));
    all.check("alltoallv");
}

/// What goes between all ranks, as a seed has it.
pub(crate) fn blocks_of_any_layout(world: &World, seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..4 {
        between_all(world, &mut dice);
    }
}

fn combined(world: &World, dice: &mut Dice) {
    let (me, size) = (world.rank() as usize, world.size() as usize);
    let (root, len, in_place) = (dice.below(size), dice.length(), dice.chance());
    let layout = dice.layout();
    let seen = Arc::clone(&layout);
    let function = move |left: *const u8, right: *mut u8, count: usize| {
        compose_laid_out(&seen, left, right, count)
    };
    let op = LaidOut::new(Arc::clone(&layout), Box::new(function));
    let combine = move |operands: &Operands<'_>| op.combine(operands);
    let op = ReduceOp::new(BYTES, false, Rc::new(combine));

    /// The two buffers: a contribution, in one or the other, and what must come.
    fn both(layout: &Arc<Layout>, capacity: usize, own: &[u64], in_place: bool) -> (Image, Image) {
        let (mut send, mut receive) = (Image::new(layout, own.len()), Image::new(layout, capacity));
        send.set(0, own);
        if in_place {
            receive.set(0, own);
        }
        (send, receive)
    }

    let here = me == root;
    let (mut send, mut receive) = both(&layout, len, &maps(me, len), here && in_place);
    if here {
        receive.want(0, &composed(0..size, len));
    }
    let sent = (!(here && in_place)).then(|| send.data(0, len));
    each_way!(world, dice, reduce_data(sent, receive.data(0, len), op.clone(), root as i32));
    receive.check("reduce");

    let (mut send, mut receive) = both(&layout, len, &maps(me, len), in_place);
    receive.want(0, &composed(0..size, len));
    let sent = (!in_place).then(|| send.data(0, len));
    each_way!(world, dice, allreduce_data(sent, receive.data(0, len), op.clone()));
    receive.check("allreduce");

    for exclusive in [false, true] {
        let (mut send, mut receive) = both(&layout, len, &maps(me, len), in_place);
        if !exclusive || me > 0 {
            receive.want(0, &composed(0..if exclusive { me } else { me + 1 }, len));
        }
        let sent = (!in_place).then(|| send.data(0, len));
        each_way!(world, dice, scan_data(exclusive, sent, receive.data(0, len), op.clone()));
        receive.check("scan");
        send.check("the source of scan");
    }

    let lengths: Vec<usize> = (0..size).map(|_| dice.length()).collect();
    let (total, first) = (lengths.iter().sum(), lengths[..me].iter().sum::<usize>());
    let capacity = if in_place { total } else { lengths[me] };
    let (mut send, mut receive) = both(&layout, capacity, &maps(me, total), in_place);
    receive.want(0, &composed(0..size, total)[first..first + lengths[me]]);
    let sent = (!in_place).then(|| send.data(0, 0).start);
    each_way!(world, dice, reduce_scatter_data(sent, receive.data(0, 0), &lengths, op.clone()));
    receive.check("reduce_scatter");

    let capacity = if in_place { size * len } else { len };
    let (mut send, mut receive) = both(&layout, capacity, &maps(me, size * len), in_place);
    receive.want(0, &composed(0..size, size * len)[me * len..(me + 1) * len]);
    let sent = (!in_place).then(|| send.data(0, 0).start);
    each_way!(world, dice, reduce_scatter_block_data(sent, receive.data(0, len), op.clone()));
    receive.check("reduce_scatter_block");

    let (mut left, mut right) = (Image::new(&layout, len), Image::new(&layout, len));
    left.set(0, &maps(me, len));
    right.set(0, &maps(me + 1, len));
    right.want(0, &composed(me..me + 2, len));
    // SAFETY: the memory is that of images, which live through the call.
    unsafe { reduce_local(left.data(0, len), right.data(0, len), &op) }.unwrap();
    right.check("reduce_local");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn collectives_of_any_layout_bring_what_they_must(size in 1_usize..=9, seed in any::<u64>()) {
        both_ways(size, |world| {
            let mut dice = Dice(seed);
            for _ in 0..4 {
                to_and_from_a_root(world, &mut dice);
                between_all(world, &mut dice);
                combined(world, &mut dice);
            }
        });
    }
}

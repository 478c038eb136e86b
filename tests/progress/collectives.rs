//! Which collectives set a timer: no blocking one, whatever its messages are; of those in the background the ones over lanes that
//! a thread serves. Nor does any other blocking call that receives by a path of its own. Each is called by itself, so that the one that
//! sets a timer is named.

use std::sync::{Arc, Mutex};

use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::base::layout::Layout;
use bowline::mpi::raw::{Data, Now, SendMode};
use bowline::mpi::{
    ANY_SOURCE, ANY_TAG, Communicator, Max, MpiError, Partition, Sum, World, ordered,
};
use bowline::progress::timer_calls;

use super::{HAMMER, ranks};

/// Collectives by messages, where threads could do without: each rank receives at least one block in a piece. Those that
/// keep the order of operands serve operations that do not commute.
const BY_MESSAGES: &[(&str, &str)] = &[
    ("BOWLINE_BARRIER", "dissemination"),
    ("BOWLINE_BCAST", "binomial"),
    ("BOWLINE_REDUCE", "flat"),
    ("BOWLINE_ALLREDUCE", "doubling"),
    ("BOWLINE_GATHER", "linear"),
    ("BOWLINE_SCATTER", "linear"),
    ("BOWLINE_ALLGATHER", "ring"),
    ("BOWLINE_ALLTOALL", "direct"),
    ("BOWLINE_REDUCE_SCATTER", "direct"),
    ("BOWLINE_SCAN", "doubling"),
];

/// Elements of a block: 160 KB, which are offered, and could be copied by both sides.
const LEN: usize = 20_000;

/// The blocks of four ranks, in descending order. Those of fewer ranks are the last ones.
const COUNTS: &[usize] = &[LEN; 4];
const PLACES: &[usize] = &[3 * LEN, 2 * LEN, LEN, 0];

/// One of two ranks or more, and its memory.
struct Side {
    world: World,
    blocks: Partition<'static>,
    /// All ranks are neighbours of all.
    graph: Communicator,
    root: i32,
    /// A block for each rank.
    out: Vec<u64>,
    into: Vec<u64>,
}

type Outcome = Result<(), MpiError>;
type Calls = [(&'static str, fn(&mut Side) -> Outcome)];

/// Operands keep their order.
fn right(_: u64, right: u64) -> u64 {
    right
}

/// All blocking collectives, by slices.
const BLOCKING: &Calls = &[
    ("barrier", |s| s.world.barrier()),
    ("bcast", |s| s.world.bcast(&mut s.into, s.root)),
    ("gather", |s| s.world.gather(&s.out[..LEN], &mut s.into, s.root)),
    ("gatherv", |s| s.world.gatherv(&s.out[..LEN], &mut s.into, s.blocks, s.root)),
    ("scatter", |s| s.world.scatter(&s.out, &mut s.into[..LEN], s.root)),
    ("scatterv", |s| s.world.scatterv(&s.out, s.blocks, &mut s.into[..LEN], s.root)),
    ("allgather", |s| s.world.allgather(&s.out[..LEN], &mut s.into)),
    ("allgatherv", |s| s.world.allgatherv(&s.out[..LEN], &mut s.into, s.blocks)),
    ("alltoall", |s| s.world.alltoall(&s.out, &mut s.into)),
    ("alltoallv", |s| s.world.alltoallv(&s.out, s.blocks, &mut s.into, s.blocks)),
    ("alltoallw", |s| {
        let (out, into) = (s.out.chunks(LEN), s.into.chunks_mut(LEN));
        s.world.alltoallw(out.map(Into::into), into.map(Into::into))
    }),
    ("reduce", |s| s.world.reduce(&s.out, &mut s.into, Sum, s.root)),
    ("reduce in order", |s| s.world.reduce(&s.out, &mut s.into, ordered(right), s.root)),
    ("allreduce", |s| s.world.allreduce(&s.out, &mut s.into, Max)),
    ("allreduce in order", |s| s.world.allreduce(&s.out, &mut s.into, ordered(right))),
    ("reduce_scatter_block", |s| s.world.reduce_scatter_block(&s.out, &mut s.into[..LEN], Sum)),
    ("reduce_scatter", |s| {
        s.world.reduce_scatter(&s.out, &mut s.into[..LEN], s.blocks.counts, Sum)
    }),
    ("reduce_scatter in order", |s| {
        s.world.reduce_scatter(&s.out, &mut s.into[..LEN], s.blocks.counts, ordered(right))
    }),
    ("scan", |s| s.world.scan(&s.out, &mut s.into, Sum)),
    ("exscan", |s| s.world.exscan(&s.out, &mut s.into, Sum)),
    ("neighbor_allgather", |s| s.graph.neighbor_allgather(&s.out[..LEN], &mut s.into)),
    ("neighbor_allgatherv", |s| s.graph.neighbor_allgatherv(&s.out[..LEN], &mut s.into, s.blocks)),
    ("neighbor_alltoall", |s| s.graph.neighbor_alltoall(&s.out, &mut s.into)),
    ("neighbor_alltoallv", |s| s.graph.neighbor_alltoallv(&s.out, s.blocks, &mut s.into, s.blocks)),
    ("neighbor_alltoallw", |s| {
        let (out, into) = (s.out.chunks(LEN), s.into.chunks_mut(LEN));
        s.graph.neighbor_alltoallw(out.map(Into::into), into.map(Into::into))
    }),
];

/// Those that are in place by a path of their own.
const IN_PLACE: &Calls = &[
    ("gather in place", |s| match s.root == s.world.rank() {
        true => s.world.gather_in_place(&mut s.into),
        false => s.world.gather(&s.out[..LEN], &mut s.into, s.root),
    }),
    ("scatter in place", |s| match s.root == s.world.rank() {
        true => s.world.scatter_in_place(&s.out),
        false => s.world.scatter(&s.out, &mut s.into[..LEN], s.root),
    }),
    ("reduce in place", |s| match s.root == s.world.rank() {
        true => s.world.reduce_in_place(&mut s.into, Sum),
        false => s.world.reduce(&s.out, &mut s.into, Sum, s.root),
    }),
    ("allgather in place", |s| s.world.allgather_in_place(&mut s.into)),
    ("allreduce in place", |s| s.world.allreduce_in_place(&mut s.into, Sum)),
    ("alltoall in place", |s| s.world.alltoall_in_place(&mut s.into)),
    ("scan in place", |s| s.world.scan_in_place(&mut s.into, Sum)),
];

/// `count` elements with a hole behind each.
fn with_holes(start: *mut u64, count: usize) -> Data {
    let layout = Layout::bytes(8).expect("it can be counted").with_extent(16);
    Data { start: start.cast(), count, layout: Arc::new(layout) }
}

/// What a rank sends and receives: every other element of two of its blocks.
fn buffers_with_holes(side: &mut Side) -> (SendBuf, RecvBuf) {
    let (out, into) =
        (with_holes(side.out.as_mut_ptr(), LEN), with_holes(side.into.as_mut_ptr(), LEN));
    // SAFETY: the elements and the holes are the first two blocks of vectors that have two or more, which live longer than the
    // calls that get these and are nobody else's meanwhile.
    let made = unsafe {
        (
            SendBuf::laid_out(out.start, out.layout, LEN),
            RecvBuf::laid_out(into.start, into.layout, LEN),
        )
    };
    (made.0.expect("it can be counted"), made.1.expect("it can be counted"))
}

/// The other rank of a pair.
fn partner(side: &Side) -> i32 {
    side.world.rank() ^ 1
}

/// Memory that is not in one piece: messages in pairs, and collectives on packed copies.
const WITH_HOLES: &Calls = &[
    ("recv with holes", |s| {
        let (out, into) = buffers_with_holes(s);
        let other = partner(s);
        if sends(s) {
            return s.world.send_buffer(out, other, 7, SendMode::Standard);
        }
        s.world.recv_buffer(into, other, 7).expect("the other rank lives");
        Ok(())
    }),
    ("sendrecv with holes", |s| {
        let (out, into) = buffers_with_holes(s);
        let other = partner(s);
        let exchanged = s.world.exchange_buffers((out, other, 8), (into, other, 8));
        exchanged.expect("the other rank lives");
        Ok(())
    }),
    ("bcast with holes", |s| {
        let data = with_holes(s.into.as_mut_ptr(), LEN);
        // SAFETY: the elements and the holes are the first two blocks of the vector, which has two or more; nobody else uses it
        // for the call.
        unsafe { s.world.bcast_data(Now, data, s.root) }
    }),
    ("allgather with holes", |s| {
        let from = with_holes(s.out.as_mut_ptr(), LEN / 2);
        let into = with_holes(s.into.as_mut_ptr(), LEN / 2);
        // SAFETY: as above, of two vectors; the second holds a block of each rank.
        unsafe { s.world.allgather_data(Now, Some(from), into) }
    }),
    ("alltoall with holes", |s| {
        let from = with_holes(s.out.as_mut_ptr(), LEN / 2);
        let into = with_holes(s.into.as_mut_ptr(), LEN / 2);
        // SAFETY: as above; both hold a block of each rank.
        unsafe { s.world.alltoall_data(Now, Some(from), into) }
    }),
];

/// Whether this rank is the one of its pair that sends: with each root one of each pair.
fn sends(side: &Side) -> bool {
    side.world.rank() % 2 == side.root % 2
}

/// Blocking calls that receive by paths of their own, in pairs.
const OTHER_RECEIVES: &Calls = &[
    ("recv from any source", |s| {
        if sends(s) {
            return s.world.send(&s.out[..LEN], partner(s), 9);
        }
        s.world.recv(&mut s.into[..LEN], ANY_SOURCE, 9).map(drop)
    }),
    ("recv of any source and tag", |s| {
        if sends(s) {
            return s.world.send(&s.out[..LEN], partner(s), 9);
        }
        s.world.recv(&mut s.into[..LEN], ANY_SOURCE, ANY_TAG).map(drop)
    }),
    ("sendrecv_replace", |s| {
        let other = partner(s);
        s.world.sendrecv_replace(&mut s.into[..LEN], other, 9, other, 9).map(drop)
    }),
    ("mrecv", |s| {
        if sends(s) {
            return s.world.send(&s.out[..LEN], partner(s), 9);
        }
        s.world.mprobe(partner(s), 9)?.recv(&mut s.into[..LEN]).map(drop)
    }),
    ("mrecv from any source", |s| {
        if sends(s) {
            return s.world.send(&s.out[..LEN], partner(s), 9);
        }
        s.world.mprobe(ANY_SOURCE, 9)?.recv(&mut s.into[..LEN]).map(drop)
    }),
    ("recv beside a collective", |s| {
        let other = partner(s);
        if sends(s) {
            // Before this rank enters the barrier: the other one has not left it when it receives.
            s.world.send(&s.out[..LEN], other, 9)?;
            return s.world.scope(|o| o.ibarrier(&s.world)?.wait());
        }
        s.world.scope(|o| {
            let barrier = o.ibarrier(&s.world)?;
            s.world.recv(&mut s.into[..LEN], other, 9)?;
            barrier.wait()
        })
    }),
];

/// Collectives in the background, each waited for at once.
const IN_BACKGROUND: &Calls = &[
    ("ibcast", |s| s.world.scope(|o| o.ibcast(&s.world, &mut s.into, s.root)?.wait())),
    ("igather", |s| {
        s.world.scope(|o| o.igather(&s.world, &s.out[..LEN], &mut s.into, s.root)?.wait())
    }),
    ("igatherv", |s| {
        s.world
            .scope(|o| o.igatherv(&s.world, &s.out[..LEN], &mut s.into, s.blocks, s.root)?.wait())
    }),
    ("iscatter", |s| {
        s.world.scope(|o| o.iscatter(&s.world, &s.out, &mut s.into[..LEN], s.root)?.wait())
    }),
    ("iscatterv", |s| {
        s.world
            .scope(|o| o.iscatterv(&s.world, &s.out, s.blocks, &mut s.into[..LEN], s.root)?.wait())
    }),
    ("iallgather", |s| {
        s.world.scope(|o| o.iallgather(&s.world, &s.out[..LEN], &mut s.into)?.wait())
    }),
    ("iallgatherv", |s| {
        s.world.scope(|o| o.iallgatherv(&s.world, &s.out[..LEN], &mut s.into, s.blocks)?.wait())
    }),
    ("ialltoall", |s| s.world.scope(|o| o.ialltoall(&s.world, &s.out, &mut s.into)?.wait())),
    ("ialltoallv", |s| {
        s.world.scope(|o| o.ialltoallv(&s.world, &s.out, s.blocks, &mut s.into, s.blocks)?.wait())
    }),
    ("ireduce", |s| {
        s.world.scope(|o| o.ireduce(&s.world, &s.out, &mut s.into, Sum, s.root)?.wait())
    }),
    ("iallreduce", |s| s.world.scope(|o| o.iallreduce(&s.world, &s.out, &mut s.into, Sum)?.wait())),
    ("ireduce_scatter_block", |s| {
        let into = &mut s.into[..LEN];
        s.world.scope(|o| o.ireduce_scatter_block(&s.world, &s.out, into, Sum)?.wait())
    }),
    ("ireduce_scatter", |s| {
        let into = &mut s.into[..LEN];
        s.world.scope(|o| o.ireduce_scatter(&s.world, &s.out, into, s.blocks.counts, Sum)?.wait())
    }),
    ("iscan", |s| s.world.scope(|o| o.iscan(&s.world, &s.out, &mut s.into, Sum)?.wait())),
    ("iexscan", |s| s.world.scope(|o| o.iexscan(&s.world, &s.out, &mut s.into, Sum)?.wait())),
    ("ineighbor_alltoall", |s| {
        s.graph.scope(|o| o.ineighbor_alltoall(&s.graph, &s.out, &mut s.into)?.wait())
    }),
    ("a persistent allreduce", |s| {
        let mut made = s.world.allreduce_init(s.out.clone(), s.into.clone(), Sum)?;
        made.start()?;
        made.wait()
    }),
];

/// Runs each of `calls` among `n` ranks with each root, again up to `times` while no timer is set for it. Those for which one
/// was, and those for which none was.
fn timers_of(
    n: usize,
    lane: &[(&'static str, &'static str)],
    calls: &'static [&'static Calls],
    times: u32,
) -> [Vec<&'static str>; 2] {
    let found = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let noted = Arc::clone(&found);
    ranks(n, &[HAMMER, BY_MESSAGES, lane].concat(), move |world| {
        let all: Vec<i32> = (0..world.size()).collect();
        let graph = world.dist_graph_create_adjacent((&all, None), (&all, None), false);
        let graph = graph.expect("all ranks live");
        let (out, into) = (vec![world.rank() as u64; n * LEN], vec![0; n * LEN]);
        let counts = &COUNTS[COUNTS.len() - n..];
        let blocks = Partition::new(counts, &PLACES[PLACES.len() - n..]);
        let mut side = Side { world, blocks, graph, root: 0, out, into };
        for (name, call) in calls.iter().copied().flatten() {
            let mut is_set = false;
            for _ in 0..times {
                // Between barriers, which set none: what is counted is of this call alone.
                side.world.barrier().expect("all ranks live");
                let before = timer_calls();
                for &root in &all {
                    side.root = root;
                    call(&mut side).unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                side.world.barrier().expect("all ranks live");
                let more = [timer_calls() - before];
                let mut most = [0];
                // All ranks go on in the same way.
                side.world.allreduce(&more, &mut most, Max).expect("all ranks live");
                is_set = most[0] > 0;
                if is_set {
                    break;
                }
            }
            if side.world.rank() == 0 {
                noted.lock().expect("no rank has panicked")[usize::from(!is_set)].push(*name);
            }
        }
    });
    let found = found.lock().expect("no rank has panicked");
    found.clone()
}

const OVER_SOCKETS: (&str, &str) = ("BOWLINE_TRANSPORTS", "self,tcp");

/// No call of `n` ranks sets a timer that is blocking.
fn none_of_the_blocking(n: usize, lane: (&'static str, &'static str)) {
    const ALL: &[&Calls] = &[BLOCKING, IN_PLACE, WITH_HOLES, OTHER_RECEIVES];
    let [set, not_set] = timers_of(n, &[lane], ALL, 1);
    assert_eq!(set, [""; 0], "{lane:?}: calls that have set a timer");
    assert_eq!(not_set.len(), ALL.iter().map(|calls| calls.len()).sum::<usize>(), "{lane:?}");
}

/// A blocking call makes progress itself: neither handlers are asked to poll for it, nor the thread for sockets.
#[test]
fn no_blocking_collective_sets_a_timer() {
    for lane in [("BOWLINE_TRANSPORTS", "self,shm"), OVER_SOCKETS] {
        none_of_the_blocking(2, lane);
    }
}

/// Nor does one of several stages, between which the thread for sockets could be called.
#[test]
fn no_blocking_collective_of_several_stages_sets_a_timer() {
    none_of_the_blocking(4, OVER_SOCKETS);
}

/// Where processors copy, the next stage waits for a call in any case. Over sockets a thread moves the stage under way: so that
/// messages of these collectives, which are those of the blocking ones, are long enough for a timer.
#[test]
fn collectives_in_the_background_set_timers_where_a_thread_serves_their_lane() {
    let [set, _] = timers_of(2, &[("BOWLINE_TRANSPORTS", "self,shm")], &[IN_BACKGROUND], 1);
    assert_eq!(set, [""; 0], "collectives that have set a timer where processors copy");
    for n in [2, 4] {
        let [_, not_set] = timers_of(n, &[OVER_SOCKETS], &[IN_BACKGROUND], 200);
        assert_eq!(not_set, [""; 0], "collectives of {n} ranks that no thread is called for");
    }
}

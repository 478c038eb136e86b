//! Which collectives set a timer: no blocking one, whatever its messages are; of those in the background the ones over lanes that
//! a thread serves. Each collective of the layer is called by itself, so that the one that sets a timer is named.

use std::sync::{Arc, Mutex};

use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::base::layout::Layout;
use bowline::mpi::raw::{Data, Now, SendMode};
use bowline::mpi::{Communicator, Max, MpiError, Partition, Sum, World, ordered};
use bowline::progress::timer_calls;

use super::{HAMMER, ranks};

/// Collectives by messages, where two threads could do without: each rank receives at least one block in a piece. Those that
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

/// The blocks of two ranks, the second one first.
const BLOCKS: Partition<'static> = Partition::new(&[LEN, LEN], &[LEN, 0]);

/// One of two ranks, and its memory.
struct Side {
    world: World,
    /// All ranks are neighbours of all.
    graph: Communicator,
    root: i32,
    /// Two blocks each.
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
    ("gatherv", |s| s.world.gatherv(&s.out[..LEN], &mut s.into, BLOCKS, s.root)),
    ("scatter", |s| s.world.scatter(&s.out, &mut s.into[..LEN], s.root)),
    ("scatterv", |s| s.world.scatterv(&s.out, BLOCKS, &mut s.into[..LEN], s.root)),
    ("allgather", |s| s.world.allgather(&s.out[..LEN], &mut s.into)),
    ("allgatherv", |s| s.world.allgatherv(&s.out[..LEN], &mut s.into, BLOCKS)),
    ("alltoall", |s| s.world.alltoall(&s.out, &mut s.into)),
    ("alltoallv", |s| s.world.alltoallv(&s.out, BLOCKS, &mut s.into, BLOCKS)),
    ("alltoallw", |s| {
        let (own, other) = s.into.split_at_mut(LEN);
        s.world.alltoallw([s.out[..LEN].into(), s.out[LEN..].into()], [own.into(), other.into()])
    }),
    ("reduce", |s| s.world.reduce(&s.out, &mut s.into, Sum, s.root)),
    ("reduce in order", |s| s.world.reduce(&s.out, &mut s.into, ordered(right), s.root)),
    ("allreduce", |s| s.world.allreduce(&s.out, &mut s.into, Max)),
    ("allreduce in order", |s| s.world.allreduce(&s.out, &mut s.into, ordered(right))),
    ("reduce_scatter_block", |s| s.world.reduce_scatter_block(&s.out, &mut s.into[..LEN], Sum)),
    ("reduce_scatter", |s| s.world.reduce_scatter(&s.out, &mut s.into[..LEN], &[LEN, LEN], Sum)),
    ("reduce_scatter in order", |s| {
        s.world.reduce_scatter(&s.out, &mut s.into[..LEN], &[LEN, LEN], ordered(right))
    }),
    ("scan", |s| s.world.scan(&s.out, &mut s.into, Sum)),
    ("exscan", |s| s.world.exscan(&s.out, &mut s.into, Sum)),
    ("neighbor_allgather", |s| s.graph.neighbor_allgather(&s.out[..LEN], &mut s.into)),
    ("neighbor_allgatherv", |s| s.graph.neighbor_allgatherv(&s.out[..LEN], &mut s.into, BLOCKS)),
    ("neighbor_alltoall", |s| s.graph.neighbor_alltoall(&s.out, &mut s.into)),
    ("neighbor_alltoallv", |s| s.graph.neighbor_alltoallv(&s.out, BLOCKS, &mut s.into, BLOCKS)),
    ("neighbor_alltoallw", |s| {
        let (own, other) = s.into.split_at_mut(LEN);
        s.graph.neighbor_alltoallw(
            [s.out[..LEN].into(), s.out[LEN..].into()],
            [own.into(), other.into()],
        )
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

/// What a rank sends and receives: every other element of both of its blocks.
fn buffers_with_holes(side: &mut Side) -> (SendBuf, RecvBuf) {
    let (out, into) =
        (with_holes(side.out.as_mut_ptr(), LEN), with_holes(side.into.as_mut_ptr(), LEN));
    // SAFETY: the elements and the holes are the whole vectors, which live longer than the calls that get these and are nobody
    // else's meanwhile.
    let made = unsafe {
        (
            SendBuf::laid_out(out.start, out.layout, LEN),
            RecvBuf::laid_out(into.start, into.layout, LEN),
        )
    };
    (made.0.expect("it can be counted"), made.1.expect("it can be counted"))
}

/// Memory that is not in one piece: messages, and collectives on packed copies.
const WITH_HOLES: &Calls = &[
    ("recv with holes", |s| {
        let (out, into) = buffers_with_holes(s);
        let (me, other) = (s.world.rank(), 1 - s.world.rank());
        if me == s.root {
            return s.world.send_buffer(out, other, 7, SendMode::Standard);
        }
        s.world.recv_buffer(into, other, 7).expect("the other rank lives");
        Ok(())
    }),
    ("sendrecv with holes", |s| {
        let (out, into) = buffers_with_holes(s);
        let other = 1 - s.world.rank();
        let exchanged = s.world.exchange_buffers((out, other, 8), (into, other, 8));
        exchanged.expect("the other rank lives");
        Ok(())
    }),
    ("bcast with holes", |s| {
        let data = with_holes(s.into.as_mut_ptr(), LEN);
        // SAFETY: the elements and the holes are both blocks of the vector, which nobody else uses for the call.
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

/// Collectives in the background, each waited for at once.
const IN_BACKGROUND: &Calls = &[
    ("ibcast", |s| s.world.scope(|o| o.ibcast(&s.world, &mut s.into, s.root)?.wait())),
    ("igather", |s| {
        s.world.scope(|o| o.igather(&s.world, &s.out[..LEN], &mut s.into, s.root)?.wait())
    }),
    ("igatherv", |s| {
        s.world.scope(|o| o.igatherv(&s.world, &s.out[..LEN], &mut s.into, BLOCKS, s.root)?.wait())
    }),
    ("iscatter", |s| {
        s.world.scope(|o| o.iscatter(&s.world, &s.out, &mut s.into[..LEN], s.root)?.wait())
    }),
    ("iscatterv", |s| {
        s.world.scope(|o| o.iscatterv(&s.world, &s.out, BLOCKS, &mut s.into[..LEN], s.root)?.wait())
    }),
    ("iallgather", |s| {
        s.world.scope(|o| o.iallgather(&s.world, &s.out[..LEN], &mut s.into)?.wait())
    }),
    ("iallgatherv", |s| {
        s.world.scope(|o| o.iallgatherv(&s.world, &s.out[..LEN], &mut s.into, BLOCKS)?.wait())
    }),
    ("ialltoall", |s| s.world.scope(|o| o.ialltoall(&s.world, &s.out, &mut s.into)?.wait())),
    ("ialltoallv", |s| {
        s.world.scope(|o| o.ialltoallv(&s.world, &s.out, BLOCKS, &mut s.into, BLOCKS)?.wait())
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
        s.world.scope(|o| o.ireduce_scatter(&s.world, &s.out, into, &[LEN, LEN], Sum)?.wait())
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

/// Runs each of `calls` with either root, again up to `times` while no timer is set for it. Those for which one was, and those
/// for which none was.
fn timers_of(
    lane: &[(&'static str, &'static str)],
    calls: &'static [&'static Calls],
    times: u32,
) -> [Vec<&'static str>; 2] {
    let found = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let noted = Arc::clone(&found);
    ranks(2, &[HAMMER, BY_MESSAGES, lane].concat(), move |world| {
        let all = [0, 1];
        let graph = world.dist_graph_create_adjacent((&all, None), (&all, None), false);
        let graph = graph.expect("both ranks live");
        let (out, into) = (vec![world.rank() as u64; 2 * LEN], vec![0; 2 * LEN]);
        let mut side = Side { world, graph, root: 0, out, into };
        for (name, call) in calls.iter().copied().flatten() {
            let mut is_set = false;
            for _ in 0..times {
                // Between barriers, which set none: what is counted is of this call alone.
                side.world.barrier().expect("both ranks live");
                let before = timer_calls();
                for root in all {
                    side.root = root;
                    call(&mut side).unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                side.world.barrier().expect("both ranks live");
                let more = [timer_calls() - before];
                let mut most = [0];
                // Both ranks go on in the same way.
                side.world.allreduce(&more, &mut most, Max).expect("both ranks live");
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

/// A blocking call makes progress itself: neither handlers are asked to poll for it, nor the thread for sockets.
#[test]
fn no_blocking_collective_sets_a_timer() {
    for lane in [("BOWLINE_TRANSPORTS", "self,shm"), OVER_SOCKETS] {
        let [set, not_set] = timers_of(&[lane], &[BLOCKING, IN_PLACE, WITH_HOLES], 1);
        assert_eq!(set, [""; 0], "{lane:?}: calls that have set a timer");
        assert_eq!(not_set.len(), BLOCKING.len() + IN_PLACE.len() + WITH_HOLES.len(), "{lane:?}");
    }
}

/// Where processors copy, the next stage waits for a call in any case. Over sockets a thread moves the stage under way: so that
/// messages of these collectives, which are those of the blocking ones, are long enough for a timer.
#[test]
fn collectives_in_the_background_set_timers_where_a_thread_serves_their_lane() {
    let [set, _] = timers_of(&[("BOWLINE_TRANSPORTS", "self,shm")], &[IN_BACKGROUND], 1);
    assert_eq!(set, [""; 0], "collectives that have set a timer where processors copy");
    let [_, not_set] = timers_of(&[OVER_SOCKETS], &[IN_BACKGROUND], 200);
    assert_eq!(not_set, [""; 0], "collectives that no thread is called for");
}

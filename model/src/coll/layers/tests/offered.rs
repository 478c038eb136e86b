//! What prices offer among nodes under some costs is proven: all of it for each number of nodes up to 33, and one form of it
//! at every number of ranks up to 512. All of it at every one of these is in a test that is ignored by default.

use super::uneven::{Straight, Uneven, some_empty};
use super::{WITHIN, holds, roots, shapes};
use crate::coll::forms::{Allgather, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree};
use crate::coll::layers::Layered;
use crate::coll::nodes::Nodes;
use crate::coll::price::{AllreduceForm, Costs, Crew, OpClass, Priced};
use crate::coll::prove::{PlanProof, layers as prove, sampled};
use crate::coll::tests::on_all_processors;
use crate::coll::verify::{PlanFlaw, Sample};

/// The costs that are assumed, and two with longer latencies. Schedules of allreduces depend on them.
const COSTS: [&str; 5] =
    ["tcp", "shm", "rdma", "tcp,pipelining=100000", "shm,pipelining=2000,skew=9000"];

/// Lengths of vectors, on which these schedules depend too.
const BYTES: [usize; 4] = [8, 2000, 20_000, 1 << 20];

/// What prices offer among some nodes: all forms, and the schedules for [`COSTS`] and [`BYTES`]. Of blocks, only those
/// algorithms that layers have.
struct Offered {
    barriers: Vec<Barrier>,
    bcasts: Vec<Bcast>,
    reduces: Vec<Reduce>,
    allreduces: Vec<AllreduceForm>,
    allgathers: Vec<Allgather>,
    partners: Vec<u32>,
    reduce_scatters: Vec<ReduceScatter>,
    scans: Vec<Scan>,
}

impl Offered {
    fn of(nodes: u32) -> Self {
        fn forms<F: PartialEq>(priced: impl IntoIterator<Item = Vec<Priced<F>>>) -> Vec<F> {
            let mut all = Vec::new();
            for Priced { form, .. } in priced.into_iter().flatten() {
                if !all.contains(&form) {
                    all.push(form);
                }
            }
            all
        }
        let (crew, costs) = (Crew { ranks: nodes, share: 1.0 }, Costs::TCP);
        let (bytes, both) = (20_000, [true, false]);
        let schedules = COSTS.into_iter().flat_map(|text| {
            let costs: Costs = text.parse().expect("costs");
            let all = BYTES.into_iter().flat_map(move |bytes| both.map(|any| (bytes, any)));
            all.map(move |(bytes, commutative)| crew.allreduces(&costs, bytes, commutative))
        });
        let mut allgathers = forms([crew.allgathers(&costs, bytes)]);
        allgathers.retain(|form| form.takes_any_blocks());
        Self {
            barriers: forms([crew.barriers(&costs)]),
            bcasts: forms([crew.bcasts(&costs, bytes)]),
            reduces: forms(both.map(|commutative| crew.reduces(&costs, bytes, commutative))),
            allreduces: forms(schedules),
            allgathers,
            partners: forms([crew.alltoalls(&costs, bytes)])
                .into_iter()
                .filter_map(|form| form.partners())
                .collect(),
            reduce_scatters: forms(
                both.map(|commutative| crew.reduce_scatters(&costs, bytes, commutative)),
            ),
            scans: forms([crew.scans(&costs, bytes, false, OpClass::Vector)]),
        }
    }
}

/// An allreduce of one of the forms or by a schedule.
fn prove_allreduce(
    nodes: &Nodes,
    size: u32,
    within: Tree,
    among: &AllreduceForm,
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    match among {
        AllreduceForm::Form(among) => {
            prove::allreduce(nodes, size, Layered { within, among: *among }, (len, 1), false)
        }
        AllreduceForm::Multiplying(schedule) => {
            prove::multiplying(nodes, size, (within, schedule), len)
        }
    }
}

/// What prices offer among these nodes.
fn prove_offered(shape: &[u32]) {
    let nodes = Nodes::new(shape.iter().copied());
    let offered = Offered::of(nodes.count());
    prove_vectors(shape, &nodes, &offered, &roots(shape.len() as u32));
    prove_blocks(shape, &nodes, &offered);
}

/// The collectives whose messages grow little faster than ranks.
fn prove_vectors(shape: &[u32], nodes: &Nodes, offered: &Offered, roots: &[u32]) {
    let size = shape.len() as u32;
    for among in &offered.barriers {
        holds(prove::barrier(nodes, size, *among), shape, among);
    }
    for (root, within) in roots.iter().flat_map(|&root| WITHIN.map(|within| (root, within))) {
        for &among in &offered.bcasts {
            let how = Layered { within, among };
            holds(prove::bcast(nodes, size, how, root, 20_000), shape, &(how, root));
        }
        for &among in &offered.reduces {
            let how = Layered { within, among };
            holds(prove::reduce(nodes, size, how, root, (20_000, 8)), shape, &(how, root));
        }
        for how in WITHIN.map(|among| Layered { within, among }) {
            for in_place in [false, true] {
                let proof = prove::gather(nodes, size, how, root, 2, in_place);
                holds(proof, shape, &("gather", how, root, in_place));
                // A tree within the root's node writes the root's block.
                if !in_place || within == Tree::Linear {
                    let proof = prove::scatter(nodes, size, how, root, 2, in_place);
                    holds(proof, shape, &("scatter", how, root, in_place));
                }
            }
        }
    }
    for (among, within) in
        offered.allreduces.iter().flat_map(|among| WITHIN.map(|within| (among, within)))
    {
        // Each node has a part of one of them, and some have none of the other.
        for len in [3 * nodes.count() as usize + 1, 3] {
            let proof = prove_allreduce(nodes, size, within, among, len);
            holds(proof, shape, &(within, among.name(), len));
        }
    }
    if !nodes.are_consecutive() {
        return;
    }
    for (among, within) in
        offered.scans.iter().flat_map(|&among| WITHIN.map(|within| (among, within)))
    {
        for exclusive in [false, true] {
            let how = Layered { within, among };
            let proof = prove::scan(nodes, size, how, exclusive, 4);
            holds(proof, shape, &(how, exclusive));
        }
    }
}

/// The collectives in which each pair of nodes may have a message.
fn prove_blocks(shape: &[u32], nodes: &Nodes, offered: &Offered) {
    let size = shape.len() as u32;
    for &partners in &offered.partners {
        holds(prove::alltoall(nodes, size, partners, 2), shape, &partners);
    }
    if !nodes.are_consecutive() {
        return;
    }
    let offsets: Vec<_> = (0..=size as usize).map(|rank| 2 * rank).collect();
    let uneven = Uneven::new(size, some_empty);
    for within in WITHIN {
        for &among in &offered.allgathers {
            let how = Layered { within, among };
            holds(prove::allgather(nodes, size, how, 3, false), shape, &how);
            holds(uneven.prove(nodes, how, Straight::Some, false), shape, &("uneven", how));
        }
        for &among in &offered.reduce_scatters {
            let how = Layered { within, among };
            holds(prove::reduce_scatter(nodes, how, &offsets), shape, &how);
        }
    }
}

/// What is priced among nodes can be chosen, so it is proven: on the shapes, and with each number of nodes up to 33, of
/// one to three ranks each. The ranks of a node follow each other, or ranks are dealt out to nodes one by one.
#[test]
fn what_may_be_chosen_among_nodes() {
    shapes().iter().for_each(|shape| prove_offered(shape));
    for count in 2..=33_u32 {
        let ranks = |node: u32| 3 - node % 3;
        let consecutive: Vec<_> =
            (0..count).flat_map(|node| (0..ranks(node)).map(move |_| node)).collect();
        prove_offered(&consecutive);
        let dealt: Vec<_> =
            (0..3).flat_map(|dealt| (0..count).filter(move |&node| dealt < ranks(node))).collect();
        assert!(!Nodes::new(dealt.iter().copied()).are_consecutive());
        prove_offered(&dealt);
    }
}

/// Of so many nodes, allreduces have schedules that cut vectors around others.
#[test]
fn schedules_of_many_nodes() {
    for count in [64, 72, 96, 128, 192, 256] {
        let nodes = Nodes::new((0..2 * count).map(|rank| rank / 2));
        for (among, within) in Offered::of(count).allreduces.iter().zip(WITHIN.into_iter().cycle())
        {
            let proof = prove_allreduce(&nodes, 2 * count, within, among, 3 * count as usize + 1);
            holds(proof, &[count], &(within, among.name()));
        }
    }
}

/// How often each form that was offered has been taken.
struct Taken<F>(Vec<(F, u32)>);

impl<F: Copy + PartialEq + std::fmt::Debug> Taken<F> {
    /// Takes the form that was taken the fewest times.
    fn take(&mut self, offered: &[F]) -> F {
        for &form in offered {
            if !self.0.iter().any(|(known, _)| *known == form) {
                self.0.push((form, 0));
            }
        }
        let all = self.0.iter_mut().filter(|(form, _)| offered.contains(form));
        let (form, times) = all.min_by_key(|(_, times)| *times).expect("a form");
        *times += 1;
        *form
    }

    #[track_caller]
    fn assert_all_taken(&self) {
        let never: Vec<_> = self.0.iter().filter(|(_, times)| *times == 0).collect();
        assert!(never.is_empty(), "never taken: {never:?}");
    }
}

/// Ranks of a node, of so many in all.
fn each_of(size: u32) -> u32 {
    // There are at least two nodes.
    [2, 3, 7, 8, 16, 48, 64][size as usize % 7].min(size.div_ceil(2))
}

/// The nodes of all ranks: these follow each other, or are dealt out one by one.
fn shape(size: u32, dealt: bool) -> Vec<u32> {
    let each = each_of(size);
    let of = |rank: u32| if dealt { rank % size.div_ceil(each) } else { rank / each };
    (0..size).map(of).collect()
}

/// All that prices offer, with both trees within nodes, at every number of ranks to 512, however ranks are on nodes.
#[test]
#[ignore = "takes minutes: cargo test -p bowline-model -- --ignored"]
fn all_that_may_be_chosen_at_every_number_of_ranks() {
    // The longest proofs first. Of two ranks none shares its node with another one.
    on_all_processors((3..=512).rev(), |size| {
        prove_offered(&shape(size, false));
        prove_offered(&shape(size, true));
    });
}

/// The same of many ranks, with a middle root and but for collectives in which pairs of nodes have messages, which are below.
#[test]
#[ignore = "takes minutes: cargo test -p bowline-model -- --ignored"]
fn all_that_may_be_chosen_of_many_ranks() {
    let sizes = [65_536_u32, 40_000, 4095, 1024, 1000];
    let all = sizes.into_iter().flat_map(|size| [(size, false), (size, true)]);
    on_all_processors(all, |(size, dealt)| {
        let shape: Vec<_> = match dealt {
            false => (0..size).map(|rank| rank / 64).collect(),
            true => (0..size).map(|rank| rank % size.div_ceil(64)).collect(),
        };
        let nodes = Nodes::new(shape.iter().copied());
        prove_vectors(&shape, &nodes, &Offered::of(nodes.count()), &[size / 2]);
    });
}

/// Allgathers and scattered reductions, all that prices offer among nodes of 64 ranks: pairs of nodes have messages.
fn prove_exchanges(size: u32) {
    let shape: Vec<_> = (0..size).map(|rank| rank / 64).collect();
    let nodes = Nodes::new(shape.iter().copied());
    let offered = Offered::of(nodes.count());
    let offsets: Vec<_> = (0..=size as usize).map(|rank| 2 * rank).collect();
    let uneven = Uneven::new(size, some_empty);
    for within in WITHIN {
        for &among in &offered.allgathers {
            let how = Layered { within, among };
            holds(prove::allgather(&nodes, size, how, 3, false), &shape, &how);
            // Elsewhere than in one piece, each rank would have as many pieces as there are ranks.
            if size <= 4095 {
                holds(uneven.prove(&nodes, how, Straight::All, false), &shape, &("uneven", how));
            }
        }
        for &among in &offered.reduce_scatters {
            let how = Layered { within, among };
            holds(prove::reduce_scatter(&nodes, how, &offsets), &shape, &how);
        }
    }
}

/// All-to-alls among such nodes.
fn prove_alltoalls(size: u32) {
    let shape: Vec<_> = (0..size).map(|rank| rank / 64).collect();
    let nodes = Nodes::new(shape.iter().copied());
    for partners in Offered::of(nodes.count()).partners {
        holds(prove::alltoall(&nodes, size, partners, 2), &shape, &partners);
    }
}

/// The same at some ranks: the first, one of the middle and the last of the first node, a middle one and the last.
fn prove_sampled_alltoalls(size: u32) {
    let nodes = Nodes::new((0..size).map(|rank| rank / 64));
    let count = nodes.count();
    let mut chosen: Vec<_> = [0, count / 2, count - 1]
        .into_iter()
        .map(|node| nodes.members(node))
        .flat_map(|all| [all[0], all[all.len() / 2], all[all.len() - 1]])
        .collect();
    chosen.dedup();
    let sample = Sample { size, chosen: &chosen };
    for partners in Offered::of(count).partners {
        let compared = sampled::layered_alltoall(sample, &nodes, partners, 2);
        let compared = compared.unwrap_or_else(|flaw| panic!("{size} ranks by {partners}: {flaw}"));
        // The first ranks with each other, and with each other chosen rank of their node.
        assert_eq!(compared, 6 + 2 * (chosen.len() as u64 - 3), "{size} ranks by {partners}");
    }
}

#[test]
fn exchanges_of_many_ranks() {
    [1000, 1024, 4095].into_iter().for_each(prove_exchanges);
    prove_alltoalls(1000);
    [1000, 1024, 4095].into_iter().for_each(prove_sampled_alltoalls);
}

#[test]
#[ignore = "takes minutes: cargo test -p bowline-model -- --ignored"]
fn exchanges_of_most_ranks() {
    on_all_processors([65_536, 40_000], prove_exchanges);
    on_all_processors([4095, 1024], prove_alltoalls);
    [65_536, 40_000].into_iter().for_each(prove_sampled_alltoalls);
}

/// Nodes of up to 64 ranks, at every number of ranks to 512 and some beyond: each time with one of the forms that prices
/// offer among the nodes. Up to 512 ranks, each form is taken at least once. Allreduces have other schedules for each number
/// of nodes, so a hash of the number of ranks selects one of them.
#[test]
fn many_ranks() {
    let (mut barriers, mut bcasts, mut reduces) = (Taken(vec![]), Taken(vec![]), Taken(vec![]));
    let (mut allgathers, mut scattered, mut scans) = (Taken(vec![]), Taken(vec![]), Taken(vec![]));
    for size in (41..=512_u32).chain([1000, 4095]) {
        // The last ones have too many forms for that.
        if size == 1000 {
            barriers.assert_all_taken();
            bcasts.assert_all_taken();
            reduces.assert_all_taken();
            allgathers.assert_all_taken();
            scattered.assert_all_taken();
            scans.assert_all_taken();
        }
        let number = size as usize;
        let each = each_of(size);
        let nodes = Nodes::new(shape(size, number % 3 == 2));
        let offered = Offered::of(nodes.count());
        let what = |what: &str| format!("{what}, {size} ranks, {each} on each node");
        #[track_caller]
        fn right(proof: Result<PlanProof, PlanFlaw>, what: &str) {
            proof.unwrap_or_else(|flaw| panic!("{what}: {flaw}"));
        }
        let within = WITHIN[number % 2];
        let tree = WITHIN[number / 2 % 2];
        let roots = if size <= 512 { vec![0, size / 2, size - 1] } else { vec![size / 2] };
        let bcast = Layered { within, among: bcasts.take(&offered.bcasts) };
        let reduce = Layered { within, among: reduces.take(&offered.reduces) };
        for root in roots {
            let proof = prove::bcast(&nodes, size, bcast, root, 20_000);
            right(proof, &what(&format!("{bcast:?} of {root}")));
            let proof = prove::reduce(&nodes, size, reduce, root, (12_000, 3));
            right(proof, &what(&format!("{reduce:?} to {root}")));
            let how = Layered { within, among: tree };
            let in_place = number % 5 < 2;
            right(prove::gather(&nodes, size, how, root, 2, in_place), &what("gather"));
            let in_place = in_place && within == Tree::Linear;
            right(prove::scatter(&nodes, size, how, root, 2, in_place), &what("scatter"));
        }
        let index = (size.wrapping_mul(0x9e37_79b9) >> 16) as usize;
        let among = &offered.allreduces[index % offered.allreduces.len()];
        let proof = prove_allreduce(&nodes, size, within, among, 3 * number);
        right(proof, &what(&among.name()));
        let among = barriers.take(&offered.barriers);
        right(prove::barrier(&nodes, size, among), &what(&format!("{among:?}")));
        if number % 16 == 9 && size <= 512 {
            let partners = [1, 3, 64][number / 16 % 3];
            right(prove::alltoall(&nodes, size, partners, 2), &what("all-to-all"));
        }
        // These are offered where the ranks of a node follow each other, and among as many nodes.
        let nodes = Nodes::new((0..size).map(|rank| rank / each));
        let offered = Offered::of(nodes.count());
        let how = Layered { within, among: scans.take(&offered.scans) };
        let exclusive = (number / 4).is_multiple_of(2);
        right(prove::scan(&nodes, size, how, exclusive, 4), &what("prefix reduction"));
        // Each pair of nodes may have a message.
        if size <= 512 {
            let among = allgathers.take(&offered.allgathers);
            let proof = prove::allgather(&nodes, size, Layered { within, among }, 2, false);
            right(proof, &what(&format!("{among:?}")));
            let uneven = Uneven::new(size, some_empty);
            let of = [Straight::All, Straight::None, Straight::Some][number % 3];
            let how = Layered { within, among };
            let proof = uneven.prove(&nodes, how, of, number.is_multiple_of(2));
            right(proof, &what(&format!("{among:?} of uneven blocks")));
            let among = scattered.take(&offered.reduce_scatters);
            let offsets: Vec<_> = (0..=number).map(|rank| 2 * rank).collect();
            let proof = prove::reduce_scatter(&nodes, Layered { within, among }, &offsets);
            right(proof, &what(&format!("{among:?}")));
        }
    }
}

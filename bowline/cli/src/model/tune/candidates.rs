//! The algorithms of a call, with their names and what costs say of each.

use anyhow::{Context, Result, anyhow, bail};
use bowline_model::choice::{choose_under_skew, every};
use bowline_model::coll::forms::{
    Allgather, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::price::{
    Algorithm, AllreduceForm, JobCosts, OpClass, Priced, Prices, ReductionOperands, multiplying,
};
use bowline_model::coll::wanted::STAGED;
use bowline_model::fixed::FixedCall as Simulated;
use bowline_model::fixed::simulate::Simulator;
use bowline_model::schedule::Schedule;

use super::{Call, Collective, Transport};

/// Schedules that an exhaustive search prices at most; of more ranks those of heuristics are priced.
const MOST_SCHEDULES: usize = 20_000;
/// Ranks to which schedules are searched exhaustively.
const MOST_RANKS: u32 = 96;

/// An algorithm.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its name in settings.
    pub(super) word: String,
    /// Predicted, in nanoseconds.
    pub(super) time: f64,
    /// Whether the choice by these costs takes it.
    pub(super) chosen: bool,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Barrier(Algorithm<Barrier>),
    Bcast(Algorithm<Bcast>),
    Reduce(Algorithm<Reduce>),
    Allreduce(Algorithm<AllreduceForm>),
    Gather(Algorithm<Tree>),
    Scatter(Algorithm<Tree>),
    Allgather(Algorithm<Allgather>),
    Alltoall(Algorithm<Alltoall>),
    ReduceScatter(Algorithm<ReduceScatter>),
    Scan(Algorithm<Scan>),
    Staged,
}

/// With their names; the first one is chosen.
fn named<F: Form>(
    all: Vec<Priced<Algorithm<F>>>,
    how: impl Fn(Algorithm<F>) -> How,
) -> Vec<Candidate> {
    let all = all.into_iter().enumerate().map(|(index, Priced { form, time, .. })| Candidate {
        word: form.name(),
        time,
        chosen: index == 0,
        how: how(form),
    });
    all.collect()
}

/// All algorithms of a call, the cheapest first; exactly one of them is chosen.
pub(super) fn of(call: &Call, transport: Transport, prices: &Prices) -> Vec<Candidate> {
    let &Call { collective, ranks, bytes, .. } = call;
    let length = collective.length(ranks, bytes);
    let mut all = match collective {
        Collective::Barrier => named(prices.barriers(), How::Barrier),
        Collective::Bcast => named(prices.bcasts(bytes), How::Bcast),
        Collective::Reduce => named(prices.reduces(bytes, true), How::Reduce),
        Collective::Allreduce => allreduces(prices, bytes),
        // Those that take the algorithms of another one have no cells of their own, and are refused before.
        Collective::Gather | Collective::Gatherv => named(prices.gathers(bytes), How::Gather),
        Collective::Scatter | Collective::Scatterv => named(prices.scatters(bytes), How::Scatter),
        Collective::Scan | Collective::Exscan => {
            named(prices.scans(bytes, false, OpClass::Vector), How::Scan)
        }
        Collective::Allgather | Collective::Allgatherv => {
            named(prices.allgathers(bytes), How::Allgather)
        }
        Collective::Alltoall | Collective::Alltoallv => {
            named(prices.alltoalls(bytes), How::Alltoall)
        }
        Collective::ReduceScatter => {
            named(prices.reduce_scatters(length, true), How::ReduceScatter)
        }
    };
    if transport == Transport::Shm
        && let Some(what) = collective.staged()
        && let Some(time) = prices.staged(what, length, true)
    {
        let messages = all.iter().find(|one| one.chosen).map_or(f64::INFINITY, |one| one.time);
        let chosen = prices.chooses_staged(what, length, true, messages);
        all.iter_mut().for_each(|one| one.chosen &= !chosen);
        let place = all.iter().position(|one| time < one.time).unwrap_or(all.len());
        all.insert(place, Candidate { word: STAGED.to_owned(), time, chosen, how: How::Staged });
    }
    all
}

/// The forms, the candidates of the choice, and every schedule of one level or those of more heuristics, of all ranks and
/// among nodes.
fn allreduces(prices: &Prices, bytes: usize) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (index, Priced { form, time, .. }) in prices.allreduces(bytes, true).into_iter().enumerate()
    {
        let word = form.name_by(AllreduceForm::name);
        all.push(Candidate { word, time, chosen: index == 0, how: How::Allreduce(form) });
    }
    let (crew, costs) = (prices.crew, prices.anywhere());
    let vector = (bytes, ReductionOperands::NUMBERS.width());
    let on_all = schedules(crew.ranks, costs.ratio(bytes)).into_iter().map(|schedule| {
        let time = multiplying(&schedule, vector).time(crew, costs);
        (Algorithm::Form(AllreduceForm::Multiplying(schedule)), time)
    });
    let nodes = prices.layers_for(false).map_or(1, |layers| layers.nodes);
    let among = schedules(nodes, prices.costs.far.ratio(bytes));
    let in_layers = prices.schedules_in_layers(among, bytes, true).into_iter();
    let in_layers = in_layers.map(|Priced { form, time, .. }| (form, time));
    let mut known: std::collections::HashSet<String> =
        all.iter().map(|one| one.word.clone()).collect();
    for (form, time) in on_all.chain(in_layers) {
        let word = form.name_by(AllreduceForm::name);
        if known.insert(word.clone()) {
            all.push(Candidate { word, time, chosen: false, how: How::Allreduce(form) });
        }
    }
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    all
}

/// Schedules of so many ranks or nodes beside the candidates of the choice.
fn schedules(ranks: u32, ratio: f64) -> Vec<Schedule> {
    let searched = (ranks <= MOST_RANKS).then(|| every(ranks, MOST_SCHEDULES)).flatten();
    let mut all = searched.unwrap_or_else(|| {
        let skews = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
        skews.into_iter().map(|skew| choose_under_skew(ranks, ratio, skew)).collect()
    });
    all.retain(|schedule| !schedule.tokens().is_empty());
    all
}

impl Candidate {
    /// What the simulator finds, in nanoseconds.
    pub(super) fn simulate(&self, call: &Call, costs: &JobCosts) -> Result<f64> {
        use Algorithm::{Form, Layered};
        let simulator = Simulator::new(costs.far).with_nodes(call.each(), costs.near);
        let &Call { ranks, bytes, collective, .. } = call;
        let of = |bytes| Simulated { ranks, bytes, width: 8, commutative: true };
        let scattered = of(collective.length(ranks, bytes));
        let ran = match &self.how {
            How::Barrier(Form(how)) => simulator.our_barrier(ranks, *how),
            How::Barrier(Layered(how)) => simulator.our_layered_barrier(ranks, how.among),
            How::Bcast(Form(how)) => simulator.our_bcast(of(bytes), *how),
            How::Bcast(Layered(how)) => simulator.our_layered_bcast(of(bytes), *how),
            How::Reduce(Form(how)) => simulator.our_reduce(of(bytes), *how),
            How::Reduce(Layered(how)) => simulator.our_layered_reduce(of(bytes), *how),
            How::Allreduce(Form(how)) => simulator.our_allreduce(of(bytes), how),
            How::Allreduce(Layered(how)) => simulator.our_layered_allreduce(of(bytes), how),
            How::Gather(Form(how)) => simulator.our_gather(of(bytes), *how),
            How::Gather(Layered(how)) => simulator.our_layered_gather(of(bytes), *how),
            How::Scatter(Form(how)) => simulator.our_scatter(of(bytes), *how),
            How::Scatter(Layered(how)) => simulator.our_layered_scatter(of(bytes), *how),
            How::Scan(Form(how)) => simulator.our_scan(of(bytes), *how),
            How::Scan(Layered(how)) => simulator.our_layered_scan(of(bytes), *how),
            How::Allgather(Form(how)) => simulator.our_allgather(of(bytes), *how),
            How::Allgather(Layered(how)) => simulator.our_layered_allgather(of(bytes), *how),
            How::Alltoall(Form(how)) => simulator.our_alltoall(of(bytes), *how),
            How::Alltoall(Layered(how)) => {
                let partners = how.among.partners().context("nodes exchange with partners")?;
                simulator.our_layered_alltoall(of(bytes), partners)
            }
            How::ReduceScatter(Form(how)) => simulator.our_reduce_scatter(scattered, *how),
            How::ReduceScatter(Layered(how)) => {
                simulator.our_layered_reduce_scatter(scattered, *how)
            }
            How::Staged => bail!("the simulator knows messages, and not memory that ranks share"),
        };
        ran.map(|time| time.nanoseconds).map_err(|error| anyhow!("{}: {error}", self.word))
    }
}

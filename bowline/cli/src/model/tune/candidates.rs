//! The algorithms of a call, with their names and what costs say of each.

use anyhow::{Result, anyhow, bail};
use bowline_model::choice::{choose_under_skew, every};
use bowline_model::coll::forms::{
    Allgather, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::price::{
    AllreduceForm, Costs, Crew, JobCosts, OpClass, Priced, Prices, ReductionOperands, multiplying,
};
use bowline_model::coll::wanted::STAGED;
use bowline_model::fixed::FixedCall as Simulated;
use bowline_model::fixed::simulate::Simulator;

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
    Barrier(Barrier),
    Bcast(Bcast),
    Reduce(Reduce),
    Allreduce(AllreduceForm),
    Gather(Tree),
    Scatter(Tree),
    Allgather(Allgather),
    Alltoall(Alltoall),
    ReduceScatter(ReduceScatter),
    Scan(Scan),
    Staged,
}

/// With their names; the first one is chosen.
fn named<F: Form>(all: Vec<Priced<F>>, how: impl Fn(F) -> How) -> Vec<Candidate> {
    let all = all.into_iter().enumerate().map(|(index, Priced { form, time, .. })| Candidate {
        word: form.name(),
        time,
        chosen: index == 0,
        how: how(form),
    });
    all.collect()
}

/// All algorithms of a call, the cheapest first; exactly one of them is chosen.
pub(super) fn of(call: &Call, transport: Transport, costs: &Costs, share: f64) -> Vec<Candidate> {
    let &Call { collective, ranks, bytes, .. } = call;
    let crew = Crew { ranks, share };
    let length = collective.length(ranks, bytes);
    let mut all = match collective {
        Collective::Barrier => named(crew.barriers(costs), How::Barrier),
        Collective::Bcast => named(crew.bcasts(costs, bytes), How::Bcast),
        Collective::Reduce => named(crew.reduces(costs, bytes, true), How::Reduce),
        Collective::Allreduce => allreduces(crew, costs, bytes),
        Collective::Gather | Collective::Gatherv => named(crew.gathers(costs, bytes), How::Gather),
        Collective::Scatter | Collective::Scatterv => {
            named(crew.scatters(costs, bytes), How::Scatter)
        }
        // Those that take the algorithms of another one have no cells of their own, and are refused before.
        Collective::Scan | Collective::Exscan => {
            named(crew.scans(costs, bytes, false, OpClass::Vector), How::Scan)
        }
        Collective::Allgather | Collective::Allgatherv => {
            named(crew.allgathers(costs, bytes), How::Allgather)
        }
        Collective::Alltoall | Collective::Alltoallv => {
            named(crew.alltoalls(costs, bytes), How::Alltoall)
        }
        Collective::ReduceScatter => {
            named(crew.reduce_scatters(costs, length, true), How::ReduceScatter)
        }
    };
    let prices = Prices { crew, costs: JobCosts { near: *costs, far: *costs }, layers: None };
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

/// The forms, the candidates of the choice, and every schedule of one level or those of more heuristics.
fn allreduces(crew: Crew, costs: &Costs, bytes: usize) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (index, Priced { form, time, .. }) in
        crew.allreduces(costs, bytes, true).into_iter().enumerate()
    {
        let word = form.name();
        all.push(Candidate { word, time, chosen: index == 0, how: How::Allreduce(form) });
    }
    let ratio = costs.ratio(bytes);
    let searched = (crew.ranks <= MOST_RANKS).then(|| every(crew.ranks, MOST_SCHEDULES)).flatten();
    let schedules = searched.unwrap_or_else(|| {
        let skews = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
        skews.into_iter().map(|skew| choose_under_skew(crew.ranks, ratio, skew)).collect()
    });
    let mut known: std::collections::HashSet<String> =
        all.iter().map(|one| one.word.clone()).collect();
    for schedule in schedules {
        let word = schedule.to_string();
        if !word.is_empty() && known.insert(word.clone()) {
            let time = multiplying(&schedule, (bytes, ReductionOperands::NUMBERS.width()))
                .time(crew, costs);
            let how = How::Allreduce(AllreduceForm::Multiplying(schedule));
            all.push(Candidate { word, time, chosen: false, how });
        }
    }
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    all
}

impl Candidate {
    /// What the simulator finds, in nanoseconds.
    pub(super) fn simulate(&self, call: &Call, costs: &Costs) -> Result<f64> {
        let simulator = Simulator::new(*costs);
        let &Call { ranks, bytes, collective, .. } = call;
        let of = |bytes| Simulated { ranks, bytes, width: 8, commutative: true };
        let ran = match &self.how {
            How::Barrier(how) => simulator.our_barrier(ranks, *how),
            How::Bcast(how) => simulator.our_bcast(of(bytes), *how),
            How::Reduce(how) => simulator.our_reduce(of(bytes), *how),
            How::Allreduce(how) => simulator.our_allreduce(of(bytes), how),
            How::Gather(how) => simulator.our_gather(of(bytes), *how),
            How::Scatter(how) => simulator.our_scatter(of(bytes), *how),
            How::Scan(how) => simulator.our_scan(of(bytes), *how),
            How::Allgather(how) => simulator.our_allgather(of(bytes), *how),
            How::Alltoall(how) => simulator.our_alltoall(of(bytes), *how),
            How::ReduceScatter(how) => {
                simulator.our_reduce_scatter(of(collective.length(ranks, bytes)), *how)
            }
            How::Staged => bail!("the simulator knows messages, and not memory that ranks share"),
        };
        ran.map(|time| time.nanoseconds).map_err(|error| anyhow!("{}: {error}", self.word))
    }
}

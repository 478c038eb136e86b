//! Algorithms that a setting or a table names and that costs do not choose from: whether a job takes them, as the choices
//! of a communicator decide it, and what those on all ranks are expected to take.
//!
//! Shared memory is not among them, and an algorithm that costs list is found here too.

use bowline_model::coll::forms::{Allgather, Alltoall, Form, Reduce};
use bowline_model::coll::layers::Layered;
use bowline_model::coll::price::{
    Algorithm, AllreduceForm, Load, Prices, ReductionOperands, allgather, allgatherv, allreduce,
    alltoall, barrier, bcast, gather, multiplying, reduce, reduce_scatter, scan, scatter,
};
use bowline_model::coll::reduce_scatter::allows;
use bowline_model::coll::wanted::WantedAllreduce;

use crate::collective::Collective;

/// A name as lists have it, and the load of an algorithm on all ranks.
pub(super) type Unlisted = (String, Option<Load>);

/// A call, as choices know it.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) collective: Collective,
    pub(super) operands: ReductionOperands,
    /// Of a vector, or of a block where each rank has one.
    pub(super) bytes: usize,
    pub(super) prices: &'a Prices,
    /// Whether a job has costs, without which no algorithm in layers can be asked for.
    pub(super) by_costs: bool,
}

/// Every form is allowed, of ranks and of nodes.
fn any<F>(_: F, _: u32, _: bool) -> bool {
    true
}

/// What a name asks for, if the call allows it.
pub(super) fn find(name: &str, call: Call<'_>) -> Option<Unlisted> {
    let Call { collective, operands, bytes, prices, .. } = call;
    let (ranks, commutative) = (prices.crew.ranks, operands.commutative());
    let vector = (bytes, operands.width());
    let total = bytes.saturating_mul(ranks as usize);
    match collective {
        Collective::Barrier => call.form(name, false, any, |how| barrier(ranks, how)),
        Collective::Bcast => call.form(name, false, any, |how| bcast(ranks, how, bytes)),
        Collective::Reduce => {
            let in_order = |how: Reduce, _, _| commutative || how.keeps_order();
            call.form(name, !commutative, in_order, |how| reduce(ranks, how, vector))
        }
        Collective::Allreduce => call.allreduce(name, vector),
        Collective::Gather => call.form(name, false, any, |how| gather(ranks, how, bytes)),
        Collective::Scatter => call.form(name, false, any, |how| scatter(ranks, how, bytes)),
        // No name asks for anything.
        Collective::Gatherv | Collective::Scatterv => None,
        Collective::Allgather => {
            let suits = |how: Allgather, ranks: u32, nodes| match nodes {
                true => how.takes_any_blocks(),
                false => how != Allgather::Doubling || ranks.is_power_of_two(),
            };
            call.form(name, true, suits, |how| allgather(ranks, how, bytes))
        }
        Collective::Allgatherv => {
            let suits = |how: Allgather, _, _| how.takes_any_blocks();
            let lengths = (total as f64, bytes as f64);
            call.form(name, true, suits, |how| allgatherv(ranks, how, lengths))
        }
        Collective::Alltoall => {
            let suits = |how: Alltoall, _, nodes: bool| !nodes || how.partners().is_some();
            call.form(name, false, suits, |how| alltoall(ranks, how, bytes))
        }
        Collective::Alltoallv => {
            let suits = |how: Alltoall, _, nodes: bool| !nodes && how.partners().is_some();
            call.form(name, false, suits, |how| alltoall(ranks, how, bytes))
        }
        Collective::ReduceScatter => {
            let suits = |how, ranks, _| allows(how, ranks, commutative);
            call.form(name, true, suits, |how| reduce_scatter(ranks, how, total))
        }
        Collective::Scan | Collective::Exscan => {
            let exclusive = collective == Collective::Exscan;
            call.form(name, true, any, |how| scan(ranks, how, exclusive, bytes))
        }
    }
}

impl Call<'_> {
    /// How many nodes there are, where an algorithm in layers may be asked for.
    fn nodes(&self, in_order: bool) -> Option<u32> {
        let layers = self.prices.layers_for(in_order).filter(|_| self.by_costs);
        layers.map(|layers| layers.nodes)
    }

    /// One of the forms, or one among nodes. `suits` says whether a form is allowed for so many ranks or nodes.
    fn form<F: Form + Copy>(
        &self,
        name: &str,
        in_order: bool,
        suits: impl Fn(F, u32, bool) -> bool,
        load: impl Fn(F) -> Load,
    ) -> Option<Unlisted> {
        let algorithm = Algorithm::of_name(name)?;
        let load = match algorithm {
            Algorithm::Form(how) => {
                suits(how, self.prices.crew.ranks, false).then(|| Some(load(how)))?
            }
            Algorithm::Layered(Layered { among, .. }) => {
                suits(among, self.nodes(in_order)?, true).then_some(None)?
            }
        };
        Some((algorithm.name(), load))
    }

    /// The same of allreduces, which have schedules too.
    fn allreduce(&self, name: &str, vector: (usize, usize)) -> Option<Unlisted> {
        let commutative = self.operands.commutative();
        let of = |wanted: &WantedAllreduce, ranks| match wanted.form() {
            Some(form) => Some(AllreduceForm::Form(form)),
            None => wanted.schedule(ranks, commutative).map(AllreduceForm::Multiplying),
        };
        match name.parse().ok()? {
            WantedAllreduce::Layered { within, among } => {
                let among = of(&among, self.nodes(!commutative)?)?;
                let algorithm = Algorithm::Layered(Layered { within, among });
                Some((algorithm.name_by(AllreduceForm::name), None))
            }
            wanted => {
                let ranks = self.prices.crew.ranks;
                let form = of(&wanted, ranks)?;
                let load = match &form {
                    AllreduceForm::Form(how) => allreduce(ranks, *how, vector),
                    AllreduceForm::Multiplying(schedule) => multiplying(schedule, vector),
                };
                Some((form.name(), Some(load)))
            }
        }
    }
}

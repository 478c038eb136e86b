//! The algorithms of a communicator whose job has costs of messages: the cheapest for each length.
//!
//! Without costs the [table](bowline_model::coll::choice) of limits decides. All ranks have the same costs (see
//! [`CollOptions::costs`](super::options::CollOptions)), so all find the same algorithms.

use bowline_model::coll::choice::Shape;
use bowline_model::coll::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter,
};
use bowline_model::coll::price::{AllreduceForm, Costs, Crew, Limits, Priced};
use bowline_model::schedule::Schedule;
use bowline_model::stages::Stage;

use crate::comm::Communicator;

/// How a rank does an allreduce.
#[derive(Debug)]
pub(crate) enum AllreduceWay {
    Form(Allreduce),
    /// By recursive multiplying, with these stages of the rank.
    Multiplying(Vec<Stage>),
}

/// The choices for one communicator.
#[derive(Debug)]
pub(crate) struct Chosen {
    barrier: Barrier,
    bcast: Limits<Bcast>,
    /// For operations that are not commutative, and for those that are.
    reduce: [Limits<Reduce>; 2],
    /// The schedules and forms that `allreduce` numbers.
    ways: Vec<AllreduceWay>,
    allreduce: [Limits<usize>; 2],
    allgather: Limits<Allgather>,
    alltoall: Limits<Alltoall>,
    reduce_scatter: [Limits<ReduceScatter>; 2],
}

/// The cheapest one.
fn first<F>(all: Vec<Priced<F>>) -> F {
    all.into_iter().next().expect("every collective has an algorithm").form
}

/// A choice for operations that are not commutative, and one for those that are.
fn by_order<F: PartialEq>(choose: impl Fn(usize, bool) -> F) -> [Limits<F>; 2] {
    [false, true].map(|commutative| Limits::of(|bytes| choose(bytes, commutative)))
}

impl Chosen {
    /// For a rank of a communicator.
    fn new(costs: &Costs, crew: Crew, rank: u32) -> Self {
        let schedules =
            by_order(|bytes, commutative| first(crew.allreduces(costs, bytes, commutative)));
        let mut forms: Vec<AllreduceForm> = Vec::new();
        let number = |form: &AllreduceForm, forms: &mut Vec<AllreduceForm>| {
            forms.iter().position(|known| known == form).unwrap_or_else(|| {
                forms.push(form.clone());
                forms.len() - 1
            })
        };
        let allreduce = schedules.map(|limits| limits.map(|form| number(form, &mut forms)));
        let way = |form| match form {
            AllreduceForm::Form(form) => AllreduceWay::Form(form),
            AllreduceForm::Multiplying(schedule) => {
                AllreduceWay::Multiplying(Schedule::stages(&schedule, rank))
            }
        };
        Self {
            barrier: first(crew.barriers(costs)),
            bcast: Limits::of(|bytes| first(crew.bcasts(costs, bytes))),
            reduce: by_order(|bytes, commutative| first(crew.reduces(costs, bytes, commutative))),
            ways: forms.into_iter().map(way).collect(),
            allreduce,
            allgather: Limits::of(|block| first(crew.allgathers(costs, block))),
            alltoall: Limits::of(|block| first(crew.alltoalls(costs, block))),
            reduce_scatter: by_order(|total, commutative| {
                first(crew.reduce_scatters(costs, total, commutative))
            }),
        }
    }
}

impl Communicator {
    /// What is chosen by costs, if the job has any.
    #[inline]
    fn chosen(&self) -> Option<&Chosen> {
        let costs = self.inner.process.collectives.costs.as_ref()?;
        Some(self.inner.chosen.get_or_init(|| {
            let Shape { ranks, oversubscribed } = self.shape();
            let share = if oversubscribed { costs.share.min(f64::from(ranks)) } else { 1.0 };
            Box::new(Chosen::new(&costs.costs, Crew { ranks, share }, self.inner.rank))
        }))
    }

    #[inline]
    pub(super) fn barrier_form(&self) -> Barrier {
        self.chosen().map_or_else(|| self.shape().barrier(), |chosen| chosen.barrier)
    }

    #[inline]
    pub(super) fn bcast_form(&self, bytes: usize) -> Bcast {
        self.chosen().map_or_else(|| self.shape().bcast(bytes), |chosen| *chosen.bcast.find(bytes))
    }

    #[inline]
    pub(super) fn reduce_form(&self, bytes: usize, width: usize, commutative: bool) -> Reduce {
        match self.chosen() {
            None => self.shape().reduce(bytes, width, commutative),
            Some(chosen) => *chosen.reduce[usize::from(commutative)].find(bytes),
        }
    }

    /// The way of an allreduce where the job has costs.
    #[inline]
    pub(super) fn allreduce_way(&self, bytes: usize, commutative: bool) -> Option<&AllreduceWay> {
        let chosen = self.chosen()?;
        Some(&chosen.ways[*chosen.allreduce[usize::from(commutative)].find(bytes)])
    }

    #[inline]
    pub(super) fn allgather_form(&self, block: usize) -> Allgather {
        match self.chosen() {
            None => self.shape().allgather(block),
            Some(chosen) => *chosen.allgather.find(block),
        }
    }

    #[inline]
    pub(super) fn alltoall_form(&self, block: usize) -> Alltoall {
        match self.chosen() {
            None => self.shape().alltoall(block),
            Some(chosen) => *chosen.alltoall.find(block),
        }
    }

    #[inline]
    pub(super) fn reduce_scatter_form(&self, total: usize, commutative: bool) -> ReduceScatter {
        match self.chosen() {
            None => self.shape().reduce_scatter(total, commutative),
            Some(chosen) => *chosen.reduce_scatter[usize::from(commutative)].find(total),
        }
    }
}

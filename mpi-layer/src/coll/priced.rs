//! The algorithms of a communicator: for each length the one that is asked for, or else the cheapest, or that of the
//! table of limits where the job has no costs.
//!
//! A collective's choices are made for all lengths when it is called first; a call looks its length up. All ranks have
//! the same costs and ask for the same (see [`CollOptions`](super::options::CollOptions)), so all find the same
//! algorithms.

use std::cell::OnceCell;

use bowline_model::coll::choice::Shape;
use bowline_model::coll::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::layers::Layered;
use bowline_model::coll::nodes::Nodes;
use bowline_model::coll::price::{AllreduceForm, Crew, Layers, Limits, Priced, Prices, Way};
use bowline_model::coll::wanted::Wanted;
use bowline_model::stages::Stage;

use crate::comm::Communicator;
use crate::error::MpiError;

/// How a rank does an allreduce.
#[derive(Debug)]
pub(crate) enum AllreduceWay {
    Form(Allreduce),
    /// By recursive multiplying, with these stages of the rank.
    Multiplying(Vec<Stage>),
    /// In layers, with a form among the nodes.
    Layered(Layered<Allreduce>),
    /// In layers, with recursive multiplying among the nodes; the stages are those of the rank's node.
    LayeredMultiplying(Layered<Vec<Stage>>),
}

/// The choices for allreduces: the schedules and forms, and their numbers by length.
#[derive(Debug)]
struct Allreduces {
    ways: Vec<AllreduceWay>,
    by_length: [Limits<usize>; 2],
}

/// What choices depend on beside lengths, at all ranks the same.
#[derive(Debug)]
struct Basis {
    shape: Shape,
    /// What prices are made of, if the job has costs.
    prices: Option<Prices>,
    wanted: Wanted,
    /// The nodes of the ranks, where there are several.
    nodes: Option<Nodes>,
}

/// The choices for one communicator, as they are needed.
#[derive(Debug)]
pub(crate) struct Chosen {
    basis: Basis,
    barrier: Way<Barrier>,
    bcast: OnceCell<Limits<Way<Bcast>>>,
    /// For operations that are not commutative, and for those that are.
    reduce: OnceCell<[Limits<Way<Reduce>>; 2]>,
    allreduce: OnceCell<Allreduces>,
    gather: OnceCell<Limits<Tree>>,
    scatter: OnceCell<Limits<Tree>>,
    allgather: OnceCell<Limits<Way<Allgather>>>,
    allgatherv: OnceCell<Limits<Allgather>>,
    alltoall: OnceCell<Limits<Alltoall>>,
    reduce_scatter: OnceCell<[Limits<ReduceScatter>; 2]>,
    /// What has taken the place of these. They stay, since a collective that has begun goes by them.
    next: OnceCell<Box<Self>>,
}

/// The cheapest one.
fn first<F>(all: Vec<Priced<F>>) -> F {
    all.into_iter().next().expect("every collective has an algorithm").form
}

/// A choice for operations that are not commutative, and one for those that are.
fn by_order<F: PartialEq>(choose: impl Fn(usize, bool) -> F) -> [Limits<F>; 2] {
    [false, true].map(|commutative| Limits::of(|bytes| choose(bytes, commutative)))
}

/// A type that does not keep a vector from being cut.
const WIDTH: usize = 1;

/// What is asked for, or the cheapest, or what the table says.
fn choose<F>(
    asked: Option<F>,
    prices: Option<Vec<Priced<Way<F>>>>,
    table: impl FnOnce() -> F,
) -> Way<F> {
    match (asked, prices) {
        (Some(form), _) => Way::Form(form),
        (None, Some(prices)) => first(prices),
        (None, None) => Way::Form(table()),
    }
}

impl Basis {
    /// The prices, where nothing is asked for.
    fn unless<F>(&self, asked: Option<F>) -> (Option<F>, Option<&Prices>) {
        let prices = if asked.is_none() { self.prices.as_ref() } else { None };
        (asked, prices)
    }

    fn barrier(&self) -> Way<Barrier> {
        let (asked, prices) = self.unless(self.wanted.barrier);
        choose(asked, prices.map(Prices::barriers), || self.shape.barrier())
    }

    fn bcast(&self, bytes: usize) -> Way<Bcast> {
        let (asked, prices) = self.unless(self.wanted.bcast);
        choose(asked, prices.map(|prices| prices.bcasts(bytes)), || self.shape.bcast(bytes))
    }

    fn reduce(&self, bytes: usize, commutative: bool) -> Way<Reduce> {
        let allowed = |how: &Reduce| commutative || how.keeps_order();
        let (asked, prices) = self.unless(self.wanted.reduce.filter(allowed));
        let prices = prices.map(|prices| prices.reduces(bytes, commutative));
        choose(asked, prices, || self.shape.reduce(bytes, WIDTH, commutative))
    }

    fn allreduce(&self, bytes: usize, commutative: bool) -> Way<AllreduceForm> {
        let schedule = || {
            let schedule = self.wanted.allreduce.schedule(self.shape.ranks, commutative)?;
            Some(AllreduceForm::Multiplying(schedule))
        };
        let form = self.wanted.allreduce.form().map(AllreduceForm::Form);
        let (asked, prices) = self.unless(form.or_else(schedule));
        let prices = prices.map(|prices| prices.allreduces(bytes, commutative));
        choose(asked, prices, || AllreduceForm::Form(self.shape.allreduce(bytes, WIDTH)))
    }

    fn allreduces(&self, rank: u32) -> Allreduces {
        let mut forms: Vec<Way<AllreduceForm>> = Vec::new();
        let by_length = by_order(|bytes, commutative| self.allreduce(bytes, commutative));
        let by_length = by_length.map(|limits| {
            limits.map(|form| {
                forms.iter().position(|known| known == form).unwrap_or_else(|| {
                    forms.push(form.clone());
                    forms.len() - 1
                })
            })
        });
        let node = self.nodes.as_ref().map_or(0, |nodes| nodes.node(rank));
        let way = |form| match form {
            Way::Form(AllreduceForm::Form(form)) => AllreduceWay::Form(form),
            Way::Form(AllreduceForm::Multiplying(schedule)) => {
                AllreduceWay::Multiplying(schedule.stages(rank))
            }
            Way::Layered(Layered { within, among }) => match among {
                AllreduceForm::Form(among) => AllreduceWay::Layered(Layered { within, among }),
                AllreduceForm::Multiplying(schedule) => {
                    let among = schedule.stages(node);
                    AllreduceWay::LayeredMultiplying(Layered { within, among })
                }
            },
        };
        Allreduces { ways: forms.into_iter().map(way).collect(), by_length }
    }

    fn allgather(&self, block: usize) -> Way<Allgather> {
        let allowed =
            |how: &Allgather| *how != Allgather::Doubling || self.shape.ranks.is_power_of_two();
        let (asked, prices) = self.unless(self.wanted.allgather.filter(allowed));
        let prices = prices.map(|prices| prices.allgathers(block));
        choose(asked, prices, || self.shape.allgather(block))
    }

    fn allgatherv(&self, total: usize) -> Allgather {
        let allowed =
            |how: &Allgather| matches!(how, Allgather::Bruck | Allgather::Ring | Allgather::Direct);
        self.wanted.allgather.filter(allowed).unwrap_or_else(|| self.shape.allgatherv(total))
    }

    fn alltoall(&self, block: usize) -> Alltoall {
        self.wanted.alltoall.unwrap_or_else(|| match &self.prices {
            None => self.shape.alltoall(block),
            Some(prices) => first(prices.alltoalls(block)),
        })
    }

    fn reduce_scatter(&self, total: usize, commutative: bool) -> ReduceScatter {
        let allowed = |how: &ReduceScatter| match how {
            ReduceScatter::Halving => commutative && self.shape.ranks.is_power_of_two(),
            ReduceScatter::Pairwise | ReduceScatter::Multiplying(_) => commutative,
            ReduceScatter::ViaRoot | ReduceScatter::Direct => true,
        };
        self.wanted.reduce_scatter.filter(allowed).unwrap_or_else(|| match &self.prices {
            None => self.shape.reduce_scatter(total, commutative),
            Some(prices) => first(prices.reduce_scatters(total, commutative)),
        })
    }
}

/// What is asked for when this is asked for as well.
fn with(wanted: &Wanted, asked: &[(&str, &str)]) -> Result<Wanted, MpiError> {
    let mut wanted = wanted.clone();
    for (collective, name) in asked {
        wanted.set(collective, name).map_err(|error| {
            tracing::error!("{error}");
            let known = Wanted::COLLECTIVES.into_iter().find(|known| known == collective);
            MpiError::UnknownAlgorithm { collective: known.unwrap_or("what is no collective") }
        })?;
    }
    Ok(wanted)
}

/// Whether a collective has an algorithm of this name, or it is `auto`: what a communicator may be
/// [asked](Communicator::set_algorithms) for.
pub fn is_algorithm(collective: &str, name: &str) -> bool {
    Wanted::default().set(collective, name).is_ok()
}

impl Chosen {
    fn new(basis: Basis) -> Self {
        Self {
            barrier: basis.barrier(),
            basis,
            bcast: OnceCell::new(),
            reduce: OnceCell::new(),
            allreduce: OnceCell::new(),
            gather: OnceCell::new(),
            scatter: OnceCell::new(),
            allgather: OnceCell::new(),
            allgatherv: OnceCell::new(),
            alltoall: OnceCell::new(),
            reduce_scatter: OnceCell::new(),
            next: OnceCell::new(),
        }
    }
}

impl Communicator {
    /// What is chosen here.
    #[inline]
    fn chosen(&self) -> &Chosen {
        let first = || self.choosing(self.inner.process.collectives.wanted.clone());
        let mut chosen: &Chosen = self.inner.chosen.get_or_init(first);
        while let Some(next) = chosen.next.get() {
            chosen = next;
        }
        chosen
    }

    /// What is chosen where some algorithms are asked for.
    #[cold]
    fn choosing(&self, wanted: Wanted) -> Box<Chosen> {
        let shape = self.shape();
        let options = &self.inner.process.collectives;
        let nodes =
            options.costs.as_ref().and_then(|_| options.nodes(self.inner.group.world_ranks()));
        let prices = options.costs.as_ref().map(|job| {
            let ranks = shape.ranks;
            let share = if shape.oversubscribed { job.share.min(f64::from(ranks)) } else { 1.0 };
            let layers = nodes.as_ref().map(Layers::from);
            Prices { crew: Crew { ranks, share }, costs: job.costs, layers }
        });
        Box::new(Chosen::new(Basis { shape, prices, wanted, nodes }))
    }

    /// Asks for algorithms of the collectives of this communicator, in place of those that settings ask for: pairs of
    /// a collective (`barrier`, `bcast`, `reduce`, `allreduce`, `gather`, `scatter`, `allgather`, `alltoall`,
    /// `reduce_scatter` or `scan`) and a name, as the settings have it, or `auto`. Collective: all members ask for the
    /// same. What has begun already goes on as it was. (`MPI_Comm_set_info` with keys such as `bowline_bcast`)
    ///
    /// # Errors
    /// [`MpiError::UnknownAlgorithm`]; [`MpiError::ChoicesDiffer`], at every member, when one asks for something else;
    /// a member's failure. Nothing has changed then.
    pub fn set_algorithms(&self, asked: &[(&str, &str)]) -> Result<(), MpiError> {
        let wanted = with(self.asked(), asked);
        let agreed = self.agree_on_choice(self.hash_of(&wanted));
        // Who named what does not exist learns that.
        let wanted = wanted?;
        agreed?;
        if wanted != *self.asked() {
            self.take_algorithms(Some(wanted));
        }
        Ok(())
    }

    /// The algorithms that are asked for of each collective: `auto` where none is. Local.
    pub fn algorithms(&self) -> [(&'static str, String); 10] {
        self.asked().words()
    }

    /// What a duplicate asks for, if not what the job does, and the hash of what it chooses by.
    pub(crate) fn asked_with(
        &self,
        asked: &[(&str, &str)],
    ) -> (Result<Option<Wanted>, MpiError>, u64) {
        let of_job = &self.inner.process.collectives.wanted;
        let wanted = with(of_job, asked);
        let choice = self.hash_of(&wanted);
        (wanted.map(|wanted| Some(wanted).filter(|wanted| wanted != of_job)), choice)
    }

    /// It is 0, which no valid choice hashes to, if the algorithm is unknown: all members then see that the choices
    /// differ.
    fn hash_of(&self, wanted: &Result<Wanted, MpiError>) -> u64 {
        wanted.as_ref().map_or(0, |wanted| self.inner.process.collectives.hash_with(wanted))
    }

    /// Chooses by these from now on.
    pub(crate) fn take_algorithms(&self, wanted: Option<Wanted>) {
        let Some(wanted) = wanted else { return };
        if let Err(chosen) = self.inner.chosen.set(self.choosing(wanted)) {
            let set = self.chosen().next.set(chosen);
            debug_assert!(set.is_ok(), "nothing has taken the place of the last one");
        }
    }

    /// The algorithms that are asked for, which go before shared memory too.
    #[inline]
    pub(super) fn asked(&self) -> &Wanted {
        &self.chosen().basis.wanted
    }

    /// The nodes of the ranks, by which ways are in layers.
    #[inline]
    pub(super) fn nodes(&self) -> &Nodes {
        let nodes = self.chosen().basis.nodes.as_ref();
        nodes.expect("ways in layers have prices only where there are nodes")
    }

    #[inline]
    pub(super) fn barrier_way(&self) -> &Way<Barrier> {
        &self.chosen().barrier
    }

    #[inline]
    pub(super) fn bcast_way(&self, bytes: usize) -> &Way<Bcast> {
        let Chosen { basis, bcast, .. } = self.chosen();
        bcast.get_or_init(|| Limits::of(|bytes| basis.bcast(bytes))).find(bytes)
    }

    #[inline]
    pub(super) fn reduce_way(&self, bytes: usize, commutative: bool) -> &Way<Reduce> {
        let Chosen { basis, reduce, .. } = self.chosen();
        let all = reduce.get_or_init(|| by_order(|bytes, order| basis.reduce(bytes, order)));
        all[usize::from(commutative)].find(bytes)
    }

    #[inline]
    pub(super) fn allreduce_way(&self, bytes: usize, commutative: bool) -> &AllreduceWay {
        let Chosen { basis, allreduce, .. } = self.chosen();
        let all = allreduce.get_or_init(|| basis.allreduces(self.inner.rank));
        &all.ways[*all.by_length[usize::from(commutative)].find(bytes)]
    }

    #[inline]
    pub(super) fn gather_form(&self, block: usize) -> Tree {
        let Chosen { basis: Basis { shape, wanted, .. }, gather, .. } = self.chosen();
        let tree = |block| wanted.gather.unwrap_or_else(|| shape.tree(block));
        *gather.get_or_init(|| Limits::of(tree)).find(block)
    }

    #[inline]
    pub(super) fn scatter_form(&self, block: usize) -> Tree {
        let Chosen { basis: Basis { shape, wanted, .. }, scatter, .. } = self.chosen();
        let tree = |block| wanted.scatter.unwrap_or_else(|| shape.tree(block));
        *scatter.get_or_init(|| Limits::of(tree)).find(block)
    }

    #[inline]
    pub(super) fn allgather_way(&self, block: usize) -> &Way<Allgather> {
        let Chosen { basis, allgather, .. } = self.chosen();
        allgather.get_or_init(|| Limits::of(|block| basis.allgather(block))).find(block)
    }

    /// For blocks of different lengths, `total` bytes together.
    #[inline]
    pub(super) fn allgatherv_form(&self, total: usize) -> Allgather {
        let Chosen { basis, allgatherv, .. } = self.chosen();
        *allgatherv.get_or_init(|| Limits::of(|total| basis.allgatherv(total))).find(total)
    }

    #[inline]
    pub(super) fn alltoall_form(&self, block: usize) -> Alltoall {
        let Chosen { basis, alltoall, .. } = self.chosen();
        *alltoall.get_or_init(|| Limits::of(|block| basis.alltoall(block))).find(block)
    }

    /// Partners at a time, for blocks of which a rank knows its own only.
    #[inline]
    pub(super) fn alltoallv_partners(&self) -> u32 {
        match self.asked().alltoall {
            Some(Alltoall::Staged(partners)) => partners,
            _ => self.shape().alltoallv(),
        }
    }

    #[inline]
    pub(super) fn reduce_scatter_form(&self, total: usize, commutative: bool) -> ReduceScatter {
        let Chosen { basis, reduce_scatter, .. } = self.chosen();
        let all = reduce_scatter
            .get_or_init(|| by_order(|total, order| basis.reduce_scatter(total, order)));
        *all[usize::from(commutative)].find(total)
    }

    #[inline]
    pub(super) fn scan_form(&self) -> Scan {
        self.asked().scan.unwrap_or_else(|| self.shape().scan())
    }
}

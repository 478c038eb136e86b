//! The algorithms of a communicator: for each length the one that is asked for, or else the cheapest, or that of the
//! table of limits where the job has no costs. A table that was tuned before the job goes before costs. Memory that the
//! ranks share is one of the algorithms, for blocking calls.
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
use bowline_model::coll::price::{
    AllreduceForm, Crew, Layers, Limits, OpClass, Operands, Priced, Prices, Staged, Way,
};
use bowline_model::coll::reduce_scatter;
use bowline_model::coll::tuned::Tuned;
use bowline_model::coll::wanted::{Asked, Wanted, WantedAllreduce};
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

/// What a collective goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choice<W> {
    /// How it goes by messages.
    pub(crate) messages: W,
    /// Whether a blocking call goes through memory that the ranks share instead, if they have some.
    pub(crate) staged: bool,
}

/// The choices for allreduces: the schedules and forms, and their numbers by length.
#[derive(Debug)]
struct Allreduces {
    /// With their names.
    ways: Vec<(AllreduceWay, String)>,
    by_length: Limits<Choice<usize>>,
}

/// What is chosen for operations, as they come: a list, since programs have few of them. Prices know few widths, which
/// bounds it.
#[derive(Debug)]
struct ByOperands<T>(OnceCell<Box<OfOperands<T>>>);

#[derive(Debug)]
struct OfOperands<T> {
    operands: Operands,
    value: T,
    next: ByOperands<T>,
}

impl<T> ByOperands<T> {
    const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// What is chosen for an operation, which `make` finds when it comes first.
    #[inline]
    fn get(&self, operands: Operands, make: impl Fn() -> T) -> &T {
        let mut at = self;
        loop {
            let entry = at.0.get_or_init(|| {
                Box::new(OfOperands { operands, value: make(), next: Self::new() })
            });
            if entry.operands == operands {
                return &entry.value;
            }
            at = &entry.next;
        }
    }
}

/// What choices depend on beside lengths, at all ranks the same.
#[derive(Debug)]
struct Basis {
    shape: Shape,
    /// What prices are made of, if the job has costs.
    prices: Option<Prices>,
    wanted: Wanted,
    /// What a table says of communicators like this one.
    tuned: Tuned,
    /// The nodes of the ranks, where there are several.
    nodes: Option<Nodes>,
}

/// The choices for one communicator, as they are needed.
#[derive(Debug)]
pub(crate) struct Chosen {
    basis: Basis,
    barrier: Choice<Way<Barrier>>,
    bcast: OnceCell<Limits<Choice<Way<Bcast>>>>,
    reduce: ByOperands<Limits<Choice<Way<Reduce>>>>,
    allreduce: ByOperands<Allreduces>,
    gather: OnceCell<Limits<Choice<Way<Tree>>>>,
    scatter: OnceCell<Limits<Way<Tree>>>,
    allgather: OnceCell<Limits<Choice<Way<Allgather>>>>,
    /// By how much longer the longest block is than the mean one, in powers of two.
    allgatherv: [OnceCell<Limits<Allgather>>; SPREADS],
    alltoall: OnceCell<Limits<Choice<Way<Alltoall>>>>,
    alltoallv: OnceCell<u32>,
    reduce_scatter: ByOperands<Limits<Choice<Way<ReduceScatter>>>>,
    /// With the own vector, and without it.
    scan: [ByOperands<Limits<Way<Scan>>>; 2],
    /// What has taken the place of these. They stay, since a collective that has begun goes by them.
    next: OnceCell<Box<Self>>,
}

/// The cheapest one.
fn first<F>(all: Vec<Priced<F>>) -> Priced<F> {
    all.into_iter().next().expect("every collective has an algorithm")
}

/// Number of classes of uneven blocks. The class is the ratio of the longest block to the mean one, rounded down to a power
/// of two.
const SPREADS: usize = 16;

/// The class of what combines nothing, which no price of it looks at.
const NO_OP: OpClass = OpClass::Vector;

/// The form that is asked for, if a call allows it.
fn if_allowed<F: Copy>(asked: Asked<F>, allowed: impl Fn(&F) -> bool) -> Asked<F> {
    match asked {
        Asked::Form(form) if !allowed(&form) => Asked::Auto,
        asked => asked,
    }
}

impl Basis {
    /// What a call of so many bytes is asked for, if that is allowed, or else what the table asks for.
    fn asked<F: Copy>(
        &self,
        (collective, bytes): (&str, usize),
        of: impl Fn(&Wanted) -> Asked<F>,
        allowed: impl Fn(&F) -> bool,
    ) -> Asked<F> {
        match if_allowed(of(&self.wanted), &allowed) {
            Asked::Auto => {
                let tuned = self.tuned.find(collective, bytes).map_or(Asked::Auto, of);
                if_allowed(tuned, allowed)
            }
            asked => asked,
        }
    }

    /// What is asked for, or the cheapest, or what the table says; `what` of `bytes` is what shared memory would do, with an
    /// operation of that class if it has one.
    fn choose<W>(
        &self,
        asked: Asked<W>,
        (what, bytes, class): (Staged, usize, OpClass),
        priced: impl FnOnce(&Prices) -> Vec<Priced<W>>,
        table: impl FnOnce() -> W,
    ) -> Choice<W> {
        let is_asked = matches!(asked, Asked::Staged)
            && self.nodes.is_none()
            && what.allows(self.shape.ranks, bytes);
        if let Asked::Form(messages) = asked {
            return Choice { messages, staged: false };
        }
        let Some(prices) = &self.prices else {
            let shares = self.shape.shares_memory() || self.shape.stages();
            let shared = shares && what.allows(self.shape.ranks, bytes);
            return Choice { messages: table(), staged: is_asked || shared };
        };
        let Priced { form: messages, time } = first(priced(prices));
        let staged = is_asked || prices.chooses_staged(what, bytes, class, time);
        Choice { messages, staged }
    }

    /// Whether an algorithm may be asked for: on all ranks where `form` allows it for so many ranks, in layers where some
    /// node has several ranks and `form` allows what is among nodes.
    fn allows<F: Copy>(
        &self,
        way: &Way<F>,
        in_order: bool,
        form: impl Fn(&F, u32, bool) -> bool,
    ) -> bool {
        match way {
            Way::Form(how) => form(how, self.shape.ranks, false),
            Way::Layered(Layered { among, .. }) => {
                let layers = self.prices.as_ref().and_then(|prices| prices.layers_for(in_order));
                layers.is_some_and(|layers| form(among, layers.nodes, true))
            }
        }
    }

    fn barrier(&self) -> Choice<Way<Barrier>> {
        let allowed = |way: &Way<Barrier>| self.allows(way, false, |_, _, _| true);
        let asked = self.asked(("barrier", 0), |all| all.barrier, allowed);
        let table = || Way::Form(self.shape.barrier());
        self.choose(asked, (Staged::Barrier, 0, NO_OP), Prices::barriers, table)
    }

    fn bcast(&self, bytes: usize) -> Choice<Way<Bcast>> {
        let allowed = |way: &Way<Bcast>| self.allows(way, false, |_, _, _| true);
        let asked = self.asked(("bcast", bytes), |all| all.bcast, allowed);
        let table = || Way::Form(self.shape.bcast(bytes));
        self.choose(asked, (Staged::Bcast, bytes, NO_OP), |prices| prices.bcasts(bytes), table)
    }

    fn reduce(&self, bytes: usize, operands: Operands) -> Choice<Way<Reduce>> {
        let (commutative, width) = (operands.commutative(), operands.width());
        let in_order = |how: &Reduce, _, _| commutative || how.keeps_order();
        let allowed = |way: &Way<Reduce>| self.allows(way, !commutative, in_order);
        let asked = self.asked(("reduce", bytes), |all| all.reduce, allowed);
        let table = || Way::Form(self.shape.reduce(bytes, width, commutative));
        let priced = |prices: &Prices| prices.reduces(bytes, operands);
        self.choose(asked, (Staged::Reduce, bytes, operands.class()), priced, table)
    }

    fn allreduce(&self, bytes: usize, operands: Operands) -> Choice<Way<AllreduceForm>> {
        let (commutative, width) = (operands.commutative(), operands.width());
        let among = |wanted: &WantedAllreduce, ranks| match wanted.form() {
            Some(form) => Some(AllreduceForm::Form(form)),
            None => wanted.schedule(ranks, commutative).map(AllreduceForm::Multiplying),
        };
        let of = |wanted: &Wanted| match &wanted.allreduce {
            WantedAllreduce::Auto => Asked::Auto,
            WantedAllreduce::Staged => Asked::Staged,
            WantedAllreduce::Layered { within, among: wanted } => {
                let layers = self.prices.as_ref().and_then(|all| all.layers_for(!commutative));
                let among = layers.and_then(|layers| among(wanted, layers.nodes));
                among.map_or(Asked::Auto, |among| {
                    Asked::Form(Way::Layered(Layered { within: *within, among }))
                })
            }
            wanted => among(wanted, self.shape.ranks)
                .map_or(Asked::Auto, |form| Asked::Form(Way::Form(form))),
        };
        let asked = match of(&self.wanted) {
            Asked::Auto => self.tuned.find("allreduce", bytes).map_or(Asked::Auto, of),
            asked => asked,
        };
        let table = || Way::Form(AllreduceForm::Form(self.shape.allreduce(bytes, width)));
        let priced = |prices: &Prices| prices.allreduces(bytes, operands);
        self.choose(asked, (Staged::Allreduce, bytes, operands.class()), priced, table)
    }

    fn allreduces(&self, rank: u32, operands: Operands) -> Allreduces {
        let mut forms: Vec<Way<AllreduceForm>> = Vec::new();
        let limits = Limits::of(|bytes| self.allreduce(bytes, operands));
        let by_length = limits.map(|Choice { messages, staged }| {
            let known = forms.iter().position(|known| known == messages);
            let messages = known.unwrap_or_else(|| {
                forms.push(messages.clone());
                forms.len() - 1
            });
            Choice { messages, staged: *staged }
        });
        let node = self.nodes.as_ref().map_or(0, |nodes| nodes.node(rank));
        let way = |form: Way<AllreduceForm>| match form {
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
        let named = |form: Way<AllreduceForm>| {
            let name = form.name_by(AllreduceForm::name);
            (way(form), name)
        };
        Allreduces { ways: forms.into_iter().map(named).collect(), by_length }
    }

    fn gather(&self, block: usize) -> Choice<Way<Tree>> {
        let table = || Way::Form(self.shape.tree(block));
        let staged = (Staged::Gather, block, NO_OP);
        let allowed = |way: &Way<Tree>| self.allows(way, false, |_, _, _| true);
        let asked = self.asked(("gather", block), |all| all.gather, allowed);
        self.choose(asked, staged, |prices| prices.gathers(block), table)
    }

    fn scatter(&self, block: usize) -> Way<Tree> {
        let allowed = |way: &Way<Tree>| self.allows(way, false, |_, _, _| true);
        let of = |all: &Wanted| all.scatter.map_or(Asked::Auto, Asked::Form);
        let asked = self.asked(("scatter", block), of, allowed).form();
        asked.unwrap_or_else(|| match &self.prices {
            Some(prices) => first(prices.scatters(block)).form,
            None => Way::Form(self.shape.tree(block)),
        })
    }

    fn allgather(&self, block: usize) -> Choice<Way<Allgather>> {
        // Nodes may have blocks of different lengths together.
        let suits = |how: &Allgather, ranks: u32, nodes: bool| match nodes {
            true => how.takes_any_blocks(),
            false => *how != Allgather::Doubling || ranks.is_power_of_two(),
        };
        let allowed = |way: &Way<Allgather>| self.allows(way, true, suits);
        let asked = self.asked(("allgather", block), |all| all.allgather, allowed);
        let table = || Way::Form(self.shape.allgather(block));
        self.choose(
            asked,
            (Staged::Allgather, block, NO_OP),
            |prices| prices.allgathers(block),
            table,
        )
    }

    /// For blocks of `total` bytes together, the longest of which is 2 to the power of `spread` times the mean one.
    fn allgatherv(&self, total: usize, spread: usize) -> Allgather {
        let asked = |all: &Wanted| match all.allgather {
            Asked::Form(Way::Form(how)) => Some(how).filter(|how| how.takes_any_blocks()),
            _ => None,
        };
        // A table speaks of blocks that are about alike.
        let block = total.div_ceil(self.shape.ranks as usize);
        let tuned = || self.tuned.find("allgather", block).filter(|_| spread == 0);
        if let Some(how) = asked(&self.wanted).or_else(|| tuned().and_then(asked)) {
            return how;
        }
        let Some(prices) = &self.prices else { return self.shape.allgatherv(total) };
        let total = total as f64;
        let mean = total / f64::from(self.shape.ranks);
        let longest = (mean * f64::from(1_u32 << spread)).min(total);
        first(prices.allgathervs((total, longest))).form
    }

    fn alltoall(&self, block: usize) -> Choice<Way<Alltoall>> {
        let table = || Way::Form(self.shape.alltoall(block));
        let staged = (Staged::Alltoall, block, NO_OP);
        // Nodes may be of different sizes.
        let suits = |how: &Alltoall, _, nodes: bool| !nodes || how.partners().is_some();
        let allowed = |way: &Way<Alltoall>| self.allows(way, false, suits);
        let asked = self.asked(("alltoall", block), |all| all.alltoall, allowed);
        self.choose(asked, staged, |prices| prices.alltoalls(block), table)
    }

    /// Partners at a time. What ranks have for each other is known to themselves only, so no length decides.
    fn alltoallv(&self) -> u32 {
        if let Asked::Form(Way::Form(Alltoall::Staged(partners))) = self.wanted.alltoall {
            return partners;
        }
        if let Some((_, partners)) = self.tuned.uneven_alltoall() {
            return partners;
        }
        match self.prices.as_ref().map(|prices| first(prices.alltoallvs()).form) {
            Some(Alltoall::Staged(partners)) => partners,
            Some(Alltoall::Bruck) | None => self.shape.alltoallv(),
        }
    }

    fn scan(&self, bytes: usize, exclusive: bool, class: OpClass) -> Way<Scan> {
        let allowed = |way: &Way<Scan>| self.allows(way, true, |_, _, _| true);
        let of = |all: &Wanted| all.scan.map_or(Asked::Auto, Asked::Form);
        let asked = self.asked(("scan", bytes), of, allowed).form();
        asked.unwrap_or_else(|| match &self.prices {
            Some(prices) => first(prices.scans(bytes, exclusive, class)).form,
            None => Way::Form(self.shape.scan()),
        })
    }

    fn reduce_scatter(&self, total: usize, operands: Operands) -> Choice<Way<ReduceScatter>> {
        let commutative = operands.commutative();
        let suits =
            |how: &ReduceScatter, ranks, _| reduce_scatter::allows(*how, ranks, commutative);
        let allowed = |way: &Way<ReduceScatter>| self.allows(way, true, suits);
        let asked = self.asked(("reduce_scatter", total), |all| all.reduce_scatter, allowed);
        let table = || Way::Form(self.shape.reduce_scatter(total, commutative));
        let priced = |prices: &Prices| prices.reduce_scatters(total, operands);
        self.choose(asked, (Staged::ReduceScatter, total, operands.class()), priced, table)
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
            reduce: ByOperands::new(),
            allreduce: ByOperands::new(),
            gather: OnceCell::new(),
            scatter: OnceCell::new(),
            allgather: OnceCell::new(),
            allgatherv: [const { OnceCell::new() }; SPREADS],
            alltoall: OnceCell::new(),
            alltoallv: OnceCell::new(),
            reduce_scatter: ByOperands::new(),
            scan: [const { ByOperands::new() }; 2],
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
        let nodes = options.nodes(self.inner.group.world_ranks());
        let tuned = options.tuned.of(shape.ranks, nodes.as_ref().map_or(1, Nodes::count));
        let nodes = nodes.filter(|_| options.costs.is_some());
        let prices = options.costs.as_ref().map(|job| {
            let ranks = shape.ranks;
            let share = if shape.oversubscribed { job.share.min(f64::from(ranks)) } else { 1.0 };
            let layers = nodes.as_ref().map(Layers::from);
            Prices { crew: Crew { ranks, share }, costs: job.costs, layers }
        });
        Box::new(Chosen::new(Basis { shape, prices, wanted, tuned, nodes }))
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

    /// The algorithms that are asked for.
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
    pub(super) fn barrier_choice(&self) -> &Choice<Way<Barrier>> {
        &self.chosen().barrier
    }

    #[inline]
    pub(super) fn bcast_choice(&self, bytes: usize) -> &Choice<Way<Bcast>> {
        let Chosen { basis, bcast, .. } = self.chosen();
        bcast.get_or_init(|| Limits::of(|bytes| basis.bcast(bytes))).find(bytes)
    }

    #[inline]
    pub(super) fn reduce_choice(&self, bytes: usize, operands: Operands) -> &Choice<Way<Reduce>> {
        let Chosen { basis, reduce, .. } = self.chosen();
        let make = || Limits::of(|bytes| basis.reduce(bytes, operands));
        reduce.get(operands, make).find(bytes)
    }

    #[inline]
    pub(super) fn allreduce_choice(
        &self,
        bytes: usize,
        operands: Operands,
    ) -> Choice<&(AllreduceWay, String)> {
        let Chosen { basis, allreduce, .. } = self.chosen();
        let all = allreduce.get(operands, || basis.allreduces(self.inner.rank, operands));
        let Choice { messages, staged } = *all.by_length.find(bytes);
        Choice { messages: &all.ways[messages], staged }
    }

    #[inline]
    pub(super) fn gather_choice(&self, block: usize) -> Choice<Way<Tree>> {
        let Chosen { basis, gather, .. } = self.chosen();
        *gather.get_or_init(|| Limits::of(|block| basis.gather(block))).find(block)
    }

    #[inline]
    pub(super) fn scatter_way(&self, block: usize) -> Way<Tree> {
        let Chosen { basis, scatter, .. } = self.chosen();
        *scatter.get_or_init(|| Limits::of(|block| basis.scatter(block))).find(block)
    }

    #[inline]
    pub(super) fn allgather_choice(&self, block: usize) -> &Choice<Way<Allgather>> {
        let Chosen { basis, allgather, .. } = self.chosen();
        allgather.get_or_init(|| Limits::of(|block| basis.allgather(block))).find(block)
    }

    /// For blocks of different lengths, `total` bytes together and none of more than `longest`: all ranks know all of them.
    #[inline]
    pub(super) fn allgatherv_form(&self, total: usize, longest: usize) -> Allgather {
        let Chosen { basis, allgatherv, .. } = self.chosen();
        let times = longest.saturating_mul(self.inner.size as usize).checked_div(total);
        let spread = times.and_then(usize::checked_ilog2).unwrap_or(0);
        let spread = (spread as usize).min(SPREADS - 1);
        let limits = || Limits::of(|total| basis.allgatherv(total, spread));
        *allgatherv[spread].get_or_init(limits).find(total)
    }

    #[inline]
    pub(super) fn alltoall_choice(&self, block: usize) -> Choice<Way<Alltoall>> {
        let Chosen { basis, alltoall, .. } = self.chosen();
        *alltoall.get_or_init(|| Limits::of(|block| basis.alltoall(block))).find(block)
    }

    /// Partners at a time, for blocks of which a rank knows its own only.
    #[inline]
    pub(super) fn alltoallv_partners(&self) -> u32 {
        let Chosen { basis, alltoallv, .. } = self.chosen();
        *alltoallv.get_or_init(|| basis.alltoallv())
    }

    #[inline]
    pub(super) fn reduce_scatter_choice(
        &self,
        total: usize,
        operands: Operands,
    ) -> &Choice<Way<ReduceScatter>> {
        let Chosen { basis, reduce_scatter, .. } = self.chosen();
        let make = || Limits::of(|total| basis.reduce_scatter(total, operands));
        reduce_scatter.get(operands, make).find(total)
    }

    #[inline]
    pub(super) fn scan_way(&self, bytes: usize, exclusive: bool, operands: Operands) -> Way<Scan> {
        let Chosen { basis, scan, .. } = self.chosen();
        let class = operands.class();
        let make = || Limits::of(|bytes| basis.scan(bytes, exclusive, class));
        *scan[usize::from(exclusive)].get(Operands::new(true, class, 1), make).find(bytes)
    }
}

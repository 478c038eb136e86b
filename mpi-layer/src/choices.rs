//! The algorithms of a communicator: for each length the one that is asked for, or else the cheapest, or that of the
//! table of limits where the job has no costs. A table that was tuned before the job goes before costs. Memory that the
//! ranks share is one of the algorithms, for blocking calls.
//!
//! Which communicator they are for, is known to [`priced`](crate::coll::priced), which keeps them.

use std::cell::OnceCell;

use bowline_model::coll::choice::ChoiceInput;
use bowline_model::coll::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::layers::Layered;
use bowline_model::coll::nodes::Nodes;
use bowline_model::coll::price::{
    Algorithm, AllreduceForm, OpClass, Priced, Prices, ReductionOperands, SizeLimits, Staged,
};
use bowline_model::coll::reduce_scatter;
use bowline_model::coll::tuned::Tuned;
use bowline_model::coll::wanted::{Asked, Wanted, WantedAllreduce};
use bowline_model::stages::Stage;

/// How a rank does an allreduce.
#[derive(Debug)]
pub(crate) enum AllreduceAlgorithm {
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
pub(crate) struct Allreduces {
    /// With their names.
    pub(crate) algorithms: Vec<(AllreduceAlgorithm, String)>,
    pub(crate) by_length: SizeLimits<Choice<usize>>,
}

/// What is chosen for operations, as they come: a list, since programs have few of them. Prices know few widths, which
/// bounds it.
#[derive(Debug)]
pub(crate) struct ByOperands<T>(OnceCell<Box<OfOperands<T>>>);

#[derive(Debug)]
pub(crate) struct OfOperands<T> {
    operands: ReductionOperands,
    value: T,
    next: ByOperands<T>,
}

impl<T> ByOperands<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// What is chosen for an operation, which `make` finds when it comes first.
    #[inline]
    pub(crate) fn get(&self, operands: ReductionOperands, make: impl Fn() -> T) -> &T {
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
pub(crate) struct Basis {
    pub(crate) shape: ChoiceInput,
    /// What prices are made of, if the job has costs.
    pub(crate) prices: Option<Prices>,
    pub(crate) wanted: Wanted,
    /// What a table says of communicators like this one.
    pub(crate) tuned: Tuned,
    /// The nodes of the ranks, where there are several.
    pub(crate) nodes: Option<Nodes>,
}

/// The choices for one communicator, as they are needed.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) basis: Basis,
    pub(crate) barrier: Choice<Algorithm<Barrier>>,
    pub(crate) bcast: OnceCell<SizeLimits<Choice<Algorithm<Bcast>>>>,
    pub(crate) reduce: ByOperands<SizeLimits<Choice<Algorithm<Reduce>>>>,
    pub(crate) allreduce: ByOperands<Allreduces>,
    pub(crate) gather: OnceCell<SizeLimits<Choice<Algorithm<Tree>>>>,
    pub(crate) scatter: OnceCell<SizeLimits<Algorithm<Tree>>>,
    pub(crate) allgather: OnceCell<SizeLimits<Choice<Algorithm<Allgather>>>>,
    /// By how much longer the longest block is than the mean one, in powers of two.
    pub(crate) allgatherv: [OnceCell<SizeLimits<Algorithm<Allgather>>>; SPREADS],
    pub(crate) alltoall: OnceCell<SizeLimits<Choice<Algorithm<Alltoall>>>>,
    pub(crate) alltoallv: OnceCell<u32>,
    pub(crate) reduce_scatter: ByOperands<SizeLimits<Choice<Algorithm<ReduceScatter>>>>,
    /// With the own vector, and without it.
    pub(crate) scan: [ByOperands<SizeLimits<Algorithm<Scan>>>; 2],
    /// What has taken the place of these. They stay, since a collective that has begun goes by them.
    pub(crate) next: OnceCell<Box<Self>>,
}

/// The cheapest one.
fn first<F>(all: Vec<Priced<F>>) -> Priced<F> {
    all.into_iter().next().expect("every collective has an algorithm")
}

/// Number of classes of uneven blocks. The class is the ratio of the longest block to the mean one, rounded down to a power
/// of two.
pub(crate) const SPREADS: usize = 16;

/// The operands of what combines nothing, on which no price of it depends.
const NO_OP: ReductionOperands = ReductionOperands::NUMBERS;

/// The form that is asked for, if a call allows it.
fn if_allowed<F: Copy>(asked: Asked<F>, allowed: impl Fn(&F) -> bool) -> Asked<F> {
    match asked {
        Asked::Form(form) if !allowed(&form) => Asked::Auto,
        asked => asked,
    }
}

impl Basis {
    /// What a call of so many bytes is asked for, if that is allowed, or else what the table asks for.
    pub(crate) fn asked<F: Copy>(
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

    /// What is asked for, or the cheapest, or what the table says; `what` of `bytes` is what shared memory would do, with
    /// such operands if it combines any.
    pub(crate) fn choose<W>(
        &self,
        asked: Asked<W>,
        (what, bytes, operands): (Staged, usize, ReductionOperands),
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
        let Priced { form: messages, time, .. } = first(priced(prices));
        let staged = is_asked || prices.chooses_staged(what, bytes, operands, time);
        Choice { messages, staged }
    }

    /// Whether an algorithm may be asked for: on all ranks where `form` allows it for so many ranks, in layers where some
    /// node has several ranks and `form` allows what is among nodes.
    pub(crate) fn allows<F: Copy>(
        &self,
        algorithm: &Algorithm<F>,
        in_order: bool,
        form: impl Fn(&F, u32, bool) -> bool,
    ) -> bool {
        match algorithm {
            Algorithm::Form(how) => form(how, self.shape.ranks, false),
            Algorithm::Layered(Layered { among, .. }) => {
                let layers = self.prices.as_ref().and_then(|prices| prices.layers_for(in_order));
                layers.is_some_and(|layers| form(among, layers.nodes, true))
            }
        }
    }

    pub(crate) fn barrier(&self) -> Choice<Algorithm<Barrier>> {
        let allowed =
            |algorithm: &Algorithm<Barrier>| self.allows(algorithm, false, |_, _, _| true);
        let asked = self.asked(("barrier", 0), |all| all.barrier, allowed);
        let table = || Algorithm::Form(self.shape.barrier());
        self.choose(asked, (Staged::Barrier, 0, NO_OP), Prices::barriers, table)
    }

    pub(crate) fn bcast(&self, bytes: usize) -> Choice<Algorithm<Bcast>> {
        let allowed = |algorithm: &Algorithm<Bcast>| self.allows(algorithm, false, |_, _, _| true);
        let asked = self.asked(("bcast", bytes), |all| all.bcast, allowed);
        let table = || Algorithm::Form(self.shape.bcast(bytes));
        self.choose(asked, (Staged::Bcast, bytes, NO_OP), |prices| prices.bcasts(bytes), table)
    }

    pub(crate) fn reduce(
        &self,
        bytes: usize,
        operands: ReductionOperands,
    ) -> Choice<Algorithm<Reduce>> {
        let (commutative, width) = (operands.commutative(), operands.width());
        let in_order = |how: &Reduce, _, _| commutative || how.keeps_order();
        let allowed =
            |algorithm: &Algorithm<Reduce>| self.allows(algorithm, !commutative, in_order);
        let asked = self.asked(("reduce", bytes), |all| all.reduce, allowed);
        let table = || Algorithm::Form(self.shape.reduce(bytes, width, commutative));
        let priced = |prices: &Prices| prices.reduces(bytes, operands);
        self.choose(asked, (Staged::Reduce, bytes, operands), priced, table)
    }

    pub(crate) fn allreduce(
        &self,
        bytes: usize,
        operands: ReductionOperands,
    ) -> Choice<Algorithm<AllreduceForm>> {
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
                    Asked::Form(Algorithm::Layered(Layered { within: *within, among }))
                })
            }
            wanted => among(wanted, self.shape.ranks)
                .map_or(Asked::Auto, |form| Asked::Form(Algorithm::Form(form))),
        };
        let asked = match of(&self.wanted) {
            Asked::Auto => self.tuned.find("allreduce", bytes).map_or(Asked::Auto, of),
            asked => asked,
        };
        let table = || Algorithm::Form(AllreduceForm::Form(self.shape.allreduce(bytes, width)));
        let priced = |prices: &Prices| prices.allreduces(bytes, operands);
        self.choose(asked, (Staged::Allreduce, bytes, operands), priced, table)
    }

    pub(crate) fn allreduces(&self, rank: u32, operands: ReductionOperands) -> Allreduces {
        let mut forms: Vec<Algorithm<AllreduceForm>> = Vec::new();
        let limits = SizeLimits::of(|bytes| self.allreduce(bytes, operands));
        let by_length = limits.map(|Choice { messages, staged }| {
            let known = forms.iter().position(|known| known == messages);
            let messages = known.unwrap_or_else(|| {
                forms.push(messages.clone());
                forms.len() - 1
            });
            Choice { messages, staged: *staged }
        });
        let node = self.nodes.as_ref().map_or(0, |nodes| nodes.node(rank));
        let algorithm = |form: Algorithm<AllreduceForm>| match form {
            Algorithm::Form(AllreduceForm::Form(form)) => AllreduceAlgorithm::Form(form),
            Algorithm::Form(AllreduceForm::Multiplying(schedule)) => {
                AllreduceAlgorithm::Multiplying(schedule.stages(rank))
            }
            Algorithm::Layered(Layered { within, among }) => match among {
                AllreduceForm::Form(among) => {
                    AllreduceAlgorithm::Layered(Layered { within, among })
                }
                AllreduceForm::Multiplying(schedule) => {
                    let among = schedule.stages(node);
                    AllreduceAlgorithm::LayeredMultiplying(Layered { within, among })
                }
            },
        };
        let named = |form: Algorithm<AllreduceForm>| {
            let name = form.name_by(AllreduceForm::name);
            (algorithm(form), name)
        };
        Allreduces { algorithms: forms.into_iter().map(named).collect(), by_length }
    }

    pub(crate) fn gather(&self, block: usize) -> Choice<Algorithm<Tree>> {
        let table = || Algorithm::Form(self.shape.tree(block));
        let staged = (Staged::Gather, block, NO_OP);
        let allowed = |algorithm: &Algorithm<Tree>| self.allows(algorithm, false, |_, _, _| true);
        let asked = self.asked(("gather", block), |all| all.gather, allowed);
        self.choose(asked, staged, |prices| prices.gathers(block), table)
    }

    pub(crate) fn scatter(&self, block: usize) -> Algorithm<Tree> {
        let allowed = |algorithm: &Algorithm<Tree>| self.allows(algorithm, false, |_, _, _| true);
        let of = |all: &Wanted| all.scatter.map_or(Asked::Auto, Asked::Form);
        let asked = self.asked(("scatter", block), of, allowed).form();
        asked.unwrap_or_else(|| match &self.prices {
            Some(prices) => first(prices.scatters(block)).form,
            None => Algorithm::Form(self.shape.tree(block)),
        })
    }

    pub(crate) fn allgather(&self, block: usize) -> Choice<Algorithm<Allgather>> {
        // Nodes may have blocks of different lengths together.
        let suits = |how: &Allgather, ranks: u32, nodes: bool| match nodes {
            true => how.takes_any_blocks(),
            false => *how != Allgather::Doubling || ranks.is_power_of_two(),
        };
        let allowed = |algorithm: &Algorithm<Allgather>| self.allows(algorithm, true, suits);
        let asked = self.asked(("allgather", block), |all| all.allgather, allowed);
        let table = || Algorithm::Form(self.shape.allgather(block));
        self.choose(
            asked,
            (Staged::Allgather, block, NO_OP),
            |prices| prices.allgathers(block),
            table,
        )
    }

    /// For blocks of `total` bytes together, the longest of which is 2 to the power of `spread` times the mean one.
    pub(crate) fn allgatherv(&self, total: usize, spread: usize) -> Algorithm<Allgather> {
        let allowed = |algorithm: &Algorithm<Allgather>| {
            self.allows(algorithm, true, |how, _, _| how.takes_any_blocks())
        };
        let asked = |all: &Wanted| all.allgather.form().filter(allowed);
        // A table speaks of blocks that are about alike.
        let block = total.div_ceil(self.shape.ranks as usize);
        let tuned = || self.tuned.find("allgather", block).filter(|_| spread == 0);
        if let Some(how) = asked(&self.wanted).or_else(|| tuned().and_then(asked)) {
            return how;
        }
        let Some(prices) = &self.prices else {
            return Algorithm::Form(self.shape.allgatherv(total));
        };
        let total = total as f64;
        let mean = total / f64::from(self.shape.ranks);
        let longest = (mean * f64::from(1_u32 << spread)).min(total);
        first(prices.allgathervs((total, longest))).form
    }

    pub(crate) fn alltoall(&self, block: usize) -> Choice<Algorithm<Alltoall>> {
        let table = || Algorithm::Form(self.shape.alltoall(block));
        let staged = (Staged::Alltoall, block, NO_OP);
        // Nodes may be of different sizes.
        let suits = |how: &Alltoall, _, nodes: bool| !nodes || how.partners().is_some();
        let allowed = |algorithm: &Algorithm<Alltoall>| self.allows(algorithm, false, suits);
        let asked = self.asked(("alltoall", block), |all| all.alltoall, allowed);
        self.choose(asked, staged, |prices| prices.alltoalls(block), table)
    }

    /// Partners at a time. A rank knows the lengths of its own blocks only, those that it sends and those that it receives.
    /// So no length decides, and there is no schedule in layers: the first rank of a node would have to know how much each
    /// rank of it sends to each other node, which ranks would have to exchange before.
    pub(crate) fn alltoallv(&self) -> u32 {
        if let Asked::Form(Algorithm::Form(Alltoall::Staged(partners))) = self.wanted.alltoall {
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

    pub(crate) fn scan(&self, bytes: usize, exclusive: bool, class: OpClass) -> Algorithm<Scan> {
        let allowed = |algorithm: &Algorithm<Scan>| self.allows(algorithm, true, |_, _, _| true);
        let of = |all: &Wanted| all.scan.map_or(Asked::Auto, Asked::Form);
        let asked = self.asked(("scan", bytes), of, allowed).form();
        asked.unwrap_or_else(|| match &self.prices {
            Some(prices) => first(prices.scans(bytes, exclusive, class)).form,
            None => Algorithm::Form(self.shape.scan()),
        })
    }

    pub(crate) fn reduce_scatter(
        &self,
        total: usize,
        operands: ReductionOperands,
    ) -> Choice<Algorithm<ReduceScatter>> {
        let commutative = operands.commutative();
        let suits =
            |how: &ReduceScatter, ranks, _| reduce_scatter::allows(*how, ranks, commutative);
        let allowed = |algorithm: &Algorithm<ReduceScatter>| self.allows(algorithm, true, suits);
        let asked = self.asked(("reduce_scatter", total), |all| all.reduce_scatter, allowed);
        let table = || Algorithm::Form(self.shape.reduce_scatter(total, commutative));
        let priced = |prices: &Prices| prices.reduce_scatters(total, operands);
        self.choose(asked, (Staged::ReduceScatter, total, operands), priced, table)
    }
}

impl Chosen {
    pub(crate) fn new(basis: Basis) -> Self {
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

//! The algorithms of a communicator's collectives: what [`choices`](crate::choices) finds, kept with the communicator.
//!
//! A collective's choices are made for all lengths when it is called first; a call finds its length among them. All ranks have
//! the same costs and ask for the same (see [`CollOptions`](crate::coll_options::CollOptions)), so all find the same
//! algorithms.

use bowline_model::coll::forms::{
    Allgather, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::nodes::Nodes;
use bowline_model::coll::price::{Algorithm, Crew, Layers, Prices, ReductionOperands, SizeLimits};
use bowline_model::coll::wanted::Wanted;

use crate::choices::{AllreduceAlgorithm, Basis, Choice, Chosen, SPREADS};
use crate::comm::Communicator;
use crate::error::MpiError;

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

    /// The nodes of the ranks, by which algorithms are in layers.
    #[inline]
    pub(super) fn nodes(&self) -> &Nodes {
        let nodes = self.chosen().basis.nodes.as_ref();
        nodes.expect("algorithms in layers have prices only where there are nodes")
    }

    #[inline]
    pub(super) fn barrier_choice(&self) -> &Choice<Algorithm<Barrier>> {
        &self.chosen().barrier
    }

    #[inline]
    pub(super) fn bcast_choice(&self, bytes: usize) -> &Choice<Algorithm<Bcast>> {
        let Chosen { basis, bcast, .. } = self.chosen();
        bcast.get_or_init(|| SizeLimits::of(|bytes| basis.bcast(bytes))).find(bytes)
    }

    #[inline]
    pub(super) fn reduce_choice(
        &self,
        bytes: usize,
        operands: ReductionOperands,
    ) -> &Choice<Algorithm<Reduce>> {
        let Chosen { basis, reduce, .. } = self.chosen();
        let make = || SizeLimits::of(|bytes| basis.reduce(bytes, operands));
        reduce.get(operands, make).find(bytes)
    }

    #[inline]
    pub(super) fn allreduce_choice(
        &self,
        bytes: usize,
        operands: ReductionOperands,
    ) -> Choice<&(AllreduceAlgorithm, String)> {
        let Chosen { basis, allreduce, .. } = self.chosen();
        let all = allreduce.get(operands, || basis.allreduces(self.inner.rank, operands));
        let Choice { messages, staged } = *all.by_length.find(bytes);
        Choice { messages: &all.algorithms[messages], staged }
    }

    #[inline]
    pub(super) fn gather_choice(&self, block: usize) -> Choice<Algorithm<Tree>> {
        let Chosen { basis, gather, .. } = self.chosen();
        *gather.get_or_init(|| SizeLimits::of(|block| basis.gather(block))).find(block)
    }

    #[inline]
    pub(super) fn scatter_algorithm(&self, block: usize) -> Algorithm<Tree> {
        let Chosen { basis, scatter, .. } = self.chosen();
        *scatter.get_or_init(|| SizeLimits::of(|block| basis.scatter(block))).find(block)
    }

    #[inline]
    pub(super) fn allgather_choice(&self, block: usize) -> &Choice<Algorithm<Allgather>> {
        let Chosen { basis, allgather, .. } = self.chosen();
        allgather.get_or_init(|| SizeLimits::of(|block| basis.allgather(block))).find(block)
    }

    /// For blocks of different lengths, `total` bytes together and none of more than `longest`: all ranks know all of them.
    #[inline]
    pub(super) fn allgatherv_algorithm(
        &self,
        total: usize,
        longest: usize,
    ) -> Algorithm<Allgather> {
        let Chosen { basis, allgatherv, .. } = self.chosen();
        let times = longest.saturating_mul(self.inner.size as usize).checked_div(total);
        let spread = times.and_then(usize::checked_ilog2).unwrap_or(0);
        let spread = (spread as usize).min(SPREADS - 1);
        let limits = || SizeLimits::of(|total| basis.allgatherv(total, spread));
        *allgatherv[spread].get_or_init(limits).find(total)
    }

    #[inline]
    pub(super) fn alltoall_choice(&self, block: usize) -> Choice<Algorithm<Alltoall>> {
        let Chosen { basis, alltoall, .. } = self.chosen();
        *alltoall.get_or_init(|| SizeLimits::of(|block| basis.alltoall(block))).find(block)
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
        operands: ReductionOperands,
    ) -> &Choice<Algorithm<ReduceScatter>> {
        let Chosen { basis, reduce_scatter, .. } = self.chosen();
        let make = || SizeLimits::of(|total| basis.reduce_scatter(total, operands));
        reduce_scatter.get(operands, make).find(total)
    }

    #[inline]
    pub(super) fn scan_algorithm(
        &self,
        bytes: usize,
        exclusive: bool,
        operands: ReductionOperands,
    ) -> Algorithm<Scan> {
        let Chosen { basis, scan, .. } = self.chosen();
        let class = operands.class();
        let make = || SizeLimits::of(|bytes| basis.scan(bytes, exclusive, class));
        *scan[usize::from(exclusive)].get(ReductionOperands::new(true, class, 1), make).find(bytes)
    }
}

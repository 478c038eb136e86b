//! The collectives on bytes: an algorithm is chosen and run on spans of the buffers.
//!
//! What the spans mean, and that they fit the buffers, is the business of the callers: the typed methods
//! of [`Communicator`] and the untyped ones of [`raw`](super::raw). A choice depends on lengths in bytes
//! that all ranks know.

use bowline_base::sync::CacheLine;

use super::arena::Buffers;
use super::engine::Engine;
use super::shared::{self, transfers};
use crate::choices::{AllreduceAlgorithm, Choice};
use crate::comm::Communicator;
use crate::comm::recorded::RecordedCall;
use crate::error::MpiError;
use crate::op::operands::{self, Combine};
use crate::op::reduce_op::ReduceOp;
use crate::record::Call;
use crate::shared_memory::Shared;
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::forms::{Allreduce, Alltoall, Form, Tree};
use bowline_model::coll::layers::{AmongNodes, Layered};
use bowline_model::coll::plan::{Place, Plan, Space, Span, Vectors};
use bowline_model::coll::price::{Algorithm, OpClass, RANKS_MAX, ReductionOperands};
use bowline_model::coll::record::PlanRecorder;
use bowline_model::coll::{
    allgather, allreduce, alltoall, barrier, bcast, gather, layers, multiply, reduce,
    reduce_scatter, scan, scatter,
};

/// A collective that goes through the memory which ranks share, as it is recorded.
fn through_memory(what: &'static str, bytes: usize, root: u32) -> Call {
    Call::new(what, "staged".to_owned(), bytes, root)
}

/// An operation as algorithms need it.
#[derive(Clone, Copy)]
pub(crate) struct Reduction<'a> {
    /// Bytes of an element; vectors are cut between elements only.
    pub(crate) width: usize,
    pub(crate) commutative: bool,
    pub(crate) class: OpClass,
    pub(crate) combine: Combine<'a>,
}

impl ReduceOp {
    /// As algorithms need it.
    #[inline]
    pub(super) fn reduction<'a>(
        &self,
        combine: &'a impl Fn(operands::Operands<'_>),
    ) -> Reduction<'a> {
        Reduction::new(self.width, self.commutative, self.class, combine)
    }
}

impl<'a> Reduction<'a> {
    /// The operation `combine` on elements of `width` bytes.
    #[inline]
    pub(crate) fn new(
        width: usize,
        commutative: bool,
        class: OpClass,
        combine: Combine<'a>,
    ) -> Self {
        Self { width, commutative, class, combine }
    }

    /// What choices know of it.
    #[inline]
    fn operands(&self) -> ReductionOperands {
        ReductionOperands::new(self.commutative, self.class, self.width)
    }
}

/// Who follows the plan of a collective: this rank, on its buffers and at once, or a recorder.
pub(crate) trait Follow<'a> {
    type Plan: Plan<Error = MpiError>;

    /// Notes the name of the call, and has it written down where this rank is recorded: when what this gives is dropped, or
    /// at each start.
    fn recorded(
        &mut self,
        comm: &'a Communicator,
        what: &'static str,
        call: impl FnOnce() -> Call,
    ) -> Option<RecordedCall<'a>>;

    /// Follows a plan that needs some bytes of scratch, and an operation if it reduces.
    fn follow(
        self,
        comm: &'a Communicator,
        scratch: usize,
        combine: Option<Combine<'a>>,
        plan: impl FnOnce(&mut Self::Plan) -> Result<(), MpiError>,
    ) -> Result<(), MpiError>;

    /// The buffers, where the plan is followed at once and may be left for something better.
    fn buffers(&mut self) -> Option<&mut Buffers<'a>> {
        None
    }

    /// Does an allreduce, by whatever is best for it.
    fn allreduce(self, comm: &'a Communicator, own: Span, op: Reduction<'a>) -> Result<(), MpiError>
    where
        Self: Sized,
    {
        comm.allreduce_by_messages(self, own, op)
    }

    /// Does a barrier, by whatever is best for it.
    fn barrier(self, comm: &'a Communicator) -> Result<(), MpiError>
    where
        Self: Sized,
    {
        comm.barrier_by_messages(self)
    }
}

impl<'a> Follow<'a> for Buffers<'a> {
    type Plan = Engine<'a>;

    #[inline]
    fn recorded(
        &mut self,
        comm: &'a Communicator,
        what: &'static str,
        call: impl FnOnce() -> Call,
    ) -> Option<RecordedCall<'a>> {
        comm.inner.recorded(what, call)
    }

    #[inline]
    fn follow(
        self,
        comm: &'a Communicator,
        scratch: usize,
        combine: Option<Combine<'a>>,
        plan: impl FnOnce(&mut Engine<'a>) -> Result<(), MpiError>,
    ) -> Result<(), MpiError> {
        let mut engine = comm.engine(self, scratch, combine);
        let followed = plan(&mut engine);
        engine.end(followed)
    }

    #[inline]
    fn buffers(&mut self) -> Option<&mut Buffers<'a>> {
        Some(self)
    }

    #[inline]
    fn allreduce(
        self,
        comm: &'a Communicator,
        own: Span,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        comm.allreduce_spans(self, own, op)
    }

    #[inline]
    fn barrier(self, comm: &'a Communicator) -> Result<(), MpiError> {
        comm.barrier_spans()
    }
}

/// The steps of a collective, and what they need.
#[derive(Debug, Default)]
pub struct Recorded {
    pub(crate) recorder: PlanRecorder<MpiError>,
    /// Bytes of scratch.
    pub(crate) scratch: usize,
    /// How it is written down, where its rank is recorded.
    pub(crate) call: Option<Box<Call>>,
}

impl<'a> Follow<'a> for &'a mut Recorded {
    type Plan = PlanRecorder<MpiError>;

    fn recorded(
        &mut self,
        comm: &'a Communicator,
        what: &'static str,
        call: impl FnOnce() -> Call,
    ) -> Option<RecordedCall<'a>> {
        comm.inner.process.worker.note_call(what);
        if let Some(record) = comm.inner.process.record() {
            record.enter();
            self.call = Some(Box::new(call()));
        }
        None
    }

    fn follow(
        self,
        _: &'a Communicator,
        scratch: usize,
        _: Option<Combine<'a>>,
        plan: impl FnOnce(&mut PlanRecorder<MpiError>) -> Result<(), MpiError>,
    ) -> Result<(), MpiError> {
        self.scratch = scratch;
        plan(&mut self.recorder)
    }
}

impl Communicator {
    /// Returns when all ranks have called it.
    #[inline]
    pub(crate) fn barrier_spans(&self) -> Result<(), MpiError> {
        if self.barrier_choice().staged {
            if !self.inner.oversubscribed && self.inner.size <= RANKS_MAX {
                if let Some(staging) = self.staging()? {
                    let _recorded =
                        self.inner.recorded("barrier", || through_memory("barrier", 0, 0));
                    return staging.barrier(&self.inner);
                }
            } else if let Some(shared) = self.shared()? {
                let _recorded = self.inner.recorded("barrier", || through_memory("barrier", 0, 0));
                return shared.run(&self.inner, &[], &mut [], None);
            }
        }
        self.barrier_by_messages(Buffers::of(&[], &mut []))
    }

    pub(super) fn barrier_by_messages<'a>(
        &'a self,
        mut on: impl Follow<'a>,
    ) -> Result<(), MpiError> {
        let algorithm = &self.barrier_choice().messages;
        let _recorded =
            on.recorded(self, "barrier", || Call::new("barrier", algorithm.name(), 0, 0));
        on.follow(self, 0, None, |engine| match algorithm {
            Algorithm::Form(how) => barrier::run(engine, self.place(), *how),
            Algorithm::Layered(how) => {
                layers::barrier(engine, self.place(), self.nodes(), how.among)
            }
        })
    }

    pub(crate) fn bcast_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        data: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let Choice { messages: algorithm, staged } = self.bcast_choice(data.len);
        if *staged
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded =
                self.inner.recorded("bcast", || through_memory("bcast", data.len, root));
            return staging.bcast(&self.inner, buffers, data, root);
        }
        let _recorded =
            on.recorded(self, "bcast", || Call::new("bcast", algorithm.name(), data.len, root));
        on.follow(self, 0, None, |engine| match algorithm {
            Algorithm::Form(how) => bcast::run(engine, self.place(), *how, root, data),
            Algorithm::Layered(how) => {
                layers::bcast(engine, self.place(), self.nodes(), *how, root, data)
            }
        })
    }

    /// Blocks of the length of `own` to the output at the root.
    pub(crate) fn gather_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let blocks = Even { space: Space::Output, len: own.len };
        let Choice { messages: algorithm, staged } = self.gather_choice(own.len);
        if staged
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded =
                self.inner.recorded("gather", || through_memory("gather", own.len, root));
            return staging.gather(&self.inner, buffers, own, &blocks, Some(root));
        }
        let _recorded =
            on.recorded(self, "gather", || Call::new("gather", algorithm.name(), own.len, root));
        let place = self.place();
        on.follow(
            self,
            self.trees_scratch(algorithm, root, own.len),
            None,
            |engine| match algorithm {
                Algorithm::Form(how) => gather::even(engine, place, how, root, own, blocks),
                Algorithm::Layered(how) => {
                    layers::gather(engine, place, self.nodes(), how, root, own, blocks)
                }
            },
        )
    }

    /// Bytes of scratch of a gather or scatter of blocks of `block` bytes.
    fn trees_scratch(&self, algorithm: Algorithm<Tree>, root: u32, block: usize) -> usize {
        match algorithm {
            Algorithm::Form(how) => gather::scratch(how, self.inner.size, block),
            Algorithm::Layered(how) => {
                layers::trees_scratch(self.nodes(), how, self.place(), root, block)
            }
        }
    }

    pub(crate) fn gatherv_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
        blocks: &impl Blocks,
        root: u32,
    ) -> Result<(), MpiError> {
        let _recorded = on
            .recorded(self, "gatherv", || Call::new("gatherv", Tree::Linear.name(), own.len, root));
        on.follow(self, 0, None, |engine| gather::linear(engine, self.place(), root, own, blocks))
    }

    /// Whether the root writes its own block when blocks have this length: it may not be in place then.
    pub(crate) fn scatter_writes_own(&self, block: usize) -> bool {
        match self.scatter_algorithm(block) {
            Algorithm::Form(how) => how == Tree::Binomial,
            Algorithm::Layered(Layered { within, .. }) => within == Tree::Binomial,
        }
    }

    /// Blocks of the length of `own` from the input at the root.
    pub(crate) fn scatter_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let algorithm = self.scatter_algorithm(own.len);
        let blocks = Even { space: Space::Input, len: own.len };
        let _recorded =
            on.recorded(self, "scatter", || Call::new("scatter", algorithm.name(), own.len, root));
        let place = self.place();
        on.follow(
            self,
            self.trees_scratch(algorithm, root, own.len),
            None,
            |engine| match algorithm {
                Algorithm::Form(how) => scatter::even(engine, place, how, root, blocks, own),
                Algorithm::Layered(how) => {
                    layers::scatter(engine, place, self.nodes(), how, root, blocks, own)
                }
            },
        )
    }

    pub(crate) fn scatterv_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        blocks: &impl Blocks,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let _recorded = on.recorded(self, "scatterv", || {
            Call::new("scatterv", Tree::Linear.name(), own.len, root)
        });
        on.follow(self, 0, None, |engine| scatter::linear(engine, self.place(), root, blocks, own))
    }

    /// Blocks of the length of `own`, which may be the own block of the output.
    pub(crate) fn allgather_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
    ) -> Result<(), MpiError> {
        let total = own.len * self.inner.size as usize;
        let blocks = Even { space: Space::Output, len: own.len };
        let Choice { messages: algorithm, staged } = self.allgather_choice(own.len);
        if *staged
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded =
                self.inner.recorded("allgather", || through_memory("allgather", own.len, 0));
            return staging.gather(&self.inner, buffers, own, &blocks, None);
        }
        let _recorded =
            on.recorded(self, "allgather", || Call::new("allgather", algorithm.name(), own.len, 0));
        match algorithm {
            Algorithm::Form(how) => {
                on.follow(self, allgather::scratch(*how, total), None, |engine| {
                    allgather::even(engine, self.place(), *how, own, blocks)
                })
            }
            Algorithm::Layered(how) => {
                on.follow(self, layers::allgather_scratch(*how, total), None, |engine| {
                    layers::allgather(engine, self.place(), self.nodes(), *how, own, blocks)
                })
            }
        }
    }

    /// Blocks of `total` bytes together.
    pub(crate) fn allgatherv_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
        blocks: &impl Blocks,
        total: usize,
    ) -> Result<(), MpiError> {
        let longest = (0..self.inner.size).map(|rank| blocks.len(rank)).max();
        let algorithm = self.allgatherv_algorithm(total, longest.unwrap_or(0));
        let _recorded = on
            .recorded(self, "allgatherv", || Call::new("allgatherv", algorithm.name(), own.len, 0));
        let place = self.place();
        match algorithm {
            Algorithm::Form(how) => {
                on.follow(self, allgather::scratch(how, total), None, |engine| {
                    allgather::any(engine, place, how, own, blocks)
                })
            }
            Algorithm::Layered(how) => {
                let scratch = layers::allgatherv_scratch(how, place.size, blocks, total);
                on.follow(self, scratch, None, |engine| {
                    layers::allgatherv(engine, place, self.nodes(), how, own, blocks)
                })
            }
        }
    }

    /// Blocks of `len` bytes.
    pub(crate) fn alltoall_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        len: usize,
    ) -> Result<(), MpiError> {
        let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
        let Choice { messages: algorithm, staged } = self.alltoall_choice(len);
        if staged
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded = self.inner.recorded("alltoall", || through_memory("alltoall", len, 0));
            staging.alltoall(&self.inner, buffers, len, &from, &into)?;
            return self.find_reads(staging, len);
        }
        let _recorded =
            on.recorded(self, "alltoall", || Call::new("alltoall", algorithm.name(), len, 0));
        let place = self.place();
        let in_layers = match algorithm {
            Algorithm::Layered(Layered { among, .. }) => among.partners(),
            Algorithm::Form(_) => None,
        };
        match (algorithm, in_layers) {
            (_, Some(partners)) => {
                let nodes = self.nodes();
                let scratch = layers::alltoall_scratch(nodes, place, len);
                on.follow(self, scratch, None, |engine| {
                    layers::alltoall(engine, place, nodes, partners, from, into)
                })
            }
            (Algorithm::Form(how) | Algorithm::Layered(Layered { among: how, .. }), None) => {
                let scratch = alltoall::scratch(how, self.inner.size, len);
                on.follow(self, scratch, None, |engine| {
                    alltoall::even(engine, place, how, from, into)
                })
            }
        }
    }

    pub(crate) fn alltoallv_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        from: &impl Blocks,
        into: &impl Blocks,
    ) -> Result<(), MpiError> {
        let partners = self.alltoallv_partners();
        let _recorded = on.recorded(self, "alltoallv", || {
            let sent = (0..self.inner.size).map(|rank| from.len(rank));
            let how = Alltoall::Staged(partners).name();
            Call::new("alltoallv", how, sent.clone().sum(), 0).with_sent(sent)
        });
        on.follow(self, 0, None, |engine| {
            alltoall::staged(engine, self.place(), partners, from, into)
        })
    }

    /// The result goes to the first bytes of the output at the root; `own` may be them.
    pub(crate) fn reduce_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        own: Span,
        op: Reduction<'a>,
        root: u32,
    ) -> Result<(), MpiError> {
        let Choice { messages: algorithm, staged } = self.reduce_choice(own.len, op.operands());
        if *staged
            && transfers::fits(self.inner.size, op.width)
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded =
                self.inner.recorded("reduce", || through_memory("reduce", own.len, root));
            return staging.reduce(&self.inner, buffers, own, op, Some(root));
        }
        let Reduction { width, combine, .. } = op;
        let _recorded =
            on.recorded(self, "reduce", || Call::new("reduce", algorithm.name(), own.len, root));
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        match algorithm {
            Algorithm::Form(how) => {
                let scratch = reduce::scratch(*how, self.inner.size, (own.len, width));
                on.follow(self, scratch, Some(combine), |engine| {
                    reduce::run(engine, self.place(), *how, root, vectors)
                })
            }
            Algorithm::Layered(how) => {
                let scratch = layers::reduce_scratch(self.nodes(), *how, (own.len, width));
                on.follow(self, scratch, Some(combine), |engine| {
                    layers::reduce(engine, self.place(), self.nodes(), *how, root, vectors)
                })
            }
        }
    }

    /// The result goes to the first bytes of the output; `own` may be them.
    #[inline]
    pub(crate) fn allreduce_spans(
        &self,
        mut buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let Choice { messages: algorithm, staged } = self.allreduce_choice(own.len, op.operands());
        if staged {
            // Of ranks with a processor each, all combine what is in cells: a line of memory goes one way only.
            let lines = self.inner.oversubscribed || self.inner.size > RANKS_MAX;
            if lines && own.len <= shared::MAX_BYTES {
                if let Some(shared) = self.shared()? {
                    let _recorded = self
                        .inner
                        .recorded("allreduce", || through_memory("allreduce", own.len, 0));
                    return self.allreduce_in_memory(shared, buffers, own, op);
                }
            } else if transfers::fits(self.inner.size, op.width)
                && let Some(staging) = self.staging()?
            {
                let _recorded =
                    self.inner.recorded("allreduce", || through_memory("allreduce", own.len, 0));
                return staging.reduce(&self.inner, &mut buffers, own, op, None);
            }
        }
        self.allreduce_along(algorithm, buffers, own, op)
    }

    /// By the memory that the ranks share, which has space for it.
    #[inline]
    fn allreduce_in_memory(
        &self,
        shared: &Shared,
        mut buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        // Copies, which are aligned and nobody else's.
        let (mut input, mut output) =
            (CacheLine([0; shared::MAX_BYTES]), CacheLine([0; shared::MAX_BYTES]));
        let (input, output) = (&mut input[..own.len], &mut output[..own.len]);
        buffers.read(own, input);
        shared.run(&self.inner, input, output, Some(op.combine))?;
        buffers.write(Span::output(own.len), output);
        Ok(())
    }

    /// An allreduce whose algorithm depends on neither costs, settings nor info keys, so that members can compare
    /// those with it.
    pub(super) fn allreduce_to_agree(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
        in_memory: bool,
    ) -> Result<(), MpiError> {
        if in_memory
            && self.shape().shares_memory()
            && own.len <= shared::MAX_BYTES
            && let Some(shared) = self.shared()?
        {
            return self.allreduce_in_memory(shared, buffers, own, op);
        }
        let how = if self.inner.oversubscribed { Allreduce::Flat } else { Allreduce::Doubling };
        self.allreduce_by(buffers, how, own, op)
    }

    /// An allreduce by the algorithm of one form.
    pub(super) fn allreduce_by<'a>(
        &'a self,
        on: impl Follow<'a>,
        how: Allreduce,
        own: Span,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        let Reduction { width, combine, .. } = op;
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        let scratch = allreduce::scratch(how, self.inner.size, own.len);
        on.follow(self, scratch, Some(combine), |engine| {
            allreduce::run(engine, self.place(), how, vectors)
        })
    }

    pub(super) fn allreduce_by_messages<'a, F: Follow<'a>>(
        &'a self,
        on: F,
        own: Span,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        let algorithm = self.allreduce_choice(own.len, op.operands()).messages;
        self.allreduce_along(algorithm, on, own, op)
    }

    fn allreduce_along<'a, F: Follow<'a>>(
        &'a self,
        (algorithm, name): &(AllreduceAlgorithm, String),
        mut on: F,
        own: Span,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        let Reduction { width, combine, .. } = op;
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        let call = || Call::new("allreduce", name.clone(), own.len, 0);
        let _recorded = on.recorded(self, "allreduce", call);
        let in_layers = |on: F, how| {
            let scratch = layers::allreduce_scratch(self.nodes(), how, (own.len, width));
            on.follow(self, scratch, Some(combine), |engine| {
                layers::allreduce(engine, self.place(), self.nodes(), how, vectors)
            })
        };
        match algorithm {
            AllreduceAlgorithm::Form(how) => self.allreduce_by(on, *how, own, op),
            AllreduceAlgorithm::Layered(Layered { within, among }) => {
                in_layers(on, Layered { within: *within, among: AmongNodes::Form(*among) })
            }
            AllreduceAlgorithm::LayeredMultiplying(Layered { within, among }) => {
                in_layers(on, Layered { within: *within, among: AmongNodes::Multiplying(among) })
            }
            AllreduceAlgorithm::Multiplying(stages) => {
                let scratch = multiply::scratch(stages, own.len, width);
                on.follow(self, scratch, Some(combine), |engine| {
                    multiply::run(engine, stages, vectors)
                })
            }
        }
    }

    /// Blocks of the input, without gaps; that of this rank goes to the first bytes of the output.
    pub(crate) fn reduce_scatter_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        blocks: &impl Blocks,
        total: usize,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        let own = Span::output(blocks.len(self.inner.rank));
        let Choice { messages: algorithm, staged } =
            self.reduce_scatter_choice(total, op.operands());
        if *staged
            && transfers::fits(self.inner.size, op.width)
            && let Some(buffers) = on.buffers()
            && let Some(staging) = self.staging()?
        {
            let _recorded = self.inner.recorded("reduce_scatter", || {
                through_memory("reduce_scatter", total, 0).with_own(own.len)
            });
            return staging.reduce_scatter(&self.inner, buffers, blocks, total, op);
        }
        let _recorded = on.recorded(self, "reduce_scatter", || {
            Call::new("reduce_scatter", algorithm.name(), total, 0).with_own(own.len)
        });
        let place = self.place();
        match algorithm {
            Algorithm::Form(how) => {
                let scratch = reduce_scatter::scratch(*how, place, blocks);
                on.follow(self, scratch, Some(op.combine), |engine| {
                    reduce_scatter::run(engine, place, *how, blocks, own)
                })
            }
            Algorithm::Layered(how) => {
                let scratch = layers::reduce_scatter_scratch(self.nodes(), *how, place, blocks);
                on.follow(self, scratch, Some(op.combine), |engine| {
                    layers::reduce_scatter(engine, place, self.nodes(), *how, blocks, own)
                })
            }
        }
    }

    /// A prefix reduction of `len` bytes.
    pub(crate) fn scan_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        exclusive: bool,
        len: usize,
        op: Reduction<'a>,
    ) -> Result<(), MpiError> {
        let algorithm = self.scan_algorithm(len, exclusive, op.operands());
        let what = if exclusive { "exscan" } else { "scan" };
        let _recorded = on.recorded(self, what, || Call::new(what, algorithm.name(), len, 0));
        let (input, output) = (Span::input(len), Span::output(len));
        match algorithm {
            Algorithm::Form(how) => {
                on.follow(self, scan::scratch(how, len), Some(op.combine), |engine| {
                    scan::run(engine, self.place(), how, exclusive, input, output)
                })
            }
            Algorithm::Layered(how) => {
                let scratch = layers::scan_scratch(how, len);
                on.follow(self, scratch, Some(op.combine), |engine| {
                    let (place, nodes) = (self.place(), self.nodes());
                    layers::scan(engine, place, nodes, how, exclusive, (input, output))
                })
            }
        }
    }
}

impl Communicator {
    /// This rank and the number of ranks.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place { rank: self.inner.rank, size: self.inner.size }
    }
}

//! What an algorithm is expected to take: its load, counted, times what messages and memory cost.
//!
//! The counts are closed forms of the number of ranks and of bytes, so that a price is there at once for a million
//! ranks. They hold for ranks that begin together on a network without congestion, as the published model does
//! (thesis, section 4.2); the simulator that runs the very steps is their test. Where ranks share processors, time is
//! also bounded by all the work that the processors have to do, and each time that ranks must run one after the other
//! costs what giving a processor away does.
//!
//! All ranks of a job price with the same [`Costs`], so all find the same cheapest algorithm. Nothing that a rank alone
//! knows enters.

use super::forms::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter};
use crate::choice::{Order, choose};
use crate::schedule::{Schedule, Token};

/// What a rank is charged, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of a model")]
pub struct Costs {
    /// The part of a message's way that overlaps others, alpha_p.
    pub pipelining: f64,
    /// What a message keeps its sender busy, alpha_r.
    pub required: f64,
    /// What a message keeps its receiver busy.
    pub receive: f64,
    /// What a byte of a message keeps its sender busy, beta.
    pub byte: f64,
    /// What a byte of a copy takes.
    pub copy: f64,
    /// What a byte of a reduction takes, gamma.
    pub reduce: f64,
    /// What it takes to give a processor to another rank.
    pub switch: f64,
}

impl Costs {
    /// Of shared memory: assumed, as the [table](super::choice) of thresholds does.
    pub const SHARED_MEMORY: Self = Self {
        pipelining: 100.0,
        required: 100.0,
        receive: 150.0,
        byte: 0.1,
        copy: 0.1,
        reduce: 0.15,
        switch: 2000.0,
    };

    /// Of tcp between hosts: assumed.
    pub const TCP: Self = Self {
        pipelining: 20_000.0,
        required: 3000.0,
        receive: 3000.0,
        byte: 0.3,
        copy: 0.1,
        reduce: 0.15,
        switch: 2000.0,
    };

    /// How long a message of `bytes` keeps its sender busy.
    fn send(&self, bytes: f64) -> f64 {
        self.required + bytes * self.byte
    }

    /// The ratio that schedules of recursive multiplying are made for, with messages of `bytes`: the latency of one, in
    /// what one more in a stage adds.
    pub fn ratio(&self, bytes: usize) -> f64 {
        let bytes = bytes as f64;
        self.pipelining / (self.send(bytes) + self.receive + bytes * self.reduce)
    }
}

/// The ranks of a communicator and what they run on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Crew {
    /// Ranks, at least 1.
    pub ranks: u32,
    /// How many of them share a processor; 1 where each has its own.
    pub share: f64,
}

/// What an algorithm does, on its longest way and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Messages that follow each other: each waits for the one before.
    pub hops: f64,
    /// Messages whose sending keeps the ranks on the longest way busy.
    pub sends: f64,
    /// Messages whose arrival does.
    pub receives: f64,
    /// Bytes of the messages that are sent on it.
    pub bytes: f64,
    /// Bytes that are reduced on it.
    pub reduced: f64,
    /// Bytes that are copied on it.
    pub copied: f64,
    /// Messages of all ranks.
    pub messages: f64,
    /// Their bytes.
    pub all_bytes: f64,
    /// Bytes that all ranks reduce.
    pub all_reduced: f64,
    /// How often ranks have to run one after the other.
    pub switches: f64,
}

impl Load {
    /// One after the other.
    fn then(self, next: Self) -> Self {
        Self {
            hops: self.hops + next.hops,
            sends: self.sends + next.sends,
            receives: self.receives + next.receives,
            bytes: self.bytes + next.bytes,
            reduced: self.reduced + next.reduced,
            copied: self.copied + next.copied,
            messages: self.messages + next.messages,
            all_bytes: self.all_bytes + next.all_bytes,
            all_reduced: self.all_reduced + next.all_reduced,
            switches: self.switches + next.switches,
        }
    }

    /// So many times.
    fn times(self, n: f64) -> Self {
        Self {
            hops: self.hops * n,
            sends: self.sends * n,
            receives: self.receives * n,
            bytes: self.bytes * n,
            reduced: self.reduced * n,
            copied: self.copied * n,
            messages: self.messages * n,
            all_bytes: self.all_bytes * n,
            all_reduced: self.all_reduced * n,
            switches: self.switches * n,
        }
    }

    /// A stage in which each of `ranks` sends `width` messages of `bytes` and gets as many.
    fn exchange(ranks: f64, width: f64, bytes: f64) -> Self {
        Self {
            hops: 1.0,
            sends: width,
            receives: width,
            bytes: width * bytes,
            messages: ranks * width,
            all_bytes: ranks * width * bytes,
            switches: 1.0,
            ..Self::default()
        }
    }

    /// A rank sends `bytes` to each of `width` others.
    fn fan_out(width: f64, bytes: f64) -> Self {
        Self {
            hops: 1.0,
            sends: width,
            receives: 1.0,
            bytes: width * bytes,
            messages: width,
            all_bytes: width * bytes,
            switches: 1.0,
            ..Self::default()
        }
    }

    /// A rank gets `bytes` from each of `width` others.
    fn fan_in(width: f64, bytes: f64) -> Self {
        Self { sends: 1.0, receives: width, bytes, ..Self::fan_out(width, bytes) }
    }

    /// One rank reduces so many bytes.
    const fn reducing(mut self, bytes: f64) -> Self {
        self.reduced += bytes;
        self.all_reduced += bytes;
        self
    }

    /// Each of `ranks` reduces so many.
    const fn all_reducing(mut self, ranks: f64, bytes: f64) -> Self {
        self.reduced += bytes;
        self.all_reduced += ranks * bytes;
        self
    }

    /// Each rank copies so many.
    const fn copying(mut self, bytes: f64) -> Self {
        self.copied += bytes;
        self
    }

    /// Nanoseconds.
    pub fn time(&self, crew: Crew, costs: &Costs) -> f64 {
        let way = self.hops * costs.pipelining;
        let busy = self.sends * costs.required
            + self.receives * costs.receive
            + self.bytes * costs.byte
            + self.reduced * costs.reduce
            + self.copied * costs.copy;
        if crew.share <= 1.0 {
            return way + busy;
        }
        let all = self.messages * (costs.required + costs.receive)
            + self.all_bytes * costs.byte
            + self.all_reduced * costs.reduce
            + self.copied * f64::from(crew.ranks) * costs.copy;
        let processors = f64::from(crew.ranks) / crew.share;
        way + busy.max(all / processors) + self.switches * crew.share * costs.switch
    }
}

/// An algorithm with its price.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two parts")]
pub struct Priced<F> {
    /// The algorithm.
    pub form: F,
    /// What it is expected to take, in nanoseconds.
    pub time: f64,
}

/// An algorithm of allreduces: one of the forms, or a schedule of recursive multiplying.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds")]
pub enum AllreduceForm {
    /// One of the forms.
    Form(Allreduce),
    /// Recursive multiplying.
    Multiplying(Schedule),
}

fn log2(ranks: f64) -> f64 {
    ranks.log2().ceil()
}

/// What a barrier does.
pub fn barrier(ranks: u32, how: Barrier) -> Load {
    let n = f64::from(ranks);
    match how {
        _ if ranks < 2 => Load::default(),
        Barrier::Dissemination => Load::exchange(n, 1.0, 0.0).times(log2(n)),
        Barrier::Flat => Load::fan_in(n - 1.0, 0.0).then(Load::fan_out(n - 1.0, 0.0)),
    }
}

/// What a broadcast of `bytes` does.
pub fn bcast(ranks: u32, how: Bcast, bytes: usize) -> Load {
    let (n, bytes) = (f64::from(ranks), bytes as f64);
    match how {
        _ if ranks < 2 => Load::default(),
        Bcast::Flat => Load::fan_out(n - 1.0, bytes),
        Bcast::Binomial => {
            let way = Load::fan_out(1.0, bytes).times(log2(n));
            let hops = f64::from(ranks.ilog2());
            Load { hops, messages: n - 1.0, all_bytes: (n - 1.0) * bytes, ..way }
        }
        Bcast::ScatterAllgather => {
            // Parts set out around the ring while others are still scattered.
            let scatter = Load {
                hops: 0.0,
                bytes: bytes * (n - 1.0) / n,
                messages: n - 1.0,
                all_bytes: bytes * log2(n) / 2.0,
                ..Load::fan_out(1.0, 0.0).times(log2(n))
            };
            // The root gets nothing, and nobody sends to it.
            let ring = Load::exchange(n - 1.0, 1.0, bytes / n).times(n - 1.0);
            scatter.then(ring)
        }
        Bcast::Chain => {
            let pieces = (bytes / super::bcast::CHAIN_PIECE as f64).ceil().max(1.0);
            let piece = Load::fan_out(1.0, bytes / pieces);
            let way = piece.times(n - 1.0);
            // What follows the first piece is behind it by what a rank is busy with a piece.
            let behind = Load { hops: 0.0, switches: 1.0, ..piece }.times(pieces - 1.0);
            let all = Load { messages: (n - 1.0) * pieces, all_bytes: (n - 1.0) * bytes, ..way };
            Load { messages: 0.0, all_bytes: 0.0, ..behind }.then(all)
        }
    }
}

/// What a reduction of vectors of `bytes` does.
pub fn reduce(ranks: u32, how: Reduce, bytes: usize) -> Load {
    let (n, bytes) = (f64::from(ranks), bytes as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(bytes),
        Reduce::Flat => Load::fan_in(n - 1.0, bytes).reducing((n - 1.0) * bytes).copying(bytes),
        Reduce::Binomial | Reduce::Ordered => {
            let (rounds, hops) = (log2(n), f64::from(ranks.ilog2()));
            Load {
                receives: rounds,
                reduced: rounds * bytes,
                messages: n - 1.0,
                all_bytes: (n - 1.0) * bytes,
                all_reduced: (n - 1.0) * bytes,
                ..Load::fan_in(1.0, bytes).times(hops)
            }
        }
        Reduce::Halving => {
            let parts = f64::from(1_u32 << ranks.ilog2());
            // A root that gave its vector away has no part itself.
            let others = if ranks.is_power_of_two() { parts - 1.0 } else { parts };
            let gather = Load::fan_in(others, bytes / parts).copying(bytes / parts);
            halving(ranks, bytes).then(gather)
        }
    }
}

/// Ranks beyond the last power of two give their vectors to neighbours.
fn fold(ranks: u32, bytes: f64) -> Load {
    let rest = f64::from(ranks - (1 << ranks.ilog2()));
    if rest == 0.0 {
        return Load::default();
    }
    let one = Load::fan_in(1.0, bytes).reducing(bytes).copying(bytes);
    Load { messages: rest, all_bytes: rest * bytes, all_reduced: rest * bytes, ..one }
}

/// They get results back.
fn unfold(ranks: u32, bytes: f64) -> Load {
    Load { reduced: 0.0, all_reduced: 0.0, copied: 0.0, ..fold(ranks, bytes) }
}

/// The halves, quarters and so on of a vector are exchanged and reduced.
fn halving(ranks: u32, bytes: f64) -> Load {
    let parts = f64::from(1_u32 << ranks.ilog2());
    let part = bytes * (parts - 1.0) / parts;
    let rounds = Load::exchange(parts, 1.0, 0.0).times(log2(parts));
    let sent = Load { bytes: part, all_bytes: part * parts, ..rounds };
    fold(ranks, bytes).then(sent.all_reducing(parts, part))
}

/// What an allreduce of vectors of `bytes` does.
pub fn allreduce(ranks: u32, how: Allreduce, bytes: usize) -> Load {
    let (n, len) = (f64::from(ranks), bytes as f64);
    let parts = f64::from(1_u32 << ranks.ilog2());
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Allreduce::Doubling => {
            let stage = Load::exchange(parts, 1.0, len).all_reducing(parts, len);
            fold(ranks, len).then(stage.times(log2(parts))).then(unfold(ranks, len))
        }
        Allreduce::Halving => {
            let part = len * (parts - 1.0) / parts;
            let rounds = Load::exchange(parts, 1.0, 0.0).times(log2(parts));
            let back = Load { bytes: part, all_bytes: part * parts, ..rounds };
            halving(ranks, len).copying(len / parts).then(back).then(unfold(ranks, len))
        }
        Allreduce::Flat => reduce(ranks, Reduce::Flat, bytes).then(Load::fan_out(n - 1.0, len)),
        Allreduce::ReduceBcast => {
            reduce(ranks, Reduce::Ordered, bytes).then(Load::fan_out(n - 1.0, len))
        }
    }
}

/// What an allreduce by a schedule does.
pub fn multiplying(schedule: &Schedule, bytes: usize) -> Load {
    let len = bytes as f64;
    let mut load = Load::default().copying(len);
    // Ranks that take part in exchanges.
    let mut active = f64::from(schedule.ranks());
    for token in schedule.tokens() {
        let stage = match *token {
            Token::Exchange { factor } => {
                let width = f64::from(factor - 1);
                Load::exchange(active, width, len).all_reducing(active, width * len)
            }
            Token::Collapse { threshold, base } => {
                let (width, blocks) = (f64::from(base - 1), f64::from(threshold / base));
                active -= blocks * width;
                let one = Load::fan_in(width, len).reducing(width * len);
                Load { messages: blocks * width, all_bytes: blocks * width * len, ..one }
            }
            Token::Expand { threshold, base } => {
                let (width, blocks) = (f64::from(base - 1), f64::from(threshold / base));
                let one = Load::fan_out(width, len);
                Load { messages: blocks * width, all_bytes: blocks * width * len, ..one }
            }
            Token::Merge(merged) => {
                let (rest, factor) = (f64::from(merged.remainder), f64::from(merged.factor));
                active -= rest;
                let more = f64::from(merged.remainder.div_ceil(merged.groups));
                let all = rest * factor + active * (factor - 1.0);
                let taken = factor - 1.0 + more;
                Load {
                    sends: factor,
                    receives: taken,
                    bytes: factor * len,
                    messages: all,
                    all_bytes: all * len,
                    ..Load::exchange(active, 1.0, len)
                }
                .all_reducing(active, taken * len)
            }
            Token::InverseMerge(merged) => {
                let (rest, factor) = (f64::from(merged.remainder), f64::from(merged.factor));
                let more = f64::from(merged.remainder.div_ceil(merged.groups));
                let all = rest * factor + active * (factor - 1.0);
                let width = factor - 1.0 + more;
                Load {
                    sends: width,
                    receives: factor,
                    bytes: width * len,
                    messages: all,
                    all_bytes: all * len,
                    ..Load::exchange(active, 1.0, len)
                }
                .all_reducing(active + rest, (factor - 1.0) * len)
            }
        };
        load = load.then(stage);
    }
    load
}

/// What an allgather of blocks of `block` bytes does.
pub fn allgather(ranks: u32, how: Allgather, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Allgather::Doubling | Allgather::Bruck => {
            let rounds = Load::exchange(n, 1.0, 0.0).times(log2(n));
            let sent = (n - 1.0) * len;
            let copied = if how == Allgather::Bruck { n + 1.0 } else { 1.0 };
            Load { bytes: sent, all_bytes: n * sent, ..rounds }.copying(copied * len)
        }
        Allgather::Ring => Load::exchange(n, 1.0, len).times(n - 1.0).copying(len),
        Allgather::Direct => Load::exchange(n, n - 1.0, len).copying(len),
        Allgather::GatherBcast => {
            Load::fan_in(n - 1.0, len).then(Load::fan_out(n - 1.0, n * len)).copying(len)
        }
    }
}

/// What an all-to-all of blocks of `block` bytes does.
pub fn alltoall(ranks: u32, how: Alltoall, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Alltoall::Bruck => {
            let rounds = log2(n);
            // About half of the blocks travel in each round, and are copied twice.
            let moved: f64 = (0..rounds as u32)
                .map(|k| f64::from((0..ranks).filter(|i| i >> k & 1 == 1).count() as u32) * len)
                .sum();
            let stages = Load::exchange(n, 1.0, 0.0).times(rounds);
            Load { bytes: moved, all_bytes: n * moved, ..stages }
                .copying(2.0 * moved + 2.0 * n * len)
        }
        Alltoall::Staged(partners) => {
            let stages = (n - 1.0) / f64::from(partners.max(1)).min(n - 1.0);
            let width = (n - 1.0) / stages;
            Load::exchange(n, width, len)
                .times(stages.ceil())
                .times(stages / stages.ceil())
                .copying(len)
        }
    }
}

/// What a reduction whose result, `total` bytes, is cut among all does.
pub fn reduce_scatter(ranks: u32, how: ReduceScatter, total: usize) -> Load {
    let (n, len) = (f64::from(ranks), total as f64);
    let block = len / n;
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        ReduceScatter::ViaRoot => {
            reduce(ranks, Reduce::Ordered, total).then(Load::fan_out(n - 1.0, block)).copying(block)
        }
        ReduceScatter::Halving => halving(ranks, len).copying(block),
        ReduceScatter::Pairwise => {
            let stage = Load::exchange(n, 1.0, block).all_reducing(n, block);
            stage.times(n - 1.0).copying(block)
        }
        ReduceScatter::Direct => Load::exchange(n, n - 1.0, block)
            .all_reducing(n, (n - 1.0) * block)
            .copying(2.0 * block),
    }
}

/// Prices algorithms; the cheapest comes first. Of equals it is the one that was named first.
fn sorted<F>(
    crew: Crew,
    costs: &Costs,
    forms: impl IntoIterator<Item = (F, Load)>,
) -> Vec<Priced<F>> {
    let price = |(form, load): (F, Load)| Priced { form, time: load.time(crew, costs) };
    let mut all: Vec<_> = forms.into_iter().map(price).collect();
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    all
}

impl Crew {
    /// All algorithms of barriers.
    pub fn barriers(self, costs: &Costs) -> Vec<Priced<Barrier>> {
        let all = [Barrier::Dissemination, Barrier::Flat];
        sorted(self, costs, all.map(|how| (how, barrier(self.ranks, how))))
    }

    /// All algorithms of broadcasts of `bytes`.
    pub fn bcasts(self, costs: &Costs, bytes: usize) -> Vec<Priced<Bcast>> {
        let all = [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain];
        sorted(self, costs, all.map(|how| (how, bcast(self.ranks, how, bytes))))
    }

    /// All algorithms of reductions of vectors of `bytes`.
    pub fn reduces(self, costs: &Costs, bytes: usize, commutative: bool) -> Vec<Priced<Reduce>> {
        let tree = if commutative { Reduce::Binomial } else { Reduce::Ordered };
        let all = [Reduce::Flat, tree, Reduce::Halving];
        sorted(self, costs, all.map(|how| (how, reduce(self.ranks, how, bytes))))
    }

    /// All algorithms of allreduces of vectors of `bytes`: the forms, and of recursive multiplying the schedules that
    /// the published heuristic finds for these costs.
    pub fn allreduces(
        self,
        costs: &Costs,
        bytes: usize,
        commutative: bool,
    ) -> Vec<Priced<AllreduceForm>> {
        let forms =
            [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];
        let mut all: Vec<_> =
            forms.map(|how| (AllreduceForm::Form(how), allreduce(self.ranks, how, bytes))).into();
        let mut schedules = Vec::new();
        for order in [Order::ByCost, Order::Greatest] {
            let found = choose(self.ranks, costs.ratio(bytes), order);
            if !schedules.contains(&found) && (commutative || found.keeps_order()) {
                schedules.push(found);
            }
        }
        // One stage has the least latency that there is.
        if let Ok(once) = Schedule::of_factors(&[self.ranks])
            && !schedules.contains(&once)
        {
            schedules.push(once);
        }
        all.extend(schedules.into_iter().map(|schedule| {
            let load = multiplying(&schedule, bytes);
            (AllreduceForm::Multiplying(schedule), load)
        }));
        sorted(self, costs, all)
    }

    /// All algorithms of allgathers of blocks of `block` bytes.
    pub fn allgathers(self, costs: &Costs, block: usize) -> Vec<Priced<Allgather>> {
        let doubling = self.ranks.is_power_of_two().then_some(Allgather::Doubling);
        let all = [Allgather::Bruck, Allgather::Ring, Allgather::Direct, Allgather::GatherBcast];
        let all = doubling.into_iter().chain(all);
        sorted(self, costs, all.map(|how| (how, allgather(self.ranks, how, block))))
    }

    /// All algorithms of all-to-alls of blocks of `block` bytes.
    pub fn alltoalls(self, costs: &Costs, block: usize) -> Vec<Priced<Alltoall>> {
        let all = [Alltoall::Staged(1), Alltoall::Staged(64), Alltoall::Bruck];
        sorted(self, costs, all.map(|how| (how, alltoall(self.ranks, how, block))))
    }

    /// All algorithms of reductions whose result, `total` bytes, is cut among all.
    pub fn reduce_scatters(
        self,
        costs: &Costs,
        total: usize,
        commutative: bool,
    ) -> Vec<Priced<ReduceScatter>> {
        let mut all = vec![ReduceScatter::Direct, ReduceScatter::ViaRoot];
        if commutative {
            all.push(ReduceScatter::Pairwise);
            if self.ranks.is_power_of_two() {
                all.push(ReduceScatter::Halving);
            }
        }
        let loads = all.into_iter().map(|how| (how, reduce_scatter(self.ranks, how, total)));
        sorted(self, costs, loads)
    }
}

#[cfg(test)]
mod tests;

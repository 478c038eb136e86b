//! Models of networks and of computing: parts that a machine is put together of.

use super::random::Streams;
use crate::cost::Pipelining;

/// When the two ends of a transfer are done with it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a transfer has two ends")]
pub struct Transfer {
    /// When the process that has begun it may go on.
    pub local: f64,
    /// When the bytes are where they go.
    pub arrived: f64,
}

/// What messages take. A model may remember something of the process that begins a transfer, and of no other: the
/// transfers of one process are asked for in their order, but those of two in any.
pub trait NetworkModel {
    /// A put of `bytes` from one process to another that begins at `start`.
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer;

    /// A get of `bytes` by a process from another one that begins at `start`.
    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer;

    /// Nanoseconds that taking a message which is there keeps its receiver busy. Models that do not say so take
    /// messages for free.
    fn receive(&mut self, process: u32) -> f64 {
        let _ = process;
        0.0
    }
}

/// What computing takes.
pub trait Compute {
    /// Nanoseconds for work on so many bytes on a process.
    fn take(&mut self, process: u32, bytes: usize) -> f64;

    /// Nanoseconds for a copy of so many bytes on a process. Models that do not say so take copies for free.
    fn copy(&mut self, process: u32, bytes: usize) -> f64 {
        let _ = (process, bytes);
        0.0
    }
}

/// The pipelining model with a cost of each byte: a message keeps its sender busy for
/// `required + bytes * byte` and is there `pipelining` later.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of the published model")]
pub struct Pipelined {
    /// The two parameters, in nanoseconds.
    pub cost: Pipelining,
    /// Nanoseconds for a byte, beta.
    pub byte: f64,
}

impl Pipelined {
    /// What the thesis computed with in chapter 5: 500 ns, 100 ns, and 0.4 ns for a byte.
    pub const CHAPTER_5: Self =
        Self { cost: Pipelining { pipelining: 500.0, required: 100.0 }, byte: 0.4 };

    fn transfer(self, bytes: usize, start: f64) -> Transfer {
        let local = start + self.cost.required + bytes as f64 * self.byte;
        Transfer { local, arrived: local + self.cost.pipelining }
    }
}

impl NetworkModel for Pipelined {
    fn put(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        self.transfer(bytes, start)
    }

    fn get(&mut self, _: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        // The bytes are of use where they were asked for, which is when they are there.
        self.transfer(bytes, start)
    }
}

/// A network whose processes wait until a message that they send is there: nothing of it overlaps.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "another network, and no more")]
pub struct Blocking<N>(pub N);

impl<N: NetworkModel> NetworkModel for Blocking<N> {
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer {
        let Transfer { arrived, .. } = self.0.put(from, to, bytes, start);
        Transfer { local: arrived, arrived }
    }

    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer {
        let Transfer { arrived, .. } = self.0.get(by, from, bytes, start);
        Transfer { local: arrived, arrived }
    }

    fn receive(&mut self, process: u32) -> f64 {
        self.0.receive(process)
    }
}

/// The model of latency and bandwidth, alpha + n beta: a process and its interface are one, and nothing overlaps.
/// (Hockney 1994.)
pub type Hockney = Blocking<Pipelined>;

impl Hockney {
    /// A message takes `latency` and `byte` for each of its bytes, in nanoseconds.
    pub const fn new(latency: f64, byte: f64) -> Self {
        Self(Pipelined { cost: Pipelining { pipelining: latency, required: 0.0 }, byte })
    }
}

impl<N: NetworkModel + ?Sized> NetworkModel for Box<N> {
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer {
        (**self).put(from, to, bytes, start)
    }

    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer {
        (**self).get(by, from, bytes, start)
    }

    fn receive(&mut self, process: u32) -> f64 {
        (**self).receive(process)
    }
}

/// LogP with a gap for each byte (LogGP): overhead `o`, latency `L`, and at least `g` between messages of a
/// process. (Culler and others 1993; Alexandrov and others 1995.)
#[derive(Clone, Debug)]
pub struct LogGp {
    latency: f64,
    overhead: f64,
    gap: f64,
    byte: f64,
    /// When each process may inject its next message.
    free: Vec<f64>,
}

impl LogGp {
    /// A network of so many processes with these parameters, in nanoseconds; `byte` is G.
    pub fn new(processes: u32, latency: f64, overhead: f64, gap: f64, byte: f64) -> Self {
        Self { latency, overhead, gap, byte, free: vec![0.0; processes as usize] }
    }

    /// LogP: the length of messages does not count.
    pub fn logp(processes: u32, latency: f64, overhead: f64, gap: f64) -> Self {
        Self::new(processes, latency, overhead, gap, 0.0)
    }

    fn inject(&mut self, by: u32, bytes: usize, start: f64, way: f64) -> Transfer {
        let free = &mut self.free[by as usize];
        let begin = start.max(*free);
        let local = begin + self.overhead;
        let last = local + bytes.saturating_sub(1) as f64 * self.byte;
        *free = (begin + self.gap).max(last);
        // The receiver's overhead is a part of the arrival: a put needs no task there.
        Transfer { local, arrived: last + way + self.overhead }
    }
}

impl NetworkModel for LogGp {
    fn put(&mut self, from: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        let latency = self.latency;
        self.inject(from, bytes, start, latency)
    }

    fn get(&mut self, by: u32, _: u32, bytes: usize, start: f64) -> Transfer {
        // The request goes there and the bytes come back.
        let both = 2.0 * self.latency;
        self.inject(by, bytes, start, both)
    }
}

/// Every computation takes as long.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a single number")]
pub struct Fixed(pub f64);

impl Compute for Fixed {
    fn take(&mut self, _: u32, _: usize) -> f64 {
        self.0
    }
}

/// Computing takes a time for each byte, gamma.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a single number")]
pub struct PerByte(pub f64);

impl Compute for PerByte {
    fn take(&mut self, _: u32, bytes: usize) -> f64 {
        self.0 * bytes as f64
    }
}

/// Computing takes a time each, a time for each byte, and one for each byte of a copy.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the three numbers of the model")]
pub struct Linear {
    /// Nanoseconds for each computation.
    pub each: f64,
    /// Nanoseconds for each of its bytes, gamma.
    pub byte: f64,
    /// Nanoseconds for each byte that is copied.
    pub copied: f64,
}

impl Compute for Linear {
    fn take(&mut self, _: u32, bytes: usize) -> f64 {
        self.each + self.byte * bytes as f64
    }

    fn copy(&mut self, _: u32, bytes: usize) -> f64 {
        self.copied * bytes as f64
    }
}

impl<C: Compute + ?Sized> Compute for Box<C> {
    fn take(&mut self, process: u32, bytes: usize) -> f64 {
        (**self).take(process, bytes)
    }

    fn copy(&mut self, process: u32, bytes: usize) -> f64 {
        (**self).copy(process, bytes)
    }
}

/// A model with noise: every time is stretched by a random factor of at least 1, whose excess is distributed
/// exponentially. The same seed gives the same run.
#[derive(Clone, Debug)]
pub struct Noisy<M> {
    model: M,
    mean: f64,
    streams: Streams,
}

impl<M> Noisy<M> {
    /// `model`, whose times grow by the part `mean` in the mean.
    pub const fn new(model: M, mean: f64, seed: u64) -> Self {
        Self { model, mean, streams: Streams::new(seed) }
    }

    /// The next factor of a process.
    fn factor(&mut self, process: u32) -> f64 {
        1.0 - self.mean * self.streams.unit(process).ln()
    }

    fn stretch(&mut self, process: u32, transfer: Transfer, start: f64) -> Transfer {
        let factor = self.factor(process);
        let late = |time: f64| start + (time - start) * factor;
        Transfer { local: late(transfer.local), arrived: late(transfer.arrived) }
    }
}

impl<N: NetworkModel> NetworkModel for Noisy<N> {
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer {
        let transfer = self.model.put(from, to, bytes, start);
        self.stretch(from, transfer, start)
    }

    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer {
        let transfer = self.model.get(by, from, bytes, start);
        self.stretch(by, transfer, start)
    }

    fn receive(&mut self, process: u32) -> f64 {
        match self.model.receive(process) {
            // What takes no time draws nothing.
            0.0 => 0.0,
            time => time * self.factor(process),
        }
    }
}

impl<C: Compute> Compute for Noisy<C> {
    fn take(&mut self, process: u32, bytes: usize) -> f64 {
        self.model.take(process, bytes) * self.factor(process)
    }

    fn copy(&mut self, process: u32, bytes: usize) -> f64 {
        self.model.copy(process, bytes) * self.factor(process)
    }
}

//! Latency that differs from message to message: by chance, or by where the two processes are.
//!
//! A model of a network says when a process may go on, and when its message is there. What lies between is the
//! *flight*, and a [`Delayed`] network has another one.

use std::sync::Arc;

use super::network::{NetworkModel, Transfer};
use super::random::Streams;

/// How long messages fly.
pub trait Latency {
    /// Nanoseconds from when `from` may go on until its message to `to` is there, where the network beneath says
    /// `plain`. As with networks, nothing may be remembered but of `from`.
    fn flight(&mut self, from: u32, to: u32, plain: f64) -> f64;
}

/// A network with another latency. A get flies twice, there and back.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a network and its latency")]
pub struct Delayed<N, L> {
    /// The network beneath, which does not block.
    pub network: N,
    /// The latency.
    pub latency: L,
}

impl<N: NetworkModel, L: Latency> NetworkModel for Delayed<N, L> {
    fn put(&mut self, from: u32, to: u32, bytes: usize, start: f64) -> Transfer {
        let Transfer { local, arrived } = self.network.put(from, to, bytes, start);
        Transfer { local, arrived: local + self.latency.flight(from, to, arrived - local) }
    }

    fn get(&mut self, by: u32, from: u32, bytes: usize, start: f64) -> Transfer {
        let Transfer { local, arrived } = self.network.get(by, from, bytes, start);
        let half = (arrived - local) / 2.0;
        let there = self.latency.flight(by, from, half);
        Transfer { local, arrived: local + there + self.latency.flight(by, from, half) }
    }

    fn receive(&mut self, process: u32) -> f64 {
        self.network.receive(process)
    }
}

/// How times are distributed, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LatencyDistribution {
    /// Always the same.
    Constant(f64),
    /// Anything between the two.
    Uniform(f64, f64),
    /// Exponentially, with this mean.
    Exponential(f64),
    /// Normally, cut off at 0.
    Normal {
        /// The mean of what is not cut off, at least 0.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
    },
    /// As these times, each of which is as likely: measurements. There is at least one.
    Samples(Arc<[f64]>),
}

/// Numbers that distribute no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoDistribution;

impl std::fmt::Display for NoDistribution {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(
            "this distributes no times: constant:70, uniform:100,400, exponential:200, normal:100,20 (mean and \
             deviation) and samples:90,110,400 do, with times that are finite and at least 0, and ranges upwards",
        )
    }
}

impl std::error::Error for NoDistribution {}

/// `constant:70`, `uniform:100,400`, `exponential:200`, `normal:100,20` (mean and deviation) and
/// `samples:90,110,400`, in nanoseconds.
impl std::str::FromStr for LatencyDistribution {
    type Err = NoDistribution;

    fn from_str(text: &str) -> Result<Self, NoDistribution> {
        let (kind, numbers) = text.split_once(':').ok_or(NoDistribution)?;
        let numbers = numbers.split(',').map(|number| number.trim().parse());
        let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().map_err(|_| NoDistribution)?;
        let distribution = match (kind, &numbers[..]) {
            ("constant", &[value]) => Self::Constant(value),
            ("uniform", &[low, high]) => Self::Uniform(low, high),
            ("exponential", &[mean]) => Self::Exponential(mean),
            ("normal", &[mean, deviation]) => Self::Normal { mean, deviation },
            ("samples", _) => Self::Samples(numbers.into()),
            _ => return Err(NoDistribution),
        };
        distribution.checked()
    }
}

/// As [`FromStr`](std::str::FromStr) reads it.
impl std::fmt::Display for LatencyDistribution {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Constant(value) => write!(out, "constant:{value}"),
            Self::Uniform(low, high) => write!(out, "uniform:{low},{high}"),
            Self::Exponential(mean) => write!(out, "exponential:{mean}"),
            Self::Normal { mean, deviation } => write!(out, "normal:{mean},{deviation}"),
            Self::Samples(samples) => {
                let all: Vec<String> = samples.iter().map(ToString::to_string).collect();
                write!(out, "samples:{}", all.join(","))
            }
        }
    }
}

/// How often a normal number is drawn again because it is below 0. Half of them are not, or more.
const DRAWS: u32 = 64;

impl LatencyDistribution {
    /// The same, if it is one of times.
    ///
    /// # Errors
    /// [`NoDistribution`].
    pub fn checked(self) -> Result<Self, NoDistribution> {
        let time = |time: &f64| time.is_finite() && *time >= 0.0;
        let fits = match &self {
            Self::Constant(value) | Self::Exponential(value) => time(value),
            Self::Uniform(low, high) => time(low) && time(high) && low <= high,
            Self::Normal { mean, deviation } => time(mean) && time(deviation),
            Self::Samples(samples) => !samples.is_empty() && samples.iter().all(time),
        };
        if fits { Ok(self) } else { Err(NoDistribution) }
    }

    /// A time that a process draws.
    pub fn draw(&self, streams: &mut Streams, process: u32) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Uniform(low, high) => low + (high - low) * streams.unit(process),
            Self::Exponential(mean) => -mean * streams.unit(process).ln(),
            Self::Normal { mean, deviation } => {
                // Box and Muller 1958.
                let mut normal = || {
                    let (one, two) = (streams.unit(process), streams.unit(process));
                    let angle = std::f64::consts::TAU * two;
                    mean + deviation * (-2.0 * one.ln()).sqrt() * angle.cos()
                };
                (0..DRAWS).map(|_| normal()).find(|time| *time >= 0.0).unwrap_or(*mean)
            }
            Self::Samples(samples) => {
                let index = streams.next(process) % samples.len() as u64;
                samples[index as usize]
            }
        }
    }
}

/// Latency that chance adds to that of the network.
#[derive(Clone, Debug)]
pub struct RandomLatency {
    distribution: LatencyDistribution,
    streams: Streams,
}

impl RandomLatency {
    /// What is added is distributed like this. The same seed gives the same run.
    pub const fn new(distribution: LatencyDistribution, seed: u64) -> Self {
        Self { distribution, streams: Streams::new(seed) }
    }
}

impl Latency for RandomLatency {
    fn flight(&mut self, from: u32, _: u32, plain: f64) -> f64 {
        plain + self.distribution.draw(&mut self.streams, from)
    }
}

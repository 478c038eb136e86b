//! From times of multicasts to the parameters of [`cost`](crate::cost). (Thesis, section 4.3.)
//!
//! A root sends messages of one size to b = 1, 2, 3, ... others and takes the time of each such multicast alone, many
//! times over. Of the times of one width one figure counts, the least or the median ([`Statistic`]), and the line
//! `T = alpha_p + b alpha_r` through these figures is the fit of that size.
//!
//! | what | where |
//! |---|---|
//! | the regression | [`line`](mod@line) |
//! | the parameters as functions of the size | [`sizes`] |
//! | the same times in the models of Hockney, LogGP and LogfP | [`others`] |
//! | what operations take for each byte | [`operations`] |
//! | the costs of collectives | [`Costs`](crate::coll::price::Costs) |
//! | the file that keeps the result | `table`, with the feature `json` |
//!
//! A fit with a negative parameter is no error of the measurement: it says that the model does not hold at that size,
//! and it is kept as that ([`SizeFit::cost`]). The unit of time is whatever the samples have.

mod costs;
pub mod line;
pub mod operations;
pub mod others;
pub mod sizes;
#[cfg(feature = "json")]
pub mod table;

use crate::cost::{CostError, Pipelining, best_width, break_even_width, factor_cap};
use line::FittedLine;

/// What was published of puts on a Cray XC30, by shortest times: bytes, alpha_p and alpha_r in ns. (Thesis, table 4.1.)
pub const PUBLISHED: [(u64, f64, f64); 7] = [
    (8, 880.0, 380.0),
    (64, 890.0, 380.0),
    (128, 910.0, 380.0),
    (512, 960.0, 460.0),
    (2048, 960.0, 790.0),
    (8192, 860.0, 2170.0),
    (32768, 680.0, 7750.0),
];

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(clippy::exhaustive_structs, reason = "callers that measure make them")]
pub struct Samples {
    /// Multicasts, one entry for each pair of size and width.
    pub multicasts: Vec<Multicast>,
    /// Ping-pongs, one entry for each size; may be empty.
    pub ping_pongs: Vec<PingPong>,
}

/// All multicasts of one size and width.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(clippy::exhaustive_structs, reason = "callers that measure make them")]
pub struct Multicast {
    /// Bytes of a message.
    pub size: u64,
    /// Messages, each to another process.
    pub width: u32,
    /// From the first call until all messages are complete; one time for each repetition.
    pub complete: Vec<f64>,
    /// From the first call until the last message was handed over, in the same repetitions; may be empty.
    pub issued: Vec<f64>,
}

/// All messages of one size that went to and fro between two processes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(clippy::exhaustive_structs, reason = "callers that measure make them")]
pub struct PingPong {
    /// Bytes of a message.
    pub size: u64,
    /// Half of a round trip; one time for each repetition.
    pub one_way: Vec<f64>,
}

/// Which of many times of the same thing counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two that were published")]
pub enum Statistic {
    /// The shortest: what the interface takes when nothing disturbs it.
    Minimum,
    /// The median: what it usually takes.
    Median,
}

impl Statistic {
    /// The figure of some times; `None` of none.
    pub fn of(self, times: &[f64]) -> Option<f64> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let first = *sorted.first()?;
        Some(match self {
            Self::Minimum => first,
            Self::Median => sorted[(sorted.len() - 1) / 2].midpoint(sorted[sorted.len() / 2]),
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Median => "median",
        }
    }
}

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// A line wants two different abscissas at least.
    TooFew {
        /// What was to be fitted.
        what: String,
        /// How many different abscissas it wants.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// A time is no time.
    BadTime {
        /// Bytes of a message.
        size: u64,
        /// The width of the multicast; 0 for a ping-pong.
        width: u32,
        /// What stands there.
        time: f64,
    },
    /// Another model has a parameter that describes no network.
    Unphysical {
        /// The model.
        model: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: f64,
    },
}

impl std::fmt::Display for FitError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFew { what, needed, found } => {
                let points = if *found == 1 { "point" } else { "points" };
                write!(out, "{what}: {found} different {points}, and the fit wants {needed}")
            }
            Self::BadTime { size, width, time } => {
                write!(out, "{time} is no time (size {size}, width {width})")
            }
            Self::Unphysical { model, parameter, value } => write!(
                out,
                "{parameter} = {value:.4} of {model} describes no network: the model does not fit these times"
            ),
        }
    }
}

impl std::error::Error for FitError {}

/// The fit of one size.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SizeFit {
    /// Bytes of a message.
    pub size: u64,
    /// The time that counts for each width, by width.
    pub points: Vec<(u32, f64)>,
    /// The line through them: alpha_p is its intercept, alpha_r its slope.
    pub line: FittedLine,
    /// The parameters, or why the line gives none.
    pub cost: Result<Pipelining, CostError>,
}

impl SizeFit {
    /// What a choice of algorithms makes of the parameters; `None` where there are none, or where they leave it open.
    pub fn widths(&self) -> Option<Widths> {
        Widths::of(self.cost.ok()?)
    }

    /// Time and the line's time for each width: the difference is the residual.
    pub fn residuals(&self) -> impl Iterator<Item = (u32, f64)> {
        let line = self.line;
        self.points.iter().map(move |&(width, time)| (width, time - line.at(f64::from(width))))
    }

    /// The time per message, by width. The model says `alpha_r + alpha_p / b`, which falls everywhere.
    pub fn per_process(&self) -> Vec<(u32, f64)> {
        self.points.iter().map(|&(width, time)| (width, time / f64::from(width))).collect()
    }
}

/// What follows from the ratio of the parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Widths {
    /// alpha_p / alpha_r.
    pub ratio: f64,
    /// The best width of multicasts, b_opt.
    pub best: f64,
    /// The width up to which they are no slower than recursive doubling, b_upper.
    pub break_even: f64,
    /// The greatest factor of a schedule that is worth its messages.
    pub cap: u32,
}

impl Widths {
    /// The widths of parameters; `None` where messages cost their sender nothing, which leaves the ratio open: no width
    /// is too great then.
    pub fn of(cost: Pipelining) -> Option<Self> {
        let ratio = cost.ratio();
        ratio.is_finite().then(|| Self {
            ratio,
            best: best_width(ratio),
            break_even: break_even_width(ratio),
            cap: factor_cap(ratio),
        })
    }

    /// Whether nothing beats recursive doubling: a ratio of no more than 2 ln 2 - 1.
    pub fn doubling(&self) -> bool {
        self.best <= 1.0
    }
}

/// Fits every size by itself, in order of size.
///
/// # Errors
/// When a time is negative or no number, or a size has fewer than two widths.
pub fn fit(samples: &Samples, statistic: Statistic) -> Result<Vec<SizeFit>, FitError> {
    check(samples)?;
    let sizes = sizes_of(samples);
    sizes.into_iter().map(|size| fit_size(samples, size, statistic)).collect()
}

/// Finds out whether all times are times.
///
/// # Errors
/// [`FitError::BadTime`].
pub fn check(samples: &Samples) -> Result<(), FitError> {
    let multicasts = samples
        .multicasts
        .iter()
        .flat_map(|m| m.complete.iter().chain(&m.issued).map(move |&time| (m.size, m.width, time)));
    let ping_pongs = samples.ping_pongs.iter();
    let ping_pongs = ping_pongs.flat_map(|p| p.one_way.iter().map(move |&time| (p.size, 0, time)));
    for (size, width, time) in multicasts.chain(ping_pongs) {
        if !time.is_finite() || time < 0.0 {
            return Err(FitError::BadTime { size, width, time });
        }
    }
    Ok(())
}

/// The sizes of multicasts, each once, in order.
fn sizes_of(samples: &Samples) -> Vec<u64> {
    let mut sizes: Vec<u64> = samples.multicasts.iter().map(|m| m.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The time that counts for each width at one size, by width. Entries of one width are taken together.
fn points(
    samples: &Samples,
    size: u64,
    statistic: Statistic,
    times: impl Fn(&Multicast) -> &[f64],
) -> Vec<(u32, f64)> {
    let here = || samples.multicasts.iter().filter(|m| m.size == size);
    let mut widths: Vec<u32> = here().map(|m| m.width).collect();
    widths.sort_unstable();
    widths.dedup();
    let figure = |&width: &u32| {
        let of_width = here().filter(|m| m.width == width);
        let all: Vec<f64> = of_width.flat_map(|m| times(m).iter().copied()).collect();
        statistic.of(&all).map(|time| (width, time))
    };
    widths.iter().filter_map(figure).collect()
}

fn fit_size(samples: &Samples, size: u64, statistic: Statistic) -> Result<SizeFit, FitError> {
    let points = points(samples, size, statistic, |m| &m.complete);
    let abscissas = points.iter().map(|&(width, time)| (f64::from(width), time));
    let line = line::line(&abscissas.collect::<Vec<_>>(), &format!("multicasts of {size} bytes"))?;
    // Times are compared to a billionth: zero may come out of a sum as a little less or more.
    let least = 1e-9 * points.iter().map(|p| p.1).fold(0.0, f64::max);
    let clean = |value: f64| if value.abs() <= least { 0.0 } else { value };
    let cost = Pipelining::new(clean(line.intercept), clean(line.slope));
    Ok(SizeFit { size, points, line, cost })
}

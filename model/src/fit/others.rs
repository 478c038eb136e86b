//! Other models of the same times, fitted to the same points, so that predictions can be compared.
//!
//! | model | a multicast of b messages of n bytes takes |
//! |---|---|
//! | [`FittedHockney`] | `b (alpha + n beta)`: messages one after the other |
//! | [`FittedLogGp`] | `o + (b - 1) max(g, o) + b (n - 1) G + 2 L + o`: an acknowledgement comes back |
//! | [`LogfP`] | at one size, a line that gets steeper from the message f on |
//!
//! LogGP and LogfP describe hardware. What is fitted here is what a process sees of it, on its own clock.

use super::line::{least_squares, line, r_squared};
use super::{FitError, Samples, SizeFit, Statistic, points};

/// How well predictions meet times.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quality {
    /// The part of the variance that is explained.
    pub r_squared: f64,
    /// The mean of `|predicted - seen| / seen`.
    pub error: f64,
    /// The greatest of them.
    pub worst: f64,
}

/// How well a model meets the points of fits. The model says a time for a size and a width.
pub fn quality(fits: &[SizeFit], model: impl Fn(u64, u32) -> f64) -> Quality {
    let all = fits.iter().flat_map(|fit| fit.points.iter().map(move |p| (fit.size, p.0, p.1)));
    let pairs: Vec<(f64, f64)> = all.map(|(n, b, time)| (time, model(n, b))).collect();
    let errors = pairs.iter().map(|(seen, predicted)| (predicted - seen).abs() / seen);
    let errors: Vec<f64> = errors.filter(|error| error.is_finite()).collect();
    Quality {
        r_squared: r_squared(pairs.iter().copied()),
        error: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
        worst: errors.iter().copied().fold(0.0, f64::max),
    }
}

fn physical(model: &'static str, parameter: &'static str, value: f64) -> Result<f64, FitError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(FitError::Unphysical { model, parameter, value })
}

/// Latency and bandwidth: nothing overlaps.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of the published model")]
pub struct FittedHockney {
    /// The time of an empty message, alpha.
    pub latency: f64,
    /// The time of a byte, beta.
    pub per_byte: f64,
}

impl FittedHockney {
    /// The model of multicasts that meets their times best, relative errors counting.
    ///
    /// # Errors
    /// When there are too few points, or a parameter comes out negative.
    pub fn of_multicasts(fits: &[SizeFit]) -> Result<Self, FitError> {
        let all = fits.iter().flat_map(|fit| fit.points.iter().map(move |p| (fit.size, p.0, p.1)));
        Self::of(&all.collect::<Vec<_>>())
    }

    /// The model of one message on its way, from ping-pongs.
    ///
    /// # Errors
    /// As for multicasts.
    pub fn of_ping_pongs(samples: &Samples, statistic: Statistic) -> Result<Self, FitError> {
        let one_way = |p: &super::PingPong| Some((p.size, 1, statistic.of(&p.one_way)?));
        Self::of(&samples.ping_pongs.iter().filter_map(one_way).collect::<Vec<_>>())
    }

    fn of(all: &[(u64, u32, f64)]) -> Result<Self, FitError> {
        let row = |&(size, width, time): &(u64, u32, f64)| {
            let share = f64::from(width) / time;
            ([share, share * size as f64], 1.0)
        };
        let rows: Vec<_> = all.iter().filter(|one| one.2 > 0.0).map(row).collect();
        let [latency, per_byte] = least_squares(&rows).ok_or_else(|| {
            let mut sizes: Vec<u64> = all.iter().map(|one| one.0).collect();
            sizes.sort_unstable();
            sizes.dedup();
            FitError::TooFew { what: "Hockney's model".into(), needed: 2, found: sizes.len() }
        })?;
        Ok(Self {
            latency: physical("Hockney's model", "alpha", latency)?,
            per_byte: physical("Hockney's model", "beta", per_byte)?,
        })
    }

    /// The time of a multicast.
    pub fn multicast(&self, size: u64, width: u32) -> f64 {
        f64::from(width) * (self.latency + size as f64 * self.per_byte)
    }
}

/// Its name in errors.
const LOGGP: &str = "LogGP";

/// Latency, overhead, gap, and a gap for each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of the published model")]
pub struct FittedLogGp {
    /// The time on the wire, L.
    pub latency: f64,
    /// The time that a processor is busy with a message, at each end, o.
    pub overhead: f64,
    /// The least time between two messages, g.
    pub gap: f64,
    /// The time of each further byte, G.
    pub per_byte: f64,
}

impl FittedLogGp {
    /// The model of multicasts. The gaps are what one more message adds and how that grows with the size. The overhead
    /// is what one more message adds to the time of handing over, at the least size; where that was not measured
    /// it is the gap. The latency follows from the pipelining latency at the least size, whose message goes there and
    /// whose acknowledgement comes back: `alpha_p = 2 L + 2 o - g`.
    ///
    /// # Errors
    /// When there are too few sizes, or a parameter comes out negative.
    pub fn of_multicasts(
        samples: &Samples,
        fits: &[SizeFit],
        statistic: Statistic,
    ) -> Result<Self, FitError> {
        let slopes: Vec<_> =
            fits.iter().map(|fit| (fit.size as f64 - 1.0, fit.line.slope)).collect();
        let growth = line(&slopes, LOGGP)?;
        let least = fits.iter().min_by_key(|fit| fit.size);
        let few = || FitError::TooFew { what: LOGGP.into(), needed: 2, found: 0 };
        let least = least.ok_or_else(few)?;
        let per_byte = physical(LOGGP, "G", growth.slope)?;
        // The line through all sizes may miss the short messages, whose gap it is.
        let bytes = least.size.saturating_sub(1) as f64 * per_byte;
        let gap = physical(LOGGP, "g", (least.line.slope - bytes).max(0.0))?;
        let issued = points(samples, least.size, statistic, |m| &m.issued);
        let issued: Vec<_> = issued.iter().map(|&(b, time)| (f64::from(b), time)).collect();
        let overhead = match line(&issued, LOGGP) {
            Ok(line) => physical(LOGGP, "o", line.slope)?.min(gap),
            Err(_) => gap,
        };
        let latency = (least.line.intercept + gap - 2.0 * overhead) / 2.0;
        Ok(Self { latency: physical(LOGGP, "L", latency)?, overhead, gap, per_byte })
    }

    /// The same with the latency of ping-pongs: `T - 2 o - (n - 1) G` of the shortest message.
    ///
    /// # Errors
    /// As for multicasts, and when there are no ping-pongs.
    pub fn of_ping_pongs(
        samples: &Samples,
        fits: &[SizeFit],
        statistic: Statistic,
    ) -> Result<Self, FitError> {
        let others = Self::of_multicasts(samples, fits, statistic);
        let shortest = samples.ping_pongs.iter().min_by_key(|p| p.size);
        let one_way = shortest.and_then(|p| Some((p.size, statistic.of(&p.one_way)?)));
        let few = || FitError::TooFew { what: "ping-pongs".into(), needed: 1, found: 0 };
        let (size, time) = one_way.ok_or_else(few)?;
        let model = Self { latency: 0.0, ..others? };
        Ok(Self { latency: physical(LOGGP, "L", time - model.message(size))?, ..model })
    }

    /// The time of a multicast whose messages are acknowledged.
    pub fn multicast(&self, size: u64, width: u32) -> f64 {
        let bytes = f64::from(width) * size.saturating_sub(1) as f64 * self.per_byte;
        let gaps = f64::from(width.saturating_sub(1)) * self.gap.max(self.overhead);
        self.overhead + gaps + bytes + 2.0 * self.latency + self.overhead
    }

    /// The time of a message from one process to another.
    pub fn message(&self, size: u64) -> f64 {
        self.latency + 2.0 * self.overhead + size.saturating_sub(1) as f64 * self.per_byte
    }
}

/// LogP for short messages of which the first few pass without a gap: `T = start + b overhead`, and `gap` more for
/// each message beyond the first `free` ones.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of the published model")]
pub struct LogfP {
    /// What does not depend on the number of messages, `2 L + o`.
    pub start: f64,
    /// What each message takes, o.
    pub overhead: f64,
    /// What each message beyond the free ones takes besides, g.
    pub gap: f64,
    /// How many pass without a gap, f.
    pub free: u32,
}

impl LogfP {
    /// The model that meets the times of one size best, over all possible numbers of free messages.
    ///
    /// # Errors
    /// When there are fewer than five widths, or a parameter comes out negative: where the line of the pipelining model
    /// is met better by getting flatter, there is no LogfP.
    pub fn of(fit: &SizeFit) -> Result<Self, FitError> {
        const NAME: &str = "LogfP";
        let inner = fit.points.get(1..fit.points.len().saturating_sub(2)).unwrap_or_default();
        let bent = |&(free, _): &(u32, f64)| {
            let column = |b: u32| [1.0, f64::from(b), f64::from(b.saturating_sub(free))];
            let rows: Vec<_> = fit.points.iter().map(|&(b, time)| (column(b), time)).collect();
            let [start, overhead, gap] = least_squares(&rows)?;
            let model = Self { start, overhead, gap, free };
            let square = |&(b, time): &(u32, f64)| (model.multicast(b) - time).powi(2);
            Some((model, fit.points.iter().map(square).sum::<f64>()))
        };
        let best = inner.iter().filter_map(bent).min_by(|a, b| a.1.total_cmp(&b.1));
        let few = || FitError::TooFew { what: NAME.into(), needed: 5, found: fit.points.len() };
        let (mut model, _) = best.filter(|_| fit.points.len() >= 5).ok_or_else(few)?;
        // What is left of a line without a bend are the last bits of its numbers.
        if model.gap.abs() < 1e-9 * model.overhead {
            model.gap = 0.0;
        }
        physical(NAME, "2 L + o", model.start)?;
        physical(NAME, "o", model.overhead)?;
        physical(NAME, "g", model.gap)?;
        Ok(model)
    }

    /// The time of a multicast.
    pub fn multicast(&self, width: u32) -> f64 {
        let late = f64::from(width.saturating_sub(self.free));
        self.start + f64::from(width) * self.overhead + late * self.gap
    }

    /// The width at which the time per message is least, if it rises again behind it: where the gaps of as many
    /// messages as are free cost more than the start.
    pub fn minimum(&self) -> Option<u32> {
        (f64::from(self.free) * self.gap > self.start).then_some(self.free)
    }
}

/// Where a curve of times per message is least, if that is not its end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Dip {
    /// The width.
    pub width: u32,
    /// By which part of the least value the curve rises behind it at most.
    pub rise: f64,
}

/// The dip of a curve that rises before its end; `None` of one that does not, by more than a billionth.
pub fn dip(per_process: &[(u32, f64)]) -> Option<Dip> {
    let least = per_process.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let behind = per_process.iter().filter(|point| point.0 > least.0);
    let highest = behind.map(|point| point.1).max_by(f64::total_cmp)?;
    let rise = highest / least.1 - 1.0;
    (rise > 1e-9).then_some(Dip { width: least.0, rise })
}

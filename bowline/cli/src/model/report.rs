//! What is shown of a fit: one structure, shown as JSON and as a table.

use std::fmt::Write as _;

use anyhow::Result;
use bowline_model::coll::price::Costs;
use bowline_model::fit::line::FittedLine;
use bowline_model::fit::operations::per_byte;
use bowline_model::fit::others::{Dip, FittedHockney, FittedLogGp, LogfP, Quality, dip, quality};
use bowline_model::fit::sizes::BySize;
use bowline_model::fit::{FitError, Samples, SizeFit, Statistic, fit};
use serde_json::{Value, json};

use super::published;
use super::record::{Circumstances, Recorded};

/// The fits of samples, by shortest times and by medians.
#[derive(Debug)]
pub(super) struct Report {
    circumstances: Circumstances,
    pub(super) fits: Vec<Fitted>,
    /// What a byte of operations takes, by shortest times and by medians.
    operations: [Vec<(&'static str, FittedLine)>; 2],
}

/// The fits by one statistic.
#[derive(Debug)]
pub(super) struct Fitted {
    statistic: Statistic,
    pub(super) sizes: Vec<SizeFit>,
    /// `None` where the model holds at no size.
    pub(super) by_size: Option<BySize>,
    models: Vec<Model>,
    /// LogfP at the least size.
    pub(super) logfp: Result<LogfP, FitError>,
    /// The dip of the measured curve of times per process at the least size.
    dip: Option<Dip>,
}

/// Parameters by name.
type Parameters = Vec<(&'static str, f64)>;

/// A model with its parameters, how well it meets the times, and what it predicts of the widest multicast of each size
/// at which the pipelining model holds.
#[derive(Debug)]
struct Model {
    name: &'static str,
    fitted: Result<(Parameters, Quality, Vec<f64>), FitError>,
}

/// The widest multicast of a size: how many receivers, and its time.
fn widest(fit: &SizeFit) -> (u32, f64) {
    fit.points.last().copied().unwrap_or((0, f64::NAN))
}

/// What is said of parameters without a ratio.
const OPEN: &str = "alpha_r is 0 by these times: messages cost their sender too little to be seen, which leaves the \
                    ratio and all widths open; take more widths (-n) or repetitions (--reps)";

/// Whether the model holds at a size, and says nothing about widths.
fn is_open(fit: &SizeFit) -> bool {
    fit.cost.is_ok() && fit.widths().is_none()
}

impl Report {
    /// Fits.
    ///
    /// # Errors
    /// When there are too few widths.
    pub(super) fn new(recorded: &Recorded) -> Result<Self> {
        let samples = recorded.without_clock();
        let of = |statistic| Fitted::new(&samples, statistic);
        let fits = vec![of(Statistic::Minimum)?, of(Statistic::Median)?];
        let operations = [Statistic::Minimum, Statistic::Median]
            .map(|statistic| per_byte(&recorded.operations, statistic));
        Ok(Self { circumstances: recorded.circumstances.clone(), fits, operations })
    }

    /// The operations that were measured, by the names of costs, with what a byte takes by shortest times, ns.
    pub(super) fn operations(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.operations[0].iter().map(|(name, line)| (*name, line.slope))
    }

    /// The fits by shortest times.
    pub(super) fn shortest(&self) -> &Fitted {
        &self.fits[0]
    }

    /// For programs. Numbers that are infinite are null.
    pub(super) fn json(&self) -> Value {
        let of = &self.circumstances;
        json!({
            "site": of.site, "transport": of.transport, "network": of.network, "ranks": of.ranks,
            "shared": of.shared, "threads": of.threads, "blocking": of.blocking, "clock_ns": of.clock_ns,
            "collectives": self.costs_of_collectives(),
            "published": published::json(&self.shortest().sizes, of.blocking),
            "fits": self.fits.iter().map(Fitted::json).collect::<Vec<_>>(),
            "operations": self.operations[0].iter().map(|(name, line)| json!({
                "cost": name, "minimum_ns_per_byte": line.slope,
                "median_ns_per_byte": self.median_of(name).map(|line| line.slope),
                "r_squared": line.r_squared,
            })).collect::<Vec<_>>(),
        })
    }

    fn median_of(&self, name: &str) -> Option<&FittedLine> {
        self.operations[1].iter().find(|one| one.0 == name).map(|(_, line)| line)
    }

    fn table_of_operations(&self, out: &mut String) {
        if !self.operations[0].is_empty() {
            *out += "\noperations on vectors in caches, ns a byte\n";
            let _ = writeln!(out, "{:>8} {:>9} {:>9} {:>8}", "cost", "shortest", "median", "R^2");
        }
        for (name, line) in &self.operations[0] {
            let median = self.median_of(name).map_or(f64::NAN, |line| line.slope);
            let (shortest, r_squared) = (line.slope, line.r_squared);
            let _ = writeln!(out, "{name:>8} {shortest:>9.4} {median:>9.4} {r_squared:>8.5}");
        }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let Circumstances { site, transport, network, ranks, shared, threads, blocking, clock_ns } =
            &self.circumstances;
        let how = if *threads { "threads" } else { "processes" };
        let puts = if *blocking { "blocking puts" } else { "puts with one flush" };
        let network = network.as_ref().map_or(String::new(), |n| format!(" ({n})"));
        let mut out = format!("{site}\n{transport}{network}: {ranks} {how}, {puts}, ns\n");
        let _ = writeln!(out, "{clock_ns:.0} of each time were the clock's and are subtracted");
        if *shared {
            out += "ranks share processors: what receivers do is part of the times\n";
        }
        for fitted in &self.fits {
            fitted.table(&mut out);
        }
        published::table(&mut out, &self.shortest().sizes, *blocking);
        self.table_of_operations(&mut out);
        if let Some(setting) = self.costs_of_collectives() {
            let _ = writeln!(
                out,
                "\njobs choose the algorithms of collectives by this fit with {setting}\n(what it does not name is \
                 assumed); `bowline explain --collective` shows how"
            );
        }
        out
    }

    /// The setting with which jobs choose the algorithms of collectives by this fit. None where the model does not hold, or where puts were blocking.
    fn costs_of_collectives(&self) -> Option<String> {
        let by_size = self.shortest().by_size.as_ref().filter(|_| !self.circumstances.blocking)?;
        let Circumstances { transport, shared, .. } = &self.circumstances;
        let costs = Costs::text_of_fit(transport, (by_size, *shared), self.operations());
        Some(format!("{}={costs}", bowline::mpi::COLL_COSTS.name()))
    }
}

impl Fitted {
    fn new(samples: &Samples, statistic: Statistic) -> Result<Self> {
        let sizes = fit(samples, statistic)?;
        let by_size = BySize::of(&sizes);
        let good: Vec<SizeFit> = sizes.iter().filter(|fit| fit.cost.is_ok()).cloned().collect();
        let mut models = Vec::new();
        if let Some(by_size) = &by_size {
            let own = |n, b| by_size.at(n).map_or(f64::NAN, |cost| cost.multicast(b));
            models.push(Model::new(
                "pipelining",
                Ok(()),
                &good,
                |()| Vec::new(),
                |(), n, b| own(n, b),
            ));
            let hockney = FittedHockney::of_multicasts(&good);
            models.push(Model::hockney("Hockney", hockney, &good));
            let one_way = FittedHockney::of_ping_pongs(samples, statistic);
            models.push(Model::hockney("Hockney of ping-pongs", one_way, &good));
            let loggp = FittedLogGp::of_multicasts(samples, &good, statistic);
            models.push(Model::loggp("LogGP", loggp, &good));
            let one_way = FittedLogGp::of_ping_pongs(samples, &good, statistic);
            models.push(Model::loggp("LogGP of ping-pongs", one_way, &good));
        }
        let least = &sizes[0];
        let (logfp, dip) = (LogfP::of(least), dip(&least.per_process()));
        Ok(Self { statistic, by_size, models, logfp, dip, sizes })
    }

    fn json(&self) -> Value {
        let size = |fit: &SizeFit| {
            let widths = fit.widths();
            json!({
                "size": fit.size,
                "alpha_p_ns": fit.line.intercept, "alpha_r_ns": fit.line.slope,
                "r_squared": fit.line.r_squared,
                "rejected": fit.cost.err().map(|error| error.to_string()),
                "undetermined": is_open(fit).then_some(OPEN),
                "ratio": widths.map(|w| w.ratio), "best_width": widths.map(|w| w.best),
                "break_even_width": widths.map(|w| w.break_even), "factor_cap": widths.map(|w| w.cap),
                "points": fit.points.iter().zip(fit.residuals()).map(|((width, time), (_, residual))| json!({
                    "width": width, "ns": time, "residual_ns": residual,
                    "per_process_ns": time / f64::from(*width),
                })).collect::<Vec<_>>(),
            })
        };
        let line = |line: Option<FittedLine>| {
            line.map(|l| json!({"at_0_ns": l.intercept, "per_byte_ns": l.slope, "r_squared": l.r_squared}))
        };
        json!({
            "statistic": self.statistic.name(),
            "sizes": self.sizes.iter().map(size).collect::<Vec<_>>(),
            "alpha_p_by_size": line(self.by_size.as_ref().and_then(|f| f.pipelining)),
            "alpha_r_by_size": line(self.by_size.as_ref().and_then(|f| f.required)),
            "models": self.models.iter().map(Model::json).collect::<Vec<_>>(),
            "per_process": {
                "size": self.sizes[0].size,
                "least_at": self.dip.map(|dip| dip.width), "rise": self.dip.map(|dip| dip.rise),
                "logfp": self.logfp.as_ref().ok().map(|m| json!({
                    "start_ns": m.start, "overhead_ns": m.overhead, "gap_ns": m.gap, "free": m.free,
                    "minimum_at": m.minimum(),
                })),
                "logfp_rejected": self.logfp.as_ref().err().map(ToString::to_string),
            },
        })
    }

    fn table(&self, out: &mut String) {
        let name = match self.statistic {
            Statistic::Minimum => "shortest times",
            Statistic::Median => "medians",
        };
        let _ = writeln!(out, "\n{name}");
        let _ = writeln!(
            out,
            "{:>8} {:>11} {:>11} {:>7} {:>7} {:>8} {:>5} {:>8} {:>9}",
            "bytes", "alpha_p", "alpha_r", "ratio", "b_opt", "b_upper", "cap", "R^2", "residual"
        );
        for fit in &self.sizes {
            let worst = fit.residuals().map(|(_, residual)| residual.abs()).fold(0.0, f64::max);
            let line = fit.line;
            let _ = write!(out, "{:>8} {:>11.1} {:>11.1} ", fit.size, line.intercept, line.slope);
            let _ = match fit.widths() {
                Some(w) => write!(
                    out,
                    "{:>7.3} {:>7.2} {:>8.2} {:>5}",
                    w.ratio, w.best, w.break_even, w.cap
                ),
                None if is_open(fit) => write!(out, "{:>7} {:>7} {:>8} {:>5}", "-", "-", "-", "-"),
                None => write!(out, "{:>30}", "rejected"),
            };
            let _ = writeln!(out, " {:>8.5} {worst:>9.1}", line.r_squared);
        }
        for fit in self.sizes.iter().filter(|fit| is_open(fit)) {
            let _ = writeln!(out, "{} bytes: {OPEN}", fit.size);
        }
        for (size, error) in self.by_size.iter().flat_map(|functions| &functions.rejected) {
            let _ = writeln!(out, "{size} bytes: {error}");
        }
        let Some(functions) = &self.by_size else {
            let _ = writeln!(out, "the model holds at no size");
            return;
        };
        for (name, line) in [("alpha_p", functions.pipelining), ("alpha_r", functions.required)] {
            if let Some(line) = line {
                let _ = writeln!(
                    out,
                    "{name}(n) = {:.1} {:+.4} n, R^2 {:.4}; interpolated between sizes",
                    line.intercept, line.slope, line.r_squared
                );
            }
        }
        let _ =
            writeln!(out, "{:<22} {:>8} {:>7} {:>7}  parameters", "model", "R^2", "error", "worst");
        for model in &self.models {
            model.table(out);
        }
        self.predictions(out);
        let _ = writeln!(out, "time per process at {} bytes: {}", self.sizes[0].size, self.curve());
    }

    /// The widest multicast of each size, measured and as models predict it.
    fn predictions(&self, out: &mut String) {
        let predicted = |model: &Model| Some((model.name, model.fitted.as_ref().ok()?.2.clone()));
        let models: Vec<_> = self.models.iter().filter_map(predicted).collect();
        let _ = write!(out, "{:>8} {:>5} {:>11}", "bytes", "to", "measured");
        for (name, _) in &models {
            let _ = write!(out, " {name:>22}");
        }
        for (index, fit) in self.sizes.iter().filter(|fit| fit.cost.is_ok()).enumerate() {
            let (width, time) = widest(fit);
            let _ = write!(out, "\n{:>8} {width:>5} {time:>11.1}", fit.size);
            for (_, predicted) in &models {
                let _ = write!(out, " {:>22.1}", predicted[index]);
            }
        }
        out.push('\n');
    }

    /// What the curve of times per process does, beside what LogfP says of it.
    fn curve(&self) -> String {
        let last = self.sizes[0].points.last().map_or(0, |point| point.0);
        let seen = match self.dip {
            None => format!("rises nowhere up to {last} processes"),
            Some(Dip { width, rise, .. }) => {
                format!(
                    "is least at {width} of {last} processes, {:.1} % below what follows",
                    rise * 100.0
                )
            }
        };
        let theirs = match &self.logfp {
            Ok(m) => match m.minimum() {
                Some(width) => format!("LogfP, fitted, has its minimum at {width}"),
                None => format!("LogfP, fitted (f = {}, g = {:.1}), has no minimum", m.free, m.gap),
            },
            Err(error) => error.to_string(),
        };
        format!("{seen}; {theirs}")
    }
}

impl Model {
    fn new<M: Copy>(
        name: &'static str,
        fitted: Result<M, FitError>,
        good: &[SizeFit],
        parameters: impl Fn(M) -> Parameters,
        predict: impl Fn(M, u64, u32) -> f64,
    ) -> Self {
        let all = |model| {
            let predicted =
                good.iter().map(|fit| predict(model, fit.size, widest(fit).0)).collect();
            (parameters(model), quality(good, |n, b| predict(model, n, b)), predicted)
        };
        Self { name, fitted: fitted.map(all) }
    }

    fn hockney(
        name: &'static str,
        fitted: Result<FittedHockney, FitError>,
        good: &[SizeFit],
    ) -> Self {
        let parameters = |m: FittedHockney| vec![("alpha", m.latency), ("beta", m.per_byte)];
        Self::new(name, fitted, good, parameters, |m, n, b| m.multicast(n, b))
    }

    fn loggp(name: &'static str, fitted: Result<FittedLogGp, FitError>, good: &[SizeFit]) -> Self {
        let parameters = |m: FittedLogGp| {
            vec![("L", m.latency), ("o", m.overhead), ("g", m.gap), ("G", m.per_byte)]
        };
        Self::new(name, fitted, good, parameters, |m, n, b| m.multicast(n, b))
    }

    fn json(&self) -> Value {
        match &self.fitted {
            Ok((parameters, quality, predicted)) => json!({
                "model": self.name, "widest_ns": predicted,
                "parameters_ns": parameters.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
                "r_squared": quality.r_squared, "error": quality.error, "worst_error": quality.worst,
            }),
            Err(error) => json!({"model": self.name, "rejected": error.to_string()}),
        }
    }

    fn table(&self, out: &mut String) {
        let _ = match &self.fitted {
            Ok((parameters, Quality { r_squared, error, worst, .. }, _)) => {
                let shown: Vec<String> =
                    parameters.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
                let shown = if shown.is_empty() { "as above".to_owned() } else { shown.join(", ") };
                let [error, worst] = [error, worst].map(|part| format!("{:.1} %", part * 100.0));
                writeln!(out, "{:<22} {r_squared:>8.4} {error:>7} {worst:>7}  {shown}", self.name)
            }
            Err(error) => writeln!(out, "{:<22} {error}", self.name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    #[test]
    fn a_report_has_the_fits_and_what_follows() {
        let report = Report::new(&example()).unwrap();
        let json = report.json();
        let size = &json["fits"][0]["sizes"][0];
        assert!((size["alpha_p_ns"].as_f64().unwrap() - 880.0).abs() < 1e-6, "{size}");
        assert_eq!(size["factor_cap"], 9);
        assert_eq!(size["points"].as_array().unwrap().len(), 8);
        assert_eq!(json["fits"][1]["statistic"], "median");
        assert!(json["fits"][0]["per_process"]["least_at"].is_null(), "it falls to the end");
        let beside = &json["published"][0];
        assert_eq!(beside["published"]["alpha_p_ns"], 880.0, "{beside}");
        assert!(
            (beside["here"]["ratio"].as_f64().unwrap() - 880.0 / 380.0).abs() < 1e-6,
            "{beside}"
        );
        // 8 receivers, 880 + 8 * 380.
        let models = json["fits"][0]["models"].as_array().unwrap();
        let widest = models[0]["widest_ns"][0].as_f64().unwrap();
        assert!((widest - 3920.0).abs() < 1e-6 && models[1]["model"] == "Hockney", "{models:?}");
        let text = report.table();
        assert!(text.contains("published of a Cray XC30"), "{text}");
        let row = text.lines().find(|line| line.starts_with("       8     8      3920.0"));
        assert!(row.is_some_and(|row| row.contains(" 3920.0 ")), "{text}");
        assert!(text.contains("131072 bytes: alpha_p = -1") && text.contains("rejected"), "{text}");
        assert!(text.contains("rises nowhere up to 8 processes"), "{text}");
        assert!(text.contains("Hockney of ping-pongs  Hockney's model: 0 different"), "{text}");
    }
}

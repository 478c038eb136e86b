//! `bowline calibrate`: measures between two ranks what messages cost on each transport, so that
//! protocols are chosen by this machine's figures.
//!
//! It starts `bowline perf` with one protocol forced at a time and fits the model's figures to the
//! shortest times (Rüfenacht 2020, section 4.3, fits them in the same way): windows of 1 to 64 short
//! messages give what one message requires of its processor, lengths give the cost of a byte, and
//! messages that are read from their senders' memory what reading costs.

use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use bowline::costs;
use bowline_model::transport::{CostOrigin, Figure, KnownCosts};
use clap::ValueEnum as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use crate::output;
use crate::perf::test::{Transport, name_of};

/// Measure between two ranks what the choice of protocols depends on, and remember it.
///
/// Takes some ten seconds for each transport, and wants a machine that does nothing else: figures that a
/// busy machine has made are noticed and not kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline calibrate                        shared memory and TCP
  bowline calibrate --transport shm        one of them
  bowline calibrate --show                 what is known, without measuring
  bowline calibrate --forget               back to what comes with the library")]
pub(crate) struct Args {
    /// Transports to measure, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = transport, default_value = "shm,tcp")]
    transport: Vec<String>,
    /// Print what is known and measure nothing.
    #[arg(long, conflicts_with = "forget")]
    show: bool,
    /// Forget what was measured on this machine.
    #[arg(long)]
    forget: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A transport between two ranks.
fn transport(name: &str) -> Result<String, String> {
    let others = || Transport::value_variants().iter().filter(|known| **known != Transport::Itself);
    let names: Vec<_> = others().map(name_of).collect();
    match names.iter().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "there is no transport `{name}` between ranks; there are {}",
            names.join(", ")
        )),
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    site: String,
    file: Option<String>,
    figures: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    transport: String,
    figure: String,
    value: f64,
    unit: &'static str,
    origin: &'static str,
}

impl Row {
    fn of((transport, name, figure): &Named) -> Self {
        let per_byte = name.ends_with("per_byte") || name == "copy";
        Self {
            transport: transport.clone(),
            figure: name.clone(),
            value: figure.value,
            unit: if per_byte { "ns/byte" } else { "ns" },
            origin: figure.origin.name(),
        }
    }
}

/// Measures, or shows, or forgets.
///
/// # Errors
/// When a measurement fails, its figures cannot be true, or they cannot be written.
pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let config = bowline::config_from_env()?;
    let file = costs::file(&config);
    if args.forget {
        let file = file.context("BOWLINE_CALIBRATION is off: nothing is remembered")?;
        costs::forget(&file)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.show {
        ensure!(
            bowline::wait::processors() >= 2,
            "two ranks need a processor each, and this process may use one; costs measured while \
             they share it would mislead (see taskset, or the affinity of the shell)"
        );
        let file = file.as_ref().context("BOWLINE_CALIBRATION is off; name a file or unset it")?;
        // Before half a minute is spent on figures that have no place.
        costs::writable(file)?;
        let (probed, mut all) = (costs::known(&config, 1, false), KnownCosts::default());
        for transport in &args.transport {
            measure(transport, &probed, &mut all)
                .with_context(|| format!("cannot calibrate {transport}; nothing was kept"))?;
        }
        costs::remember(file, &all)?;
    }
    let known = costs::remembered(&config)?;
    let report = Report {
        site: costs::site(),
        file: file.as_ref().map(|file| file.display().to_string()),
        figures: that_count(known.known()).iter().map(Row::of).collect(),
    };
    if args.json {
        output::print_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}\n", report.site);
    writeln!(text, "{:<10} {:<20} {:>10}  {:<8} origin", "transport", "figure", "value", "unit")?;
    for Row { transport, figure, value, unit, origin } in &report.figures {
        writeln!(text, "{transport:<10} {figure:<20} {value:>10.3}  {unit:<8} {origin}")?;
    }
    match &file {
        Some(file) if file.exists() => writeln!(text, "kept in {}", file.display())?,
        Some(file) => writeln!(text, "nothing is kept yet; {} does not exist", file.display())?,
        None => writeln!(text, "BOWLINE_CALIBRATION is off: nothing is kept")?,
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A figure of a transport, by their names.
type Named = (String, String, Figure);

/// Of figures of one name the surest, which is what protocols are chosen by.
fn that_count(known: &[Named]) -> Vec<Named> {
    let surer = |(transport, name, figure): &Named| {
        let same = |(t, n, _): &&Named| (t, n) == (transport, name);
        known.iter().filter(same).any(|(.., other)| other.origin > figure.origin)
    };
    known.iter().filter(|&figure| !surer(figure)).cloned().collect()
}

/// Messages that go by the short path and by one buffer, for the cost of a byte.
const EAGER: &str = "8,512,1k,2k,4k";

/// Messages that are read.
const READ: &str = "4k,16k,64k,128k";

/// Messages in flight at once, for what one requires.
const WINDOWS: [u32; 4] = [1, 4, 16, 64];

/// How often everything is measured. The shortest times count, and the rounds must agree.
const ROUNDS: usize = 3;

/// How far rounds may differ: the quotient of the longest and the shortest time of a point, at the median
/// of all points. On a quiet machine it is 1.02 to 1.15.
const AGREEMENT: f64 = 1.5;

/// Least cost of a byte that is read, in costs of a byte's copy. Reading is a copy at least, which the
/// processor does a little faster for long messages than for the measured ones.
const LEAST_READ: f64 = 0.5;

/// Times by window or length, in the order in which they were measured.
type Points = Vec<(f64, f64)>;

fn measure(transport: &str, probed: &KnownCosts, costs: &mut KnownCosts) -> Result<()> {
    let style = ProgressStyle::with_template("{msg:<28} {bar:30} {pos}/{len}")?;
    let bar = ProgressBar::new((ROUNDS * (WINDOWS.len() + 2)) as u64).with_style(style);
    // A round takes one to two seconds, over networks as well.
    let short = if transport == "shm" { ["5000", "20000"] } else { ["400", "2000"] };
    let [windows, trips] = short;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        bar.set_message(format!("{transport}: series of messages"));
        let mut series = Points::new();
        for window in WINDOWS {
            let count = window.to_string();
            let arguments = ["tag_bw", "--size", "8", "--window", &count, "--iterations", windows];
            let times = perf(transport, &arguments, &[])?;
            let (_, each) = times.first().context("no figure of a series")?;
            series.push((f64::from(window), each * f64::from(window)));
            bar.inc(1);
        }
        let lengths = |sizes, settings: &[_]| {
            let arguments = ["tag_lat", "--size", sizes, "--iterations", trips];
            perf(transport, &arguments, settings)
        };
        bar.set_message(format!("{transport}: lengths"));
        let eager = lengths(EAGER, &[("BOWLINE_RNDV_THRESHOLD", "1g")])?;
        bar.inc(1);
        bar.set_message(format!("{transport}: reads"));
        let forced = [("BOWLINE_RNDV_THRESHOLD", "1k"), ("BOWLINE_COOPERATE", "1g")];
        rounds.push([series, eager, lengths(READ, &forced)?]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [series, eager, read] = agreed(&rounds)?;
    let copy = copy(probed, transport);
    let figures = fit(&series, &eager, &read, copy)?;
    believe(&figures, copy)?;
    for (name, value) in figures {
        costs.learn(transport, name, Figure { value, origin: CostOrigin::Calibrated });
    }
    Ok(())
}

/// The shortest time of each point, if the rounds agree about them.
fn agreed(rounds: &[[Points; 3]]) -> Result<[Points; 3]> {
    let mut shortest = rounds.first().context("nothing was measured")?.clone();
    let mut longest = shortest.clone();
    for (kind, points) in rounds.iter().flat_map(|round| round.iter().enumerate()) {
        ensure!(points.len() == shortest[kind].len(), "a measurement's output lacks figures");
        for (at, &(_, time)) in points.iter().enumerate() {
            shortest[kind][at].1 = shortest[kind][at].1.min(time);
            longest[kind][at].1 = longest[kind][at].1.max(time);
        }
    }
    let both = longest.iter().flatten().zip(shortest.iter().flatten());
    let mut spread: Vec<f64> = both.map(|(long, short)| long.1 / short.1).collect();
    spread.sort_by(f64::total_cmp);
    let median = spread[spread.len() / 2];
    ensure!(
        median <= AGREEMENT,
        "{ROUNDS} rounds of the same measurement differ by a factor of {median:.1}; other programs \
         run on this machine: end them, or measure later"
    );
    Ok(shortest)
}

/// Refuses figures that no machine has.
fn believe(figures: &[(&'static str, f64)], copy: f64) -> Result<()> {
    let value = |wanted: &str| figures.iter().find(|(name, _)| *name == wanted).map(|f| f.1);
    let (read, message) = (value("get.per_byte"), value("message.required"));
    let why = match (read, message) {
        (Some(read), _) if read < LEAST_READ * copy => {
            format!("reading a byte would take {read:.3} ns, and copying it takes {copy:.3}")
        }
        (_, Some(0.0)) => "a message would take no time of its processor".to_owned(),
        _ => return Ok(()),
    };
    bail!(
        "the figures cannot be true ({why}); other programs run on this machine: end them, or \
         measure later"
    )
}

/// What a copy costs, which one process has measured before.
fn copy(known: &KnownCosts, transport: &str) -> f64 {
    let found = known.known().iter().find(|(t, name, _)| t == transport && name == "copy");
    found.map_or(0.03, |(.., figure)| figure.value)
}

/// The model's figures from sizes and shortest times.
fn fit(
    series: &[(f64, f64)],
    eager: &[(f64, f64)],
    read: &[(f64, f64)],
    copy: f64,
) -> Result<Vec<(&'static str, f64)>> {
    let (Some((_, required)), Some((start, byte)), Some((read_start, read_byte))) =
        (line(series), line(eager), line(read))
    else {
        bail!("too few figures to fit");
    };
    let required = required.clamp(0.0, start);
    Ok(vec![
        ("message.required", required),
        ("message.pipelining", start - required),
        ("message.per_byte", (byte - 2.0 * copy).max(0.0)),
        ("get.pipelining", 0.0),
        ("get.required", (read_start - start).max(0.0)),
        ("get.per_byte", read_byte.max(0.0)),
    ])
}

/// The line through points by least squares of relative errors, so that short messages count as
/// much as long ones: intercept and slope.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let weight = 1.0 / (y * y).max(1.0);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    if points.len() < 2 || determinant <= 0.0 {
        return None;
    }
    let slope = (w * wxy - wx * wy) / determinant;
    Some(((wy - slope * wx) / w, slope))
}

/// Sizes and shortest times of a test of `bowline perf`, over one transport.
fn perf(transport: &str, arguments: &[&str], settings: &[(&str, &str)]) -> Result<Vec<(f64, f64)>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg("perf").args(arguments).arg("--json");
    command.env("BOWLINE_TRANSPORTS", format!("self,{transport}"));
    command.env("BOWLINE_CALIBRATION", "off");
    command.envs(settings.iter().copied());
    let output = command.output().context("cannot start a measurement")?;
    ensure!(
        output.status.success(),
        "bowline perf {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let figures: Value =
        serde_json::from_slice(&output.stdout).context("a measurement's output is damaged")?;
    let figures = match figures {
        Value::Array(several) => several,
        one => vec![one],
    };
    let number = |figure: &Value, name: &str| figure.get(name).and_then(Value::as_f64);
    let rows = figures.iter().map(|f| Some((number(f, "size")?, number(f, "min_ns")?)));
    rows.collect::<Option<_>>().context("a measurement's output lacks figures")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_from_times_that_the_model_made() {
        // pipelining 200, required 40, a byte 0.1 and 0.05 in each copy; reading 700 and 0.07.
        let series: Vec<_> = [1.0, 4.0, 16.0, 64.0].map(|b| (b, 200.0 + 40.0 * b)).into();
        let eager: Vec<_> = [8.0, 512.0, 4096.0].map(|n| (n, 240.0 + 0.2 * n)).into();
        let read: Vec<_> = [4096.0, 65536.0].map(|n| (n, 240.0 + 700.0 + 0.07 * n)).into();
        let figures = fit(&series, &eager, &read, 0.05).unwrap();
        let expected = [40.0, 200.0, 0.1, 0.0, 700.0, 0.07];
        for ((name, value), expected) in figures.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{name}: {value}, not {expected}");
        }
    }

    #[test]
    fn rounds_that_differ_are_refused_and_the_shortest_times_count() {
        let round = |factor: f64| {
            let points = |times: &[f64]| times.iter().map(|&t| (t, t * factor)).collect::<Points>();
            [points(&[1.0, 2.0]), points(&[3.0]), points(&[4.0, 5.0])]
        };
        assert_eq!(agreed(&[round(1.1), round(1.0), round(1.2)]).unwrap(), round(1.0));
        let error = agreed(&[round(1.0), round(1.6)]).unwrap_err().to_string();
        assert!(error.contains("factor of 1.6"), "{error}");
        // A point that was disturbed once is no busy machine.
        let mut once = round(1.0);
        once[1][0].1 = 90.0;
        assert_eq!(agreed(&[once, round(1.0)]).unwrap(), round(1.0));
        assert!(agreed(&[]).is_err());
    }

    #[test]
    fn figures_that_no_machine_has_are_refused() {
        let good = [("message.required", 40.0), ("get.per_byte", 0.04)];
        believe(&good, 0.05).unwrap();
        // 65 GB/s over the loopback device, as a machine gave them while it compiled.
        let error = believe(&[("get.per_byte", 0.015)], 0.05).unwrap_err().to_string();
        assert!(error.contains("0.015"), "{error}");
        assert!(believe(&[("message.required", 0.0), ("get.per_byte", 1.0)], 0.05).is_err());
    }

    #[test]
    fn of_two_figures_of_one_name_the_surer_is_shown() {
        let figure = |value, origin| Figure { value, origin };
        let known = [
            ("shm".to_owned(), "message.per_byte".to_owned(), figure(1.0, CostOrigin::Assumed)),
            ("shm".to_owned(), "message.per_byte".to_owned(), figure(2.0, CostOrigin::Calibrated)),
            ("tcp".to_owned(), "message.per_byte".to_owned(), figure(3.0, CostOrigin::Assumed)),
        ];
        assert_eq!(that_count(&known), known[1..]);
    }

    #[test]
    fn noise_never_gives_a_negative_cost() {
        let flat = [(1.0, 100.0), (2.0, 50.0)];
        let figures = fit(&flat, &flat, &flat, 1.0).unwrap();
        assert!(figures.iter().all(|(_, value)| *value >= 0.0), "{figures:?}");
        assert!(fit(&flat[..1], &flat, &flat, 1.0).is_err());
    }
}

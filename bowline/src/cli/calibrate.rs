//! `bowline calibrate`: measures between two ranks what messages cost on each transport, so that
//! protocols are chosen by this machine's figures.
//!
//! It starts `bowline perf` with one protocol forced at a time and fits the model's figures to the
//! shortest times (Rüfenacht 2020, section 4.3, fits them in the same way): windows of 1 to 64 short
//! messages give what one message requires of its processor, lengths give the cost of a byte, and
//! messages that are read from their senders' memory what reading costs.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use bowline::costs;
use bowline::ucp::cost::{Costs, Figure, Origin};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

/// Measure between two ranks what the choice of protocols depends on, and remember it.
///
/// Takes some ten seconds for each transport, and wants a machine that does nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline calibrate                        shared memory and TCP
  bowline calibrate --transport shm        one of them
  bowline calibrate --show                 what is known, without measuring
  bowline calibrate --forget               back to what comes with the library")]
pub(crate) struct Args {
    /// Transports to measure, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "shm,tcp")]
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
    fn of((transport, name, figure): &(String, String, Figure)) -> Self {
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
/// When a measurement fails or the figures cannot be written.
pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let config = bowline::config_from_env()?;
    let file = costs::file(&config);
    if args.forget {
        let file = file.context("BOWLINE_CALIBRATION is off: nothing is remembered")?;
        costs::forget(&file).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.show {
        ensure!(
            bowline::wait::processors() >= 2,
            "two ranks need a processor each, and this process may use one; costs measured while \
             they take turns would mislead (see taskset, or the affinity of the shell)"
        );
        let file = file.as_ref().context("BOWLINE_CALIBRATION is off; name a file or unset it")?;
        let (probed, mut all) = (costs::known(&config, 1, false), Costs::default());
        for transport in &args.transport {
            measure(transport, &probed, &mut all)
                .with_context(|| format!("cannot calibrate {transport}"))?;
        }
        costs::remember(file, &all).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let known = costs::remembered(&config);
    let report = Report {
        site: costs::site(),
        file: file.map(|file| file.display().to_string()),
        figures: known.known().iter().map(Row::of).collect(),
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", report.site);
    println!("{:<10} {:<20} {:>10}  {:<8} origin", "transport", "figure", "value", "unit");
    for Row { transport, figure, value, unit, origin } in &report.figures {
        println!("{transport:<10} {figure:<20} {value:>10.3}  {unit:<8} {origin}");
    }
    if let Some(file) = &report.file {
        println!("kept in {file}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Messages that go by the short way and by one buffer, for the cost of a byte.
const EAGER: &str = "8,512,1k,2k,4k";

/// Messages that are read.
const READ: &str = "4k,16k,64k,128k";

/// Messages in flight at once, for what one requires.
const WINDOWS: [u32; 4] = [1, 4, 16, 64];

fn measure(transport: &str, probed: &Costs, costs: &mut Costs) -> Result<()> {
    let style = ProgressStyle::with_template("{msg:<28} {bar:30} {pos}/{len}")?;
    let bar = ProgressBar::new(WINDOWS.len() as u64 + 2).with_style(style);
    bar.set_message(format!("{transport}: series of messages"));
    let mut series = Vec::new();
    for window in WINDOWS {
        let times =
            perf(transport, &["tag_bw", "--size", "8", "--window", &window.to_string()], &[])?;
        let (_, each) = times.first().context("no figure of a series")?;
        series.push((f64::from(window), each * f64::from(window)));
        bar.inc(1);
    }
    bar.set_message(format!("{transport}: lengths"));
    let eager =
        perf(transport, &["tag_lat", "--size", EAGER], &[("BOWLINE_RNDV_THRESHOLD", "1g")])?;
    bar.inc(1);
    bar.set_message(format!("{transport}: reads"));
    let forced = [("BOWLINE_RNDV_THRESHOLD", "1k"), ("BOWLINE_COOPERATE", "1g")];
    let read = perf(transport, &["tag_lat", "--size", READ], &forced)?;
    bar.finish_and_clear();
    for (name, value) in fit(&series, &eager, &read, copy(probed, transport))? {
        costs.learn(transport, name, Figure { value, origin: Origin::Calibrated });
    }
    Ok(())
}

/// What a copy costs, which one process has measured before.
fn copy(known: &Costs, transport: &str) -> f64 {
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
    fn noise_never_gives_a_negative_cost() {
        let flat = [(1.0, 100.0), (2.0, 50.0)];
        let figures = fit(&flat, &flat, &flat, 1.0).unwrap();
        assert!(figures.iter().all(|(_, value)| *value >= 0.0), "{figures:?}");
        assert!(fit(&flat[..1], &flat, &flat, 1.0).is_err());
    }
}

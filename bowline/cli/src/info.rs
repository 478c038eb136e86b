//! `bowline info`: what this machine, this build and this environment mean for Bowline.

pub(crate) mod machine;
mod probe;
mod transports;

use std::fmt::Write;
use std::process::ExitCode;

use bowline_base::config::{Config, SettingRow};
use bowline_model::coll::price::JobCosts;
use serde::Serialize;

/// Show what this machine offers, which transports there are, and all settings.
///
/// Without a choice: machine and transports.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline info
  bowline info --config                 every setting, its value, and what it costs
  bowline info --transports --json      capabilities and limits, for programs to read")]
pub(crate) struct Args {
    /// Every setting: value, default, origin, form, meaning and cost.
    #[arg(long)]
    config: bool,
    /// Only the transports, with their limits.
    #[arg(long)]
    transports: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// What a process of the probe does.
    #[arg(long, hide = true)]
    probe: Option<String>,
}

/// All that is shown; what was not asked for is left out.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<machine::Machine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transports: Option<Vec<transports::Transport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collectives: Option<[Collectives; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Vec<Setting>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<Vec<String>>,
}

/// What the algorithms of collectives are chosen by.
#[derive(Debug, Serialize)]
struct Collectives {
    /// Whether the job is on one node or several.
    nodes: &'static str,
    /// Where costs are from: given, fitted or assumed; a table of limits decides without any.
    source: &'static str,
    costs: Option<String>,
}

impl Collectives {
    fn of(spread: bool, config: &Config) -> anyhow::Result<Self> {
        let known = bowline::model_file::coll_costs(spread, config)?;
        let source = known.as_ref().map_or("unknown", |(_, source)| source.name());
        let nodes = if spread { "several" } else { "one" };
        let costs = known.map(|(text, _)| match text.parse::<JobCosts>() {
            Ok(costs) => costs.to_string(),
            Err(error) => format!("{text} ({}: {error})", bowline::mpi::COLL_COSTS.name()),
        });
        Ok(Self { nodes, source, costs })
    }
}

#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    default: String,
    origin: String,
    form: String,
    meaning: &'static str,
    cost: &'static str,
    change: &'static str,
}

impl From<SettingRow> for Setting {
    fn from(row: SettingRow) -> Self {
        Self {
            name: row.name,
            value: row.value,
            default: row.default,
            origin: row.origin.to_string(),
            form: row.form,
            meaning: row.doc.trim(),
            cost: row.cost,
            change: row.change,
        }
    }
}

/// Shows it.
///
/// # Errors
/// When a setting in the environment is bad.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(role) = &args.probe {
        return probe::process(role);
    }
    let config = bowline::config_from_env()?;
    let report = Report::new(args, &config)?;
    if args.json {
        super::output::print_json(&report)?;
    } else {
        super::output::print(&report.text(args.transports)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn new(args: &Args, config: &Config) -> anyhow::Result<Self> {
        let all = !args.config && !args.transports;
        let unknown = || config.unknown().iter().map(ToString::to_string).collect();
        let collectives =
            || anyhow::Ok([Collectives::of(false, config)?, Collectives::of(true, config)?]);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: all.then(machine::Machine::here),
            transports: (all || args.transports).then(|| transports::all(config)),
            settings: args.config.then(|| config.rows().map(Setting::from).collect()),
            unknown: args.config.then(unknown),
            collectives: all.then(collectives).transpose()?,
        })
    }

    /// The report for people; `limits` asks for everything about transports.
    fn text(&self, limits: bool) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        writeln!(out, "bowline {}", self.version)?;
        if let Some(machine) = &self.machine {
            writeln!(out)?;
            for (name, value) in machine.lines() {
                writeln!(out, "{name:<22} {value}")?;
            }
        }
        for transport in self.transports.iter().flatten() {
            write!(out, "\n{}", transport.text(limits)?)?;
        }
        for Collectives { nodes, source, costs } in self.collectives.iter().flatten() {
            let costs = costs.as_deref().unwrap_or("a table of limits decides");
            writeln!(out, "\ncollectives, nodes: {nodes:<8} costs are {source}: {costs}")?;
        }
        for setting in self.settings.iter().flatten() {
            writeln!(out, "\n{} = {}", setting.name, setting.value)?;
            writeln!(out, "    {}", setting.meaning)?;
            writeln!(out, "    from: {}; default: {}", setting.origin, setting.default)?;
            writeln!(out, "    form: {}", setting.form)?;
            writeln!(out, "    cost: {}", setting.cost)?;
            writeln!(out, "    change it: {}", setting.change)?;
        }
        for unknown in self.unknown.iter().flatten() {
            writeln!(out, "\n{unknown}")?;
        }
        Ok(out)
    }
}

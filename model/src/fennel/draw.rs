//! Timelines of a run as an SVG picture: a row for each process, a bar for each task, a line for each message.

use std::fmt::Write;

use super::instrument::Ran;
use super::program::Act;

const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const LEFT: f64 = 48.0;
const WIDTH: f64 = 900.0;
const BELOW: f64 = 36.0;

/// Draws what was run on so many processes.
pub fn timeline(processes: u32, tasks: &[Ran]) -> String {
    let end = tasks.iter().map(|ran| ran.local.max(ran.arrived)).fold(1.0, f64::max);
    let x = |time: f64| LEFT + time / end * WIDTH;
    let y = |process: u32| f64::from(process) * ROW + ROW / 2.0;
    let height = f64::from(processes) * ROW + BELOW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n",
        LEFT + WIDTH + 24.0
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(svg, "{text}").expect("a string takes what is written to it");
    };
    for process in 0..processes {
        let (y, right) = (y(process), x(end));
        line(format_args!("<text x=\"4\" y=\"{:.1}\">{process}</text>", y + 4.0));
        line(format_args!("<path d=\"M{LEFT} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>"));
    }
    for ran in tasks {
        let colour = match ran.task.act {
            Act::Start | Act::Proxy | Act::Recv { .. } => continue,
            Act::Sleep(_) => "#ccc",
            Act::Compute(_) => "#d62728",
            Act::Copy(_) => "#ff7f0e",
            Act::Put { .. } | Act::Send { .. } | Act::Get { .. } => "#1f77b4",
        };
        let (from, to, row) = (x(ran.start), x(ran.local), y(ran.task.process));
        line(format_args!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
            row - BAR / 2.0,
            (to - from).max(0.5)
        ));
        let other = match ran.task.act {
            Act::Put { to, .. } | Act::Send { to, .. } => to,
            Act::Get { from, .. } => from,
            _ => continue,
        };
        line(format_args!(
            "<path d=\"M{to:.1} {row:.1}L{:.1} {:.1}\" stroke=\"{colour}\" stroke-opacity=\"0.5\"/>",
            x(ran.arrived),
            y(other)
        ));
    }
    let axis = f64::from(processes) * ROW + 8.0;
    for tenth in 0..=10 {
        let time = end * f64::from(tenth) / 10.0;
        line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{time:.0}</text>",
            x(time),
            axis + 8.0
        ));
    }
    line(format_args!("<text x=\"{LEFT}\" y=\"{:.1}\">nanoseconds</text>", axis + 22.0));
    svg.push_str("</svg>\n");
    svg
}

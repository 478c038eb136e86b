//! Memory by the number of ranks: what a rank holds to receive, and what its peers add.
//!
//! The example `receive_memory` opens one worker in a job of so many ranks and counts; here its
//! rows are collected, checked for the one thing that is promised - receive memory does not grow
//! with the number of ranks - and shown.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::output;
use crate::workspace::Workspace;

/// Ranks on one node, the largest scale that one machine can hold.
const SCALES: &[u32] = &[2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const SCALES_QUICK: &[u32] = &[2, 8, 32];

/// What to count and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer scales
    #[arg(long)]
    quick: bool,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to draw the figures, a PNG
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// What the example prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    ranks: u32,
    /// Shared memory in which this rank receives.
    receive_bytes: u64,
    /// Heap of its worker before it knows anybody.
    worker_bytes: u64,
    /// Heap of its worker after one message to every other rank, less `worker_bytes`.
    peers_bytes: u64,
}

impl Row {
    fn per_peer(&self) -> u64 {
        self.peers_bytes / u64::from(self.ranks.max(2) - 1)
    }
}

/// Counts and shows.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    super::build_release(workspace, &["-p", "bowline", "--example", "receive_memory"])?;
    let target = workspace.metadata.target_directory.as_std_path();
    let program = target.join("release/examples/receive_memory");
    let scales = if options.quick { SCALES_QUICK } else { SCALES };
    println!("{:>6} {:>14} {:>13} {:>15}", "ranks", "receive", "worker heap", "heap per peer");
    let mut rows = Vec::new();
    for &ranks in scales {
        let row = match count(&program, ranks) {
            Ok(row) => row,
            // A scale that this machine cannot hold ends the table; the first ones it must.
            Err(why) if rows.len() >= SCALES_QUICK.len() => {
                println!("{ranks:>6} not counted: {why:#}");
                break;
            }
            Err(why) => return Err(why),
        };
        let Row { receive_bytes, worker_bytes, .. } = row;
        let peer = row.per_peer();
        println!("{ranks:>6} {receive_bytes:>12} B {worker_bytes:>11} B {peer:>13} B");
        rows.push(row);
    }
    if let Some(path) = &options.json {
        output::write_json(path, &rows)?;
    }
    if let Some(path) = &options.plot {
        draw(path, &rows).map_err(|why| anyhow!("cannot draw {}: {why}", path.display()))?;
        println!("drawn: {}", path.display());
    }
    constant(&rows)
}

/// Fails when receive memory is not the same at every scale.
fn constant(rows: &[Row]) -> Result<()> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    match rows.iter().find(|row| row.receive_bytes != first.receive_bytes) {
        None => Ok(()),
        Some(other) => bail!(
            "receive memory depends on the number of ranks: {} bytes with {}, {} with {}",
            first.receive_bytes,
            first.ranks,
            other.receive_bytes,
            other.ranks
        ),
    }
}

fn count(program: &Path, ranks: u32) -> Result<Row> {
    let output = Command::new(program)
        .arg(ranks.to_string())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("with {ranks} ranks: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} printed no row", program.display()))
}

/// Receive memory and what all peers together add, over the number of ranks; both axes are
/// logarithmic.
fn draw(path: &Path, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    bowline_bench::register_font()?;
    let font = |size: u32| ("sans-serif", size).into_font();
    let root = BitMapBackend::new(path, (900, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let ranks = |row: &Row| f64::from(row.ranks);
    let last = rows.last().map_or(2.0, ranks).max(4.0);
    let most = rows.iter().map(|row| row.receive_bytes.max(row.peers_bytes)).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(&root)
        .margin(20)
        .caption("Memory of one rank", font(24))
        .x_label_area_size(45)
        .y_label_area_size(80)
        .build_cartesian_2d((2.0..last).log_scale(), (1e3..most as f64 * 4.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("ranks on the node")
        .y_desc("bytes")
        .label_style(font(15))
        .x_label_formatter(&|ranks| format!("{ranks:.0}"))
        .y_label_formatter(&|bytes| format!("{bytes:.0}"))
        .draw()?;
    let curve =
        |bytes: fn(&Row) -> u64| rows.iter().map(move |r| (ranks(r), bytes(r).max(1) as f64));
    let key =
        |color: RGBColor| move |(x, y): (i32, i32)| PathElement::new([(x, y), (x + 20, y)], color);
    let receive = LineSeries::new(curve(|row| row.receive_bytes), BLUE.stroke_width(2));
    chart.draw_series(receive)?.label("receive memory").legend(key(BLUE));
    let peers = LineSeries::new(curve(|row| row.peers_bytes), RED.stroke_width(2));
    chart.draw_series(peers)?.label("heap for all peers").legend(key(RED));
    chart.configure_series_labels().label_font(font(15)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ranks: u32, receive_bytes: u64) -> Row {
        Row { ranks, receive_bytes, worker_bytes: 1, peers_bytes: 3000 }
    }

    #[test]
    fn growing_receive_memory_is_an_error() {
        assert!(constant(&[row(2, 4096), row(64, 4096)]).is_ok());
        let error = constant(&[row(2, 4096), row(64, 8192)]).expect_err("it grew").to_string();
        assert!(error.contains("8192 with 64"), "{error}");
    }

    #[test]
    fn what_the_example_prints_is_a_row() {
        let text = r#"{"ranks":4,"receive_bytes":10,"worker_bytes":1,"peers_bytes":3000}"#;
        let parsed: Row = serde_json::from_str(text).expect("it is one");
        assert_eq!(parsed, row(4, 10));
        assert_eq!(parsed.per_peer(), 1000);
    }
}

//! Curves of the experiments, over a logarithmic axis.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A contestant's points.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

const COLORS: [RGBColor; 11] = [
    RGBColor(214, 96, 43),
    RGBColor(96, 142, 190),
    RGBColor(60, 150, 80),
    RGBColor(150, 80, 160),
    RGBColor(120, 120, 120),
    RGBColor(200, 160, 30),
    RGBColor(40, 60, 120),
    RGBColor(180, 60, 90),
    RGBColor(60, 180, 190),
    RGBColor(120, 70, 20),
    RGBColor(230, 150, 180),
];

/// Of the plot, pixels.
const WIDTH: u32 = 860;

/// Of the names of the curves beside it: a stroke in front of them, and a letter of them.
const STROKE: u32 = 40;
const LETTER: u32 = 9;

/// Marks of the axis whose labels have space beside each other.
const MARKS: f64 = 14.0;

/// How values go up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Evenly, from 0 or below.
    Linear,
    /// By their ratios. None may be 0 or less.
    Logarithmic,
}

/// Draws curves into a PNG, over axes with these names, x first. Curves without points draw nothing, and where none has
/// some there is no picture.
pub(super) fn draw(path: &Path, title: &str, axes: [&str; 2], curves: &[Curve]) -> Result<()> {
    draw_with(path, title, axes, curves, Values::Linear)
}

/// The same where values go up so.
pub(super) fn draw_with(
    path: &Path,
    title: &str,
    axes: [&str; 2],
    curves: &[Curve],
    values: Values,
) -> Result<()> {
    if curves.iter().all(|curve| curve.points.is_empty()) {
        println!("not drawn, since there are no points: {}", path.display());
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    }
    bowline_bench::register_font().map_err(|why| anyhow!("no font: {why}"))?;
    let all = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let (least, greatest) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let painted = match values {
        Values::Linear => {
            let (bottom, top) = (least.min(0.0) * 1.1, greatest * 1.1);
            let top = if top > bottom { top } else { bottom + 1.0 };
            paint(path, title, axes, curves, bottom..top)
        }
        Values::Logarithmic => {
            ensure!(least > 0.0, "{}: {least} is beyond a logarithmic axis", path.display());
            paint(path, title, axes, curves, (least / 1.1..greatest * 1.1).log_scale())
        }
    };
    painted.map_err(|why| anyhow!("{}: {why}", path.display()))?;
    println!("drawn: {}", path.display());
    Ok(())
}

/// Where the axis has marks: at numbers that were measured, as far as their labels have space beside each other.
fn marks(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (all.first(), all.last()) else { return all };
    let apart = (greatest / least).powf(1.0 / MARKS);
    let mut marks: Vec<f64> = Vec::new();
    for number in all {
        if marks.last().is_none_or(|last| number >= last * apart) {
            marks.push(number);
        }
    }
    marks
}

fn paint<Y>(
    path: &Path,
    title: &str,
    [across, up]: [&str; 2],
    curves: &[Curve],
    values: Y,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let all = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    let x = all().fold(f64::INFINITY, f64::min) / 1.1..all().fold(0.0, f64::max) * 1.1;
    let longest = curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
    let size = (WIDTH + STROKE + LETTER * longest as u32, 600);
    let area = BitMapBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, legend) = area.split_horizontally(WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(x.log_scale().base(2.0).with_key_points(marks(all())), values)?;
    let label = |x: &f64| format!("{}", (x * 1000.0).round() / 1000.0 + 0.0);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(across).y_desc(up).x_label_formatter(&label).y_label_formatter(&label).draw()?;
    for (curve, &color) in curves.iter().zip(COLORS.iter().cycle()) {
        let points = || curve.points.iter().copied();
        chart.draw_series(LineSeries::new(points(), &color))?;
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    // Beside the plot, where it covers no points.
    for ((curve, &color), y) in curves.iter().zip(COLORS.iter().cycle()).zip((60..).step_by(24)) {
        legend.draw(&PathElement::new([(4, y), (24, y)], color.stroke_width(2)))?;
        let middle = Pos::new(HPos::Left, VPos::Center);
        let style = ("sans-serif", 14).into_font().color(&BLACK).pos(middle);
        legend.draw(&Text::new(curve.name.as_str(), (30, y), style))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_numbers_that_were_measured() {
        let ranks = [4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 8.0];
        assert_eq!(marks(ranks.into_iter()), [4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0]);
        let many: Vec<f64> = (1..=1024).map(f64::from).collect();
        let few = marks(many.iter().copied());
        assert!((8..=16).contains(&few.len()) && few.iter().all(|mark| mark.fract() == 0.0));
        assert!(marks(std::iter::empty()).is_empty());
    }
}

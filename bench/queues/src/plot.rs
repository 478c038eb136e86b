//! Tables as pictures: curves over two logarithmic axes, with the names of the curves beside them.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::table::{Chart, Curve, Table, Unit};

const COLORS: [RGBColor; 8] = [
    RGBColor(214, 96, 43),
    RGBColor(96, 142, 190),
    RGBColor(60, 150, 80),
    RGBColor(150, 80, 160),
    RGBColor(120, 120, 120),
    RGBColor(200, 160, 30),
    RGBColor(40, 60, 120),
    RGBColor(180, 60, 90),
];

/// The picture, and the part of its width in which curves are named.
const SIZE: (u32, u32) = (1160, 640);
const NAMES: u32 = 190;

/// Draws every table that has a picture into `directory/NAME.png`.
pub(crate) fn draw(directory: &Path, tables: &[Table]) -> Result<()> {
    std::fs::create_dir_all(directory).context("cannot make the directory")?;
    bowline_bench::register_font().map_err(|why| anyhow!("no font: {why}"))?;
    for table in tables {
        if let Some(chart) = &table.chart {
            let path = directory.join(format!("{}.png", table.name));
            paint(&path, &table.title, chart)
                .map_err(|why| anyhow!("{}: {why}", path.display()))?;
            println!("drawn: {}", path.display());
        }
    }
    Ok(())
}

/// From just below the least to just above the greatest of some positive numbers.
fn range(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let low = values.clone().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    let high = values.fold(low, f64::max);
    low / 1.2..high * 1.2
}

/// Numbers that are named at an axis of many values: powers of ten, and if there are few of those what
/// lies between.
fn round_numbers(range: &std::ops::Range<f64>) -> Vec<f64> {
    let decades = (range.end / range.start).log10();
    let steps: &[f64] = match decades {
        d if d > 3.0 => &[1.0],
        d if d > 1.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    };
    let first = range.start.log10().floor() as i32;
    let last = range.end.log10().ceil() as i32;
    let all = (first..=last).flat_map(|k| steps.iter().map(move |step| step * 10f64.powi(k)));
    all.filter(|value| range.contains(value)).collect()
}

/// The values of the curves themselves, but for those too close to another one to be distinguished.
fn measured(values: impl Iterator<Item = f64>, range: &std::ops::Range<f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.filter(|&value| value > 0.0).collect();
    all.sort_by(f64::total_cmp);
    let width = (range.end / range.start).ln();
    let mut shown: Vec<f64> = Vec::new();
    for value in all {
        if shown.last().is_none_or(|last| (value / last).ln() > 0.045 * width) {
            shown.push(value);
        }
    }
    shown
}

/// Curves that lie on each other as one, whose name has all of their names, a line each.
fn merged(curves: &[Curve]) -> Vec<Curve> {
    let mut all: Vec<Curve> = Vec::new();
    for curve in curves {
        let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * b.abs();
        let same = |known: &&mut Curve| {
            let pairs = known.points.iter().zip(&curve.points);
            known.points.len() == curve.points.len()
                && pairs.into_iter().all(|(a, b)| near(a.0, b.0) && near(a.1, b.1))
        };
        match all.iter_mut().find(same) {
            Some(known) => known.name += &format!("\n{}", curve.name),
            None => all.push(curve.clone()),
        }
    }
    all
}

/// A number with its unit.
fn shown(unit: Unit, value: f64) -> String {
    // Lengths of messages are powers of two.
    if unit == Unit::Bytes && (1024.0..1e6).contains(&value) && value % 1024.0 == 0.0 {
        return format!("{:.0} KiB", value / 1024.0);
    }
    let scaled: &[(f64, &str)] = match unit {
        Unit::None => return format!("{value:.0}"),
        Unit::Bytes => &[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")],
        Unit::Nanoseconds => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
    };
    let (by, sign) = scaled.iter().find(|(by, _)| value >= *by).copied().unwrap_or((1.0, ""));
    let text = format!("{:.1}", value / by);
    format!("{}{sign}", text.trim_end_matches(".0"))
}

/// A logarithmic axis whose names stand where they are wanted.
fn axis(
    range: std::ops::Range<f64>,
    named: Vec<f64>,
) -> impl Ranged<ValueType = f64, FormatOption = DefaultFormatting> {
    struct Named<R>(R, Vec<f64>);
    impl<R: Ranged<ValueType = f64>> Ranged for Named<R> {
        type ValueType = f64;
        type FormatOption = DefaultFormatting;
        fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
            self.0.map(value, limit)
        }
        fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
            self.1.clone()
        }
        fn range(&self) -> std::ops::Range<f64> {
            self.0.range()
        }
    }
    let inner: plotters::coord::combinators::LogCoord<f64> = range.log_scale().into();
    Named(inner, named)
}

fn paint(path: &Path, title: &str, chart: &Chart) -> Result<(), Box<dyn std::error::Error>> {
    let points = chart.curves.iter().flat_map(|curve| curve.points.iter().copied());
    let (xs, ys) = (range(points.clone().map(|p| p.0)), range(points.clone().map(|p| p.1)));
    let (named_x, named_y) = (measured(points.map(|p| p.0), &xs), round_numbers(&ys));
    let font = |size: u32| ("sans-serif", size).into_font();
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 - NAMES);
    let mut drawn = ChartBuilder::on(&left)
        .margin(20)
        .caption(title, font(18))
        .x_label_area_size(45)
        .y_label_area_size(90)
        .build_cartesian_2d(axis(xs, named_x), axis(ys, named_y))?;
    drawn
        .configure_mesh()
        .x_desc(chart.x)
        .y_desc(chart.y)
        .label_style(font(15))
        .x_label_formatter(&|x| shown(chart.x_unit, *x))
        .y_label_formatter(&|y| shown(chart.y_unit, *y))
        .draw()?;
    let mut families: Vec<String> = Vec::new();
    let mut y = 70;
    for curve in merged(&chart.curves) {
        // Percentiles of the same have one color.
        let family = curve.name.split(", p99").next().unwrap_or_default();
        let family = family.split(", median").next().unwrap_or_default().to_owned();
        let dashed = curve.name.ends_with(", p99");
        let known = families.iter().position(|known| *known == family);
        let color = COLORS[known.unwrap_or(families.len()) % COLORS.len()];
        if known.is_none() {
            families.push(family);
        }
        let positive: Vec<(f64, f64)> =
            curve.points.iter().copied().filter(|point| point.1 > 0.0).collect();
        let style = color.stroke_width(2);
        if dashed {
            drawn.draw_series(DashedLineSeries::new(positive.iter().copied(), 6, 4, style))?;
            for at in [0, 10, 20] {
                right.draw(&PathElement::new([(at, y), (at + 5, y)], style))?;
            }
        } else {
            drawn.draw_series(LineSeries::new(positive.iter().copied(), style))?;
            right.draw(&PathElement::new([(0, y), (25, y)], style))?;
        }
        drawn.draw_series(positive.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
        for (line, name) in curve.name.lines().enumerate() {
            let line = 16 * line as i32;
            right.draw(&Text::new(name.to_owned(), (32, y + line - 4), font(14)))?;
        }
        y += 24 + 16 * (curve.name.lines().count() as i32 - 1);
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_zero_out() {
        let range = range([0.0, 12.0, 100.0].into_iter());
        assert_eq!((range.start, range.end), (10.0, 120.0));
    }

    #[test]
    fn axes_name_what_can_be_read() {
        assert_eq!(round_numbers(&(0.9..2000.0)), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(round_numbers(&(9.0..110.0)).len(), 9);
        assert_eq!(
            measured([1.0, 56.0, 60.0, 0.0, 1e6].into_iter(), &(0.8..1.2e6)),
            [1.0, 56.0, 1e6]
        );
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(shown(Unit::Nanoseconds, 200.0), "200 ns");
        assert_eq!(shown(Unit::Nanoseconds, 1500.0), "1.5 us");
        assert_eq!(shown(Unit::Bytes, 1e7), "10 MB");
        assert_eq!(shown(Unit::Bytes, 4096.0), "4 KiB");
        assert_eq!(shown(Unit::None, 1_048_576.0), "1048576");
    }

    #[test]
    fn curves_on_each_other_are_one() {
        let curve = |name: &str, y| Curve { name: name.into(), points: vec![(1.0, y)] };
        let all = merged(&[curve("a", 1.0), curve("b", 2.0), curve("c", 1.0)]);
        let names: Vec<&str> = all.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a\nc", "b"]);
    }
}

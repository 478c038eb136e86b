//! Tables as pictures: curves over two logarithmic axes, with the names of the curves beside them.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use plotters::coord::Shift;
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

/// A panel of a picture with several, and the height of its title.
const PANEL: (u32, u32) = (430, 340);
const TITLE: u32 = 40;

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

/// The values of the curves themselves, but for those whose names would touch those of others: less than this part of the
/// axis apart.
fn measured(
    values: impl Iterator<Item = f64>,
    range: &std::ops::Range<f64>,
    apart: f64,
) -> Vec<f64> {
    let mut all: Vec<f64> = values.filter(|&value| value > 0.0).collect();
    all.sort_by(f64::total_cmp);
    let width = (range.end / range.start).ln();
    let mut shown: Vec<f64> = Vec::new();
    for value in all {
        if shown.last().is_none_or(|last| (value / last).ln() > apart * width) {
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
    if unit == Unit::Bytes && value >= 1024.0 && value % 1024.0 == 0.0 {
        let binary = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
            .map(|(bits, sign)| (f64::from(1 << bits), sign));
        let exact = binary.into_iter().find(|(by, _)| value % by == 0.0 && value / by < 1e4);
        if let Some((by, sign)) = exact {
            return format!("{:.0} {sign}", value / by);
        }
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

/// A part of a drawing.
type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// How a curve is drawn.
#[derive(Clone, Copy)]
struct Stroke {
    color: RGBColor,
    dashed: bool,
}

/// The names of curves, each with a color of its own. Percentiles of the same have one.
#[derive(Default)]
struct Families(Vec<String>);

impl Families {
    fn stroke(&mut self, name: &str) -> Stroke {
        let family = name.split(", p99").next().unwrap_or_default();
        let family = family.split(", median").next().unwrap_or_default().to_owned();
        let known = self.0.iter().position(|known| *known == family);
        let color = COLORS[known.unwrap_or(self.0.len()) % COLORS.len()];
        if known.is_none() {
            self.0.push(family);
        }
        Stroke { color, dashed: name.ends_with(", p99") }
    }
}

/// The panels of a chart with their curves, in order.
fn panels(curves: &[Curve]) -> Vec<(&str, Vec<Curve>)> {
    let mut all: Vec<(&str, Vec<Curve>)> = Vec::new();
    for curve in curves {
        match all.iter_mut().find(|(panel, _)| *panel == curve.panel) {
            Some((_, known)) => known.push(curve.clone()),
            None => all.push((&curve.panel, vec![curve.clone()])),
        }
    }
    // Only in the one panel there is space for several names of a curve.
    if let [(_, only)] = &mut all[..] {
        *only = merged(only);
    }
    all
}

fn paint(path: &Path, title: &str, chart: &Chart) -> Drawn {
    let all = panels(&chart.curves);
    let several = all.len() > 1;
    // At most four beside each other.
    let columns = all.len().clamp(1, 4);
    let rows = all.len().div_ceil(columns).max(1);
    let size = match several {
        true => (columns as u32 * PANEL.0 + NAMES, rows as u32 * PANEL.1 + TITLE),
        false => SIZE,
    };
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(size.0 - NAMES);
    let (heading, below) = left.split_vertically(if several { TITLE } else { 0 });
    if several {
        heading.draw(&Text::new(title.to_owned(), (20, 16), font(18)))?;
    }
    let ys = range(chart.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.1)));
    let (mut families, mut shown, mut y) = (Families::default(), Vec::new(), 70);
    for ((panel, curves), area) in all.iter().zip(below.split_evenly((rows, columns))) {
        let strokes: Vec<Stroke> =
            curves.iter().map(|curve| families.stroke(&curve.name)).collect();
        let caption = if several { (*panel, 15, 0.2) } else { (title, 18, 0.045) };
        draw_panel(&area, caption, chart, (curves, &strokes), ys.clone())?;
        for (curve, stroke) in curves.iter().zip(strokes) {
            if !shown.contains(&&curve.name) {
                shown.push(&curve.name);
                y = name_curve(&right, &curve.name, stroke, y)?;
            }
        }
    }
    root.present()?;
    Ok(())
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().into()
}

/// The curves of one panel on axes of their own.
fn draw_panel(
    area: &Area<'_>,
    (caption, size, apart): (&str, u32, f64),
    chart: &Chart,
    (curves, strokes): (&[Curve], &[Stroke]),
    ys: std::ops::Range<f64>,
) -> Drawn {
    let xs = || curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0));
    let across = range(xs());
    let (named_x, named_y) = (measured(xs(), &across, apart), round_numbers(&ys));
    let mut drawn = ChartBuilder::on(area)
        .margin(20)
        .caption(caption, font(size))
        .x_label_area_size(45)
        .y_label_area_size(90)
        .build_cartesian_2d(axis(across, named_x), axis(ys, named_y))?;
    drawn
        .configure_mesh()
        .x_desc(&*chart.x)
        .y_desc(&*chart.y)
        .label_style(font(15))
        .x_label_formatter(&|x| shown(chart.x_unit, *x))
        .y_label_formatter(&|y| shown(chart.y_unit, *y))
        .draw()?;
    for (curve, Stroke { color, dashed }) in curves.iter().zip(strokes) {
        let positive: Vec<(f64, f64)> =
            curve.points.iter().copied().filter(|point| point.1 > 0.0).collect();
        let style = color.stroke_width(2);
        match dashed {
            true => {
                drawn.draw_series(DashedLineSeries::new(positive.iter().copied(), 6, 4, style))?
            }
            false => drawn.draw_series(LineSeries::new(positive.iter().copied(), style))?,
        };
        drawn.draw_series(positive.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
    }
    Ok(())
}

/// Writes a curve's name, perhaps of several lines, beside its stroke; returns where the next one goes.
fn name_curve(
    area: &Area<'_>,
    name: &str,
    Stroke { color, dashed }: Stroke,
    y: i32,
) -> Result<i32, Box<dyn std::error::Error>> {
    let style = color.stroke_width(2);
    let dashes: &[(i32, i32)] = if dashed { &[(0, 5), (10, 15), (20, 25)] } else { &[(0, 25)] };
    for &(from, to) in dashes {
        area.draw(&PathElement::new([(from, y), (to, y)], style))?;
    }
    let mut below = y;
    for name in name.lines() {
        area.draw(&Text::new(name.to_owned(), (32, below - 4), font(14)))?;
        below += 16;
    }
    Ok(below + 8)
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
            measured([1.0, 56.0, 60.0, 0.0, 1e6].into_iter(), &(0.8..1.2e6), 0.045),
            [1.0, 56.0, 1e6]
        );
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(shown(Unit::Nanoseconds, 200.0), "200 ns");
        assert_eq!(shown(Unit::Nanoseconds, 1500.0), "1.5 us");
        assert_eq!(shown(Unit::Bytes, 1e7), "10 MB");
        assert_eq!(shown(Unit::Bytes, 4096.0), "4 KiB");
        assert_eq!(shown(Unit::Bytes, 4_194_304.0), "4 MiB");
        assert_eq!(shown(Unit::None, 1_048_576.0), "1048576");
    }

    #[test]
    fn names_have_one_color_in_all_panels() {
        let curve = |panel: &str, name: &str| Curve {
            panel: panel.into(),
            name: name.into(),
            points: vec![(1.0, 1.0)],
        };
        let curves = [curve("a", "x"), curve("a", "y"), curve("b", "x"), curve("b", "y, p99")];
        let all = panels(&curves);
        let sizes: Vec<_> = all.iter().map(|(panel, curves)| (*panel, curves.len())).collect();
        assert_eq!(sizes, [("a", 2), ("b", 2)]);
        let mut families = Families::default();
        let strokes = curves.each_ref().map(|curve| families.stroke(&curve.name));
        let [ax, ay, bx, by] = strokes.map(|stroke| stroke.color);
        assert!(ax == bx && ay == by && ax != ay && strokes[3].dashed);
    }

    #[test]
    fn curves_on_each_other_are_one() {
        let curve = |name: &str, y| Curve {
            panel: String::new(),
            name: name.into(),
            points: vec![(1.0, y)],
        };
        let all = merged(&[curve("a", 1.0), curve("b", 2.0), curve("c", 1.0)]);
        let names: Vec<&str> = all.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a\nc", "b"]);
    }
}

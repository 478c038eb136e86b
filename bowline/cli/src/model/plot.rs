//! Pictures of a fit, each as SVG and as PNG: for every size times with the line, residuals, and times per process; and
//! the parameters over the size.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use bowline_model::fit::{Multicast, SizeFit, Statistic};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::super::font;
use super::record::Recorded;
use super::report::{Fitted, Report};

const WIDTH: u32 = 1320;
const HEIGHT: u32 = 420;

const SEEN: RGBColor = RGBColor(40, 90, 150);
const OURS: RGBColor = RGBColor(214, 96, 43);
const OTHER: RGBColor = RGBColor(120, 120, 120);

type Drawn = Result<(), Box<dyn Error>>;

/// Draws all pictures into a directory.
///
/// # Errors
/// When there is no font, or a file cannot be written.
pub(super) fn draw(directory: &Path, recorded: &Recorded, report: &Report) -> Result<()> {
    font::register()?;
    let (fitted, samples) = (report.shortest(), recorded.without_clock());
    for fit in &fitted.sizes {
        let picture =
            Picture::Size(fit, &samples.multicasts, &recorded.circumstances.transport, fitted);
        both(directory, &format!("fit-{}", fit.size), &picture)?;
    }
    both(directory, "sizes", &Picture::Sizes(fitted))
}

/// What is drawn.
enum Picture<'a> {
    /// The fit, all samples, the transport, the other sizes.
    Size(&'a SizeFit, &'a [Multicast], &'a str, &'a Fitted),
    Sizes(&'a Fitted),
}

fn both(directory: &Path, name: &str, picture: &Picture<'_>) -> Result<()> {
    let size = (WIDTH, HEIGHT);
    let path = directory.join(format!("{name}.svg"));
    let drawn = picture.paint(&SVGBackend::new(&path, size).into_drawing_area());
    drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    let path = directory.join(format!("{name}.png"));
    let drawn = picture.paint(&BitMapBackend::new(&path, size).into_drawing_area());
    drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

impl Picture<'_> {
    fn paint<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        root.fill(&WHITE)?;
        match self {
            Self::Size(fit, samples, transport, fitted) => {
                let panels = root.split_evenly((1, 3));
                times(&panels[0], fit, samples, transport)?;
                residuals(&panels[1], fit)?;
                per_process(&panels[2], fit, fitted)?;
            }
            Self::Sizes(fitted) => sizes(root, fitted)?,
        }
        root.present()?;
        Ok(())
    }
}

/// From 0, or a little below the least of some values, to a little above the greatest.
fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> Range<f64> {
    let (mut low, mut high) = (if from_zero { 0.0 } else { f64::INFINITY }, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    } else if low > high || high.is_infinite() {
        (low, high) = (0.0, 1.0);
    }
    let margin = (high - low) * 0.06;
    (if from_zero && low == 0.0 { 0.0 } else { low - margin })..high + margin
}

/// The same with space above for a legend of three lines.
fn below_legend(range: Range<f64>) -> Range<f64> {
    range.start..range.end + 0.3 * (range.end - range.start)
}

fn greatest(fit: &SizeFit) -> f64 {
    fit.points.last().map_or(1.0, |point| f64::from(point.0))
}

/// Axes with a title.
macro_rules! chart {
    ($area:expr, $title:expr, $x:expr, $y:expr, $xs:expr, $ys:expr) => {{
        let mut chart = ChartBuilder::on($area)
            .caption($title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(80)
            .build_cartesian_2d($xs, $ys)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc($x)
            .y_desc($y)
            .x_label_formatter(&plain)
            .y_label_formatter(&plain)
            .label_style(("sans-serif", 13))
            .draw()?;
        chart
    }};
}

macro_rules! legend {
    ($chart:expr, $position:expr) => {
        $chart
            .configure_series_labels()
            .position($position)
            .background_style(WHITE.mix(0.8))
            .border_style(OTHER)
            .label_font(("sans-serif", 13))
            .draw()?
    };
}

fn mark(color: RGBColor) -> impl Fn((i32, i32)) -> Circle<(i32, i32), i32> {
    move |(x, y)| Circle::new((x + 8, y), 4, color.filled())
}

fn stroke(color: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2))
}

/// Shortest times, the middle half of all times, and the line.
fn times<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    fit: &SizeFit,
    samples: &[Multicast],
    transport: &str,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let last = greatest(fit);
    let halves: Vec<(f64, f64, f64)> = samples
        .iter()
        .filter(|m| m.size == fit.size)
        .filter_map(|m| quartiles(&m.complete).map(|(low, high)| (f64::from(m.width), low, high)))
        .collect();
    let all = fit.points.iter().map(|point| point.1).chain(halves.iter().map(|half| half.2));
    let ys = range(all.chain([fit.line.at(last), fit.line.intercept]), true);
    let title = format!("{transport}, {} bytes", fit.size);
    let mut chart = chart!(area, title, "processes", "time, ns", 0.0..last + 0.5, below_legend(ys));
    let boxes = halves.iter().map(|&(b, low, high)| {
        Rectangle::new([(b - 0.15, low), (b + 0.15, high)], SEEN.mix(0.25).filled())
    });
    chart.draw_series(boxes)?;
    let points =
        fit.points.iter().map(|&(b, time)| Circle::new((f64::from(b), time), 4, SEEN.filled()));
    chart.draw_series(points)?.label("shortest; middle half").legend(mark(SEEN));
    let ends = [0.0, last + 0.5].map(|b| (b, fit.line.at(b)));
    let shown = format!("{:.1} + {:.1} b", fit.line.intercept, fit.line.slope);
    chart
        .draw_series(LineSeries::new(ends, OURS.stroke_width(2)))?
        .label(shown)
        .legend(stroke(OURS));
    legend!(chart, SeriesLabelPosition::UpperLeft);
    Ok(())
}

fn quartiles(times: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted.get(sorted.len().saturating_sub(1) * part / 4).copied();
    at(1).zip(at(3))
}

fn residuals<B: DrawingBackend>(area: &DrawingArea<B, Shift>, fit: &SizeFit) -> Drawn
where
    B::ErrorType: 'static,
{
    // At least a nanosecond: less is rounding.
    let ys = range(fit.residuals().map(|point| point.1).chain([-1.0, 1.0]), false);
    let last = greatest(fit);
    let title = format!("residuals, R^2 = {:.5}", fit.line.r_squared);
    let mut chart = chart!(area, title, "processes", "ns", 0.0..last + 0.5, ys);
    chart.draw_series(LineSeries::new([(0.0, 0.0), (last + 0.5, 0.0)], OURS.stroke_width(2)))?;
    chart.draw_series(fit.residuals().map(|(b, residual)| {
        PathElement::new([(f64::from(b), 0.0), (f64::from(b), residual)], SEEN.stroke_width(2))
    }))?;
    chart.draw_series(
        fit.residuals()
            .map(|(b, residual)| Circle::new((f64::from(b), residual), 4, SEEN.filled())),
    )?;
    Ok(())
}

/// Times per process: measured, by the model, and at the least size by LogfP.
fn per_process<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    fit: &SizeFit,
    fitted: &Fitted,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let last = greatest(fit);
    let seen = fit.per_process();
    let ys = range(seen.iter().map(|point| point.1), true);
    let all = below_legend(ys.clone());
    let mut chart = chart!(area, "time per process", "processes", "ns", 0.5..last + 0.5, all);
    let steps = || (10..=last as u32 * 10).map(|tenth| f64::from(tenth) / 10.0);
    let ours = steps().map(|b| (b, fit.line.at(b) / b)).filter(|point| ys.contains(&point.1));
    chart
        .draw_series(LineSeries::new(ours, OURS.stroke_width(2)))?
        .label("alpha_r + alpha_p / b")
        .legend(stroke(OURS));
    let least = fitted.sizes.first().is_some_and(|first| first.size == fit.size);
    if let (true, Ok(model)) = (least, &fitted.logfp) {
        let theirs =
            fit.points.iter().map(|&(b, _)| (f64::from(b), model.multicast(b) / f64::from(b)));
        let theirs = theirs.filter(|point| ys.contains(&point.1));
        chart
            .draw_series(LineSeries::new(theirs, OTHER.stroke_width(1)))?
            .label(format!("LogfP, f = {}", model.free))
            .legend(stroke(OTHER));
    }
    let points = seen.iter().map(|&(b, time)| Circle::new((f64::from(b), time), 4, SEEN.filled()));
    chart.draw_series(points)?.label("shortest").legend(mark(SEEN));
    legend!(chart, SeriesLabelPosition::UpperRight);
    Ok(())
}

/// Both parameters over the size, on logarithmic axes; sizes that were rejected are left out.
fn sizes<B: DrawingBackend>(root: &DrawingArea<B, Shift>, fitted: &Fitted) -> Drawn
where
    B::ErrorType: 'static,
{
    let points = fitted.by_size.as_ref().map_or(&[][..], |functions| functions.points());
    let positive = |of: fn(bowline_model::cost::Pipelining) -> f64| -> Vec<(f64, f64)> {
        let all = points.iter().map(|&(n, cost)| (n as f64, of(cost)));
        all.filter(|point| point.0 > 0.0 && point.1 > 0.0).collect()
    };
    let series = [
        ("alpha_p", positive(|cost| cost.pipelining), OURS),
        ("alpha_r", positive(|cost| cost.required), SEEN),
    ];
    let all = || series.iter().flat_map(|(_, points, _)| points.iter());
    let (xs, ys) = (ratios(all().map(|point| point.0)), ratios(all().map(|point| point.1)));
    // The names of the curves stand in front of them.
    let xs = xs.start * (xs.start / xs.end).powf(0.1)..xs.end;
    let title = format!("parameters by size, {} times", Statistic::Minimum.name());
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(86)
        .build_cartesian_2d(xs.log_scale().base(2.0), logarithmic(ys))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("bytes")
        .y_desc("ns")
        .x_label_formatter(&plain)
        .y_label_formatter(&plain)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (name, points, color) in series {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(name)
            .legend(stroke(color));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, color.filled())))?;
    }
    legend!(chart, SeriesLabelPosition::UpperLeft);
    Ok(())
}

/// From a little below the least of some values to a little above the greatest, by their ratio.
fn ratios(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        (low, high) = (1.0, 10.0);
    }
    low / 1.3..high * 1.3
}

/// Numbers that are named at a logarithmic axis: powers of ten, and where there are few of those what lies between.
fn round_numbers(range: &Range<f64>) -> Vec<f64> {
    let steps: &[f64] = match (range.end / range.start).log10() {
        decades if decades > 4.0 => &[1.0],
        decades if decades > 2.0 => &[1.0, 3.0],
        decades if decades > 0.8 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    };
    let powers = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| range.contains(value)).collect()
}

/// A logarithmic axis with [`round_numbers`].
fn logarithmic(
    range: Range<f64>,
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
        fn range(&self) -> Range<f64> {
            self.0.range()
        }
    }
    let named = round_numbers(&range);
    let inner: plotters::coord::combinators::LogCoord<f64> = range.log_scale().into();
    Named(inner, named)
}

/// A number with as many digits as it needs, three behind the point at most.
fn plain(number: &f64) -> String {
    // What is added makes 0 of -0.
    format!("{}", (number * 1e3).round() / 1e3 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    #[test]
    fn pictures_are_drawn_where_a_font_is_installed() {
        if font::register().is_err() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let recorded = example();
        draw(directory.path(), &recorded, &Report::new(&recorded).unwrap()).unwrap();
        for name in ["fit-8", "fit-512", "fit-131072", "sizes"] {
            let read =
                |ending| std::fs::read(directory.path().join(format!("{name}.{ending}"))).unwrap();
            assert!(read("png").starts_with(b"\x89PNG"), "{name}");
            let svg = String::from_utf8(read("svg")).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("<circle"), "{name}");
        }
        let svg = std::fs::read_to_string(directory.path().join("fit-8.svg")).unwrap();
        assert!(svg.contains("880.0 + 380.0 b"), "the fit is written there");
        let nowhere = directory.path().join("no");
        assert!(draw(&nowhere, &recorded, &Report::new(&recorded).unwrap()).is_err());
    }

    #[test]
    fn ranges_hold_their_values() {
        assert_eq!(range([].into_iter(), true), 0.0..1.06);
        let around = range([5.0, 5.0].into_iter(), false);
        assert!(around.contains(&5.0));
        let below = range([-1.0, 3.0].into_iter(), true);
        assert!(below.start < -1.0 && below.end > 3.0);
        assert_eq!(round_numbers(&(0.9..2e5)), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(
            round_numbers(&(300.0..1200.0)),
            [300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0]
        );
        assert_eq!(ratios([].into_iter()), 1.0 / 1.3..13.0);
        let beside = ratios([10.0, 200.0].into_iter());
        assert!(beside.start < 10.0 && beside.start > 5.0 && beside.end > 200.0);
        assert_eq!(
            [0.25, 1024.0, 1.0 / 3.0].map(|number| plain(&number)),
            ["0.25", "1024", "0.333"]
        );
    }
}

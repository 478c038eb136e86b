//! Tables as pictures: curves over two logarithmic axes.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use plotters::prelude::*;

use crate::table::{Chart, Table};

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

fn paint(path: &Path, title: &str, chart: &Chart) -> Result<(), Box<dyn std::error::Error>> {
    let points = chart.curves.iter().flat_map(|curve| curve.points.iter().copied());
    let (xs, ys) = (range(points.clone().map(|p| p.0)), range(points.map(|p| p.1)));
    let font = |size: u32| ("sans-serif", size).into_font();
    let root = BitMapBackend::new(path, (1000, 640)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut drawn = ChartBuilder::on(&root)
        .margin(20)
        .caption(title, font(20))
        .x_label_area_size(45)
        .y_label_area_size(90)
        .build_cartesian_2d(xs.log_scale(), ys.log_scale())?;
    drawn
        .configure_mesh()
        .x_desc(chart.x)
        .y_desc(chart.y)
        .label_style(font(15))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if *y < 10.0 { format!("{y:.1}") } else { format!("{y:.0}") })
        .draw()?;
    for (curve, color) in chart.curves.iter().zip(COLORS.iter().cycle()) {
        let positive = curve.points.iter().copied().filter(|point| point.1 > 0.0);
        let line = LineSeries::new(positive, color.stroke_width(2)).point_size(3);
        let key = *color;
        drawn
            .draw_series(line)?
            .label(curve.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], key.stroke_width(2)));
    }
    drawn
        .configure_series_labels()
        .label_font(font(15))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
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
}

//! The comparison as a picture: one panel per metric, one bar per source, the spread as a whisker.
//!
//! Drawn in pixels, because the panels are lists of labelled bars rather than charts with axes.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::BenchError;
use crate::metric::number;
use crate::report::Role;
use crate::report::{PeersReport, Row};

pub(crate) mod font;

const COLUMNS: usize = 4;
const PANEL_WIDTH: u32 = 430;
const BAR: i32 = 20;
const TITLE: i32 = 26;
const LABEL: i32 = 140;
const VALUE: i32 = 70;

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

impl PeersReport {
    /// Draws the figures into a PNG file.
    pub fn plot(&self, path: &Path) -> Result<(), BenchError> {
        draw(self, path)
    }
}

/// Draws `report` into the PNG file `path`.
fn draw(report: &PeersReport, path: &Path) -> Result<(), BenchError> {
    let failed = |reason: String| BenchError::Plot { path: path.to_path_buf(), reason };
    let panels: Vec<&[Row]> = report.rows.chunk_by(|a, b| a.name == b.name).collect();
    if panels.is_empty() {
        return Err(failed("there are no figures; the table says why".to_owned()));
    }
    font::register().map_err(failed)?;
    let lines: Vec<&[&[Row]]> = panels.chunks(COLUMNS).collect();
    let heights: Vec<i32> = lines.iter().map(|line| line_height(line)).collect();
    let width = PANEL_WIDTH * COLUMNS.min(panels.len()) as u32;
    let height = u32::try_from(heights.iter().sum::<i32>()).unwrap_or(u32::MAX);
    paint(path, (width, height), &lines, &heights).map_err(|error| failed(error.to_string()))
}

fn paint(
    path: &Path,
    size: (u32, u32),
    lines: &[&[&[Row]]],
    heights: &[i32],
) -> Result<(), Box<dyn std::error::Error>> {
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let mut top = 0;
    for (line, height) in lines.iter().zip(heights) {
        for (column, rows) in line.iter().enumerate() {
            let left = PANEL_WIDTH as i32 * column as i32;
            let area = root.clone().shrink((left, top), (PANEL_WIDTH, *height as u32));
            panel(&area, rows)?;
        }
        top += height;
    }
    root.present()?;
    Ok(())
}

fn line_height(panels: &[&[Row]]) -> i32 {
    let bars = panels.iter().map(|rows| rows.len() as i32).max().unwrap_or(0);
    TITLE + bars * BAR + 14
}

fn panel(area: &Area<'_>, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    let [first, ..] = rows else { return Ok(()) };
    let better = if first.unit.more_is_better() { "more" } else { "less" };
    let scale = Scale::of(rows);
    let shape = if scale.logarithmic { ", logarithmic" } else { "" };
    let title = format!("{}, {} ({better} is better{shape})", first.name, first.unit.sign());
    let heading = ("sans-serif", 15).into_font().color(&BLACK);
    area.draw(&Text::new(title, (8, 6), heading))?;
    let x = |value: f64| LABEL + scale.pixels(value);
    for (index, row) in rows.iter().enumerate() {
        let y = TITLE + index as i32 * BAR;
        let middle = y + BAR / 2;
        let right = Pos::new(HPos::Right, VPos::Center);
        let left = Pos::new(HPos::Left, VPos::Center);
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        area.draw(&Text::new(row.source.clone(), (LABEL - 6, middle), style.pos(right)))?;
        area.draw(&Rectangle::new(
            [(LABEL, y + 3), (x(row.median), y + BAR - 3)],
            color(row.role).filled(),
        ))?;
        let whisker = [(x(row.low), middle), (x(row.high), middle)];
        area.draw(&PathElement::new(whisker, BLACK.stroke_width(1)))?;
        let end = x(row.median.max(row.high)).min(PANEL_WIDTH as i32 - VALUE + 6);
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        area.draw(&Text::new(number(row.median), (end + 5, middle), style.pos(left)))?;
    }
    Ok(())
}

/// How values become pixels: in proportion, or by their logarithm where they differ so much that
/// small ones could not be seen.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(rows: &[Row]) -> Self {
        let medians = || rows.iter().map(|row| row.median);
        let high = medians().fold(f64::MIN_POSITIVE, f64::max);
        let low = medians().fold(high, f64::min).max(f64::MIN_POSITIVE);
        Self { low, high, logarithmic: high / low > 50.0 }
    }

    /// A whisker that reaches far beyond the longest bar ends at the panel's edge.
    fn pixels(self, value: f64) -> i32 {
        let width = f64::from(PANEL_WIDTH as i32 - LABEL - VALUE - 10);
        let part = if self.logarithmic {
            // The smallest bar starts at half its value, so that it has a length.
            (2.0 * value / self.low).ln() / (2.0 * self.high / self.low).ln()
        } else {
            value / self.high
        };
        (part * width).clamp(0.0, width + f64::from(VALUE)) as i32
    }
}

fn color(role: Role) -> RGBColor {
    match role {
        Role::Ours => RGBColor(214, 96, 43),
        Role::Peer => RGBColor(96, 142, 190),
        Role::Yardstick => RGBColor(170, 170, 170),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_picture_is_drawn_where_a_font_is_installed() {
        if font::register().is_err() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peers.png");
        draw(&example(), &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 1000);
    }

    #[test]
    fn scales_keep_small_bars_visible() {
        let linear = Scale { low: 1.0, high: 2.0, logarithmic: false };
        assert_eq!(linear.pixels(1.0) * 2, linear.pixels(2.0));
        let logarithmic = Scale { low: 1.0, high: 1e6, logarithmic: true };
        assert!(logarithmic.pixels(1.0) > 5);
        assert_eq!(logarithmic.pixels(1e6), linear.pixels(2.0));
        assert_eq!(logarithmic.pixels(0.0), 0);
    }

    #[test]
    fn no_figures_make_no_picture() {
        let mut report = example();
        report.rows.clear();
        assert!(draw(&report, Path::new("/nonexistent/peers.png")).is_err());
    }
}

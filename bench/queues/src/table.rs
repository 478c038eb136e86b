//! Tables: what is printed, written as JSON and drawn.
//!
//! A table carries the published figures in cells of its own, notes that say why ours differ, and
//! goals with what was measured. Exact goals (counts, bytes) fail the run when they are missed;
//! goals about time are shown, and never fail it.

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result, Write};

use serde::{Deserialize, Serialize};

/// A cell: a text, or a number and how it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// A text.
    Text(String),
    /// A number of so many digits behind the point, with a unit's sign.
    Number {
        /// The number.
        value: f64,
        /// Digits behind the point.
        #[serde(skip)]
        digits: usize,
        /// What follows it.
        unit: Cow<'static, str>,
    },
}

impl Cell {
    /// A number.
    pub(crate) const fn number(value: f64, digits: usize, unit: &'static str) -> Self {
        Self::Number { value, digits, unit: Cow::Borrowed(unit) }
    }

    /// A count.
    pub(crate) const fn count(value: u64) -> Self {
        Self::Number { value: value as f64, digits: 0, unit: Cow::Borrowed("") }
    }

    /// A count of bytes.
    pub(crate) const fn bytes(value: u64) -> Self {
        Self::Number { value: value as f64, digits: 0, unit: Cow::Borrowed(" B") }
    }

    /// Nanoseconds, shown in a unit that fits.
    pub(crate) fn time(ns: f64) -> Self {
        match ns {
            ns if ns < 1e4 => Self::number(ns, if ns < 100.0 { 1 } else { 0 }, " ns"),
            ns if ns < 1e7 => Self::number(ns / 1e3, 1, " us"),
            ns => Self::number(ns / 1e6, 1, " ms"),
        }
    }

    /// How many times.
    pub(crate) const fn times(value: f64) -> Self {
        let digits = if value < 100.0 { 2 } else { 0 };
        Self::Number { value, digits, unit: Cow::Borrowed("x") }
    }

    /// Nothing to say.
    pub(crate) fn none() -> Self {
        Self::Text("-".to_owned())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number { value, digits, unit } => write!(f, "{value:.digits$}{unit}"),
        }
    }
}

/// What a table is to show, and whether it does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Goal {
    /// What is asked for.
    pub(crate) what: String,
    /// What was measured.
    pub(crate) measured: String,
    /// Whether that is it.
    pub(crate) met: bool,
    /// Whether missing it fails the run: it does not depend on the machine.
    pub(crate) exact: bool,
}

/// A curve of a table's picture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// In which panel of the picture it is; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) panel: String,
    /// Its name.
    pub(crate) name: String,
    /// Its points.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What numbers at an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Counts.
    None,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// A table's picture: curves over two logarithmic axes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// What the x axis shows.
    pub(crate) x: Cow<'static, str>,
    /// In what.
    pub(crate) x_unit: Unit,
    /// What the y axis shows.
    pub(crate) y: Cow<'static, str>,
    /// In what.
    pub(crate) y_unit: Unit,
    /// The curves.
    pub(crate) curves: Vec<Curve>,
}

impl Chart {
    /// An empty picture.
    pub(crate) const fn new(x: &'static str, x_unit: Unit, y: &'static str, y_unit: Unit) -> Self {
        let (x, y) = (Cow::Borrowed(x), Cow::Borrowed(y));
        Self { x, x_unit, y, y_unit, curves: Vec::new() }
    }

    /// Adds a point to the curve `name` of the only panel.
    pub(crate) fn point(&mut self, name: &str, x: f64, y: f64) {
        self.point_in("", name, x, y);
    }

    /// Adds a point to the curve `name` of a panel.
    pub(crate) fn point_in(&mut self, panel: &str, name: &str, x: f64, y: f64) {
        let is = |curve: &&mut Curve| (curve.panel.as_str(), curve.name.as_str()) == (panel, name);
        match self.curves.iter_mut().find(is) {
            Some(curve) => curve.points.push((x, y)),
            None => {
                let (panel, name) = (panel.to_owned(), name.to_owned());
                self.curves.push(Curve { panel, name, points: vec![(x, y)] });
            }
        }
    }
}

/// A table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Its name, as `--only` has it.
    pub(crate) name: Cow<'static, str>,
    /// What it shows.
    pub(crate) title: String,
    /// Heads of the columns.
    pub(crate) columns: Vec<String>,
    /// The rows, as long as there are columns.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// What has to be known to read it, and why it contradicts what was published.
    pub(crate) notes: Vec<String>,
    /// What it is to show.
    pub(crate) goals: Vec<Goal>,
    /// Its picture, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chart: Option<Chart>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(name: &'static str, title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            name: Cow::Borrowed(name),
            title: title.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            goals: Vec::new(),
            chart: None,
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds a goal about time, which is only shown.
    pub(crate) fn goal(&mut self, what: impl Into<String>, measured: impl Into<String>, met: bool) {
        let (what, measured) = (what.into(), measured.into());
        self.goals.push(Goal { what, measured, met, exact: false });
    }

    /// Adds a goal about counts or bytes, which fails the run when it is missed.
    pub(crate) fn exact(
        &mut self,
        what: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) {
        let (what, measured) = (what.into(), measured.into());
        self.goals.push(Goal { what, measured, met, exact: true });
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "\n{}: {}", self.name, self.title)?;
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len());
            cells.chain([self.columns[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for cells in std::iter::once(&self.columns).chain(&rows) {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(line, "  {cell:<width$}")?;
                } else {
                    write!(line, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "  - {note}")?;
        }
        for Goal { what, measured, met, .. } in &self.goals {
            writeln!(f, "  {} {what}: {measured}", if *met { "[met]   " } else { "[missed]" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("t", "a title", &["what", "ours"]);
        table.row(vec!["a long name".into(), Cell::count(1_000_000)]);
        table.row(vec!["b".into(), Cell::times(1.5)]);
        table.note("why");
        table.goal("fast", "2x", false);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[1], "  what            ours");
        assert_eq!(lines[2], "  a long name  1000000");
        assert_eq!(lines[3], "  b              1.50x");
        assert_eq!(lines[5], "  [missed] fast: 2x");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let shown: Vec<String> =
            [12.34, 512.3, 34_567.0, 2.5e7].map(|ns| Cell::time(ns).to_string()).to_vec();
        assert_eq!(shown, ["12.3 ns", "512 ns", "34.6 us", "25.0 ms"]);
    }
}

//! What is kept of this machine, and what stands in for what is not.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use bowline_model::cost::Pipelining;
use bowline_model::fit::Widths;
use bowline_model::fit::table::{Entry, FitTable};
use serde_json::json;

use super::super::output;

/// Prints the entries of this machine; where there are none the published ones, marked as assumed.
///
/// # Errors
/// When the standard output takes no more.
pub(super) fn print(table: &FitTable, path: &Path, as_json: bool) -> Result<()> {
    let site = bowline::costs::site();
    let here: Vec<&Entry> = table.entries().iter().filter(|entry| entry.site == site).collect();
    let published = Entry::published(&site, "any");
    let shown = if here.is_empty() { vec![&published] } else { here };
    if as_json {
        let file = path.display().to_string();
        return output::print_json(&json!({"site": site, "file": file, "entries": shown}));
    }
    let mut text = format!("{site}\n");
    writeln!(
        text,
        "{:<10} {:>8} {:>11} {:>11} {:>7} {:>5}  origin",
        "transport", "bytes", "alpha_p", "alpha_r", "ratio", "cap"
    )?;
    for entry in shown {
        for row in &entry.sizes {
            let cost = Pipelining { pipelining: row.pipelining, required: row.required };
            let widths = Widths::of(cost);
            let ratio = widths.map_or_else(|| "-".to_owned(), |w| format!("{:.3}", w.ratio));
            let cap = widths.map_or_else(|| "-".to_owned(), |w| w.cap.to_string());
            writeln!(
                text,
                "{:<10} {:>8} {:>11.1} {:>11.1} {ratio:>7} {cap:>5}  {}",
                entry.transport,
                row.size,
                row.pipelining,
                row.required,
                row.origin.name()
            )?;
        }
        for (name, time) in &entry.operations {
            writeln!(text, "{:<10} a byte of {name}: {time:.4}", entry.transport)?;
        }
        for row in &entry.rejected {
            writeln!(text, "{:<10} {:>8} {:>11}", entry.transport, row.size, "rejected")?;
        }
    }
    let kept = if path.exists() { "kept in" } else { "nothing is kept yet in" };
    writeln!(text, "{kept} {}", path.display())?;
    output::print(&text)
}

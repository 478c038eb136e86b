//! What was published of a Cray XC30 beside a fit: parameters by size (thesis, table 4.1), the blocking put, and the times
//! per process.

use std::fmt::Write as _;

use bowline_model::fit::SizeFit;
use bowline_model::fit::table::Entry;
use serde_json::{Value, json};

/// alpha_p and alpha_r in ns of a size, and whether the model holds.
#[derive(Clone, Copy, Debug)]
struct Published {
    size: u64,
    pipelining: f64,
    required: f64,
    holds: bool,
}

/// The text has the two names the other way around: a slope below nothing would be a time that falls with each put.
const BLOCKING: Published =
    Published { size: 8, pipelining: -720.0, required: 1500.0, holds: false };

fn published(blocking: bool) -> Vec<Published> {
    if blocking {
        return vec![BLOCKING];
    }
    let Entry { sizes, rejected, .. } = Entry::published("", "");
    let holds = sizes.into_iter().map(|row| Published {
        size: row.size,
        pipelining: row.pipelining,
        required: row.required,
        holds: true,
    });
    let rejected = rejected.into_iter().map(|row| Published {
        size: row.size,
        pipelining: row.pipelining,
        required: row.required,
        holds: false,
    });
    holds.chain(rejected).collect()
}

/// Published rows with the fits of the same sizes.
fn beside(fits: &[SizeFit], blocking: bool) -> Vec<(Published, &SizeFit)> {
    let own = |row: Published| Some((row, fits.iter().find(|fit| fit.size == row.size)?));
    published(blocking).into_iter().filter_map(own).collect()
}

/// For programs.
pub(super) fn json(fits: &[SizeFit], blocking: bool) -> Value {
    let row = |(row, fit): (Published, &SizeFit)| {
        json!({
            "size": row.size,
            "published": {
                "alpha_p_ns": row.pipelining, "alpha_r_ns": row.required,
                "ratio": row.pipelining / row.required, "holds": row.holds,
            },
            "here": {
                "alpha_p_ns": fit.line.intercept, "alpha_r_ns": fit.line.slope,
                "ratio": fit.widths().map(|widths| widths.ratio), "holds": fit.cost.is_ok(),
            },
        })
    };
    beside(fits, blocking).into_iter().map(row).collect()
}

/// For people: parameters beside the published ones, and times per process by the number of processes.
pub(super) fn table(out: &mut String, fits: &[SizeFit], blocking: bool) {
    let rows = beside(fits, blocking);
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "\npublished of a Cray XC30, beside these shortest times\n{:>8} {:>11} {:>11} {:>11} {:>11} {:>8} {:>8}",
            "bytes", "alpha_p", "here", "alpha_r", "here", "ratio", "here"
        );
    }
    for (row, fit) in rows {
        let of =
            |ratio: f64, holds| if holds { format!("{ratio:.3}") } else { "rejected".to_owned() };
        let here = match fit.widths() {
            None if fit.cost.is_ok() => "-".to_owned(),
            widths => of(widths.map_or(f64::NAN, |widths| widths.ratio), fit.cost.is_ok()),
        };
        let (pipelining, required) = (fit.line.intercept, fit.line.slope);
        let _ = writeln!(
            out,
            "{:>8} {:>11.1} {pipelining:>11.1} {:>11.1} {required:>11.1} {:>8} {:>8}",
            row.size,
            row.pipelining,
            row.required,
            of(row.pipelining / row.required, row.holds),
            here,
        );
    }
    let Some(least) = fits.first() else { return };
    let _ = writeln!(out, "\ntime per process at {} bytes, by processes, ns", least.size);
    for (width, time) in least.per_process() {
        let _ = write!(out, " {width}: {time:.1}");
    }
    out.push('\n');
}

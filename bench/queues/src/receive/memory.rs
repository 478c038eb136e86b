//! Receive memory by the number of peers, and from how many on a shared queue holds less.

use anyhow::Result;
use bowline_base::ring::RingShape;

use super::forms::Form;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Rings that a receiver could have for each peer, from small to large.
const SHAPES: [RingShape; 3] = [
    RingShape { slots: 32, data: 2048 },
    RingShape { slots: 128, data: 8192 },
    RingShape { slots: 1024, data: 1 << 18 },
];

/// Peers from which on the shared queue holds less than a ring for each (formula 6.1).
const fn break_even(queue: usize, ring: usize) -> usize {
    queue.div_ceil(ring)
}

fn memory(_: &Context) -> Result<Table> {
    let mut table = Table::new(
        "queue-memory",
        "bytes in which one rank receives, by the number of its peers",
        &["peers", "scmp-seq", "scmp-counted", "locked", "rings 32", "rings 128", "rings 1024"],
    );
    let mut chart = Chart::new("peers", Unit::None, "receive memory", Unit::Bytes);
    let shared = [Form::Seq, Form::Counted, Form::Locked];
    for peers in [1u64, 16, 56, 73, 256, 1024, 16_384, 1_048_576] {
        let mut cells = vec![Cell::count(peers)];
        for form in shared {
            cells.push(Cell::bytes(form.bytes() as u64));
            chart.point(form.name(), peers as f64, form.bytes() as f64);
        }
        for shape in SHAPES {
            let bytes = peers * shape.bytes() as u64;
            cells.push(Cell::bytes(bytes));
            chart.point(&format!("rings of {} slots", shape.slots), peers as f64, bytes as f64);
        }
        table.row(cells);
    }
    let queue = Form::Seq.bytes();
    let even: Vec<String> = SHAPES
        .iter()
        .map(|shape| {
            format!(
                "{} peers (rings of {} slots and {} bytes of data, {} bytes each)",
                break_even(queue, shape.bytes()),
                shape.slots,
                shape.data,
                shape.bytes()
            )
        })
        .collect();
    table.note(format!("Break-even of scmp-seq with a ring for each peer: {}.", even.join("; ")));
    table.note(
        "Published (by formulas 6.1 and 6.2): 56 processes beside per-process mailboxes, 73 beside \
         per-node ones, with the sizes of slots and mailboxes of that machine, which the thesis does not \
         give. Its halves have 1024 slots, as ours, whose slots have 64 bytes.",
    );
    table.note(
        "Computed from the layouts; what a rank of a real job holds is counted by `cargo xtask \
         bench receive-memory`. Rings for hot peers come out of a fixed budget there, so that the \
         sum stays constant as well.",
    );
    let constant = queue == bowline_base::scmp::seq::bytes_for(super::forms::SLOTS);
    table.exact(
        "receive memory of the shared queues is one constant",
        format!("{queue} bytes"),
        constant,
    );
    table.chart = Some(chart);
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-memory", "receive memory by the number of peers", memory)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_even_is_where_rings_hold_as_much() {
        assert_eq!(break_even(1000, 100), 10);
        assert_eq!(break_even(1001, 100), 11);
        let queue = Form::Seq.bytes();
        for shape in SHAPES {
            let peers = break_even(queue, shape.bytes());
            assert!(peers * shape.bytes() >= queue && (peers - 1) * shape.bytes() < queue);
        }
    }
}

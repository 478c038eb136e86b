//! Receive memory by the number of peers, and from how many on a shared queue holds less (formulas 6.1 and 6.2 and
//! figure 6.8 of the thesis).

use anyhow::{Context as _, Result, ensure};
use bowline_base::ring::RingShape;
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_sim::{Network, NetworkOptions};
use bowline_uct::{AmId, Iface};

use super::forms::{Form, SLOTS};
use super::metered::{Asked, Metered};
use super::processes::Counter;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Mailboxes that a receiver could have for each process, or for each node, from small to large.
const SHAPES: [RingShape; 3] = [
    RingShape { slots: 32, data: 2048 },
    RingShape { slots: 128, data: 8192 },
    RingShape { slots: 1024, data: 1 << 18 },
];

/// Processes of a node, as published (with formula 6.2).
pub(super) const PER_NODE: u32 = 24;

/// Most senders of a lane.
const MOST: u32 = 1 << 16;

/// Peers from which on the shared queue holds less than a mailbox for each process (formula 6.1).
const fn beside_processes(queue: usize, mailbox: usize) -> usize {
    queue.div_ceil(mailbox)
}

/// Processes from which on it holds less than a mailbox for each node (formula 6.2).
const fn beside_nodes(queue: usize, mailbox: usize, per_node: usize) -> usize {
    queue.div_ceil(mailbox) * per_node + 1
}

/// Senders from which on a lane holds less than a mailbox for each, with what it has for those that send.
fn with_records(mailbox: usize) -> Option<u32> {
    (1..=MOST).find(|&peers| {
        let held = lane(MOST).receive_bytes(peers);
        held.is_some_and(|held| held <= peers as usize * mailbox)
    })
}

/// A lane whose halves have as many slots as those of the thesis.
fn lane(peers: u32) -> QueueOptions {
    QueueOptions { form: QueueForm::Scmp, slots: SLOTS, peers, rings: 0 }
}

/// A lane for `peers` that is open on the simulated network, and what it has asked that for.
fn opened(network: &Network, peers: u32, uid: u64) -> Result<(QueueLane, Asked)> {
    let (below, asked) = Metered::new(network.open());
    Ok((QueueLane::open(Box::new(below), &lane(peers), uid)?, asked))
}

/// Bytes in which an open lane receives: those for which it has asked the network, which are also those that it says
/// it has beside the network's own.
fn held(lane: &QueueLane, asked: &Asked) -> Result<usize> {
    let said = lane.attr().receive_bytes;
    let other = Network::new(NetworkOptions::default()).open().attr().receive_bytes;
    let bytes = asked.bytes();
    ensure!(said == other + bytes, "a lane has asked for {bytes} bytes and says {said} - {other}");
    Ok(bytes)
}

/// The same before anybody has sent to it.
fn held_by_nobody(peers: u32) -> Result<usize> {
    let (lane, asked) = opened(&Network::new(NetworkOptions::default()), peers, 1)?;
    held(&lane, &asked)
}

/// The same when so many have sent to it.
fn held_by_senders(senders: u32) -> Result<usize> {
    /// Moments of the network after which the messages are given up.
    const MOST_MOMENTS: u32 = 1_000_000;
    let network = Network::new(NetworkOptions::default());
    let (mut receiver, asked) = opened(&network, MOST, 1)?;
    let address = receiver.address();
    let mut lanes = Vec::new();
    for sender in 1..=senders {
        let (mut lane, _) = opened(&network, 1, u64::from(sender) + 1)?;
        let ep = lane.connect(&address)?;
        lane.am_short(ep, AmId::new(1), &[0; 3], &[0; 8])?;
        lanes.push(lane);
    }
    let (mut seen, mut moments) = (Counter::default(), 0);
    // All that was accepted leaves here: in a drop nobody advances the network.
    while seen.count < u64::from(senders) || !lanes.iter_mut().all(Iface::all_sent) {
        receiver.progress(&mut seen, 64);
        for lane in &mut lanes {
            lane.progress(&mut Counter::default(), 64);
        }
        network.advance();
        moments += 1;
        ensure!(moments < MOST_MOMENTS && seen.failed.is_none(), "a message never came");
    }
    held(&receiver, &asked)
}

fn memory(_: &Context) -> Result<Table> {
    let mut table = Table::new(
        "queue-memory",
        "bytes in which one rank receives, by the number of peers that send to it",
        &[
            "peers",
            "scmp lane",
            "its peers",
            "scmp-counted",
            "locked",
            "mailboxes 32",
            "mailboxes 128",
            "of nodes 32",
            "of nodes 128",
        ],
    );
    let mut chart = Chart::new("peers", Unit::None, "receive memory", Unit::Bytes);
    let of_peer = QueueOptions::bytes_of_a_peer() as u64;
    for peers in [1u32, 16, 56, 73, 256, 1024, 16_384, MOST, 1 << 20] {
        let mut cells = vec![Cell::count(peers.into())];
        match lane(MOST).receive_bytes(peers) {
            Some(bytes) => {
                cells.push(Cell::bytes(bytes as u64));
                cells.push(Cell::bytes(of_peer * u64::from(peers)));
                chart.point("scmp lane", f64::from(peers), bytes as f64);
            }
            None => cells.extend([Cell::none(), Cell::none()]),
        }
        for form in [Form::Counted, Form::Locked] {
            cells.push(Cell::bytes(form.bytes() as u64));
            chart.point(form.name(), f64::from(peers), form.bytes() as f64);
        }
        for (what, count) in [("processes", peers), ("nodes", peers.div_ceil(PER_NODE))] {
            for shape in &SHAPES[..2] {
                let bytes = u64::from(count) * shape.bytes() as u64;
                cells.push(Cell::bytes(bytes));
                let name = format!("mailboxes of {what}, {} slots", shape.slots);
                chart.point(&name, f64::from(peers), bytes as f64);
            }
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    notes(&mut table)?;
    Ok(table)
}

/// Where a lane begins to hold less, and what must hold of its memory.
fn notes(table: &mut Table) -> Result<()> {
    let own = lane(MOST).receive_bytes(0).context("there is such a lane")?;
    let even: Vec<String> = SHAPES
        .iter()
        .map(|shape| {
            let (bytes, per_node) = (shape.bytes(), PER_NODE as usize);
            format!(
                "{}, {} and {} ({} slots and {} bytes of data, {bytes} bytes each)",
                beside_processes(own, bytes),
                with_records(bytes).map_or_else(|| "never".to_owned(), |peers| peers.to_string()),
                beside_nodes(own, bytes, per_node),
                shape.slots,
                shape.data,
            )
        })
        .collect();
    table.note(format!(
        "Processes from which on the lane's {own} bytes are less, by formulas 6.1 (a mailbox for each \
         process), by the same with its records of those that send, and by 6.2 (a mailbox for each node of {PER_NODE}): {}. \
         Published: 56 by 6.1 and 73 by 6.2, with mailboxes whose size \
         the thesis does not give, nor that of its slots; ours have 64 bytes, in halves of {SLOTS} as there.",
        even.join("; ")
    ));
    table.note(format!(
        "scmp lane: all memory that peers reach, with their introductions, which the formulas leave out: they \
         are there for those that send, and a lane has {MOST} at most, whatever the job has. its peers: \
         what a receiver keeps of them beside that, {} bytes for each. scmp-counted and locked: the \
         queues alone, in mapped memory.",
        QueueOptions::bytes_of_a_peer()
    ));
    table.note(
        "Computed from the layouts, as in figure 6.8. queue-all-to-all measures processes; what a rank of a real job \
         holds is counted by `cargo xtask bench receive-memory`.",
    );
    let before: Vec<usize> =
        [1, 1024, MOST].into_iter().map(held_by_nobody).collect::<Result<_>>()?;
    table.exact(
        "memory for peers that might come is one constant, as open lanes have asked for it",
        format!("{before:?} bytes with 1, 1024 and {MOST} of them"),
        before == [own; 3],
    );
    let (mut right, mut shown) = (true, Vec::new());
    for senders in [1, 16, 73] {
        let held = held_by_senders(senders)?;
        right &= Some(held) == lane(MOST).receive_bytes(senders);
        shown.push(format!("{held} bytes with {senders}"));
    }
    table.exact(
        "lanes that are open have asked for what is computed, when so many have sent to them",
        shown.join(", "),
        right,
    );
    let most = (1..=MOST).filter_map(|peers| {
        let bytes = lane(MOST).receive_bytes(peers)?;
        Some((bytes - own).div_ceil(peers as usize))
    });
    table.note(format!(
        "A peer that sends takes {} bytes at most of the memory that peers reach, computed for 1 to {MOST} of them.",
        most.max().unwrap_or(0)
    ));
    Ok(())
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-memory", "receive memory by the number of peers", memory)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_lanes_ask_for_what_is_computed() {
        for peers in [1, 5, MOST] {
            assert_eq!(held_by_nobody(peers).ok(), lane(MOST).receive_bytes(0));
        }
        for senders in [1, 40] {
            assert_eq!(held_by_senders(senders).ok(), lane(MOST).receive_bytes(senders));
        }
    }

    #[test]
    fn break_even_is_where_mailboxes_hold_as_much() {
        assert_eq!(beside_processes(1000, 100), 10);
        assert_eq!(beside_processes(1001, 100), 11);
        // As published: three mailboxes of nodes of 24.
        assert_eq!(beside_nodes(300, 100, 24), 73);
        assert_eq!(beside_nodes(201, 100, 24), 73);
        let queue = lane(MOST).receive_bytes(0).unwrap();
        for shape in SHAPES {
            let peers = beside_processes(queue, shape.bytes());
            assert!(peers * shape.bytes() >= queue && (peers - 1) * shape.bytes() < queue);
        }
    }
}

//! Queues within a process: what a put and a take cost one thread, by the kind of queue. Decision 30
//! (`docs/decisions/0030-queues-within-a-process.md`) says which of ours is which.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError, mpsc};

use anyhow::Result;
use crossbeam_queue::{ArrayQueue, SegQueue};

use crate::clock::{Contestant, Done, compare};
use crate::table::{Cell, Table};
use crate::{Context, Named};

/// The table.
pub(crate) const TABLES: &[Named] =
    &[("queue-within", "queues within a process: a put and a take by one thread", within)];

/// Entries that are put before they are taken.
const DEPTHS: [u64; 3] = [1, 16, 256];

/// Puts and takes in one run.
const RUN: u64 = 1024;

/// Puts `depth` entries, then takes them, until `RUN` were taken.
fn fill_and_empty(
    depth: u64,
    mut put: impl FnMut(u64),
    mut take: impl FnMut() -> Option<u64>,
) -> Done {
    let mut done = Done::default();
    for round in 0..RUN / depth {
        for entry in 0..depth {
            put(black_box(round + entry));
        }
        while let Some(entry) = take() {
            done.found(entry);
        }
    }
    done
}

fn within(context: &Context) -> Result<Table> {
    let columns = ["entries", "VecDeque", "+-", "Mutex", "mpsc", "SegQueue", "ArrayQueue"];
    let mut table =
        Table::new("queue-within", "a put and a take of 8 bytes by one thread", &columns);
    for depth in context.progress("queue-within", DEPTHS.to_vec()) {
        let plain = RefCell::new(VecDeque::new());
        let locked = Mutex::new(VecDeque::new());
        let (sender, receiver) = mpsc::channel();
        let unbounded = SegQueue::new();
        let bounded = ArrayQueue::new(depth as usize);
        let lock = || locked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut contestants = [
            Contestant {
                name: "VecDeque",
                run: Box::new(|| {
                    let put = |entry| plain.borrow_mut().push_back(entry);
                    fill_and_empty(depth, put, || plain.borrow_mut().pop_front())
                }),
            },
            Contestant {
                name: "Mutex",
                run: Box::new(|| {
                    fill_and_empty(depth, |entry| lock().push_back(entry), || lock().pop_front())
                }),
            },
            Contestant {
                name: "mpsc",
                run: Box::new(|| {
                    let put = |entry| sender.send(entry).expect("the receiver is here");
                    fill_and_empty(depth, put, || receiver.try_recv().ok())
                }),
            },
            Contestant {
                name: "SegQueue",
                run: Box::new(|| {
                    fill_and_empty(depth, |entry| unbounded.push(entry), || unbounded.pop())
                }),
            },
            Contestant {
                name: "ArrayQueue",
                run: Box::new(|| {
                    let put = |entry| bounded.push(entry).expect("it has that many places");
                    fill_and_empty(depth, put, || bounded.pop())
                }),
            },
        ];
        let times = compare(context.effort, &mut contestants)?;
        let mut cells = vec![Cell::count(depth), Cell::time(times[0].median())];
        cells.push(Cell::number(times[0].spread() * 100.0, 0, "%"));
        cells.extend(times[1..].iter().map(|time| Cell::times(time.relative_to(&times[0]))));
        table.row(cells);
    }
    table.note(
        "VecDeque: ns for a put and a take, and half of the distance of their quartiles; others: how many times that \
         they take. Mutex: a VecDeque behind one. No other thread is there, so that nothing waits for a cache line.",
    );
    Ok(table)
}

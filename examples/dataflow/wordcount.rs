//! How often each word is in a text, as a dataflow.
//!
//! Every worker has some of the lines. Words go to the worker that their hash says, which counts
//! them until their round is over everywhere; the counts go to worker 0.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;

use timely::communication::allocator::Allocate;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Map as _;
use timely::dataflow::operators::{Exchange as _, Inspect as _, Operator as _, Probe as _};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

/// Words and how often they are there.
pub(crate) type Counts = BTreeMap<String, u64>;

/// What is a word: letters and digits, without regard to capitals.
fn words(line: &str) -> Vec<String> {
    let words = line.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The same on one processor, without a dataflow.
pub(crate) fn alone(text: &str, rounds: u64) -> Counts {
    let mut counts = Counts::new();
    for word in text.lines().flat_map(words) {
        *counts.entry(word).or_default() += rounds;
    }
    counts
}

fn place(word: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(word)
}

/// Counts the words of `text`, read `rounds` times. The counts at worker 0, nothing at others.
pub(crate) fn run<A: Allocate>(worker: &mut Worker<A>, text: &str, rounds: u64) -> Counts {
    let all = Rc::new(RefCell::new(Counts::new()));
    let found = Rc::clone(&all);
    let (index, peers) = (worker.index(), worker.peers());
    let mut input = InputHandle::new();
    let probe = ProbeHandle::new();
    worker.dataflow::<u64, _, _>(|scope| {
        input
            .to_stream(scope)
            .flat_map(|line: String| words(&line))
            .unary_frontier(Exchange::new(|word: &String| place(word)), "Count", |_, _| {
                // Counts of the rounds that are not over, each with the right to send them on.
                let mut open = HashMap::new();
                move |(input, frontier), output| {
                    input.for_each_time(|time, batches| {
                        let (_, counts) = open.entry(*time.time()).or_insert_with(|| {
                            let send_on = time.retain(output.output_index());
                            (send_on, HashMap::<String, u64>::new())
                        });
                        for word in batches.flat_map(std::mem::take) {
                            *counts.entry(word).or_default() += 1;
                        }
                    });
                    for (time, (send_on, counts)) in &mut open {
                        if !frontier.less_equal(time) {
                            output.session(send_on).give_iterator(counts.drain());
                        }
                    }
                    open.retain(|_, (_, counts)| !counts.is_empty());
                }
            })
            .container::<Vec<(String, u64)>>()
            .exchange(|_| 0)
            .inspect(move |(word, count)| {
                *found.borrow_mut().entry(word.clone()).or_default() += count;
            })
            .probe_with(&probe);
    });
    for round in 0..rounds {
        for line in text.lines().skip(index).step_by(peers) {
            input.send(line.to_owned());
        }
        input.advance_to(round + 1);
        while probe.less_than(input.time()) {
            worker.step_or_park(None);
        }
    }
    input.close();
    while !probe.done() {
        worker.step_or_park(None);
    }
    all.take()
}

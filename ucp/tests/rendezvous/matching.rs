//! Whatever carries a message, it meets the receive that MPI says: random programs over two and
//! three ranks, with and without announced receives, in random orders of events.

use std::collections::HashMap;

use bowline_sim::NetworkOptions;
use bowline_ucp::{OpError, RequestId, SendMode};
use proptest::prelude::*;

use super::ranks::{Ranks, pattern};

/// Bytes from which on messages are offered.
const LONG: usize = 200;

/// Under which programs run. Of those that announce, one announces what is eager too, one all but the shortest. Under
/// the last ones, eager messages to receives from any source are written to these, alone and beside announced ones.
const SCHEMES: [&[(&str, &str)]; 8] = [
    &[("BOWLINE_RNDV_SCHEME", "auto")],
    &[("BOWLINE_RNDV_SCHEME", "put")],
    &[("BOWLINE_RNDV_SCHEME", "rtr")],
    &[("BOWLINE_RNDV_SCHEME", "rtr"), ("BOWLINE_RTR_MIN", "1")],
    &[("BOWLINE_RNDV_SCHEME", "rtr"), ("BOWLINE_RTR_MIN", "100")],
    &[("BOWLINE_ANY_SOURCE", "flags")],
    &[("BOWLINE_ANY_SOURCE", "flags"), ("BOWLINE_RNDV_SCHEME", "rtr")],
    &[("BOWLINE_ANY_SOURCE", "flags"), ("BOWLINE_RNDV_SCHEME", "rtr"), ("BOWLINE_RTR_MIN", "50")],
];

#[derive(Clone, Debug)]
enum Step {
    Send {
        from: u8,
        to: u8,
        tag: u8,
        length: u8,
        synchronous: bool,
    },
    Receive {
        at: u8,
        source: Option<u8>,
        tag: Option<u8>,
        capacity: u8,
    },
    /// A receive is cancelled, one of those before.
    Cancel {
        at: u8,
        which: u8,
    },
    Poll {
        who: u8,
        times: u8,
    },
    Time {
        events: u8,
    },
}

/// Empty, short, eager, in pieces, and two that are offered.
fn length(class: u8) -> usize {
    [0, 20, 100, 190, 1000, 7000][usize::from(class) % 6]
}

fn steps(ranks: u8) -> impl Strategy<Value = Vec<Step>> {
    let any_tag = prop_oneof![4 => (0..3_u8).prop_map(Some), 1 => Just(None)];
    let any_source = prop_oneof![5 => (0..ranks).prop_map(Some), 1 => Just(None)];
    let step = prop_oneof![
        6 => (0..ranks, 0..ranks, 0..3_u8, 1..6_u8, any::<bool>()).prop_map(
            |(from, to, tag, length, synchronous)| Step::Send { from, to, tag, length, synchronous }
        ),
        6 => (0..ranks, any_source, any_tag, 1..6_u8)
            .prop_map(|(at, source, tag, capacity)| Step::Receive { at, source, tag, capacity }),
        1 => (0..ranks, any::<u8>()).prop_map(|(at, which)| Step::Cancel { at, which }),
        6 => (0..ranks, 1..6_u8).prop_map(|(who, times)| Step::Poll { who, times }),
        3 => (1..12_u8).prop_map(|events| Step::Time { events }),
    ];
    proptest::collection::vec(step, 5..90)
}

#[derive(Clone, Debug)]
struct Sent {
    from: usize,
    to: usize,
    tag: u64,
    data: Vec<u8>,
    id: Option<RequestId>,
}

#[derive(Clone, Debug)]
struct Posted {
    at: usize,
    source: Option<u32>,
    tag: Option<u64>,
    capacity: usize,
    id: RequestId,
    cancelled: bool,
}

/// What a receive ended with: the number of its message among all, or none.
type Met = Vec<Option<usize>>;

/// Runs a program. Which message each receive has met.
fn run(
    count: u8,
    seed: u64,
    scheme: &[(&str, &str)],
    program: &[Step],
) -> Result<(Vec<Sent>, Vec<Posted>, Met), TestCaseError> {
    let options = NetworkOptions {
        seed,
        jitter_ns: 3000,
        slots: 6,
        max_bcopy: 256,
        max_short: 64,
        ..NetworkOptions::default()
    };
    let threshold = LONG.to_string();
    let settings = [&[("BOWLINE_RNDV_THRESHOLD", threshold.as_str())], scheme].concat();
    let ranks = Ranks::simulated(u32::from(count), options, &settings);
    let network = ranks.network.as_ref().expect("simulated");
    let (mut sent, mut posted): (Vec<Sent>, Vec<Posted>) = (Vec::new(), Vec::new());
    for step in program {
        match *step {
            Step::Send { from, to, tag, length: class, synchronous } => {
                let (from, to, tag) = (usize::from(from), usize::from(to), u64::from(tag));
                if from == to {
                    continue;
                }
                let data = pattern(length(class), sent.len() as u64 + 1);
                let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
                let id = ranks.send_as(from, to, tag, data.clone(), mode);
                sent.push(Sent { from, to, tag, data, id });
            }
            Step::Receive { at, source, tag, capacity } => {
                let (at, source, tag) =
                    (usize::from(at), source.map(u32::from), tag.map(u64::from));
                let capacity = length(capacity);
                let id = ranks.receive(at, source, tag, capacity);
                posted.push(Posted { at, source, tag, capacity, id, cancelled: false });
            }
            Step::Cancel { at, which } => {
                let mine = posted.iter_mut().filter(|one| one.at == usize::from(at));
                let mut mine: Vec<_> = mine.collect();
                if !mine.is_empty() {
                    let which = usize::from(which) % mine.len();
                    ranks.worker(usize::from(at)).cancel(mine[which].id);
                    mine[which].cancelled = true;
                }
            }
            Step::Poll { who, times } => {
                for _ in 0..times {
                    ranks.worker(usize::from(who)).progress();
                }
            }
            Step::Time { events } => {
                for _ in 0..events {
                    network.advance();
                }
            }
        }
    }
    ranks.run(|| false);
    // Everything that can happen has happened.
    let mut met = Met::new();
    let mut taken = vec![false; sent.len()];
    for receive in &posted {
        let worker = ranks.worker(receive.at);
        if !worker.is_complete(receive.id) {
            met.push(None);
            continue;
        }
        let (status, bytes) = ranks.received(receive.at, receive.id);
        if status.outcome == Err(OpError::Cancelled) {
            prop_assert!(receive.cancelled);
            met.push(None);
            continue;
        }
        // Messages of one sender with one tag arrive in order.
        let found = sent.iter().enumerate().position(|(nth, one)| {
            !taken[nth]
                && one.from == status.source as usize
                && one.to == receive.at
                && one.tag == status.tag
        });
        prop_assert!(found.is_some(), "a message that nobody has sent: {:?}", status);
        let nth = found.unwrap_or_default();
        taken[nth] = true;
        let data = &sent[nth].data;
        let cut = data.len().min(receive.capacity);
        prop_assert_eq!(status.length, data.len() as u64);
        prop_assert!(bytes[..cut] == data[..cut], "the bytes of message {}", nth);
        let fits = data.len() <= receive.capacity;
        let end = format_args!("{scheme:?}: message {nth}, {receive:?}, {status:?}");
        prop_assert!(status.outcome.is_ok() == fits, "{end}");
        met.push(Some(nth));
    }
    for (nth, one) in sent.iter().enumerate() {
        let complete = one.id.is_none_or(|id| ranks.worker(one.from).is_complete(id));
        prop_assert!(complete || !taken[nth], "message {} was received and is not complete", nth);
    }
    Ok((sent, posted, met))
}

/// The model, for messages of one sender to one receiver: each meets the first receive that fits, and
/// each receive the first message. A receive from anyone counts as one from whom it has met.
fn model(
    sent: &[Sent],
    posted: &[Posted],
    met: &Met,
    from: usize,
    to: usize,
) -> HashMap<usize, usize> {
    let mut free: Vec<usize> = (0..posted.len())
        .filter(|&nth| {
            let one = &posted[nth];
            let source = match (one.source, met[nth]) {
                (Some(source), _) => Some(source as usize),
                (None, Some(message)) => Some(sent[message].from),
                (None, None) => None,
            };
            let gone = one.cancelled && met[nth].is_none();
            one.at == to && source == Some(from) && !gone
        })
        .collect();
    let mut pairs = HashMap::new();
    for (nth, message) in sent.iter().enumerate() {
        if message.from == from && message.to == to {
            let fits = |&receive: &usize| posted[receive].tag.is_none_or(|tag| tag == message.tag);
            if let Some(at) = free.iter().position(fits) {
                pairs.insert(free.remove(at), nth);
            }
        }
    }
    pairs
}

fn check(count: u8, seed: u64, program: &[Step]) -> Result<(), TestCaseError> {
    for scheme in SCHEMES {
        let (sent, posted, met) = run(count, seed, scheme, program)?;
        for from in 0..usize::from(count) {
            for to in 0..usize::from(count) {
                let expected = model(&sent, &posted, &met, from, to);
                for (receive, found) in met.iter().enumerate() {
                    let theirs = found.is_some_and(|nth| sent[nth].from == from);
                    if posted[receive].at == to
                        && (theirs || posted[receive].source == Some(from as u32))
                    {
                        prop_assert_eq!(
                            *found,
                            expected.get(&receive).copied(),
                            "{:?}: receive {} of {}",
                            scheme,
                            receive,
                            to
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn two_ranks_match_as_the_model_does(seed: u64, program in steps(2)) {
        check(2, seed, &program)?;
    }

    #[test]
    fn three_ranks_match_as_the_model_does(seed: u64, program in steps(3)) {
        check(3, seed, &program)?;
    }
}

//! Random programs of four ranks with receives from any source for which senders raise flags, over networks with faults:
//! a rank may die, close its endpoints or cancel what it has begun, at any step. Whatever happens, each message is
//! received once and whole, messages of a sender are received in their order, and everything ends that waits for the dead.

use bowline_sim::{Faults, NetworkOptions};
use bowline_ucp::{CloseMode, OpError, RequestId, SendMode};
use proptest::prelude::*;

use super::ranks::{Ranks, pattern};

const RANKS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Send { from: u8, to: u8, tag: u8, length: u8, synchronous: bool },
    Receive { at: u8, source: Option<u8>, tag: Option<u8> },
    CancelReceive { which: u8 },
    CancelSend { which: u8 },
    Progress { who: u8, times: u8 },
    Time { events: u8 },
}

/// How a rank ends, and with which step.
#[derive(Clone, Copy, Debug)]
enum End {
    Dies,
    Leaves,
    /// It closes its endpoint to the next rank.
    Closes(CloseMode),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_tag = || prop_oneof![5 => (0..2_u8).prop_map(Some), 1 => Just(None)];
    let any_source = prop_oneof![1 => (0..RANKS).prop_map(Some), 3 => Just(None)];
    let step = prop_oneof![
        6 => (0..RANKS, 0..RANKS, 0..2_u8, 0..6_u8, prop::bool::weighted(0.1)).prop_map(
            |(from, to, tag, length, synchronous)| Step::Send { from, to, tag, length, synchronous }
        ),
        6 => (0..RANKS, any_source, any_tag())
            .prop_map(|(at, source, tag)| Step::Receive { at, source, tag }),
        1 => any::<u8>().prop_map(|which| Step::CancelReceive { which }),
        1 => any::<u8>().prop_map(|which| Step::CancelSend { which }),
        6 => (0..RANKS, 1..6_u8).prop_map(|(who, times)| Step::Progress { who, times }),
        4 => (1..16_u8).prop_map(|events| Step::Time { events }),
    ];
    proptest::collection::vec(step, 10..120)
}

fn ends() -> impl Strategy<Value = Option<(u8, u8, End)>> {
    let end = prop_oneof![
        2 => Just(End::Dies),
        1 => Just(End::Leaves),
        1 => Just(End::Closes(CloseMode::Flush)),
        1 => Just(End::Closes(CloseMode::Force)),
    ];
    prop_oneof![1 => Just(None), 3 => (0..RANKS, 0..100_u8, end).prop_map(Some)]
}

const fn length(class: u8) -> usize {
    [0, 12, 40, 100, 240, 2000][class as usize % 6]
}

/// Longer than all messages.
const CAPACITY: usize = 2000;

struct Sent {
    from: usize,
    to: usize,
    tag: u64,
    data: Vec<u8>,
    /// None: it was complete at once, or refused.
    id: Option<RequestId>,
    refused: bool,
}

struct Posted {
    at: usize,
    source: Option<u32>,
    tag: Option<u64>,
    id: RequestId,
}

fn check(
    seed: u64,
    program: &[Step],
    end: Option<(u8, u8, End)>,
    faulty: bool,
    scheme: &'static str,
) -> Result<(), TestCaseError> {
    let loss = if faulty { 50_000 } else { 0 };
    let options = NetworkOptions {
        seed,
        jitter_ns: 3000,
        slots: 5,
        outstanding: 2,
        max_bcopy: 200,
        max_short: 64,
        detect_ns: 20_000,
        faults: Faults { loss, retransmit_ns: 4000, ..Faults::default() },
        ..NetworkOptions::default()
    };
    let settings = [
        ("BOWLINE_RNDV_THRESHOLD", "1000"),
        ("BOWLINE_ANY_SOURCE", "flags"),
        ("BOWLINE_RTR_MIN", "20"),
        ("BOWLINE_RNDV_SCHEME", scheme),
        ("BOWLINE_EAGER_SHARE_FIRST", "1024"),
        ("BOWLINE_EAGER_SHARE", "1024"),
    ];
    let mut ranks = Ranks::simulated(u32::from(RANKS), options, &settings);
    let (mut sent, mut posted): (Vec<Sent>, Vec<Posted>) = (Vec::new(), Vec::new());
    let (mut gone, mut closed) = (None, None);
    for (at, step) in program.iter().enumerate() {
        if let Some((who, when, how)) = end
            && usize::from(when) == at
        {
            let who = usize::from(who);
            match how {
                End::Dies => {
                    gone = Some(who);
                    ranks.kill(who);
                }
                End::Leaves => {
                    gone = Some(who);
                    drop(ranks.workers[who].take());
                    ranks.report_death(who);
                }
                End::Closes(mode) => {
                    let to = (who + 1) % usize::from(RANKS);
                    closed = Some((who, to));
                    ranks.close(who, to, mode);
                }
            }
        }
        let alive = |who: usize| gone != Some(who);
        match *step {
            Step::Send { from, to, tag, length: class, synchronous } => {
                let (from, to, tag) = (usize::from(from), usize::from(to), u64::from(tag));
                if from == to || !alive(from) {
                    continue;
                }
                let data = pattern(length(class), sent.len() as u64 + 1);
                let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
                let outcome = ranks.try_send(from, to, tag, data.clone(), mode);
                let (id, refused) = (outcome.unwrap_or_default(), outcome.is_err());
                prop_assert!(!refused || gone.is_some() || closed.is_some(), "{:?}", outcome);
                sent.push(Sent { from, to, tag, data, id, refused });
            }
            Step::Receive { at, source, tag } => {
                let (at, source, tag) =
                    (usize::from(at), source.map(u32::from), tag.map(u64::from));
                if alive(at)
                    && let Ok(id) = ranks.try_receive(at, source, tag, CAPACITY)
                {
                    posted.push(Posted { at, source, tag, id });
                }
            }
            Step::CancelReceive { which } => {
                let mine: Vec<_> = posted.iter().filter(|one| alive(one.at)).collect();
                if !mine.is_empty() {
                    let one = mine[usize::from(which) % mine.len()];
                    ranks.worker(one.at).cancel(one.id);
                }
            }
            Step::CancelSend { which } => {
                let mine = sent.iter().filter(|one| alive(one.from) && one.id.is_some());
                let mine: Vec<_> = mine.collect();
                if !mine.is_empty() {
                    let one = mine[usize::from(which) % mine.len()];
                    let id = one.id.expect("filtered");
                    ranks.worker(one.from).cancel(id);
                }
            }
            Step::Progress { who, times } => {
                if alive(usize::from(who)) {
                    for _ in 0..times {
                        ranks.worker(usize::from(who)).progress();
                    }
                }
            }
            Step::Time { events } => {
                let network = ranks.network.as_ref().expect("simulated");
                for _ in 0..events {
                    network.advance();
                }
            }
        }
    }
    ranks.run(|| false);
    let lost = gone.is_some() || closed.is_some();
    // Which messages were received, by each receive in the order of posting.
    let mut met: Vec<Option<usize>> = Vec::new();
    let mut cancelled = vec![false; posted.len()];
    for (nth, receive) in posted.iter().enumerate() {
        if gone == Some(receive.at) || !ranks.worker(receive.at).is_complete(receive.id) {
            let from_dead = receive.source.map(|source| source as usize) == gone;
            let waits = gone.is_some() && gone != Some(receive.at) && from_dead;
            prop_assert!(!waits, "receive {} waits for the dead", nth);
            met.push(None);
            continue;
        }
        let (status, bytes) = ranks.received(receive.at, receive.id);
        if let Err(error) = status.outcome {
            cancelled[nth] = true;
            let known = error == OpError::Cancelled || lost;
            prop_assert!(known, "receive {}: {}", nth, error);
            met.push(None);
            continue;
        }
        let fits = |one: &Sent| {
            one.from == status.source as usize && one.to == receive.at && one.tag == status.tag
        };
        let is_it = |one: &Sent| one.data.len() as u64 == status.length;
        let same = |one: &Sent| bytes[..one.data.len().min(CAPACITY)] == one.data[..];
        // The bytes of a message are its own, unless it has few.
        let found = sent
            .iter()
            .enumerate()
            .position(|(at, one)| fits(one) && is_it(one) && same(one) && !met.contains(&Some(at)));
        prop_assert!(found.is_some(), "receive {} has what nobody has sent: {:?}", nth, status);
        let asked = receive.tag.is_none_or(|tag| tag == status.tag)
            && receive.source.is_none_or(|source| source == status.source);
        prop_assert!(asked, "receive {} has what it has not asked for: {:?}", nth, status);
        met.push(found);
    }
    // Of two receives that a message fits, the older one has the older message of a sender.
    for later in 0..posted.len() {
        let Some(second) = met[later] else { continue };
        for earlier in 0..later {
            let Some(first) = met[earlier] else { continue };
            let (one, two) = (&sent[first], &sent[second]);
            let same = one.from == two.from && one.to == two.to && one.data.len() > 12;
            // The older receive could have had the message of the later one.
            let fits = posted[earlier].tag.is_none_or(|tag| tag == two.tag)
                && posted[earlier].source.is_none_or(|source| source as usize == two.from);
            if same && fits && two.data.len() > 12 {
                prop_assert!(first < second, "{} overtakes {}", second, first);
            }
        }
    }
    // What was received is complete at its sender, and what failed was not received by then.
    for (nth, one) in sent.iter().enumerate() {
        if gone == Some(one.from) || one.refused {
            continue;
        }
        let Some(id) = one.id else { continue };
        let received = met.contains(&Some(nth));
        if !ranks.worker(one.from).is_complete(id) {
            prop_assert!(!received || one.data.len() <= 12, "message {} was received", nth);
            prop_assert!(gone != Some(one.to), "message {} waits for the dead", nth);
            continue;
        }
        let outcome = ranks.worker(one.from).take(id).expect("complete").outcome;
        prop_assert!(
            outcome != Err(OpError::Cancelled) || !received || one.data.len() <= 12 || lost,
            "message {} was taken back and received",
            nth
        );
    }
    // Nothing is left that could go on: a receive and a message that fit each other.
    if !lost {
        for (nth, receive) in posted.iter().enumerate() {
            if met[nth].is_some() || cancelled[nth] {
                continue;
            }
            for (at, one) in sent.iter().enumerate() {
                let fits = one.to == receive.at
                    && receive.tag.is_none_or(|tag| tag == one.tag)
                    && receive.source.is_none_or(|source| source as usize == one.from);
                let there = one.id.is_none_or(|id| {
                    // One that was taken back is complete, with an error; its status is gone by now.
                    !ranks.worker(one.from).is_complete(id)
                });
                prop_assert!(
                    !fits || !there || met.contains(&Some(at)) || one.data.len() <= 12,
                    "receive {} and message {} do not meet: {:?}, {:?}",
                    nth,
                    at,
                    ranks.worker(receive.at).query(receive.id),
                    one.id.map(|id| ranks.worker(one.from).query(id))
                );
            }
        }
    }
    // What still waits is taken back.
    for one in posted.iter().filter(|one| gone != Some(one.at)) {
        ranks.worker(one.at).cancel(one.id);
    }
    let over = |one: &Posted| gone == Some(one.at) || ranks.worker(one.at).is_complete(one.id);
    ranks.run(|| posted.iter().all(over));
    for (nth, one) in posted.iter().enumerate().filter(|(_, one)| !over(one)) {
        let what = ranks.worker(one.at).query(one.id);
        prop_assert!(false, "receive {} was cancelled and does not end: {:?}", nth, what);
    }
    let network = ranks.network.as_ref().expect("simulated");
    for rank in (0..usize::from(RANKS)).filter(|&rank| gone != Some(rank)) {
        prop_assert_eq!(network.memories(rank as u32), 0, "memory of {} left open", rank);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_keep_their_order_whatever_happens(
        seed: u64,
        program in steps(),
        end in ends(),
        faulty: bool,
        announced: bool,
    ) {
        check(seed, &program, end, faulty, if announced { "rtr" } else { "auto" })?;
    }
}

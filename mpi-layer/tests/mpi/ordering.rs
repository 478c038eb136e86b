//! Random programs against a plain model of matching.
//!
//! A program is a list of messages and, for every rank, an order in which it receives them. The
//! model is one list of messages for each pair of ranks, from which a receive takes the first
//! that fits. Sends and receives are posted in random alternation, so that messages arrive before
//! and after their receives.

use bowline_mpi::{ANY_SOURCE, ANY_TAG, World};
use proptest::prelude::*;

use super::start::ranks;

#[derive(Clone, Debug)]
struct Sending {
    from: usize,
    to: usize,
    tag: i32,
    /// Elements, at least one.
    len: usize,
}

#[derive(Clone, Debug)]
struct Receiving {
    source: usize,
    tag: i32,
    /// Which message the model says it gets.
    message: usize,
}

#[derive(Clone, Debug)]
struct Program {
    size: usize,
    messages: Vec<Sending>,
    receives: Vec<Vec<Receiving>>,
    /// Consumed bit by bit: whether a rank posts a receive or a send next.
    choices_of_next: Vec<bool>,
}

fn programs() -> impl Strategy<Value = Program> {
    (2usize..=4).prop_flat_map(|size| {
        let lengths = prop_oneof![4 => 1usize..20, 2 => 1000usize..3000, 1 => 20_000usize..60_000];
        let message = (0..size, 0..size, 0..3i32, lengths)
            .prop_map(|(from, to, tag, len)| Sending { from, to, tag, len });
        let messages = prop::collection::vec(message, 0..60);
        let choices = prop::collection::vec(any::<(prop::sample::Index, bool)>(), 60);
        let choices_of_next = prop::collection::vec(any::<bool>(), 200);
        (messages, choices, choices_of_next).prop_map(
            move |(messages, choices, choices_of_next)| {
                let receives = plan(size, &messages, &choices);
                Program { size, messages, receives, choices_of_next }
            },
        )
    })
}

/// Chooses the order and the wildcards of the receives by the model.
fn plan(
    size: usize,
    messages: &[Sending],
    choices: &[(prop::sample::Index, bool)],
) -> Vec<Vec<Receiving>> {
    let mut choices = choices.iter();
    let mut receives = vec![Vec::new(); size];
    for (to, list) in receives.iter_mut().enumerate() {
        let mut left: Vec<_> = (0..messages.len()).filter(|&m| messages[m].to == to).collect();
        while !left.is_empty() {
            let (index, any_tag) = choices.next().expect("as many choices as messages");
            let wanted = &messages[left[index.index(left.len())]];
            let fits = |&m: &usize| {
                messages[m].from == wanted.from && (*any_tag || messages[m].tag == wanted.tag)
            };
            let at = left.iter().position(fits).expect("the wanted message fits");
            let tag = if *any_tag { ANY_TAG } else { wanted.tag };
            list.push(Receiving { source: wanted.from, tag, message: left.remove(at) });
        }
    }
    receives
}

/// The items of a message: its number everywhere.
fn items(program: &Program, message: usize) -> Vec<u32> {
    vec![message as u32; program.messages[message].len]
}

fn run(world: &World, program: &Program) {
    let me = world.rank() as usize;
    let out: Vec<_> = (0..program.messages.len())
        .filter(|&m| program.messages[m].from == me)
        .map(|m| (&program.messages[m], items(program, m)))
        .collect();
    let receives = &program.receives[me];
    let mut into: Vec<Vec<u32>> =
        receives.iter().map(|r| vec![u32::MAX; program.messages[r.message].len]).collect();
    world
        .scope(|s| {
            let mut sends = out.iter();
            let mut receives = receives.iter().zip(&mut into);
            let mut choices_of_next = program.choices_of_next.iter().cycle().skip(me * 7);
            loop {
                let receive_next = *choices_of_next.next().expect("an endless list");
                let mut receive = || -> Result<bool, bowline_mpi::MpiError> {
                    let Some((wanted, place)) = receives.next() else { return Ok(false) };
                    let _ = s.irecv(world, place, wanted.source as i32, wanted.tag)?;
                    Ok(true)
                };
                let mut send = || -> Result<bool, bowline_mpi::MpiError> {
                    let Some((message, items)) = sends.next() else { return Ok(false) };
                    let _ = s.isend(world, items, message.to as i32, message.tag)?;
                    Ok(true)
                };
                let first = if receive_next { receive()? } else { send()? };
                let moved = first || if receive_next { send()? } else { receive()? };
                if !moved {
                    return Ok(());
                }
            }
        })
        .unwrap();
    for (wanted, got) in receives.iter().zip(into) {
        assert_eq!(got, items(program, wanted.message), "{wanted:?} in {program:?}");
    }
}

/// From any source, messages of one sender still come in its order.
fn run_wild(world: &World, program: &Program) {
    let me = world.rank() as usize;
    let mine = |m: &usize| program.messages[*m].to == me;
    let expected: Vec<_> = (0..program.messages.len()).filter(mine).collect();
    let mut last = vec![None; program.size];
    let sends: Vec<_> = (0..program.messages.len())
        .filter(|&m| program.messages[m].from == me)
        .map(|m| {
            let Sending { to, tag, .. } = program.messages[m];
            world.isend_owned(items(program, m), to as i32, tag).unwrap()
        })
        .collect();
    for _ in &expected {
        let claimed = world.mprobe(ANY_SOURCE, ANY_TAG).unwrap();
        let mut got = vec![u32::MAX; claimed.status().count::<u32>().unwrap()];
        let status = claimed.recv(&mut got).unwrap();
        let (source, message) = (status.source() as usize, got[0] as usize);
        assert_eq!(got, items(program, message));
        assert_eq!(program.messages[message].tag, status.tag());
        assert!(last[source] < Some(message), "messages of {source} overtake each other");
        last[source] = Some(message);
    }
    for send in sends {
        send.wait().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_match_as_the_model_says(program in programs()) {
        ranks(program.size, |world| {
            run(world, &program);
            world.barrier().unwrap();
            run_wild(world, &program);
        });
    }
}

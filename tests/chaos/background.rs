//! Collectives under way while the program goes on: nonblocking ones around other steps, and
//! persistent ones that are started again and again.
//!
//! All ranks start those of a communicator in one order. Of different communicators, and of
//! persistent ones, each rank starts and ends in an order of its own, by waits and by tests.

use bowline::mpi::{Communicator, MpiError};
use bowline::simulate::Random;

use crate::calls::Persistent;
use crate::case::Case;
use crate::collective::{Collective, Content};
use crate::content::mix;
use crate::plan::Step;
use crate::program::{Rank, give_up};

/// A nonblocking collective of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) family: usize,
    pub(crate) group: usize,
    pub(crate) collective: Collective,
}

/// A persistent collective that has been made, and how it was started last.
#[derive(Debug)]
pub(crate) struct Slot {
    collective: Collective,
    me: usize,
    n: usize,
    persistent: Persistent,
    content: Option<Content>,
}

/// The numbers below `n` in some order.
fn shuffled(random: &mut Random, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for place in (1..n).rev() {
        order.swap(place, random.below(place as u64 + 1) as usize);
    }
    order
}

/// What a member gives, with one word changed at one member if the oracle is to be tried.
fn content(case: &Case, collective: &Collective, seed: u64, me: usize, n: usize) -> Content {
    let mut content = collective.content(seed, me, n);
    if case.corrupt_collectives && me == n - 1 {
        content.corrupt();
    }
    content
}

/// Starts the collectives of this rank, goes through the steps, and ends them.
pub(crate) fn around(
    rank: &mut Rank<'_>,
    begun: &[Begun],
    inner: &[Step],
    seed: u64,
) -> Result<(), MpiError> {
    let case = rank.case;
    let mut random = Random::new(mix(&[seed, rank.me as u64]));
    let mut mine: Vec<(Communicator, Collective, Content)> = Vec::new();
    for (number, Begun { family, group, collective }) in begun.iter().enumerate() {
        if !case.plan.families[*family][*group].contains(&rank.me) {
            continue;
        }
        let comm = rank.communicator(*family);
        let (me, n) = (comm.rank() as usize, comm.size() as usize);
        let seed = mix(&[seed, number as u64]);
        mine.push((comm, *collective, content(case, collective, seed, me, n)));
    }
    let mut outputs: Vec<Vec<u64>> =
        mine.iter().map(|(_, _, content)| content.output.clone()).collect();
    rank.world.communicator().clone().scope(|scope| {
        let mut requests = Vec::new();
        for ((comm, collective, content), output) in mine.iter().zip(&mut outputs) {
            let request = collective.begin(scope, comm, &content.input, output);
            requests.push(Some(give_up(request)?));
        }
        for step in inner {
            rank.step(step)?;
            // It may end here, or be moved by what others do.
            if !requests.is_empty() && random.below(2) == 0 {
                let which = random.below(requests.len() as u64) as usize;
                let ended = match &mut requests[which] {
                    Some(request) => give_up(request.test())?,
                    None => false,
                };
                if ended {
                    requests[which] = None;
                }
            }
        }
        for number in shuffled(&mut random, requests.len()) {
            let Some(mut request) = requests[number].take() else { continue };
            match random.below(3) {
                // The scope waits for it.
                0 if case.is_calm() => drop(request),
                1 => while !give_up(request.test())? {},
                _ => give_up(request.wait())?,
            }
        }
        Ok(())
    })?;
    for ((_, collective, content), output) in mine.iter().zip(&outputs) {
        collective.check(content, output, "a nonblocking");
    }
    Ok(())
}

/// Makes a persistent collective of a communicator.
pub(crate) fn make(collective: &Collective, comm: &Communicator) -> Result<Slot, MpiError> {
    let (me, n) = (comm.rank() as usize, comm.size() as usize);
    let persistent = collective.make(comm, collective.content(0, me, n))?;
    Ok(Slot { collective: *collective, me, n, persistent, content: None })
}

/// Starts those of the slots that this rank has.
pub(crate) fn start(rank: &mut Rank<'_>, slots: &[usize], seed: u64) -> Result<(), MpiError> {
    let mut random = Random::new(mix(&[seed, rank.me as u64]));
    for number in shuffled(&mut random, slots.len()) {
        let case = rank.case;
        let Some(slot) = &mut rank.slots[slots[number]] else { continue };
        let seed = mix(&[seed, slots[number] as u64]);
        let content = content(case, &slot.collective, seed, slot.me, slot.n);
        slot.persistent.start(&content)?;
        slot.content = Some(content);
    }
    Ok(())
}

/// Ends those of the slots that this rank has.
pub(crate) fn finish(rank: &mut Rank<'_>, slots: &[usize], seed: u64) -> Result<(), MpiError> {
    let mut random = Random::new(mix(&[seed, rank.me as u64]));
    for number in shuffled(&mut random, slots.len()) {
        let Some(slot) = &mut rank.slots[slots[number]] else { continue };
        if random.below(2) == 0 {
            while !slot.persistent.test()? {}
        } else {
            slot.persistent.wait()?;
        }
        let content = slot.content.take().expect("it was started");
        slot.collective.check(&content, slot.persistent.output()?, "a persistent");
    }
    Ok(())
}

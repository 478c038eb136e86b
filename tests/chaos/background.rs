//! Collectives under way while the program goes on: nonblocking ones around other steps, and
//! persistent ones that are started again and again.
//!
//! All ranks start those of a communicator in one order. Of different communicators, and of
//! persistent ones, each rank starts and ends in an order of its own, by waits and by tests.

use std::cell::Cell;
use std::rc::Rc;

use bowline::mpi::{Communicator, MpiError, raw};
use bowline::simulate::Random;

use crate::calls::Persistent;
use crate::case::Case;
use crate::collective::{Collective, Content};
use crate::content::mix;
use crate::neighbors::Member;
use crate::plan::Step;
use crate::program::{Rank, give_up};

/// A nonblocking collective of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) family: usize,
    pub(crate) group: usize,
    pub(crate) collective: Collective,
}

/// A communicator that is duplicated, and the family of the duplicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duplicated {
    pub(crate) family: usize,
    pub(crate) group: usize,
    pub(crate) into: usize,
}

/// A duplication that is under way. The call is the C library's, since programs in Rust have none.
struct Duplication {
    comm: Communicator,
    into: usize,
    request: raw::RawRequest,
    made: Rc<Cell<Option<Communicator>>>,
}

impl Duplication {
    fn begin(comm: Communicator, into: usize) -> Result<Self, MpiError> {
        let made = Rc::new(Cell::new(None));
        let place = Rc::clone(&made);
        let request = comm.start_dup(&[], move |duplicate| place.set(Some(duplicate)))?;
        Ok(Self { comm, into, request, made })
    }

    /// Waits for it, or tests it until it is there.
    fn finish(mut self, waits: bool) -> Result<(usize, Communicator), MpiError> {
        let mut end = self.request.poll();
        if waits {
            self.comm.wait_until(|| {
                end = end.or_else(|| self.request.poll());
                end.is_some()
            });
        }
        let end = loop {
            if let Some(end) = end {
                break end;
            }
            self.comm.poll();
            end = self.request.poll();
        };
        end.error.map_or(Ok(()), Err)?;
        let made = self.made.take().expect("it was made");
        let is = (made.rank(), made.size());
        assert_eq!(is, (self.comm.rank(), self.comm.size()), "oracle: a duplicate");
        Ok((self.into, made))
    }
}

/// A persistent collective that has been made, and how it was started last.
#[derive(Debug)]
pub(crate) struct Slot {
    collective: Collective,
    me: usize,
    n: usize,
    family: usize,
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
fn content(case: &Case, collective: &Collective, seed: u64, member: Member<'_>) -> Content {
    let mut content = collective.content(seed, member);
    if case.corrupt_collectives && member.me == member.n - 1 {
        content.corrupt();
    }
    content
}

/// Starts the collectives and duplications of this rank, goes through the steps, and ends them.
pub(crate) fn around(
    rank: &mut Rank<'_>,
    begun: &[Begun],
    duplicated: &[Duplicated],
    inner: &[Step],
    seed: u64,
) -> Result<(), MpiError> {
    let case = rank.case;
    let mut random = Random::new(mix(&[seed, rank.me as u64]));
    let mut duplications = Vec::new();
    for Duplicated { family, group, into } in duplicated {
        if case.plan.families[*family][*group].contains(&rank.me) {
            duplications.push(Duplication::begin(rank.communicator(*family), *into)?);
        }
    }
    let mut mine: Vec<(Communicator, Member<'_>, Collective, Content)> = Vec::new();
    for (number, Begun { family, group, collective }) in begun.iter().enumerate() {
        if !case.plan.families[*family][*group].contains(&rank.me) {
            continue;
        }
        let comm = rank.communicator(*family);
        let member = rank.member(*family, &comm);
        let seed = mix(&[seed, number as u64]);
        mine.push((comm, member, *collective, content(case, collective, seed, member)));
    }
    let mut outputs: Vec<Vec<u64>> =
        mine.iter().map(|(_, _, _, content)| content.output.clone()).collect();
    rank.world.communicator().clone().scope(|scope| {
        let mut requests = Vec::new();
        for ((comm, member, collective, content), output) in mine.iter().zip(&mut outputs) {
            let request = collective.begin(scope, (comm, *member), &content.input, output);
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
        // Some end before the collectives, others behind them.
        for number in (0..duplications.len()).rev() {
            if random.below(2) == 0 {
                let duplication = duplications.swap_remove(number);
                give_up(rank.open(duplication.finish(random.below(2) == 0)))?;
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
    for ((_, _, collective, content), output) in mine.iter().zip(&outputs) {
        collective.check(content, output, "a nonblocking");
    }
    duplications.into_iter().try_for_each(|one| rank.open(one.finish(random.below(2) == 0)))
}

/// Makes a persistent collective of a communicator.
pub(crate) fn make(
    collective: &Collective,
    family: usize,
    comm: &Communicator,
    member: Member<'_>,
) -> Result<Slot, MpiError> {
    let persistent = collective.make(comm, member, collective.content(0, member))?;
    let Member { me, n, .. } = member;
    Ok(Slot { collective: *collective, me, n, family, persistent, content: None })
}

/// Starts those of the slots that this rank has.
pub(crate) fn start(rank: &mut Rank<'_>, slots: &[usize], seed: u64) -> Result<(), MpiError> {
    let mut random = Random::new(mix(&[seed, rank.me as u64]));
    for number in shuffled(&mut random, slots.len()) {
        let case = rank.case;
        let Some(slot) = &mut rank.slots[slots[number]] else { continue };
        let seed = mix(&[seed, slots[number] as u64]);
        let neighbors = case.plan.neighbors[slot.family].as_ref();
        let member = Member { me: slot.me, n: slot.n, neighbors };
        let content = content(case, &slot.collective, seed, member);
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
        slot.collective.check(&content, &slot.persistent.output()?, "a persistent");
    }
    Ok(())
}

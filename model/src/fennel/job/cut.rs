//! How far the ranks of a job come whose records break off.
//!
//! Ranks are moved on in no particular order, without times: a message is there once it was sent, a collective is over
//! once all its members have come to it. How far each rank comes does not depend on the order, since what
//! a rank does never takes away what another one waits for.

use std::collections::{HashMap, VecDeque};

use super::{Calls, Names, Place, RankRecord, What};

/// Sender, receiver, communicator and tag.
type Line = (u32, u32, u32, u32);

#[derive(Default)]
struct Meeting {
    /// Ranks that wait in it.
    waiting: Vec<usize>,
    over: bool,
}

/// The events of each rank that end, and of those the sends whose messages are received: the places of the others in each
/// rank are given beside it.
pub(super) fn reached(ranks: &[RankRecord]) -> Vec<(usize, Vec<usize>)> {
    let names = Names::default();
    let mut done = vec![0; ranks.len()];
    let mut calls: Vec<Calls> = ranks.iter().map(|_| Calls::default()).collect();
    let mut meetings: HashMap<Place, Meeting> = HashMap::new();
    // Messages that are there, and the rank that waits for the next one.
    let mut messages: HashMap<Line, u64> = HashMap::new();
    let mut receiver: HashMap<Line, usize> = HashMap::new();
    let mut ready: VecDeque<usize> = (0..ranks.len()).collect();
    // The collective that a rank has come to.
    let mut inside: Vec<Option<Place>> = vec![None; ranks.len()];
    while let Some(own) = ready.pop_front() {
        let record = &ranks[own];
        while let Some(event) = record.events.get(done[own]) {
            match &event.what {
                What::Wait => {}
                What::Send { to, comm, tag, .. } => {
                    let line = (record.rank, *to, names.comm(record, *comm), *tag);
                    *messages.entry(line).or_default() += 1;
                    ready.extend(receiver.remove(&line));
                }
                What::Recv { from, comm, tag } => {
                    let line = (*from, record.rank, names.comm(record, *comm), *tag);
                    match messages.get_mut(&line).filter(|there| **there > 0) {
                        Some(there) => *there -= 1,
                        None => {
                            receiver.insert(line, own);
                            break;
                        }
                    }
                }
                What::Collective { comm, call } => {
                    let known = names.comm(record, *comm);
                    let place = *inside[own].get_or_insert_with(|| calls[own].next(known, call));
                    let meeting = meetings.entry(place).or_default();
                    if !meeting.over {
                        meeting.waiting.push(own);
                        if meeting.waiting.len() < record.comms[*comm as usize].1.len() {
                            break;
                        }
                        meeting.over = true;
                        ready.extend(meeting.waiting.drain(..).filter(|rank| *rank != own));
                    }
                    inside[own] = None;
                }
            }
            done[own] += 1;
        }
    }
    // Messages match in order, so the last ones of a line are those that are there still.
    let unreceived = |(record, count): (&RankRecord, &usize)| {
        let mut places = Vec::new();
        for (place, event) in record.events[..*count].iter().enumerate().rev() {
            let What::Send { to, comm, tag, .. } = &event.what else { continue };
            let line = (record.rank, *to, names.comm(record, *comm), *tag);
            if let Some(there) = messages.get_mut(&line).filter(|there| **there > 0) {
                *there -= 1;
                places.push(place);
            }
        }
        (*count, places)
    };
    ranks.iter().zip(&done).map(unreceived).collect()
}

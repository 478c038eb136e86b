//! How far the ranks of a job come whose records break off.
//!
//! Ranks are moved on in no particular order, without times: a message is there once it was sent, a collective is over
//! once all its members have come to it. How far each rank comes does not depend on the order, since what
//! a rank does never takes away what another one waits for.

use std::collections::{HashMap, VecDeque};

use super::graph::{Calls, Names, Place};
use super::{RankRecord, What};

/// Sender, receiver, communicator and tag.
type Line = (u32, u32, u32, u32);

#[derive(Default)]
struct Meeting {
    /// Ranks that have come to it.
    came: usize,
    /// Those of them that wait for the others.
    waiting: Vec<usize>,
    over: bool,
}

/// The events of each rank that end, and the places of those among them that lead to nothing: sends whose messages nobody
/// receives, and starts of collectives to which some member does not come.
pub(super) fn reached(ranks: &[RankRecord]) -> Vec<(usize, Vec<usize>)> {
    let names = Names::default();
    let mut done = vec![0; ranks.len()];
    let mut calls: Vec<Calls> = ranks.iter().map(|_| Calls::default()).collect();
    let mut meetings: HashMap<Place, Meeting> = HashMap::new();
    // Messages that are there, and the rank that waits for the next one.
    let mut messages: HashMap<Line, u64> = HashMap::new();
    let mut receiver: HashMap<Line, usize> = HashMap::new();
    let mut ready: VecDeque<usize> = (0..ranks.len()).collect();
    // The collective that a rank has come to, and those that it has started, with where it has.
    let mut inside: Vec<Option<Place>> = vec![None; ranks.len()];
    let mut started: Vec<HashMap<u32, (Place, usize)>> = vec![HashMap::new(); ranks.len()];
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
                What::Collective { comm, call, run, .. } => {
                    let known = names.comm(record, *comm);
                    let first = inside[own].is_none();
                    let place = *inside[own].get_or_insert_with(|| calls[own].next(known, call));
                    let meeting = meetings.entry(place).or_default();
                    if first {
                        meeting.came += 1;
                        if meeting.came == record.comms[*comm as usize].1.len() {
                            meeting.over = true;
                            ready.extend(meeting.waiting.drain(..));
                        }
                    }
                    if let Some(run) = run {
                        started[own].insert(*run, (place, done[own]));
                    } else if !meeting.over {
                        meeting.waiting.push(own);
                        break;
                    }
                    inside[own] = None;
                }
                What::Done(run) => {
                    let place = started[own].get(run).map(|(place, _)| *place);
                    if let Some(meeting) = place.and_then(|place| meetings.get_mut(&place))
                        && !meeting.over
                    {
                        meeting.waiting.push(own);
                        break;
                    }
                    started[own].remove(run);
                }
            }
            done[own] += 1;
        }
    }
    // Messages match in order, so the last ones of a line are those that are there still.
    let vain = |(own, record): (usize, &RankRecord)| {
        let mut places = Vec::new();
        for (place, event) in record.events[..done[own]].iter().enumerate().rev() {
            let What::Send { to, comm, tag, .. } = &event.what else { continue };
            let line = (record.rank, *to, names.comm(record, *comm), *tag);
            if let Some(there) = messages.get_mut(&line).filter(|there| **there > 0) {
                *there -= 1;
                places.push(place);
            }
        }
        let over = |place: &Place| meetings.get(place).is_some_and(|meeting| meeting.over);
        let open = started[own].values().filter(|(place, _)| !over(place));
        places.extend(open.map(|(_, place)| *place));
        (done[own], places)
    };
    ranks.iter().enumerate().map(vain).collect()
}

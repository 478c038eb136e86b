//! One process of each node sends for all that are there, as in the thesis's msgq, whose receivers have a mailbox for each
//! node: the first of a node, which has the connections. The others hand it their messages in memory that they share.
//!
//! Each of the others has two words of its page: a request, the number of the message and to whom it is, which it writes, and
//! the number of the last request that was taken, which the leader writes.

use std::collections::{BTreeMap, VecDeque};

use anyhow::Result;
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::{LineWords as _, Words as _};
use bowline_uct::{EpId, Iface};

use super::processes::{Board, Counter, send};

/// Words of the first line of a page.
const REQUEST: usize = 1;
const TAKEN: usize = 2;

/// Where a process is. With one process in each node all are leaders.
pub(super) struct Place<'a> {
    pub(super) board: &'a Board,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) per_node: usize,
}

/// Those to whom a process has yet to send by its leader.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    to: VecDeque<usize>,
    /// Requests that were made.
    made: u64,
}

impl Waiting {
    pub(super) fn add(&mut self, peer: usize) {
        self.to.push_back(peer);
    }
}

impl Place<'_> {
    /// All others, from the next one on.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |step| (rank + step) % size)
    }

    fn leads(&self) -> bool {
        self.rank.is_multiple_of(self.per_node)
    }

    /// The connections of this process: to all others if it leads its node.
    pub(super) fn connect(&self, lane: &mut dyn Iface) -> Result<BTreeMap<usize, EpId>> {
        let others = self.others().filter(|_| self.leads());
        others.map(|peer| Ok((peer, lane.connect(&self.board.address(peer)?)?))).collect()
    }

    /// Hands the next message to the leader, if the last one was taken. Whether all were.
    pub(super) fn hand_over(&self, waiting: &mut Waiting) -> bool {
        let page = self.board.page(self.rank);
        // Acquire: pairs with the Release store in `serve`. Only the number is passed.
        if page.line(0).load(TAKEN, Ordering::Acquire) < waiting.made {
            return false;
        }
        let Some(peer) = waiting.to.pop_front() else { return true };
        waiting.made += 1;
        // Release: pairs with the Acquire load in `serve`. All that is passed is in the word.
        page.line(0).store(REQUEST, waiting.made << 32 | peer as u64, Ordering::Release);
        false
    }

    /// The leader sends what the others of its node have handed to it.
    pub(super) fn serve(
        &self,
        lane: &mut dyn Iface,
        eps: &BTreeMap<usize, EpId>,
        sink: &mut Counter,
    ) -> Result<()> {
        if !self.leads() {
            return Ok(());
        }
        let end = self.size.min(self.rank + self.per_node);
        for rank in self.rank + 1..end {
            let page = self.board.page(rank);
            // Acquire: pairs with the Release store in `hand_over`.
            let request = page.line(0).load(REQUEST, Ordering::Acquire);
            let (number, peer) = (request >> 32, request as u32 as usize);
            // Relaxed: this side alone writes it.
            if page.line(0).load(TAKEN, Ordering::Relaxed) == number {
                continue;
            }
            match eps.get(&peer) {
                Some(&ep) => send(lane, ep, sink, 1, true)?,
                // It is here.
                None => (sink.count, sink.sum) = (sink.count + 1, sink.sum + 1),
            }
            // Release: pairs with the Acquire load in `hand_over`.
            page.line(0).store(TAKEN, number, Ordering::Release);
        }
        Ok(())
    }
}

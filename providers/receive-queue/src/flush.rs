//! Flushes of the user, which wait for messages that have not left yet.

use bowline_uct::{PeerFailure, PostError, Posted, Token};

use super::lane_core::LaneCore;
use super::link::Link;
use super::token::Owner;

impl LaneCore {
    /// Posts flushes whose messages have all left.
    pub(super) fn post_flushes(&mut self) {
        self.flush_refused = false;
        if self.flushing == 0 {
            return;
        }
        for index in 0..self.links.len() {
            while let Some(&(token, until)) = self.links[index].flushes.front() {
                let link = &self.links[index];
                let left = link.fifo.counts().1;
                let through = if link.is_quiet() { u64::MAX } else { left.saturating_sub(1) };
                let Some(inner) = link.inner.filter(|_| through >= until) else { break };
                let lent = self.odd.lend(token);
                let answer = match self.inner.flush(inner, lent) {
                    Ok(Posted::InFlight) => None,
                    Ok(Posted::Done) => Some(Ok(0)),
                    Err(PostError::NoResource) => {
                        self.odd.owner(lent);
                        self.flush_refused = true;
                        break;
                    }
                    Err(_) => Some(Err(PeerFailure::Died)),
                };
                self.links[index].flushes.pop_front();
                self.flushing -= 1;
                self.answer(lent, answer);
            }
        }
        while let Some(&token) = self.flush_alls.front() {
            if !self.links.iter().all(Link::is_quiet) {
                return;
            }
            let lent = self.odd.lend(token);
            let answer = match self.inner.flush_all(lent) {
                Ok(Posted::InFlight) => None,
                Ok(Posted::Done) => Some(Ok(0)),
                Err(PostError::NoResource) => {
                    self.odd.owner(lent);
                    self.flush_refused = true;
                    return;
                }
                Err(_) => Some(Err(PeerFailure::Died)),
            };
            self.flush_alls.pop_front();
            self.flushing -= 1;
            self.answer(lent, answer);
        }
    }

    fn answer(&mut self, lent: Token, answer: Option<Result<u64, PeerFailure>>) {
        if let Some(result) = answer
            && let Owner::User(token) = self.odd.owner(lent)
        {
            self.events.complete(token, result);
        }
    }
}

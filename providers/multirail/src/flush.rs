//! Flushes: a message is out of our hands when its path has let go of it, not when it was posted there.
//! A transport may keep what it was given until it finds space (sockets do), and a program that has
//! flushed may stop making progress.
//!
//! ```text
//!   goal:  Waiting ──(all in front of it is posted)──► the path is asked to flush ──► reached
//!             ▲                                                │
//!             └──────────(the path failed meanwhile)───────────┘
//!          reached as well: the peer has acknowledged all in front of it
//!          lost: the link has failed
//! ```
//! A flush is answered when each of its goals is reached or lost.

use bowline_base::slab::Key;
use bowline_uct::{PeerFailure, PostError, Posted, Token};

use super::MultiRail;
use super::reads::Asked;

/// What has to leave for one peer.
#[derive(Debug)]
pub(super) struct Goal {
    link: u32,
    /// Number behind the last message that is meant.
    end: u32,
    /// The path's own flush, and the path.
    asked: Option<(Key, usize)>,
}

/// A flush that is not answered.
#[derive(Debug)]
pub(super) struct Flush {
    token: Token,
    goals: Vec<Goal>,
    lost: Option<PeerFailure>,
}

impl MultiRail {
    pub(super) fn begin_flush(
        &mut self,
        links: impl Iterator<Item = u32>,
        token: Token,
    ) -> Result<Posted, PostError> {
        // Nothing here writes to a peer's memory; messages have to be out of our hands.
        let goals = links
            .filter_map(|link| {
                let log = &self.links[link as usize].log;
                (!log.is_empty()).then(|| Goal { link, end: log.end(), asked: None })
            })
            .collect();
        let mut flush = Flush { token, goals, lost: None };
        if self.move_flush(&mut flush) {
            return flush.lost.map_or(Ok(Posted::Done), |_| Err(PostError::PeerFailed));
        }
        self.flushes.push(flush);
        Ok(Posted::InFlight)
    }

    /// Moves flushes on and answers those that are through.
    pub(super) fn answer_flushes(&mut self) {
        // Moving one on posts flushes of paths, and begins none of ours.
        let mut flushes = std::mem::take(&mut self.flushes);
        flushes.retain_mut(|flush| {
            let over = self.move_flush(flush);
            if over {
                self.events.complete(flush.token, flush.lost.map_or(Ok(0), Err));
            }
            !over
        });
        self.flushes = flushes;
    }

    /// Whether all goals are reached or lost.
    fn move_flush(&mut self, flush: &mut Flush) -> bool {
        let Flush { goals, lost, .. } = flush;
        goals.retain_mut(|goal| {
            if let Some(how) = self.links[goal.link as usize].failed {
                *lost = Some(how);
                return false;
            }
            !self.reach(goal)
        });
        goals.is_empty()
    }

    /// Whether all in front of a goal is out of our hands; asks the path where it is posted.
    fn reach(&mut self, goal: &mut Goal) -> bool {
        let link = &self.links[goal.link as usize];
        if link.log.is_acknowledged(goal.end) {
            return true;
        }
        if goal.asked.is_some() || !link.log.is_posted(goal.end) {
            return false;
        }
        let Some((at, ep)) = link.active.and_then(|at| Some((at, link.paths[at].endpoint()?)))
        else {
            return false;
        };
        let key = self.parts.insert(Asked::Flush);
        match self.paths[at].iface.flush(ep, Token(key.to_wire())) {
            Ok(Posted::InFlight) => {
                goal.asked = Some((key, at));
                false
            }
            answer => {
                self.parts.remove(key);
                // A path that refuses has no space for it yet, or has failed and will say so: then the
                // next one is asked, when it has taken the messages.
                answer.is_ok()
            }
        }
    }

    pub(super) fn path_flushed(&mut self, key: Key, result: Result<u64, PeerFailure>) {
        let links = &self.links;
        for flush in &mut self.flushes {
            flush.goals.retain_mut(|goal| {
                let Some((_, at)) = goal.asked.take_if(|(asked, _)| *asked == key) else {
                    return true;
                };
                // Messages that had to go by another path meanwhile were not meant by it.
                result.is_err() || links[goal.link as usize].active != Some(at)
            });
        }
    }
}

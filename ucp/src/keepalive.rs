//! Keep-alive: asking after peers whose death the transport would not report.
//!
//! ```text
//!   round    every interval; at most a batch of peers in one step, the next step goes on with them
//!   peer     heard of since the last round ──► nothing
//!            the transport can ask (EP_CHECK) ──► it is asked
//!            else ──► PROBE: an empty message that needs no answer
//! ```
//! Rules. (1) Nobody is declared dead for being silent: a peer that computes does not progress, and
//! answers nothing. What counts is the transport's own word: its check, the refusal of a post, the
//! failure that it reports because a probe could not be delivered. (2) A round costs a batch per step,
//! so that a thousand peers are no pause for messages. (3) The clock is the waiter's
//! ([`Waiter::clock`](crate::Waiter::clock)); without one there are no rounds. (4) Without a peer to
//! ask after, nothing of this is paid for.

use bowline_uct::{Caps, PeerFailure, PostError};

use crate::action::Action;
use crate::address::PROBED;
use crate::engine::Inner;
use crate::peer::{PeerIndex, PeerState};
use crate::settings::Keepalive;
use crate::state::keepalive::Watched;
use crate::wire;

impl Inner {
    /// A peer's endpoint is made: from now on it is asked after, if it has to be.
    pub(crate) fn watch_over(&mut self, index: PeerIndex) {
        let options = self.engine.options.keepalive;
        let peer = &self.engine.peers[index as usize];
        let caps = self.lanes[peer.lane as usize].iface.attr().caps;
        let silent = !caps.intersects(Caps::PEER_FAILURE | Caps::LOOPBACK);
        let wanted = options.which == Keepalive::All && !caps.contains(Caps::LOOPBACK);
        let Some(clock) = &self.rounds.clock else { return };
        if !options.is_on() || !(silent || wanted) {
            return;
        }
        let now = clock();
        let heard = peer.rx_sequence;
        if self.rounds.watched.iter().any(|watched| watched.peer == index) {
            return;
        }
        self.rounds.watched.push(Watched { peer: index, heard });
        self.rounds.due.get_or_insert(now + options.interval);
    }

    /// A step of a round, if one is due. Returns how many peers turned out to have failed; some of them have failed when
    /// progress is made next.
    #[cold]
    pub(crate) fn keep_alive(&mut self) -> u32 {
        if self.rounds.remaining().is_none_or(|left| !left.is_zero()) {
            return 0;
        }
        let options = self.engine.options.keepalive;
        let before = self.engine.counters.peers_failed;
        let (mut left, mut lost) = (options.batch, 0);
        while left > 0 && self.rounds.at < self.rounds.watched.len() {
            let Watched { peer, heard } = self.rounds.watched[self.rounds.at];
            let known = &self.engine.peers[peer as usize];
            if known.state != PeerState::Ready {
                self.rounds.watched.swap_remove(self.rounds.at);
                continue;
            }
            let now_heard = known.rx_sequence;
            if now_heard == heard {
                left -= 1;
                lost += u32::from(self.is_lost(peer));
            }
            self.rounds.watched[self.rounds.at].heard = now_heard;
            self.rounds.at += 1;
        }
        if self.rounds.at >= self.rounds.watched.len() {
            self.rounds.at = 0;
            let now = self.rounds.clock.as_ref().map(|clock| clock());
            let some = !self.rounds.watched.is_empty();
            self.rounds.due = now.filter(|_| some).map(|now| now + options.interval);
        }
        (self.engine.counters.peers_failed - before) as u32 + lost
    }

    /// Asks after a peer. Whether the transport finds nobody: what the peer has sent may not be read yet, and comes first.
    fn is_lost(&mut self, index: PeerIndex) -> bool {
        self.engine.counters.asked_after += 1;
        let peer = &self.engine.peers[index as usize];
        let lane = &mut self.lanes[peer.lane as usize].iface;
        if lane.attr().caps.contains(Caps::EP_CHECK) {
            match lane.check(peer.ep) {
                Ok(()) | Err(PostError::NoResource | PostError::Unsupported) => {}
                Err(_) => {
                    let lost = Action::Lost { peer: index, how: PeerFailure::Died };
                    self.engine.actions.push(lost);
                    return true;
                }
            }
        } else if peer.address.features & PROBED != 0 && peer.pending.is_empty() {
            // Where something waits for space, the transport has enough to try already.
            self.control(index, wire::PROBE, [0, 0], &[]);
        }
        false
    }
}

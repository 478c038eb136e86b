//! The lanes of a worker: what is known of each, and how often it is polled.
//!
//! A poll of shared memory is some loads; one at a network is a system call. Where a worker has
//! both, the network is left out of most polls once it has been silent for a while, so that
//! messages by memory do not wait for it.

use bowline_model::transport::TransportCosts;
use bowline_uct::{Caps, Iface};

use crate::address::WorkerAddress;
use crate::protocol::{Choices, Conditions, Protocol, ProtocolRange, eager};

/// Most events that one lane reports in one progress call.
pub(crate) const BUDGET: u32 = 64;

/// Polls without finding after which a lane whose polls cost system calls is left out once more in
/// each round. Other lanes must not wait for it, and it does not notice: a poll of theirs is a
/// small part of one of its own.
const QUIET: u32 = 64;

/// Most polls that are left out in a row.
const MAX_REST: u32 = 32;

/// A lane of a worker.
pub(crate) struct Lane {
    pub(crate) iface: Box<dyn Iface>,
    pub(crate) loopback: bool,
    /// Whether progress polls it.
    pub(crate) polled: bool,
    /// Whether it reaches other hosts: their messages ring no doorbell in memory, and a poll costs a
    /// system call.
    pub(crate) inter_node: bool,
    /// Whether it has begun to read a message by itself.
    pub(crate) has_read: bool,
    /// Which protocols messages take.
    pub(crate) choices: Choices,
    /// Longest message that goes in one call of the transport whatever its kind; none with -1.
    pub(crate) at_once: i32,
    pub(crate) rest: Rest,
}

/// How often a transport is polled that costs a system call each time.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Polls in a row that found nothing.
    quiet: u32,
    /// Polls that are left out before the next.
    left: u32,
}

impl Rest {
    /// Whether this poll is left out.
    #[inline]
    pub(crate) fn rests(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    /// Takes note of what a poll found.
    #[inline]
    pub(crate) fn polled_with(&mut self, events: u32) {
        if events > 0 {
            return self.wake();
        }
        self.quiet = self.quiet.saturating_add(1);
        self.left = (self.quiet / QUIET).min(MAX_REST);
    }

    /// The next poll is made.
    #[inline]
    pub(crate) fn wake(&mut self) {
        (self.quiet, self.left) = (0, 0);
    }
}

impl Lane {
    pub(crate) fn new(
        iface: Box<dyn Iface>,
        costs: TransportCosts,
        conditions: Conditions,
        protocols: &[&'static Protocol],
    ) -> Self {
        let choices = Choices::new(protocols, iface.attr(), costs, conditions);
        let caps = iface.attr().caps;
        let loopback = caps.contains(Caps::LOOPBACK);
        let inter_node = caps.contains(Caps::INTER_NODE);
        let polled = !loopback;
        let tables = [&choices.tag_send, &choices.am_send, &choices.stream_send];
        let ends = tables.map(|table| match table.ranges().first() {
            Some(ProtocolRange { protocol, to, .. }) if **protocol == eager::SHORT => {
                i32::try_from(*to).unwrap_or(i32::MAX)
            }
            _ => -1,
        });
        let at_once = ends.into_iter().min().unwrap_or(-1);
        let rest = Rest::default();
        let has_read = false;
        Self { iface, loopback, polled, choices, at_once, inter_node, has_read, rest }
    }

    /// Chooses among protocols anew, under other conditions.
    pub(crate) fn choose(
        &mut self,
        protocols: &[&'static Protocol],
        change: impl Fn(Conditions) -> Conditions,
    ) {
        let Choices { costs, conditions, .. } = self.choices;
        self.choices = Choices::new(protocols, self.iface.attr(), costs, change(conditions));
    }

    /// Whether the lane reaches the peer; else why not.
    pub(crate) fn reaches<'a>(&self, peer: &'a WorkerAddress) -> Result<&'a [u8], String> {
        let theirs = self.theirs(peer).ok_or("the peer has no such transport")?;
        self.iface.reachable(theirs).map_err(|why| why.reason)?;
        Ok(theirs)
    }

    /// The peer's address on this transport.
    pub(crate) fn theirs<'a>(&self, peer: &'a WorkerAddress) -> Option<&'a [u8]> {
        let name = self.iface.attr().provider;
        let lane = peer.lanes.iter().find(|lane| lane.provider == name)?;
        Some(&lane.address)
    }
}

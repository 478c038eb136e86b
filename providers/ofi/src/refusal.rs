//! Interfaces that do not know the job's secret.
//!
//! Their greetings make no peer known. One that names this interface's instance comes from somebody who
//! was given our address, so it is answered by a refusal: else its sender would wait for as long as its
//! program runs, since a peer that computes answers late, too. For that its address has to be in
//! libfabric's vector for a moment. What this costs is bounded: [`AT_ONCE`] of them at a time, each for
//! [`PATIENCE`] at most, and [`MOST`] in the life of an interface.

use std::time::{Duration, Instant};

use bowline_uct::PeerFailure;

use crate::addr::Address;
use crate::iface::OfiIface;
use crate::net::Refused;
use crate::peer::Refusal;
use crate::wire::{Greeting, refusal, refused};

/// Refusals on their way.
const AT_ONCE: usize = 4;
/// How long one is tried, while libfabric connects.
const PATIENCE: Duration = Duration::from_secs(5);
/// Refusals of an interface. A job whose ranks have several secrets has few of them.
const MOST: u32 = 256;

impl OfiIface {
    /// A greeting whose proof is wrong.
    #[cold]
    pub(crate) fn not_proved(&mut self, greeting: &Greeting<'_>, address: &Address) {
        if !std::mem::replace(&mut self.refusals.logged, true) {
            tracing::warn!(
                "dropped the greeting of an interface that does not know the job's secret; others are \
                 dropped without another line here, see the counter unknown_senders"
            );
        }
        if greeting.to != self.address.instance {
            return;
        }
        if let Some(&index) = self.by_instance.get(&address.instance) {
            // It has been greeted by us, and drops that for the same reason.
            if self.peers[index as usize].number == crate::wire::UNNUMBERED {
                self.fail_peer(index, PeerFailure::Refused);
            }
            return;
        }
        if self.refusals.going.len() == AT_ONCE || self.refusals.made == MOST {
            return;
        }
        let Ok(place) = self.net.insert(&address.name) else { return };
        self.refusals.made += 1;
        let message = refusal(self.address.instance, address.instance);
        self.refusals.going.push(Refusal { place, message, until: Instant::now() + PATIENCE });
    }

    /// Sends refusals, as far as libfabric takes them.
    #[cold]
    pub(crate) fn send_refusals(&mut self) {
        let net = &mut self.net;
        self.refusals.going.retain(|going| {
            // SAFETY: the message is initialised and unwritten while it is borrowed.
            let sent =
                unsafe { net.inject(going.place, going.message.as_ptr(), going.message.len()) };
            let over = sent != Err(Refused::Again) || Instant::now() >= going.until;
            if over {
                net.remove(going.place);
            }
            !over
        });
    }

    /// A peer does not accept our proof. False if it is none of ours, or has greeted.
    #[cold]
    pub(crate) fn refused_by(&mut self, body: &[u8]) -> bool {
        let Some(names) = body.first_chunk() else { return false };
        let (from, to) = refused(names);
        let Some(&index) = self.by_instance.get(&from) else { return false };
        let peer = &self.peers[index as usize];
        if to != self.address.instance || !peer.is_well() || peer.number != crate::wire::UNNUMBERED
        {
            return false;
        }
        tracing::warn!(peer = index, "a peer was given another secret than this interface");
        self.fail_peer(index, PeerFailure::Refused);
        true
    }
}

#[cfg(test)]
mod tests;

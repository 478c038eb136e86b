//! The rendezvous in which the sender sends fragments through the transport: where its receiver cannot read the message and it
//! cannot write it, and where both processors copy what only the kernel could read. It is never refused.
//!
//! ```text
//!   receiver                              sender
//!   RTS matched ── CTS (bytes wanted) ───► in order, as the lane has space
//!   all are here  ◄──── FRAGMENT ... ────  all are posted: complete
//! ```

use bowline_base::buffer::SendBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Arrival, Iface, PostError, Verdict};

use crate::action::Action;
use crate::engine::life::{Life, Offer};
use crate::engine::{Engine, Inner};
use crate::pack;
use crate::peer::{Peer, PeerIndex};
use crate::post;
use crate::protocol::{Protocol, Receiving, SendStep, Sending, eager};
use crate::request::{SendPhase, receive_of};
use crate::settings::RndvScheme;
use crate::status::WaitsFor;
use crate::wire::{self, MessageId};

/// The receiver asks for fragments.
pub(crate) static FRAGMENTS: Protocol = Protocol::rendezvous("rndv/copy", |op, context| {
    let max = context.limits.am.max_bcopy as u64;
    let message = context.message();
    // Where the kernel would read page by page, both ranks wait and have a processor each.
    let beside = context.reads_by_pages();
    let pieces = if beside { context.overlapped_pieces(max) } else { context.pieces(max) };
    let line = context.envelope(op).plus(message).plus(message).plus(pieces);
    // What may go in pieces without being asked for does, unless the user says from where on messages are offered.
    let start = match context.conditions.rndv_threshold {
        None if beside && op.is_send() => eager::most_in_pieces(max) + 1,
        _ => context.rndv_start(op),
    };
    // Elsewhere, this is what is left when a read is refused.
    let is_ahead = !context.reads(op) || beside;
    let is_priced = max > 0 && is_ahead && !op.is_one_sided();
    is_priced.then_some((line, start, u64::MAX))
});

/// A receive that gets fragments.
#[derive(Debug)]
pub(crate) struct Awaited;

impl Receiving for Awaited {
    fn protocol(&self) -> &'static Protocol {
        &FRAGMENTS
    }
}

/// A send whose receiver has asked for fragments.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The receive.
    remote: u64,
    /// Bytes that it wants.
    wanted: u64,
    /// Bytes posted.
    offset: u64,
}

impl Sending for Asked {
    fn protocol(&self) -> &'static Protocol {
        &FRAGMENTS
    }

    fn post(
        &mut self,
        lane: &mut dyn Iface,
        peer: &mut Peer,
        _: &[u8],
        buffer: &mut SendBuf,
    ) -> Result<SendStep, PostError> {
        let max = lane.attr().limits.am.max_bcopy;
        while self.offset < self.wanted {
            let left = (self.wanted - self.offset).min(max as u64) as usize;
            let (words, skip) = ([self.remote, self.offset], self.offset as usize);
            let mut pack = |out: View<'_>| pack::message(&[], buffer, skip, left, out);
            let n = post::packed(lane, peer, wire::FRAGMENT, words, left, &mut pack)?;
            self.offset += n as u64;
        }
        Ok(SendStep::Complete)
    }

    fn touches_memory(&self) -> bool {
        false
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (self.offset, WaitsFor::Resource)
    }
}

pub(super) struct Fragments;

impl Life for Fragments {
    fn protocol(&self) -> &'static Protocol {
        &FRAGMENTS
    }

    fn ids(&self) -> &'static [MessageId] {
        const { &[MessageId::own(wire::CTS), MessageId::own(wire::FRAGMENT)] }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let taken = match am.id {
            wire::CTS => engine.cts(peer, &am.header, am.payload),
            _ => engine.fragment(peer, &am.header, am.payload),
        };
        taken.map(|()| Verdict::Consumed)
    }

    fn is_asked_for(&self, scheme: RndvScheme) -> bool {
        scheme == RndvScheme::Copy
    }

    fn can(&self, _: &mut Offer<'_>) -> bool {
        true
    }

    fn start(&self, inner: &mut Inner, key: Key) -> bool {
        if let Some((_, fetch)) = receive_of(&mut inner.engine.requests, key) {
            let (peer, sender, wanted) = (fetch.peer, fetch.rts.request, fetch.wanted);
            fetch.receiver = Some(Box::new(Awaited));
            inner.control(peer, wire::CTS, [sender, key.to_wire()], &wanted.to_le_bytes());
            if let Some(how) = inner.engine.peers[peer as usize].failure() {
                inner.engine.fail(key, how.into());
            }
        }
        true
    }

    /// The fragments go behind what waits for the peer.
    fn send(&self, inner: &mut Inner, key: Key) {
        inner.queue_send(key);
    }
}

impl Engine {
    /// A receiver asks for fragments.
    fn cts(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let mut wanted = [0; 8];
        if payload.copy_out(&mut wanted) != 8 {
            return None;
        }
        let wanted = u64::from_le_bytes(wanted);
        let Some(send) = self.asked_for(peer, header[0])? else { return Some(()) };
        if wanted > send.buffer.len() as u64 {
            return None;
        }
        let asked = Asked { remote: header[1], wanted, offset: 0 };
        send.phase = SendPhase::Moving(Box::new(asked));
        self.actions.push(Action::Run(Key::from_wire(header[0])));
        Some(())
    }

    /// A fragment for a receive that has asked for it.
    fn fragment(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let key = Key::from_wire(header[0]);
        // A receive that failed meanwhile is gone; its fragments mean nothing.
        if self.requests.get(key).is_none_or(|request| request.done) {
            return Some(());
        }
        let (buffer, fetch) = receive_of(&mut self.requests, key)?;
        let end = header[1].checked_add(payload.len() as u64)?;
        let asked = fetch.state::<Awaited>().is_some();
        // In order, as the sender's lane is: a callback gets each byte once.
        if fetch.peer != peer || !asked || end > fetch.wanted || header[1] != fetch.done {
            return None;
        }
        buffer.copy_at(header[1] as usize, payload);
        fetch.done += payload.len() as u64;
        if fetch.done >= fetch.wanted {
            self.counters.copied += 1;
            self.note_fetched(key);
            self.complete_receive(key);
        }
        Some(())
    }
}

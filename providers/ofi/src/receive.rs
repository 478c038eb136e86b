//! Receiving: what a receive buffer holds is checked and handed to the sink, or dealt with here.
//!
//! **Receive buffers.** A buffer is *posted* (libfabric may write it) or *idle*. Idle ones are posted in `repost`,
//! many at once or when there is nothing else to do, so that a message for the sink does not pay for it.

use bowline_base::view::View;
use bowline_uct::{AM_HEADER_BYTES, AmId, Arrival, OpenError, PeerFailure, Sink, Source, Verdict};

use crate::addr::Address;
use crate::iface::OfiIface;
use crate::net::Refused;
use crate::peer::{Health, Silence, Work};
use crate::shortage::is_shortage;
use crate::wire::{
    ACTIVE, Greeting, HEADER, Header, Kind, Outcome, Request, UNNUMBERED, unpack_words,
};

/// Buffers that are posted at the most. libfabric fills them in turn, so a message lands in the one
/// that was used longest ago; with few of them that one, and what libfabric notes of it, is still in
/// the caches (with 256 a message of 8 bytes over `shm` took an eighth longer). What comes while
/// none is posted waits in libfabric.
pub(crate) const MOST_POSTED: usize = 32;

/// Buffers that are posted in one go while messages come.
const BATCH: usize = 16;

/// The context of a receive into buffer `index`: odd.
const fn context_of(index: u32) -> usize {
    ((index as usize) << 1) | 1
}

impl OfiIface {
    /// The `N` bytes at `offset` of a message.
    #[inline]
    fn field<const N: usize>(view: View<'_>, offset: usize) -> Option<[u8; N]> {
        let mut out = [0; N];
        view.slice(offset, N)?.copy_out(&mut out);
        Some(out)
    }

    /// Deals with the message of `len` bytes in `buffer`. Returns the events, 0 or 1.
    #[inline]
    pub(crate) fn arrive(&mut self, buffer: u32, len: usize, sink: &mut dyn Sink) -> u32 {
        let whole = self.rx.view(buffer);
        let view = whole.slice(0, len).unwrap_or(View::empty());
        let Some(header) = Self::field(view, 0).and_then(Header::unpack) else {
            return self.drop_unknown(buffer);
        };
        let known = self.peers.get_mut(header.source as usize);
        let peer = match known {
            Some(peer) if peer.stamps.theirs == header.stamp => peer,
            _ => return self.unknown(buffer, len, header),
        };
        match peer.health {
            // What it said before it failed counts, unless it cannot be believed.
            Health::Failing { how: PeerFailure::Damaged, .. } | Health::Failed(_) => {
                self.idle_rx.push(buffer);
                return 0;
            }
            Health::Well => {}
            // More of it may be behind this one.
            Health::Failing { ref mut silence, .. } => *silence = Silence::begin(),
        }
        let new = header.taken.wrapping_sub(peer.answered);
        if new > peer.sent.wrapping_sub(peer.answered) {
            return self.damaged(buffer, header.source);
        }
        peer.answered = header.taken;
        if header.kind.under_credit() {
            peer.taken = peer.taken.wrapping_add(1);
            if peer.taken.wrapping_sub(peer.reported) >= self.report_after && !peer.taken_due {
                peer.taken_due = true;
                self.make_busy(header.source);
            }
        }
        match header.kind {
            Kind::Active => return self.active(buffer, len, header, sink),
            Kind::Taken => {}
            Kind::Close => self.closed_in_order(header.source),
            Kind::Atomic => {
                let view = self.rx.view(buffer);
                let request = Self::field(view.slice(0, len).unwrap_or(View::empty()), HEADER);
                match request.as_ref().and_then(Request::unpack) {
                    Some(request) => self.serve(header.source, &request),
                    None => return self.damaged(buffer, header.source),
                }
            }
            Kind::Result => {
                let view = self.rx.view(buffer);
                let outcome = Self::field(view.slice(0, len).unwrap_or(View::empty()), HEADER);
                let served = outcome
                    .as_ref()
                    .and_then(Outcome::unpack)
                    .is_some_and(|outcome| self.served(header.source, outcome));
                if !served {
                    return self.damaged(buffer, header.source);
                }
            }
            Kind::Greeting | Kind::Refusal => return self.damaged(buffer, header.source),
        }
        self.idle_rx.push(buffer);
        0
    }

    #[inline]
    fn active(&mut self, buffer: u32, len: usize, header: Header, sink: &mut dyn Sink) -> u32 {
        let view = self.rx.view(buffer);
        let words: Option<[u8; AM_HEADER_BYTES]> =
            if len < ACTIVE { None } else { Self::field(view, HEADER) };
        let (Some(words), Some(id)) = (words, AmId::from_wire(header.id)) else {
            return self.damaged(buffer, header.source);
        };
        let payload = view.slice(ACTIVE, len - ACTIVE).expect("the length was compared");
        self.counters.received += 1;
        let source = Source(header.source);
        let header = unpack_words(&words);
        let (Verdict::Consumed | Verdict::Enough) =
            sink.am(Arrival { source, id, header, payload });
        self.idle_rx.push(buffer);
        1
    }

    /// A message from nobody that we know, or that is none.
    #[cold]
    fn drop_unknown(&mut self, buffer: u32) -> u32 {
        self.counters.unknown_senders += 1;
        self.idle_rx.push(buffer);
        0
    }

    #[cold]
    fn damaged(&mut self, buffer: u32, source: u32) -> u32 {
        self.fail_peer(source, PeerFailure::Damaged);
        self.idle_rx.push(buffer);
        0
    }

    /// A message from somebody who has no number here, or not this one.
    #[cold]
    fn unknown(&mut self, buffer: u32, len: usize, header: Header) -> u32 {
        let view = self.rx.view(buffer).slice(0, len).unwrap_or(View::empty());
        let body = view.slice(HEADER, len.saturating_sub(HEADER)).unwrap_or(View::empty()).to_vec();
        let believed = header.source == UNNUMBERED
            && match header.kind {
                Kind::Greeting => self.greeted(&body, header.stamp),
                Kind::Refusal => self.refused_by(&body),
                _ => false,
            };
        if believed {
            self.idle_rx.push(buffer);
            return 0;
        }
        self.drop_unknown(buffer)
    }

    /// A peer introduces itself; false if it is none.
    fn greeted(&mut self, body: &[u8], stamp: u32) -> bool {
        let Some(greeting) = Greeting::unpack(body) else { return false };
        let Ok(address) = Address::unpack(greeting.address) else { return false };
        let fits = self.accepts(&address).is_ok();
        if !fits || address.instance as u32 != stamp || greeting.number == UNNUMBERED {
            return false;
        }
        if !greeting.is_proved(&self.secret, self.address.instance) {
            self.not_proved(&greeting, &address);
            return false;
        }
        let index = match self.acquaint(&address) {
            Ok(index) => index,
            Err(OpenError::System { source, .. }) if is_shortage(&source) => {
                self.keep_greeting(body, stamp);
                return true;
            }
            Err(error) => {
                tracing::debug!("a peer that greeted is not accepted: {error}");
                return false;
            }
        };
        let peer = &mut self.peers[index as usize];
        if !peer.is_well() || peer.number != UNNUMBERED {
            return true;
        }
        peer.number = greeting.number;
        if !peer.greeted {
            peer.greeting_due = true;
        }
        self.make_busy(index);
        true
    }

    /// Keeps a greeting, which the peer says once, until there are descriptors for the peer.
    #[cold]
    fn keep_greeting(&mut self, body: &[u8], stamp: u32) {
        let known = self.greetings.iter().any(|(kept, _)| kept == body);
        if !known && self.greetings.len() < self.attr.max_endpoints as usize {
            self.greetings.push((body.to_vec(), stamp));
        }
    }

    /// Reads kept greetings; those for which there is still no space are kept again.
    #[cold]
    pub(crate) fn read_kept_greetings(&mut self) {
        for (body, stamp) in std::mem::take(&mut self.greetings) {
            self.greeted(&body, stamp);
        }
    }

    /// Posts idle buffers: as many as there may be if `all`, else when that is worth it.
    #[inline]
    pub(crate) fn repost(&mut self, all: bool) {
        let space = MOST_POSTED - self.posted;
        if self.net.is_closed() {
            return;
        }
        if space.min(self.idle_rx.len()) >= if all { 1 } else { BATCH } {
            self.post_idle();
        }
    }

    fn post_idle(&mut self) {
        while self.posted < MOST_POSTED
            && let Some(buffer) = self.idle_rx.pop()
        {
            let piece = self.rx.piece(buffer, 0, self.rx.size());
            // SAFETY: an idle buffer is nobody's; from here on it is libfabric's until its
            // completion comes. The pool outlives the endpoint.
            match unsafe { self.net.receive(piece, context_of(buffer)) } {
                Ok(()) => self.posted += 1,
                Err(Refused::Again) => {
                    self.idle_rx.push(buffer);
                    return;
                }
                Err(Refused::Failed(error)) => {
                    self.idle_rx.push(buffer);
                    self.break_down(error);
                    return;
                }
            }
        }
    }

    /// What a peer says of an atomic operation that it was asked for; false if it was not.
    fn served(&mut self, source: u32, outcome: Outcome) -> bool {
        match self.ops.get(outcome.request) {
            Some((Work::Asked { token, epoch }, peer)) if peer == source => {
                self.ops.remove(outcome.request);
                self.peers[peer as usize].under_way -= 1;
                let result = outcome.old.ok_or(PeerFailure::Refused);
                self.one_sided_ended(peer, epoch, token, result);
                true
            }
            _ => false,
        }
    }
}

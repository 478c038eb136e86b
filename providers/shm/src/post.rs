//! Active messages out: the hot path is one load of the endpoint's route and a push into a ring.
//!
//! Everything else (the shared queue, claiming a ring, giving it back, failure) is behind
//! [`ShmIface::short_slow`] and [`ShmIface::post_bcopy`]. `NoResource` always means that nothing
//! observable has happened; what was refused, and by which generation of the queue, is noted in
//! the endpoint for `want_writable`.

use bowline_base::ring;
use bowline_base::ring::promote::{SWITCH_ID, Sending};
use bowline_base::scmp::{Message, Refused, seq, slots_for};
use bowline_base::view::View;
use bowline_base::words::DirectWords;
use bowline_uct::runtime::check_len;
use bowline_uct::{AmHeader, AmId, EpId, OneSided, PeerFailure, PostError, RemoteSlice};

use crate::endpoint::{Condition, Endpoint, Intent};
use crate::iface::ShmIface;
use crate::message::{MAX_SHORT, PADDED, TRAILER, VOID_ID};
use crate::source::FailureReport;

impl ShmIface {
    #[inline]
    pub(crate) fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let Some(e) = self.eps.get_mut(ep.0 as usize) else { return Err(PostError::BadEndpoint) };
        if let Sending::Ring(ring) = &mut e.sending
            && (ring.try_push_line(id.get(), 0, header, payload)
                || !ring.evicted() && ring.try_push_lines(id.get(), 0, header, payload))
        {
            e.bell.ring();
            self.counters.am_ring += 1;
            return Ok(());
        }
        self.short_slow(ep, id, header, payload)
    }

    #[inline(never)]
    fn short_slow(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        check_len(payload.len(), MAX_SHORT)?;
        self.choose_route(ep, 0)?;
        let e = &mut self.eps[ep.0 as usize];
        if let Sending::Ring(ring) = &mut e.sending {
            if ring.try_push_short(id.get(), 0, header, payload) {
                e.bell.ring();
                self.counters.am_ring += 1;
                return Ok(());
            }
            return Err(self.ring_refused(ep, 0));
        }
        let message = Message { id: id.get(), flags: 0, header, payload };
        match e.queue.push(e.intent.word(), &message) {
            Ok(()) => {
                e.by_queue += 1;
                e.bell.ring();
                self.counters.am_queue += 1;
                Ok(())
            }
            Err(refused) => Err(self.queue_refused(ep, refused, 0)),
        }
    }

    pub(crate) fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        check_len(max_len, self.area.parameters().max_bcopy as usize)?;
        // What a hot endpoint needs of `choose_route` is the ring that it has.
        let hot = matches!(
            self.eps.get(ep.0 as usize).map(|e| &e.sending),
            Some(Sending::Ring(ring)) if !ring.evicted()
        );
        if !hot {
            self.choose_route(ep, max_len)?;
        }
        let e = &mut self.eps[ep.0 as usize];
        let Sending::Ring(ring) = &mut e.sending else {
            return self.bcopy_by_queue(ep, id, header, max_len, pack);
        };
        if max_len <= ring::MAX_INLINE {
            if !ring.has_space() {
                return Err(self.ring_refused(ep, 0));
            }
            let mut bytes = [0u8; ring::MAX_INLINE];
            // SAFETY: the array is only used through the view until `pack` has returned.
            let space = unsafe { View::from_raw(bytes.as_mut_ptr(), max_len) };
            let len = pack(space).min(max_len);
            let pushed = ring.try_push_short(id.get(), 0, header, &bytes[..len]);
            debug_assert!(pushed, "there was space, and this side alone fills the ring");
            e.bell.ring();
            self.counters.am_ring += 1;
            return Ok(len);
        }
        let Some(mut space) = ring.reserve_data(max_len) else {
            return Err(self.ring_refused(ep, max_len));
        };
        let len = pack(space.view());
        let len = space.commit(id.get(), 0, header, len);
        e.bell.ring();
        self.counters.am_ring += 1;
        Ok(len)
    }

    /// Packs into the staging buffer, since the slots of the shared queue are not one piece.
    fn bcopy_by_queue(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        let e = &mut self.eps[ep.0 as usize];
        let slots = slots_for(max_len) as u32;
        let ticket = match reserve(&mut e.queue, &e.intent, slots) {
            Ok(ticket) => ticket,
            Err(refused) => return Err(self.queue_refused(ep, refused, max_len)),
        };
        let reserved =
            Reserved { queue: &mut e.queue, intent: &e.intent, ticket: Some(ticket), slots };
        let staging = &mut self.staging[..];
        // SAFETY: the buffer is only used through the view until `pack` has returned; it is
        // longer than `max_len`, which was checked against `max_bcopy`.
        let space = unsafe { View::from_raw(staging.as_mut_ptr(), max_len) };
        let len = pack(space).min(max_len);
        let (mut flags, mut total) = (0, len);
        if slots_for(len) as u32 != slots {
            // The ticket is for just so many slots: fill them and say the length at the end,
            // which is at least a slot behind the content.
            total = longest_in(slots);
            flags = PADDED;
            staging[len..total].fill(0);
            staging[total - TRAILER..total].copy_from_slice(&(len as u32).to_le_bytes());
        }
        reserved.publish(&Message { id: id.get(), flags, header, payload: &staging[..total] });
        e.by_queue += 1;
        e.bell.ring();
        self.counters.am_queue += 1;
        Ok(len)
    }

    /// A put whose notification is reserved before the bytes are written, so that the two happen
    /// together or not at all.
    pub(crate) fn post_put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.choose_route(ep, 0)?;
        let e = &mut self.eps[ep.0 as usize];
        if let Sending::Ring(ring) = &mut e.sending {
            if !ring.has_space() {
                return Err(self.ring_refused(ep, 0));
            }
            self.put_short(ep, bytes, to)?;
            // Nobody else fills the ring: there is still space. The release in it orders the
            // bytes before the notification.
            return self.am_short(ep, id, header, &[]);
        }
        let ticket = match reserve(&mut e.queue, &e.intent, 1) {
            Ok(ticket) => ticket,
            Err(refused) => return Err(self.queue_refused(ep, refused, 0)),
        };
        let put = self.put_short(ep, bytes, to);
        let e = &mut self.eps[ep.0 as usize];
        // A put that was refused leaves a slot that says nothing.
        let id = if put.is_ok() { id.get() } else { VOID_ID };
        e.queue.put(&ticket, &Message { id, flags: 0, header, payload: &[] });
        e.queue.publish(ticket, 0);
        e.queue.finish(e.intent.word());
        e.by_queue += 1;
        e.bell.ring();
        put
    }

    /// Brings an endpoint onto the route that its next message takes: gives an unwanted ring back,
    /// claims one when it is due, sends the marker between the two routes. `len` is noted when it
    /// is refused.
    #[inline(never)]
    fn choose_route(&mut self, ep: EpId, len: usize) -> Result<(), PostError> {
        let Some(e) = self.eps.get_mut(ep.0 as usize) else { return Err(PostError::BadEndpoint) };
        if let Some(error) = e.refusal() {
            return Err(error);
        }
        match &e.sending {
            Sending::Ring(ring) if ring.evicted() => {
                let done = e.give_ring_back();
                self.counters.rings_left += u64::from(done);
            }
            Sending::Queue if e.by_queue >= self.options.promote_after => {
                e.by_queue = 0;
                claim_ring(e);
            }
            _ => {}
        }
        if let Some(header) = e.sending.pending_switch() {
            let marker = Message { id: SWITCH_ID, flags: 0, header: &header, payload: &[] };
            match e.queue.push(e.intent.word(), &marker) {
                Ok(()) => {
                    e.sending.switched();
                    self.counters.rings_taken += 1;
                }
                Err(refused) => return Err(self.queue_refused(ep, refused, len)),
            }
        }
        Ok(())
    }

    /// The ring has no space for `len` bytes, or is damaged.
    #[cold]
    fn ring_refused(&mut self, ep: EpId, len: usize) -> PostError {
        let e = &mut self.eps[ep.0 as usize];
        if matches!(&e.sending, Sending::Ring(ring) if ring.is_damaged()) {
            self.fail_endpoint(ep, PeerFailure::Damaged);
            return PostError::PeerFailed;
        }
        e.refused_len = len;
        e.refused_at = None;
        self.counters.refused += 1;
        PostError::NoResource
    }

    #[cold]
    fn queue_refused(&mut self, ep: EpId, refused: Refused, len: usize) -> PostError {
        let e = &mut self.eps[ep.0 as usize];
        match refused {
            Refused::Full { generation } => {
                e.refused_len = len;
                e.refused_at = Some(generation);
                // The receiver may sleep before a half that only needed this refusal counted.
                e.bell.ring();
                self.counters.refused += 1;
                PostError::NoResource
            }
            Refused::TooLong => PostError::TooLong,
            Refused::Poisoned => {
                self.fail_endpoint(ep, PeerFailure::Damaged);
                PostError::PeerFailed
            }
        }
    }

    /// Notes that an endpoint has failed, for the sink.
    #[cold]
    pub(crate) fn fail_endpoint(&mut self, ep: EpId, how: PeerFailure) {
        let Some(e) = self.eps.get_mut(ep.0 as usize) else { return };
        let disconnected = e.condition == Condition::Dormant;
        if !e.fail(how) {
            return;
        }
        if disconnected {
            self.over = true;
            self.due();
        } else {
            let source = e.member();
            self.failures.push_back(FailureReport { source, ep: Some(ep), how });
            self.due();
        }
    }
}

/// Claims one of the peer's rings, if one is free: the first, which has more space for data, or
/// another; there senders start at different ones.
fn claim_ring(e: &mut Endpoint) {
    let rings = e.area.parameters().rings;
    let others = (0..rings).map(|i| (e.source % rings + i) % rings).filter(|&number| number != 0);
    for number in std::iter::once(0).chain(others) {
        let Some(words) = e.area.ring_words(number) else { return };
        // A ring that is taken or damaged is passed over; the queue still works.
        if e.sending.claim(words, number, e.source).is_ok() {
            return;
        }
    }
}

/// Announces and reserves, or takes both back.
fn reserve(
    queue: &mut seq::Producer<DirectWords>,
    intent: &Intent,
    slots: u32,
) -> Result<seq::Ticket, Refused> {
    // Read before the reservation: if the half is flipped in between, the refusal names an older
    // generation, and the next poll finds space at once.
    let generation = queue.generation();
    queue.announce(intent.word(), slots)?;
    queue.reserve(slots).map_err(|failed| {
        queue.give_back(failed);
        queue.finish(intent.word());
        Refused::Full { generation }
    })
}

/// A reservation in a shared queue. Dropped without `publish`, it publishes a void message, so
/// that a panic in the caller's packing leaves no hole.
struct Reserved<'a> {
    queue: &'a mut seq::Producer<DirectWords>,
    intent: &'a Intent,
    ticket: Option<seq::Ticket>,
    slots: u32,
}

impl Reserved<'_> {
    fn publish(mut self, message: &Message<'_>) {
        self.send(message);
    }

    fn send(&mut self, message: &Message<'_>) {
        if let Some(ticket) = self.ticket.take() {
            self.queue.put(&ticket, message);
            self.queue.publish(ticket, message.payload.len());
            self.queue.finish(self.intent.word());
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            let len = longest_in(self.slots);
            let filler = vec![0; len];
            let header = [0; 3];
            self.send(&Message { id: VOID_ID, flags: 0, header: &header, payload: &filler });
        }
    }
}

/// The longest payload that takes just `slots` slots.
fn longest_in(slots: u32) -> usize {
    bowline_base::scmp::FIRST_BYTES + (slots as usize - 1) * bowline_base::scmp::MORE_BYTES
}

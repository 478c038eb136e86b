//! The way in: introductions, and the queue's messages.

use bowline_base::buffer::RecvBuf;
use bowline_base::scmp::published::R_BYTE;
use bowline_base::scmp::{self, Fault};
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::ViewWords;
use bowline_uct::{
    AmId, Arrival, AtomicOp, AtomicWidth, PeerFailure, PostError, RemoteSlice, Sink, Source,
};

use super::address::{Address, Introduction};
use super::fifo::parts;
use super::lane::QueueLane;
use super::layout::RECORD_BYTES;
use super::link::{Link, Seat, Step, Trust};
use super::options::QueueForm;
use super::promote::ByQueue;
use super::token::{What, own};

/// What became of an arrival.
pub(super) enum Taken {
    Handed,
    /// Nobody known sits there, or the mark is not its own.
    Stranger,
    /// No handler has this number.
    Damaged,
}

impl QueueLane {
    /// Reads the records of seats that were taken since the last look.
    pub(super) fn read_introductions(&mut self) {
        let Some(view) = self.inner.mem_view(self.memory) else { return };
        let Some(word) = view.word(self.shape.seats_at()) else { return };
        // Acquire: pairs with the transport's addition, as far as it says that they mix.
        let taken = word.load(Ordering::Acquire).min(u64::from(self.shape.peers)) as u32;
        let seen = self.seats.len() as u32;
        if taken == seen && self.unread.is_empty() {
            return;
        }
        self.unread.extend(seen..taken.max(seen));
        self.seats.resize(taken.max(seen) as usize, Seat::EMPTY);
        let mut at = 0;
        while let Some(&seat) = self.unread.get(at) {
            match self.read_record(seat) {
                Some(introduction) => {
                    self.unread.remove(at);
                    self.admit(seat, introduction);
                }
                None => at += 1,
            }
        }
    }

    /// The record of a seat, when it is whole.
    fn read_record(&self, seat: u32) -> Option<Introduction> {
        let view = self.inner.mem_view(self.memory)?;
        let at = self.shape.record_at(seat);
        // Acquire: pairs with no release, since the record comes by puts. It is a hint that some of
        // it is there; the checksum says whether all is.
        if view.word(at)?.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut record = [0; RECORD_BYTES];
        view.slice(at, RECORD_BYTES)?.copy_out(&mut record);
        Introduction::parse(&record)
    }

    /// Somebody has introduced itself. The endpoint to it is how its end will be noticed.
    fn admit(&mut self, seat: u32, introduction: Introduction) {
        let Introduction { cookie, status, address } = introduction;
        let theirs = match Address::parse(&address) {
            Ok(theirs) if status < theirs.shape.peers => theirs,
            _ => {
                self.refuse(seat, cookie);
                return tracing::warn!(
                    seat,
                    "a peer introduced itself by no address; it is ignored"
                );
            }
        };
        let link = self.link_of_sender(&address, &theirs);
        let Some(link) = link else {
            self.refuse(seat, cookie);
            return tracing::warn!(seat, "no place for another peer; it is ignored");
        };
        self.lose_rings_of(link);
        self.links[link as usize].introduced = true;
        self.seats[seat as usize] = Seat { link, cookie, status, next: 0, trust: Trust::Known };
        if let Some(why) = self.closed {
            self.break_link(link, why.told());
        }
    }

    /// Whoever has this seat is not known; what it sends is dropped.
    fn refuse(&mut self, seat: u32, cookie: u32) {
        self.stats.strangers += 1;
        self.seats[seat as usize] = Seat { cookie, trust: Trust::Known, ..Seat::EMPTY };
    }

    /// The link of one that has introduced itself. If it cannot be reached, it has ended or is
    /// ending: what it sent counts all the same.
    fn link_of_sender(&mut self, address: &[u8], theirs: &Address) -> Option<u32> {
        let known = self.links.iter().position(|link| link.address == address);
        if let Some(known) = known {
            return Some(known as u32);
        }
        match self.link_to(address, theirs, false) {
            Ok(link) => Some(link),
            Err(error) => {
                tracing::debug!(%error, "a peer that introduced itself cannot be reached");
                let place = self.free_place().ok()?;
                let mut link = Link::new(0, address.to_vec(), theirs.base, theirs.shape);
                link.failed = Some(PeerFailure::Closed);
                link.step = Step::Broken;
                link.gone = true;
                link.introduced = true;
                if place == self.links.len() {
                    self.links.push(link);
                } else {
                    self.replace_link(place, link);
                }
                self.wait_for_the_last(place as u32);
                Some(place as u32)
            }
        }
    }

    /// Whether the next progress has something to do before anything comes from below.
    pub(super) fn has_work(&mut self) -> bool {
        let ready = |link: &Link| link.may_be_told(self.fifo_slots);
        !self.pending.is_empty()
            || !self.work.is_empty()
            || self.flush_refused
            || self.flip_answer.is_some()
            || !self.settlement.ending.is_empty()
            || self.asked.iter().any(|&index| ready(&self.links[index as usize]))
            || self.has_messages()
    }

    /// Whether messages are there, or a half to be flipped.
    fn has_messages(&mut self) -> bool {
        if self.closed.is_some() {
            return false;
        }
        if self.shape.form == QueueForm::Ring {
            return self.rings_have_messages();
        }
        if self.has_seals() {
            return self.sealed_has_messages();
        }
        let Some(consumer) = self.consumer.take() else { return false };
        let view = self.inner.mem_view(self.memory);
        // Relaxed: a question. Only peers' operations change it, and those wake.
        let word = view.and_then(|view| view.word(R_BYTE));
        let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let consumer = consumer.rehome(words);
        let (drained, stalled) = (consumer.is_drained(), consumer.stalled());
        self.consumer = Some(consumer.rehome(()));
        let reserved = word as u32 != 0;
        if self.shape.promotes() && self.promoted_have_work() {
            return true;
        }
        if drained { reserved && !self.flipping } else { !stalled }
    }

    /// Hands out at most `budget` messages; returns how many.
    pub(super) fn receive(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.closed.is_some() {
            // Whoever comes now is to hear of it.
            self.mark_closed();
            self.read_introductions();
            return 0;
        }
        match self.shape.form {
            QueueForm::Ring => self.receive_rings(sink, budget),
            QueueForm::ScmpRings => self.receive_promoting(sink, budget),
            QueueForm::ScmpSeq => self.receive_sealed(sink, budget),
            QueueForm::Scmp => self.receive_queue(sink, budget),
        }
    }

    /// Hands out at most `budget` messages of the queue itself.
    pub(super) fn receive_queue(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.flip_reserved();
        // After the flip: who has a message in the half has introduced itself before it reserved, so
        // that its record is there now, and need not have been before.
        self.read_introductions();
        let Some(consumer) = self.consumer.take() else { return 0 };
        let mut handed = 0;
        let mut strangers = 0;
        let mut damaged = None;
        let view = self.inner.mem_view(self.memory);
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let mut consumer = consumer.rehome(words);
        let flipped = self.flip_answer.take().map_or(Ok(()), |old| consumer.flipped(old));
        let (seats, staging, promotion) = (&self.seats, &mut self.staging, &mut self.promotion);
        let promotes = self.shape.promotes();
        let polled = consumer.poll_while(budget, |arrival| {
            if promotes {
                match promotion.by_queue(seats, &arrival) {
                    ByQueue::Take => {}
                    ByQueue::Switched => return true,
                    ByQueue::Later => return false,
                    ByQueue::Damaged => {
                        damaged = Some(arrival.source);
                        return true;
                    }
                }
            }
            match hand_out(sink, seats, staging, &arrival) {
                Taken::Handed => handed += 1,
                Taken::Stranger => strangers += 1,
                Taken::Damaged => damaged = Some(arrival.source),
            }
            true
        });
        let result = flipped.and(polled);
        self.consumer = Some(consumer.rehome(()));
        self.stats.received += u64::from(handed);
        if strangers > 0 {
            self.stats.strangers += strangers;
            tracing::warn!(strangers, "messages of nobody known in the receive queue; dropped");
        }
        match result {
            Ok(_) => {}
            Err(Fault::Source { source_id }) => damaged = Some(source_id),
            Err(Fault::Poisoned(damage)) => self.poison(damage),
        }
        if let Some(source) = damaged {
            self.blame(source);
        }
        handed
    }

    /// Swaps R, if the last half is drained and something was reserved in the other one: by the
    /// processor, or through the own device.
    fn flip_reserved(&mut self) {
        let Some(consumer) = self.consumer.as_ref().filter(|consumer| consumer.is_drained()) else {
            return;
        };
        let flip = consumer.flip_word();
        let word = self.inner.mem_view(self.memory).and_then(|view| view.word(R_BYTE));
        // Relaxed: only whether to flip. A device writes whole words, and the swap decides.
        let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) as u32 != 0) else {
            return;
        };
        if self.flip_is_under_way() || self.closed.is_some() {
            return;
        }
        if self.own_link.is_none() {
            // AcqRel. Acquire: pairs with the producers' additions, before which they had introduced
            // themselves. Release: the half that is exposed here was zeroed before.
            self.flip_answer = Some(word.swap(flip, Ordering::AcqRel));
            return;
        }
        match self.swap_own(AtomicOp::Swap(flip)) {
            Ok(answer) => {
                self.flipping = answer.is_none();
                self.flip_answer = answer;
            }
            Err(error) => self.flip_refused(error),
        }
    }

    /// A flip was not posted.
    #[cold]
    pub(super) fn flip_refused(&mut self, error: PostError) {
        // No room: at the next look.
        if error == PostError::NoResource {
            return;
        }
        let known = self.own_link.and_then(|own| self.links[own as usize].failed);
        self.lose_flips(known.unwrap_or(match error {
            PostError::PeerFailed => PeerFailure::Unreachable,
            _ => PeerFailure::Refused,
        }));
    }

    /// Does a fetching operation on R through the own device.
    pub(super) fn swap_own(&mut self, op: AtomicOp) -> Result<Option<u64>, PostError> {
        let index = self.own_link.ok_or(PostError::BadEndpoint)?;
        let link = &self.links[index as usize];
        let (Some(ep), Some(rkey)) = (link.inner, link.rkey) else {
            return Err(PostError::BadEndpoint);
        };
        let at = RemoteSlice { address: self.base + R_BYTE as u64, rkey };
        let token = own(What::Flip, index, link.generation);
        self.inner.atomic_fetch(ep, op, AtomicWidth::W64, at, token)
    }
}

/// Hands one arrival to the sink.
pub(super) fn hand_out(
    sink: &mut dyn Sink,
    seats: &[Seat],
    staging: &mut RecvBuf,
    arrival: &scmp::Arrival<'_, ViewWords<'_>>,
) -> Taken {
    let Some(seat) = seats.get(usize::from(arrival.source)) else { return Taken::Stranger };
    if seat.link == Seat::NOBODY || parts(arrival.mark).0 != seat.cookie {
        return Taken::Stranger;
    }
    let Some(id) = AmId::from_wire(arrival.id) else { return Taken::Damaged };
    if arrival.len > staging.len() {
        return Taken::Damaged;
    }
    let (source, header) = (Source(seat.link), arrival.header);
    let payload = match arrival.in_place() {
        Some(payload) => payload,
        None => {
            let mut at = 0;
            for piece in arrival.pieces() {
                at += staging.copy_at(at, piece);
            }
            let Some(payload) = staging.view().slice(0, arrival.len) else {
                return Taken::Damaged;
            };
            payload
        }
    };
    let _ = sink.am(Arrival { source, id, header, payload, desc: None });
    Taken::Handed
}

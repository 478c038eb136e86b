//! Active messages that are handled while they arrive, where their transport has them.
//!
//! A handler of [`crate::am`] may call its worker and is given slices. So its message is copied out of
//! the transport, which may be memory that the sender can still write, and waits until the lanes
//! have returned. A handler in place does without both: it is called in the midst of the arrival and
//! reads the bytes by [`View`]s, which copy out what it wants. For that it may not call back.
//!
//! Rules. (1) It gets the messages of its id that come in one piece of the transport, while nothing
//! waits for a handler or a callback of the worker. Every other one goes to the ordinary handler of the
//! id, so that messages of a peer are begun in the order in which they were sent. (2) It holds no
//! promise beyond its return: the views end there. (3) To call the worker from it panics, as the worker
//! is borrowed. (4) When it panics, its message counts as damaged: the sender's endpoint has failed for
//! this worker. (5) It may be called while an ordinary handler runs and progresses, also one of
//! the same id. (6) A thread that makes progress beside the rank calls it, too.

use bowline_base::view::View;
use bowline_uct::Arrival;

use crate::engine::Engine;
use crate::peer::PeerIndex;
use crate::state::in_place::{AmInPlace, AmInPlaceHandler};
use crate::worker::Worker;

impl Worker {
    /// Has `handler` called with active messages of `id` while they arrive, in place of the one before:
    /// with those that come in one piece while no other message waits for its handler. All others go to
    /// the handler that [`am_handler`](Self::am_handler) was given, which an id should have, too.
    ///
    /// It is the shortest way to receive: nothing is copied and nothing queued. The handler
    /// may not call the worker, which panics, and must not panic itself: its message would count
    /// as damaged, and the sender's endpoint as failed. What it wants to do with the worker it
    /// notes, for the code that calls [`progress`](Self::progress).
    pub fn am_handler_in_place(&self, id: u16, handler: AmInPlaceHandler) {
        let before = {
            let in_place = &mut self.inner.borrow_mut().engine.in_place;
            let before = in_place.remove(id);
            in_place.put(id, handler);
            before
        };
        // What it holds may want the worker as it goes.
        drop(before);
    }
}

impl Engine {
    /// Gives an active message to its handler in place. `false`: it has none, or others come first;
    /// or the message cannot be, which [`am`](Self::am) finds out.
    #[inline(always)]
    pub(crate) fn am_in_place(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> bool {
        let [id, header_len, _] = arrival.header;
        let Some(Some(handler)) = self.in_place.0.get_mut(id as usize) else { return false };
        if !self.inbox.is_empty() || self.set_aside > 0 {
            return false;
        }
        // Its peer is there: it has just been asked for the message's number.
        let from = self.peers[peer as usize].name;
        let payload = arrival.payload;
        let bytes = payload.len();
        let message = if header_len == 0 {
            AmInPlace { from, header: View::empty(), data: payload }
        } else {
            let header_len = header_len as usize;
            let header = payload.slice(0, header_len);
            let data =
                bytes.checked_sub(header_len).and_then(|rest| payload.slice(header_len, rest));
            let (Some(header), Some(data)) = (header, data) else { return false };
            AmInPlace { from, header, data }
        };
        handler(message);
        self.counters.am_received += 1;
        self.taken(peer, bytes);
        true
    }
}

//! The side of the sender: what it was asked to help with, and its pieces from the back.

use bowline_base::buffer::SendBuf;
use bowline_base::cursor::{Cursor, CursorEnd};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Posted, RemoteSlice, RkeyId, Token, WHOLE_PROCESS};

use super::{COOP, Queues};
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::loan;
use crate::peer::PeerIndex;
use crate::protocol::{Protocol, Sending};
use crate::request::{Requests, Send, SendPhase, send_of};
use crate::status::{OpStatus, WaitsFor};
use crate::wire::{self, CoopRequest};

/// What the sender was asked to help with.
#[derive(Debug)]
pub(crate) struct Help {
    /// The receive.
    remote: u64,
    coop_request: CoopRequest,
    /// The cursor, once it was opened.
    cursor: Option<RemoteSlice>,
    /// Pieces written, from the back.
    done: u32,
    /// What the receiver has answered.
    answer: Option<Result<(), OpError>>,
}

impl Help {
    /// With nothing.
    pub(super) const NONE: Self =
        Self { remote: 0, coop_request: CoopRequest::NONE, cursor: None, done: 0, answer: None };
}

impl Sending for Help {
    fn protocol(&self) -> &'static Protocol {
        &COOP
    }

    fn key(&self) -> Option<RkeyId> {
        self.cursor.map(|cursor| cursor.rkey)
    }

    fn answer(&mut self) -> Option<&mut Option<Result<(), OpError>>> {
        Some(&mut self.answer)
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (u64::from(self.done) * self.coop_request.piece, WaitsFor::Receiver)
    }
}

impl Inner {
    /// The sender writes one piece of the newest message that it was asked to help with.
    pub(super) fn help_piece(&mut self) {
        while let Some(&key) = self.engine.coop().helps.last() {
            let before = self.engine.counters.helped;
            if !self.write_piece(key) {
                self.engine.coop().helps.pop();
                self.end_help(key);
            }
            if self.engine.counters.helped != before {
                return;
            }
        }
    }

    /// Writes a piece, if one is left. Whether more may be.
    fn write_piece(&mut self, key: Key) -> bool {
        let Some((index, buffer, help)) = helping(&mut self.engine.requests, key) else {
            return false;
        };
        let peer = &mut self.engine.peers[index as usize];
        let lane = &mut self.lanes[peer.lane as usize].iface;
        if peer.whole_rkey.is_none() && !peer.direct_read_denied {
            peer.whole_rkey = lane.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
        }
        if help.cursor.is_none() {
            let opened = lane.rkey_unpack(peer.ep, help.coop_request.rkey.bytes()).ok();
            let address = help.coop_request.cursor;
            help.cursor = opened.map(|rkey| RemoteSlice { address, rkey });
        }
        let (Some(rkey), Some(cursor)) = (peer.whole_rkey, help.cursor) else { return false };
        let (coop_request, pieces) = (&help.coop_request, help.coop_request.pieces());
        let view = lane.rkey_ptr(cursor.rkey, cursor.address, Cursor::BYTES);
        let claimed = view.and_then(|view: View<'_>| {
            Cursor::in_view(view, 0)?.claim(pieces, CursorEnd::Back).ok()
        });
        let Some(nth) = claimed else { return false };
        let offset = u64::from(pieces - 1 - nth) * coop_request.piece;
        let length = coop_request.piece.min(coop_request.wanted - offset);
        let from = loan::of_send(buffer, offset as usize, length as usize);
        let to =
            coop_request.address.checked_add(offset).map(|address| RemoteSlice { address, rkey });
        let (Some(from), Some(to)) = (from, to) else { return false };
        if lane.put_zcopy(peer.ep, &[from], to, Token::NONE) != Ok(Posted::Done) {
            return false;
        }
        help.done += 1;
        self.engine.counters.helped += 1;
        let view = lane.rkey_ptr(cursor.rkey, cursor.address, Cursor::BYTES);
        let cursor = view.and_then(|view| Cursor::in_view(view, 0));
        !cursor.is_none_or(|cursor| cursor.back_did_one(pieces))
    }

    /// The sender leaves a message: it says how far it came. If the receiver has answered meanwhile,
    /// the send is complete.
    pub(super) fn end_help(&mut self, key: Key) {
        let Some((index, buffer, help)) = helping(&mut self.engine.requests, key) else { return };
        let Help { remote, done, cursor, answer, .. } = *help;
        let length = buffer.len() as u64;
        if let Some(send) = send_of(&mut self.engine.requests, key) {
            send.phase = SendPhase::Offered;
        }
        if let Some(cursor) = cursor {
            let lane = self.engine.peers[index as usize].lane as usize;
            self.lanes[lane].iface.rkey_release(cursor.rkey);
        }
        self.control(index, wire::COOP_FIN, [remote, u64::from(done)], &[]);
        if let Some(outcome) = answer {
            self.engine.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
        }
    }
}

impl Engine {
    /// A receiver asks for help with a message that lies here.
    pub(super) fn help(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let mut bytes = [0; CoopRequest::FIXED + wire::MAX_RKEY];
        if payload.len() > bytes.len() {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let coop_request = CoopRequest::parse(&bytes[..n])?;
        let Some(send) = self.asked_for(peer, header[0])? else { return Some(()) };
        if coop_request.wanted > send.buffer.len() as u64 {
            return None;
        }
        let key = Key::from_wire(header[0]);
        let (remote, cursor, done, answer) = (header[1], None, 0, None);
        let help = Help { remote, coop_request, cursor, done, answer };
        let place = self.protocols.kept.of_mut::<Queues>().spare_helps.pop();
        let mut place = place.unwrap_or_else(|| Box::new(Help::NONE));
        *place = help;
        if let Some(send) = send_of(&mut self.requests, key) {
            send.phase = SendPhase::Moving(place);
        }
        self.poll_coop();
        self.coop().helps.push(key);
        Some(())
    }
}

/// A send that this side helps with: the peer, the buffer, and how far it came.
fn helping(requests: &mut Requests, key: Key) -> Option<(PeerIndex, &mut SendBuf, &mut Help)> {
    match send_of(requests, key)? {
        Send { peer, buffer, phase: SendPhase::Moving(sender), .. } => {
            Some((*peer, buffer, sender.state()?))
        }
        _ => None,
    }
}

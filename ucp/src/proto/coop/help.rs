//! The side of the sender: what it was asked to help with, and its pieces from the back.

use bowline_base::cursor::{Cursor, Side};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Posted, RemoteSlice, Token, WHOLE_PROCESS};

use crate::action::Action;
use crate::engine::Engine;
use crate::loan;
use crate::peer::PeerIndex;
use crate::request::{Body, Requests, Send, SendPhase, Status};
use crate::wire::{self, CoopRequest};
use crate::worker::Inner;

/// What the sender was asked to help with.
#[derive(Debug)]
pub(crate) struct Help {
    /// The receive.
    remote: u64,
    coop_request: CoopRequest,
    /// The cursor, once it was opened.
    pub(crate) cursor: Option<RemoteSlice>,
    /// Pieces written, from the back.
    done: u32,
}

impl Help {
    /// No help.
    pub(crate) const NONE: Self =
        Self { remote: 0, coop_request: CoopRequest::EMPTY, cursor: None, done: 0 };
}

impl Inner {
    /// The sender's turn: one piece of the newest message that it was asked to help with.
    pub(crate) fn help_piece(&mut self) {
        let before = self.engine.counters.helped;
        while let Some(&key) = self.engine.helps.last()
            && self.engine.counters.helped == before
        {
            if !self.write_piece(key) {
                self.engine.helps.pop();
                self.end_help(key);
            }
        }
        if !self.engine.helps.is_empty() {
            self.engine.actions.push(Action::Help);
        }
    }

    /// Writes a piece, if one is left. Whether more may be.
    fn write_piece(&mut self, key: Key) -> bool {
        let Some(send) = send_of(&mut self.engine.requests, key) else { return false };
        let Send { peer: index, buffer, help: Some(help), .. } = send else { return false };
        let peer = &mut self.engine.peers[*index as usize];
        let lane = &mut self.lanes[peer.lane as usize].iface;
        if peer.reach.is_none() && !peer.reach_refused {
            peer.reach = lane.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
        }
        if help.cursor.is_none() {
            let packed = &help.coop_request.rkey[..usize::from(help.coop_request.rkey_len)];
            let opened = lane.rkey_unpack(peer.ep, packed).ok();
            let address = help.coop_request.cursor;
            help.cursor = opened.map(|rkey| RemoteSlice { address, rkey });
        }
        let (Some(rkey), Some(cursor)) = (peer.reach, help.cursor) else { return false };
        let (coop_request, pieces) = (&help.coop_request, help.coop_request.pieces());
        let view = lane.rkey_ptr(cursor.rkey, cursor.address, Cursor::BYTES);
        let claimed = view
            .and_then(|view: View<'_>| Cursor::in_view(view, 0)?.claim(pieces, Side::Back).ok());
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
    pub(crate) fn end_help(&mut self, key: Key) {
        let Some(send) = send_of(&mut self.engine.requests, key) else { return };
        let Some(help) = send.help.take() else { return };
        let (index, answered, outcome) = (send.peer, send.answered, send.answer);
        let length = send.buffer.len() as u64;
        if let Some(cursor) = help.cursor {
            let lane = self.engine.peers[index as usize].lane as usize;
            self.lanes[lane].iface.rkey_release(cursor.rkey);
        }
        self.control(index, wire::COOP_FIN, [help.remote, u64::from(help.done)], &[]);
        if answered {
            self.engine.finish(key, Status { length, outcome, ..Status::NONE });
        }
    }
}

impl Engine {
    /// A receiver asks for help with a message that lies here.
    pub(crate) fn help(
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
        let key = Key::from_wire(header[0]);
        let waits = self.helps.len();
        let send = send_of(&mut self.requests, key)?;
        let fits = coop_request.wanted <= send.buffer.len() as u64;
        let offered = send.phase == SendPhase::Offered && send.rendezvous && send.help.is_none();
        if send.peer != peer || !offered || !fits {
            return None;
        }
        send.help = Some(self.attendance.boxed_help(Help {
            remote: header[1],
            coop_request,
            ..Help::NONE
        }));
        self.helps.push(key);
        if waits == 0 {
            self.actions.push(Action::Help);
        }
        Some(())
    }
}

/// A send that is not complete.
fn send_of(requests: &mut Requests, key: Key) -> Option<&mut Send> {
    match &mut requests.get_mut(key).filter(|request| !request.done)?.body {
        Body::Send(send) => Some(send),
        _ => None,
    }
}

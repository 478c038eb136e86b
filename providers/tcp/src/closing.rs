//! Closing an interface: what was posted comes out, and peers hear a goodbye.

use std::os::fd::AsFd;
use std::time::Instant;

use bowline_uct::Discard;

use crate::frame::Frame;
use crate::handshake::Stage;
use crate::hello::Kind;
use crate::iface::TcpIface;
use crate::peer::State;
use crate::socket;

impl TcpIface {
    /// Brings out what was posted, says goodbye, and waits until the peers' kernels have both: a
    /// socket that is closed while something unread has come would take it back.
    fn say_goodbye(&mut self) {
        self.leave_handshakes();
        let deadline = Instant::now() + self.options.linger;
        let mut said = vec![false; self.peers.len()];
        loop {
            for index in 0..self.peers.len() as u32 {
                if self.peer(index).is_some_and(|peer| matches!(peer.state, State::Open))
                    && said.get(index as usize) == Some(&false)
                {
                    said[index as usize] = true;
                    self.send_control(index, &Frame::bye().encode());
                }
            }
            if self.all_sent() || Instant::now() >= deadline {
                return;
            }
            bowline_uct::Iface::progress(self, &mut Discard, 256);
            said.resize(self.peers.len().max(said.len()), false);
            std::thread::yield_now();
        }
    }

    /// A peer may have taken the last step of a handshake whose answer was not read yet, or take it when this side is
    /// gone. What it then reads first says that this side has closed.
    fn leave_handshakes(&self) {
        for handshake in self.handshakes.iter().flatten() {
            let answers = handshake.stage == Stage::Await(Kind::Answer);
            if answers && let Err(error) = handshake.say(&[&Frame::bye().encode()]) {
                tracing::debug!(%error, "a peer that was being met is not notified of the close");
            }
        }
    }

    /// Whether the kernels of all peers that have not failed have what was posted to them.
    pub(crate) fn all_sent(&mut self) -> bool {
        (0..self.peers.len() as u32).filter_map(|index| self.peer(index)).all(|peer| {
            let unsent = || peer.socket.as_ref().is_some_and(|s| socket::at_risk(s.as_fd()) > 0);
            match peer.state {
                State::Failed(_) => true,
                State::Connecting => peer.queue.is_empty(),
                State::Open => peer.queue.is_empty() && !unsent(),
            }
        })
    }
}

impl Drop for TcpIface {
    fn drop(&mut self) {
        // A forked child shares the sockets with its parent and must not speak for it.
        if !self.abandoned && self.pid == std::process::id() {
            self.say_goodbye();
        }
    }
}

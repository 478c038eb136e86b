//! Endpoints as the user sees them: how they are made, what they say of themselves, and to whom
//! their end is reported.
//!
//! **The error handler** of an endpoint is called once, with the kind of the failure, when the peer
//! has failed or closed; never when the endpoint is closed here. It is called outside of every borrow,
//! as handlers of active messages are, behind those of the messages that the peer had sent before, and
//! may do everything that they may: connect, close, send, progress. It runs inside of `progress` and of
//! calls that wait.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_uct::{Caps, PeerFailure};

use crate::book::{AddressBook, Book};
use crate::error::{ConnectError, OpError};
use crate::peer::{Ep, PeerState};
use crate::worker::{ErrorHandler, Worker};

/// What is demanded of an endpoint with respect to its peer's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorMode {
    /// Nothing: what the transport happens to notice is reported.
    #[default]
    None,
    /// The failure of the peer is noticed even if nothing is sent to it: by the transport, or by
    /// checks of its life ([`KEEPALIVE`](crate::KEEPALIVE)).
    Peer,
}

/// How an endpoint is made.
#[derive(Default)]
pub struct EpOptions {
    /// What is demanded.
    pub errors: ErrorMode,
    /// What is called at its end.
    pub on_error: Option<ErrorHandler>,
}

impl std::fmt::Debug for EpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EpOptions").field("errors", &self.errors).finish_non_exhaustive()
    }
}

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpState {
    /// Nothing was sent yet.
    Idle,
    /// In use.
    Open,
    /// Being closed, here or by the peer.
    Closing,
    /// Over.
    Ended(PeerFailure),
}

/// What an endpoint says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpInfo {
    /// The peer's job.
    pub job: u64,
    /// Its rank there.
    pub rank: u32,
    /// How many times that rank was started anew.
    pub incarnation: u32,
    /// Random, different for every worker.
    pub uid: u64,
    /// Where it stands.
    pub state: EpState,
    /// The transport that carries its messages, once one was chosen.
    pub transport: Option<&'static str>,
}

impl Worker {
    /// An endpoint as [`Worker::connect`] makes it, with options.
    ///
    /// # Errors
    /// As for [`Worker::connect`], and when a failure of the peer would not be noticed although that
    /// is demanded.
    pub fn connect_with(&self, address: &[u8], options: EpOptions) -> Result<Ep, ConnectError> {
        let ep = self.connect(address)?;
        if options.errors == ErrorMode::Peer {
            self.demand(ep)?;
        }
        if let Some(handler) = options.on_error {
            // A peer that fails from here on is reported: nothing has run since `connect`.
            self.watchers.borrow_mut().0.insert(ep, handler);
        }
        Ok(ep)
    }

    /// The same check for an endpoint that is there: that its failure will be noticed.
    fn demand(&self, ep: Ep) -> Result<(), ConnectError> {
        let inner = &mut *self.inner.borrow_mut();
        let address = inner.engine.peers[ep.index() as usize].address.clone();
        let (lane, _) = inner.route(&address)?;
        let attr = inner.lanes[lane].iface.attr();
        let noticed = attr.caps.intersects(Caps::PEER_FAILURE | Caps::LOOPBACK);
        if !noticed && !inner.engine.options.keepalive.is_on() {
            let reasons = vec![format!(
                "{}: does not notice the death of a peer, and BOWLINE_KEEPALIVE_INTERVAL is 0",
                attr.provider
            )];
            return Err(ConnectError::NoLane { rank: address.rank, reasons });
        }
        Ok(())
    }

    /// Has `handler` called when the peer of `ep` fails or closes, in place of the handler before.
    ///
    /// # Errors
    /// When there is no such endpoint, or it is over already; then the error says how.
    pub fn on_error(&self, ep: Ep, handler: ErrorHandler) -> Result<(), OpError> {
        let inner = self.inner.borrow();
        let peer = &inner.engine.peers[inner.engine.index_of(ep)? as usize];
        if peer.end.is_some() {
            return Err(OpError::EndpointClosed);
        }
        if let Some(how) = peer.failure() {
            return Err(how.into());
        }
        self.watchers.borrow_mut().0.insert(ep, handler);
        Ok(())
    }

    /// What is known of an endpoint; `None` when there is no such, or it was over and is forgotten.
    pub fn ep_info(&self, ep: Ep) -> Option<EpInfo> {
        let inner = self.inner.borrow();
        let peer = &inner.engine.peers[inner.engine.index_of(ep).ok()? as usize];
        let state = match peer.state {
            PeerState::Failed(how) => EpState::Ended(how),
            PeerState::Closing | PeerState::Leaving => EpState::Closing,
            _ if peer.end.is_some() => EpState::Closing,
            PeerState::Known => EpState::Idle,
            PeerState::Ready => EpState::Open,
        };
        let lane = inner.lanes.get(peer.lane as usize).filter(|_| peer.ep.0 != u32::MAX);
        Some(EpInfo {
            job: peer.address.job,
            rank: peer.address.rank,
            incarnation: peer.address.incarnation,
            uid: peer.address.uid,
            state,
            transport: lane.map(|lane| lane.iface.attr().provider),
        })
    }
}

impl Worker {
    /// Gives the worker a book, in place of the one before. Endpoints that were made stay.
    pub fn use_book(&self, book: Arc<dyn AddressBook>) {
        self.inner.borrow_mut().book = Book { book: Some(book), made: HashMap::new() };
    }

    /// The endpoint of the worker whose address has this number in the book. It is made when it is
    /// first asked for, and anew after it was closed.
    ///
    /// # Errors
    /// When the book has no such address, and as for [`Worker::connect`].
    pub fn endpoint(&self, index: u32) -> Result<Ep, ConnectError> {
        let book = {
            let inner = self.inner.borrow();
            if let Some(&ep) = inner.book.made.get(&index)
                && let Ok(peer) = inner.engine.index_of(ep)
                && let PeerState::Known | PeerState::Ready = inner.engine.peers[peer as usize].state
            {
                return Ok(ep);
            }
            inner.book.book.clone()
        };
        let address = book.as_ref().and_then(|book| book.address(index));
        let ep = self.connect(&address.ok_or(ConnectError::NotInBook { index })?)?;
        self.inner.borrow_mut().book.made.insert(index, ep);
        Ok(ep)
    }
}

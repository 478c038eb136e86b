//! Flush and fence: when what was put is visible, and in which order.
//!
//! A flush is a one-sided operation without data that has one part for each endpoint, or for each
//! lane; it waits behind what is queued for them (rule 4 of [`crate::one_sided`]).

use bowline_base::slab::Key;
use bowline_uct::{EpId, PostError, Posted};

use crate::action::Action;
use crate::engine::Inner;
use crate::error::OpError;
use crate::one_sided::{Progress, op_error};
use crate::peer::{Ep, PeerIndex};
use crate::request::{self, Body, OneSided, RequestId, Sent, token};
use crate::worker::Worker;

/// How far apart a fence keeps what was put before it from what is put after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// For each peer: what is put after becomes visible there after what was put before. Does not
    /// wait for the network.
    Weak,
    /// For all: what was put before, to any peer, is visible before anything that is put after. Waits
    /// for the network.
    Strong,
}

impl Worker {
    /// Waits until everything put so far is visible at its targets.
    ///
    /// # Errors
    /// When a target failed meanwhile.
    pub fn flush(&self) -> Result<(), OpError> {
        match self.flush_begin()? {
            Sent::Done => Ok(()),
            Sent::Pending(id) => self.wait(id).outcome,
        }
    }

    /// Begins a flush of everything put so far. It is complete when all of it is visible at its
    /// targets.
    ///
    /// # Errors
    /// When a target has failed.
    pub fn flush_begin(&self) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let lanes = (0..inner.lanes.len()).map(|lane| (lane, None)).collect();
        let served = inner.engine.emulation.busy();
        inner.begin_flush(lanes, &served).sent()
    }

    /// Begins a flush of what was put to the peer of `ep`.
    ///
    /// # Errors
    /// When there is no such endpoint, or its peer has failed.
    pub fn flush_ep(&self, ep: Ep) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let index = inner.engine.index_of(ep)?;
        if let Some(how) = inner.engine.peers[index as usize].failure() {
            return Err(how.into());
        }
        let targets = inner.endpoints_of(index);
        let served = inner.engine.emulation.is_busy(index).then_some(index);
        inner.begin_flush(targets, served.as_slice()).sent()
    }

    /// Orders what is put after the call behind what was put before it, for each peer.
    ///
    /// # Errors
    /// When a lane cannot.
    pub fn fence(&self) -> Result<(), OpError> {
        if self.inner.borrow().engine.emulation.is_used() {
            // Messages and the puts of transports have no order between them.
            return self.flush();
        }
        self.wait_until(|| self.inner.borrow().engine.one_sided.is_empty());
        let lanes = self.inner.borrow().lanes.len();
        for lane in 0..lanes {
            let mut fenced = Ok(());
            self.wait_until(|| {
                fenced = self.inner.borrow_mut().lanes[lane].iface.fence();
                fenced != Err(PostError::NoResource)
            });
            fenced.map_err(op_error)?;
        }
        Ok(())
    }

    /// A fence of the given strength.
    ///
    /// # Errors
    /// When a lane cannot, or, for a strong one, a target has failed.
    pub fn fence_with(&self, fence: Fence) -> Result<(), OpError> {
        match fence {
            Fence::Weak => self.fence(),
            Fence::Strong => self.flush(),
        }
    }
}

impl Inner {
    /// Begins a flush of endpoints, or of whole lanes, and of what `served` carry out themselves.
    pub(crate) fn begin_flush(
        &mut self,
        targets: Vec<(usize, Option<EpId>)>,
        served: &[PeerIndex],
    ) -> Progress {
        let one = OneSided { rest: targets.len(), flush: targets, ..OneSided::default() };
        let key = request::begin(&mut self.engine.requests, Body::OneSided(Box::new(one)));
        for &peer in served {
            self.flush_emulated(key, peer);
        }
        if self.engine.flush_waits(key) {
            self.engine.one_sided.push_back(key);
            return Progress::Pending(RequestId(key));
        }
        self.post_flush(key);
        match self.engine.requests.get(key).map(|request| &request.body) {
            Some(Body::OneSided(one)) if one.rest > 0 || one.in_flight > 0 => {
                Progress::Pending(RequestId(key))
            }
            Some(Body::OneSided(one)) => {
                let outcome = one.outcome;
                request::end(&mut self.engine.requests, key);
                Progress::Done(outcome.map(|()| 0))
            }
            _ => Progress::Done(Err(OpError::Cancelled)),
        }
    }

    /// Posts the parts of a flush; what finds no space is queued.
    pub(crate) fn post_flush(&mut self, key: Key) {
        while let Some(one) = self.engine.one_sided_mut(key)
            && let Some(&(lane, ep)) = one.flush.last()
        {
            let iface = &mut *self.lanes[lane].iface;
            let posted = match ep {
                Some(ep) => iface.flush(ep, token(key)),
                None => iface.flush_all(token(key)),
            };
            match posted {
                Ok(Posted::Done) => {}
                Ok(Posted::InFlight) => one.in_flight += 1,
                Err(PostError::NoResource) => {
                    match ep {
                        Some(ep) => iface.want_writable(ep),
                        // No endpoint could be asked about: the next progress tries again.
                        None => self.engine.actions.push(Action::ResumeOneSided),
                    }
                    self.engine.one_sided.push_back(key);
                    return;
                }
                Err(error) => one.outcome = Err(op_error(error)),
            }
            one.flush.pop();
            one.rest -= 1;
        }
    }
}

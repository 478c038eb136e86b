//! The links of a lane: how they are made, and how they end.

use bowline_uct::{EpId, OpenError, PeerFailure, PostError, Source};

use super::address::{self, Address};
use super::inbox::Inbox;
use super::lane_core::LaneCore;
use super::link::{Link, SenderEntry, Step};

impl LaneCore {
    /// The link of an endpoint that is open, whatever its state.
    pub(super) fn open_link(&self, ep: EpId) -> Result<&Link, PostError> {
        match self.links.get(ep.0 as usize) {
            Some(link) if link.open => match link.failed {
                Some(_) => Err(PostError::PeerFailed),
                None => Ok(link),
            },
            _ => Err(PostError::BadEndpoint),
        }
    }

    /// The endpoint below of one that may be used.
    pub(super) fn below_of(&self, ep: EpId) -> Result<EpId, PostError> {
        self.open_link(ep)?.inner.ok_or(PostError::PeerFailed)
    }

    /// A link to the lane at `address`, which was parsed as `theirs`: the one that there is, or a
    /// new one. On a loopback interface every connection has its own.
    pub(super) fn link_to(
        &mut self,
        address: &[u8],
        theirs: &Address,
        anew: bool,
    ) -> Result<u32, OpenError> {
        let known = self.links.iter().position(|link| {
            link.address == address && (!anew || !link.open && link.failed.is_none())
        });
        let place = match known {
            Some(place) if self.links[place].failed.is_none() => return Ok(place as u32),
            Some(place) => {
                if self.links[place].gone {
                    let how = self.links[place].failed.unwrap_or(PeerFailure::Closed);
                    return Err(OpenError::of_failed_peer(how));
                }
                // It was ended from here, and the peer may be well: its place is used again, since
                // what it sends has this place's number.
                if let Some(inner) = self.links[place].inner.take() {
                    self.forget_inner(inner);
                }
                place
            }
            None => self.free_place()?,
        };
        let inner = self.inner.connect(&theirs.inner)?;
        let rkey = match self.inner.rkey_unpack(inner, &theirs.key) {
            Ok(rkey) => rkey,
            Err(error) => {
                self.inner.disconnect(inner);
                return Err(OpenError::BadAddress(format!("the key of its queue: {error}")));
            }
        };
        self.generations = self.generations.wrapping_add(1);
        let mut link = Link::new(self.generations, address.to_vec(), theirs.base, theirs.shape);
        link.inner = Some(inner);
        link.rkey = Some(rkey);
        let salt = u64::from(self.generations);
        let salted = [self.nonce.to_le_bytes(), theirs.nonce.to_le_bytes(), salt.to_le_bytes()];
        link.cookie = address::checksum(salted.as_flattened()) as u32;
        if place == self.links.len() {
            self.links.push(link);
        } else {
            link.introduced = self.links[place].introduced;
            link.extents = std::mem::take(&mut self.links[place].extents);
            link.close_extents();
            self.replace_link(place, link);
        }
        self.by_inner.set(inner.0, place as u32);
        Ok(place as u32)
    }

    /// Puts a link in the place of one whose peer is gone. What the transport may yet read into stays.
    pub(super) fn replace_link(&mut self, place: usize, link: Link) {
        let old = std::mem::replace(&mut self.links[place], link);
        self.retired.extend(old.word.into_iter().chain(old.status_word).chain(old.entry));
    }

    /// A place for a new link: one whose peer is gone and which nobody has open, or the next.
    pub(super) fn free_place(&mut self) -> Result<usize, OpenError> {
        let next = self.links.len() as u32;
        if next < self.shape.peers {
            let made = self.extend_words(next);
            made.map_err(|error| OpenError::Limit(format!("no memory for another peer: {error}")))?;
            return Ok(next as usize);
        }
        let old = self.links.iter().position(|link| link.gone && link.reported && !link.open);
        let place = old.ok_or_else(|| {
            OpenError::Limit(
                "too many peers; raise BOWLINE_RECV_QUEUE_PEERS, which is 65536 at most".to_owned(),
            )
        })?;
        for sender in self.senders.iter_mut().filter(|sender| sender.link == place as u32) {
            *sender = SenderEntry::EMPTY;
        }
        if let Some(inner) = self.links[place].inner.take() {
            self.forget_inner(inner);
        }
        self.links[place].introduced = false;
        self.links[place].extents.clear();
        Ok(place)
    }

    fn forget_inner(&mut self, inner: EpId) {
        self.inner.disconnect(inner);
        self.by_inner.clear(inner.0);
    }

    /// Ends a link from here: its peer does what no correct peer does, or refuses.
    #[cold]
    pub(super) fn break_link(&mut self, index: u32, how: PeerFailure) {
        let link = &mut self.links[index as usize];
        if link.failed.is_some() {
            if link.finishing {
                self.finish_ending(index);
            }
            return;
        }
        self.stop_link(index, how);
        self.leave_peer(index);
    }

    /// Ends a link for its user. What it has reserved is ended first, so that nobody waits for it.
    #[cold]
    pub(super) fn end_link(&mut self, index: u32, how: PeerFailure) {
        if !self.links[index as usize].holds() {
            return self.break_link(index, how);
        }
        self.links[index as usize].finishing = true;
        self.stop_link(index, how);
        if self.links[index as usize].is_unsure() {
            self.drive(index);
        }
    }

    /// A link that was ended holds nothing any more.
    pub(super) fn finish_ending(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.finishing = false;
        link.step = Step::Broken;
        link.fifo.clear();
        self.leave_peer(index);
    }

    fn leave_peer(&mut self, index: u32) {
        if let Some(inner) = self.links[index as usize].inner {
            self.links[index as usize].invalidated = true;
            self.inner.invalidate(inner);
        } else {
            self.report_failure(index);
        }
    }

    /// Nothing is posted for a link any more; what waits for it is answered.
    pub(super) fn stop_link(&mut self, index: u32, how: PeerFailure) {
        let link = &mut self.links[index as usize];
        link.failed = Some(how);
        if !link.finishing {
            link.step = Step::Broken;
            link.fifo.clear();
        }
        while let Some((token, _)) = link.flushes.pop_front() {
            self.flushing -= 1;
            self.events.complete(token, Err(how));
        }
        self.waiters.cancel(EpId(index));
    }

    /// Reports a link's failure, once.
    pub(super) fn report_failure(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if std::mem::replace(&mut link.reported, true) {
            return;
        }
        let how = link.failed.unwrap_or(PeerFailure::Died);
        let source = link.introduced.then_some(Source(index));
        let ep = link.open.then_some(EpId(index));
        if source.is_some() || ep.is_some() {
            self.events.fail(source, ep, how);
        }
    }

    #[cold]
    pub(super) fn below_failed(
        &mut self,
        inbox: &mut dyn Inbox,
        source: Option<Source>,
        ep: Option<EpId>,
        how: PeerFailure,
    ) {
        // It may have introduced itself right before.
        self.read_introductions(inbox);
        let by_ep = ep.and_then(|ep| self.by_inner.get(ep.0));
        let index = by_ep.or_else(|| {
            let source = source?;
            let of = |link: &Link| {
                let theirs = Address::parse(&link.address).ok()?;
                self.inner.source_of(&theirs.inner)
            };
            let place = self.links.iter().position(|link| of(link) == Some(source))?;
            Some(place as u32)
        });
        let Some(index) = index else { return };
        let link = &mut self.links[index as usize];
        let ours = std::mem::take(&mut link.invalidated);
        if link.failed.is_none() || std::mem::take(&mut link.finishing) {
            self.stop_link(index, how);
        }
        if ours {
            self.report_failure(index);
            return self.watch(index, inbox.generation());
        }
        let link = &mut self.links[index as usize];
        if std::mem::replace(&mut link.gone, true) {
            return;
        }
        if link.introduced {
            self.wait_for_the_last(index, inbox.generation());
        } else {
            self.report_failure(index);
        }
    }

    /// A peer that was left may still hold what others wait for, and die: an endpoint to it, which
    /// serves for nothing else, will report it.
    fn watch(&mut self, index: u32, generation: u32) {
        let link = &mut self.links[index as usize];
        if !link.introduced {
            return;
        }
        let Ok(theirs) = Address::parse(&link.address) else { return };
        if let Some(inner) = link.inner.take() {
            self.forget_inner(inner);
        }
        match self.inner.connect(&theirs.inner) {
            Ok(inner) => {
                self.links[index as usize].close_extents();
                self.links[index as usize].rkey = self.inner.rkey_unpack(inner, &theirs.key).ok();
                self.links[index as usize].inner = Some(inner);
                self.by_inner.set(inner.0, index);
            }
            Err(error) => {
                tracing::debug!(%error, "a peer that was left has ended");
                self.links[index as usize].gone = true;
                self.wait_for_the_last(index, generation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_base::buffer::RecvBuf;
    use bowline_sim::{Network, NetworkOptions};
    use bowline_uct::{Discard, Iface as _};

    use super::*;
    use crate::remote::Outcome;
    use crate::{QueueLane, QueueOptions};

    /// A read may be under way when its link makes space for another one. Where the transport reads to
    /// stays until the lane goes, and the next link reads elsewhere.
    #[test]
    fn the_word_of_a_link_that_was_replaced_stays_and_is_not_used_again() {
        let network = Network::new(NetworkOptions::default());
        let options = QueueOptions { slots: 16, peers: 1, ..QueueOptions::default() };
        let open =
            |uid| QueueLane::open(Box::new(network.open()), &options, uid).expect("it opens");
        let (mut near, mut far) = (open(1), open(2));
        let address = far.address();
        let mut pass = |near: &mut QueueLane| {
            for _ in 0..100 {
                if near.progress(&mut Discard, 16) + far.progress(&mut Discard, 16) == 0 {
                    network.advance();
                }
            }
        };
        let index = near.connect(&address).expect("it is there").0;
        // The end of the last slot, of which nothing is sent.
        let at = near.core.links[index as usize].shape.bytes() - 8;
        assert!(matches!(near.core.put_bytes(index, at, &77u64.to_ne_bytes()), Outcome::Done(())));
        pass(&mut near);

        assert!(matches!(near.core.read_word(index, at), Outcome::Done(None)));
        let link = &near.core.links[index as usize];
        let place = link.word.as_ref().expect("it is read to").address();
        near.core.break_link(index, PeerFailure::Unreachable);
        assert_eq!(near.connect(&address).expect("it lives").0, index, "the same place");
        let places = |near: &QueueLane| -> Vec<u64> {
            near.core.retired.iter().map(RecvBuf::address).collect()
        };
        assert_eq!(places(&near), [place], "the answer is under way");
        assert!(matches!(near.core.read_word(index, at), Outcome::Done(None)));
        let word = near.core.links[index as usize].word.as_ref().expect("it is read to");
        assert_ne!(word.address(), place);
        pass(&mut near);
        let mut bytes = [0; 8];
        let word = near.core.links[index as usize].word.as_mut().expect("it was read to");
        word.view().copy_out(&mut bytes);
        assert_eq!(u64::from_ne_bytes(bytes), 77, "the new link has its answer");
        assert_eq!(places(&near), [place]);
    }
}

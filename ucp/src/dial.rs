//! What a worker that listens and dials by socket address calls, and how it polls the connection manager. What both sides
//! exchange is in [`crate::cm`].

use core::net::SocketAddr;

use bowline_base::doorbell::WakeSet;

use crate::cm::{
    Answer, ConnectionManager, ConnectionRequest, DialError, DialId, IncomingId, Introduction,
    Introductions, ListenerId,
};
use crate::engine::Inner;
use crate::peer::Ep;
use crate::worker::Worker;

impl Inner {
    /// Polls for requests and answers, where the worker has a connection manager.
    #[inline]
    pub(crate) fn poll_introductions(&mut self) -> u32 {
        match self.introductions.manager {
            Some(_) => self.introductions.poll(),
            None => 0,
        }
    }

    pub(crate) fn has_connection_manager(&self) -> bool {
        self.introductions.manager.is_some()
    }

    /// Before a sleep: whether there are events.
    pub(crate) fn connection_manager_is_busy(&mut self) -> bool {
        match &mut self.introductions.manager {
            Some(manager) => manager.arm() || self.introductions.poll() > 0,
            None => false,
        }
    }

    pub(crate) fn disarm_connection_manager(&mut self) {
        if let Some(manager) = &mut self.introductions.manager {
            manager.disarm();
        }
    }

    /// Adds what requests ring to what is slept on. Whether that is possible.
    pub(crate) fn add_connection_manager(&mut self, set: &mut WakeSet) -> bool {
        let Some(manager) = &mut self.introductions.manager else { return true };
        match manager.add_to(set) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(error, "no descriptor for requests; sleeps are short");
                false
            }
        }
    }

    fn introduce(&mut self, private: &[u8]) -> Result<(&mut Introductions, Vec<u8>), DialError> {
        let address = self.own_address.clone();
        let Some(manager) = &self.introductions.manager else {
            return Err(DialError::NoConnectionManager);
        };
        let limit = manager.max_data().saturating_sub(Introduction::FIXED + address.len());
        if private.len() > limit {
            return Err(DialError::TooLong { given: private.len(), limit });
        }
        let packed = Introduction { address, private: private.to_vec() }.pack();
        Ok((&mut self.introductions, packed))
    }
}

impl Worker {
    /// Gives the worker what it listens and dials with, in place of what it had.
    pub fn set_connection_manager(&self, manager: Box<dyn ConnectionManager>) {
        let inner = &mut *self.inner.borrow_mut();
        inner.introductions = Introductions { manager: Some(manager), ..Default::default() };
        inner.descriptors = None;
    }

    /// Listens for requests at `at`; port 0 takes any that is free. Returns where.
    ///
    /// # Errors
    /// When the worker has no connection manager, or the address cannot be listened at.
    pub fn listen(&self, at: SocketAddr) -> Result<(ListenerId, SocketAddr), DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let manager = inner.introductions.manager.as_mut().ok_or(DialError::NoConnectionManager)?;
        let listening = manager.listen(at);
        listening.map_err(|reason| DialError::ConnectionManager { act: "listen", reason })
    }

    /// Stops listening. Requests that came in before stay.
    pub fn close_listener(&self, listener: ListenerId) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(manager) = &mut inner.introductions.manager {
            manager.close_listener(listener);
        }
    }

    /// The next request that was not returned yet, oldest first.
    pub fn next_request(&self) -> Option<ConnectionRequest> {
        let inner = &mut *self.inner.borrow_mut();
        inner.poll_introductions();
        inner.introductions.incoming.pop_front()
    }

    /// Accepts a request, with private data for the client. The endpoint can be used at once. Where no
    /// transport leads to the client, it is rejected, and the error says why.
    ///
    /// # Errors
    /// When the request was answered before, the client cannot be reached or has given up, or the
    /// private data are too long; only after the last may it be answered again.
    pub fn accept(&self, id: IncomingId, private: &[u8]) -> Result<Ep, DialError> {
        let address = {
            let inner = &mut *self.inner.borrow_mut();
            inner.introduce(private)?;
            inner.introductions.waiting.remove(&id).ok_or(DialError::NoSuch)?
        };
        let ep = self.connect(&address);
        let inner = &mut *self.inner.borrow_mut();
        let (introductions, packed) = inner.introduce(private)?;
        let manager = introductions.manager.as_mut().ok_or(DialError::NoConnectionManager)?;
        let data: &[u8] = if ep.is_ok() { &packed } else { &[] };
        let said = manager.answer(id, ep.is_ok(), data);
        let ep = ep?;
        said.map_err(|reason| DialError::ConnectionManager { act: "answer a request", reason })?;
        Ok(ep)
    }

    /// Rejects a request, with private data for the client, the reason for instance.
    ///
    /// # Errors
    /// As for [`Worker::accept`].
    pub fn reject(&self, id: IncomingId, private: &[u8]) -> Result<(), DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let introductions = &mut inner.introductions;
        let manager = introductions.manager.as_mut().ok_or(DialError::NoConnectionManager)?;
        let limit = manager.max_data();
        if private.len() > limit {
            return Err(DialError::TooLong { given: private.len(), limit });
        }
        introductions.waiting.remove(&id).ok_or(DialError::NoSuch)?;
        let said = manager.answer(id, false, private);
        said.map_err(|reason| DialError::ConnectionManager { act: "answer a request", reason })
    }

    /// Asks the listener at `to` for a connection, with private data for its user.
    /// [`Worker::dial_outcome`] says what became of it.
    ///
    /// # Errors
    /// When the worker has no connection manager, or the private data are too long.
    pub fn connect_addr(&self, to: SocketAddr, private: &[u8]) -> Result<DialId, DialError> {
        let inner = &mut *self.inner.borrow_mut();
        let (introductions, packed) = inner.introduce(private)?;
        let manager = introductions.manager.as_mut().ok_or(DialError::NoConnectionManager)?;
        let dialled = manager.dial(to, &packed);
        let id =
            dialled.map_err(|reason| DialError::ConnectionManager { act: "connect", reason })?;
        introductions.dials.insert(id, None);
        Ok(id)
    }

    /// What became of a request: the endpoint and the server's private data. `None` while it is under
    /// way. Each outcome is reported once.
    pub fn dial_outcome(&self, id: DialId) -> Option<Result<(Ep, Vec<u8>), DialError>> {
        let answer = {
            let inner = &mut *self.inner.borrow_mut();
            inner.poll_introductions();
            match inner.introductions.dials.get_mut(&id) {
                None => return Some(Err(DialError::NoSuch)),
                Some(answer) => answer.take()?,
            }
        };
        self.inner.borrow_mut().introductions.dials.remove(&id);
        Some(match answer {
            Answer::Failed(reason) => Err(DialError::Failed(reason)),
            Answer::Rejected(private) => Err(DialError::Rejected { private }),
            Answer::Accepted(data) => match Introduction::parse(&data) {
                None => Err(DialError::Damaged),
                Some(Introduction { address, private }) => {
                    self.connect(&address).map(|ep| (ep, private)).map_err(DialError::from)
                }
            },
        })
    }
}

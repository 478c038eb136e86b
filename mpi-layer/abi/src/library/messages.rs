//! Messages that a probe has claimed, behind handles.

use std::cell::RefCell;
use std::rc::Rc;

use bowline_mpi::ClaimedMessage;

use super::CommObject;
use super::status::StatusOut;
use crate::arg::Out;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Message;
use crate::table::Table;

/// A message that is claimed.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) comm: Rc<CommObject>,
    pub(crate) message: ClaimedMessage,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Messages(RefCell<Table<Claimed>>);

impl Messages {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Table::new(Message::KIND)))
    }

    /// The handle whose number in C is this one.
    pub(crate) fn complete(&self, low: usize) -> Message {
        Message(self.0.borrow().complete(low))
    }

    /// Takes all out.
    pub(crate) fn drain(&self) {
        let left = self.0.borrow_mut().drain();
        drop(left);
    }

    /// Stores the handle and the status of a message that was claimed.
    pub(crate) fn give(
        &self,
        comm: Rc<CommObject>,
        message: ClaimedMessage,
        handle: Out<Message>,
        status: StatusOut,
    ) -> Result<(), Fault> {
        status.put((*message.status()).into());
        if message.is_null() {
            return handle.set(MPI_MESSAGE_NO_PROC);
        }
        let made = self.0.borrow_mut().insert(Claimed { comm, message });
        let full = || fault(MPI_ERR_OTHER, "there are too many messages");
        handle.set(Message(made.ok_or_else(full)?))
    }

    /// The communicator of a message; none for that of nobody.
    pub(crate) fn comm_of(&self, handle: Message) -> Result<Option<Rc<CommObject>>, Fault> {
        if handle == MPI_MESSAGE_NO_PROC {
            return Ok(None);
        }
        let claimed = self.0.borrow();
        let found = claimed.get(handle.0).map(|claimed| Rc::clone(&claimed.comm));
        found.map(Some).ok_or_else(|| no_message(handle))
    }

    pub(crate) fn take(&self, handle: Message) -> Result<Claimed, Fault> {
        self.0.borrow_mut().remove(handle.0).ok_or_else(|| no_message(handle))
    }
}

#[cold]
fn no_message(handle: Message) -> Fault {
    let text = match handle {
        MPI_MESSAGE_NULL => "the message is MPI_MESSAGE_NULL".into(),
        Message(value) => format!("{value:#x} is no message, or one that was received"),
    };
    fault(MPI_ERR_REQUEST, text)
}

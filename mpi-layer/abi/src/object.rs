//! What MPI hangs on objects of several kinds: an error handler, attributes, information, a name.

use std::cell::{Cell, RefCell};

use crate::attribute::Attribute;
use crate::errhandler;
use crate::generated::constants::MPI_MAX_OBJECT_NAME;
use crate::handle::Errhandler;
use crate::info::Pairs;

/// What a communicator, a datatype or a window has beside what it is.
#[derive(Debug)]
pub(crate) struct Common {
    errhandler: Cell<Errhandler>,
    /// In the order in which they were set.
    pub(crate) attributes: RefCell<Vec<Attribute>>,
    pub(crate) info: RefCell<Pairs>,
    name: RefCell<Vec<u8>>,
}

impl Common {
    /// With an error handler, of which it holds a reference, and a name.
    pub(crate) fn new(errhandler: Errhandler, name: &[u8]) -> Self {
        errhandler::hold(errhandler);
        Self {
            errhandler: Cell::new(errhandler),
            attributes: RefCell::default(),
            info: RefCell::default(),
            name: RefCell::new(name.to_vec()),
        }
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.errhandler.get()
    }

    /// Sets the error handler. The handle is a valid one.
    pub(crate) fn set_errhandler(&self, errhandler: Errhandler) {
        errhandler::hold(errhandler);
        errhandler::release(self.errhandler.replace(errhandler));
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        self.name.borrow().clone()
    }

    /// Sets the name, of which the standard keeps so many bytes.
    pub(crate) fn set_name(&self, mut name: Vec<u8>) {
        name.truncate(MPI_MAX_OBJECT_NAME as usize - 1);
        *self.name.borrow_mut() = name;
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        errhandler::release(self.errhandler.get());
    }
}

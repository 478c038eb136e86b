//! What MPI hangs on objects of several kinds: an error handler, attributes, information, a name.

use std::cell::{Cell, OnceCell, RefCell};

use super::attributes::Attribute;
use super::handlers;
use super::infos::Pairs;
use crate::generated::constants::MPI_MAX_OBJECT_NAME;
use crate::handle::Errhandler;

/// What a communicator, a datatype or a window has beside what it is. Most have nothing but a handler,
/// so that the rest is made when it is first set.
#[derive(Debug)]
pub(crate) struct Common {
    errhandler: Cell<Errhandler>,
    more: OnceCell<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    /// In the order in which they were set.
    attributes: RefCell<Vec<Attribute>>,
    info: RefCell<Pairs>,
    name: RefCell<Vec<u8>>,
}

impl Common {
    /// With an error handler, of which it holds a reference, and a name.
    pub(crate) fn new(errhandler: Errhandler, name: &[u8]) -> Self {
        handlers::hold(errhandler);
        let new = Self { errhandler: Cell::new(errhandler), more: OnceCell::new() };
        if !name.is_empty() {
            new.set_name(name.to_vec());
        }
        new
    }

    /// The rest, to set something of it.
    fn more(&self) -> &More {
        self.more.get_or_init(Box::default)
    }

    /// Reads the attributes.
    pub(crate) fn attributes<R>(&self, read: impl FnOnce(&[Attribute]) -> R) -> R {
        match self.more.get() {
            Some(more) => read(&more.attributes.borrow()),
            None => read(&[]),
        }
    }

    /// The attributes, to change.
    pub(crate) fn change_attributes<R>(&self, change: impl FnOnce(&mut Vec<Attribute>) -> R) -> R {
        change(&mut self.more().attributes.borrow_mut())
    }

    /// The hints that it has.
    pub(crate) fn info(&self) -> Pairs {
        self.more.get().map_or_else(Pairs::default, |more| more.info.borrow().clone())
    }

    /// Gives it hints, beside those that it has.
    pub(crate) fn add_info(&self, pairs: &Pairs) {
        if *pairs != Pairs::default() {
            self.more().info.borrow_mut().merge(pairs);
        }
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.errhandler.get()
    }

    /// Sets the error handler. The handle is a valid one.
    pub(crate) fn set_errhandler(&self, errhandler: Errhandler) {
        handlers::hold(errhandler);
        handlers::release(self.errhandler.replace(errhandler));
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        self.more.get().map_or_else(Vec::new, |more| more.name.borrow().clone())
    }

    /// Sets the name, of which the standard keeps so many bytes.
    pub(crate) fn set_name(&self, mut name: Vec<u8>) {
        name.truncate(MPI_MAX_OBJECT_NAME as usize - 1);
        *self.more().name.borrow_mut() = name;
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        handlers::release(self.errhandler.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_nothing_takes_two_words() {
        assert_eq!(size_of::<Common>(), 16);
    }
}

//! What protocols watch at a peer: messages to it are checked before they are posted, or noted when they were. Plain data;
//! what a protocol does when it is asked is in its life (`Life`, in the engine's module).
//!
//! Most peers are watched by nobody. Then each question is one test of a word.

use std::any::Any;
use std::fmt::Debug;

use crate::matching::Envelope;
use crate::wire::MessageId;

/// What one protocol, or several together, keep for that at a peer.
pub(crate) trait Watching: Debug + Send + Any {
    /// Whether sends are shown to protocols before they are posted (`Life::before_post`).
    fn checks(&self) -> bool;

    /// Whether all that is posted is to be noted here.
    fn notes(&self) -> bool;

    /// Whether a message of `length` bytes, of those that are not offered, may be posted without being shown to them.
    fn lets_pass(&self, _: Option<&Envelope>, _length: u64) -> bool {
        !self.checks()
    }

    /// Messages with the numbers `first .. next` were posted, of which the first is tagged, if any is.
    fn on_posted(&mut self, _first: u32, _next: u32, _: Option<&Envelope>) {}

    /// A message of the engine's own, or of a protocol, was posted.
    fn on_control(&mut self, _: MessageId, _payload: &[u8]) {}
}

#[derive(Debug, Default)]
struct List(Vec<Box<dyn Watching>>);

/// All that is kept at one peer.
#[derive(Debug, Default)]
pub(crate) struct Watches(Option<Box<List>>);

impl Watches {
    pub(crate) const NONE: Self = Self(None);

    fn iter(&self) -> impl Iterator<Item = &dyn Watching> {
        self.0.iter().flat_map(|list| list.0.iter().map(|one| &**one))
    }

    /// Whether sends are checked before they are posted.
    #[inline]
    pub(crate) fn check(&self) -> bool {
        self.0.is_some() && self.iter().any(Watching::checks)
    }

    /// Whether all that is posted is to be noted.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        self.0.is_some() && self.iter().any(Watching::notes)
    }

    /// Whether a message of `length` bytes, of those that are not offered, may be posted at once.
    #[inline]
    pub(crate) fn let_pass(&self, envelope: Option<&Envelope>, length: u64) -> bool {
        self.0.is_none() || self.iter().all(|one| one.lets_pass(envelope, length))
    }

    /// Shows all of them something that was posted. Whether what they ask of sends has changed by that.
    #[inline]
    pub(crate) fn show(&mut self, mut what: impl FnMut(&mut dyn Watching)) -> bool {
        if self.0.is_none() {
            return false;
        }
        let before = self.check() || self.note();
        let list = self.0.iter_mut().flat_map(|list| list.0.iter_mut());
        list.for_each(|one| what(&mut **one));
        before != (self.check() || self.note())
    }

    /// What is kept as `T`.
    pub(crate) fn of<T: Watching>(&self) -> Option<&T> {
        self.iter().find_map(|one| (one as &dyn Any).downcast_ref())
    }

    /// The same, to change it.
    pub(crate) fn of_mut<T: Watching>(&mut self) -> Option<&mut T> {
        let mut list = self.0.iter_mut().flat_map(|list| list.0.iter_mut());
        list.find_map(|one| (&mut **one as &mut dyn Any).downcast_mut())
    }

    /// The same, which is made when it is not there.
    pub(crate) fn make<T: Watching>(&mut self, new: impl FnOnce() -> T) -> &mut T {
        if self.of::<T>().is_none() {
            self.0.get_or_insert_default().0.push(Box::new(new()));
        }
        self.of_mut().expect("it was there, or was made in the lines above")
    }
}

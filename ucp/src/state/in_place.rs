//! Handlers of active messages that are called while these arrive, and what they are called with. The rules are in
//! [`crate::in_place`].

use bowline_base::view::View;

use crate::peer::Ep;

/// An active message where its transport has it. Its bytes are whatever the sender wrote, and may change
/// until the handler returns: copy out what is to be checked, once.
#[derive(Clone, Copy, Debug)]
pub struct AmInPlace<'a> {
    /// The sender.
    pub from: Ep,
    /// The header.
    pub header: View<'a>,
    /// The data.
    pub data: View<'a>,
}

/// What is called with active messages of an id while they arrive.
pub type AmInPlaceHandler = Box<dyn FnMut(AmInPlace<'_>) + Send>;

/// Such handlers by id; the table is as long as the largest id that ever had one.
#[derive(Default)]
pub(crate) struct InPlace(pub(crate) Vec<Option<AmInPlaceHandler>>);

impl InPlace {
    pub(crate) fn put(&mut self, id: u16, handler: AmInPlaceHandler) {
        let index = usize::from(id);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(handler);
    }

    pub(crate) fn remove(&mut self, id: u16) -> Option<AmInPlaceHandler> {
        self.0.get_mut(usize::from(id)).and_then(Option::take)
    }
}

//! Messages that a handler keeps until its program reads them.

use std::sync::Arc;

use bowline::ucp::{AmKept, Worker};
use crossbeam_queue::SegQueue;

/// Messages that came and wait to be read.
pub(crate) type Inbox = Arc<SegQueue<AmKept>>;

/// Keeps every active message of `id`.
pub(crate) fn keep_messages(worker: &Worker, id: u16) -> Inbox {
    let inbox = Inbox::default();
    let kept = Arc::clone(&inbox);
    worker.am_handler(id, Box::new(move |_, message| kept.push(message.keep())));
    inbox
}

//! What happens before the first operation with a peer: nothing on a network, and no endpoint where a book has the address.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    AddressBook, CloseMode, ConnectError, Envelope, EpOptions, EpState, ErrorMode, SendMode, Sent,
};

use crate::pair::Pair;
use crate::sides::{ANY, Sides};

#[test]
fn no_message_goes_before_the_first_operation() {
    let pair = Pair::new(NetworkOptions::default(), &[]);
    let [sender, receiver] = &pair.workers;
    let demanded = EpOptions { errors: ErrorMode::Peer, on_error: None };
    let again = sender.connect_with(&receiver.address(), demanded).expect("they reach each other");
    assert_eq!(again, pair.eps[0]);
    for _ in 0..1000 {
        pair.step();
    }
    assert_eq!(pair.network.counters().posted, 0, "connected, and nothing else");
    assert_eq!(sender.ep_info(again).expect("it is there").state, EpState::Idle);
    let receive = receiver.recv(ANY, RecvBuf::owned(vec![0; 8])).expect("posted");
    assert_eq!(pair.network.counters().posted, 0, "a receive asks nobody");
    let envelope = Envelope { space: 0, source: 0, tag: 7 };
    let sent = sender.send(again, envelope, SendBuf::owned(vec![5; 8]), SendMode::Standard);
    assert!(matches!(sent, Ok(Sent::Done)), "{sent:?}");
    assert_eq!(pair.network.counters().posted, 2, "the message, behind an introduction");
    assert_eq!(sender.ep_info(again).expect("it is there").state, EpState::Open);
    pair.until(|| receiver.is_complete(receive));
    let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
    assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![5; 8])));
}

/// Addresses, and which of them were asked for.
struct Asked(Vec<Vec<u8>>, Mutex<Vec<u32>>);

impl AddressBook for Asked {
    fn address(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        self.1.lock().expect("one thread").push(index);
        self.0.get(index as usize).map(|address| Cow::Borrowed(&address[..]))
    }
}

#[test]
fn an_endpoint_is_made_when_it_is_first_asked_for() {
    let sides = Sides::new(4, NetworkOptions::default(), &[]);
    let addresses = sides.workers.iter().map(|worker| worker.address()).collect();
    let book = Arc::new(Asked(addresses, Mutex::new(Vec::new())));
    let me = &sides.workers[0];
    assert!(matches!(me.endpoint(1), Err(ConnectError::NotInBook { index: 1 })), "no book yet");
    let shared: Arc<dyn AddressBook> = book.clone();
    me.use_book(shared);
    let asked = || std::mem::take(&mut *book.1.lock().expect("one thread"));
    assert!(asked().is_empty(), "no endpoint is made before");
    let ep = me.endpoint(2).expect("it reaches it");
    assert_eq!((me.endpoint(2).expect("it is there"), asked()), (ep, vec![2]));
    let receive = sides.recv(2, 8);
    let sent = sides.send(0, ep, vec![3; 8], SendMode::Standard);
    assert_eq!(sides.end(0, sent).outcome, Ok(()));
    sides.until(|| sides.workers[2].is_complete(receive));
    let (_, bytes) = sides.workers[2].take_with_buffer(receive).expect("complete");
    assert_eq!(bytes, Some(vec![3; 8]));
    assert_eq!(sides.end(0, me.close(ep, CloseMode::Flush)).outcome, Ok(()));
    sides.rounds(100);
    assert_ne!(me.endpoint(2).expect("it is made anew"), ep);
    assert_eq!(asked(), vec![2]);
    assert!(matches!(me.endpoint(4), Err(ConnectError::NotInBook { index: 4 })));
}

//! Active messages that are handled while they arrive, over a simulated network.

use std::sync::{Arc, Mutex};

use crate::pair::{Pair, pattern};
use bowline_base::buffer::SendBuf;
use bowline_sim::NetworkOptions;
use bowline_ucp::{AmInPlace, Ep, Sent};

/// What a handler saw: whether it was the one in place, the sender, header and data.
type Seen = (bool, Ep, Vec<u8>, Vec<u8>);

/// Registers both kinds of handlers for `id` at worker 1, which note what they see.
fn watch(pair: &Pair, id: u16) -> Arc<Mutex<Vec<Seen>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let [ordinary, in_place] = [(); 2].map(|()| Arc::clone(&seen));
    let receiver = &pair.workers[1];
    receiver.am_handler(
        id,
        Box::new(move |_, message| {
            // What lies with its sender is dropped with its header noted.
            let data = message.data().unwrap_or_default().to_vec();
            let what = (false, message.from, message.header().to_vec(), data);
            ordinary.lock().expect("not poisoned").push(what);
        }),
    );
    receiver.am_handler_in_place(
        id,
        Box::new(move |AmInPlace { from, header, data }| {
            let what = (true, from, header.to_vec(), data.to_vec());
            in_place.lock().expect("not poisoned").push(what);
        }),
    );
    seen
}

fn send(pair: &Pair, id: u16, header: &[u8], data: Vec<u8>) -> Option<bowline_ucp::RequestId> {
    match pair.workers[0].am_send(pair.eps[0], id, header, SendBuf::owned(data)).expect("sent") {
        Sent::Done => None,
        Sent::Pending(id) => Some(id),
    }
}

#[test]
fn messages_in_one_piece_are_handled_where_they_are() {
    let pair = Pair::new(NetworkOptions { seed: 3, ..NetworkOptions::default() }, &[]);
    let seen = watch(&pair, 9);
    let sizes = [0, 1, 8, 32, 33, 96, 97, 1000];
    for (header, len) in sizes.into_iter().flat_map(|len| [(0, len), (5, len)]) {
        let sent = send(&pair, 9, &pattern(header, 1), pattern(len, 2));
        pair.settle();
        assert!(sent.is_none_or(|id| pair.workers[0].take(id).is_some()));
        let found = std::mem::take(&mut *seen.lock().expect("not poisoned"));
        let expected = (true, pair.eps[1], pattern(header, 1), pattern(len, 2));
        assert!(found == [expected], "{header} and {len} bytes");
    }
    let counters = pair.workers[1].counters();
    assert_eq!((counters.am_received, counters.stray), (16, 0));
}

/// Credit of what was handled comes back: much more than all of it goes through.
#[test]
fn credit_comes_back() {
    let pair = Pair::new(NetworkOptions { seed: 4, ..NetworkOptions::default() }, &[]);
    let seen = watch(&pair, 9);
    for _ in 0..2000 {
        if let Some(id) = send(&pair, 9, &[], pattern(2000, 1)) {
            assert_eq!(pair.finish(0, id).outcome, Ok(()));
        }
        pair.settle();
    }
    let seen = seen.lock().expect("not poisoned");
    assert_eq!(seen.len(), 2000);
    assert!(seen.iter().all(|(in_place, ..)| *in_place));
    assert_eq!(pair.workers[0].counters().credit_exhausted, 0);
}

/// Whatever else there is of the id goes to the ordinary handler, and nothing overtakes it there.
#[test]
fn messages_that_wait_are_not_overtaken() {
    let pair = Pair::new(
        NetworkOptions { seed: 5, ..NetworkOptions::default() },
        &[("BOWLINE_RNDV_THRESHOLD", "100000")],
    );
    let seen = watch(&pair, 9);
    let mut open = Vec::new();
    // In pieces, short, with its sender, short; and all of it before the receiver polls.
    for (header, len) in [(1, 60_000), (2, 8), (3, 400_000), (4, 8)] {
        open.extend(send(&pair, 9, &[header], pattern(len, 2)));
    }
    for _ in 0..10_000 {
        pair.workers[0].progress();
        pair.network.advance();
    }
    pair.settle();
    for id in open {
        assert_eq!(pair.finish(0, id).outcome, Ok(()));
    }
    let seen = seen.lock().expect("not poisoned");
    let headers: Vec<u8> = seen.iter().map(|(_, _, header, _)| header[0]).collect();
    assert_eq!(headers, [1, 2, 3, 4]);
    assert!(!seen[0].0 && !seen[2].0, "what does not come in one piece waits");
    assert!(seen[0].3 == pattern(60_000, 2) && seen[1].3 == pattern(8, 2));
}

#[test]
fn a_handler_in_place_goes_with_the_other_one() {
    let pair = Pair::new(NetworkOptions { seed: 6, ..NetworkOptions::default() }, &[]);
    let seen = watch(&pair, 9);
    let receiver = &pair.workers[1];
    // In place of the one before; what that one held is gone.
    receiver.am_handler_in_place(9, Box::new(|message| assert_eq!(message.data.len(), 3)));
    assert_eq!(Arc::strong_count(&seen), 2);
    let _ = send(&pair, 9, &[], vec![1; 3]);
    pair.settle();
    receiver.am_handler_remove(9);
    assert_eq!(Arc::strong_count(&seen), 1);
    let _ = send(&pair, 9, &[], vec![1; 8]);
    // An id that has no other handler drops what does not come in one piece.
    receiver.am_handler_in_place(10, Box::new(|_| {}));
    let long = send(&pair, 10, &[], pattern(1 << 20, 1));
    pair.settle();
    if let Some(id) = long {
        assert!(pair.finish(0, id).outcome.is_err());
    }
    let counters = receiver.counters();
    assert_eq!((counters.am_received, counters.stray), (1, 2));
    assert!(seen.lock().expect("not poisoned").is_empty());
}

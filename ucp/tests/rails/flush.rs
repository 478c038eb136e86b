//! What a flush of rails promises of messages: they arrive though their sender makes no progress any
//! more. Over sockets, whose queues are emptied by their owner's progress alone.

use bowline_ucp::rails::Rails;
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Posted, Sink, Source, Token, Verdict,
};

/// Messages that arrived, and what completed.
#[derive(Default)]
struct Seen {
    messages: u64,
    completed: Vec<Token>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        assert_eq!(arrival.header[0], self.messages, "in order, each once");
        self.messages += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        assert_eq!(result.map(drop), Ok(()));
        self.completed.push(token);
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("nobody has died: {how}");
    }
}

const TOKEN: Token = Token(77);

/// Posts until what is below takes no more, and then as much as the peer makes room for. Some of it
/// lies in the socket's queue when the last of it is posted.
fn fill(a: &mut Rails, ep: EpId, b: &mut Rails, seen: &mut Seen) -> u64 {
    let payload = vec![5; 3000];
    let mut posted = 0;
    for _ in 0..2 {
        loop {
            match a.am_bcopy(ep, AmId::new(1), &[posted, 0, 0], payload.len(), &mut |out| {
                out.copy_in(&payload)
            }) {
                Ok(_) => posted += 1,
                Err(PostError::NoResource) => break,
                Err(error) => panic!("{error}"),
            }
            // Acknowledgements come, and the kernel's buffers fill: the peer reads one in eight.
            a.progress(seen, 32);
            if posted.is_multiple_of(8) {
                b.progress(seen, 1);
            }
        }
    }
    posted
}

#[test]
fn flushed_messages_arrive_without_their_senders_progress() {
    for of_one in [true, false] {
        let mut members = super::suite::over_sockets(2).into_iter();
        let (mut a, mut b) = (members.next().expect("two"), members.next().expect("two"));
        let ep = a.connect(&b.address()).expect("over loopback");
        let mut seen = Seen::default();
        let posted = fill(&mut a, ep, &mut b, &mut seen);
        let flushed = if of_one { a.flush(ep, TOKEN) } else { a.flush_all(TOKEN) };
        assert_eq!(flushed, Ok(Posted::InFlight), "a log that is full was not taken by the kernel");
        let mut sender = Seen::default();
        while sender.completed.is_empty() {
            a.progress(&mut sender, 32);
            b.progress(&mut seen, 32);
        }
        assert_eq!(sender.completed, [TOKEN]);
        // From here on the sender computes.
        let mut idle = 0;
        while seen.messages < posted && idle < 1_000_000 {
            idle = if b.progress(&mut seen, 32) == 0 { idle + 1 } else { 0 };
        }
        assert_eq!(seen.messages, posted, "messages that were flushed stay with their sender");
    }
}

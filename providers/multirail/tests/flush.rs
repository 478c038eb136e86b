//! What a flush promises of messages: they arrive though their sender makes no progress any
//! more. Over sockets, whose queues are emptied by their owner's progress alone.

use bowline_multirail::MultiRail;
use bowline_uct::{AmId, Arrival, EpId, Iface, PeerFailure, Posted, Sink, Source, Token, Verdict};

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

/// Has the paths made and greeted, by a first message.
fn meet(a: &mut MultiRail, ep: EpId, b: &mut MultiRail, seen: &mut Seen) {
    post(a, ep, 0);
    for _ in 0..2000 {
        a.progress(seen, 32);
        b.progress(seen, 32);
    }
    assert_eq!(seen.messages, 1);
}

fn post(a: &mut MultiRail, ep: EpId, number: u64) {
    let payload = [5; 3000];
    let mut pack = |out: bowline_base::view::View<'_>| out.copy_in(&payload);
    let posted = a.am_bcopy(ep, AmId::new(1), &[number, 0, 0], payload.len(), &mut pack);
    assert_eq!(posted, Ok(payload.len()), "the log has space for all of them");
}

/// As many messages as the kernel takes, some more that lie in the socket's queue, still more that wait
/// in the log: how many that are depends on the kernel, so all are tried.
#[test]
fn flushed_messages_arrive_without_their_senders_progress() {
    let mut under_way = 0;
    for count in (10..340_u64).step_by(10) {
        let mut members = super::suite::over_sockets(2).into_iter();
        let (mut a, mut b) = (members.next().expect("two"), members.next().expect("two"));
        let ep = a.connect(&b.address()).expect("over loopback");
        let mut seen = Seen::default();
        meet(&mut a, ep, &mut b, &mut seen);
        (1..count).for_each(|number| post(&mut a, ep, number));
        let of_one = count.is_multiple_of(20);
        let flushed = if of_one { a.flush(ep, TOKEN) } else { a.flush_all(TOKEN) };
        let mut sender = Seen::default();
        if flushed.expect("there is space for a flush") == Posted::InFlight {
            under_way += 1;
            while sender.completed.is_empty() {
                a.progress(&mut sender, 32);
                b.progress(&mut seen, 1);
            }
            assert_eq!(sender.completed, [TOKEN]);
        }
        // From here on the sender computes.
        let mut idle = 0;
        while seen.messages < count && idle < 100_000 {
            idle = if b.progress(&mut seen, 32) == 0 { idle + 1 } else { 0 };
        }
        assert_eq!(seen.messages, count, "messages that were flushed stay with their sender");
    }
    assert!(under_way > 0, "the kernel took everything: nothing was shown");
}

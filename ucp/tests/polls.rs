//! Which interfaces of a worker progress polls, and how often: not those that nobody can have sent by, and rarely a silent network
//! beside others.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_self::{SelfConfig, SelfIface};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{Envelope, Ep, SendMode, Sent, SpaceOptions, Worker, WorkerParts};

use crate::doubles::{Altered, Polls, opened, parts, step};
use crate::sides::ANY;

/// A worker with a loopback and a network, and how often each was polled.
fn with_loopback(network: &Network, rank: u32) -> (Worker, [Polls; 2]) {
    let tables = [bowline_ucp::SETTINGS, bowline_self::SETTINGS];
    let config = Config::from_pairs::<&str, &str>([], &tables).expect("nothing is set");
    let itself = SelfIface::open(SelfConfig::of(&config)).expect("loopback opens");
    let itself = Altered::new(itself, |_| (), |_| true);
    let network = Altered::new(network.open(), |_| (), |_| true);
    let polls = [itself.polls(), network.polls()];
    let parts = parts(rank, Box::new(itself), &config);
    let lanes = parts.lanes.into_iter().chain([Box::new(network) as _]).collect();
    (opened(WorkerParts { lanes, ..parts }, 0, SpaceOptions::default()), polls)
}

/// Polls of both interfaces in so many calls.
fn polls_in(worker: &Worker, polls: &[Polls; 2], calls: u32) -> [u32; 2] {
    polls.iter().for_each(|polls| _ = polls.take());
    for _ in 0..calls {
        worker.progress();
    }
    polls.each_ref().map(Polls::take)
}

fn transfer(network: &Network, workers: &[Worker; 2], (from, ep, to): (usize, Ep, usize)) {
    let receive = workers[to].recv(ANY, RecvBuf::owned(vec![0; 8])).expect("posted");
    let envelope = Envelope { space: 0, source: from as u32, tag: 7 };
    let buffer = SendBuf::owned(vec![from as u8; 8]);
    let sent = workers[from].send(ep, envelope, buffer, SendMode::Standard);
    assert!(matches!(sent, Ok(Sent::Done)), "{sent:?}");
    // A call that leaves the network out finds nothing, though there is something.
    (0..200)
        .take_while(|_| !workers[to].is_complete(receive))
        .for_each(|_| _ = step(network, workers));
    let (status, bytes) = workers[to].take_with_buffer(receive).expect("complete");
    assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![from as u8; 8])));
}

#[test]
fn interfaces_that_have_nothing_to_bring_are_left_out() {
    let network = Network::new(NetworkOptions::default());
    let (me, polls) = with_loopback(&network, 0);
    let (other, _) = with_loopback(&network, 1);
    let workers = [me, other];
    let me = &workers[0];
    let from = workers[1].connect(&me.address()).expect("they reach each other");
    // Only the network can bring anything, and it is polled by each call.
    assert_eq!(polls_in(me, &polls, 5000), [0, 5000]);
    let itself = me.connect(&me.address()).expect("it reaches itself");
    transfer(&network, &workers, (0, itself, 0));
    // The network, which has been silent, is polled less and less.
    assert_eq!(polls_in(me, &polls, 60), [60, 60], "it was not silent for long");
    let [loopback, rarely] = polls_in(me, &polls, 40_000);
    assert_eq!(loopback, 40_000);
    assert!((1..4000).contains(&rarely), "{rarely} of 40000 polls were of a silent network");
    let [_, rarely] = polls_in(me, &polls, 3300);
    assert_eq!(rarely, 100, "one of 33 at least");
    // A message by it is found, and then it is polled by each call again.
    transfer(&network, &workers, (1, from, 0));
    assert_eq!(polls_in(me, &polls, 60), [60, 60], "it has just brought something");
    transfer(&network, &workers, (0, itself, 0));
}

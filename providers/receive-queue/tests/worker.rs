//! The engine over receive queues: over a transport without messages, and over one that has them and is set not
//! to use them.

use super::bare::WithoutMessages;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_receive_queue::{QueueError, with_messages};
use bowline_sim::{Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{
    Envelope, Ep, Idle, MatchSpec, OpError, SendMode, Sent, SpaceOptions, Stages, Waiter, Worker,
    WorkerError, WorkerParts,
};
use bowline_uct::{Caps, Iface, PeerFailure};

struct Never;

impl Waiter for Never {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        panic!("these tests call nothing that blocks, yet a worker waits for {}", idle.waits);
    }
}

fn config(settings: &[(&str, &str)]) -> Config {
    let tables = [bowline_ucp::SETTINGS, bowline_receive_queue::SETTINGS];
    Config::from_pairs(settings.iter().copied(), &tables).expect("the settings are good")
}

fn parts(rank: u32, lane: Box<dyn Iface>, settings: &[(&str, &str)]) -> WorkerParts {
    let (config, uid) = (config(settings), u64::from(rank) + 1);
    let lane = with_messages(lane, &config, uid).expect("it has messages, or what queues need");
    WorkerParts {
        job: 1,
        rank,
        incarnation: 0,
        uid,
        lanes: vec![lane],
        waiter: Box::new(Never),
        failures: None,
        config,
    }
}

struct Pair {
    network: Network,
    workers: [Worker; 2],
    eps: [Ep; 2],
}

impl Pair {
    fn new(options: NetworkOptions, bare: bool, settings: &[(&str, &str)]) -> Self {
        let network = Network::new(options);
        let workers = [0, 1].map(|rank| {
            let lane: Box<dyn Iface> = if bare {
                Box::new(WithoutMessages::new(network.open()))
            } else {
                Box::new(network.open())
            };
            let worker = Worker::new(parts(rank, lane, settings)).expect("one lane is enough");
            let attr = worker.lane_attrs().remove(0);
            assert!(
                attr.caps.contains(Caps::AM_BCOPY) && attr.device.contains("queue"),
                "{attr:?}"
            );
            worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
            worker
        });
        let eps = [0, 1].map(|rank: usize| {
            workers[rank].connect(&workers[1 - rank].address()).expect("they reach each other")
        });
        Self { network, workers, eps }
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        for _ in 0..2_000_000 {
            if done() {
                return;
            }
            for worker in &self.workers {
                worker.progress();
            }
            self.network.advance();
        }
        panic!("{what} never happened");
    }
}

const EVERYTHING: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };

/// Every protocol of the engine, both ways, over a queue that is full again and again.
#[test]
fn every_protocol_over_queues() {
    for (bare, whole_process, ordered, slots, forced) in [
        (true, true, true, "512", "auto"),
        (true, false, false, "64", "auto"),
        (false, true, true, "64", "scmp"),
        (true, true, false, "64", "ring"),
        (true, true, false, "64", "scmp-rings"),
        (true, true, false, "64", "scmp-seq"),
        (true, false, true, "16", "scmp-seq"),
    ] {
        let options = NetworkOptions {
            seed: 5,
            whole_process,
            put_before_atomic: ordered,
            puts_ordered: ordered,
            ..NetworkOptions::default()
        };
        let settings = [
            ("BOWLINE_RECV_QUEUE", forced),
            ("BOWLINE_RECV_QUEUE_SLOTS", slots),
            ("BOWLINE_RNDV_THRESHOLD", "100k"),
        ];
        let pair = Pair::new(options, bare, &settings);
        for (round, len) in [0, 8, 100, 1000, 5000, 20_000, 300_000].into_iter().enumerate() {
            for mode in [SendMode::Standard, SendMode::Synchronous] {
                let from = round % 2;
                let (sender, receiver) = (&pair.workers[from], &pair.workers[1 - from]);
                let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                let receive =
                    receiver.recv(EVERYTHING, RecvBuf::owned(vec![0; len])).expect("posted");
                let envelope = Envelope { space: 0, source: from as u32, tag: len as u64 };
                let buffer = SendBuf::owned(data.clone());
                let sent = sender.send(pair.eps[from], envelope, buffer, mode).expect("sent");
                pair.until("the receive", || receiver.is_complete(receive));
                if let Sent::Pending(send) = sent {
                    pair.until("the send", || sender.is_complete(send));
                    assert_eq!(sender.wait(send).outcome, Ok(()));
                }
                let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
                assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
                assert!(bytes == Some(data), "{len} bytes changed");
            }
        }
        // A burst, so that queue and credit are full.
        let [sender, receiver] = &pair.workers;
        let mut sends = Vec::new();
        for number in 0..500_u64 {
            let envelope = Envelope { space: 0, source: 0, tag: number };
            let buffer = SendBuf::owned(number.to_le_bytes().repeat(20));
            let sent = sender.send(pair.eps[0], envelope, buffer, SendMode::Standard);
            if let Sent::Pending(send) = sent.expect("sent") {
                sends.push(send);
            }
        }
        for number in 0..500_u64 {
            let receive = receiver.recv(EVERYTHING, RecvBuf::owned(vec![0; 160])).expect("posted");
            pair.until("a receive of the burst", || receiver.is_complete(receive));
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert_eq!(status.outcome, Ok(()));
            assert!(bytes == Some(number.to_le_bytes().repeat(20)), "out of order at {number}");
        }
        pair.until("the sends", || sends.iter().all(|send| sender.is_complete(*send)));
    }
}

/// A peer that dies ends what waits for it.
#[test]
fn a_death_ends_what_waits() {
    let pair = Pair::new(NetworkOptions::default(), true, &[]);
    let [sender, receiver] = &pair.workers;
    let envelope = Envelope { space: 0, source: 0, tag: 1 };
    let first = SendBuf::owned(vec![1; 8]);
    let sent = sender.send(pair.eps[0], envelope, first, SendMode::Standard).expect("sent");
    assert!(matches!(sent, Sent::Done), "an eager message is the engine's at once: {sent:?}");
    let receive = receiver.recv(EVERYTHING, RecvBuf::owned(vec![0; 8])).expect("posted");
    pair.until("the first message", || receiver.is_complete(receive));
    assert_eq!(receiver.wait(receive).outcome, Ok(()));
    let buffer = SendBuf::owned(vec![1; 8]);
    let sent = sender.send(pair.eps[0], envelope, buffer, SendMode::Synchronous).expect("sent");
    let Sent::Pending(send) = sent else { panic!("nobody receives it") };
    pair.network.kill(1);
    pair.until("the end of the send", || sender.is_complete(send));
    assert_eq!(sender.wait(send).outcome, Err(OpError::PeerFailed(PeerFailure::Died)));
}

/// Sleeps without end, when a worker lets it.
struct Sleeper;

impl Waiter for Sleeper {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        assert_eq!(idle.deadline, None, "it polls again although it would be woken");
        assert!(idle.doorbell.is_none() && !idle.descriptors.is_empty());
        panic!("it sleeps until it is woken");
    }
}

/// Where a transport wakes by its descriptor alone, a worker sleeps on that, and not for a millisecond.
#[test]
#[should_panic(expected = "it sleeps until it is woken")]
fn a_descriptor_without_a_doorbell_is_slept_on() {
    let workers = [0, 1].map(|rank| {
        let options = TcpOptions::with_secret([0x17; 32]);
        let tcp = TcpIface::open(options).expect("loopback is there");
        let lane = Box::new(WithoutMessages::without_doorbell(tcp));
        let mut parts = parts(rank, lane, &[]);
        parts.waiter = Box::new(Sleeper);
        let worker = Worker::new(parts).expect("one lane is enough");
        worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
        worker
    });
    let _ep = workers[0].connect(&workers[1].address()).expect("they reach each other");
    let receive = workers[0].recv(EVERYTHING, RecvBuf::owned(vec![0; 8])).expect("posted");
    workers[0].wait(receive);
}

/// What can carry neither messages nor queues is refused by name.
#[test]
fn a_transport_without_either_is_refused() {
    let options = NetworkOptions { one_sided: false, ..NetworkOptions::default() };
    let network = Network::new(options);
    let bare = || Box::new(WithoutMessages::new(network.open()));
    let refused = with_messages(bare(), &config(&[]), 1);
    let Err(refused) = refused else { panic!("nothing is left of it") };
    assert!(matches!(refused, QueueError::Lacks { transport: "sim", .. }), "{refused}");
    let mut without = parts(0, Box::new(network.open()), &[]);
    without.lanes = vec![bare()];
    let refused = Worker::new(without).expect_err("a worker needs messages");
    assert!(matches!(refused, WorkerError::NoActiveMessages { transport: "sim" }), "{refused}");
    // With messages it goes on by them, although queues were wished for.
    let wish = [("BOWLINE_RECV_QUEUE", "scmp")];
    let worker = Worker::new(parts(0, Box::new(network.open()), &wish)).expect("it has messages");
    assert!(!worker.lane_attrs()[0].device.contains("queue"));
}

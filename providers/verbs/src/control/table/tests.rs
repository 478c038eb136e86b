//! Two tables with a network between them that loses, doubles and delays.

use super::*;
use crate::options::VerbsMode;

/// Pairs are numbers; connecting is remembered.
#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    connected: Vec<(PairEnd, PairEnd)>,
    exhausted: bool,
}

impl Pairs for Numbers {
    type Pair = u32;

    fn make(&mut self, _: &Address) -> io::Result<(u32, PairEnd)> {
        if self.exhausted {
            return Err(io::Error::other("no more"));
        }
        self.next += 1;
        Ok((self.next, PairEnd { pair: self.next, psn: self.next + 1000 }))
    }

    fn connect(
        &mut self,
        pair: &mut u32,
        ours: PairEnd,
        _: &Address,
        theirs: PairEnd,
    ) -> io::Result<()> {
        assert_eq!(*pair, ours.pair);
        self.connected.push((ours, theirs));
        Ok(())
    }
}

fn address(uid: u64) -> Address {
    Address {
        mode: VerbsMode::Rc,
        uid,
        gid: [0; 16],
        lid: 1,
        ethernet: false,
        mtu: 3,
        pair: uid as u32,
        data: 0,
        qkey: 1,
        longest: 100,
    }
}

struct Side {
    table: PeerTable<u32>,
    pairs: Numbers,
    /// The pair in use and the events before.
    up: Option<u32>,
    reported: Vec<TableEvent<u32>>,
}

struct Net {
    sides: [Side; 2],
    now: Instant,
    random: u64,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl Net {
    fn new(first_pairs: [u32; 2]) -> Self {
        let side = |uid: u64, first| Side {
            table: PeerTable::new(address(uid), TIMEOUT, 10, false),
            pairs: Numbers { next: first, ..Numbers::default() },
            up: None,
            reported: Vec::new(),
        };
        let [a, b] = first_pairs;
        Self { sides: [side(1, a), side(2, b)], now: Instant::now(), random: 88 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    /// Carries what is there; each datagram is lost with a chance of `loss` in 10 and doubled
    /// with one of 1 in 5. Then time passes.
    fn step(&mut self, loss: u64) {
        for from in 0..2 {
            let sent = std::mem::take(&mut self.sides[from].table.outgoing);
            for (_, datagram) in sent {
                if self.below(10) < loss {
                    continue;
                }
                let times = 1 + u64::from(self.below(5) == 0);
                for _ in 0..times {
                    let bytes = datagram.encode();
                    let datagram = Datagram::decode(&bytes).expect("whole");
                    let now = self.now;
                    let Side { table, pairs, .. } = &mut self.sides[1 - from];
                    table.arrived(&datagram, now, pairs);
                }
            }
        }
        self.pass(Duration::from_millis(7));
    }

    /// Time passes, and nothing is carried meanwhile.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for side in &mut self.sides {
            side.table.tick(now);
            for event in std::mem::take(&mut side.table.events) {
                match &event {
                    TableEvent::Up { pair, .. } => side.up = Some(*pair),
                    TableEvent::Ended { number, .. } if side.up == Some(*number) => side.up = None,
                    TableEvent::Made { .. }
                    | TableEvent::Ended { .. }
                    | TableEvent::Failed { .. } => {}
                }
                side.reported.push(event);
            }
        }
    }

    fn ask(&mut self, from: usize) {
        let (now, to) = (self.now, address(2 - from as u64));
        let Side { table, pairs, .. } = &mut self.sides[from];
        table.watch(&to, now);
        table.ask(&to, now, pairs);
    }

    /// Both have a pair, each is connected to the other's, and there is one for each side.
    fn agree(&self) -> bool {
        let [a, b] = &self.sides;
        let (Some(pair_a), Some(pair_b)) = (a.up, b.up) else { return false };
        let of = |side: &Side, pair| {
            side.pairs.connected.iter().rfind(|(ours, _)| ours.pair == pair).copied()
        };
        of(a, pair_a).is_some_and(|(ours, theirs)| of(b, pair_b) == Some((theirs, ours)))
    }
}

#[test]
fn one_asks_or_both_and_they_agree_whatever_is_lost() {
    for loss in [0, 3, 6] {
        for both in [false, true] {
            for seed in 0..50 {
                let mut net = Net::new([100, 200]);
                net.random = seed;
                net.ask(0);
                if both {
                    for _ in 0..seed % 3 {
                        net.step(loss);
                    }
                    net.ask(1);
                }
                let mut steps = 0;
                while !net.agree() {
                    net.step(loss);
                    steps += 1;
                    assert!(steps < 2000, "no agreement with a loss of {loss}");
                }
                for _ in 0..50 {
                    net.step(0);
                }
                assert!(net.agree());
                let made: u32 = net.sides.iter().map(|side| side.pairs.next % 100).sum();
                assert_eq!(made, 2, "a pair for each side");
            }
        }
    }
}

#[test]
fn a_lost_side_connects_anew_and_the_old_connection_is_over() {
    let mut net = Net::new([100, 200]);
    net.ask(0);
    while !net.agree() {
        net.step(0);
    }
    let old = net.sides[1].up;
    // Side 0 ends its connection; the Close is lost.
    let pair = net.sides[0].up.take().expect("it is up");
    net.sides[0].table.end(2, pair, false);
    net.sides[0].table.outgoing.clear();
    net.ask(0);
    while !net.agree() {
        net.step(2);
    }
    assert_ne!(net.sides[1].up, old, "a new pair");
    // A straggler of the first request changes nothing.
    let straggler = Datagram {
        to: 2,
        from: address(1),
        body: Body::Request { serial: 1, end: PairEnd { pair, psn: pair + 1000 } },
    };
    let now = net.now;
    let Side { table, pairs, .. } = &mut net.sides[1];
    table.arrived(&straggler, now, pairs);
    for _ in 0..10 {
        net.step(0);
    }
    assert!(net.agree());
}

#[test]
fn a_close_ends_the_connection_that_it_names_and_no_other() {
    let mut net = Net::new([100, 200]);
    net.ask(0);
    while !net.agree() {
        net.step(0);
    }
    let (a, b) = (net.sides[0].up.expect("up"), net.sides[1].up.expect("up"));
    let wrong =
        Datagram { to: 2, from: address(1), body: Body::Close { pair: a + 1, in_order: true } };
    let now = net.now;
    let Side { table, pairs, .. } = &mut net.sides[1];
    table.arrived(&wrong, now, pairs);
    net.step(0);
    assert!(net.agree());
    net.sides[0].up = None;
    net.sides[0].table.end(2, a, true);
    net.step(0);
    let reported = net.sides[1].reported.last();
    assert!(
        matches!(reported, Some(TableEvent::Ended { uid: 1, number, how: PeerFailure::Closed }) if *number == b),
        "{reported:?}"
    );
}

#[test]
fn silence_is_noticed_and_answers_prevent_it() {
    let mut net = Net::new([100, 200]);
    let now = net.now;
    net.sides[0].table.watch(&address(2), now);
    for _ in 0..4000 {
        net.step(0);
    }
    assert!(net.sides[0].reported.is_empty(), "it answers: {:?}", net.sides[0].reported);
    for _ in 0..4000 {
        net.step(10);
    }
    let reported = &net.sides[0].reported;
    assert!(matches!(reported[..], [TableEvent::Failed { uid: 2, how: PeerFailure::Unreachable }]));
    // A request that nobody answers fails, too.
    net.sides[0].reported.clear();
    net.ask(0);
    for _ in 0..4000 {
        net.step(10);
    }
    assert!(matches!(net.sides[0].reported[..], [TableEvent::Failed { uid: 2, .. }]));
}

#[test]
fn time_in_which_a_side_stands_still_is_no_silence() {
    for probe_up in [false, true] {
        let mut net = Net::new([100, 200]);
        for side in &mut net.sides {
            side.table.probe_up = probe_up;
        }
        let now = net.now;
        net.sides[0].table.watch(&address(2), now);
        net.step(0);
        for _ in 0..10 {
            net.pass(3 * TIMEOUT);
            for _ in 0..100 {
                net.step(0);
            }
        }
        // The same between a request and its answer, and while there is a connection.
        net.ask(0);
        net.pass(3 * TIMEOUT);
        while !net.agree() {
            assert!(net.sides[0].reported.is_empty(), "{:?}", net.sides[0].reported);
            net.step(0);
        }
        net.sides[0].reported.clear();
        for _ in 0..10 {
            net.pass(3 * TIMEOUT);
            for _ in 0..100 {
                net.step(0);
            }
        }
        assert!(net.agree() && net.sides[0].reported.is_empty(), "{:?}", net.sides[0].reported);
    }
}

#[test]
fn one_that_stood_still_gives_its_peers_no_more_than_twice_their_time() {
    for asked in [false, true] {
        let mut net = Net::new([100, 200]);
        let now = net.now;
        net.sides[0].table.watch(&address(2), now);
        for _ in 0..10 {
            net.step(10);
        }
        net.now += 5 * TIMEOUT;
        if asked {
            net.ask(0);
        }
        let begin = net.now;
        while net.sides[0].reported.is_empty() {
            net.step(10);
            let took = net.now - begin;
            assert!(took < 2 * TIMEOUT + TIMEOUT / 2, "silent for {took:?} and not noticed");
        }
        assert!(matches!(net.sides[0].reported[..], [TableEvent::Failed { uid: 2, .. }]));
    }
}

#[test]
fn who_wakes_late_asks_once_more_and_does_not_wait_for_ever() {
    let mut net = Net::new([100, 200]);
    let now = net.now;
    net.sides[0].table.watch(&address(2), now);
    while net.now - now < TIMEOUT - TIMEOUT / 50 {
        net.step(10);
    }
    // The time was almost over, and would be without the rest of the last pause.
    net.pass(TIMEOUT);
    for _ in 0..5 {
        net.step(0);
    }
    assert!(net.sides[0].reported.is_empty(), "it lives: {:?}", net.sides[0].reported);
    // Now it is dead, and this side never runs in time.
    let mut passes = 0;
    while net.sides[0].reported.is_empty() {
        net.step(10);
        net.pass(TIMEOUT);
        passes += 1;
        assert!(passes < 12, "not noticed");
    }
}

#[test]
fn a_side_that_was_late_gives_peers_on_its_machine_twice_the_time() {
    for (late, more) in [(TIMEOUT / 4, true), (TIMEOUT / 20, false)] {
        let mut net = Net::new([100, 200]);
        let now = net.now;
        net.sides[0].table.watch(&address(2), now);
        net.step(0);
        net.pass(TIMEOUT / 4 + late);
        // The peer has no processor either, for half as long again as the configured time.
        let begin = net.now;
        while net.now - begin < TIMEOUT + TIMEOUT / 2 {
            net.step(10);
        }
        assert_eq!(net.sides[0].reported.is_empty(), more, "late by {late:?}");
        // It answers again, and is found when it dies.
        for _ in 0..4000 {
            net.step(0);
        }
        assert_eq!(net.sides[0].reported.is_empty(), more, "late by {late:?}");
        let begin = net.now;
        while net.sides[0].reported.is_empty() {
            net.step(10);
            assert!(net.now - begin < TIMEOUT + TIMEOUT / 2, "it is late no more");
        }
    }
}

#[test]
fn a_peer_whose_connection_has_ended_is_asked_before_it_has_failed() {
    let mut net = Net::new([100, 200]);
    let now = net.now;
    net.sides[0].table.watch(&address(2), now);
    net.ask(0);
    while !net.agree() {
        net.step(0);
    }
    // The connection alone speaks for the peer.
    net.pass(TIMEOUT / 10);
    let begin = net.now;
    while net.now - begin < 4 * TIMEOUT {
        net.step(10);
    }
    net.sides[0].reported.clear();
    let pair = net.sides[0].up.expect("it is connected");
    net.sides[0].table.end(2, pair, false);
    for _ in 0..100 {
        net.step(0);
    }
    assert!(net.sides[0].reported.is_empty(), "it lives: {:?}", net.sides[0].reported);
}

#[test]
fn silence_behind_a_connection_is_noticed_where_it_is_asked_for() {
    for probe_up in [false, true] {
        let mut net = Net::new([100, 200]);
        for side in &mut net.sides {
            side.table.probe_up = probe_up;
        }
        net.ask(0);
        while !net.agree() {
            net.step(0);
        }
        net.sides[0].reported.clear();
        for _ in 0..4000 {
            net.step(0);
        }
        assert!(net.sides[0].reported.is_empty(), "it answers: {:?}", net.sides[0].reported);
        for _ in 0..4000 {
            net.step(10);
        }
        let reported = &net.sides[0].reported;
        let ended =
            matches!(reported[..], [TableEvent::Ended { how: PeerFailure::Unreachable, .. }]);
        assert_eq!(ended, probe_up, "{reported:?}");
    }
}

#[test]
fn one_that_leaves_and_one_that_is_full_say_so() {
    let mut net = Net::new([100, 200]);
    let now = net.now;
    net.sides[0].table.watch(&address(2), now);
    net.sides[1].table.watch(&address(1), now);
    net.sides[1].table.leave();
    net.step(0);
    let reported = &net.sides[0].reported;
    assert!(
        matches!(reported[..], [TableEvent::Failed { uid: 2, how: PeerFailure::Closed }]),
        "{reported:?}"
    );

    let mut net = Net::new([100, 200]);
    net.sides[1].pairs.exhausted = true;
    net.ask(0);
    net.step(0);
    net.step(0);
    assert!(matches!(net.sides[0].reported[..], [TableEvent::Failed { uid: 2, .. }]));
    // And by itself.
    net.sides[1].reported.clear();
    net.ask(1);
    net.step(0);
    assert!(matches!(net.sides[1].reported[..], [TableEvent::Failed { uid: 1, .. }]));
}

#[test]
fn datagrams_for_others_and_of_changed_addresses_are_dropped() {
    let mut net = Net::new([100, 200]);
    let now = net.now;
    let end = PairEnd { pair: 5, psn: 6 };
    let request = Body::Request { serial: 1, end };
    let Side { table, pairs, .. } = &mut net.sides[0];
    table.arrived(&Datagram { to: 99, from: address(2), body: request }, now, pairs);
    table.arrived(&Datagram { to: 1, from: address(1), body: request }, now, pairs);
    assert!(table.outgoing.is_empty() && table.events.is_empty());
    table.arrived(&Datagram { to: 1, from: address(2), body: request }, now, pairs);
    assert_eq!(table.events.len(), 1);
    let moved = Address { lid: 9, ..address(2) };
    table.arrived(&Datagram { to: 1, from: moved, body: Body::Refuse }, now, pairs);
    table.arrived(&Datagram { to: 1, from: moved, body: request }, now, pairs);
    assert_eq!(table.events.len(), 1);
    // More peers than there is space for are refused.
    for uid in 3..20 {
        table.arrived(&Datagram { to: 1, from: address(uid), body: request }, now, pairs);
    }
    assert_eq!(table.events.len(), 10);
    let refused = table.outgoing.iter().filter(|(_, d)| d.body == Body::Refuse).count();
    assert_eq!(refused, 8);
}

/// A server of many clients, one after the other: each connects, leaves, and is forgotten in time, but
/// not one that is watched or connected.
#[test]
fn peers_that_have_gone_are_forgotten() {
    let mut net = Net::new([100, 200]);
    let mut now = net.now;
    let Side { table, pairs, .. } = &mut net.sides[0];
    table.watch(&address(2), now);
    for uid in 100..1100 {
        let end = PairEnd { pair: 5, psn: 6 };
        let from = address(uid);
        let request = Body::Request { serial: 1, end };
        table.arrived(&Datagram { to: 1, from, body: request }, now, pairs);
        let answered = table
            .outgoing
            .drain(..)
            .filter(|(to, datagram)| to.uid == uid && matches!(datagram.body, Body::Reply { .. }));
        assert_eq!(answered.count(), 1, "client {uid} is connected");
        let close = Body::Close { pair: end.pair, in_order: true };
        table.arrived(&Datagram { to: 1, from, body: close }, now, pairs);
        // The one that is watched answers all the while.
        table.arrived(&Datagram { to: 1, from: address(2), body: Body::Pong }, now, pairs);
        now += TIMEOUT / 2;
        table.tick(now);
        table.events.clear();
        assert!(table.len() <= 6, "{} peers are known after client {uid}", table.len());
    }
    assert!(table.knows(2), "it is watched");
    // A connection stays, however silent.
    let request = Body::Request { serial: 1, end: PairEnd { pair: 9, psn: 6 } };
    table.arrived(&Datagram { to: 1, from: address(3), body: request }, now, pairs);
    table.tick(now + 100 * TIMEOUT);
    assert!(table.knows(3));
}

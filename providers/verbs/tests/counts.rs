//! What an operation costs in calls to the device, counted by the interface itself: requests,
//! ringings of the doorbell, completions asked for, receive buffers posted. Time is not asked for;
//! emulated time means nothing.
//!
//! The yardstick are the latency tests of Debian's perftest (4.5), by their sources: for each
//! message `ib_send_lat` posts one request with one ringing, has its completion polled for, polls
//! for the other side's message, and posts one receive buffer; for each write `ib_write_lat` posts
//! one request with one ringing and polls for its completion.

use std::time::{Duration, Instant};

use crate::common::{Pair, has_device};
use bowline_base::counters::CounterGroup;
use bowline_uct::conformance::Watchdog;
use bowline_uct::{AmId, Iface, MemoryDomain, OneSided, PostError, Posted, RemoteSlice, Token};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsMode};

/// Operations that are counted.
const COUNT: u64 = 2000;

/// What `COUNT` operations have cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    requests: u64,
    doorbells: u64,
    signalled: u64,
    receive_posts: u64,
}

fn value(iface: &VerbsIface, name: &str) -> u64 {
    let snapshot = match iface {
        VerbsIface::Rc(iface) => iface.counters().snapshot(),
        VerbsIface::Ud(iface) => iface.counters().snapshot(),
        _ => unreachable!("there are two modes"),
    };
    let found = snapshot.rows().find(|(counter, _)| counter.name == name).map(|(_, value)| value);
    found.unwrap_or_else(|| panic!("no counter is called {name}"))
}

fn cost(pair: &Pair) -> Cost {
    let both = |name| value(&pair.a, name) + value(&pair.b, name);
    let (requests, doorbells) = if matches!(pair.a, VerbsIface::Rc(_)) {
        // A connection is asked whether it lives when nothing has been heard of it for a while, which
        // happens on a busy machine, and is nothing that the operation asks for.
        let probes = both("probes");
        (both("requests") - probes, both("doorbells") - probes)
    } else {
        // A datagram is a request and a ringing.
        (both("requests"), both("requests"))
    };
    Cost { requests, doorbells, signalled: both("signalled"), receive_posts: both("receive_posts") }
}

fn counted(pair: &mut Pair, what: &str, mut operation: impl FnMut(&mut Pair, u64)) -> Cost {
    // The first ones make the connection.
    for number in 0..10 {
        operation(pair, number);
    }
    let before = cost(pair);
    for number in 0..COUNT {
        operation(pair, number);
    }
    let after = cost(pair);
    let cost = Cost {
        requests: after.requests - before.requests,
        doorbells: after.doorbells - before.doorbells,
        signalled: after.signalled - before.signalled,
        receive_posts: after.receive_posts - before.receive_posts,
    };
    let each = |count: u64| count as f64 / COUNT as f64;
    println!(
        "{what}: {:.3} requests, {:.3} doorbells, {:.3} completions asked for, {:.3} calls that \
         post receive buffers, for each",
        each(cost.requests),
        each(cost.doorbells),
        each(cost.signalled),
        each(cost.receive_posts)
    );
    cost
}

/// A ping and its pong: two messages.
fn ping_pong(pair: &mut Pair, number: u64) {
    let id = AmId::new(1);
    let header = [number, 0, 0];
    pair.a.am_short(pair.to_b, id, &header, &[1; 8]).expect("there is space");
    pair.until(|pair| pair.seen_b.messages.pop().is_some());
    pair.b.am_short(pair.to_a, id, &header, &[1; 8]).expect("there is space");
    pair.until(|pair| pair.seen_a.messages.pop().is_some());
}

#[test]
fn a_message_costs_no_more_than_that_of_ib_send_lat() {
    if !has_device("a_message_costs_no_more_than_that_of_ib_send_lat") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "a_message_costs_no_more_than_that_of_ib_send_lat");
    let mut pair = Pair::open(|options| options.connect = ConnectWhen::AtOnce);
    let cost = counted(&mut pair, "rc ping-pong of 8 bytes", ping_pong);
    let messages = 2 * COUNT;
    assert_eq!(cost.requests, messages, "one request for each message");
    assert_eq!(cost.doorbells, messages, "one ringing for each message");
    assert!(cost.signalled < messages, "fewer completions than messages");
    assert!(cost.receive_posts < messages, "fewer posts of receive buffers than messages");
}

/// Peers that answer are not asked whether they are there; silent ones are.
#[test]
fn only_silent_connections_are_probed() {
    const NAME: &str = "only_silent_connections_are_probed";
    if !has_device(NAME) {
        return;
    }
    let _watchdog = Watchdog::start("verbs", NAME);
    let timeout = Duration::from_secs(2);
    let mut pair = Pair::open(|options| {
        options.connect = ConnectWhen::AtOnce;
        options.peer_timeout = timeout;
    });
    let ep = pair.to_b;
    let (begin, mut answered, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    for number in 0.. {
        let token = Token(number + 1);
        pair.a.am_short(ep, AmId::new(1), &[number, 0, 0], &[1; 8]).expect("there is space");
        if pair.a.flush(ep, token) == Ok(Posted::InFlight) {
            pair.until(|pair| pair.seen_a.completed.pop().is_some_and(|(done, _)| done == token));
        }
        longest = longest.max(answered.elapsed());
        answered = Instant::now();
        if begin.elapsed() > timeout {
            break;
        }
    }
    let probes = value(&pair.a, "probes");
    println!("{probes} probes of a busy connection; at most {longest:?} between its answers");
    // Four checks in each time-out: of two that follow each other at least one saw no answer.
    if longest < timeout / 4 {
        assert_eq!(probes, 0, "a connection that is in use is probed");
    }
    // Nothing is sent any more: the question comes, or the watchdog.
    pair.until(|pair| value(&pair.a, "probes") > probes);
}

#[test]
fn a_datagram_costs_no_more_than_that_of_ib_send_lat() {
    if !has_device("a_datagram_costs_no_more_than_that_of_ib_send_lat") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "a_datagram_costs_no_more_than_that_of_ib_send_lat");
    let mut pair = Pair::open(|options| {
        options.mode = VerbsMode::Ud;
        options.connect = ConnectWhen::AtOnce;
    });
    let cost = counted(&mut pair, "ud ping-pong of 8 bytes", ping_pong);
    let messages = 2 * COUNT;
    // Acknowledgements travel with the answers. Where a member polls twice before it answers, one
    // goes by itself; and emulated time makes repetitions.
    let own = value(&pair.a, "acknowledgements") + value(&pair.b, "acknowledgements");
    let again = value(&pair.a, "repeated") + value(&pair.b, "repeated");
    println!(
        "ud: {own} acknowledgements by themselves, {again} repetitions in {messages} messages"
    );
    assert!(cost.requests <= messages + own + again, "one request for each message");
    assert!(cost.receive_posts < messages, "fewer posts of receive buffers than messages");
}

#[test]
fn a_write_costs_no_more_than_that_of_ib_write_lat() {
    if !has_device("a_write_costs_no_more_than_that_of_ib_write_lat") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "a_write_costs_no_more_than_that_of_ib_write_lat");
    let mut pair = Pair::open(|options| options.connect = ConnectWhen::AtOnce);
    let window = pair.b.mem_alloc(4096).expect("there is memory");
    let address = pair.b.mem_view(window).expect("it is held").as_ptr() as u64;
    let packed = pair.b.rkey_pack(window).expect("it has a key");
    let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
    let to = RemoteSlice { address, rkey };
    let put = |pair: &mut Pair, number: u64| loop {
        match pair.a.put_short(pair.to_b, &number.to_le_bytes(), to) {
            Ok(()) => break,
            Err(PostError::NoResource) => {
                pair.a.progress(&mut pair.seen_a, 16);
            }
            Err(error) => panic!("{error}"),
        }
    };
    let cost = counted(&mut pair, "rc put of 8 bytes", put);
    assert_eq!((cost.requests, cost.doorbells), (COUNT, COUNT), "one request for each put");
    assert!(cost.signalled <= COUNT / 8, "few ask for a completion: {cost:?}");
    let token = Token(1);
    if pair.a.flush(pair.to_b, token) == Ok(Posted::InFlight) {
        pair.until(|pair| pair.seen_a.completed.iter().any(|(done, _)| *done == token));
    }
    // A put with notification is two requests and one ringing.
    let notify = |pair: &mut Pair, _: u64| {
        pair.a.put_notify(pair.to_b, &[1; 8], to, AmId::new(2), &[0; 3]).expect("there is space");
        pair.until(|pair| pair.seen_b.messages.pop().is_some());
    };
    let cost = counted(&mut pair, "rc put with notification", notify);
    assert_eq!((cost.requests, cost.doorbells), (2 * COUNT, COUNT));
}

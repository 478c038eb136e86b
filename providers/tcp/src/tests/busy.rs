//! Servers that live long: what comes and goes leaves nothing, and what cannot be served costs no time.

use std::os::fd::AsFd as _;

use bowline_uct::{Armed, Wakeup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{ID, Raw, Side, options, until, watchdog, works};
use crate::frame::Frame;

/// Waits as a worker does: progress until nothing comes, then sleep on the descriptor if that is
/// allowed. Returns how often it was not, and how often it was.
fn doze(side: &mut Side, sleeps: u32) -> (u32, u32) {
    let (mut busy, mut ready) = (0, 0);
    while ready < sleeps && busy < 10_000 {
        side.progress();
        if side.iface.arm(true) == Armed::Busy {
            busy += 1;
            continue;
        }
        ready += 1;
        let epoll = side.iface.epoll_fd();
        let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let _ = poll(&mut [PollFd::new(&epoll.as_fd(), PollFlags::IN)], Some(&tenth));
        side.iface.disarm();
    }
    (busy, ready)
}

#[test]
fn a_listener_that_cannot_be_served_lets_sleep() {
    let _dog = watchdog("a_listener_that_cannot_be_served_lets_sleep");
    let mut few = options();
    few.handshakes = 4;
    let mut a = Side::open(few);
    // Always more that wait than there are places, and new ones in place of those that lost theirs.
    let mut idle: Vec<Raw> = (0..60).map(|_| Raw::connect(&a)).collect();
    let (mut busy, mut ready) = (0, 0);
    for _ in 0..10 {
        let (more_busy, more_ready) = doze(&mut a, 2);
        (busy, ready) = (busy + more_busy, ready + more_ready);
        idle.extend((0..4).map(|_| Raw::connect(&a)));
    }
    assert_eq!(ready, 20, "it never sleeps: {busy} times busy");
    assert!(busy < 1000, "{busy} times busy for {ready} sleeps");
    assert!(a.handshakes() <= 4);
    // They are served all the while.
    let mut b = Side::open(options());
    works(&mut b, &mut a);
    drop(idle);
    until(&mut [&mut a], |sides| sides[0].handshakes() == 0);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

/// One client after the other, half of them with an endpoint of the server's. The test runs beside others
/// of its process, so it counts what the interface has; `BOWLINE_TEST_CLIENTS` runs more of them.
#[test]
fn clients_that_have_gone_leave_nothing() {
    let clients: u64 = match std::env::var("BOWLINE_TEST_CLIENTS") {
        Ok(count) => count.parse().expect("a number of clients"),
        Err(_) => 400,
    };
    let _dog = (clients <= 400).then(|| watchdog("clients_that_have_gone_leave_nothing"));
    let mut server = Side::open(options());
    let (_, at) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut settled = None;
    for number in 0..clients {
        let mut raw = Raw::connect(&server);
        raw.uid = number + 1;
        // No port of ours waits for the end of its connection: there are fewer of them than clients.
        rustix::net::sockopt::set_socket_linger(&raw.stream, Some(std::time::Duration::ZERO))
            .unwrap();
        if number % 2 == 0 {
            raw.join_as(&mut server);
        } else {
            raw.request(&mut server, at);
        }
        let before = server.seen.messages.len();
        raw.say(&[&Frame::am(ID, &[number, 0, 0], 4).encode()[..], b"four"].concat());
        until(&mut [&mut server], |sides| sides[0].seen.messages.len() > before);
        drop(raw);
        until(&mut [&mut server], |sides| !sides[0].seen.failed.is_empty());
        let (_, ep, _) = server.seen.failed.pop().expect("just seen");
        server.seen.messages.clear();
        if let Some(ep) = ep {
            server.iface.disconnect(ep);
        }
        if number == clients / 4 {
            settled = Some((server.iface.peer_memory(), server.iface.peers.len(), descriptors()));
        }
    }
    let (memory, numbers, fds) = settled.expect("a quarter of them is some");
    assert_eq!(server.iface.peer_memory(), memory, "bytes and peers");
    assert_eq!(server.iface.peers.len(), numbers, "numbers of peers");
    assert!(numbers <= 2, "{numbers} numbers for one client at a time");
    assert_eq!(server.iface.handshakes.iter().flatten().count(), 0);
    assert!(server.iface.handshakes.len() <= 2);
    println!(
        "{clients} clients; descriptors of the process after a quarter {fds}, now {}",
        descriptors()
    );
    let mut b = Side::open(options());
    works(&mut b, &mut server);
}

/// One listener after the other leaves nothing, and its number is no other's.
#[test]
fn listeners_that_were_closed_leave_nothing() {
    let _dog = watchdog("listeners_that_were_closed_leave_nothing");
    let mut server = Side::open(options());
    let before = server.iface.listeners.len();
    let (stays, at) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    for _ in 0..2000 {
        let (goes, _) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(goes, stays);
        server.iface.close_listener(goes);
        // A second time it is nobody's.
        server.iface.close_listener(goes);
    }
    assert_eq!(server.iface.listeners.len(), before + 1);
    let mut raw = Raw::connect(&server);
    raw.request(&mut server, at);
    server.iface.close_listener(stays);
    assert_eq!(server.iface.listeners.len(), before);
}

/// A client that asked, was accepted, and stays, and one whose request nobody answers.
#[test]
fn clients_that_stay_are_ended() {
    let _dog = watchdog("clients_that_stay_are_ended");
    let mut short = options();
    short.handshake_timeout = std::time::Duration::from_millis(200);
    short.connect_timeout = std::time::Duration::from_millis(300);
    let mut server = Side::open(short);
    let (_, at) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stays = Raw::connect(&server);
    stays.request(&mut server, at);
    let ep = server.iface.peers.iter().position(Option::is_some).expect("it was accepted");
    server.iface.disconnect(bowline_uct::EpId(ep as u32));
    until(&mut [&mut server], |sides| sides[0].iface.peers.iter().all(Option::is_none));
    let mut unanswered = Raw::connect(&server);
    unanswered.ask(&mut server, at);
    until(&mut [&mut server], |sides| sides[0].iface.next_request().is_some());
    until(&mut [&mut server], |sides| sides[0].handshakes() == 0);
    let answer = unanswered.hear(&mut server, 56).expect("it is answered");
    assert_eq!(answer[8], 3, "rejected");
    unanswered.dropped(&mut server);
}

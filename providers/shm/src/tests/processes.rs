//! Real processes: killed in the middle of a message, guests from another memory, sleep across
//! process borders.

use bowline_base::buffer::RecvBuf;
use bowline_base::ring::promote::Sending;
use bowline_base::scmp::slots_for;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_uct::{
    Armed, Iface, LocalSlice, MemoryDomain, OneSided, OpenError, PeerFailure, Posted, RemoteSlice,
    WHOLE_PROCESS, Wakeup,
};

use super::*;
use crate::endpoint::Cma;

fn queue_only() -> ShmOptions {
    ShmOptions { rings: 0, ..ShmOptions::default() }
}

/// Sends two messages and then stops between reserving three slots and finalising them.
#[test]
#[ignore = "a role"]
fn role_half_sent() {
    let (job, parent) = in_role();
    let mut iface = ShmIface::open(job, 1, queue_only()).unwrap();
    let ep = iface.connect(&parent).unwrap();
    let mut seen = Seen::default();
    post(&mut iface, &mut seen, ep, 0, b"whole");
    post(&mut iface, &mut seen, ep, 1, &[7; 300]);
    let e = &mut iface.eps[ep.0 as usize];
    let slots = slots_for(100) as u32;
    e.queue.announce(e.intent.word(), slots).unwrap();
    // A ticket that is not published is what a killed producer leaves.
    let _ticket = e.queue.reserve(slots).unwrap();
    say("reserved");
    hang();
}

#[test]
fn a_sender_killed_in_the_middle_does_not_stop_the_others() {
    let _dog = watchdog();
    let options = queue_only();
    let job = job(3, &options);
    let mut root = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
    let mut other = ShmIface::open(job.clone(), 2, options).unwrap();
    let ep = other.connect(&root.address()).unwrap();
    let (mut seen, mut others) = (Seen::default(), Seen::default());
    let mut role = Role::start("tests::processes::role_half_sent", &job, &root.address());
    assert_eq!(role.hear(), "reserved");
    // The hole stands; what the living send behind it cannot be read yet.
    post(&mut other, &mut others, ep, 0, b"behind the hole");
    for _ in 0..200 {
        root.progress(&mut seen, 16);
    }
    assert_eq!(seen.messages.len(), 2, "what was whole arrived");
    role.kill();
    job.mark_dead(1);
    for number in 1..2000 {
        post(&mut other, &mut others, ep, number, &[1; 50]);
        root.progress(&mut seen, 16);
    }
    until(&mut root, &mut seen, |seen| seen.messages.len() == 2002 && !seen.failed.is_empty());
    assert_eq!(seen.failed, [(Some(Source(1)), None, PeerFailure::Died)]);
    let of_other: Vec<u64> = seen.messages.iter().filter(|m| m.0 == 2).map(|m| m.1[0]).collect();
    assert_eq!(of_other, (0..2000).collect::<Vec<_>>());
    let of_dead: Vec<_> = seen.messages.iter().filter(|m| m.0 == 1).map(|m| m.2.len()).collect();
    assert_eq!(of_dead, [5, 300]);
    let back = root.connect(&other.address()).unwrap();
    assert_eq!(root.check(back), Ok(()));
}

/// Streams until it is killed.
#[test]
#[ignore = "a role"]
fn role_stream() {
    let (job, parent) = in_role();
    let options = queue_only();
    let mut iface = ShmIface::open(job, 1, options).unwrap();
    let ep = iface.connect(&parent).unwrap();
    let mut seen = Seen::default();
    say("on");
    for number in 0.. {
        let len = if number % 7 == 0 { 120 } else { 8 };
        post(&mut iface, &mut seen, ep, number, &vec![number as u8; len]);
    }
}

#[test]
fn killed_at_any_point_leaves_whole_messages_and_a_working_queue() {
    let _dog = watchdog();
    for round in 0..12u64 {
        let options = queue_only();
        let job = job(3, &options);
        let mut root = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
        let mut other = ShmIface::open(job.clone(), 2, options).unwrap();
        let ep = other.connect(&root.address()).unwrap();
        let (mut seen, mut others) = (Seen::default(), Seen::default());
        let mut role = Role::start("tests::processes::role_stream", &job, &root.address());
        assert_eq!(role.hear(), "on");
        let enough = 500 + 331 * round as usize;
        until(&mut root, &mut seen, |seen| seen.messages.len() >= enough);
        role.kill();
        job.mark_dead(1);
        for number in 0..300 {
            // The dead one may have left the queue full.
            while other.am_short(ep, ID, &[number, 0, 0], &[3; 30]).is_err() {
                root.progress(&mut seen, 8);
                other.progress(&mut others, 8);
            }
        }
        until(&mut root, &mut seen, |seen| {
            !seen.failed.is_empty() && seen.messages.iter().filter(|m| m.0 == 2).count() == 300
        });
        assert_eq!(seen.failed, [(Some(Source(1)), None, PeerFailure::Died)]);
        let of_dead = seen.messages.iter().filter(|m| m.0 == 1);
        for (number, (_, header, payload)) in of_dead.enumerate() {
            assert_eq!(header[0], number as u64, "in order, none lost before the last");
            let len = if number % 7 == 0 { 120 } else { 8 };
            assert_eq!(payload, &vec![number as u8; len]);
        }
    }
}

/// A rank of a memory of its own: echoes what it is sent, until it is asked to end.
#[test]
#[ignore = "a role"]
fn role_guest() {
    let (_, parent) = in_role();
    let options = ShmOptions::default();
    let own = job(1, &options);
    let mut iface = ShmIface::open(own, 0, options).unwrap();
    let back = iface.connect(&parent).unwrap();
    say(&hex(&iface.address()));
    let mut seen = Seen::default();
    let mut asleep = false;
    loop {
        while iface.progress(&mut seen, 16) > 0 {}
        for (_, header, payload) in std::mem::take(&mut seen.messages) {
            if header[0] == u64::MAX {
                // Ends in order: the parent sees it close after its last message.
                post(&mut iface, &mut seen, back, u64::MAX, &[]);
                return;
            }
            asleep = header[0] >= 1000;
            post(&mut iface, &mut seen, back, header[0], &payload);
        }
        if !asleep {
            std::thread::yield_now();
            continue;
        }
        // From the thousandth message on it sleeps in between: the parent's ring must wake it.
        match iface.arm(false) {
            Armed::Busy => {}
            Armed::Ready => {
                let _ = iface.doorbell().unwrap().clone().wait(None);
                iface.disarm();
            }
        }
    }
}

#[test]
fn guests_of_another_memory_talk_close_and_die() {
    let _dog = watchdog();
    // One entry, so that it is used again.
    let options = ShmOptions { guests: 1, ..ShmOptions::default() };
    let job = job(2, &options);
    let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
    for round in 0..3 {
        let mut seen = Seen::default();
        let mut role = Role::start("tests::processes::role_guest", &job, &root.address());
        let address = unhex(&role.hear());
        root.reachable(&address).unwrap();
        let ep = root.connect(&address).unwrap();
        for number in (0..100).chain(1000..1100) {
            let payload = vec![number as u8; if number % 10 == 0 { 3000 } else { 20 }];
            post(&mut root, &mut seen, ep, number, &payload);
            until(&mut root, &mut seen, |seen| !seen.messages.is_empty());
            let (source, header, echoed) = seen.messages.remove(0);
            assert_eq!(source, 2, "the first number after the ranks");
            assert_eq!((header[0], &echoed), (number, &payload));
        }
        assert_eq!(root.source_of(&address), Some(Source(2)));
        // Hot guests get a ring in the host's area like ranks.
        assert!(root.receiver.active.iter().any(|ring| ring.source == 2));
        let how = if round == 1 {
            post(&mut root, &mut seen, ep, u64::MAX, &[]);
            role.wait();
            PeerFailure::Closed
        } else {
            role.kill();
            PeerFailure::Died
        };
        // Asleep without a time-out: the watcher of the guest must wake us.
        while seen.failed.is_empty() {
            if root.progress(&mut seen, 64) == 0 && root.arm(round == 2) == Armed::Ready {
                if round == 2 {
                    let fd = root.event_fd().unwrap();
                    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
                    rustix::event::poll(&mut fds, None).unwrap();
                } else {
                    let _ = root.doorbell().unwrap().clone().wait(None);
                }
                root.disarm();
            }
        }
        assert_eq!(seen.failed, [(Some(Source(2)), Some(ep), how)], "round {round}");
        assert_eq!(seen.messages.len(), usize::from(round == 1));
        assert!(matches!(root.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed)));
        assert!(root.reachable(&address).is_err(), "the process has ended");
    }
}

/// An endpoint to a peer of another memory that never connected back dies with it, too.
#[test]
fn a_silent_foreign_peer_is_watched() {
    let _dog = watchdog();
    let options = ShmOptions::default();
    let job = job(1, &options);
    let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
    let mut role = Role::start("tests::processes::role_silent", &job, &[]);
    let ep = root.connect(&unhex(&role.hear())).unwrap();
    let mut seen = Seen::default();
    root.am_short(ep, ID, &[0; 3], &[]).unwrap();
    assert_eq!(root.check(ep), Ok(()));
    while root.arm(false) == Armed::Busy {
        root.progress(&mut seen, 8);
    }
    role.kill();
    let _ = root.doorbell().unwrap().clone().wait(None);
    root.disarm();
    until(&mut root, &mut seen, |seen| !seen.failed.is_empty());
    assert_eq!(seen.failed, [(None, Some(ep), PeerFailure::Died)]);
}

/// One that leaves in order and has ended before its end is asked for has closed, and not died: both that it was a guest
/// here, and that this rank was one there.
#[test]
fn a_foreign_peer_that_leaves_and_ends_at_once_has_closed() {
    let _dog = watchdog();
    for role in ["role_guest", "role_leaving"] {
        let options = ShmOptions::default();
        let job = job(1, &options);
        let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
        let mut seen = Seen::default();
        let mut role = Role::start(&format!("tests::processes::{role}"), &job, &root.address());
        let ep = root.connect(&unhex(&role.hear())).unwrap();
        post(&mut root, &mut seen, ep, 0, &[]);
        if root.guests.iter().any(Option::is_some) {
            until(&mut root, &mut seen, |seen| !seen.messages.is_empty());
        }
        post(&mut root, &mut seen, ep, u64::MAX, &[]);
        role.wait();
        root.watch_foreign();
        until(&mut root, &mut seen, |seen| !seen.failed.is_empty());
        assert_eq!(seen.failed[0].2, PeerFailure::Closed);
    }
}

/// Opens a memory of its own, says its address, and leaves when it has been sent two messages.
#[test]
#[ignore = "a role"]
fn role_leaving() {
    let options = ShmOptions::default();
    let own = job(1, &options);
    let mut iface = ShmIface::open(own, 0, options).unwrap();
    say(&hex(&iface.address()));
    let mut seen = Seen::default();
    until(&mut iface, &mut seen, |seen| seen.messages.len() == 2);
}

/// Opens a memory of its own, says its address and does nothing.
#[test]
#[ignore = "a role"]
fn role_silent() {
    let options = ShmOptions::default();
    let own = job(1, &options);
    let iface = ShmIface::open(own, 0, options).unwrap();
    say(&hex(&iface.address()));
    hang();
}

/// Publishes a buffer and an allocation, then waits.
#[test]
#[ignore = "a role"]
fn role_memory() {
    let (job, parent) = in_role();
    let mut iface = ShmIface::open(job, 1, ShmOptions::default()).unwrap();
    iface.connect(&parent).unwrap();
    let buffer: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 3) as u8).collect();
    let window = iface.mem_alloc(100_000).unwrap();
    iface.mem_view(window).unwrap().copy_in(&[0x5a; 100_000]);
    let window_at = iface.mem_view(window).unwrap().as_ptr() as u64;
    say(&format!(
        "{} {} {} {}",
        hex(&iface.address()),
        buffer.as_ptr() as u64,
        window_at,
        hex(&iface.rkey_pack(window).unwrap())
    ));
    assert_eq!(listen(), "read");
    let mut word = [0; 4];
    iface.mem_view(window).unwrap().slice(50, 4).unwrap().copy_out(&mut word);
    assert_eq!(word, [1, 2, 3, 4], "the parent has put this");
    say("seen");
    assert_eq!(listen(), "end");
    assert_eq!(buffer[0], 0);
}

#[test]
fn memory_of_another_process_is_reached_and_its_end_is_an_error() {
    let _dog = watchdog();
    let options = ShmOptions::default();
    let job = job(2, &options);
    let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
    let mut role = Role::start("tests::processes::role_memory", &job, &root.address());
    let reported = role.hear();
    let reported: Vec<&str> = reported.split(' ').collect();
    let ep = root.connect(&unhex(reported[0])).unwrap();
    let buffer: u64 = reported[1].parse().unwrap();
    let window: u64 = reported[2].parse().unwrap();
    assert!(matches!(root.eps[0].cma, Cma::Allowed(_)), "{:?}", root.eps[0].cma);

    let process = root.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let from = RemoteSlice { address: buffer, rkey: process };
    let mut to = RecvBuf::owned(vec![0; 1 << 20]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let whole = [unsafe { LocalSlice::of_recv(&mut to, 0, 1 << 20) }.unwrap()];
    assert_eq!(root.get_zcopy(ep, &whole, from, Token(1)), Ok(Posted::Done));
    let got = to.into_owned().unwrap();
    assert!(got.iter().enumerate().all(|(i, &b)| b == (i as u32 * 3) as u8));

    let mapped = root.rkey_unpack(ep, &unhex(reported[3])).unwrap();
    let view = root.rkey_ptr(mapped, window, 100_000).unwrap();
    assert!(view.to_vec().iter().all(|&b| b == 0x5a));
    root.put_short(ep, &[1, 2, 3, 4], RemoteSlice { address: window + 50, rkey: mapped }).unwrap();
    role.send("read");
    assert_eq!(role.hear(), "seen");
    role.kill();
    // A mapping outlives its owner and harms nobody.
    root.put_short(ep, &[1], RemoteSlice { address: window, rkey: mapped }).unwrap();
    // Before any report: the kernel knows it, and the node is notified.
    let mut to = RecvBuf::owned(vec![0; 8]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let piece = [unsafe { LocalSlice::of_recv(&mut to, 0, 8) }.unwrap()];
    let gone = root.get_zcopy(ep, &piece, from, Token(2));
    assert_eq!(gone, Err(PostError::PeerFailed));
    assert!(job.is_dead(1));
    assert_eq!(root.check(ep), Err(PostError::PeerFailed));
    let mut seen = Seen::default();
    until(&mut root, &mut seen, |seen| !seen.failed.is_empty());
    assert_eq!(seen.failed, [(Some(Source(1)), Some(ep), PeerFailure::Died)]);
}

/// The pid of a rank that is marked dead may be another process's by now: nothing is copied from or to
/// it, also before this rank has checked who died.
#[test]
fn nothing_is_copied_by_the_pid_of_a_rank_that_is_marked_dead() {
    let options = ShmOptions::default();
    let job = job(2, &options);
    let mut root = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
    let other = ShmIface::open(job.clone(), 1, options).unwrap();
    let ep = root.connect(&other.address()).unwrap();
    let process = root.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let there = AtomicU64::new(7);
    let at = RemoteSlice { address: there.as_ptr().addr() as u64, rkey: process };
    root.put_short(ep, &8u64.to_ne_bytes(), at).unwrap();
    assert_eq!(there.load(Ordering::SeqCst), 8);
    job.mark_dead(1);
    assert_eq!(root.put_short(ep, &9u64.to_ne_bytes(), at), Err(PostError::PeerFailed));
    assert_eq!(there.load(Ordering::SeqCst), 8);
    std::mem::forget(other);
}

#[test]
fn who_is_dead_is_no_address_that_another_transport_might_reach() {
    let options = ShmOptions::default();
    let job = job(2, &options);
    let mut root = ShmIface::open(job.clone(), 0, options.clone()).unwrap();
    let other = ShmIface::open(job.clone(), 1, options).unwrap();
    let address = other.address();
    job.mark_dead(1);
    let error = root.connect(&address).unwrap_err();
    assert!(matches!(error, OpenError::PeerFailed(PeerFailure::Died)), "{error}");
    std::mem::forget(other);
}

/// A small ring; with three ranks, the queue only.
fn small_queues(ranks: u32) -> ShmOptions {
    let rings = if ranks == 3 { 0 } else { 8 };
    ShmOptions { ring_slots: 8, rings, ..ShmOptions::default() }
}

/// Fills its parent's queue, sleeps until there is space, and goes on.
#[test]
#[ignore = "a role"]
fn role_sleeps_for_space() {
    let (job, parent) = in_role();
    let options = small_queues(job.ranks());
    let mut iface = ShmIface::open(job, 1, options).unwrap();
    let ep = iface.connect(&parent).unwrap();
    let mut seen = Seen::default();
    let mut slept = 0;
    for number in 0..20_000u64 {
        while let Err(error) = iface.am_short(ep, ID, &[number, 0, 0], &[]) {
            assert_eq!(error, PostError::NoResource);
            iface.want_writable(ep);
            while seen.writable.is_empty() {
                if iface.progress(&mut seen, 16) > 0 {
                    continue;
                }
                match iface.arm(false) {
                    Armed::Busy => {}
                    Armed::Ready => {
                        // No time-out: a wake-up that is lost hangs the test.
                        let _ = iface.doorbell().unwrap().clone().wait(None);
                        iface.disarm();
                        slept += 1;
                    }
                }
            }
            assert_eq!(std::mem::take(&mut seen.writable), [ep]);
        }
    }
    say(&format!("slept {slept}"));
    assert_eq!(listen(), "end");
}

#[test]
fn a_sender_that_sleeps_for_space_is_woken() {
    let _dog = watchdog();
    // With three ranks the role uses the queue only.
    for ranks in [2, 3] {
        let options = small_queues(ranks);
        let job = job(ranks, &options);
        let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
        let mut role =
            Role::start("tests::processes::role_sleeps_for_space", &job, &root.address());
        let mut seen = Seen::default();
        // In bursts, so that the sender finds the queue full and falls asleep.
        while seen.messages.len() < 20_000 {
            for _ in 0..30 {
                root.progress(&mut seen, 16);
            }
            std::thread::yield_now();
            if seen.messages.len() % 5 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        assert!(seen.messages.iter().enumerate().all(|(i, m)| m.1[0] == i as u64));
        let slept = role.hear();
        assert_ne!(slept, "slept 0", "the test has not tested anything");
        role.send("end");
        role.wait();
    }
}

/// Takes a ring, fills it and waits.
#[test]
#[ignore = "a role"]
fn role_ring() {
    let (job, parent) = in_role();
    let options = ShmOptions { promote_after: 1, ..ShmOptions::default() };
    let mut iface = ShmIface::open(job, 1, options).unwrap();
    let ep = iface.connect(&parent).unwrap();
    let mut seen = Seen::default();
    for number in 0..100 {
        post(&mut iface, &mut seen, ep, number, &[9; 200]);
    }
    assert!(matches!(iface.eps[0].sending, Sending::Ring(_)));
    say("sent");
    hang();
}

#[test]
fn a_dead_owners_ring_is_read_to_the_end_and_freed() {
    let _dog = watchdog();
    let options = ShmOptions::default();
    let job = job(2, &options);
    let mut root = ShmIface::open(job.clone(), 0, options).unwrap();
    let mut role = Role::start("tests::processes::role_ring", &job, &root.address());
    assert_eq!(role.hear(), "sent");
    role.kill();
    job.mark_dead(1);
    let mut seen = Seen::default();
    until(&mut root, &mut seen, |seen| !seen.failed.is_empty());
    assert_eq!(seen.messages.len(), 100, "what was published is delivered before the failure");
    assert!(seen.messages.iter().enumerate().all(|(i, m)| m.1[0] == i as u64));
    assert_eq!(root.receiver.active.len(), 0);
    assert!(root.receiver.free.iter().flatten().all(|ring| ring.owner().is_none()));
}

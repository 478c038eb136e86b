//! Active messages between thread ranks: every way that a message can take, and the changes of
//! way, with nothing lost, doubled, damaged or out of order.

use crate::common::*;
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{EpId, Iface, PostError};

#[test]
fn every_length_arrives_by_the_queue_and_by_a_ring() {
    let _dog = Watchdog::new(60);
    for rings in [0, 8] {
        let options = with(|options| {
            options.rings = rings;
        });
        let job = private_job(2, &options);
        let mut ranks = interfaces(&job, &options);
        let mut b = ranks.pop().unwrap();
        let mut a = ranks.pop().unwrap();
        let ep = a.connect(&b.address()).unwrap();
        let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
        let longest = a.attr().limits.am.max_bcopy;
        let lengths: Vec<usize> =
            (0..200).chain([255, 256, 1000, 4096, longest - 1, longest]).collect();
        for (number, &len) in lengths.iter().enumerate() {
            let payload = pattern(0, number as u64, len);
            while a
                .am_bcopy(ep, ID, &[number as u64, 1, 2], len, &mut |space| space.copy_in(&payload))
                .is_err()
            {
                b.progress(&mut at_b, 64);
                a.progress(&mut at_a, 64);
            }
        }
        while b.progress(&mut at_b, 64) > 0 {}
        assert_eq!(at_b.messages.len(), lengths.len());
        for (number, (message, &len)) in at_b.messages.iter().zip(&lengths).enumerate() {
            assert_eq!(message.header, [number as u64, 1, 2]);
            assert_eq!(message.payload, pattern(0, number as u64, len), "{rings} rings, {len} B");
            assert_eq!((message.source, message.id), (0, ID.get()));
        }
        let by_ring = a.counters().am_ring;
        assert_eq!(by_ring > 0, rings > 0, "{:?}", a.counters());
    }
}

#[test]
fn what_was_packed_counts_and_not_what_was_asked_for() {
    let _dog = Watchdog::new(60);
    for promote in [false, true] {
        let options = with(|options| {
            options.rings = u32::from(promote);
            options.promote_after = 1;
        });
        let job = private_job(2, &options);
        let mut ranks = interfaces(&job, &options);
        let (mut at_a, mut at_b) = (Recorder::default(), Recorder::default());
        let (a, b) = ranks.split_at_mut(1);
        let (a, b) = (&mut a[0], &mut b[0]);
        let ep = a.connect(&b.address()).unwrap();
        send(a, &mut at_a, ep, &[0; 3], &[]).unwrap();
        let asked = [1, 24, 25, 32, 33, 64, 96, 97, 500, 8000];
        for (len, space) in
            asked.iter().flat_map(|&space| [(0, space), (space / 2, space), (space, space)])
        {
            let payload = pattern(0, space as u64, len);
            let sent = a.am_bcopy(ep, ID, &[len as u64, 0, 0], space, &mut |view| {
                assert_eq!(view.len(), space);
                view.copy_in(&payload)
            });
            assert_eq!(sent, Ok(len));
            while b.progress(&mut at_b, 8) > 0 {}
            let message = at_b.messages.last().unwrap();
            assert_eq!(message.header[0], len as u64);
            assert_eq!(message.payload, payload, "{len} of {space} bytes, ring: {promote}");
        }
    }
}

#[test]
fn refusals_are_exact_and_nothing_is_packed() {
    let options = ShmOptions::default();
    let job = private_job(2, &options);
    let mut ranks = interfaces(&job, &options);
    let b_address = ranks[1].address();
    let a = &mut ranks[0];
    let ep = a.connect(&b_address).unwrap();
    assert_eq!(a.am_short(ep, ID, &[0; 3], &[0; 97]), Err(PostError::TooLong));
    let too_long = a.attr().limits.am.max_bcopy + 1;
    let mut packed = 0;
    let mut pack = |_: bowline_base::view::View<'_>| {
        packed += 1;
        0
    };
    assert_eq!(a.am_bcopy(ep, ID, &[0; 3], too_long, &mut pack), Err(PostError::TooLong));
    // Fill the peer's queues; the refused message was not packed.
    let mut sent = 0;
    loop {
        match a.am_bcopy(ep, ID, &[sent, 0, 0], 100, &mut |space| space.copy_in(&[1; 100])) {
            Ok(_) => sent += 1,
            Err(error) => {
                assert_eq!(error, PostError::NoResource);
                break;
            }
        }
    }
    assert_eq!(a.am_bcopy(ep, ID, &[0; 3], 100, &mut pack), Err(PostError::NoResource));
    assert_eq!(packed, 0);
    assert_eq!(a.am_short(EpId(77), ID, &[0; 3], &[]), Err(PostError::BadEndpoint));
    a.disconnect(ep);
    assert_eq!(a.am_short(ep, ID, &[0; 3], &[]), Err(PostError::BadEndpoint));
    // Connecting again opens the same endpoint, and what was sent is all there, in order.
    assert_eq!(a.connect(&b_address).unwrap(), ep);
    let mut at_b = Recorder::default();
    while ranks[1].progress(&mut at_b, 16) > 0 {}
    let numbers: Vec<u64> = at_b.messages.iter().map(|m| m.header[0]).collect();
    assert_eq!(numbers, (0..sent).collect::<Vec<_>>());
}

/// Many senders, few rings, changing heat: rings are claimed, asked back and claimed again, and
/// each sender's messages stay in order.
#[test]
fn rings_wander_to_the_hot_and_order_is_kept() {
    let _dog = Watchdog::new(120);
    let options = with(|options| {
        options.rings = 2;
        options.ring_slots = 16;
        options.promote_after = 3;
    });
    let senders = 7u32;
    let job = private_job(senders + 1, &options);
    let mut ranks = interfaces(&job, &options);
    let mut root = ranks.remove(0);
    let address = root.address();
    let mut sinks: Vec<Recorder> = (0..senders).map(|_| Recorder::default()).collect();
    let eps: Vec<EpId> = ranks.iter_mut().map(|r| r.connect(&address).unwrap()).collect();
    let mut numbers = vec![0u64; senders as usize];
    let mut at_root = Recorder::default();
    for phase in 0..12usize {
        for step in 0..1500usize {
            // Two senders are hot in each phase, others say something now and then.
            let hot = [phase % 7, (phase + 3) % 7];
            let who = if step % 5 == 4 { step % 7 } else { hot[step % 2] };
            let len = if step % 11 == 0 { 300 } else { step % 33 };
            let payload = pattern(who as u32 + 1, numbers[who], len);
            loop {
                let (rank, ep): (&mut ShmIface, _) = (&mut ranks[who], eps[who]);
                let header = [numbers[who], 0, 0];
                let posted = rank
                    .am_bcopy(ep, ID, &header, len, &mut |space| space.copy_in(&payload))
                    .map(|_| ());
                match posted {
                    Ok(()) => break,
                    Err(PostError::NoResource) => {
                        root.progress(&mut at_root, 7);
                        ranks[who].progress(&mut sinks[who], 8);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            numbers[who] += 1;
            root.progress(&mut at_root, 1 + (step % 3) as u32);
            if step % 50 == 0 {
                for (rank, sink) in ranks.iter_mut().zip(&mut sinks) {
                    rank.progress(sink, 8);
                }
            }
        }
    }
    for _ in 0..1000 {
        root.progress(&mut at_root, 64);
        for (rank, sink) in ranks.iter_mut().zip(&mut sinks) {
            rank.progress(sink, 8);
        }
    }
    assert!(at_root.failed.is_empty(), "{:?}", at_root.failed);
    let mut next = vec![0u64; senders as usize];
    for message in &at_root.messages {
        let who = message.source as usize - 1;
        assert_eq!(message.header[0], next[who], "order of source {}", message.source);
        let expected = pattern(message.source, next[who], message.payload.len());
        assert_eq!(message.payload, expected);
        next[who] += 1;
    }
    assert_eq!(next, numbers, "every message arrived");
    assert!(root.counters().rings_evicted > 2, "{:?}", root.counters());
    let left: u64 = ranks.iter().map(|r| r.counters().rings_left).sum();
    let taken: u64 = ranks.iter().map(|r| r.counters().rings_taken).sum();
    assert!(left > 2 && taken > left, "taken {taken}, left {left}");
}

#[test]
fn sixty_four_thread_ranks_flood_one() {
    let _dog = Watchdog::new(300);
    let options = ShmOptions::default();
    let ranks = 64u32;
    let each = 400u64;
    let job = private_job(ranks, &options);
    let mut all = interfaces(&job, &options);
    let mut root = all.remove(0);
    let address = root.address();
    let threads: Vec<_> = all
        .into_iter()
        .enumerate()
        .map(|(i, mut iface)| {
            let address = address.clone();
            std::thread::spawn(move || {
                let mut sink = Recorder::default();
                let ep = iface.connect(&address).unwrap();
                for number in 0..each {
                    let len = if number % 50 == 49 { 2000 } else { (number % 40) as usize };
                    let payload = pattern(i as u32 + 1, number, len);
                    send(&mut iface, &mut sink, ep, &[number, 0, 0], &payload).unwrap();
                }
                // Kept open until the root has everything, so that no closing is mixed in.
                iface
            })
        })
        .collect();
    let mut sink = Recorder::default();
    let total = each as usize * (ranks as usize - 1);
    while sink.messages.len() < total {
        if root.progress(&mut sink, 64) == 0 {
            std::thread::yield_now();
        }
    }
    let ifaces: Vec<ShmIface> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let mut next = vec![0u64; ranks as usize];
    for message in &sink.messages {
        let number = &mut next[message.source as usize];
        assert_eq!(message.header[0], *number, "order of source {}", message.source);
        assert_eq!(message.payload, pattern(message.source, *number, message.payload.len()));
        *number += 1;
    }
    assert!(sink.failed.is_empty());
    drop(ifaces);
    while sink.failed.len() < ranks as usize - 1 {
        root.progress(&mut sink, 64);
    }
    assert_eq!(sink.messages.len(), total, "nothing came twice");
}

#[test]
fn receive_memory_does_not_depend_on_the_number_of_ranks() {
    let options = ShmOptions::default();
    let bytes: Vec<usize> = [2, 8, 64]
        .into_iter()
        .map(|ranks| {
            let job = private_job(ranks, &options);
            ShmIface::open(job, 0, options.clone()).unwrap().attr().receive_bytes
        })
        .collect();
    println!("receive bytes of a rank at 2, 8, 64 ranks: {bytes:?}");
    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(bytes[0] <= options.area_bytes());
}

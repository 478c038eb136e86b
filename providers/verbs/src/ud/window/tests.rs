//! Windows over networks that lose, double and delay, and the rules one by one.

use super::*;

fn send_again(out: &mut Outgoing<u32>, wire: &mut Vec<(u32, u32)>) {
    while let Some((sequence, &what)) = out.due_again() {
        wire.push((sequence, what));
        out.sent_again();
    }
}

/// A window of 8 over a network that loses, doubles and delays: everything arrives once, in
/// order, whatever the seed; the numbers go round in the midst of it.
#[test]
fn everything_arrives_once_and_in_order() {
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let begin = u32::MAX - 20;
        let trips = Trips { clean: begin, ..Trips::default() };
        let mut out = Outgoing {
            next: begin,
            answered: begin,
            again_from: begin,
            again_until: begin,
            trips,
            ..Outgoing::<u32>::new(8)
        };
        let mut inc = Incoming { expected: begin, ..Incoming::default() };
        let mut now = Instant::now();
        let mut wire: Vec<(u32, u32)> = Vec::new();
        let mut back: Vec<(u32, bool)> = Vec::new();
        let (mut sent, mut taken, mut freed) = (0, 0, 0);
        let mut steps = 0;
        while freed < 100 {
            steps += 1;
            assert!(steps < 100_000, "no end with seed {seed}");
            if sent < 100 && out.has_space() && below(2) == 0 {
                assert!(out.len() < 8);
                wire.push((out.next(), sent));
                out.sent(sent);
                sent += 1;
            }
            out.watch(now);
            if below(2) == 0 && !wire.is_empty() {
                let place = below(wire.len() as u64) as usize;
                let (sequence, what) = wire.remove(place);
                if below(4) == 0 {
                    wire.push((sequence, what));
                }
                if below(5) > 0 {
                    if inc.order(sequence) == ReceiveOrder::Next {
                        assert_eq!(what, taken, "out of order with seed {seed}");
                        taken += 1;
                        inc.taken();
                    } else {
                        inc.dropped(sequence);
                    }
                }
            }
            if let Some(gap) = inc.must_acknowledge(1 + below(4) as u32) {
                back.push((inc.expected(), gap));
                inc.acknowledged();
            }
            if below(2) == 0 && !back.is_empty() {
                let place = below(back.len() as u64) as usize;
                let (expected, gap) = back.remove(place);
                if below(5) > 0 {
                    let clock = || now;
                    out.acknowledged(expected, clock, |what| {
                        assert_eq!(what, freed);
                        freed += 1;
                    });
                    if gap {
                        out.lost();
                        out.repeat();
                    }
                    send_again(&mut out, &mut wire);
                }
            }
            now += Duration::from_millis(3);
            if out.overdue(now) {
                send_again(&mut out, &mut wire);
            }
        }
        assert_eq!((taken, out.is_empty()), (100, true));
    }
}

#[test]
fn losses_halve_what_is_allowed_and_acknowledgements_let_it_grow() {
    let mut out = Outgoing::new(64);
    let round = |out: &mut Outgoing<()>| {
        while out.has_space() {
            out.sent(());
        }
        let next = out.next();
        out.acknowledged(next, Instant::now, |()| {});
    };
    assert_eq!(out.allowed(), 32);
    round(&mut out);
    assert_eq!(out.allowed(), 64);
    round(&mut out);
    assert_eq!(out.allowed(), 64, "no more than the window");
    out.sent(());
    out.lost();
    out.lost();
    assert_eq!(out.allowed(), 32, "once for all that is under way");
    round(&mut out);
    assert_eq!(out.allowed(), 33, "slowly from there");
    for _ in 0..20 {
        out.sent(());
        out.lost();
        let next = out.next();
        out.acknowledged(next, Instant::now, |()| {});
    }
    assert_eq!(out.allowed(), LEAST);
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let mut out = Outgoing::new(4);
    out.sent('a');
    out.sent('b');
    for wrong in [3, 100, u32::MAX, 0] {
        let freed = out.acknowledged(wrong, Instant::now, |_| panic!("freed by {wrong}"));
        assert_eq!(freed, 0);
    }
    assert_eq!(out.acknowledged(2, Instant::now, |_| {}), 2);
    assert_eq!(out.acknowledged(2, Instant::now, |_| panic!("freed twice")), 0);
}

#[test]
fn pauses_follow_the_round_trips_and_not_those_of_repetitions() {
    let mut out = Outgoing::new(8);
    let mut now = Instant::now();
    let trip = |out: &mut Outgoing<()>, now: &mut Instant, took: Duration| {
        out.sent(());
        out.watch(*now);
        let overdue = out.overdue(*now + took);
        *now += took;
        let next = out.next();
        out.acknowledged(next, || *now, |()| {});
        overdue
    };
    for _ in 0..20 {
        trip(&mut out, &mut now, Duration::from_millis(1));
    }
    assert_eq!(out.pause, FIRST_PAUSE, "never less than the first");
    // Slower than the pause: it grows with the first that is sent once, and stays.
    assert!(trip(&mut out, &mut now, Duration::from_millis(90)));
    assert_eq!(out.trips.known.map(|(average, _)| average.as_millis()), Some(1));
    assert_eq!(out.pause, FIRST_PAUSE * 2, "what was repeated says nothing");
    trip(&mut out, &mut now, Duration::from_millis(39));
    for _ in 0..40 {
        trip(&mut out, &mut now, Duration::from_millis(90));
    }
    assert!(!trip(&mut out, &mut now, Duration::from_millis(90)));
}

#[test]
fn what_was_granted_bounds_the_fall_and_lateness_is_forgotten_quickly() {
    let mut out = Outgoing::<()>::new(128);
    let mut now = Instant::now();
    out.share(124);
    let round = |out: &mut Outgoing<()>| {
        while out.has_space() {
            out.sent(());
        }
        let next = out.next();
        out.acknowledged(next, Instant::now, |()| {});
    };
    for _ in 0..3 {
        round(&mut out);
    }
    assert_eq!(out.allowed(), 124);
    for _ in 0..10 {
        out.sent(());
        out.lost();
        let next = out.next();
        out.acknowledged(next, Instant::now, |()| {});
    }
    assert_eq!(out.allowed(), 31, "a quarter of the share");
    let mut out = Outgoing::<()>::new(128);
    out.share(124);
    for _ in 0..3 {
        round(&mut out);
    }
    for _ in 0..2 {
        while out.has_space() {
            out.sent(());
        }
        out.watch(now);
        now += LONGEST_PAUSE;
        assert!(out.overdue(now));
        let next = out.next();
        out.acknowledged(next, || now, |()| {});
    }
    for _ in 0..2 {
        round(&mut out);
    }
    assert_eq!(out.allowed(), 124, "no loss was seen");
}

/// All of a window is lost and nothing more is sent: one pause is waited for, and the rest follows
/// with the acknowledgements.
#[test]
fn a_lost_window_is_repeated_after_one_pause() {
    let mut out = Outgoing::new(64);
    while out.len() < 32 {
        out.sent(());
    }
    let mut now = Instant::now();
    out.watch(now);
    now += FIRST_PAUSE;
    assert!(out.overdue(now));
    let (mut expected, mut rounds) = (0, 0);
    while !out.is_empty() {
        let mut again = 0;
        while let Some((sequence, ())) = out.due_again() {
            assert_eq!(sequence, expected + again, "each once and in order");
            again += 1;
            assert!(again as usize <= out.allowed());
            out.sent_again();
        }
        assert!(again > 0, "nothing is repeated before the next pause");
        expected += again;
        out.acknowledged(expected, || now, |()| {});
        rounds += 1;
    }
    assert!(rounds > 1 && expected == 32);
    assert!(out.due_again().is_none());
    // One that was only late: the answer to the first covers more than those, and that is all.
    while out.len() < 16 {
        out.sent(());
    }
    out.watch(now);
    now += LONGEST_PAUSE;
    assert!(out.overdue(now));
    let first = out.first();
    while out.due_again().is_some() {
        out.sent_again();
    }
    out.acknowledged(first.wrapping_add(8), || now, |()| {});
    assert!(out.due_again().is_none() && out.len() == 8);
    let next = out.next();
    out.acknowledged(next, || now, |()| {});
    // Not even when the numbers have gone half way round since.
    for _ in 0..4 {
        out.next = out.next.wrapping_add(u32::MAX / 4);
        out.sent(());
        let next = out.next();
        out.acknowledged(next, || now, |()| {});
        assert!(out.due_again().is_none());
        out.sent(());
        assert!(out.due_again().is_none());
        let next = out.next();
        out.acknowledged(next, || now, |()| {});
    }
}

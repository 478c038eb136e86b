//! Damaged memory: what a peer may write, whatever it is, ends in an error of that peer or of the
//! queue; never in a hang, a panic or an access outside. Nobody dies here: that a rank which goes
//! on living has written the damage must be found by polls, in a time that is bounded by calls.

use bowline_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use bowline_base::words::{DirectWords, LineWords, Words};
use bowline_uct::{Armed, PeerFailure, Wakeup};

use super::*;
use crate::area::Area;

fn ranks(count: u32, options: &ShmOptions) -> (JobMemory, Vec<ShmIface>) {
    let job = job(count, options);
    let all = (0..count)
        .map(|local| ShmIface::open(job.clone(), local, options.clone()).unwrap())
        .collect();
    (job, all)
}

/// Every single bit of a ring's next slots, and of its words: at worst its owner has failed.
#[test]
fn a_damaged_ring_is_its_owners_fault() {
    let _dog = watchdog();
    let options = ShmOptions { promote_after: 1, ring_slots: 8, ..ShmOptions::default() };
    let mut failures = 0;
    for (line, word) in (4..7).flat_map(|line| (0..8).map(move |word| (line, word))) {
        for bit in (0..64).step_by(5) {
            let (job, mut all) = ranks(3, &options);
            let mut other = all.pop().unwrap();
            let mut sender = all.pop().unwrap();
            let mut root = all.pop().unwrap();
            let ep = sender.connect(&root.address()).unwrap();
            let from_other = other.connect(&root.address()).unwrap();
            let (mut seen, mut mine) = (Seen::default(), Seen::default());
            for number in 0..4 {
                post(&mut sender, &mut mine, ep, number, &[number as u8; 100]);
            }
            let area = Area::join(&job, 0).unwrap();
            // The ring that the sender claims first.
            let words = area.ring_words(0).unwrap();
            let cell = words.line(line);
            let value = cell.load(word, Ordering::Relaxed) ^ (1 << bit);
            cell.store(word, value, Ordering::Relaxed);
            for _ in 0..50 {
                root.progress(&mut seen, 8);
            }
            assert!(seen.messages.len() <= 4);
            failures += seen.failed.len();
            if let Some(failed) = seen.failed.first() {
                assert_eq!(*failed, (Some(Source(1)), None, PeerFailure::Damaged));
                assert_eq!(seen.failed.len(), 1, "reported once");
            }
            // The others go on.
            post(&mut other, &mut mine, from_other, 77, b"sound");
            until(&mut root, &mut seen, |seen| seen.messages.iter().any(|m| m.1[0] == 77));
        }
    }
    assert!(failures > 20, "only {failures} damages were noticed");
}

/// Random words all over the shared queue, its control words too.
#[test]
fn a_damaged_queue_fails_its_sources_and_nobody_hangs() {
    let _dog = watchdog();
    let options = ShmOptions { rings: 0, scmp_slots: 64, max_bcopy: 256, ..ShmOptions::default() };
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 20) as usize
    };
    let (mut poisoned, mut skipped, mut whole) = (0, 0, 0);
    for round in 0..400 {
        let (job, mut all) = ranks(2, &options);
        let mut sender = all.pop().unwrap();
        let mut root = all.pop().unwrap();
        let ep = sender.connect(&root.address()).unwrap();
        let back = root.connect(&sender.address()).unwrap();
        let (mut seen, mut mine) = (Seen::default(), Seen::default());
        for number in 0..10 {
            post(&mut sender, &mut mine, ep, number, &[1; 60]);
        }
        let area = Area::join(&job, 0).unwrap();
        let words = area.scmp_words();
        for _ in 0..1 + round % 4 {
            // The control lines as often as the slots in use.
            let line = if next() % 2 == 0 { 1 + next() % 3 } else { 4 + next() % 20 };
            let (word, bit) = (next() % 8, next() % 64);
            let cell = words.line(line);
            let value = cell.load(word, Ordering::Relaxed) ^ (1 << bit);
            cell.store(word, value, Ordering::Relaxed);
        }
        // More than fit, and the receiver's share of polls: the queue goes on, or both get a failure.
        let mut sent = 10;
        for number in 10..2 * CALLS {
            root.progress(&mut seen, 8);
            if number < 200 && sender.am_short(ep, ID, &[number, 0, 0], &[1; 8]).is_ok() {
                sent += 1;
            }
            sender.progress(&mut mine, 8);
        }
        poisoned += usize::from(root.receiver.poisoned);
        if seen.failed.is_empty() {
            // A word that means nothing was hit, or messages were overwritten by others of their own
            // sender, which the layer above finds by their numbers. The queue goes on.
            post(&mut sender, &mut mine, ep, 12345, b"sound");
            until(&mut root, &mut seen, |seen| seen.messages.iter().any(|m| m.1[0] == 12345));
            whole += usize::from(seen.messages.len() == sent + 1);
            continue;
        }
        // A damaged slot may name any source, which has failed then as well.
        let reported: Vec<_> = seen.failed.iter().filter(|f| f.0 == Some(Source(1))).collect();
        assert_eq!(reported, [&(Some(Source(1)), Some(back), PeerFailure::Damaged)]);
        assert_eq!(mine.failed, [(Some(Source(0)), Some(ep), PeerFailure::Damaged)]);
        skipped += 1;
        assert!(matches!(root.am_short(back, ID, &[0; 3], &[]), Err(PostError::PeerFailed)));
        assert!(matches!(sender.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed)));
    }
    assert!(poisoned > 20 && skipped > poisoned, "{poisoned} poisoned, {skipped} damaged");
    assert!(whole > 20, "{whole} rounds in which nothing was lost");
}

/// Calls of `progress` within which damage is found, and some for what follows from it. One that
/// sleeps finds it before it does.
const CALLS: u64 = 32768 + 256;

/// What a rank does that waits: progress, and from time to time the way to sleep. Whether it would
/// sleep now, with nobody ringing.
fn rests(iface: &mut ShmIface, seen: &mut Seen) -> bool {
    for _ in 0..16 {
        iface.progress(seen, 8);
    }
    let asleep = iface.arm(false) == Armed::Ready;
    if asleep && iface.bell.is_rung() {
        iface.disarm();
        return false;
    }
    asleep
}

/// Somebody who lives on reserves slots of a queue and writes nothing there. Everybody who sends by
/// the queue gets a failure, whether the ranks poll or sleep.
#[test]
fn a_reservation_that_nobody_made_is_reported_to_all_who_send() {
    let _dog = watchdog();
    let options = ShmOptions { rings: 0, scmp_slots: 64, max_bcopy: 256, ..ShmOptions::default() };
    for (stray, sleeps) in [(1, false), (64, false), (1 << 20, false), (1, true), (64, true)] {
        let (job, mut all) = ranks(3, &options);
        let mut other = all.pop().unwrap();
        let mut sender = all.pop().unwrap();
        let mut root = all.pop().unwrap();
        let (ep, from_other) =
            (sender.connect(&root.address()).unwrap(), other.connect(&root.address()).unwrap());
        let (mut seen, mut mine, mut its) = (Seen::default(), Seen::default(), Seen::default());
        post(&mut sender, &mut mine, ep, 1, b"before");
        until(&mut root, &mut seen, |seen| seen.messages.len() == 1);
        let area = Area::join(&job, 0).unwrap();
        area.scmp_words().line(1).add(0, stray, Ordering::SeqCst);
        let (mut at_rest, mut refused) = (false, false);
        for number in 0..4 * CALLS {
            for (iface, seen, ep) in
                [(&mut sender, &mut mine, ep), (&mut other, &mut its, from_other)]
            {
                if matches!(
                    iface.am_short(ep, ID, &[number, 0, 0], &[]),
                    Err(PostError::NoResource)
                ) {
                    refused = true;
                }
                iface.progress(seen, 8);
            }
            if !sleeps {
                root.progress(&mut seen, 8);
            } else if !at_rest || root.bell.is_rung() {
                root.disarm();
                at_rest = rests(&mut root, &mut seen);
            }
            if !seen.failed.is_empty() && !mine.failed.is_empty() && !its.failed.is_empty() {
                break;
            }
        }
        let damaged = |seen: &Seen| seen.failed.iter().all(|f| f.2 == PeerFailure::Damaged);
        for (name, seen, count) in [("root", &seen, 2), ("sender", &mine, 1), ("other", &its, 1)] {
            assert_eq!(seen.failed.len(), count, "{name} after {stray}, asleep: {sleeps}");
            assert!(damaged(seen), "{:?}", seen.failed);
        }
        let _ = refused;
    }
}

/// Senders that sleep until there is space in a queue that will never have any are woken and get an error.
#[test]
fn a_sender_that_sleeps_for_space_gets_the_damage() {
    let _dog = watchdog();
    let options = ShmOptions { rings: 0, scmp_slots: 64, max_bcopy: 256, ..ShmOptions::default() };
    let (job, mut all) = ranks(2, &options);
    let mut sender = all.pop().unwrap();
    let mut root = all.pop().unwrap();
    let ep = sender.connect(&root.address()).unwrap();
    let (mut seen, mut mine) = (Seen::default(), Seen::default());
    Area::join(&job, 0).unwrap().scmp_words().line(1).add(0, 64, Ordering::SeqCst);
    assert_eq!(sender.am_short(ep, ID, &[0; 3], &[]), Err(PostError::NoResource));
    sender.want_writable(ep);
    // Both go to sleep whenever they can, and only who is rung goes on.
    let (mut asleep, mut root_asleep) = (false, false);
    while mine.failed.is_empty() {
        for (iface, seen, asleep) in
            [(&mut sender, &mut mine, &mut asleep), (&mut root, &mut seen, &mut root_asleep)]
        {
            if !*asleep || iface.bell.is_rung() {
                iface.disarm();
                *asleep = rests(iface, seen);
            }
        }
        let rung = sender.bell.is_rung() || root.bell.is_rung();
        assert!(!asleep || !root_asleep || rung || !mine.failed.is_empty(), "both sleep on");
    }
    assert_eq!(mine.failed, [(Some(Source(0)), Some(ep), PeerFailure::Damaged)]);
}

/// The word of a ring's next slot is overwritten before it was read. With a message behind it that is
/// found; both sides get a failure, and the ring serves somebody else when its owner has gone.
#[test]
fn an_overwritten_slot_of_a_ring_is_found_by_the_message_behind_it() {
    let _dog = watchdog();
    let options = ShmOptions { promote_after: 1, rings: 1, ring_slots: 8, ..ShmOptions::default() };
    for word in [0, 7, 0x1234_5678_9abc_def0, u64::MAX] {
        let (job, mut all) = ranks(3, &options);
        let mut other = all.pop().unwrap();
        let mut sender = all.pop().unwrap();
        let mut root = all.pop().unwrap();
        let ep = sender.connect(&root.address()).unwrap();
        let (mut seen, mut mine) = (Seen::default(), Seen::default());
        for number in 0..3 {
            post(&mut sender, &mut mine, ep, number, &[1; 8]);
        }
        until(&mut root, &mut seen, |seen| seen.messages.len() == 3);
        let words = Area::join(&job, 0).unwrap().ring_words(0).unwrap();
        let written: Vec<u64> =
            (0..8).map(|slot| words.line(4 + 2 * slot).load(0, Ordering::Relaxed)).collect();
        post(&mut sender, &mut mine, ep, 3, &[1; 8]);
        post(&mut sender, &mut mine, ep, 4, &[1; 8]);
        let fresh = (0..8)
            .find(|&slot| words.line(4 + 2 * slot).load(0, Ordering::Relaxed) != written[slot])
            .expect("two slots were written");
        words.line(4 + 2 * fresh).store(0, word, Ordering::SeqCst);
        for _ in 0..2 * CALLS {
            root.progress(&mut seen, 8);
            sender.progress(&mut mine, 8);
        }
        assert_eq!(seen.failed, [(Some(Source(1)), None, PeerFailure::Damaged)], "{word:#x}");
        assert_eq!(mine.failed, [(Some(Source(0)), Some(ep), PeerFailure::Damaged)], "{word:#x}");
        assert_eq!(sender.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed));
        // The only ring is lost as long as its owner is there, and no longer.
        let from_other = other.connect(&root.address()).unwrap();
        drop(sender);
        until(&mut root, &mut seen, |_| true);
        for _ in 0..200 {
            root.progress(&mut seen, 8);
        }
        let mut its = Seen::default();
        for number in 0..10 {
            post(&mut other, &mut its, from_other, number, &[1; 8]);
            root.progress(&mut seen, 8);
        }
        assert!(other.eps[0].owns_ring(), "{word:#x}");
        assert_eq!(seen.failed.len(), 1, "reported once");
    }
}

/// Every word of the control parts of a rank's area and of its control block, set to several values
/// while two ranks talk to it. Whatever it does, every message comes or its sender gets an error.
#[test]
fn no_control_word_silences_anybody() {
    let _dog = watchdog();
    let options = ShmOptions {
        promote_after: 3,
        rings: 2,
        ring_slots: 8,
        scmp_slots: 16,
        max_bcopy: 256,
        ring_data: 4096,
        first_ring_data: 4096,
        guests: 1,
        registrations: 16,
        ..ShmOptions::default()
    };
    #[derive(Clone, Copy, Debug)]
    enum Part {
        Header,
        Attention,
        Queue,
        Ring(u32),
        SpaceWanted,
        WaitingOn,
        Intent,
    }
    let places = [(Part::Header, 8), (Part::Attention, 1), (Part::Queue, 4 * 8)]
        .into_iter()
        .chain([(Part::Ring(0), 4 * 8), (Part::Ring(1), 4 * 8)])
        .chain([(Part::SpaceWanted, 1), (Part::WaitingOn, 1), (Part::Intent, 1)]);
    let mut reported = 0;
    for (part, word) in places.flat_map(|(part, words)| (0..words).map(move |word| (part, word))) {
        // Values that cannot be, and some that are near what is there.
        let set = [0, 1, 0x8000_0000, 0x4141_4141_4141_4141, u64::MAX].map(|value| (value, 0));
        let flip = [1, 2, 0x20, 1 << 33].map(|mask| (mask, u64::MAX));
        for (value, keep) in set.into_iter().chain(flip) {
            // A word of 64 bits, and one of 32, after the change.
            let changed = |word: &AtomicU64| (word.load(Ordering::SeqCst) & keep) ^ value;
            let narrow =
                |word: &AtomicU32| (word.load(Ordering::SeqCst) & keep as u32) ^ value as u32;
            let (job, mut all) = ranks(3, &options);
            let mut senders = all.split_off(1);
            let mut root = all.pop().unwrap();
            let to_root = root.address();
            let eps: Vec<EpId> = senders.iter_mut().map(|s| s.connect(&to_root).unwrap()).collect();
            let mut seen = Seen::default();
            let mut theirs = [Seen::default(), Seen::default()];
            let mut sent = [0u64; 2];
            let area = Area::join(&job, 0).unwrap();
            let control = job.control(0).unwrap();
            for round in 0..4 * CALLS {
                if round == 40 {
                    let store = |words: DirectWords| {
                        let line = words.line(word / 8);
                        let old = line.load(word % 8, Ordering::SeqCst);
                        line.store(word % 8, (old & keep) ^ value, Ordering::SeqCst);
                    };
                    match part {
                        // SAFETY: the header's line is atomics, eight words of it.
                        Part::Header => unsafe {
                            let words = std::ptr::from_ref(area.header()).cast::<AtomicU64>();
                            let word = &*words.add(word);
                            word.store(changed(word), Ordering::SeqCst);
                        },
                        Part::Attention => {
                            let word = &area.attention().word;
                            word.store(narrow(word), Ordering::SeqCst);
                        }
                        Part::Queue => store(area.scmp_words()),
                        Part::Ring(ring) => store(area.ring_words(ring).unwrap()),
                        Part::SpaceWanted => control
                            .space_wanted
                            .store(narrow(&control.space_wanted), Ordering::SeqCst),
                        Part::WaitingOn => {
                            control.waiting_on.store(narrow(&control.waiting_on), Ordering::SeqCst)
                        }
                        Part::Intent => {
                            control.intent.store(changed(&control.intent), Ordering::SeqCst)
                        }
                    }
                }
                for (nth, sender) in senders.iter_mut().enumerate() {
                    if sent[nth] < 100
                        && sender.am_short(eps[nth], ID, &[sent[nth], 0, 0], &[7; 40]).is_ok()
                    {
                        sent[nth] += 1;
                    }
                    sender.progress(&mut theirs[nth], 8);
                }
                // Less often than they send, so that queues and rings are full at times.
                if round % 4 == 0 {
                    root.progress(&mut seen, 4);
                }
                let over = |nth: usize| {
                    let last =
                        |m: &(u32, AmHeader, Vec<u8>)| m.0 as usize == nth + 1 && m.1[0] == 99;
                    seen.messages.iter().any(last) || !theirs[nth].failed.is_empty()
                };
                if round > 60 && over(0) && over(1) {
                    break;
                }
            }
            for nth in 0..2 {
                let of_it = |m: &&(u32, AmHeader, Vec<u8>)| m.0 as usize == nth + 1;
                let come = seen.messages.iter().filter(of_it).count();
                let last = seen.messages.iter().filter(of_it).any(|m| m.1[0] == 99);
                let failed = !theirs[nth].failed.is_empty();
                reported += usize::from(failed);
                // A counter that is only a little wrong has senders overwrite what others wrote, which
                // the numbers of the layer above find; but they go on.
                assert!(
                    come == 100 || failed || (last && keep != 0),
                    "{part:?} word {word}, {value:#x}: {come} of {} messages, sender {nth} waits",
                    sent[nth]
                );
            }
        }
    }
    assert!(reported > 20, "only {reported} were reported");
}

/// The sender's side: a receiver that writes nonsense into the heads and counters that senders
/// read.
#[test]
fn a_damaged_head_fails_the_endpoint() {
    let _dog = watchdog();
    let options = ShmOptions { promote_after: 1, ring_slots: 8, ..ShmOptions::default() };
    for value in [u64::MAX, 1 << 40, 9999] {
        let (job, mut all) = ranks(2, &options);
        let sender = &mut all[1];
        let address = crate::addr::Address { local: 0, ..sender.me };
        let identity = job.control(0).unwrap().identity().unwrap();
        let address = crate::addr::Address { instance: identity.instance, ..address };
        let ep = sender.connect(&address.pack()).unwrap();
        let mut mine = Seen::default();
        for number in 0..4 {
            post(sender, &mut mine, ep, number, &[]);
        }
        let words = Area::join(&job, 0).unwrap().ring_words(0).unwrap();
        words.line(2).store(0, value, Ordering::Relaxed);
        let error = (0..100)
            .find_map(|number| sender.am_short(ep, ID, &[number, 0, 0], &[]).err())
            .expect("the ring holds eight");
        assert_eq!(error, PostError::PeerFailed);
        sender.progress(&mut mine, 8);
        assert_eq!(mine.failed, [(Some(Source(0)), Some(ep), PeerFailure::Damaged)]);
    }
}

#[test]
fn a_header_that_lies_is_refused_when_connecting() {
    let options = ShmOptions::default();
    let (job, mut all) = ranks(2, &options);
    let address = all[1].address();
    let area = Area::join(&job, 1).unwrap();
    let root = &mut all[0];
    let header = area.header();
    for (word, value) in [
        (&header.ring_slots, 1 << 30),
        (&header.rings, 60),
        (&header.scmp_slots, 0),
        (&header.version, 9),
        (&header.state, 17),
        (&header.max_bcopy, 300),
    ] {
        let honest = word.swap(value, Ordering::Relaxed);
        let error = root.connect(&address).unwrap_err().to_string();
        assert!(error.len() > 20, "{error}");
        word.store(honest, Ordering::Relaxed);
    }
    root.connect(&address).unwrap();
}

#[test]
fn memory_that_is_too_small_or_used_is_refused_with_the_way_out() {
    let options = ShmOptions::default();
    let larger = ShmOptions { rings: 16, ..options.clone() };
    let job = job(2, &options);
    let error = ShmIface::open(job.clone(), 0, larger).unwrap_err().to_string();
    assert!(error.contains("BOWLINE_SHM_"), "{error}");
    assert!(ShmIface::open(job.clone(), 7, options.clone()).is_err());
    let first = ShmIface::open(job.clone(), 1, options.clone()).unwrap();
    let error = ShmIface::open(job.clone(), 1, options.clone()).unwrap_err().to_string();
    assert!(error.contains("local rank 1"), "{error}");
    drop(first);
    assert!(ShmIface::open(job, 1, options).is_err(), "once in the life of a rank");
}

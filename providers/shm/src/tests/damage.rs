//! Damaged memory: what a peer may write, whatever it is, ends in an error of that peer or of the
//! queue; never in a hang, a panic or an access outside.

use bowline_base::sync::atomic::Ordering;
use bowline_base::words::{LineWords, Words};
use bowline_uct::PeerFailure;

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
                assert_eq!(seen.failed.len(), 1, "told once");
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
    let (mut poisoned, mut skipped) = (0, 0);
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
        for number in 0..200 {
            root.progress(&mut seen, 8);
            let _ = sender.am_short(ep, ID, &[number, 0, 0], &[1; 8]);
            sender.progress(&mut mine, 8);
        }
        // A damaged reservation count looks like a producer at work; a death settles it.
        std::mem::forget(sender);
        job.mark_dead(1);
        until(&mut root, &mut seen, |seen| {
            seen.failed.iter().any(|failed| failed.0 == Some(Source(1)))
        });
        assert_eq!(seen.failed.iter().filter(|f| f.0 == Some(Source(1))).count(), 1);
        poisoned += usize::from(root.receiver.poisoned);
        skipped += usize::from(seen.failed[0].2 == PeerFailure::Damaged);
        assert!(matches!(root.am_short(back, ID, &[0; 3], &[]), Err(PostError::PeerFailed)));
    }
    assert!(poisoned > 20 && skipped > poisoned, "{poisoned} poisoned, {skipped} damaged");
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

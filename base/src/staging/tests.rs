//! Random collectives of threads over words on the heap, compared with what they must bring; and every word
//! of the tables overwritten.

use super::*;
use crate::words::HeapWords;

const SLOT: usize = 4 * LINE;
const CELL: usize = 100;

const fn geometry(ranks: u32, slots: u32) -> Geometry {
    let apart = ranks.is_multiple_of(2);
    Geometry { ranks, slots, slot_bytes: SLOT, apart, cell_bytes: CELL }
}

/// A step in which `writer` writes, or everybody, and everybody reads; or one that is combined.
#[derive(Clone, Copy, Debug)]
enum Kind {
    From(u32),
    All,
    Combined,
}

/// Numbers that seem random, the same for the same seed.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn kinds(ranks: u32, count: usize, mut seed: u64) -> Vec<Kind> {
    let kind = |_| match next(&mut seed) % 3 {
        0 => Kind::From(next(&mut seed) as u32 % ranks),
        1 => Kind::All,
        _ => Kind::Combined,
    };
    (0..count).map(kind).collect()
}

/// What a member writes in a step.
fn bytes_of(step: u64, rank: u32) -> [u8; 16] {
    std::array::from_fn(|index| (step * 31 + u64::from(rank) * 7 + index as u64) as u8)
}

fn wait(member: &StagingMember, memory: &HeapWords, what: StagingProgress) {
    while !member.is_there(memory, what).unwrap() {
        std::thread::yield_now();
    }
}

fn read(member: &StagingMember, memory: &HeapWords, step: u64, rank: u32) {
    wait(member, memory, Written(rank, step));
    let mut out = [0; 16];
    member.get(memory, step, rank as usize * 16, &mut out);
    assert_eq!(out, bytes_of(step, rank), "step {step} of {rank}");
    if member.rank != rank {
        assert_eq!(member.stated(memory, rank), step << 8 | u64::from(rank));
    }
    let mut out = [0; 16];
    member.get_cell(memory, rank, 80, &mut out);
    assert_eq!(out, bytes_of(step + 1, rank), "call {step} of {rank}");
}

fn follow(member: &mut StagingMember, memory: &HeapWords, kind: Kind) {
    let (rank, ranks, step) = (member.rank, member.geometry.ranks, member.next());
    let result = ranks as usize * 16;
    let writes = !matches!(kind, Kind::From(writer) if writer != rank);
    if writes {
        while member.holds_up(memory, step).unwrap().is_some() {
            std::thread::yield_now();
        }
        member.put(memory, step, rank as usize * 16, &bytes_of(step, rank));
        while member.holds_up_call(memory).unwrap().is_some() {
            std::thread::yield_now();
        }
        member.put_cell(memory, 80, &bytes_of(step + 1, rank));
        let _ = member.state(memory, step << 8 | u64::from(rank));
        let _ = member.write(memory, step);
    }
    match kind {
        Kind::From(writer) if writer == rank => {}
        Kind::From(writer) => read(member, memory, step, writer),
        Kind::All => (0..ranks).for_each(|other| read(member, memory, step, other)),
        Kind::Combined => {
            let sum = |from: &dyn Fn(u32) -> [u8; 16]| {
                (0..ranks).fold(0_u64, |sum, other| sum + u64::from(from(other)[5]))
            };
            if member.claims(memory, step).unwrap() {
                let found = |other: u32| {
                    let mut out = [0; 16];
                    member.get(memory, step, other as usize * 16, &mut out);
                    out
                };
                member.put(memory, step, result, &sum(&found).to_le_bytes());
                let _ = member.combined(memory, step);
            }
            wait(member, memory, Combined(step));
            let mut out = [0; 8];
            member.get(memory, step, result, &mut out);
            assert_eq!(u64::from_le_bytes(out), sum(&|other| bytes_of(step, other)));
        }
    }
    let _ = member.end(memory, 1);
}

#[test]
fn threads_bring_each_other_what_they_write() {
    for (ranks, slots, seed) in [(2, 1, 1), (3, 2, 2), (5, 4, 3), (11, 16, 4)] {
        let memory = HeapWords::new(geometry(ranks, slots).bytes());
        let kinds = kinds(ranks, 100, seed);
        std::thread::scope(|scope| {
            for rank in 0..ranks {
                let (memory, kinds) = (&memory, &kinds);
                scope.spawn(move || {
                    let mut member = StagingMember::new(rank, geometry(ranks, slots));
                    kinds.iter().for_each(|&kind| follow(&mut member, memory, kind));
                });
            }
        });
    }
}

#[test]
fn a_writer_is_held_up_by_the_slowest_reader() {
    let memory = HeapWords::new(geometry(3, 2).bytes());
    let mut members: Vec<_> = (0..3).map(|rank| StagingMember::new(rank, geometry(3, 2))).collect();
    for step in 1..=2 {
        assert_eq!(members[0].holds_up(&memory, step), Ok(None));
        let _ = members[0].write(&memory, step);
    }
    assert_eq!(members[0].holds_up(&memory, 3), Ok(Some(Finished(1, 1))));
    let _ = members[1].finish(&memory, 2);
    assert_eq!(members[0].holds_up(&memory, 3), Ok(Some(Finished(2, 1))));
    let _ = members[2].finish(&memory, 1);
    assert_eq!(members[0].holds_up(&memory, 3), Ok(None));
    assert_eq!(members[0].holds_up(&memory, 4), Ok(Some(Finished(2, 2))));
}

#[test]
fn a_collective_may_have_steps_that_a_member_leaves_out() {
    let memory = HeapWords::new(geometry(2, 2).bytes());
    let mut members = [0, 1].map(|rank| StagingMember::new(rank, geometry(2, 2)));
    for member in &mut members {
        let _ = member.write(&memory, 1);
        let _ = member.end(&memory, 7);
        assert_eq!(member.next(), 8);
        assert_eq!(member.poll(&memory), Ok(()));
    }
    assert_eq!(members[0].holds_up(&memory, 8), Ok(None));
}

#[test]
fn a_call_is_held_up_by_who_has_not_finished_an_earlier_one() {
    let memory = HeapWords::new(geometry(2, 4).bytes());
    let mut members = [0, 1].map(|rank| StagingMember::new(rank, geometry(2, 4)));
    for call in 1..CELLS {
        assert_eq!(members[0].holds_up_call(&memory), Ok(None));
        assert_eq!(members[0].call(), call);
        let _ = members[0].state(&memory, 7);
        assert_eq!(members[1].is_there(&memory, Stated(0, call)), Ok(true));
        let _ = members[0].end_call(&memory);
    }
    let missing = Stated(1, 1);
    assert_eq!(members[0].holds_up_call(&memory), Ok(Some(missing)));
    members[0].announce_sleep(&memory, missing);
    assert_eq!(members[1].stated(&memory, 0), 7);
    // A member that brings nothing states the call at its end.
    assert!(members[1].end_call(&memory) && members[1].wakes(&memory, 0));
    assert_eq!(members[0].holds_up_call(&memory), Ok(None));
}

#[test]
#[should_panic(expected = "leave their cell")]
fn data_stays_in_its_cell() {
    let memory = HeapWords::new(geometry(2, 2).bytes());
    StagingMember::new(0, geometry(2, 2)).put_cell(&memory, CELL - 4, &[1; 8]);
}

#[test]
fn sleepers_are_woken_once_and_for_what_they_wait_for() {
    let memory = HeapWords::new(geometry(3, 2).bytes());
    let mut members: Vec<_> = (0..3).map(|rank| StagingMember::new(rank, geometry(3, 2))).collect();
    members[0].announce_sleep(&memory, Written(2, 1));
    members[1].announce_sleep(&memory, Finished(2, 5));
    assert!(!members[2].wakes(&memory, 0), "nothing has happened");
    assert!(members[2].write(&memory, 1), "sleepers are counted");
    assert!(members[2].wakes(&memory, 0) && !members[2].wakes(&memory, 0));
    assert!(!members[0].withdraw_sleep(&memory), "it was taken back");
    assert!(!members[2].wakes(&memory, 1));
    assert!(members[1].withdraw_sleep(&memory));
    assert!(!members[2].finish(&memory, 5), "nobody sleeps");
    members[1].announce_sleep(&memory, Combined(3));
    assert!(members[0].combined(&memory, 3));
    assert!(members[0].wakes(&memory, 1));
}

#[test]
fn a_failure_wakes_the_sleepers() {
    let memory = HeapWords::new(geometry(3, 1).bytes());
    let mut members: Vec<_> = (0..3).map(|rank| StagingMember::new(rank, geometry(3, 1))).collect();
    members[0].announce_sleep(&memory, Written(1, 1));
    members[2].fail(&memory);
    assert!(members[2].wakes(&memory, 0));
    assert!(members[0].poll(&memory).is_err() && members[1].poll(&memory).is_err());
    assert!(members[1].is_there(&memory, Written(2, 1)).is_err());
    let _ = members[0].finish(&memory, 1);
    assert!(members[1].holds_up(&memory, 2).is_err());
}

#[test]
fn a_claim_is_for_one_member_and_one_step() {
    let memory = HeapWords::new(geometry(2, 1).bytes());
    let mut members = [0, 1].map(|rank| StagingMember::new(rank, geometry(2, 1)));
    for step in 1..=3 {
        let _ = members[0].write(&memory, step);
        assert_eq!(members[0].claims(&memory, step), Ok(false), "the other one is missing");
        let _ = members[1].write(&memory, step);
        assert_eq!(members[0].claims(&memory, step), Ok(true));
        assert_eq!(members[1].claims(&memory, step), Ok(false));
        assert_eq!(members[1].is_there(&memory, Combined(step)), Ok(false));
        let _ = members[0].combined(&memory, step);
        assert_eq!(members[1].is_there(&memory, Combined(step)), Ok(true));
        assert_eq!(members[1].claims(&memory, step), Ok(false));
    }
}

/// Each word of the tables is changed when members have done two steps. Nobody takes the change for
/// progress; whose word it is, and who reads it, finds it.
#[test]
fn a_changed_word_is_found() {
    const RANKS: u32 = 3;
    let changes: [fn(u64) -> u64; 5] = [
        |word| word.wrapping_add(1),
        |word| word.wrapping_add(1 << CHECK_BITS),
        |word| word ^ 1 << 40,
        |_| 77,
        |_| u64::MAX - 1,
    ];
    for change in changes {
        for table in 0..3 {
            for rank in 0..RANKS {
                let memory = HeapWords::new(geometry(RANKS, 1).bytes());
                let mut members: Vec<_> =
                    (0..RANKS).map(|rank| StagingMember::new(rank, geometry(RANKS, 1))).collect();
                for member in &mut members {
                    let _ = member.write(&memory, 2);
                    let _ = member.finish(&memory, 2);
                    let _ = member.state(&memory, 5);
                }
                let (line, at) =
                    members[0].place([Written(rank, 1), Finished(rank, 1), Stated(rank, 1)][table]);
                let before = memory.line(line).load(at, Ordering::Relaxed);
                memory.line(line).store(at, change(before), Ordering::Relaxed);
                for member in members.iter().filter(|member| table < 2 || member.rank == rank) {
                    assert!(member.poll(&memory).is_err(), "{table} {rank}");
                }
                let what = [Written(rank, 3), Finished(rank, 3), Stated(rank, 1)][table];
                assert!(members[((rank + 1) % RANKS) as usize].is_there(&memory, what).is_err());
            }
        }
    }
}

/// What was stored is lost: the others wait, and who has stored it finds out.
#[test]
fn lost_progress_is_found_by_whose_it_is() {
    let memory = HeapWords::new(geometry(2, 1).bytes());
    let mut member = StagingMember::new(1, geometry(2, 1));
    let _ = member.write(&memory, 4);
    let (line, at) = member.table_at(0, 1);
    memory.line(line).store(at, encode(WRITTEN, 1, 3), Ordering::Relaxed);
    let mut other = StagingMember::new(0, geometry(2, 1));
    assert_eq!(other.is_there(&memory, Written(1, 4)), Ok(false));
    assert_eq!(other.poll(&memory), Ok(()));
    assert!(member.poll(&memory).is_err());
    member.fail(&memory);
    assert!(other.is_there(&memory, Written(1, 4)).is_err());
    other.fail(&memory);
}

#[test]
#[should_panic(expected = "leave their slot")]
fn data_stays_in_its_slot() {
    let memory = HeapWords::new(geometry(2, 2).bytes());
    StagingMember::new(0, geometry(2, 2)).put(&memory, 1, SLOT - 8, &[1; 16]);
}

#[test]
fn the_memory_has_a_place_for_each() {
    for ranks in [1, 2, 7, 8, 9, 64, 1000] {
        let geometry = geometry(ranks, 3);
        let memory = HeapWords::new(geometry.bytes());
        assert_eq!(memory.lines() * LINE, geometry.bytes());
        let mut last = StagingMember::new(ranks - 1, geometry);
        for step in 1..=3 {
            last.put(&memory, step, 0, &[7; SLOT]);
            let _ = last.write(&memory, step);
        }
        last.put_cell(&memory, 0, &[9; CELL]);
        let _ = last.state(&memory, 5);
        for step in 1..=3 {
            let mut out = [0; SLOT];
            last.get(&memory, step, 0, &mut out);
            assert_eq!(out, [7; SLOT]);
        }
        let mut out = [0; CELL];
        last.get_cell(&memory, ranks - 1, 0, &mut out);
        assert_eq!((out, last.stated(&memory, ranks - 1)), ([9; CELL], 5));
    }
}

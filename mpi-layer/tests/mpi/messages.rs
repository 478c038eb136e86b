//! Blocking messages.

use bowline_mpi::{ANY_SOURCE, ANY_TAG, MpiError, PROC_NULL, TAG_UB, World};

use super::start::ranks;

/// Lengths around the limits between protocols: within a slot, one message, several, rendezvous.
const LENGTHS: [usize; 10] = [0, 1, 5, 40, 41, 1000, 5000, 9000, 70_000, 1_000_000];

fn ring(world: &World) -> (i32, i32) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn pattern(rank: i32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + rank as u64 * 7) as u8).collect()
}

#[test]
fn messages_of_every_length_go_around_the_ring() {
    for size in 1..=9 {
        ranks(size, |world| {
            let (right, left) = ring(world);
            for (tag, len) in (0..).zip(LENGTHS) {
                let out = pattern(world.rank(), len);
                let mut into = vec![0; len];
                let status = world.sendrecv(&out, right, tag, &mut into, left, tag).unwrap();
                assert_eq!((status.source(), status.tag()), (left, tag));
                assert_eq!(status.count::<u8>(), Some(len));
                assert_eq!(into, pattern(left, len));
            }
        });
    }
}

#[test]
fn blocking_sends_and_receives_pair_up() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for len in LENGTHS {
            let mut into = vec![0u8; len];
            if world.rank() == 0 {
                world.send(&pattern(0, len), other, 3).unwrap();
                world.recv(&mut into, other, 4).unwrap();
                assert_eq!(into, pattern(1, len));
            } else {
                world.recv(&mut into, other, 3).unwrap();
                assert_eq!(into, pattern(0, len));
                world.ssend(&pattern(1, len), other, 4).unwrap();
            }
        }
    });
}

#[test]
fn a_rank_sends_to_itself() {
    ranks(2, |world| {
        let me = world.rank();
        for len in LENGTHS {
            let mut into = vec![0; len];
            let status = world.sendrecv(&pattern(me, len), me, 1, &mut into, me, 1).unwrap();
            assert_eq!(status.source(), me);
            assert_eq!(into, pattern(me, len));
        }
        world.own().send(&[5u32], 0, 0).unwrap();
        let mut into = [0u32];
        world.own().recv(&mut into, 0, 0).unwrap();
        assert_eq!(into, [5]);
    });
}

#[test]
fn wildcards_say_who_sent_what() {
    ranks(5, |world| {
        if world.rank() != 0 {
            let items = vec![world.rank() as u16; world.rank() as usize];
            return world.send(&items, 0, 100 + world.rank()).unwrap();
        }
        let mut seen = Vec::new();
        for _ in 1..5 {
            let mut into = [0u16; 8];
            let status = world.recv(&mut into, ANY_SOURCE, ANY_TAG).unwrap();
            let source = status.source();
            assert_eq!(status.tag(), 100 + source);
            assert_eq!(status.count::<u16>(), Some(source as usize));
            assert!(into[..source as usize].iter().all(|&item| i32::from(item) == source));
            seen.push(source);
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4]);
    });
}

#[test]
fn nobody_answers_at_once() {
    ranks(1, |world| {
        let mut into = [7u8];
        world.send(&[1u8], PROC_NULL, 0).unwrap();
        world.ssend(&[1u8], PROC_NULL, 0).unwrap();
        let status = world.recv(&mut into, PROC_NULL, 5).unwrap();
        assert_eq!((status.source(), status.tag(), status.bytes()), (PROC_NULL, ANY_TAG, 0));
        let status = world.sendrecv(&[1u8], PROC_NULL, 0, &mut into, PROC_NULL, 0).unwrap();
        assert_eq!(status.source(), PROC_NULL);
        assert_eq!(into, [7]);
    });
}

#[test]
fn a_message_that_is_too_long_is_cut_and_reported() {
    ranks(2, |world| {
        for (len, capacity) in [(8, 3), (5000, 100), (1_000_000, 70_000), (10, 0)] {
            if world.rank() == 0 {
                world.send(&pattern(0, len), 1, 0).unwrap();
                world.send(&[1u8], 1, 0).unwrap();
            } else {
                let mut into = vec![0; capacity];
                let error = world.recv(&mut into, 0, 0).unwrap_err();
                let (message, capacity) = (len as u64, capacity as u64);
                assert_eq!(error, MpiError::Truncated { message, capacity });
                assert_eq!(into, pattern(0, len)[..into.len()]);
                // The message is gone, and the next one is intact.
                assert_eq!(world.recv(&mut [0u8], 0, 0).unwrap().bytes(), 1);
            }
        }
    });
}

#[test]
fn wrong_arguments_are_reported_precisely() {
    ranks(2, |world| {
        let mut into = [0u8];
        for rank in [2, -4, i32::MIN, i32::MAX, ANY_SOURCE] {
            let wrong = MpiError::InvalidRank { rank, size: 2 };
            assert_eq!(world.send(&[0u8], rank, 0), Err(wrong));
            if rank != ANY_SOURCE {
                assert_eq!(world.recv(&mut into, rank, 0), Err(wrong));
                assert_eq!(world.iprobe(rank, 0), Err(wrong));
            }
        }
        for tag in [-1, ANY_TAG, i32::MIN] {
            assert_eq!(world.send(&[0u8], 0, tag), Err(MpiError::InvalidTag { tag }));
            if tag != ANY_TAG {
                assert_eq!(world.recv(&mut into, 0, tag), Err(MpiError::InvalidTag { tag }));
            }
        }
        // Also towards nobody, a wrong tag is wrong.
        assert!(world.send(&[0u8], PROC_NULL, -1).is_err());
        assert!(world.recv(&mut into, PROC_NULL, -7).is_err());
    });
}

#[test]
fn the_largest_tag_works() {
    ranks(2, |world| {
        let (right, left) = ring(world);
        let mut into = [0u32];
        let status = world.sendrecv(&[9u32], right, TAG_UB, &mut into, left, TAG_UB).unwrap();
        assert_eq!(status.tag(), TAG_UB);
        world.send(&[1u32], right, TAG_UB).unwrap();
        assert_eq!(world.recv(&mut into, left, ANY_TAG).unwrap().tag(), TAG_UB);
    });
}

#[test]
fn a_buffer_is_sent_and_replaced() {
    for size in 1..=5 {
        ranks(size, |world| {
            let (right, left) = ring(world);
            for len in LENGTHS {
                let mut items = pattern(world.rank(), len);
                world.sendrecv_replace(&mut items, right, 1, left, 1).unwrap();
                assert_eq!(items, pattern(left, len));
            }
        });
    }
}

#[test]
fn a_synchronous_send_waits_for_its_receive() {
    ranks(2, |world| {
        if world.rank() == 0 {
            world
                .scope(|s| {
                    use bowline_mpi::Request;
                    let mut request = s.issend(world, &[1u8], 1, 0)?;
                    // The other rank receives tag 0 only after it has seen tag 1, which is sent later.
                    for _ in 0..100 {
                        assert_eq!(request.test()?, None);
                    }
                    world.send(&[2u8], 1, 1)?;
                    request.wait()
                })
                .unwrap();
        } else {
            let mut into = [0u8];
            world.recv(&mut into, 0, 1).unwrap();
            assert_eq!(into, [2]);
            world.recv(&mut into, 0, 0).unwrap();
            assert_eq!(into, [1]);
        }
    });
}

#[test]
fn every_pair_exchanges_at_once() {
    ranks(7, |world| {
        let size = world.size() as usize;
        let out: Vec<_> = (0..size).map(|to| [world.rank() as u64, to as u64]).collect();
        let mut into = vec![[0u64; 2]; size];
        world
            .scope(|s| {
                for (from, place) in (0..).zip(into.chunks_mut(1)) {
                    let _ = s.irecv(world, place, from, 0)?;
                }
                for (to, item) in (0..).zip(out.chunks(1)) {
                    let _ = s.isend(world, item, to, 0)?;
                }
                Ok(())
            })
            .unwrap();
        for (from, item) in into.iter().enumerate() {
            assert_eq!(*item, [from as u64, world.rank() as u64]);
        }
    });
}

//! Nonblocking operations: scopes, requests, owned buffers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bowline_mpi::{
    ANY_SOURCE, AnyRequest, MpiError, PROC_NULL, Request, test_all, test_any, test_some, wait_all,
    wait_any, wait_some,
};

use super::start::ranks;

#[test]
fn a_scope_lends_its_buffers_back() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for len in [1usize, 100, 100_000] {
            let out = vec![world.rank(); len];
            let mut into = vec![-1; len];
            world
                .scope(|s| {
                    let receive = s.irecv(world, &mut into, other, 0)?;
                    let send = s.isend(world, &out, other, 0)?;
                    let received = receive.wait()?;
                    assert_eq!(received.status.count::<i32>(), Some(len));
                    assert!(received.items.iter().all(|&item| item == other));
                    received.items[0] = 77;
                    send.wait()
                })
                .unwrap();
            assert_eq!(into[0], 77);
        }
    });
}

#[test]
#[expect(clippy::forget_non_drop, reason = "what a user may do, whether or not there is a drop")]
fn forgotten_dropped_and_moved_requests_are_waited_for() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        let out = vec![world.rank() as u8; 300_000];
        let mut into = vec![vec![9u8; 300_000]; 3];
        let [first, second, third] = &mut into[..] else { unreachable!() };
        world
            .scope(|s| {
                std::mem::forget(s.irecv(world, first, other, 0)?);
                drop(s.irecv(world, second, other, 1)?);
                let moved = Box::new(s.irecv(world, third, other, 2)?);
                std::mem::forget(s.isend(world, &out, other, 0)?);
                drop(s.isend(world, &out, other, 1)?);
                let _later = Some(s.isend(world, &out, other, 2)?);
                let _moved_on = *moved;
                Ok(())
            })
            .unwrap();
        assert!(into.iter().flatten().all(|&byte| i32::from(byte) == other));
    });
}

#[test]
fn a_panic_in_a_scope_cancels_what_has_not_matched_and_waits_for_the_rest() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        let out = vec![1u8; 200_000];
        let (mut matched, mut never) = (vec![0u8; 200_000], vec![5u8; 100]);
        world.barrier().unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            world.scope(|s| -> Result<(), MpiError> {
                let _ = s.irecv(world, &mut never, other, 99)?;
                let mut receive = s.irecv(world, &mut matched, other, 0)?;
                let _ = s.isend(world, &out, other, 0)?;
                receive.complete()?;
                panic!("on purpose");
            })
        }));
        assert!(result.is_err());
        assert_eq!((matched[0], never[0]), (1, 5));
        // Both have cancelled.
        world.barrier().unwrap();
        // The cancelled receive takes nothing any more.
        world.send(&[8u8], other, 99).unwrap();
        let mut into = [0u8];
        world.recv(&mut into, other, 99).unwrap();
        assert_eq!((into[0], never[0]), (8, 5));
    });
}

#[test]
fn a_failed_scope_does_not_wait_for_what_may_never_come() {
    ranks(1, |world| {
        let mut into = [0u8; 4];
        let error = world.scope(|s| {
            let _ = s.irecv(world, &mut into, 0, 0)?;
            s.isend(world, &[1u8], 5, 0)?.wait()
        });
        assert_eq!(error, Err(MpiError::InvalidRank { rank: 5, size: 1 }));
    });
}

/// Both give up at the same time: neither waits for a receive that the other will never post.
#[test]
fn failed_scopes_take_their_sends_back() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for items in [1, 1000, 3_000_000] {
            let out = vec![7u8; items];
            let error = world.scope(|s| {
                let _ = s.issend(world, &out, other, 1)?;
                s.isend(world, &[1u8], 5, 0)?.wait()
            });
            assert_eq!(error, Err(MpiError::InvalidRank { rank: 5, size: 2 }));
        }
        world.barrier().unwrap();
        // Nothing of it is left behind.
        assert!(world.iprobe(other, 1).unwrap().is_none());
    });
}

#[test]
fn a_cancelled_send_says_so_and_a_matched_one_does_not() {
    ranks(2, |world| {
        let out = [1u8; 100];
        if world.rank() == 0 {
            world
                .scope(|s| {
                    let mut first = s.issend(world, &out, 1, 1)?;
                    let mut second = s.issend(world, &out, 1, 2)?;
                    world.barrier()?;
                    world.barrier()?;
                    second.cancel();
                    assert_eq!(second.wait(), Ok(()));
                    first.cancel();
                    assert_eq!(first.wait(), Err(MpiError::Cancelled));
                    world.barrier()
                })
                .unwrap();
        } else {
            world.barrier().unwrap();
            let mut into = [0u8; 100];
            world.recv(&mut into, 0, 2).unwrap();
            world.barrier().unwrap();
            world.barrier().unwrap();
            assert!(world.iprobe(0, 1).unwrap().is_none());
        }
    });
}

#[test]
fn a_scope_reports_failures_that_nobody_waited_for() {
    ranks(1, |world| {
        let mut into = [0u8; 2];
        let result = world.scope(|s| {
            let _ = s.irecv(world, &mut into, 0, 0)?;
            let _ = s.isend(world, &[1u8, 2, 3], 0, 0)?;
            Ok(())
        });
        assert_eq!(result, Err(MpiError::Truncated { message: 3, capacity: 2 }));
        assert_eq!(into, [1, 2]);
    });
}

#[test]
fn a_cancelled_receive_says_so_and_a_matched_one_does_not() {
    ranks(1, |world| {
        let (mut first, mut second) = ([0u8], [0u8]);
        world
            .scope(|s| {
                let mut receive = s.irecv(world, &mut first, 0, 1)?;
                receive.cancel();
                assert_eq!(receive.wait().unwrap_err(), MpiError::Cancelled);

                let mut receive = s.irecv(world, &mut second, 0, 2)?;
                world.send(&[4u8], 0, 2)?;
                assert_eq!(receive.test()?.map(|status| status.tag()), Some(2));
                receive.cancel();
                assert_eq!(receive.wait()?.items, [4]);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn operations_with_nobody_are_complete_at_once() {
    ranks(1, |world| {
        let mut into = [3u8];
        world
            .scope(|s| {
                let mut receive = s.irecv(world, &mut into, PROC_NULL, 0)?;
                assert_eq!(receive.test()?.map(|status| status.source()), Some(PROC_NULL));
                assert_eq!(receive.wait()?.items, [3]);
                s.isend(world, &[1u8], PROC_NULL, 0)?.wait()
            })
            .unwrap();
    });
}

#[test]
fn wait_any_reports_each_request_once() {
    ranks(4, |world| {
        if world.rank() != 0 {
            return world.send(&[world.rank()], 0, 0).unwrap();
        }
        let mut into = [0; 3];
        world
            .scope(|s| {
                let mut requests = Vec::new();
                for (source, place) in (1..).zip(into.chunks_mut(1)) {
                    requests.push(s.irecv(world, place, source, 0)?);
                }
                let mut seen = Vec::new();
                while let Some((index, outcome)) = wait_any(&mut requests) {
                    assert_eq!(outcome?.source() as usize, index + 1);
                    assert!(!requests[index].is_active());
                    assert_eq!(requests[index].outcome(), Some(outcome));
                    seen.push(index);
                }
                seen.sort_unstable();
                assert_eq!(seen, [0, 1, 2]);
                assert_eq!(test_any(&mut requests), None);
                assert!(wait_some(&mut requests).is_empty());
                for (source, request) in (1..).zip(requests) {
                    assert_eq!(request.wait()?.items, [source]);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn wait_any_favours_nobody() {
    ranks(1, |world| {
        let mut reported = [0; 4];
        for _ in 0..10 {
            let mut into = [0u8; 4];
            world
                .scope(|s| {
                    let mut requests = Vec::new();
                    for (tag, place) in (0..).zip(into.chunks_mut(1)) {
                        requests.push(s.irecv(world, place, 0, tag)?);
                    }
                    for tag in 0..4 {
                        world.send(&[1u8], 0, tag)?;
                    }
                    // All four are complete; only one of them is asked for.
                    wait_all(&mut [s.isend(world, &[0u8], PROC_NULL, 0)?])?;
                    while requests.iter_mut().any(|request| {
                        matches!(world.iprobe(ANY_SOURCE, 0), Ok(Some(_))) && request.is_active()
                    }) {}
                    let (index, _) = wait_any(&mut requests).expect("four are active");
                    reported[index] += 1;
                    Ok(())
                })
                .unwrap();
        }
        assert!(reported.iter().all(|&times| times > 0), "some are never reported: {reported:?}");
    });
}

#[test]
fn mixed_lists_complete_in_all_ways() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for round in 0..4 {
            let out = vec![round; 50_000];
            let mut into = vec![-1; 50_000];
            world
                .scope(|s| {
                    let mut requests: Vec<AnyRequest<'_>> = vec![
                        s.irecv(world, &mut into, other, round)?.into(),
                        s.isend(world, &out, other, round)?.into(),
                        s.isend(world, &[0u8], PROC_NULL, 0)?.into(),
                    ];
                    match round {
                        0 => assert_eq!(wait_all(&mut requests)?.len(), 3),
                        1 => while test_all(&mut requests)?.is_none() {},
                        2 => {
                            let mut done = 0;
                            while done < 3 {
                                let reported = wait_some(&mut requests);
                                assert!(!reported.is_empty());
                                done += reported.len();
                            }
                        }
                        _ => {
                            let mut done = 0;
                            while done < 3 {
                                done += test_some(&mut requests).len();
                                done += usize::from(test_any(&mut requests).is_some());
                            }
                        }
                    }
                    assert!(requests.iter().all(|request| !request.is_active()));
                    Ok(())
                })
                .unwrap();
            assert!(into.iter().all(|&item| item == round));
        }
    });
}

#[test]
fn wait_all_completes_all_and_reports_the_first_error() {
    ranks(1, |world| {
        let (mut short, mut long) = ([0u8; 1], [0u8; 4]);
        world
            .scope(|s| {
                let mut requests =
                    [s.irecv(world, &mut short, 0, 0)?, s.irecv(world, &mut long, 0, 1)?];
                world.send(&[1u8, 2], 0, 0)?;
                world.send(&[3u8, 4], 0, 1)?;
                let error = MpiError::Truncated { message: 2, capacity: 1 };
                assert_eq!(wait_all(&mut requests), Err(error));
                assert_eq!(requests[0].outcome(), Some(Err(error)));
                assert_eq!(requests[1].outcome().unwrap()?.bytes(), 2);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn owned_buffers_come_back() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        for len in [0usize, 10, 400_000] {
            let mut out = Vec::with_capacity(len + 17);
            out.resize(len, world.rank() as u64);
            let receive = world.irecv_owned(vec![9u64; len], other, 0).unwrap();
            let send = world.isend_owned(out, other, 0).unwrap();
            let (into, status) = receive.wait().unwrap();
            assert_eq!(status.count::<u64>(), Some(len));
            assert!(into.iter().all(|&item| item == other as u64));
            let out = send.wait().unwrap();
            assert_eq!((out.len(), out.capacity()), (len, len + 17));
        }
    });
}

#[test]
fn dropped_sends_arrive_and_dropped_receives_take_nothing() {
    ranks(2, |world| {
        if world.rank() == 0 {
            for item in 0..20u32 {
                drop(world.isend_owned(vec![item; 100_000], 1, 0).unwrap());
            }
            let mut into = [0u8];
            drop(world.irecv_owned(vec![0u8; 1], 1, 5).unwrap());
            world.recv(&mut into, 1, 5).unwrap();
            assert_eq!(into, [55]);
            std::mem::forget(world.isend_owned(vec![1u8; 100_000], 1, 7).unwrap());
        } else {
            for item in 0..20u32 {
                let mut into = vec![0; 100_000];
                world.recv(&mut into, 0, 0).unwrap();
                assert!(into.iter().all(|&got| got == item));
            }
            world.send(&[55u8], 0, 5).unwrap();
            world.recv(&mut [0u8; 100_000], 0, 7).unwrap();
        }
        world.barrier().unwrap();
    });
}

/// The memory of a send that was dropped is free again when it is complete, not at the end of the rank.
#[test]
#[cfg_attr(
    bowline_sanitize,
    ignore = "under a sanitizer its allocator keeps what is freed for a while"
)]
fn dropped_sends_give_their_memory_back() {
    const SENDS: usize = 40;
    ranks(2, |world| {
        let mut places = std::collections::HashSet::new();
        for _ in 0..SENDS {
            if world.rank() == 0 {
                let items = vec![1u8; 1 << 20];
                places.insert(items.as_ptr().addr());
                drop(world.isend_owned(items, 1, 0).unwrap());
                world.recv(&mut [0u8], 1, 1).unwrap();
            } else {
                world.recv(&mut vec![0u8; 1 << 20], 0, 0).unwrap();
                world.send(&[1u8], 0, 1).unwrap();
            }
        }
        assert!(world.rank() == 1 || places.len() < SENDS, "no memory was used twice");
    });
}

/// A message that is on its way when its receive is dropped lands in memory that nobody else has.
#[test]
fn a_dropped_receive_keeps_its_memory_from_others() {
    const LEN: usize = 4 << 20;
    ranks(2, |world| {
        for _ in 0..10 {
            if world.rank() == 0 {
                let receive = world.irecv_owned(vec![0u8; LEN], 1, 0).unwrap();
                world.send(&[1u8], 1, 2).unwrap();
                // Behind the announcement of the long message, which is matched.
                world.recv(&mut [0u8], 1, 1).unwrap();
                drop(receive);
                let others = vec![9u8; LEN];
                world.recv(&mut [0u8], 1, 3).unwrap();
                assert!(others.iter().all(|&byte| byte == 9), "it landed in another's memory");
            } else {
                world.recv(&mut [0u8], 0, 2).unwrap();
                let send = world.isend_owned(vec![7u8; LEN], 0, 0).unwrap();
                world.send(&[1u8], 0, 1).unwrap();
                send.wait().unwrap();
                world.send(&[1u8], 0, 3).unwrap();
            }
        }
    });
}

#[test]
fn an_owned_receive_gives_what_fits_after_truncation() {
    ranks(1, |world| {
        let mut receive = world.irecv_owned(vec![0u8; 2], 0, 0).unwrap();
        world.send(&[1u8, 2, 3], 0, 0).unwrap();
        assert_eq!(receive.complete(), Err(MpiError::Truncated { message: 3, capacity: 2 }));
        assert_eq!(receive.into_items().unwrap(), [1, 2]);

        let pending = world.irecv_owned(vec![0u8; 2], 0, 1).unwrap();
        let mut pending = pending.into_items().unwrap_err();
        pending.cancel();
        assert_eq!(pending.wait().unwrap_err(), MpiError::Cancelled);
    });
}

#[test]
fn owned_requests_live_in_structs_and_complete_out_of_order() {
    ranks(2, |world| {
        let other = 1 - world.rank();
        let mut inbox: Vec<_> =
            (0..10).map(|tag| world.irecv_owned(vec![0i32; 1], other, tag).unwrap()).collect();
        for tag in (0..10).rev() {
            world.send(&[tag * 3], other, tag).unwrap();
        }
        while let Some((index, outcome)) = wait_any(&mut inbox) {
            assert_eq!(outcome.unwrap().tag(), index as i32);
        }
        for (tag, receive) in (0..).zip(inbox) {
            assert_eq!(receive.wait().unwrap().0, [tag * 3]);
        }
    });
}

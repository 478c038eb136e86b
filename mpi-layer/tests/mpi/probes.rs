//! Probes and matched probes.

use bowline_mpi::{ANY_SOURCE, ANY_TAG, MpiError, PROC_NULL};

use super::start::ranks;

#[test]
fn a_probe_says_what_a_receive_then_gets() {
    ranks(2, |world| {
        if world.rank() == 0 {
            for len in [0usize, 3, 1000, 200_000] {
                world.send(&vec![1u16; len], 1, 9).unwrap();
            }
        } else {
            for len in [0usize, 3, 1000, 200_000] {
                let status = world.probe(ANY_SOURCE, ANY_TAG).unwrap();
                assert_eq!((status.source(), status.tag()), (0, 9));
                assert_eq!(status.count::<u16>(), Some(len));
                let mut into = vec![0u16; len];
                assert_eq!(world.recv(&mut into, status.source(), status.tag()), Ok(status));
            }
            assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG), Ok(None));
        }
    });
}

#[test]
fn iprobe_sees_only_what_would_match() {
    ranks(1, |world| {
        assert_eq!(world.iprobe(0, 1), Ok(None));
        world.send(&[1u8, 2], 0, 1).unwrap();
        let status = loop {
            if let Some(status) = world.iprobe(0, ANY_TAG).unwrap() {
                break status;
            }
        };
        assert_eq!((status.tag(), status.bytes()), (1, 2));
        assert_eq!(world.iprobe(0, 2), Ok(None));
        assert_eq!(world.iprobe(PROC_NULL, 2).unwrap().unwrap().source(), PROC_NULL);
        world.recv(&mut [0u8; 2], 0, 1).unwrap();
    });
}

#[test]
fn a_claimed_message_is_nobody_else_s() {
    ranks(2, |world| {
        if world.rank() == 0 {
            for len in [4usize, 100_000] {
                // The second is received first, so neither send may wait for its own receive.
                let first = world.isend_owned(vec![1u8; len], 1, 0).unwrap();
                world.send(&vec![2u8; len], 1, 0).unwrap();
                first.wait().unwrap();
            }
        } else {
            for len in [4usize, 100_000] {
                let claimed = world.mprobe(0, 0).unwrap();
                assert_eq!(claimed.status().bytes(), len as u64);
                let mut into = vec![0u8; len];
                world.recv(&mut into, 0, 0).unwrap();
                assert!(into.iter().all(|&byte| byte == 2));
                let status = claimed.recv(&mut into).unwrap();
                assert_eq!(status.source(), 0);
                assert!(into.iter().all(|&byte| byte == 1));
            }
        }
    });
}

#[test]
fn a_claimed_message_that_is_dropped_does_not_hold_its_sender() {
    ranks(2, |world| {
        if world.rank() == 0 {
            world.ssend(&[1u8; 10], 1, 0).unwrap();
            world.send(&vec![1u8; 500_000], 1, 0).unwrap();
            world.send(&[3u8], 1, 1).unwrap();
        } else {
            drop(world.mprobe(0, 0).unwrap());
            drop(world.mprobe(0, 0).unwrap());
            world.recv(&mut [0u8], 0, 1).unwrap();
            assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG), Ok(None));
        }
    });
}

#[test]
fn improbe_claims_or_finds_nothing() {
    ranks(1, |world| {
        assert!(world.improbe(0, 0).unwrap().is_none());
        world.send(&[7u32; 3], 0, 0).unwrap();
        let claimed = loop {
            if let Some(claimed) = world.improbe(ANY_SOURCE, 0).unwrap() {
                break claimed;
            }
        };
        let mut into = [0u32; 2];
        assert_eq!(claimed.recv(&mut into), Err(MpiError::Truncated { message: 12, capacity: 8 }));
        assert_eq!(into, [7, 7]);
        let nobody = world.mprobe(PROC_NULL, 0).unwrap();
        assert_eq!(nobody.recv(&mut into).unwrap().source(), PROC_NULL);
    });
}

//! The layout as it is written down, damaged headers, attaching, deaths and processors. Both
//! sides of a memory are mappings of one process; doorbells have their own tests.

use std::os::fd::OwnedFd;

use super::*;

const SPEC: JobSpec = JobSpec { job_id: 7, ranks: 70, first_rank: 100, area_bytes: 5000 };

fn again(job: &JobMemory) -> OwnedFd {
    job.region().fd().expect("a memfd job").try_clone_to_owned().unwrap()
}

#[test]
fn the_shared_layout_is_as_written() {
    assert_eq!(size_of::<ControlBlock>(), 7 * 64);
    assert_eq!(align_of::<ControlBlock>(), 64);
    assert_eq!(std::mem::offset_of!(ControlBlock, doorbell), 64);
    assert_eq!(std::mem::offset_of!(ControlBlock, intent), 128);
    assert_eq!(std::mem::offset_of!(ControlBlock, waiting), 192);
    assert_eq!(std::mem::offset_of!(ControlBlock, space_wanted), 256);
    assert_eq!(std::mem::offset_of!(ControlBlock, waiting_on), 320);
    assert_eq!(std::mem::offset_of!(ControlBlock, processor), 384);
    assert_eq!(std::mem::offset_of!(Header, wake_token), 56);
    assert_eq!(std::mem::offset_of!(Header, death_generation), 64);
    assert_eq!(std::mem::offset_of!(Header, processors), 128);
    assert_eq!(size_of::<Header>(), 256);
}

#[test]
fn both_sides_agree_on_every_place() {
    let made = JobMemory::create_memfd(&SPEC).unwrap();
    let opened = JobMemory::open(again(&made)).unwrap();
    assert_eq!((opened.id(), opened.ranks(), opened.area_bytes()), (7, 70, 8192));
    assert_eq!(opened.node_id(), made.node_id());
    assert_eq!(opened.0.wake_token, made.0.wake_token);
    assert_ne!(opened.0.wake_token, made.node_id());
    for local in 0..70 {
        let control = made.control(local).unwrap();
        assert_eq!(control.identity.world_rank.load(Ordering::Relaxed), 100 + local);
        control.intent.store(u64::from(local) + 1, Ordering::Relaxed);
        assert_eq!(made.area(local).unwrap().as_ptr() as usize % PAGE, 0);
        assert_eq!(made.area(local).unwrap().len(), 8192);
        made.area(local).unwrap().slice(8190, 2).unwrap().copy_in(&[local as u8, 1]);
    }
    for local in 0..70 {
        let control = opened.control(local).unwrap();
        assert_eq!(control.intent.load(Ordering::Relaxed), u64::from(local) + 1);
        let area = opened.area(local).unwrap().to_vec();
        assert!(area[..8190].iter().all(|&b| b == 0));
        assert_eq!(area[8190..], [local as u8, 1]);
    }
    assert!(opened.control(70).is_none() && opened.area(70).is_none());
    let other = JobMemory::create_private(&SPEC).unwrap();
    assert_ne!(other.node_id(), made.node_id());
}

#[test]
fn impossible_specifications_are_refused() {
    let spec = |ranks, area_bytes| JobSpec { job_id: 1, ranks, first_rank: 0, area_bytes };
    let refused = |spec| JobMemory::create_private(&spec).unwrap_err();
    assert!(matches!(refused(spec(0, 1)), JobError::Ranks(0)));
    assert!(matches!(refused(spec(MAX_LOCAL_RANKS + 1, 1)), JobError::Ranks(_)));
    assert!(matches!(refused(spec(2, usize::MAX)), JobError::AreaBytes { .. }));
    assert!(matches!(refused(spec(2, usize::MAX / 2)), JobError::AreaBytes { .. }));
    assert!(JobMemory::create_private(&spec(2, 0)).unwrap().area(1).unwrap().is_empty());
}

#[test]
fn damaged_headers_are_refused() {
    let damage = |at: &dyn Fn(&Header)| {
        let job = JobMemory::create_memfd(&SPEC).unwrap();
        at(job.header());
        JobMemory::open(again(&job)).map(|_| ())
    };
    assert!(damage(&|_| ()).is_ok());
    assert!(matches!(damage(&|h| h.magic.store(1, Ordering::Relaxed)), Err(JobError::NotAJob)));
    assert!(matches!(
        damage(&|h| h.version.store(9, Ordering::Relaxed)),
        Err(JobError::Version { found: 9 })
    ));
    for ranks in [0, 69, 71, u32::MAX] {
        let outcome = damage(&|h| h.ranks.store(ranks, Ordering::Relaxed));
        assert!(matches!(outcome, Err(JobError::Damaged(_))), "{ranks} ranks");
    }
    for bytes in [0, 8191, 4096, u64::MAX, 1 << 62] {
        let outcome = damage(&|h| h.area_bytes.store(bytes, Ordering::Relaxed));
        assert!(matches!(outcome, Err(JobError::Damaged(_))), "{bytes} bytes");
    }
    let outcome = damage(&|h| h.control_bytes.store(64, Ordering::Relaxed));
    assert!(matches!(outcome, Err(JobError::Damaged(_))));
    let small = Region::create_memfd("bowline-test", 64).unwrap();
    let fd = small.fd().unwrap().try_clone_to_owned().unwrap();
    assert!(matches!(JobMemory::open(fd), Err(JobError::NotAJob)));
}

#[test]
fn a_damaged_header_moves_nothing_once_opened() {
    let job = JobMemory::create_memfd(&SPEC).unwrap();
    let before = job.area(69).unwrap().as_ptr();
    job.header().ranks.store(u32::MAX, Ordering::Relaxed);
    job.header().area_bytes.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(job.area(69).unwrap().as_ptr(), before);
    assert!(job.area(70).is_none() && job.control(u32::MAX).is_none());
}

#[test]
fn deaths_are_counted_once_and_listed_in_order() {
    let job = JobMemory::create_memfd(&SPEC).unwrap();
    let peer = JobMemory::open(again(&job)).unwrap();
    let before = peer.death_generation();
    assert_eq!(peer.dead().count(), 0);
    for local in [69, 3, 64, 3, 70, u32::MAX] {
        job.mark_dead(local);
    }
    assert_eq!(peer.dead().collect::<Vec<_>>(), [3, 64, 69]);
    assert!(peer.is_dead(64) && !peer.is_dead(63) && !peer.is_dead(70));
    assert_eq!(peer.death_generation().wrapping_sub(before), 3);
}

#[test]
fn a_rank_attaches_once_and_finalises() {
    let job = JobMemory::create_private(&SPEC).unwrap();
    let control = job.control(5).unwrap();
    assert_eq!(control.state(), Some(RankState::Empty));
    assert_eq!(control.identity(), None);
    let instance = job.attach(5).unwrap();
    let identity = control.identity().unwrap();
    assert_eq!(identity.state, RankState::Attached);
    assert_eq!((identity.pid, identity.instance), (std::process::id(), instance));
    assert_eq!(
        (identity.start_time, identity.world_rank),
        (start_time_of(identity.pid).unwrap(), 105)
    );
    assert!(matches!(job.attach(5), Err(JobError::Occupied { local: 5, .. })));
    assert!(matches!(job.attach(70), Err(JobError::NoSuchRank { local: 70, ranks: 70 })));
    assert_ne!(job.attach(6).unwrap(), instance);
    job.finalize(5);
    assert_eq!(control.state(), Some(RankState::Finalized));
    control.identity.state.store(77, Ordering::Relaxed);
    assert_eq!((control.state(), control.identity()), (None, None));
}

#[test]
fn processors_of_all_ranks_count_once() {
    let job = JobMemory::create_private(&SPEC).unwrap();
    assert_eq!(job.processors(), 0);
    job.add_processors([0, 1, 63, 64, 1023]);
    job.add_processors([1, 64, 65, 1024, usize::MAX]);
    assert_eq!(job.processors(), 6);
}

#[test]
fn deaths_on_other_nodes_are_noted_by_rank_of_the_job() {
    let job = JobMemory::create_memfd_of_node(&SPEC, 200).unwrap();
    let peer = JobMemory::open(again(&job)).unwrap();
    let before = peer.death_generation();
    for rank in [199, 0, 64, 0, 200, u32::MAX] {
        job.mark_dead_elsewhere(rank);
    }
    job.mark_dead(2);
    assert_eq!(peer.dead_elsewhere().collect::<Vec<_>>(), [0, 64, 199]);
    assert_eq!(peer.dead().collect::<Vec<_>>(), [2]);
    assert_eq!(peer.death_generation().wrapping_sub(before), 4);
    // The bitmaps do not reach into the control blocks.
    assert!((0..70).all(|l| peer.control(l).unwrap().identity.pid.load(Ordering::Relaxed) == 0));
    let alone = JobMemory::create_memfd(&SPEC).unwrap();
    alone.mark_dead_elsewhere(0);
    assert_eq!((alone.dead_elsewhere().count(), alone.death_generation()), (0, 0));
    job.header().job_ranks.store(u32::MAX, Ordering::Relaxed);
    assert!(matches!(JobMemory::open(again(&job)), Err(JobError::Damaged(_))));
    assert!(JobMemory::create_memfd_of_node(&SPEC, MAX_JOB_RANKS + 1).is_err());
}

#[test]
fn who_has_left_is_known_and_is_not_dead() {
    let job = JobMemory::create_private(&JobSpec {
        job_id: 1,
        ranks: 70,
        first_rank: 0,
        area_bytes: 4096,
    })
    .expect("70 ranks fit");
    let before = job.death_generation();
    for local in [0, 63, 64, 69] {
        job.mark_left(local);
        job.mark_left(local);
    }
    job.mark_left(70);
    job.mark_dead(5);
    assert_eq!(job.left().collect::<Vec<_>>(), [0, 63, 64, 69]);
    assert_eq!(job.dead().collect::<Vec<_>>(), [5]);
    assert_ne!(job.death_generation(), before, "a poll of it notices");
}

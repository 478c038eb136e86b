//! What a sender does while its receiver is in the midst of a poll: at each of its accesses to its
//! own memory, a whole first message, introduction and all, comes between.

use std::sync::{Arc, Mutex};

use super::bare::WithoutMessages;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::conformance::harness::Recorder;
use bowline_uct::{AmId, Iface, PostError};

/// Accesses of a receiver's polls that are tried; more than there are in two of them.
const ACCESSES: u32 = 40;

fn race(form: QueueForm, access: u32) -> bool {
    let shm = ShmOptions::default();
    let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes: shm.area_bytes() };
    let job = JobMemory::create_private(&spec).expect("memory for a test");
    let options = QueueOptions { form, slots: 16, peers: 4, rings: 2 };
    let bare = |rank| {
        let iface = ShmIface::open(job.clone(), rank, shm.clone()).expect("a fresh rank");
        WithoutMessages::new(iface)
    };
    let receiving = bare(0);
    let beside = receiving.beside();
    let mut receiver = QueueLane::open(Box::new(receiving), &options, 0).expect("it opens");
    let sender = QueueLane::open(Box::new(bare(1)), &options, 1).expect("it opens");
    let sender = Arc::new(Mutex::new(sender));
    let posts = Arc::clone(&sender);
    let to = receiver.address();
    let first = move || {
        let mut lane = posts.lock().expect("nobody else posts now");
        let ep = lane.connect(&to).expect("reachable");
        lane.am_short(ep, AmId::new(1), &[1, 2, 3], b"first").expect("there is space");
    };
    *beside.lock().expect("nothing happens yet") = Some((access, Box::new(first)));
    let mut seen = Recorder::default();
    let mut met = false;
    for _ in 0..20 {
        receiver.progress(&mut seen, 16);
        // Sends again at once, so that a second message would show a first that was lost.
        let mut lane = sender.lock().expect("nothing happens beside");
        lane.progress(&mut Recorder::default(), 16);
        met |= beside.lock().expect("nothing happens beside").is_none();
    }
    if !met {
        return false;
    }
    // It may have come beside the last poll.
    for _ in 0..3 {
        receiver.progress(&mut seen, 16);
        sender.lock().expect("nothing happens beside").progress(&mut Recorder::default(), 16);
    }
    assert_eq!(receiver.stats().unknown_senders, 0, "{form:?}, access {access}");
    assert_eq!(receiver.stats().received, 1, "{form:?}, access {access}");
    let mut lane = sender.lock().expect("nothing happens beside");
    let to = receiver.address();
    let ep = lane.connect(&to).expect("still well");
    assert_ne!(lane.am_short(ep, AmId::new(1), &[4, 5, 6], b"next"), Err(PostError::PeerFailed));
    true
}

#[test]
fn a_first_message_between_any_two_accesses_is_received() {
    let forms = [QueueForm::Scmp, QueueForm::Ring, QueueForm::ScmpRings, QueueForm::ScmpSeq];
    for form in forms {
        let met = (0..ACCESSES).filter(|&access| race(form, access)).count();
        assert!(met >= 10, "{form:?}: only {met} accesses were met");
    }
}

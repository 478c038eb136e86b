//! A rank that sends and leaves, while its receiver is busy elsewhere for longer than any transport
//! waits in its drop: what was sent arrives.

use std::time::Duration;

use bowline_uct::conformance::skipped;

use crate::common::within_two_minutes;

/// More than a receive queue holds, and fewer than eager credit allows.
const COUNT: u32 = 700;

/// Longer than lanes that are dropped give their last messages.
const BUSY: Duration = Duration::from_secs(4);

fn leaves_early(settings: &[(&str, &str)]) {
    let mut config = bowline::config_from_env().expect("good settings");
    for (name, value) in settings {
        config.set_text(name, value).expect("a good setting");
    }
    bowline::threads_with(2, &config, |world| {
        let mut word = [0u32];
        if world.rank() == 0 {
            // They know each other when it comes to it.
            world.send(&word, 1, 1).expect("rank 1 lives");
            world.recv(&mut word, 1, 1).expect("rank 1 lives");
            for i in 0..COUNT {
                world.send(&[i], 1, 2).expect("rank 1 lives");
            }
            return;
        }
        world.recv(&mut word, 0, 1).expect("rank 0 lives");
        world.send(&word, 0, 1).expect("rank 0 lives");
        std::thread::sleep(BUSY);
        for i in 0..COUNT {
            let got = world.recv(&mut word, 0, 2);
            got.unwrap_or_else(|error| panic!("{settings:?}, message {i}: {error}"));
            assert_eq!(word, [i], "messages of one tag keep their order");
        }
    })
    .expect("two ranks fit into memory");
}

/// All receive queues over a transport, and the transport alone, at the same time.
fn over(more: &'static [(&'static str, &'static str)]) {
    within_two_minutes("ranks that leave early", || {
        std::thread::scope(|scope| {
            for form in ["auto", "scmp", "ring", "scmp-rings", "scmp-seq"] {
                let mut settings = more.to_vec();
                settings.push(("BOWLINE_RECV_QUEUE", form));
                scope.spawn(move || leaves_early(&settings));
            }
        });
    });
}

#[test]
fn over_shared_memory() {
    over(&[("BOWLINE_TRANSPORTS", "self,shm")]);
}

#[test]
fn over_tcp() {
    over(&[("BOWLINE_TRANSPORTS", "self,tcp")]);
}

/// A rank that waits beside a thread which makes progress for it hears of nothing that happens in a
/// socket.
#[test]
fn beside_a_progress_thread() {
    over(&[("BOWLINE_TRANSPORTS", "self,tcp"), ("BOWLINE_PROGRESS", "thread")]);
}

#[test]
fn over_libfabric() {
    if !cfg!(feature = "ofi") {
        return skipped("this build has no libfabric; build with --features ofi");
    }
    over(&[("BOWLINE_TRANSPORTS", "self,ofi"), ("BOWLINE_OFI_PROVIDER", "tcp")]);
}

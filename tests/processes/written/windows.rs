//! Windows of short messages among three ranks, to receives that are announced: one rank is killed in the midst of a window, and
//! the others go on.

use bowline::mpi::{MpiError, World};

use super::{SHORT, VICTIM, WORD};
use crate::kill::{dead, die};
use crate::transports::in_guest;

/// The tag of the messages.
const DATA: i32 = 101;

/// Messages of a window between each two ranks, in each direction.
const WINDOW: u32 = 12;

/// Windows of a job. The victim is killed in the midst of the one after half of them.
fn windows() -> u32 {
    if in_guest() { 20 } else { 60 }
}

/// A message of the windows: of 4 to 1000 bytes, which nobody else sends.
fn window_message(sender: i32, number: u32) -> Vec<u32> {
    vec![(sender as u32) << 16 | number; SHORT[number as usize % SHORT.len()] / 4]
}

/// What two ranks have exchanged.
struct Partner {
    rank: i32,
    lives: bool,
    /// The next message from it.
    next: u32,
}

impl Partner {
    /// Whether a call succeeded. If not, the partner is the victim, of which nothing succeeds any more.
    fn heed<T: std::fmt::Debug>(&mut self, outcome: Result<T, MpiError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            failed => {
                assert_eq!(self.rank, VICTIM, "{failed:?}");
                dead(failed);
                self.lives = false;
                None
            }
        }
    }
}

/// Three ranks exchange windows of short messages. All receives of a window are posted, and in every other window each knows
/// that the others' are, so that all messages are written to announced receives; otherwise announcements cross messages.
pub(super) fn exchange(world: &World) {
    let others = (0..world.size()).filter(|&rank| rank != world.rank());
    let mut partners: Vec<_> = others.map(|rank| Partner { rank, lives: true, next: 0 }).collect();
    for window in 0..windows() {
        exchange_window(world, &mut partners, window);
    }
    for partner in &partners {
        let (rank, next) = (partner.rank, partner.next);
        match rank == VICTIM {
            true => {
                assert!(
                    next <= windows() / 2 * WINDOW + WINDOW / 2,
                    "it was killed before message {next}"
                );
                dead(world.recv(&mut [0_u32], rank, WORD));
                dead(world.send(&[0_u32], rank, WORD));
            }
            false => assert_eq!(next, windows() * WINDOW, "messages of rank {rank}"),
        }
    }
}

fn exchange_window(world: &World, partners: &mut [Partner], window: u32) {
    let me = world.rank();
    let numbers = window * WINDOW..(window + 1) * WINDOW;
    let out: Vec<_> = numbers.map(|number| window_message(me, number)).collect();
    let mut into = vec![[[0_u32; 250]; WINDOW as usize]; partners.len()];
    let ended = world.scope(|scope| {
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        for (at, (partner, into)) in partners.iter_mut().zip(&mut into).enumerate() {
            for items in into {
                let receive = scope.irecv(world, items, partner.rank, DATA);
                receives.extend(partner.heed(receive).map(|receive| (at, receive)));
            }
        }
        if window.is_multiple_of(2) {
            for partner in partners.iter_mut().filter(|partner| partner.lives) {
                partner.heed(world.send(&[0_u32], partner.rank, WORD));
            }
            for partner in partners.iter_mut().filter(|partner| partner.lives) {
                partner.heed(world.recv(&mut [0_u32], partner.rank, WORD));
            }
        }
        for (number, items) in (0..).zip(&out) {
            if (me, window, number) == (VICTIM, windows() / 2, WINDOW / 2) {
                die();
            }
            for (at, partner) in partners.iter_mut().enumerate() {
                let send = scope.isend(world, items, partner.rank, DATA);
                sends.extend(partner.heed(send).map(|send| (at, send)));
            }
        }
        let mut failed = vec![false; partners.len()];
        for (at, receive) in receives {
            let partner = &mut partners[at];
            let Some(received) = partner.heed(receive.wait()) else {
                failed[at] = true;
                continue;
            };
            let expected = window_message(partner.rank, partner.next);
            assert!(!failed[at], "message {} behind one that has failed", partner.next);
            assert_eq!(received.status.count::<u32>(), Some(expected.len()), "other lengths");
            assert_eq!(received.items[..expected.len()], expected, "other bytes");
            assert!(
                received.items[expected.len()..].iter().all(|&item| item == 0),
                "bytes behind it"
            );
            partner.next += 1;
        }
        for (at, send) in sends {
            partners[at].heed(send.wait());
        }
        Ok(())
    });
    ended.expect("each message has its own end");
}

//! The locked queue over a simulated network.

use bowline_base::view::View;
use bowline_sim::{Faults, Network, NetworkOptions};

use super::*;

#[test]
fn the_word_keeps_generation_holder_and_offset_apart() {
    for offset_ in [0, 1, 0x8000] {
        for sender in [0, 1, 0xfffe] {
            let word = 0xffff_ffff << 32 | offset_;
            let taken = held(word, sender);
            assert_ne!(taken, word);
            assert_eq!((free(taken), free(word)), (word, word));
            assert_eq!((u64::from(offset(taken)), generation(taken)), (offset_, u32::MAX));
        }
    }
}

#[derive(Default)]
struct Seen(Vec<(u32, u64, Vec<u8>)>);

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.0.push((arrival.source.0, arrival.header[0], arrival.payload.to_vec()));
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("nobody dies: {how}");
    }
}

fn payload(sender: usize, number: u64) -> Vec<u8> {
    let len = [0, 8, 32, 33, 100, 300][(number as usize + sender) % 6];
    vec![(number as usize * 7 + sender) as u8; len]
}

/// Messages of several senders come whole and in order through a queue that is full again and again, where
/// puts overtake each other, too.
#[test]
fn messages_come_whole_and_in_order() {
    const MESSAGES: u64 = 200;
    for ordered in [true, false] {
        let network = Network::new(NetworkOptions {
            seed: 3,
            jitter_ns: 3000,
            puts_ordered: ordered,
            put_before_atomic: ordered,
            faults: Faults { reorder: 200_000, reorder_ns: 9000, ..Faults::default() },
            ..NetworkOptions::default()
        });
        let open = |n| LockedLane::open(Box::new(network.open()), 32, n).expect("it opens");
        let mut lanes: Vec<LockedLane> = (0..4).map(open).collect();
        let to = lanes[0].address();
        let eps: Vec<EpId> =
            lanes[1..].iter_mut().map(|lane| lane.connect(&to).expect("reachable")).collect();
        let (mut seen, mut posted) = (Seen::default(), [0; 3]);
        for _ in 0..200_000 {
            for sender in 0..3 {
                let lane = &mut lanes[sender + 1];
                let (number, bytes) = (posted[sender], payload(sender, posted[sender]));
                if number < MESSAGES {
                    let header = [number, 0, 0];
                    let pack = &mut |space: View<'_>| space.copy_in(&bytes);
                    match lane.am_bcopy(eps[sender], AmId::new(1), &header, bytes.len(), pack) {
                        Ok(_) => posted[sender] += 1,
                        Err(error) => assert_eq!(error, PostError::NoResource),
                    }
                }
                lane.progress(&mut Seen::default(), 16);
            }
            lanes[0].progress(&mut seen, 5);
            network.advance();
            if seen.0.len() == 3 * MESSAGES as usize {
                break;
            }
        }
        for sender in 0..3 {
            let of = seen.0.iter().filter(|(source, ..)| *source == sender as u32 + 1);
            let of = of.map(|(_, number, bytes)| (*number, bytes.clone()));
            assert!(of.eq((0..MESSAGES).map(|number| (number, payload(sender, number)))));
        }
    }
}

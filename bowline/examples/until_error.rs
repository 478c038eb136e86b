//! Ranks that send to each other and check what comes, for a number of rounds or until an error.
//!
//! Each round is a ring of messages from 1 byte to 1 MiB and a sum over all ranks. With a number
//! as argument it says when it begins one and ends after so many; without one it goes on until a peer dies or cannot
//! be reached any more, says what it got, and ends with that.

use std::process::ExitCode;

use bowline::mpi::{MpiError, Sum, World};

/// Bytes of the messages of a round: short, eager and fetched ones.
const LENGTHS: [usize; 6] = [1, 64, 3000, 9000, 100_000, 1 << 20];

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let rounds: Option<u32> = std::env::args().nth(1).map(|word| word.parse()).transpose()?;
    let world = bowline::init()?;
    let rank = world.rank();
    let mut buffers = Buffers::default();
    for round in 0.. {
        if Some(round) == rounds {
            println!("rank {rank} has done {round} rounds");
            break;
        }
        if round == 3 {
            println!("rank {rank} goes on");
        }
        if rounds.is_some() {
            println!("rank {rank} begins round {round}");
        }
        if let Err(error) = buffers.round(&world, round) {
            println!("rank {rank} got an error in round {round}: {error}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Buffers {
    out: Vec<u8>,
    into: Vec<u8>,
}

impl Buffers {
    fn round(&mut self, world: &World, round: u32) -> Result<(), MpiError> {
        let (rank, size) = (world.rank(), world.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        for length in LENGTHS {
            self.out.clear();
            self.out.extend((0..length).map(|at| sample(rank as u64, round, at)));
            self.into.clear();
            self.into.resize(length, 0);
            world.sendrecv(&self.out, right, 7, &mut self.into, left, 7)?;
            let wrong = (0..length).find(|&at| self.into[at] != sample(left as u64, round, at));
            assert_eq!(wrong, None, "rank {rank}: a wrong byte in a message of {length}");
        }
        let mut sum = [0u64];
        world.allreduce(&[rank as u64 + 1], &mut sum, Sum)?;
        let size = size as u64;
        assert_eq!(sum[0], size * (size + 1) / 2, "rank {rank}: a wrong sum");
        Ok(())
    }
}

/// The byte at a place of a message.
fn sample(rank: u64, round: u32, at: usize) -> u8 {
    (rank * 31 + u64::from(round) * 7 + at as u64 * 13 % 251) as u8
}

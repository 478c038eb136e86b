//! Ranks that send to each other and check what comes, for a number of rounds or until an error.
//!
//! Each round is a ring of messages from 1 byte to 1 MiB and a sum over all ranks. With a number
//! as argument it says when it begins one and ends after so many; without one it goes on until a peer dies or cannot
//! be reached any more, says what it got, and ends with that. With `late` it then fills the memory of its
//! receives, goes on with progress for some seconds, in which the network may come back, and checks whether
//! somebody has written there.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bowline::mpi::{MpiError, Sum, World};

/// Bytes of the messages of a round: short, eager and fetched ones.
const LENGTHS: [usize; 6] = [1, 64, 3000, 9000, 100_000, 1 << 20];

/// What nobody sends so often in a row.
const PATTERN: u8 = 0xaa;
/// For how long late writes are waited for.
const WATCH: Duration = Duration::from_secs(20);

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1);
    let late = word.as_deref() == Some("late");
    let rounds: Option<u32> = word.filter(|_| !late).map(|word| word.parse()).transpose()?;
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
            if late {
                buffers.into.resize(1 << 20, 0);
                buffers.into.fill(PATTERN);
            }
            println!("rank {rank} got an error in round {round}: {error}");
            if late {
                buffers.watch(&world);
                println!("rank {rank} has its memory to itself");
            }
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
    /// Makes progress for a while and checks that nobody writes to the memory of receives.
    fn watch(&self, world: &World) {
        let end = Instant::now() + WATCH;
        while Instant::now() < end {
            world.progress();
            std::thread::sleep(Duration::from_millis(1));
        }
        let written = self.into.iter().filter(|&&byte| byte != PATTERN).count();
        assert_eq!(written, 0, "rank {}: bytes written after the error", world.rank());
    }

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

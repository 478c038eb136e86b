//! Point-to-point messages through the MPI layer's safe interface.

use anyhow::Result;
use bowline::mpi::World;

use super::Kind;
use super::drive::{self, Carried, PingPong, Stream};
use super::figure::Figure;
use super::payload::{self, Buffer};
use super::plan::Plan;

const DATA: i32 = 1;
const ANSWER: i32 = 2;

/// Measures.
///
/// # Errors
/// When the peer fails or a payload is damaged.
pub(crate) fn measure(world: &World, plan: &Plan) -> Result<Figure> {
    let rank = world.rank() as u32;
    let mut side = Side {
        world,
        peer: (world.rank() + 1) % world.size(),
        out: Buffer::new(plan.size),
        into: Buffer::new(plan.size * plan.slots()),
        size: plan.size,
        window: plan.window,
        slots: plan.slots(),
        late: plan.test.receives_late(),
    };
    world.barrier()?;
    let samples = match plan.kind() {
        Kind::Windows => drive::stream(plan, rank, &mut side)?,
        _ => drive::ping_pong(plan, rank, &mut side)?,
    };
    Ok(Figure::new(plan, &samples))
}

struct Side<'a> {
    world: &'a World,
    peer: i32,
    out: Buffer,
    /// Slots, one after the other.
    into: Buffer,
    size: usize,
    window: usize,
    slots: usize,
    /// Whether a receive is started when its message has come, and not before.
    late: bool,
}

impl Side<'_> {
    #[inline]
    fn receive_one(&mut self) -> Result<()> {
        if self.late {
            self.world.probe(self.peer, DATA)?;
        }
        self.world.recv(self.into.bytes_mut(), self.peer, DATA)?;
        Ok(())
    }
}

impl PingPong for Side<'_> {
    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<()> {
        Ok(self.world.send(self.out.bytes(), self.peer, DATA)?)
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        self.receive_one()
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        payload::is_stamped(self.into.bytes(), sequence)
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        payload::check(self.into.bytes(), seed)
    }
}

impl Stream for Side<'_> {
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    fn send_window(&mut self) -> Result<()> {
        let (world, out) = (self.world.communicator(), self.out.bytes());
        // The scope waits for all its operations.
        world.scope(|scope| {
            for _ in 0..self.window {
                drop(scope.isend(world, out, self.peer, DATA)?);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn await_answer(&mut self) -> Result<()> {
        self.world.recv::<u8>(&mut [], self.peer, ANSWER)?;
        Ok(())
    }

    fn receive_window(&mut self, carried: Carried) -> Result<()> {
        let mut left = self.window;
        if self.slots == 1 {
            for _ in 0..left {
                self.receive_one()?;
                carried.check(self.into.bytes())?;
            }
            return Ok(());
        }
        let (world, peer, size) = (self.world.communicator(), self.peer, self.size);
        while left > 0 {
            let (mut rest, count) = (self.into.bytes_mut(), self.slots.min(left));
            world.scope(|scope| {
                for _ in 0..count {
                    let (slot, behind) = rest.split_at_mut(size);
                    rest = behind;
                    drop(scope.irecv(world, slot, peer, DATA)?);
                }
                Ok(())
            })?;
            left -= count;
        }
        let mut all = self.into.bytes().chunks_exact(size.max(1));
        all.try_for_each(|message| carried.check(message))
    }

    fn answer(&mut self) -> Result<()> {
        Ok(self.world.send::<u8>(&[], self.peer, ANSWER)?)
    }
}

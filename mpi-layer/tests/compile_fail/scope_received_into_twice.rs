//! Two receives are under way into one buffer.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<(), MpiError> {
    let mut into = [0u8; 8];
    world.scope(|s| {
        let first = s.irecv(world, &mut into, 0, 0)?;
        let second = s.irecv(world, &mut into, 0, 1)?; //~ E0499 cannot borrow `into` as mutable more than once
        first.wait()?;
        second.wait()?;
        Ok(())
    })
}

fn main() {
    let _ = receive;
}

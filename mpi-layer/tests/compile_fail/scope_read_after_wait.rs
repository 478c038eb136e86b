//! After `wait` the buffer is what `wait` lends; by its own name it is free after the scope only.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<u8, MpiError> {
    let mut into = [0u8; 8];
    world.scope(|s| {
        s.irecv(world, &mut into, 0, 0)?.wait()?;
        Ok(into[0]) //~ E0503 cannot use `into[_]` because it was mutably borrowed
    })
}

fn main() {
    let _ = receive;
}

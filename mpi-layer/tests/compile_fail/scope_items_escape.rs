//! What `wait` lends is kept beyond the scope, beside the buffer itself.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<u8, MpiError> {
    let mut into = [0u8; 8];
    let lent = world.scope(|s| Ok(s.irecv(world, &mut into, 0, 0)?.wait()?.items))?;
    into[0] = 1;
    Ok(lent[0])
}

fn main() {
    let _ = receive;
}

//! What `wait` lends is kept beyond the scope, beside the buffer itself.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<u8, MpiError> {
    let mut into = [0u8; 8];
    let lent = world.scope(|s| Ok(s.irecv(world, &mut into, 0, 0)?.wait()?.items))?;
    //~^ lifetime may not live long enough
    into[0] = 1; //~ E0506 cannot assign to `into[_]` because it is borrowed
    Ok(lent[0])
}

fn main() {
    let _ = receive;
}

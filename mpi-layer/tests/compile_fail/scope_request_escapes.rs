//! A request is returned from its scope.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<(), MpiError> {
    let mut into = [0u8; 8];
    let request = world.scope(|s| s.irecv(world, &mut into, 0, 0))?;
    //~^ lifetime may not live long enough
    request.wait()?;
    Ok(())
}

fn main() {
    let _ = receive;
}
